"""Repeated runs of a task: does at least one of k succeed (pass@k), do all of k (pass^k)?

Both are estimated without bias from n >= k runs of each task, by counting the ways to choose k of them; a
task is a cluster, so the interval is over tasks.
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
    """Estimate pass@k and pass^k over tasks.

    Args:
        outcomes: 1 (success) or 0 of each run; NaN is left out.
        tasks: The task of each run.
        ks: Numbers of runs.
        confidence: Of the intervals.

    >>> found = pass_rates([1, 1, 0, 0, 1, 0, 0, 0], [1, 1, 1, 1, 2, 2, 2, 2], [2])[0]
    >>> round(found.any.value, 3), round(found.all.value, 3)
    (0.667, 0.083)
    """
    values, names = vector(outcomes), np.asarray(tasks)
    known = ~np.isnan(values)
    values = values[known]
    if np.setdiff1d(values, (0, 1)).size:
        raise UsageError(f"an outcome is 0 or 1, not {np.setdiff1d(values, (0, 1))[0]:g}")
    places, count = clusters_of(names[known], values.size)
    runs = np.bincount(places, minlength=count).tolist()
    wins = np.bincount(places, values, count).astype(int).tolist()
    made = []
    for k in ks:
        if k < 1:
            raise UsageError("k must be at least 1")
        enough = [(n, c) for n, c in zip(runs, wins, strict=True) if n >= k]
        some = [1 - comb(n - c, k) / comb(n, k) for n, c in enough]
        every = [comb(c, k) / comb(n, k) for n, c in enough]
        made.append(PassRate(k, _mean(some, k, confidence), _mean(every, k, confidence), count - len(enough)))
    return made


def _mean(values: list[float], k: int, confidence: float) -> Estimate:
    if not values:
        return Estimate.undefined(f"no task has {k} runs")
    found = mean_of(values).estimate(confidence)
    low, high = (None if end is None else min(1.0, max(0.0, end)) for end in (found.low, found.high))
    return Estimate(found.value, found.n, low, high, reason=found.reason)
