import pytest
from statsmodels.stats.proportion import proportion_confint

from dialeval.statistics import share


@pytest.mark.parametrize(("hits", "n"), [(0, 5), (5, 5), (28, 28), (57, 125), (1, 1), (999, 1000)])
@pytest.mark.parametrize("confidence", [0.68, 0.95])
def test_interval_of_a_share(hits: int, n: int, confidence: float) -> None:
    wanted = proportion_confint(hits, n, 1 - confidence, method="wilson")
    found = share(hits, n, confidence)
    assert (found.low, found.high) == pytest.approx(wanted, abs=1e-12)


def test_share_of_nothing_has_a_reason() -> None:
    assert share(0, 0).reason == "n = 0"
