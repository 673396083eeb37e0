"""What is printed is shown by a terminal and never obeyed, whoever chose the names."""

import io
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from commands import here

from dialeval import files
from dialeval.cli import main, output
from dialeval.scores import Scores
from dialeval.scores.table import Score

NASTY = "a\x1b[2J\x07\x9b31m\u202ez\x7f\rwritten: run\n\x00"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    chats = [{"id": f"{NASTY}{n}", "system": f"bot{NASTY}", "messages": turns} for n in range(4)]
    (tmp_path / "chats.jsonl").write_text("".join(json.dumps(one) + "\n" for one in chats))
    rows = [
        Score(
            f"{NASTY}{n % 8}", None, f"s{n % 2}{NASTY}", source + NASTY, f"d{NASTY}", float(n * n % 7), None
        )
        for source in ("human:r", "metric", "other")
        for n in range(8)
    ]
    Scores.of(rows).write(tmp_path / "scores.parquet")
    (tmp_path / "columns.csv").write_text("id,\x1b[2Jvalue\x9b\na,1\n")
    return tmp_path


COMMANDS: list[tuple[int, tuple[object, ...]]] = [
    (0, ("study", "scores.parquet", "--resamples", 100, "--by", "system", "--classes")),
    (0, ("study", "scores.parquet", "--resamples", 100, "--json")),
    (0, ("check", "scores.parquet", "--against", "scores.parquet")),
    (0, ("check", "scores.parquet", "--against", "scores.parquet", "--json")),
    (0, ("score", "chats.jsonl", "-m", "length", "--json")),
    (0, ("score", "chats.jsonl", "-m", "x\x1b[1m=length")),
    (2, ("study", "scores.parquet", "--dimension", "\x1b[2J")),
    (1, ("study", "scores.parquet", "--map", "columns.csv:id=id,value=nothing")),
    (1, ("score", "no\x1b[2Jsuch\x9b.jsonl", "-m", "length")),
    (2, ("score", "chats.jsonl", "-m", "\x1b[2J")),
]


@pytest.mark.parametrize(("code", "words"), COMMANDS)
def test_nothing_printed_is_obeyed(place: Path, code: int, words: tuple[object, ...]) -> None:
    done = here(*words, cwd=place, code=code)
    assert done.stdout + done.stderr
    assert OBEYED.findall(done.stdout + done.stderr) == []
    assert not re.search("^written: run", done.stdout + done.stderr, re.MULTILINE)
    if "--json" in words:
        assert json.loads(done.stdout)


def test_a_table_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(files, "is_terminal", lambda stream: True)
    monkeypatch.setattr(sys, "stdout", shown)
    output.print_table(NASTY, (NASTY, "n"), [(NASTY, 1)])
    assert OBEYED.findall(shown.getvalue()) == []
    assert "␛" in shown.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_a_wide_table_breaks_between_words(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(files, "is_terminal", lambda stream: True)
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setenv("COLUMNS", str(width))
    row = ("rules/asks-again", "not told apart", "0.0451 -> 0.0154", -0.03, "[-0.065, -0.01]", "200 paired")
    header = ("score", "verdict", "old -> new", "difference", "interval", "items")
    output.print_table("Versions", header, [row, (*row[:5], "and a reply of many words " * 9)])
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    words = {word for item in (*header, *row) for word in output.cell(item).split()}
    assert words <= set(shown.getvalue().split())


def test_on_a_terminal_score_says_what_comes_next(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = here("score", "chats.jsonl", "-m", "length", "-o", "run", cwd=place)
    assert "next:" not in alone.stderr
    monkeypatch.setattr(output, "is_watched", lambda: True)
    told = here("score", "chats.jsonl", "-m", "length", "-o", "again", cwd=place)
    assert "next: dialeval report again shows the worst turns" in told.stderr
    units = here("score", "chats.jsonl", "-m", "mine=rules", cwd=place).stderr
    assert "mine: share of turns, or of dialogues, in which the rule fires" in units
    table = here("score", "chats.jsonl", "-m", "length", "-o", "scores.csv", cwd=place)
    assert "next:" not in table.stderr


def test_standard_output_may_be_ascii(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.TextIOWrapper(io.BytesIO(), "ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setattr(sys, "argv", ["dialeval", "score", str(place / "chats.jsonl"), "-m", "length"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    assert b"?[2J" in shown.buffer.getvalue()  # type: ignore[attr-defined]


def test_too_little_memory_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise MemoryError

    monkeypatch.setattr("dialeval.cli.app.app", fail)
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (1, "dialeval: there is not enough memory\n")


def test_an_interrupt_during_the_imports_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "dialeval.cli.app", Interrupted("dialeval.cli.app"))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
