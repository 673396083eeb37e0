"""`dialeval serve`: what is asked and what is answered, by a real server on loopback."""

import asyncio
import json
import socket
import time
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn")


from payloads import PAYLOADS
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.parser import text_string_to_metric_families
from scoring_service import JSON, ScoringService, chat

import dialeval
from dialeval.annotation.web import listen

EXAMPLE = chat("Do you like jazz?", "Yes, I love jazz, do you play?", "No.", "Pity!", name="d1", system="bot")


@pytest.fixture(scope="module")
def service() -> Iterator[ScoringService]:
    with ScoringService("-m", "turn-quality", "-m", "words=length", "-m", "trying") as made:
        yield made


def test_health_sources_and_document(service: ScoringService) -> None:
    health = service.get("/health")
    assert (health.status, health.json) == (200, {"status": "ok", "dialeval": dialeval.__version__})
    listed = {one["source"]: one for one in service.get("/sources").json["sources"]}
    assert list(listed) == ["turn-quality", "words", "trying"]
    assert listed["words"]["metric"] == "length.v1" and listed["words"]["better"] == "neither"
    assert listed["words"]["fields"] == {"speaker": None}
    assert listed["turn-quality"]["signature"].startswith("turn-quality.v1|model:")
    assert listed["turn-quality"]["dimensions"] == ["quality"]
    document = service.get("/openapi.json").json
    assert document["openapi"] == "3.1.0"
    assert list(document["paths"]) == ["/health", "/score", "/sources", "/metrics", "/openapi.json"]
    for answer in (health, service.get("/nothing"), service.post(b"{")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-type"] == JSON
        assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_answers_do_not_wait_for_acknowledgements() -> None:
    """Without TCP_NODELAY each answer would wait 40 ms for the client's delayed acknowledgement."""

    async def accepted() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def look(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            line = writer.get_extra_info("socket")
            found.set_result(line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with listen("127.0.0.1", 0) as taken:
            async with await asyncio.start_server(look, sock=taken):
                _, writer = await asyncio.open_connection(*taken.getsockname())
                delay = await found
                writer.close()
        return delay

    assert asyncio.run(accepted())


def test_scores_are_those_of_the_command_line(service: ScoringService, tmp_path: Path) -> None:
    (tmp_path / "chats.jsonl").write_text(json.dumps(EXAMPLE))
    expected = dialeval.score(list(dialeval.read(tmp_path / "chats.jsonl")), ["turn-quality", "words=length"])
    answer = service.score(EXAMPLE, sources=["turn-quality", "words"])
    (one,) = answer.json["dialogues"]
    assert one["id"] == "d1"
    assert one["scores"] == [
        {**row._asdict(), "value": pytest.approx(row.value, abs=1e-6)} for row in expected
    ]
    assert answer.json["signatures"] == {source: str(sig) for source, sig in expected.signatures.items()}


def test_unscored_is_null_with_a_note(service: ScoringService) -> None:
    rows = service.score(chat("Hi", "", name="e"), sources=["turn-quality"]).json["dialogues"][0]["scores"]
    assert [(row["turn"], row["value"], row["note"]) for row in rows] == [
        (1, None, "empty reply"),
        (None, None, "no reply to score"),
    ]


def test_no_dialogues_and_no_names(service: ScoringService) -> None:
    assert service.score().json["dialogues"] == []
    twice = chat("Hi", "Hello you")
    answer = service.score(twice, twice, sources=["words"])
    first, second = (one["id"] for one in answer.json["dialogues"])
    assert second == f"{first}-2" and len(first) == 16
    assert answer.rows() == [(first, 1, 2), (second, 1, 2)]


def test_null_parts_and_odd_roles_are_data(service: ScoringService) -> None:
    turns = [
        {"role": "Human", "content": [{"type": "text", "text": "Hi"}, {"type": "image"}]},
        {"role": "tool", "content": "22", "tool_call_id": "x"},
        {"role": "gpt", "content": "It is 22."},
        {"role": "assistant", "content": None},
    ]
    answer = service.score({"id": "x", "messages": turns}, sources=["words"])
    assert answer.rows() == [("x", 2, 3), ("x", 3, 0)]


WRONG: list[tuple[bytes, int, str | None]] = [
    (b"", 400, "line 1 column 1"),
    (b"{", 400, "line 1 column 2"),
    (b"null", 400, None),
    (b"[]", 400, None),
    (b"{}", 400, None),
    (b'{"dialogues": null}', 400, "dialogues"),
    (b'{"dialogues": [], "more": 1}', 400, None),
    (b'{"dialogues": [1]}', 400, "dialogues[0]"),
    (b'{"dialogues": [{"messages": [], "turns": []}]}', 400, "dialogues[0]"),
    (b'{"dialogues": [{"messages": [{"role": "user"}]}]}', 400, "dialogues[0].messages[0]"),
    (b'{"dialogues": [{"messages": [{"role": 1, "content": ""}]}]}', 400, "dialogues[0].messages[0].role"),
    (
        b'{"dialogues": [{"messages": [{"role": "a", "content": 7}]}]}',
        400,
        "dialogues[0].messages[0].content",
    ),
    (b'{"dialogues": [{"id": 7, "messages": []}]}', 400, "dialogues[0].id"),
    (b'{"dialogues": [{"messages": [], "meta": {"x": NaN}}]}', 400, None),
    (b'{"dialogues": [{"messages": [], "meta": {"x": -Infinity}}]}', 400, None),
    (b'{"dialogues": [{"messages": [], "meta": ' + b"9" * 9999 + b"}]}", 400, None),
    (b'{"dialogues": [], "sources": []}', 400, "sources"),
    (b'{"dialogues": [], "sources": ["bleu"]}', 400, "sources[0]"),
    (b'{"dialogues": [{"messages": [], "references": {"x": []}}]}', 400, "dialogues[0].references"),
    (b'{"dialogues": [{"messages": [], "references": {"0": ["x"]}}]}', 422, "dialogues[0].references"),
    (b'{"dialogues": [{"id": "a", "messages": []}, {"id": "a", "messages": []}]}', 422, "dialogues[1].id"),
    (b"\xff\xfe", 400, "byte 0"),
    (b"\xef\xbb\xbf{}", 400, "line 1 column 1"),
    ('{"dialogues": []}'.encode("utf-16"), 400, "byte 0"),
    (b'{"dialogues": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", 400, None),
    (b'{"dialogues": [{"messages": [], "meta": ' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}]}", 200, None),
]


@pytest.mark.parametrize(("body", "status", "field"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_named(body: bytes, status: int, field: str | None, service: ScoringService) -> None:
    answer = service.post(body)
    assert answer.status == status, answer.body[:300]
    assert answer.headers["content-type"] == JSON
    if status != 200:
        assert set(answer.json) == {"error", "field", "fix"} and answer.json["error"]
        assert answer.json["field"] == field, answer.json


def test_only_json_is_read_and_methods_are_named(service: ScoringService) -> None:
    body = json.dumps({"dialogues": []})
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert service.post(body.encode(), content_type=kind).status == 415
    assert service.post(body.encode(), content_type="Application/JSON; charset=utf-8").status == 200
    answer = service.get("/score")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert service.ask("DELETE", "/health").status == 405
    assert service.get("/score/").status == 404
    head = service.ask("HEAD", "/health")
    assert (head.status, head.body) == (200, b"")


@pytest.mark.parametrize("host", ["evil.invalid", "127.0.0.1.evil.invalid", "localhost@evil.invalid", ""])
def test_another_name_is_not_answered(host: str, service: ScoringService) -> None:
    answer = service.get("/health", host=host)
    assert answer.status in (400, 421)  # no name at all is no HTTP
    assert service.get("/health", host=f"localhost:{service.port}").status == 200


def test_hostile_text_comes_back_as_text(service: ScoringService) -> None:
    """Forty payloads in every field that is a text; text is composed to NFC, as everywhere."""
    chats = [
        {
            "id": text,
            "system": text,
            "messages": [{"role": text, "content": text, text: text}, {"role": text, "content": text}],
            "references": {"1": [text]},
            "meta": {text: text},
        }
        for text in PAYLOADS
    ]
    answer = service.score(*chats)
    assert answer.status == 200 and answer.headers["content-type"] == JSON
    assert answer.headers["x-content-type-options"] == "nosniff"
    found = answer.json["dialogues"]
    for text, one in zip(PAYLOADS, found, strict=True):
        same = unicodedata.normalize("NFC", text)
        assert one["id"] == same and one["scores"]
        assert {(row["dialogue_id"], row["system"]) for row in one["scores"]} == {(same, same)}
    for text in PAYLOADS:  # as a source, and where a path or a header can hold it
        refused = service.score(sources=[text])
        assert refused.status == 400 and refused.headers["content-type"] == JSON
        assert repr(text[:80])[1:-1] in refused.json["error"]
    lone = service.post(b'{"dialogues": [{"id": "\\ud800", "messages": []}]}')
    assert lone.json["dialogues"][0]["id"] == "\ufffd"


def test_requests_at_once_get_what_they_get_alone(service: ScoringService) -> None:
    def body(number: int) -> dict[str, Any]:
        texts = [f"{word} number {number}, is it not?" for word in ("Jazz", "Blues", "Rock", "Folk")]
        return chat(*texts[: 2 + number % 3], name=f"c{number}")

    alone = [service.score(body(number), sources=["turn-quality"]).rows() for number in range(24)]
    with service.busy(), ThreadPoolExecutor(24) as pool:
        asked = [pool.submit(service.score, body(number)) for number in range(24)]
        answers = [one.result() for one in asked]
    for one, answer in zip(alone, answers, strict=True):
        assert answer.rows("turn-quality") == [
            (name, turn, pytest.approx(value, abs=1e-6)) for name, turn, value in one
        ]
    assert max(row[2] for answer in answers for row in answer.rows("trying")) > 4


def test_one_id_in_many_requests(service: ScoringService) -> None:
    with service.busy(name="same"), ThreadPoolExecutor(12) as pool:
        bodies = [chat("Hi", "word " * (number + 1), name="same") for number in range(12)]
        answers = list(pool.map(lambda one: service.score(one, sources=["words"]), bodies))
    assert [answer.rows() for answer in answers] == [[("same", 1, number + 1)] for number in range(12)]


def test_a_poisoned_dialogue_harms_nobody_else(service: ScoringService) -> None:
    chats = [chat("Hi", "fail" if number in (3, 11) else "fine", name=f"p{number}") for number in range(16)]
    with service.busy(), ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(service.score, chats))
    for number, answer in enumerate(answers):
        assert answer.rows("words") == [(f"p{number}", 1, 1)]
        (row,) = [row for row in answer.json["dialogues"][0]["scores"] if row["source"] == "trying"]
        if number in (3, 11):
            assert (row["turn"], row["value"], row["note"]) == (
                None,
                None,
                "trying.v1 failed: ZeroDivisionError",
            )
        else:
            assert row["value"] >= 1
    together = service.score(*chats, sources=["trying"])
    assert [row[2] is None for row in together.rows()] == [number in (3, 11) for number in range(16)]


FIGURES = """info queue_requests requests turns_scored dialogues_scored scores unscored passes scoring_seconds
request_seconds"""


def test_figures_add_up(service: ScoringService) -> None:
    before = {name: service.figure(f"dialeval_{name}_total") for name in ("turns_scored", "unscored")}
    service.score(chat("Hi", "", name="e"), EXAMPLE, sources=["turn-quality"])
    assert service.figure("dialeval_turns_scored_total") == before["turns_scored"] + 6
    assert service.figure("dialeval_unscored_total") == before["unscored"] + 2
    assert service.figure("dialeval_queue_requests") == 0
    answer = service.get("/metrics")
    assert answer.headers["content-type"] == CONTENT_TYPE_LATEST
    text = answer.body.decode()
    assert 'dialeval_requests_total{method="POST",route="/score",status="200"}' in text
    service.ask("BREW", "/coffee/123")
    text = service.get("/metrics").body.decode()
    assert 'method="other",route="other",status="404"' in text and "coffee" not in text
    found = {family.name: family for family in text_string_to_metric_families(text)}
    assert {f"dialeval_{name}" for name in FIGURES.split()} == set(found), (
        "the names that docs/serve.md lists"
    )
    assert not [family for family in found.values() if not family.documentation]
    seconds = [one for one in found["dialeval_request_seconds"].samples if one.labels["route"] == "/score"]
    counts = [one.value for one in seconds if one.name.endswith("_bucket")]
    assert counts == sorted(counts)
    assert counts[-1] == next(one.value for one in seconds if one.name.endswith("_count")) > 0


def test_who_hangs_up_is_not_scored_for(service: ScoringService) -> None:
    body = json.dumps({"dialogues": [chat("Hi", "sleep 30")]}).encode()
    head = f"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    with service.busy(1) as slow, socket.create_connection(("127.0.0.1", service.port)) as line:
        line.sendall(head.encode() + body)
        while service.figure("dialeval_queue_requests") == 0 and slow.is_alive():
            time.sleep(0.02)
    assert service.score(EXAMPLE).status == 200  # at once, not after 30 seconds


def test_a_line_that_breaks_in_the_middle_of_a_body(service: ScoringService) -> None:
    with socket.create_connection(("127.0.0.1", service.port)) as line:
        line.sendall(f"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\n".encode())
        line.sendall(b'Content-Length: 1000\r\n\r\n{"dialogues": [')
    assert service.get("/health").status == 200
