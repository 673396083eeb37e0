"""Scores beside classes: is a score high where people say good?

A class is a label such as 0, 1, 2, or a half of the ratings where they take many values. `bootstrap_aucs`
says how well a score tells the upper classes from the lower ones, wherever the line between them is drawn;
`thresholds` draws one.
"""

from collections.abc import Callable

import numpy as np

from dialeval.errors import UsageError
from dialeval.statistics.correlation import auc
from dialeval.statistics.estimate import (
    Estimate,
    Floats,
    Integers,
    Matrix,
    Vector,
    clusters_of,
    matrix,
    vector,
)
from dialeval.statistics.resampling import (
    CHUNK,
    FEWEST_CLUSTERS,
    RESAMPLES,
    chunked,
    in_threads,
    interval,
    jackknife_p,
    leave_out,
    left_out_groups,
    spread,
)


def upper_half(values: Vector) -> Floats:
    """1 for values in the upper half, 0 for the lower, NaN where there is none.

    A value at the median is upper, unless nothing lies below it: then only what is above the median is.

    >>> upper_half([1, 2, 3, 4, None]).tolist(), upper_half([1, 1, 1, 2]).tolist()
    ([0.0, 0.0, 1.0, 1.0, nan], [0.0, 0.0, 0.0, 1.0])
    """
    data = vector(values)
    known = data[~np.isnan(data)]
    if known.size == 0:
        return data
    middle = np.median(known)
    upper = data > middle if known.min() == middle else data >= middle
    return np.where(np.isnan(data), np.nan, upper)


def middle_cut(labels: Vector) -> float | None:
    """The lowest label that counts as upper: the first at or above the middle of the range.

    There is none (`None`) if all labels are the same.

    >>> middle_cut([0, 1]), middle_cut([0, 1, 2, 2]), middle_cut([1, 2, 3, 4]), middle_cut([3, 3])
    (1.0, 1.0, 3.0, None)
    """
    data = vector(labels)
    names = np.unique(data[~np.isnan(data)])
    return float(names[names >= (names[0] + names[-1]) / 2][0]) if names.size > 1 else None


def bootstrap_aucs(
    columns: Matrix,
    upper: Vector,
    clusters: Vector | None = None,
    *,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = 0,
    workers: int = 1,
) -> list[Estimate]:
    """AUC of many sources, with intervals by resampling whole clusters.

    Args:
        columns: Sources x items, NaN where a source did not score an item.
        upper: 1 (or `True`) for items of the upper classes, 0 for the others; items without it are dropped.
        clusters: Which dialogue each item belongs to.
        resamples: Number of draws.
        confidence: Probability the interval is built for.
        seed: Same seed, same interval, whatever the number of workers.
        workers: Threads.

    Returns:
        One estimate per source. `p` is Mann-Whitney's where rows stand alone; with clusters of more than one
        row it is a t-test of AUC = .5 on the jackknife over clusters.

    >>> found = bootstrap_aucs([[1, 2, 4, 3, 6, 5, 7]], [0, 0, 0, 1, 1, 1, 1], resamples=500)[0]
    >>> round(found.value, 3), found.n, found.low < found.value <= found.high
    (0.917, 7, True)
    """
    data, classes = matrix(columns), vector(upper)
    if data.shape[1] != classes.size:
        raise UsageError(f"columns of length {data.shape[1]} beside {classes.size} labels")
    places, _ = clusters_of(clusters, classes.size)
    kept = ~np.isnan(classes)
    data, classes = data[:, kept], classes[kept]
    places, count = clusters_of(places[kept], classes.size)
    points = [auc(row, classes) for row in data]
    if count < FEWEST_CLUSTERS or not any(point.defined for point in points):
        return [_bare(point, count) for point in points]
    forms = [_auc_kernel(row, classes) for row in data]

    def figures(counts: Integers) -> Floats:
        weights = spread(counts, places)
        return np.stack([form(weights) for form in forms])

    draws, left_out = resampled(figures, count, resamples, seed, workers)
    found = []
    for place, (point, row) in enumerate(zip(points, data, strict=True)):
        helpful = left_out[place][np.unique(places[~np.isnan(row)] % left_out_groups(count))]
        found.append(_full(point, draws[place], helpful, confidence, test=count < classes.size))
    return found


def _full(point: Estimate, draws: Floats, left_out: Floats, confidence: float, *, test: bool) -> Estimate:
    if point.value is None:
        return point
    low, high, reason = interval(point.value, draws, left_out, confidence)
    p = jackknife_p(point.value - 0.5, left_out) if test else point.p
    return Estimate(point.value, point.n, low, high, p, reason)


def _bare(point: Estimate, clusters: int) -> Estimate:
    if point.value is None:
        return point
    p = point.p if clusters == point.n else None
    return Estimate(point.value, point.n, p=p, reason=f"no interval from fewer than {FEWEST_CLUSTERS}")


def resampled(
    figures: Callable[[Integers], Floats], count: int, resamples: int, seed: int, workers: int
) -> tuple[Floats, Floats]:
    """Figures of every draw of clusters, and with each cluster left out, along the last axis."""
    with np.errstate(all="ignore"):
        draws = np.concatenate(chunked(figures, count, resamples, seed, workers), axis=-1)
        firsts = list(range(0, left_out_groups(count), CHUNK))
        left_out = np.concatenate(
            in_threads(lambda at: figures(leave_out(count, at)), firsts, workers), axis=-1
        )
    return draws, left_out


def _auc_kernel(values: Floats, classes: Floats) -> Callable[[Integers], Floats]:
    """AUC from how often each row was drawn: rows are sorted once, ties counted group by group."""
    rows = np.flatnonzero(~np.isnan(values))
    if rows.size == 0:
        return lambda weights: np.full(len(weights), np.nan)
    rows = rows[np.argsort(values[rows], kind="stable")]
    ordered = values[rows]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    positive = classes[rows] == classes.max()

    def of(weights: Integers) -> Floats:
        drawn = weights.take(rows, axis=1).astype(np.float64)
        high = np.add.reduceat(np.where(positive, drawn, 0.0), starts, axis=1)
        low = np.add.reduceat(np.where(positive, 0.0, drawn), starts, axis=1)
        below = np.cumsum(low, axis=1) - low / 2
        pairs = high.sum(axis=1) * low.sum(axis=1)
        wins: Floats = np.sum(high * below, axis=1) / np.where(pairs > 0, pairs, np.nan)
        return wins

    return of
