"""The release gate over files: each dimension of a source drops in its own direction."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import here

import dialeval
from dialeval.jobs.comparing import check_runs, describe
from dialeval.scores import Score, Scores, Signature

SIGNATURE = Signature.of("two.v1", {"better": {"self": "lower", "length": "neither"}})


def run(path: Path, user: float, itself: float) -> Path:
    """Write twenty dialogues whose scores are moved by so much; their length always grows."""
    random = np.random.default_rng(0)
    rows = [
        Score(f"d{i}", None, "bot", "two", dimension, float(value + plus + 0.01 * random.normal()))
        for i, value in enumerate(np.random.default_rng(1).normal(size=20))
        for dimension, plus in (("user", user), ("self", itself), ("length", user + itself))
    ]
    Scores.of(rows, {"two": SIGNATURE}).write(path)
    return path


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize(
    ("user", "itself", "marks"),
    [(1, 1, ("ok", "DROP")), (-1, -1, ("DROP", "ok")), (1, -1, ("ok", "ok")), (-1, 1, ("DROP", "DROP"))],
)
def test_a_rise_is_a_drop_where_lower_is_better(
    user: float, itself: float, marks: tuple[str, str], ending: str, tmp_path: Path
) -> None:
    new, old = run(tmp_path / f"new.{ending}", user, itself), run(tmp_path / f"old.{ending}", 0, 0)
    lines = describe(check_runs(new, old, resamples=999))
    assert [line.partition(":")[0].split() for line in lines] == [
        [marks[0], "two/user"],
        [marks[1], "two/self"],
    ]
    if "DROP" in marks:
        with pytest.raises(AssertionError, match="DROP two/"):
            dialeval.assert_no_drop(new, against=old, resamples=999)
    else:
        dialeval.assert_no_drop(new, against=old, resamples=999)


def run_with_gaps(path: Path, left_out: float) -> Path:
    """Write forty dialogues of six turns with the same scores, of which a share is unscored."""
    random = np.random.default_rng(3)
    rows = [
        Score(f"d{i}", turn, "bot", "one", "one", *((None, "empty turn") if gap else (0.8, None)))
        for i in range(40)
        for turn, gap in enumerate(random.random(6) < left_out)
    ]
    Scores.of(rows, {"one": Signature.of("one.v1", {})}).write(path)
    return path


def test_more_unscored_rows_are_a_warning_and_on_request_a_failure(tmp_path: Path) -> None:
    old, new = run_with_gaps(tmp_path / "old.parquet", 0.05), run_with_gaps(tmp_path / "new.parquet", 0.5)
    verdict = check_runs(new, old, resamples=999)
    assert verdict.passed and verdict.more_unscored == ("one/one",)
    assert describe(verdict)[1:] == ["WARN one/one: unscored rows 2.9% → 47.5%, p=0.001 (paired, n=240 rows)"]
    with pytest.warns(UserWarning, match=r"unscored rows 2.9% → 47.5%"):
        dialeval.assert_no_drop(new, against=old, resamples=999)
    with pytest.raises(AssertionError, match="WARN one/one"):
        dialeval.assert_no_drop(new, against=old, fail_on_unscored=True, resamples=999)


def test_a_share_of_unscored_rows_that_falls_or_hardly_moves_is_no_warning(tmp_path: Path) -> None:
    few, more = run_with_gaps(tmp_path / "few.parquet", 0.05), run_with_gaps(tmp_path / "more.parquet", 0.07)
    for new, old in ((few, more), (more, few)):
        verdict = dialeval.assert_no_drop(new, against=old, fail_on_unscored=True, resamples=999)
        assert verdict.more_unscored == () and len(verdict.unscored) == 1


def test_unscored_rows_of_one_dialogue_count_as_one(tmp_path: Path) -> None:
    """Twelve gaps in one dialogue of two: by rows a clear rise, by dialogues none."""
    sides = []
    for name, gaps in (("new", 12), ("old", 0)):
        rows = [
            Score(f"d{i}", turn, "bot", "one", "one", *((None, "x") if i and turn < gaps else (0.8, None)))
            for i in range(2)
            for turn in range(12)
        ]
        Scores.of(rows).write(tmp_path / f"{name}.jsonl")
        sides.append(tmp_path / f"{name}.jsonl")
    assert check_runs(*sides, level="turn", resamples=999).more_unscored == ()


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--fail-on-unscored"], 1)])
def test_the_verb_fails_on_unscored_rows_when_asked_to(options: list[str], code: int, tmp_path: Path) -> None:
    run_with_gaps(tmp_path / "old.parquet", 0.05)
    run_with_gaps(tmp_path / "new.parquet", 0.5)
    given = ["check", "new.parquet", "--against", "old.parquet", "--resamples", "999", *options]
    said = here(*given, cwd=tmp_path, code=code).stdout
    assert "WARN one/one: unscored rows 2.9% → 47.5%" in said
    found = json.loads(here(*given, "--json", cwd=tmp_path, code=code).stdout)
    assert found["passed"] is (code == 0) and found["more_unscored"] == ["one/one"]
    assert found["unscored"][0]["new"]["value"] == pytest.approx(114 / 240)
