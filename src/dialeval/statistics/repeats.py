"""Repeated runs of a task: pass@k (at least one of k succeeds) and pass^k (all of k succeed).

The estimators are unbiased for n >= k runs of each task, by counting the ways to choose k of them; intervals
are over tasks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from dialeval.errors import UsageError
from dialeval.statistics.estimate import Estimate, Vector, clusters_of, vector
from dialeval.statistics.prediction_powered import mean_of


@dataclass(frozen=True, slots=True)
class PassRate:
    """Probability that at least one (`any`), and that each (`all`), of k runs of a task succeeds."""

    k: int
    any: Estimate
    all: Estimate
    too_few: int
    """Tasks with fewer than k runs, which are left out."""


def pass_rates(
    outcomes: Vector, tasks: Vector, ks: Sequence[int] = (1,), confidence: float = 0.95
) -> list[PassRate]:
    """Return pass@k and pass^k over tasks.

    Args:
        outcomes: 1 (success) or 0 of each run; NaN is left out.
        tasks: The task of each run.
        ks: Values of k.

    >>> rate = pass_rates([1, 1, 0, 0, 1, 0, 0, 0], [1, 1, 1, 1, 2, 2, 2, 2], [2])[0]
    >>> round(rate.any.value, 3), round(rate.all.value, 3)
    (0.667, 0.083)
    """
    values, names = vector(outcomes), np.asarray(tasks)
    present = ~np.isnan(values)
    values = values[present]
    if np.setdiff1d(values, (0, 1)).size:
        raise UsageError(f"an outcome is 0 or 1, not {np.setdiff1d(values, (0, 1))[0]:g}")
    codes, count = clusters_of(names[present], values.size)
    runs = np.bincount(codes, minlength=count).tolist()
    wins = np.bincount(codes, values, count).astype(int).tolist()
    rates = []
    for k in ks:
        if k < 1:
            raise UsageError("k must be at least 1")
        enough = [(n, c) for n, c in zip(runs, wins, strict=True) if n >= k]
        any_of_k = [1 - comb(n - c, k) / comb(n, k) for n, c in enough]
        all_of_k = [comb(c, k) / comb(n, k) for n, c in enough]
        rates.append(
            PassRate(k, _mean(any_of_k, k, confidence), _mean(all_of_k, k, confidence), count - len(enough))
        )
    return rates


def _mean(values: list[float], k: int, confidence: float) -> Estimate:
    if not values:
        return Estimate.undefined(f"no task has {k} runs")
    mean = mean_of(values).estimate(confidence)
    low, high = (None if end is None else min(1.0, max(0.0, end)) for end in (mean.low, mean.high))
    return Estimate(mean.value, mean.n, low, high, reason=mean.reason)
