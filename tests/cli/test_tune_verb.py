"""`dialeval tune`: what it prints, what it writes, and how it says no."""

import json
from pathlib import Path

import pytest
from commands import here, refused

import dialeval

EXAMPLES = Path(dialeval.__file__).parent / "dialogues" / "examples"
CHATS, RATINGS = str(EXAMPLES / "dialogues.jsonl"), str(EXAMPLES / "ratings.csv")


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path / "no-data"))


def test_tables_record_and_json(tmp_path: Path) -> None:
    words = ("tune", "repetition", CHATS, RATINGS, "--try", "n=1,2,3,4,6,8", "--resamples", "1000")
    said = here(*words, "-o", "tuning.json", cwd=tmp_path)
    trials, regions, use = (part.splitlines() for part in said.stdout.strip().split("\n\n"))
    assert trials[0].split("\t") == ["tried", "n", "unscored", "Spearman", "below the best [68%]", "mark"]
    assert [line.split("\t")[0] for line in trials[1:]] == [f"n={n}" for n in (1, 2, 3, 4, 6, 8, 5)]
    assert trials[5].split("\t")[3].startswith("-.375 [")
    assert trials[5].split("\t")[4:] == [".000 [.000, .000]", "best"]
    assert trials[7].endswith("\tflat, chosen")
    assert regions[2].split("\t") == ["n", "1, 2, 3, 4, 6, 8", "3, 4, 6", "5", "-"]
    assert use[2].split("\t")[0] == "-m repetition:n=5"
    assert "written: tuning.json" in said.stderr
    printed = json.loads(here(*words, "--json", cwd=tmp_path).stdout)
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


def test_words_numbers_levels_and_dimensions(tmp_path: Path) -> None:
    words = ("tune", "similarity", CHATS, RATINGS, "--try", "speaker=none,assistant", "--of", "self")
    words += ("--level", "turn", "--method", "pearson", "--fix", "encoder=dialeval-encoder-small")
    found = json.loads(here(*words, "--resamples", "200", "--json", cwd=tmp_path).stdout)
    assert found["gold"] == {"dimension": "quality", "level": "turn", "raters": 3}
    assert found["dimension"] == "self"
    assert found["chosen"]["spec"] == "similarity:encoder=dialeval-encoder-small,speaker=none"
    assert found["regions"][0]["flat"] == [None, "assistant"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("repetition", "fed", "--try", "n=1,2"), 2, "fed is a test set"),
        (("repetition", "controllable", RATINGS, "--try", "n=1,2"), 2, "its own ratings"),
        (("repetition", "controllable", "--try", "n=1,2"), 1, "was not found"),
        (("repetition", CHATS, "--try", "n=1,2"), 2, "no ratings of"),
        (("repetition", CHATS, RATINGS), 2, "nothing to try"),
        (("repetition", CHATS, RATINGS, "--try", "m=1,2"), 2, "repetition has no field 'm'"),
        (("repetition", CHATS, RATINGS, "--try", "n=1,x"), 2, "repetition:n=x: expected a whole number"),
        (
            ("repetition", CHATS, RATINGS, "--try", "n=1,2", "--fix", "speaker=a,b"),
            2,
            "--fix speaker: expected one value",
        ),
        (("repetition", CHATS, RATINGS, "--try", "n=1,2", "-o", "ratings.csv"), 2, "must end in .json"),
        (("repetition", CHATS, "nothing.csv", "--try", "n=1,2"), 1, "nothing.csv: no such file"),
        (("bertscore", CHATS, RATINGS, "--try", "n=1,2"), 2, "bertscore has no field"),
    ],
)
def test_refusals_are_one_line(tmp_path: Path, words: tuple[str, ...], code: int, said: str) -> None:
    refused("tune", *words, cwd=tmp_path, code=code, said=said)
