"""`dialeval inspect` shows what was understood; feedback in a log becomes ratings of `human:user`."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dialeval.cli.app import app
from dialeval.scores import Scores

SAMPLES = Path(__file__).parents[1] / "dialogues" / "samples"


def run(*words: str) -> tuple[str, str, int]:
    found = CliRunner().invoke(app, list(words), catch_exceptions=False)
    return found.stdout, found.stderr, found.exit_code


def test_inspect_shows_what_was_understood() -> None:
    shown, said, code = run("inspect", str(SAMPLES / "langsmith-runs.jsonl"))
    assert code == 0 and said == ""
    rows = dict(line.split("\t", 1) for line in shown.splitlines() if "\t" in line)
    assert rows["format"] == "langsmith (1 file)"
    assert rows["dialogues"] == "1; turns 7; replies to score 2"
    assert rows["roles"] == "user 2, assistant 2, system 1, step 1, tool 1"
    assert rows["tools"] == "track_parcel 1; 1 result"
    assert rows["evidence"] == "1 in 1 dialogue"
    assert rows["feedback"] == "thumbs (n = 1, mean 1)"
    assert rows["languages"] == "en 1"
    assert ">  4 assistant: It left the depot" in shown and "assistant calls track_parcel" in shown


def test_inspect_as_json_and_of_several_files() -> None:
    shown, _, code = run("inspect", str(SAMPLES / "tau.json"), str(SAMPLES / "whatsapp.txt"), "--json")
    found = json.loads(shown)
    assert code == 0 and list(found["formats"].values()) == ["tau", "text"]
    assert found["dialogues"] == 3 and len(found["shown"]) == 3
    assert "roles guessed by name, Parcel Support is the bot" in found["told"][0]


def test_half_an_export_is_inspected_and_scored(tmp_path: Path) -> None:
    path = tmp_path / "half.json"
    path.write_text((SAMPLES / "deepeval-cases.json").read_text()[:-60])
    for words in (("inspect", str(path)), ("score", str(path), "-m", "length")):
        _, said, code = run(*words)
        assert code == 0 and f"{path}: in record 2: item 2 of the array: the file breaks off" in said


@pytest.mark.parametrize("name", ["langfuse-traces.json", "rows.jsonl"])
def test_feedback_becomes_ratings(tmp_path: Path, name: str) -> None:
    out = tmp_path / "scores.parquet"
    assert run("score", str(SAMPLES / name), "-m", "length", "-o", str(out))[2] == 0
    rows = [row for row in Scores.read(out) if row.source == "human:user"]
    assert [(row.dimension, row.value) for row in rows] == [("thumbs", 1.0), ("thumbs", 0.0)]
    assert all(row.turn for row in rows)
