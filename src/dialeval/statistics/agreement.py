"""Chance-corrected agreement of raters, with intervals, the majority vote, and the human ceiling.

Ratings are a matrix of units x raters; NaN marks what a rater did not rate. Columns may be persons or
positions ("the first annotation of this unit"): only `cohen_kappa` depends on the difference.

- `raw_agreement`: how often two ratings of a unit are equal. Easy to read, inflated by a dominant label.
- `fleiss_kappa`, `cohen_kappa`: the same, corrected for the agreement expected from label frequencies.
- `krippendorff_alpha`: for any number of raters, missing ratings and level of measurement.
- `gwet_ac`: AC1, where chance agreement does not grow with a dominant label.
- `agreement_interval`: an interval for any of them.
- `human_ceiling`: the correlation of one rater with the mean of the others, to compare metrics with.
"""

from collections.abc import Callable
from typing import TypeAlias, Unpack

import numpy as np

from dialeval.errors import UsageError
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
    Draws,
    Resampling,
    bootstrap_correlations,
    resampled,
    spread,
    with_interval,
)

LEVELS = ("nominal", "ordinal", "interval", "ratio")
TIES = ("null", "lowest", "highest", "first")
Weighted: TypeAlias = Callable[[Integers], Floats]
"""Weights (resamples x units) to one figure per resample, NaN where undefined."""


def _why_undefined(counts: Floats, ratings: Matrix) -> Estimate | None:
    """Return the reason that agreement is undefined, if it is."""
    if counts.size:
        return Estimate.undefined("constant", len(counts)) if (counts.sum(axis=0) > 0).sum() < 2 else None
    data = matrix(ratings)
    seats = int((~np.isnan(data)).any(axis=0).sum())
    return Estimate.undefined("no ratings" if seats == 0 else "one rater" if seats == 1 else "no overlap")


def raw_agreement(ratings: Matrix) -> Estimate:
    """Return the share of equal pairs of ratings in a unit, averaged over units with two or more ratings.

    >>> raw_agreement([[1, 1], [1, 2], [2, 2], [1, 1]]).value
    0.75
    """
    counts, _ = rating_counts(ratings)
    if counts.size == 0:
        return _why_undefined(counts, ratings) or Estimate.undefined("no overlap")
    return Estimate(float(_unit_agreement(counts).mean()), len(counts))


def fleiss_kappa(ratings: Matrix, exclude: float | None = None) -> Estimate:
    """Return Fleiss' kappa, also for units with different numbers of ratings.

    Observed agreement is averaged over units, expected agreement uses the share of each label in all ratings
    kept; units with fewer than two ratings are dropped.

    Args:
        ratings: Units x raters.
        exclude: Drop every annotation with this label first. With the dominant label excluded, a high kappa
            can no longer come from one easy class (FlowEval, appendix A.2).

    >>> round(fleiss_kappa([[1, 1, 1], [2, 2, 1], [2, 2, 2], [1, 1, 2]]).value, 4)
    0.3333
    """
    counts, _ = rating_counts(ratings, exclude)
    return _why_undefined(counts, ratings) or _point(_weighted_fleiss(counts), counts)


def _point(form: Weighted, counts: Floats) -> Estimate:
    value = number(form(np.ones((1, len(counts)), dtype=np.int32))[0])
    return Estimate.undefined("constant", len(counts)) if value is None else Estimate(value, len(counts))


def krippendorff_alpha(ratings: Matrix, level: str = "ordinal") -> Estimate:
    """Return Krippendorff's alpha, 1 - observed / expected disagreement; `n` counts units with two ratings.

    Args:
        ratings: Units x raters.
        level: What differences mean: `nominal` (same or not), `ordinal` (ranks between), `interval`
            (squared distance), `ratio` (distance relative to the sum; values must not be negative).

    >>> round(krippendorff_alpha([[1, 1], [2, 2], [3, 3], [3, 4], [None, 4]], "ordinal").value, 4)
    0.9103
    """
    counts, values = rating_counts(ratings)
    if level == "ratio" and values.size and values[0] < 0:
        return Estimate.undefined("negative values on a ratio scale", len(counts))
    return _why_undefined(counts, ratings) or _point(_weighted_alpha(counts, values, level), counts)


def gwet_ac(ratings: Matrix) -> Estimate:
    """Return Gwet's AC1.

    Expected agreement in kappa grows with a dominant label: with nine of ten units in one class, raters who
    agree on almost all of them may get a kappa of 0. AC1 counts only units that are hard to judge as chance
    agreement. Categories are the values that occur.

    >>> ratings = [[1, 1]] * 9 + [[1, 2]]
    >>> round(gwet_ac(ratings).value, 3), round(fleiss_kappa(ratings).value, 3)
    (0.89, -0.053)
    """
    counts, _ = rating_counts(ratings)
    return _why_undefined(counts, ratings) or _point(_weighted_gwet(counts), counts)


def cohen_kappa(a: Vector, b: Vector) -> Estimate:
    """Return Cohen's kappa of two raters.

    >>> round(cohen_kappa([1, 1, 2, 2, 3], [1, 2, 2, 2, 3]).value, 4)
    0.6875
    """
    left, right = complete(a, b)
    if left.size == 0:
        return Estimate.undefined("no overlap")
    labels, codes = np.unique(np.concatenate([left, right]), return_inverse=True)
    k = labels.size
    if k < 2:
        return Estimate.undefined("constant", left.size)
    first, second = (np.bincount(side, minlength=k) / left.size for side in np.split(codes, 2))
    observed = float(np.mean(left != right))
    return Estimate(1 - observed / (1 - float(first @ second)), left.size)


def majority(ratings: Matrix, tie: str = "null") -> Floats:
    """Return the most frequent rating of each unit; NaN (missing) where there is none.

    Args:
        ratings: Units x raters.
        tie: What to do when several ratings are equally frequent: `null` leaves the unit without one,
            `lowest` and `highest` choose by value, `first` the one in the earliest column.

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


def agreement_interval(
    ratings: Matrix,
    statistic: str = "krippendorff_alpha",
    clusters: Vector | None = None,
    *,
    level: str = "ordinal",
    exclude: float | None = None,
    **draws: Unpack[Draws],
) -> Estimate:
    """Return an agreement coefficient with a bootstrap interval over units, or over whole dialogues.

    Args:
        ratings: Units x raters.
        statistic: `krippendorff_alpha`, `fleiss_kappa`, `gwet_ac` or `raw_agreement`.
        clusters: Dialogue of each unit.
        level: For alpha.
        exclude: For Fleiss' kappa.
        **draws: See `Resampling`; by default 1,000.

    >>> data = [[1, 1], [2, 2], [3, 3], [3, 4], [1, 2], [4, 4], [2, 2], [1, 1]]
    >>> e = agreement_interval(data, "raw_agreement")
    >>> e.value, e.low < 0.75 < e.high
    (0.75, True)
    """
    data = matrix(ratings)
    points: dict[str, Callable[[], Estimate]] = {
        "krippendorff_alpha": lambda: krippendorff_alpha(data, level),
        "fleiss_kappa": lambda: fleiss_kappa(data, exclude),
        "gwet_ac": lambda: gwet_ac(data),
        "raw_agreement": lambda: raw_agreement(data),
    }
    if statistic not in points:
        raise UsageError(f"unknown agreement {statistic!r}; choose one of {', '.join(points)}")
    point = points[statistic]()
    included = (
        np.where(data == exclude, np.nan, data)
        if statistic == "fleiss_kappa" and exclude is not None
        else data
    )
    rated = (~np.isnan(included)).sum(axis=1) >= 2
    codes, count = clusters_of(clusters, len(data), rated)
    if point.value is None or count < 2:
        return Estimate(point.value, point.n, reason=point.reason or "one cluster")
    form = _weighted_agreement(statistic, included, level)
    draws.setdefault("resamples", 1_000)
    resampling = Resampling(**draws)
    drawn = resampled(lambda counts: form(spread(counts, codes)), count, resampling)
    return with_interval(point, *drawn, resampling.confidence)


def human_ceiling(
    ratings: Matrix, method: str = "spearman", clusters: Vector | None = None, **draws: Unpack[Draws]
) -> Estimate:
    """Return the correlation of one rater with the mean of the others: the ceiling for metrics.

    For every rating of a unit with at least two, the pair (this rating, mean of the unit's other ratings)
    is formed, and all pairs are correlated. A metric is usually judged against the mean of *all* raters,
    which is a little less noisy than that of the others, so a good metric can come out above this ceiling.

    Args:
        ratings: Units x raters.
        method: One of `METHODS`.
        clusters: Dialogue of each unit, for the interval.

    Returns:
        The correlation with `n` = number of pairs. Pairs of one unit depend on each other, so no plain p.

    >>> round(human_ceiling([[1, 1, 2], [2, 3, 2], [4, 4, 5], [5, 4, 5]]).value, 3)
    0.779
    """
    data = matrix(ratings)
    present = ~np.isnan(data)
    n = present.sum(axis=1, keepdims=True)
    usable = present & (n >= 2)
    if not usable.any():
        return _why_undefined(np.zeros((0, 0)), ratings) or Estimate.undefined("no overlap")
    others_mean = (np.nansum(data, axis=1, keepdims=True) - data) / np.maximum(n - 1, 1)
    single, rest = np.where(usable, data, np.nan), np.where(usable, others_mean, np.nan)
    units = np.repeat(clusters_of(clusters, len(data))[0], data.shape[1])
    by_method = bootstrap_correlations([single.ravel()], rest.ravel(), units, methods=[method], **draws)
    estimate = by_method[method][0]
    return Estimate(estimate.value, estimate.n, estimate.low, estimate.high, reason=estimate.reason)


# Figures of many resamples at once. Kappa and alpha are sums over units, so a resample is a vector of weights
# (how often each unit was drawn) and a chunk of resamples a few matrix products, as in `weighted`.


def rating_counts(ratings: Matrix, exclude: float | None = None) -> tuple[Floats, Floats]:
    """Return how often each value occurs in each unit that has two or more ratings, and the values."""
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


def _unit_agreement(counts: Floats) -> Floats:
    """Return the share of equal pairs of ratings in each unit."""
    n = counts.sum(axis=1)
    result: Floats = (np.sum(counts**2, axis=1) - n) / (n * (n - 1))
    return result


def _weighted_agreement(statistic: str, data: Floats, level: str) -> Weighted:
    """Return one of the four coefficients as a function of weights."""
    counts, values = rating_counts(data)
    if statistic == "krippendorff_alpha":
        return _weighted_alpha(counts, values, level)
    if statistic == "fleiss_kappa":
        return _weighted_fleiss(counts)
    if statistic == "gwet_ac":
        return _weighted_gwet(counts)
    agreement = _unit_agreement(counts)
    return lambda weights: weights @ agreement / weights.sum(axis=1)


def _weighted_fleiss(counts: Floats) -> Weighted:
    """Return Fleiss' kappa from the counts of `rating_counts`."""
    agreement = _unit_agreement(counts)

    def of(weights: Integers) -> Floats:
        share = weights @ counts
        share /= share.sum(axis=1, keepdims=True)
        chance = np.sum(share**2, axis=1)
        observed = weights @ agreement / weights.sum(axis=1)
        return _beyond(observed - chance, 1 - chance)

    return of


def _weighted_gwet(counts: Floats) -> Weighted:
    """Return AC1 from the counts of `rating_counts`."""
    agreement, shares, k = _unit_agreement(counts), counts / counts.sum(axis=1)[:, None], counts.shape[1]

    def of(drawn: Integers) -> Floats:
        size = drawn.sum(axis=1)
        share = drawn @ shares / size[:, None]
        chance = np.sum(share * (1 - share), axis=1) / (k - 1)
        return _beyond(drawn @ agreement / size - chance, 1 - chance)

    return of


def _beyond(gain: Floats, room: Floats) -> Floats:
    result: Floats = np.divide(gain, room, out=np.full(gain.shape, np.nan), where=room > 1e-12)
    return result


def _weighted_alpha(counts: Floats, values: Floats, level: str) -> Weighted:
    """Return alpha from the counts and values of `rating_counts`."""
    if level not in LEVELS:
        raise UsageError(f"unknown level {level!r}; choose one of {', '.join(LEVELS)}")
    if level == "ordinal":
        return _alpha_ordinal(counts)
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
    if level == "interval":
        return gap**2
    total = values[:, None] + values[None, :]
    return np.asarray(np.square(np.divide(gap, total, out=np.zeros_like(gap), where=total != 0)))


def _alpha_ordinal(counts: Floats) -> Weighted:
    """Return ordinal alpha: the interval form on mid-ranks, which change with every resample."""
    m = counts.sum(axis=1)

    def alpha(weights: Floats) -> float:
        marginal = weights @ counts
        ranks = np.cumsum(marginal) - marginal / 2
        n = marginal.sum()
        ranks -= marginal @ ranks / n
        pulls = counts @ ranks
        observed = weights @ (2 * (m * (counts @ ranks**2) - pulls**2) / (m - 1))
        expected = 2 * n * (marginal @ ranks**2) / (n - 1)
        return float(1 - observed / expected) if expected > 1e-14 * n**3 else np.nan

    return lambda weights: np.array([alpha(row) for row in weights.astype(np.float64)])
