"""Values whose statistics are no numbers are refused in one line, by name."""

import warnings

import pytest

from dialeval.errors import DataError
from dialeval.scores import Scores
from dialeval.scores.table import Score
from dialeval.studies import check, study


def _scores(size: float) -> Scores:
    rows = [
        Score(f"d{n}", None, f"s{n % 3}", source, "x", scale * float(n * k % 7 - 3))
        for source, scale, k in (("human:a", 1.0, 1), ("human:b", 1.0, 2), ("big", size, 3), ("ok", 1.0, 5))
        for n in range(24)
    ]
    return Scores.of(rows)


@pytest.mark.parametrize("size", [5e307, -5e307, 1e61])
def test_refused(size: float) -> None:
    with pytest.raises(DataError, match=r"big/x: .* for the dialogue d\d+ is beyond ±1e\+60"):
        study(_scores(size), resamples=100, permutations=100)
    with pytest.raises(DataError, match="big/x"):
        check(_scores(size), _scores(size), resamples=100)


def test_large_ones_are_taken() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = study(_scores(1e59), by="system", resamples=100, permutations=100)
        check(_scores(1e59), _scores(1e59), resamples=100)
    assert "NaN" not in found.to_json()
