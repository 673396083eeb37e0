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
        for source, scale, k in (("human:a", 1.0, 1), ("human:b", 1.0, 2), ("odd", size, 3), ("ok", 1.0, 5))
        for n in range(24)
    ]
    return Scores.of(rows)


@pytest.mark.parametrize(
    ("size", "said"),
    [(5e307, "beyond"), (-5e307, "beyond"), (1e61, "beyond"), (1e-61, "all within"), (5e-324, "all within")],
)
def test_refused(size: float, said: str) -> None:
    with pytest.raises(DataError, match=rf"odd/x: values {said} ±1e[+-]60, such as .*e[+-]\d+ "):
        study(_scores(size), resamples=100, permutations=100)
    with pytest.raises(DataError, match="odd/x"):
        check(_scores(size), _scores(size), resamples=100)


@pytest.mark.parametrize("size", [1e59, 1e-59])
def test_large_and_small_ones_are_taken(size: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = study(_scores(size), by="system", resamples=100, permutations=100)
        check(_scores(size), _scores(size), resamples=100)
    assert "NaN" not in found.to_json()
