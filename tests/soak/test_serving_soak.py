"""The service for long: no memory and no file is lost over 10,000 requests, twenty kills lose no answer."""

import http.client
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn")
sys.path.insert(0, str(Path(__file__).parents[1] / "jobs"))
from scoring_service import JSON, ScoringService, chat

pytestmark = pytest.mark.soak
REQUESTS, CLIENTS, KILLS = 10_000, 8, 20


def resident(process: int) -> int:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def files_of(process: int) -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def body_of(number: int) -> bytes:
    """Make one of 500 requests, now and then one that is refused."""
    if number % 50 == 7:
        return b'{"dialogues": [{"messages": '
    number %= 500
    texts = [f"{word} number {number}, is it not?" for word in ("Jazz", "Blues", "Rock", "Folk")]
    return json.dumps({"dialogues": [chat(*texts, name=f"c{number}")]}).encode()


class Asker(threading.Thread):
    """Asks for its share of the requests, with a new connection every hundred of them."""

    def __init__(self, service: ScoringService, numbers: range) -> None:
        super().__init__()
        self.service, self.numbers, self.wrong = service, numbers, list[Any]()

    def run(self) -> None:
        connection = self.service.connect()
        for count, number in enumerate(self.numbers):
            if count % 100 == 99:
                connection.close()
                connection = self.service.connect()
            connection.request("POST", "/score", body_of(number), {"Content-Type": JSON})
            answer = connection.getresponse()
            answer.read()
            if answer.status != (400 if number % 50 == 7 else 200):
                self.wrong.append((number, answer.status))
        connection.close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="files and memory are read from /proc")
def test_ten_thousand_requests_leave_nothing_behind() -> None:
    with ScoringService("-m", "turn-quality", "-m", "repetition") as service:
        seen = []
        part = REQUESTS // 10
        for step in range(10):
            askers = [
                Asker(service, range(step * part + one, (step + 1) * part, CLIENTS)) for one in range(CLIENTS)
            ]
            for one in askers:
                one.start()
            for one in askers:
                one.join()
            assert [one.wrong for one in askers] == [[]] * CLIENTS
            time.sleep(0.5)  # the last connections are closed
            seen.append((resident(service.process.pid), files_of(service.process.pid)))
        memory = [round(size / (1 << 20)) for size, _ in seen]
        print(f"\n{REQUESTS} requests: memory {memory} MB, files {[count for _, count in seen]}")
        assert memory[-1] <= 1.05 * memory[1]  # the first thousand fill the caches
        assert seen[-1][1] <= seen[0][1] + 1
        assert service.figure("dialeval_queue_requests") == 0


class Sender(threading.Thread):
    """Asks until the service is killed, and keeps every answer."""

    def __init__(self, service: ScoringService, seed: int) -> None:
        super().__init__()
        self.service, self.chance = service, random.Random(seed)
        self.sent, self.answers, self.odd = 0, list[tuple[int, Any]](), list[Any]()

    def run(self) -> None:
        connection = self.service.connect()
        try:
            while True:
                number = self.chance.randrange(500) // 50 * 50
                self.sent += 1
                connection.request("POST", "/score", body_of(number), {"Content-Type": JSON})
                answer = connection.getresponse()
                found = json.loads(answer.read())
                if answer.status == 200:
                    self.answers.append((number, found["dialogues"]))
                else:
                    self.odd.append((answer.status, found))
        except (OSError, http.client.HTTPException):
            connection.close()


def values(dialogues: Any) -> list[tuple[Any, ...]]:
    return [
        (row["turn"], row["dimension"], pytest.approx(row["value"], abs=1e-5))
        for row in dialogues[0]["scores"]
    ]


def test_twenty_kills_under_load() -> None:
    """Every acknowledged answer is whole and right: equal to that of a service that nobody killed."""
    chance, kept, sent, starts, port = random.Random(0), [], 0, [], 0
    for kill in range(KILLS):
        began = time.perf_counter()
        service = ScoringService("-m", "turn-quality", "--port", str(port))
        starts.append(time.perf_counter() - began)
        port = service.port
        senders = [Sender(service, kill * CLIENTS + one) for one in range(CLIENTS)]
        for one in senders:
            one.start()
        while not any(one.answers for one in senders):
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.5))
        service.end(signal.SIGKILL)
        for one in senders:
            one.join()
            assert one.odd == []
            kept += one.answers
            sent += one.sent
    with ScoringService("-m", "turn-quality", "--port", str(port)) as service:
        right = {number: service.post(body_of(number)).json["dialogues"] for number in range(0, 500, 50)}
    wrong = [number for number, found in kept if [*map(tuple, rows(found))] != values(right[number])]
    print(f"\n{KILLS} kills: {sent} sent, {len(kept)} acknowledged, {len(wrong)} of them wrong or cut")
    print(f"start: median {sorted(starts)[KILLS // 2]:.2f} s, longest {max(starts):.2f} s")
    assert wrong == [] and len(kept) > KILLS


def rows(dialogues: Any) -> list[tuple[Any, ...]]:
    return [(row["turn"], row["dimension"], row["value"]) for row in dialogues[0]["scores"]]


def test_schemathesis_for_long(tmp_path: Path) -> None:
    pytest.importorskip("schemathesis")
    from test_serving_schema import explore

    with ScoringService("-m", "turn-quality", "-m", "repetition", "-m", "length") as service:
        print(explore(service, tmp_path, 500, "--max-time", "300")[-1500:])
        print(f"{service.figure('dialeval_requests_total'):.0f} requests")
        assert service.get("/health").status == 200
