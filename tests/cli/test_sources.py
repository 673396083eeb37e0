"""Whatever holds dialogues is given to every command in the same way."""

import json
from pathlib import Path

import pytest
from commands import here

from dialeval.dialogues import dialogue
from dialeval.dialogues.formats import write


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make two files, a run folder and a public set of one dialogue."""
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path / "data"))
    for name in ("a", "b"):
        said = [
            ("user", f"Hi {name}!"),
            ("assistant", "Hello, how are you?"),
            ("user", "Fine."),
            ("assistant", "Good."),
        ]
        write([dialogue(said, f"{name}{n}", system="bot") for n in range(3)], tmp_path / f"{name}.jsonl")
    here("score", "a.jsonl", "-m", "length", "-o", "run", cwd=tmp_path)
    record = {
        "context": "User: Hi!\nSystem: Hello!\nUser: So?\nSystem: Well.",
        "annotations": {"Overall": [4]},
    }
    (tmp_path / "data" / "fed").mkdir(parents=True)
    (tmp_path / "data" / "fed" / "fed_data.json").write_text(json.dumps([{**record, "system": "Meena"}]))
    return tmp_path


SOURCES = [
    (["a.jsonl", "b.jsonl"], 6),
    (["run"], 3),
    (["?.jsonl"], 6),
    (["fed"], 1),
    (["set:fed/test", "b.jsonl"], 4),
]


@pytest.mark.parametrize(("given", "count"), SOURCES)
def test_score_convert_and_acts(place: Path, given: list[str], count: int) -> None:
    told = json.loads(here("score", *given, "-m", "length", "--json", cwd=place).stdout)
    assert (told["dialogues"], told["input"]) == (count, ", ".join(given))
    assert len(here("convert", *given, "-o", "-", cwd=place).stdout.splitlines()) == count
    assert len(here("acts", *given, "-o", "-", cwd=place).stdout.splitlines()) == count


@pytest.mark.parametrize(("given", "count"), SOURCES)
def test_contrast_and_annotate(place: Path, given: list[str], count: int) -> None:
    told = json.loads(
        here("contrast", *given, "-m", "length", "--resamples", "100", "--json", cwd=place).stdout
    )
    assert told["rows"]
    if len(given) == 1:
        scheme = ["--scheme", "turn-quality", "--raters", "ann", "--overlap", "1"]
        for _ in range(2):  # the second time it goes on with what is there
            links = here("annotate", *given, *scheme, "-o", "study", "--links", "--json", cwd=place)
            assert json.loads(links.stdout)[0]["name"] == "ann"


def test_a_part_goes_with_a_public_set(place: Path) -> None:
    assert "needs a public set" in here("score", "a.jsonl", "--part", "test", cwd=place, code=2).stderr
    assert (
        json.loads(here("score", "fed", "--part", "test", "-m", "length", "--json", cwd=place).stdout)[
            "turns"
        ]
        == 4
    )
    assert "fed has no part 'train'" in here("score", "fed/train", "-m", "length", cwd=place, code=2).stderr


def test_what_is_read_is_not_written_over(place: Path) -> None:
    for words in (
        ["convert", "b.jsonl", "a.jsonl", "-o", "a.jsonl"],
        ["score", "run", "-o", "run/dialogues.jsonl"],
    ):
        assert "is an input: choose another name" in here(*words, cwd=place, code=2).stderr


def test_a_file_called_like_a_set_is_read_and_that_is_said_once(place: Path) -> None:
    (place / "a.jsonl").rename(place / "fed")
    told = here("score", "fed", "-m", "length", "--json", cwd=place)
    assert json.loads(told.stdout)["dialogues"] == 3
    assert told.stderr.count("set:fed is the public set") == 1
