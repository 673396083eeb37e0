"""What the service refuses: too much, too long, too many at once, the wrong token; and how it ends."""

import asyncio
import http.client
import json
import re
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")


from commands import run
from scoring_service import JSON, ScoringService, chat

from dialeval.annotation.web import check_host
from dialeval.jobs.serving.batches import Batches, ServiceFigures
from dialeval.jobs.serving.requests import Limits, ParsedRequest

TOKEN = "0123456789abcdef0123456789abcdef"
SMALL = ("--max-body", "0.01", "--max-turns", "20", "--max-waiting", "2", "--timeout", "1.5")


@pytest.fixture(scope="module")
def small() -> Iterator[ScoringService]:
    with ScoringService("-m", "trying", *SMALL) as made:
        yield made


@pytest.fixture(scope="module")
def locked() -> Iterator[ScoringService]:
    with ScoringService("-m", "length", DIALEVAL_TOKEN=TOKEN) as made:
        yield made


def test_too_large(small: ScoringService) -> None:
    answer = small.score(chat("Hi", "x" * 20_000))
    assert (answer.status, answer.headers["content-type"]) == (413, JSON)
    assert "10 KB" in answer.json["error"]
    answer = small.score(chat(*["Hi"] * 21))
    assert answer.status == 413 and answer.json["error"] == "21 turns in one request; at most 20"
    assert small.score(chat(*["Hi"] * 20)).status == 200
    with socket.create_connection(("127.0.0.1", small.port)) as line:  # in pieces, of no stated size
        line.sendall(f"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\n".encode())
        line.sendall(b"Transfer-Encoding: chunked\r\n\r\n" + (b"1000\r\n" + b" " * 4096 + b"\r\n") * 3)
        assert line.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_too_slow_to_arrive(small: ScoringService) -> None:
    with socket.create_connection(("127.0.0.1", small.port), timeout=30) as line:
        line.sendall(f"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\n".encode())
        line.sendall(b'Content-Length: 100\r\n\r\n{"dia')
        assert line.recv(1000).startswith(b"HTTP/1.1 408 ")


def test_too_slow_to_score(small: ScoringService, tmp_path: Path) -> None:
    """The answer does not wait for the pass, which cannot end before the file is there."""
    answer = small.score(chat("Hi", f"await {tmp_path / 'go'}"))
    assert answer.status == 504 and answer.json["error"] == "not scored within 1.5 seconds"
    (tmp_path / "go").touch()
    while small.score(chat("Hi", "fine")).status != 200:
        time.sleep(0.1)


def test_too_many_wait(small: ScoringService) -> None:
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: small.score(chat("Hi", "sleep 0.3")), range(12)))
    refused = [answer for answer in answers if answer.status == 503]
    assert refused and {answer.status for answer in answers} <= {200, 503, 504}
    assert any(answer.status == 200 for answer in answers)
    assert {answer.headers["retry-after"] for answer in refused} == {"1"}
    assert small.get("/health").status == 200
    assert small.figure("dialeval_requests_total") >= 12


def test_a_panic_fails_one_request_and_no_others(small: ScoringService) -> None:
    """A native library's panic is no `Exception`; scoring goes on after it, and health says so."""
    answer = small.score(chat("Hi", "panic"))
    assert (answer.status, answer.json["error"]) == (500, "scoring failed")
    assert small.get("/health").status == 200
    assert small.score(chat("Hi", "fine")).status == 200
    with small.busy(), ThreadPoolExecutor(2) as pool:
        time.sleep(0.2)  # then both are in one pass
        found = list(pool.map(lambda text: small.score(chat("Hi", text)).status, ["panic", "fine"]))
    assert found == [500, 200]


def test_health_means_that_a_score_can_be_made() -> None:
    with ScoringService("-m", "trying", "--timeout", "1") as service:
        assert service.score(chat("Hi", "panic for ever")).status == 500
        answer = service.get("/health")
        assert answer.status == 503 and answer.json["error"].startswith("no score can be made now")
        assert service.score(chat("Hi", "mend")).status == 200
        assert service.get("/health").status == 200
        assert service.score(chat("Hi", "sleep 5")).status == 504
        time.sleep(0.2)
        assert service.get("/health").status == 503  # whoever asks now is not answered in time


def test_a_scoring_thread_that_has_ended_is_started_again() -> None:
    batches = Batches({}, Limits(), ServiceFigures(lambda: 0))  # not started: as if its thread had ended
    assert batches.trouble() == "the scoring thread has ended"
    assert asyncio.run(batches.score(ParsedRequest([], (), 0))) == []
    assert batches.trouble() is None
    batches.stop()


def test_those_who_were_not_scored_in_time_leave_the_queue(tmp_path: Path) -> None:
    """Their places are free, and the end does not wait for a pass that nobody waits for."""
    with ScoringService("-m", "trying", "--max-waiting", "2", "--timeout", "1") as service:
        long = [chat("Hi", f"await {tmp_path / 'go'}", *["fine"] * 500)]
        long += [chat("Hi", *["fail"] * 501, name=f"d{number}") for number in range(8)]
        with ThreadPoolExecutor(3) as pool:
            found = [pool.submit(service.score, *long)]
            while not (tmp_path / "go.begun").exists():
                time.sleep(0.01)
            found += [pool.submit(service.score, chat("Hi", "fail")) for _ in range(2)]
            assert [one.result().status for one in found] == [504, 504, 504]
        assert service.figure("dialeval_queue_requests") == 0
        (tmp_path / "go").touch()
        while service.score(chat("Hi", "fine")).status != 200:
            time.sleep(0.1)
        assert "failed on a dialogue" not in service.said  # nothing but the first was scored
        assert service.score(chat("Hi", f"await {tmp_path / 'never'}")).status == 504
        assert service.end() == 0
        assert "Traceback" not in service.said


def test_the_token(locked: ScoringService) -> None:
    assert TOKEN not in locked.said
    assert locked.get("/health").status == 200
    for path in ("/sources", "/metrics", "/openapi.json", "/score", "/nothing"):
        answer = locked.get(path)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert answer.headers["x-content-type-options"] == "nosniff"
    for wrong in ("Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN, "Bearer é"):
        assert locked.post({"dialogues": []}, authorization=wrong).status == 401
    assert locked.post({"dialogues": []}, authorization=f"Bearer {TOKEN}").status == 200
    document = locked.get("/openapi.json", authorization=f"bearer {TOKEN}").json
    assert document["security"] == [{"token": []}]


def test_nothing_is_read_of_those_without_the_token(locked: ScoringService) -> None:
    with socket.create_connection(("127.0.0.1", locked.port), timeout=30) as line:
        line.sendall(b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
        assert line.recv(1000).startswith(b"HTTP/1.1 401 ")


def test_others_need_a_token_and_a_name() -> None:
    with ScoringService("-m", "length", "--host", "0.0.0.0", "--allow-host", "Scores.example") as open_wide:
        (line,) = [line for line in open_wide.said.splitlines() if line.startswith("token: ")]
        token = line.split()[1]
        assert len(token) == 32
        named = {"host": "scores.example", "authorization": f"Bearer {token}"}
        assert open_wide.get("/sources", **named).status == 200
        assert open_wide.get("/sources", host="scores.example").status == 401
        assert open_wide.get("/sources", **{**named, "host": "evil.invalid"}).status == 421


def test_another_address_of_this_machine_is_a_name_of_the_server() -> None:
    assert check_host("127.0.0.2", []) == ["127.0.0.2"] and check_host("127.0.0.1", []) == []
    with ScoringService("-m", "length", "--host", "127.0.0.2") as service:
        (address,) = re.findall(r"at (http://\S+) ", service.said)
        with urllib.request.urlopen(f"{address}/health") as answer:
            assert answer.status == 200


def test_bad_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = run("serve", "--host", "0.0.0.0", cwd=tmp_path, code=2).stderr
    assert "--allow-host NAME" in said
    monkeypatch.setenv("DIALEVAL_TOKEN", "secret")
    assert "DIALEVAL_TOKEN: expected 32" in run("serve", "-m", "length", cwd=tmp_path, code=2).stderr


def ask_on(service: ScoringService, kept: list[int], ended: threading.Event, number: int) -> None:
    """Ask again and again; remember what was answered, and that answers are whole."""
    connection: http.client.HTTPConnection | None = None
    while not ended.is_set():
        try:
            connection = connection or service.connect()
            body = json.dumps({"dialogues": [chat("Hi", f"sleep 0.0{number}", name=f"n{number}")]})
            connection.request("POST", "/score", body, {"Content-Type": JSON})
            answer = connection.getresponse()
            found = json.loads(answer.read())
            assert answer.status == 200 and found["dialogues"][0]["id"] == f"n{number}"
            kept.append(answer.status)
        except (OSError, http.client.HTTPException):
            break
    if connection:
        connection.close()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_what_was_accepted_is_answered_at_the_end(how: signal.Signals) -> None:
    with ScoringService("-m", "trying") as service:
        kept, ended = list[int](), threading.Event()
        clients = [
            threading.Thread(target=ask_on, args=(service, kept, ended, number)) for number in range(4)
        ]
        found = []
        slow = threading.Thread(target=lambda: found.append(service.score(chat("Hi", "sleep 2")).status))
        waiting = threading.Thread(target=lambda: found.append(service.score(chat("Hi", "fine")).status))
        for one in clients:
            one.start()
        while len(kept) < 20:
            time.sleep(0.01)
        slow.start()
        time.sleep(0.5)
        waiting.start()
        while service.figure("dialeval_queue_requests") == 0:
            time.sleep(0.01)
        code = service.end(how)
        for one in (slow, waiting, *clients):
            one.join()
        assert found == [200, 200] and code == 0
        assert "Traceback" not in service.said
        assert service.said.rstrip().endswith("stopped; all accepted requests were answered")


def test_killed_and_started_again() -> None:
    """Nothing is acknowledged before it is scored, and the same question has the same answer."""
    with ScoringService("-m", "turn-quality") as service:
        example = chat("Do you like jazz?", "Yes, I love jazz.", name="d")
        first, port = service.score(example).rows(), service.port
        ended, kept = threading.Event(), list[int]()
        clients = [
            threading.Thread(target=ask_on, args=(service, kept, ended, number)) for number in range(4)
        ]
        for one in clients:
            one.start()
        while len(kept) < 20:
            time.sleep(0.01)
        service.end(signal.SIGKILL)
        for one in clients:
            one.join()
    with ScoringService("-m", "turn-quality", "--port", str(port)) as again:
        assert again.score(example).rows() == [
            (name, turn, pytest.approx(value, abs=1e-6)) for name, turn, value in first
        ]
