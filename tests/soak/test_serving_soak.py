"""The service for long: no memory and no file is lost over 10,000 requests, twenty kills lose no answer."""

import http.client
import json
import os
import random
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn")
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


def asked(service: ScoringService, seconds: float) -> tuple[list[float], list[Any]]:
    """Let eight honest clients ask over connections that stay open; return seconds in order, and errors."""
    took, wrong, end = list[float](), list[Any](), time.monotonic() + seconds

    def ask(number: int) -> None:
        connection = service.connect()
        while time.monotonic() < end:
            number += CLIENTS
            begun = time.perf_counter()
            body = json.dumps({"dialogues": [chat("Jazz?", f"Number {number}.", name=f"n{number}")]})
            try:
                connection.request("POST", "/score", body, {"Content-Type": JSON})
                answer = connection.getresponse()
                answer.read()
                wrong.extend([answer.status] if answer.status != 200 else [])
            except OSError as error:
                wrong.append(error)
                connection.close()
            took.append(time.perf_counter() - begun)
        connection.close()

    threads = [threading.Thread(target=ask, args=(one,)) for one in range(CLIENTS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return sorted(took), wrong


def test_300_slow_clients_and_8_honest_ones() -> None:
    """Slow ones trickle a head or a body, come back when they are hung up on, and cost the others nothing."""
    head = b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    kinds = (head[:20], head + b"X-Slow: ", head + b"Content-Length: 1000\r\n\r\n{")
    with ScoringService("-m", "repetition") as service:
        alone, wrong = asked(service, 5)
        assert wrong == []
        lines: list[socket.socket | None] = [None] * 300
        over, hung_up = threading.Event(), [0]

        def trickle() -> None:
            while not over.is_set():
                for number in range(len(lines)):
                    try:
                        line = lines[number] or socket.create_connection(("127.0.0.1", service.port))
                        line.send(b"x" if lines[number] else kinds[number % 3])
                        lines[number] = line
                    except OSError:
                        line.close()
                        hung_up[0] += 1
                        lines[number] = None
                over.wait(0.5)

        slow = threading.Thread(target=trickle)
        slow.start()
        while None in lines:
            time.sleep(0.1)
        beside, wrong = asked(service, 25)
        over.set()
        slow.join()
        for line in filter(None, lines):
            line.close()
    for name, took in (("alone", alone), ("beside 300 slow ones", beside)):
        p50, p95 = (1000 * took[int(share * len(took))] for share in (0.5, 0.95))
        print(f"8 clients {name}: n {len(took)}, p50 {p50:.1f} ms, p95 {p95:.1f} ms; hung up on {hung_up[0]}")
    assert wrong == []
    assert hung_up[0], "slow ones were hung up on"
