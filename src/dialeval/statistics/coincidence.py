"""Agreement of many resamples at once, from how often each unit was drawn.

The same idea as in `weighted`: kappa and alpha are made of sums over units, so a resample is a vector of
weights and a chunk of resamples a few matrix products.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from dialeval.errors import UsageError
from dialeval.statistics.estimate import Floats, Integers, Matrix, matrix

LEVELS = ("nominal", "ordinal", "interval", "ratio")
Weighted: TypeAlias = Callable[[Integers], Floats]
"""Weights (resamples x units) to one figure per resample, NaN where undefined."""


def table(ratings: Matrix, exclude: float | None = None) -> tuple[Floats, Floats]:
    """Units x values: how many ratings of each value; only units with two or more ratings. And the values."""
    data = matrix(ratings)
    if exclude is not None:
        data = np.where(data == exclude, np.nan, data)
    values = np.unique(data[~np.isnan(data)])
    counts = (
        np.stack([(data == value).sum(axis=1) for value in values], axis=1)
        if values.size
        else np.zeros((0, 0))
    )
    return counts[counts.sum(axis=1) >= 2].astype(np.float64), values


def unit_agreement(counts: Floats) -> Floats:
    """Share of equal pairs of ratings in each unit."""
    n = counts.sum(axis=1)
    result: Floats = (np.sum(counts**2, axis=1) - n) / (n * (n - 1))
    return result


def weighted_agreement(statistic: str, data: Floats, level: str) -> Weighted:
    """One of the three figures that have a fast form, by name."""
    counts, values = table(data)
    if statistic == "krippendorff_alpha":
        return alpha(counts, values, level)
    if statistic == "fleiss_kappa":
        return fleiss(counts)
    agreement = unit_agreement(counts)
    return lambda weights: weights @ agreement / weights.sum(axis=1)


def fleiss(counts: Floats) -> Weighted:
    """Kappa from the counts of `table`."""
    agreement = unit_agreement(counts)

    def of(weights: Integers) -> Floats:
        share = weights @ counts
        share /= share.sum(axis=1, keepdims=True)
        chance = np.sum(share**2, axis=1)
        observed = weights @ agreement / weights.sum(axis=1)
        return _beyond(observed - chance, 1 - chance)

    return of


def _beyond(gain: Floats, room: Floats) -> Floats:
    result: Floats = np.divide(gain, room, out=np.full(gain.shape, np.nan), where=room > 1e-12)
    return result


def alpha(counts: Floats, values: Floats, level: str) -> Weighted:
    """Alpha from the counts and values of `table`."""
    if level not in LEVELS:
        raise UsageError(f"unknown level {level!r}; choose one of {', '.join(LEVELS)}")
    if level == "ordinal":
        return _alpha_ordinal(counts)
    if level == "interval":
        return _alpha_interval(counts, values)
    distance = _distances(values, level)
    m = counts.sum(axis=1)
    # Disagreement inside each unit is one number; expected disagreement needs only the marginals.
    within = np.einsum("uc,ck,uk->u", counts, distance, counts, optimize=True) / (m - 1)

    def of(weights: Integers) -> Floats:
        marginal = weights @ counts
        expected = np.einsum("rc,rc->r", marginal @ distance, marginal) / (marginal.sum(axis=1) - 1)
        return _beyond_ratio(weights @ within, expected)

    return of


def _beyond_ratio(observed: Floats, expected: Floats) -> Floats:
    floor = 1e-14 * np.max(expected, initial=0.0)
    ratio: Floats = np.divide(observed, expected, out=np.full(observed.shape, np.nan), where=expected > floor)
    return np.asarray(1 - ratio)


def _distances(values: Floats, level: str) -> Floats:
    gap: Floats = values[:, None] - values[None, :]
    if level == "nominal":
        return np.asarray(gap != 0, dtype=np.float64)
    total = values[:, None] + values[None, :]
    return np.asarray(np.square(np.divide(gap, total, out=np.zeros_like(gap), where=total != 0)))


def _alpha_interval(counts: Floats, values: Floats) -> Weighted:
    """Squared distances summed over pairs are variances: two sums per unit replace a table of pairs."""
    m = counts.sum(axis=1)
    centred = values - counts.sum(axis=0) @ values / m.sum()
    first, second = counts @ centred, counts @ centred**2
    within = 2 * (m * second - first**2) / (m - 1)
    terms = np.stack([m, first, second, within], axis=1)

    def of(weights: Integers) -> Floats:
        n, total, squares, observed = (weights @ terms).T
        return _beyond_ratio(observed, 2 * (n * squares - total**2) / (n - 1))

    return of


def _alpha_ordinal(counts: Floats) -> Weighted:
    """Ordinal distance is squared distance between mid-ranks, and ranks move with every resample.

    With the ranks of a resample at hand it is the interval form.
    """
    m = counts.sum(axis=1)

    def one(weights: Floats) -> float:
        marginal = weights @ counts
        ranks = np.cumsum(marginal) - marginal / 2
        n = marginal.sum()
        ranks -= marginal @ ranks / n
        pulls = counts @ ranks
        observed = weights @ (2 * (m * (counts @ ranks**2) - pulls**2) / (m - 1))
        expected = 2 * n * (marginal @ ranks**2) / (n - 1)
        return float(1 - observed / expected) if expected > 1e-14 * n**3 else np.nan

    return lambda weights: np.array([one(row) for row in weights.astype(np.float64)])
