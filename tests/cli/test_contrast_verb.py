"""`dialeval contrast`: both tables, JSON, and how it says no."""

import json
from pathlib import Path

import pytest
from commands import here, refused

import dialeval
from dialeval.dialogues import scored_turns
from dialeval.jobs.demo import example_dialogues

CHATS = str(Path(dialeval.__file__).parent / "dialogues" / "examples" / "dialogues.jsonl")


def test_negatives(tmp_path: Path) -> None:
    words = (
        "contrast",
        CHATS,
        "-m",
        "similarity",
        "--negatives",
        "session",
        "--negatives",
        "random",
        "--sample",
        "40",
    )
    said = here(*words, cwd=tmp_path)
    header, *rows = (line.split("\t") for line in said.stdout.splitlines())
    assert header[:4] == ["negatives", "source", "dimension", "n"]
    assert [row[:3] for row in rows[:2]] == [
        ["session", "similarity", "user"],
        ["session", "similarity", "context"],
    ]
    assert len(rows) == 6
    assert "similarity: similarity.v1|" in said.stderr
    found = json.loads(here(*words, "--json", cwd=tmp_path).stdout)
    assert found["rows"][0]["pairs"]["n"] == 40


def test_systems(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path / "data"))
    folder = tmp_path / "predictions"
    folder.mkdir()
    chats = example_dialogues()[:6]
    said = {one.id: [{"response": "Hello."} for _ in scored_turns(one)] for one in chats}
    (folder / "dull.json").write_text(json.dumps(said))
    dialeval.write(chats, tmp_path / "chats.jsonl")
    words = ("contrast", "chats.jsonl", "-m", "length", "--systems", folder, "-o", "run")
    told = here(*words, cwd=tmp_path)
    rows = [line.split("\t") for line in told.stdout.splitlines()]
    assert [row[2] for row in rows[1:]] == ["reference", "dull"]
    assert "written: run" in told.stderr
    kept = list(dialeval.read(tmp_path / "run" / "dialogues.jsonl"))
    assert len(kept) == 12
    assert {one.system for one in kept} == {"reference", "dull"}
    assert kept[-1].id == f"dull/{chats[-1].id}"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((CHATS,), 2, "name a metric"),
        ((CHATS, "-m", "length", "--negatives", "odd"), 2, "unknown kind of negatives 'odd'"),
        ((CHATS, "-m", "length", "--negatives", "session", "--systems", "x.json"), 2, "either --negatives"),
        ((CHATS, "-m", "length", "-o", "run"), 2, "-o needs --systems"),
        ((CHATS, "-m", "length", "--systems", "none.json"), 1, "none.json"),
        ((CHATS, "-m", "length", "--systems", "."), 1, "no file of predictions"),
        (("nothing.jsonl", "-m", "length"), 1, "no such file"),
    ],
)
def test_refusals_are_one_line(tmp_path: Path, words: tuple[str, ...], code: int, said: str) -> None:
    refused("contrast", *words, cwd=tmp_path, code=code, said=said)
