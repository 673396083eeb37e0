"""Bradley-Terry against statsmodels: a logistic regression without ties, a conditional logit with them."""

from itertools import combinations

import numpy as np
import pytest
from statsmodels.discrete.conditional_models import ConditionalLogit
from statsmodels.discrete.discrete_model import Logit

from dialeval.errors import UsageError
from dialeval.statistics.pairwise import bradley_terry

STRENGTHS = np.array([0.0, 0.5, 1.0, -0.4])
NAMES = np.array(["a", "b", "c", "d"])


def votes(seed: int, n: int = 400, tie: float | None = -0.5) -> tuple[np.ndarray, ...]:
    """Return first, second, outcome and a covariate that helps whoever has more of it."""
    rng = np.random.default_rng(seed)
    pairs = np.array(list(combinations(range(4), 2)))[rng.integers(0, 6, n)]
    pairs = np.where(rng.random(n)[:, None] < 0.5, pairs, pairs[:, ::-1])
    length = rng.normal(size=n)
    m = STRENGTHS[pairs[:, 0]] - STRENGTHS[pairs[:, 1]] + 0.3 * length
    chance = np.exp(np.stack([m / 2, -m / 2, np.full(n, -np.inf if tie is None else tie)]))
    chance = np.cumsum(chance / chance.sum(axis=0), axis=0)
    outcome = np.array([1.0, 0.0, 0.5])[(rng.random(n) > chance).sum(axis=0)]
    return *pairs.T, outcome, length


def contrast(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return (np.eye(4)[first] - np.eye(4)[second])[:, 1:]


@pytest.mark.parametrize("seed", range(3))
def test_without_ties_it_is_a_logistic_regression(seed: int) -> None:
    first, second, outcome, length = votes(seed, tie=None)
    found = bradley_terry(NAMES[first], NAMES[second], outcome, covariates={"length": length}, resamples=100)
    expected = (
        Logit(outcome, np.column_stack([contrast(first, second), length])).fit(disp=0, tol=1e-10).params
    )
    strengths = {one.system: one.strength.value for one in found.standings}
    assert [strengths[name] - strengths["a"] for name in "bcd"] == pytest.approx(expected[:3], abs=1e-6)
    assert found.covariates["length"].value == pytest.approx(expected[3], abs=1e-6)
    assert found.tie is None


def test_with_ties_it_is_a_conditional_logit() -> None:
    first, second, outcome, length = votes(5)
    found = bradley_terry(NAMES[first], NAMES[second], outcome, covariates={"length": length}, resamples=100)
    half = np.column_stack([contrast(first, second), length]) / 2
    rows = np.concatenate(
        [np.column_stack([side * half, np.full(outcome.size, side == 0)]) for side in (1, -1, 0)]
    )
    chosen = np.concatenate([outcome == value for value in (1, 0, 0.5)]).astype(float)
    model = ConditionalLogit(chosen, rows, groups=np.tile(np.arange(outcome.size), 3))
    expected = model.fit(disp=0, gtol=1e-9).params
    strengths = {one.system: one.strength.value for one in found.standings}
    assert [strengths[name] - strengths["a"] for name in "bcd"] == pytest.approx(expected[:3], abs=1e-4)
    assert found.covariates["length"].value == pytest.approx(expected[3], abs=1e-4)
    assert found.tie == pytest.approx(expected[4], abs=1e-4)


def test_ranking_counts_and_rates() -> None:
    first, second, outcome, _ = votes(1, n=600)
    found = bradley_terry(NAMES[first], NAMES[second], outcome, resamples=200)
    assert [one.system for one in found.standings] == ["c", "b", "a", "d"]
    assert sum(one.wins + one.ties / 2 for one in found.standings) == found.n == 600
    assert sum(one.win_rate.value for one in found.standings) == pytest.approx(2.0)
    assert all(one.strength.low < one.strength.value < one.strength.high for one in found.standings)


@pytest.mark.parametrize(
    ("first", "second", "outcome", "said"),
    [
        (["a", "c"], ["b", "d"], [1, 0], "never compared"),
        (["a", "a"], ["b", "b"], [1, 1], "unbounded"),
        (["a"], ["a"], [1], "with itself"),
        (["a"], ["b"], [3], "an outcome is"),
        ([], [], [], "an outcome is"),
    ],
)
def test_votes_that_say_nothing(first: list, second: list, outcome: list, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        bradley_terry(first, second, outcome)


def test_a_constant_covariate_is_refused() -> None:
    first, second, outcome, _ = votes(1)
    with pytest.raises(UsageError, match="leave it out"):
        bradley_terry(NAMES[first], NAMES[second], outcome, covariates={"x": np.zeros(outcome.size)})
