"""`dialeval tune`: what it prints, what it writes, and how it says no."""

import json
import sys
from pathlib import Path

import pytest

import dialeval
from dialeval.cli import main

EXAMPLES = Path(dialeval.__file__).parent / "dialogues" / "examples"
CHATS, RATINGS = str(EXAMPLES / "dialogues.jsonl"), str(EXAMPLES / "ratings.csv")


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path / "no-data"))


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["dialeval", "tune", *words])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_tables_record_and_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("repetition", CHATS, RATINGS, "--try", "n=1,2,3,4,6,8", "--resamples", "1000")
    assert run(monkeypatch, *words, "-o", "tuning.json") == 0
    said = capsys.readouterr()
    trials, regions, use = (part.splitlines() for part in said.out.strip().split("\n\n"))
    assert trials[0].split("\t") == ["tried", "n", "unscored", "Spearman", "below the best [68%]", "mark"]
    assert [line.split("\t")[0] for line in trials[1:]] == [f"n={n}" for n in (1, 2, 3, 4, 6, 8, 5)]
    assert trials[5].split("\t")[3].startswith("-.375 [")
    assert trials[5].split("\t")[4:] == [".000 [.000, .000]", "best"]
    assert trials[7].endswith("\tflat, chosen")
    assert regions[2].split("\t") == ["n", "1, 2, 3, 4, 6, 8", "3, 4, 6", "5", "-"]
    assert use[2].split("\t")[0] == "-m repetition:n=5"
    assert "written: tuning.json" in said.err
    assert run(monkeypatch, *words, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "tuning.json").read_text())
    assert printed["chosen"]["spec"] == "repetition:n=5"
    assert printed["data"] == [CHATS, RATINGS]
    assert printed["settings"] == {
        "method": "spearman",
        "flat": 0.68,
        "resamples": 1000,
        "confidence": 0.95,
        "seed": 0,
        "fixed": {},
    }
    assert all(one["signature"].startswith("repetition.v1|n:") for one in printed["trials"])


def test_words_numbers_levels_and_dimensions(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        "--of",
        "self",
        "--level",
        "turn",
        "--statistic",
        "pearson",
        "--fix",
        "encoder=dialeval-encoder-small",
    )
    quick = ("--resamples", "200", "--json")
    assert (
        run(monkeypatch, "similarity", CHATS, RATINGS, "--try", "speaker=none,assistant", *words, *quick) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["gold"] == {"dimension": "quality", "level": "turn", "raters": 3}
    assert found["dimension"] == "self"
    assert found["chosen"]["spec"] == "similarity:encoder=dialeval-encoder-small,speaker=none"
    assert found["regions"][0]["flat"] == [None, "assistant"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("repetition", "fed", "--try", "n=1,2"), 2, "fed is a test set"),
        (("repetition", "controllable", RATINGS, "--try", "n=1,2"), 2, "ratings of its own"),
        (("repetition", "controllable", "--try", "n=1,2"), 1, "is not there"),
        (("repetition", CHATS, "--try", "n=1,2"), 2, "no ratings of"),
        (("repetition", CHATS, RATINGS), 2, "nothing to try"),
        (("repetition", CHATS, RATINGS, "--try", "m=1,2"), 2, "repetition has no field 'm'"),
        (("repetition", CHATS, RATINGS, "--try", "n=1,x"), 2, "repetition:n=x: expected int"),
        (
            ("repetition", CHATS, RATINGS, "--try", "n=1,2", "--fix", "speaker=a,b"),
            2,
            "--fix speaker: one value",
        ),
        (("repetition", CHATS, RATINGS, "--try", "n=1,2", "-o", "ratings.csv"), 2, "must end in .json"),
        (("repetition", CHATS, "nothing.csv", "--try", "n=1,2"), 1, "nothing.csv: no such file"),
        (("bertscore", CHATS, RATINGS, "--try", "n=1,2"), 2, "bertscore has no field"),
    ],
)
def test_refusals_are_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    assert run(monkeypatch, *words) == code
    heard = capsys.readouterr()
    assert heard.out == ""
    assert heard.err.startswith("dialeval: ")
    assert len(heard.err.splitlines()) == 1
    assert said in heard.err
