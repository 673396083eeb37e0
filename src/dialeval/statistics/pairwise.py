"""Strengths of systems from pairwise votes: the Bradley-Terry model with Davidson's ties.

    P(first) : P(second) : P(tie)  =  exp(m / 2) : exp(-m / 2) : exp(t),
    m = strength of the first - strength of the second + covariates

Without ties it is a logistic regression on differences. Covariates (the first's minus the second's) adjust
for confounders such as length, Markdown and position. Intervals are by bootstrap over items, because votes
on one item are correlated.

`choix` fits the plain model without ties, covariates and intervals; statsmodels is the oracle in the tests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from dialeval.errors import UsageError
from dialeval.statistics.estimate import Estimate, Floats, Integers, Places, Vector, clusters_of, vector
from dialeval.statistics.resampling import Draws, Resampling, resampled, spread, with_interval

_MOST_STEPS = 50
_LARGEST = 30.0  # a strength is unbounded in a bootstrap sample in which a system won everything


@dataclass(frozen=True, slots=True)
class Standing:
    """A system among those it was compared with.

    Attributes:
        system: Its name.
        strength: Log odds of winning against an average one, with covariates equal.
        win_rate: Expected share of wins (ties count half) against all others, equally weighted.
        wins, ties, losses: Counts of votes.
    """

    system: str
    strength: Estimate
    win_rate: Estimate
    wins: int
    ties: int
    losses: int


@dataclass(frozen=True, slots=True)
class Ranking:
    """Systems by strength, best first, and the coefficients of covariates."""

    standings: tuple[Standing, ...]
    covariates: dict[str, Estimate]
    tie: float | None
    """Davidson's parameter: log odds of a tie between equals against a win of one side; None without ties."""
    n: int


def bradley_terry(
    first: Sequence[str],
    second: Sequence[str],
    outcomes: Vector,
    items: Vector | None = None,
    covariates: Mapping[str, Vector] | None = None,
    **draws: Unpack[Draws],
) -> Ranking:
    """Fit strengths to votes by maximum likelihood.

    Args:
        first: The system that was shown first, for each vote.
        outcomes: 1 if the first won, 0 if the second did, .5 for a tie.
        items: What was voted on; votes on one item are drawn together.
        covariates: By name, the first's value minus the second's.
        **draws: See `Resampling`; by default 1,000.

    >>> ranking = bradley_terry(["a", "a", "b"] * 4, ["b"] * 2 + ["a"] + (["b"] * 2 + ["a"]) * 3,
    ...                         [1, 0, 0] * 4, resamples=200)
    >>> [(row.system, round(row.strength.value, 3)) for row in ranking.standings]
    [('a', 0.347), ('b', -0.347)]
    """
    votes = vector(outcomes)
    names = sorted({*first, *second})
    numbers = {name: index for index, name in enumerate(names)}
    a, b = (np.array([numbers[name] for name in side], dtype=np.intp) for side in (first, second))
    _check(a, b, votes, names)
    extra = {name: vector(values) for name, values in (covariates or {}).items()}
    design = _design(a, b, extra, len(names))
    model = _TieModel(design, votes, len(names), bool((votes == 0.5).any()))
    fitted = model.fit(np.ones(votes.size), None)
    codes, count = clusters_of(items, votes.size)

    def figures(counts: Integers) -> Floats:
        weights = spread(counts, codes).astype(np.float64)
        return np.stack([model.figures(model.fit(row, fitted)) for row in weights], axis=-1)

    point = model.figures(fitted)
    draws.setdefault("resamples", 1_000)
    resampling = Resampling(**draws)
    estimates = [
        with_interval(Estimate(float(value), votes.size), drawn, without, resampling.confidence)
        if count > 1
        else Estimate(float(value), votes.size, reason="one item")
        for value, drawn, without in zip(point, *resampled(figures, count, resampling), strict=True)
    ]
    k = len(names)
    standings = [
        Standing(name, estimates[index], estimates[k + index], *_counted(index, a, b, votes))
        for index, name in enumerate(names)
    ]
    standings.sort(key=lambda standing: -(standing.strength.value or 0.0))
    tie = float(fitted[-1]) if model.ties else None
    return Ranking(tuple(standings), dict(zip(extra, estimates[2 * k :], strict=True)), tie, votes.size)


def _check(a: Places, b: Places, votes: Floats, names: list[str]) -> None:
    """Raise a `UsageError` for votes that give no finite strengths."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not a.size == b.size == votes.size:
        raise UsageError(f"{a.size} first, {b.size} second, {votes.size} outcomes")
    if not votes.size or np.setdiff1d(votes, (0, 0.5, 1)).size:
        raise UsageError("an outcome is 1 (the first won), 0 (the second did) or .5 (a tie)")
    if (a == b).any():
        raise UsageError(f"{names[a[(a == b).argmax()]]} is compared with itself")
    won, lost = np.concatenate([a[votes > 0], b[votes < 1]]), np.concatenate([b[votes > 0], a[votes < 1]])
    graph = coo_array((np.ones(won.size), (won, lost)), shape=(len(names), len(names)))
    apart, _ = connected_components(graph, directed=True, connection="weak")
    if apart > 1:
        raise UsageError("the systems form groups that were never compared: strengths are not defined")
    parts, part = connected_components(graph, directed=True, connection="strong")
    if parts > 1:
        alone = next(name for name, p in zip(names, part, strict=True) if (part == p).sum() < len(names))
        raise UsageError(
            f"{alone}, or a group it is in, won or lost every vote against the rest: its strength is "
            "unbounded; leave it out or collect more votes"
        )


def _design(a: Places, b: Places, extra: Mapping[str, Floats], k: int) -> Floats:
    rows = np.arange(a.size)
    systems = np.zeros((a.size, k))
    systems[rows, a], systems[rows, b] = 1.0, -1.0
    for name, values in extra.items():
        if values.size != a.size or np.isnan(values).any():
            raise UsageError(f"the covariate {name!r} needs a number for every vote")
    design = np.column_stack([systems[:, 1:], *extra.values()])  # the first is 0 until strengths are centred
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise UsageError("a covariate is constant, or determined by the systems: leave it out")
    return design


@dataclass(frozen=True)
class _TieModel:
    design: Floats
    votes: Floats
    systems: int
    ties: bool

    def fit(self, weights: Floats, start: Floats | None) -> Floats:
        """Maximise the likelihood by Newton's method; return strengths except the first, covariates, tie."""
        size = self.design.shape[1] + self.ties
        parameters = np.zeros(size) if start is None else start.copy()
        for _ in range(_MOST_STEPS):
            slope, bend = self._derivatives(parameters, weights)
            step = np.linalg.lstsq(bend, slope, rcond=None)[0]
            parameters = np.clip(
                parameters + step * min(1.0, 5.0 / max(np.abs(step).max(), 1e-300)), -_LARGEST, _LARGEST
            )
            if np.abs(step).max() < 1e-9:
                break
        return parameters

    def _derivatives(self, parameters: Floats, weights: Floats) -> tuple[Floats, Floats]:
        x, k = self.design, self.design.shape[1]
        win, loss, tie = self._shares(x @ parameters[:k], parameters[-1] if self.ties else None)
        gap = win - loss
        slope = x.T @ (weights * (self.votes - 0.5 - gap / 2))
        bend = (x * (weights * (win + loss - gap**2) / 4)[:, None]).T @ x
        if not self.ties:
            return slope, bend
        full = np.empty((k + 1, k + 1))
        full[:k, :k] = bend
        full[:k, k] = full[k, :k] = -x.T @ (weights * gap * tie / 2)
        full[k, k] = weights @ (tie * (1 - tie))
        return np.append(slope, weights @ ((self.votes == 0.5) - tie)), full

    def _shares(self, m: Floats, tie: float | None) -> tuple[Floats, Floats, Floats]:
        odds = np.stack([m / 2, -m / 2, np.full_like(m, -np.inf if tie is None else tie)])
        odds = np.exp(odds - odds.max(axis=0))
        win, loss, even = odds / odds.sum(axis=0)
        return win, loss, even

    def figures(self, parameters: Floats) -> Floats:
        """Return centred strengths, win rates and coefficients of covariates."""
        strengths = np.append(0.0, parameters[: self.systems - 1])
        strengths -= strengths.mean()
        win, _, tie = self._shares(
            np.subtract.outer(strengths, strengths).ravel(), parameters[-1] if self.ties else None
        )
        expected = (win + tie / 2).reshape(self.systems, self.systems)
        rates = (expected.sum(axis=1) - 0.5) / (self.systems - 1)
        end = self.design.shape[1]
        return np.concatenate([strengths, rates, parameters[self.systems - 1 : end]])


def _counted(index: int, a: Places, b: Places, votes: Floats) -> tuple[int, int, int]:
    outcomes = np.concatenate([votes[a == index], 1 - votes[b == index]])
    return int((outcomes == 1).sum()), int((outcomes == 0.5).sum()), int((outcomes == 0).sum())
