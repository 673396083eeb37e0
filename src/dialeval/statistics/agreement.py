"""How far do raters agree, and how good could a metric be at best?

Ratings are a matrix of units x raters; NaN marks what a rater did not rate. Columns may be persons or just
seats ("the first annotation of this unit"): only `cohen_kappa`, the "mean" form of `human_ceiling` and the
two-way `intraclass` care who sits where.

- `raw_agreement`: how often two ratings of a unit are equal. Easy to read, flattered by a dominant label.
- `fleiss_kappa`, `cohen_kappa`: the same, beyond what the label frequencies alone would give.
- `krippendorff_alpha`: for any number of raters, missing ratings and level of measurement.
- `human_ceiling`: how well one person predicts the others, on the scale metrics are judged on.
- `agreement_interval`: an interval for any of them.
"""

from collections.abc import Callable

import numpy as np

from dialeval.errors import UsageError
from dialeval.statistics.coincidence import (
    Weighted,
    alpha,
    fleiss,
    table,
    unit_agreement,
    weighted_agreement,
)
from dialeval.statistics.correlation import correlate
from dialeval.statistics.estimate import (
    Estimate,
    Floats,
    Integers,
    Matrix,
    Vector,
    clusters_of,
    complete,
    matrix,
    number,
)
from dialeval.statistics.resampling import (
    bootstrap_correlations,
    bootstrap_statistic,
    chunked,
    interval,
    leave_one_out,
    spread,
)

TIES = ("null", "lowest", "highest", "first")


def _why_not(counts: Floats, ratings: Matrix) -> Estimate | None:
    """The reason a table of ratings says nothing about agreement, if there is one."""
    if counts.size:
        return Estimate.undefined("constant", len(counts)) if (counts.sum(axis=0) > 0).sum() < 2 else None
    data = matrix(ratings)
    seats = int((~np.isnan(data)).any(axis=0).sum())
    return Estimate.undefined("no ratings" if seats == 0 else "one rater" if seats == 1 else "no overlap")


def raw_agreement(ratings: Matrix) -> Estimate:
    """Share of equal pairs of ratings within a unit, averaged over units with two or more ratings.

    >>> raw_agreement([[1, 1], [1, 2], [2, 2], [1, 1]]).value
    0.75
    """
    counts, _ = table(ratings)
    if counts.size == 0:
        return _why_not(counts, ratings) or Estimate.undefined("no overlap")
    return Estimate(float(unit_agreement(counts).mean()), len(counts))


def fleiss_kappa(ratings: Matrix, exclude: float | None = None) -> Estimate:
    """Fleiss' kappa, also for units with different numbers of ratings.

    Observed agreement is averaged over units, expected agreement uses the share of each label in all ratings
    kept; units with fewer than two ratings are dropped.

    Args:
        ratings: Units x raters.
        exclude: Drop every annotation with this label first. With the dominant label excluded, a high kappa
            can no longer come from one easy class (FlowEval, appendix A.2).

    >>> round(fleiss_kappa([[1, 1, 1], [2, 2, 1], [2, 2, 2], [1, 1, 2]]).value, 4)
    0.3333
    """
    counts, _ = table(ratings, exclude)
    return _why_not(counts, ratings) or _point(fleiss(counts), counts)


def _point(form: Weighted, counts: Floats) -> Estimate:
    value = number(form(np.ones((1, len(counts)), dtype=np.int32))[0])
    return Estimate.undefined("constant", len(counts)) if value is None else Estimate(value, len(counts))


def krippendorff_alpha(ratings: Matrix, level: str = "ordinal") -> Estimate:
    """Krippendorff's alpha: 1 - observed / expected disagreement; `n` counts units with two or more ratings.

    Args:
        ratings: Units x raters.
        level: What differences mean: `nominal` (same or not), `ordinal` (ranks between), `interval`
            (squared distance), `ratio` (distance relative to the sum; values must not be negative).

    >>> round(krippendorff_alpha([[1, 1], [2, 2], [3, 3], [3, 4], [None, 4]], "ordinal").value, 4)
    0.9103
    """
    counts, values = table(ratings)
    if level == "ratio" and values.size and values[0] < 0:
        return Estimate.undefined("negative values on a ratio scale", len(counts))
    return _why_not(counts, ratings) or _point(alpha(counts, values, level), counts)


def cohen_kappa(a: Vector, b: Vector, weights: str | None = None) -> Estimate:
    """Cohen's kappa of two raters; `weights` "linear" or "quadratic" forgive near misses.

    Weights count steps between the labels that occur, in their order.

    >>> round(cohen_kappa([1, 1, 2, 2, 3], [1, 2, 2, 2, 3]).value, 4)
    0.6875
    """
    if weights not in (None, "linear", "quadratic"):
        raise UsageError(f"unknown weights {weights!r}; choose linear, quadratic or None")
    left, right = complete(a, b)
    if left.size == 0:
        return Estimate.undefined("no overlap")
    labels, places = np.unique(np.concatenate([left, right]), return_inverse=True)
    k = labels.size
    if k < 2:
        return Estimate.undefined("constant", left.size)
    table = (
        np.bincount(places[: left.size] * k + places[left.size :], minlength=k * k).reshape(k, k) / left.size
    )
    steps = np.abs(np.subtract.outer(np.arange(k), np.arange(k)))
    cost = (steps > 0).astype(float) if weights is None else steps ** (1.0 if weights == "linear" else 2.0)
    expected = float(np.sum(cost * np.outer(table.sum(axis=1), table.sum(axis=0))))
    return Estimate(float(1 - np.sum(cost * table) / expected), left.size)


def majority(ratings: Matrix, tie: str = "null") -> Floats:
    """The most frequent rating of each unit; NaN (missing) where there is none.

    Args:
        ratings: Units x raters.
        tie: What to do when several ratings are equally frequent: `null` leaves the unit without one,
            `lowest` and `highest` choose by value, `first` the one that stands in the earliest column.

    >>> majority([[1, 1, 2], [3, 2, None]], tie="first").tolist()
    [1.0, 3.0]
    """
    if tie not in TIES:
        raise UsageError(f"unknown tie rule {tie!r}; choose one of {', '.join(TIES)}")
    return np.array([_most_frequent(row[~np.isnan(row)], tie) for row in matrix(ratings)], dtype=np.float64)


def _most_frequent(row: Floats, tie: str) -> float:
    if row.size == 0:
        return np.nan
    values, counts = np.unique(row, return_counts=True)
    best = values[counts == counts.max()]
    if best.size == 1 or tie == "lowest":
        return float(best[0])
    if tie == "highest":
        return float(best[-1])
    return float(row[np.isin(row, best)][0]) if tie == "first" else np.nan


def human_ceiling(
    ratings: Matrix,
    method: str = "spearman",
    *,
    how: str = "pooled",
    clusters: Vector | None = None,
    resamples: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """One rater against the mean of the others: what a metric as good as a person would reach.

    For every rating of a unit with at least two, the pair (this rating, mean of the unit's other ratings)
    is formed. A metric is usually judged against the mean of *all* raters, which is a little less noisy than
    the mean of the others, so a good metric can come out above this ceiling.

    Args:
        ratings: Units x raters.
        method: One of `METHODS`.
        how: `pooled` puts all pairs in one correlation, right when columns are seats and not persons.
            `mean` correlates per column and averages (columns weighted by their pairs), right when each
            column is one person with a scale of their own.
        clusters: Dialogue of each unit, for the interval.
        resamples: Draws for an interval of the pooled form; 0 for none.
        confidence: Of that interval.
        seed: Of those draws.

    Returns:
        The correlation with `n` = number of pairs. Pairs of one unit depend on each other, so no plain p.

    >>> round(human_ceiling([[1, 1, 2], [2, 3, 2], [4, 4, 5], [5, 4, 5]]).value, 3)
    0.779
    """
    if how not in ("pooled", "mean"):
        raise UsageError(f"unknown form {how!r}; choose pooled or mean")
    data = matrix(ratings)
    present = ~np.isnan(data)
    n = present.sum(axis=1, keepdims=True)
    usable = present & (n >= 2)
    if not usable.any():
        return _why_not(np.zeros((0, 0)), ratings) or Estimate.undefined("no overlap")
    others = (np.nansum(data, axis=1, keepdims=True) - data) / np.maximum(n - 1, 1)
    own, rest = np.where(usable, data, np.nan), np.where(usable, others, np.nan)
    if how == "mean":
        return _mean_ceiling(own, rest, method)
    if resamples == 0:
        pooled = correlate(own.ravel(), rest.ravel(), method)
        return Estimate(pooled.value, pooled.n, reason=pooled.reason)
    places, _ = clusters_of(clusters, len(data))
    units = np.repeat(places, data.shape[1])
    found = bootstrap_correlations(
        [own.ravel()],
        rest.ravel(),
        units,
        methods=[method],
        resamples=resamples,
        confidence=confidence,
        seed=seed,
    )[method][0]
    return Estimate(found.value, found.n, found.low, found.high, reason=found.reason)


def _mean_ceiling(own: Floats, rest: Floats, method: str) -> Estimate:
    each = [correlate(own[:, rater], rest[:, rater], method) for rater in range(own.shape[1])]
    defined = [(e.value, e.n) for e in each if e.value is not None]
    if not defined:
        return Estimate.undefined(
            next((e.reason for e in each if e.n and e.reason), "n < 3"), sum(e.n for e in each)
        )
    n = sum(size for _, size in defined)
    return Estimate(sum(value * size for value, size in defined) / n, n)


def agreement_interval(
    ratings: Matrix,
    statistic: str | Callable[[Floats], Estimate] = "krippendorff_alpha",
    clusters: Vector | None = None,
    *,
    level: str = "ordinal",
    exclude: float | None = None,
    resamples: int = 1_000,
    confidence: float = 0.95,
    seed: int = 0,
    workers: int = 1,
) -> Estimate:
    """An agreement figure with an interval from resampling units, or whole dialogues of units.

    Args:
        ratings: Units x raters.
        statistic: `krippendorff_alpha`, `fleiss_kappa` or `raw_agreement` (fast), or any function of a
            ratings matrix that returns an `Estimate` (slow).
        clusters: Dialogue of each unit.
        level: For alpha.
        exclude: For Fleiss' kappa.
        resamples: Number of draws.
        confidence: Probability the interval is built for.
        seed: Same seed, same interval.
        workers: Threads.

    >>> data = [[1, 1], [2, 2], [3, 3], [3, 4], [1, 2], [4, 4], [2, 2], [1, 1]]
    >>> e = agreement_interval(data, "raw_agreement")
    >>> e.value, e.low < 0.75 < e.high
    (0.75, True)
    """
    data = matrix(ratings)
    if callable(statistic):
        return _slow_interval(
            data, statistic, clusters, resamples=resamples, confidence=confidence, seed=seed, workers=workers
        )
    points: dict[str, Callable[[], Estimate]] = {
        "krippendorff_alpha": lambda: krippendorff_alpha(data, level),
        "fleiss_kappa": lambda: fleiss_kappa(data, exclude),
        "raw_agreement": lambda: raw_agreement(data),
    }
    if statistic not in points:
        raise UsageError(f"unknown agreement {statistic!r}; choose one of {', '.join(points)}")
    point = points[statistic]()
    kept = (
        np.where(data == exclude, np.nan, data)
        if statistic == "fleiss_kappa" and exclude is not None
        else data
    )
    rated = (~np.isnan(kept)).sum(axis=1) >= 2
    places, _ = clusters_of(clusters, len(data))
    places, count = clusters_of(places[rated], int(rated.sum()))
    if point.value is None or count < 2:
        return Estimate(point.value, point.n, reason=point.reason or "one cluster")
    form = weighted_agreement(statistic, kept, level)

    def figures(drawn: Integers) -> Floats:
        return form(spread(drawn, places))

    draws = np.concatenate(chunked(figures, count, resamples, seed, workers))
    left_out = np.concatenate([figures(c) for c in leave_one_out(count)])
    low, high, reason = interval(point.value, draws, left_out, confidence)
    return Estimate(point.value, point.n, low, high, reason=reason)


def _slow_interval(
    data: Floats,
    statistic: Callable[[Floats], Estimate],
    clusters: Vector | None,
    *,
    resamples: int,
    confidence: float,
    seed: int,
    workers: int,
) -> Estimate:
    point = statistic(data)
    if point.value is None:
        return point
    found = bootstrap_statistic(
        data,
        lambda rows: statistic(rows).value,
        clusters,
        resamples=resamples,
        confidence=confidence,
        seed=seed,
        workers=workers,
    )
    return Estimate(point.value, point.n, found.low, found.high, reason=found.reason)
