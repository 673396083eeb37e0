"""The release gate over files: each dimension of a source drops in its own direction."""

from pathlib import Path

import numpy as np
import pytest

import dialeval
from dialeval.jobs.gate import check_runs, describe
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
