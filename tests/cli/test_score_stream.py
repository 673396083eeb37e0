"""`dialeval score -` on a stream that stays open: each dialogue is scored when it comes (real processes)."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dialeval.dialogues.formats import read
from dialeval.errors import DataError
from dialeval.jobs.arrivals import arrivals
from dialeval.scores import Scores

COMMAND = [sys.executable, "-c", "from dialeval.cli import main; main()", "score", "-", "-m", "length"]


def line(name: str, words: int = 2) -> bytes:
    reply = " ".join(["word"] * words)
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": reply}]
    return json.dumps({"id": name, "messages": turns}).encode() + b"\n"


class Scorer:
    """The command with its pipes, of which nothing is read before it is there."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.stdin, self.stdout, self.stderr = self.process.stdin, self.process.stdout, self.process.stderr

    def write(self, *lines: bytes) -> None:
        self.stdin.write(b"".join(lines))
        self.stdin.flush()

    def row(self) -> dict[str, Any]:
        ready, _, _ = select.select([self.stdout], [], [], 60)
        assert ready, "no scores after a minute"
        return dict(json.loads(self.stdout.readline()))

    def end(self) -> tuple[int, str]:
        """Wait for the end of a process that may not be told by closing its input."""
        code = self.process.wait(30)
        return code, self.stderr.read().decode()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for file in (self.stdin, self.stdout, self.stderr):
            with contextlib.suppress(BrokenPipeError):
                file.close()


@pytest.fixture
def scorer() -> Iterator[Scorer]:
    made = Scorer("-o", "-")
    yield made
    made.close()


def test_each_dialogue_is_scored_when_it_comes(scorer: Scorer) -> None:
    for number in range(1, 4):
        scorer.write(line(f"d{number}", number))
        row = scorer.row()  # while the pipe is open and nothing follows
        assert (row["dialogue_id"], row["turn"], row["value"]) == (f"d{number}", 1, number)
        assert row["signature"].startswith("length.v1|")
    scorer.write(line("d4"), b'{"id": "d5", "messa\n', line("d6"))
    assert scorer.row()["dialogue_id"] == "d4"
    code, said = scorer.end()
    assert code == 1 and said.strip() == (
        "dialeval: -:5: column 19: the line breaks off (one JSON object a line)"
    )
    assert scorer.stdout.read() == b""


def test_half_a_line_waits_for_its_other_half(scorer: Scorer) -> None:
    whole = line("d1")
    scorer.write(whole[:20])
    time.sleep(0.3)
    scorer.write(whole[20:])
    assert scorer.row()["dialogue_id"] == "d1"
    scorer.stdin.close()
    assert scorer.end() == (0, "")


def test_ctrl_c_ends_quietly(scorer: Scorer) -> None:
    scorer.write(line("d1"))
    assert scorer.row()["dialogue_id"] == "d1"
    scorer.process.send_signal(signal.SIGINT)
    assert scorer.end() == (130, "")
    assert scorer.stdout.read() == b""


@pytest.mark.parametrize("name", ["scores.csv", "run"])
def test_ctrl_c_writes_what_was_scored(name: str, tmp_path: Path) -> None:
    out = tmp_path / name
    scorer = Scorer("-o", str(out))
    try:
        scorer.write(*(line(os.urandom(32).hex(), 7) for _ in range(600)))  # more than a chunk
        deadline = time.monotonic() + 60
        while not any(path.is_file() and path.stat().st_size > 4096 for path in tmp_path.rglob("*")):
            assert time.monotonic() < deadline and scorer.process.poll() is None
            time.sleep(0.05)
        scorer.process.send_signal(signal.SIGINT)
        code, said = scorer.end()
        assert code == 130 and "Traceback" not in said and f"written: {out}" in said
        scores = Scores.read(out / "scores.parquet" if out.is_dir() else out)
        assert {row.value for row in scores if row.turn} == {7}
    finally:
        scorer.close()


def test_a_reader_that_goes_ends_it_quietly() -> None:
    """`| head -1`, and the writer is still there."""
    scorer = Scorer("-o", "-")
    try:
        scorer.write(line("d1"))
        scorer.row()
        scorer.stdout.close()
        deadline = time.monotonic() + 30
        number = 1
        while scorer.process.poll() is None and time.monotonic() < deadline:
            number += 1
            try:
                scorer.write(line(f"d{number}"))
            except BrokenPipeError:
                break
            time.sleep(0.02)
        code, said = scorer.end()
        assert code == 1 and said == ""
    finally:
        scorer.close()


def resident(process: int) -> int:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_memory_stays_flat() -> None:
    """A tenth of the stream and the whole of it need the same; 40,000 dialogues pass in a few seconds."""
    process = subprocess.Popen([*COMMAND, "-o", "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin
    try:
        seen = []
        for number in range(40_000):
            process.stdin.write(line(f"d{number}", 3))
            if number % 4000 == 3999:
                process.stdin.flush()
                seen.append(resident(process.pid))
        process.stdin.close()
        assert process.wait(60) == 0
        assert seen[-1] < 1.1 * seen[1], seen
    finally:
        process.kill()
        process.wait()


def test_a_fast_input_comes_in_full_chunks() -> None:
    sizes = [len(chunk) for chunk in arrivals(iter(range(5000)), 512)]
    assert sum(sizes) == 5000 and max(sizes) == 512 and len(sizes) <= 12


def test_the_order_does_not_depend_on_the_pace(tmp_path: Path) -> None:
    """Slowly or at once, through a pipe: the same rows in the same order."""
    lines = [line(f"d{number}", number + 1) for number in range(5)]
    found = []
    for pause in (0.0, 0.2):
        scorer = Scorer("-m", "turns", "-o", "-")
        try:
            for one in lines:
                scorer.write(one)
                time.sleep(pause)
            scorer.stdin.close()
            found.append(scorer.stdout.read())
        finally:
            scorer.close()
    assert found[0] == found[1]
    rows = [json.loads(one) for one in found[0].splitlines()]
    assert [(row["dialogue_id"], row["source"]) for row in rows[:3]] == [
        ("d0", "length"),
        ("d0", "turns"),
        ("d1", "length"),
    ]


def test_a_patient_reader_cuts_by_number_alone() -> None:
    def slowly() -> Iterator[int]:
        for number in range(5):
            time.sleep(0.05)
            yield number

    assert list(arrivals(slowly(), 2, patient=True)) == [[0, 1], [2, 3], [4]]
    assert list(arrivals(slowly(), 2)) == [[0], [1], [2], [3], [4]]


def test_what_came_before_an_error_is_there() -> None:
    def broken() -> Iterator[int]:
        yield from range(700)
        raise DataError("gone")

    seen: list[int] = []
    with pytest.raises(DataError, match="gone"):
        for chunk in arrivals(broken(), 512):
            seen += chunk
    assert seen == list(range(700))


def test_a_stream_remembers_names_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    from dialeval.dialogues.formats import reading

    monkeypatch.setattr(reading, "_RECENT", 10)

    def names(*given: str) -> list[str]:
        text = b"".join(line(name) for name in given)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        return [one.id for one in read("-")]

    with pytest.raises(DataError, match=r"-:10: id: .* already used in line 1 "):
        names(*"abcdefghi", "a")
    many = [f"d{number}" for number in range(100)]
    assert names(*many, "d0") == [*many, "d0"]  # too long ago to be remembered
