"""Reliability of ratings: how good could a metric be at best?

`human_ceiling` is the correlation of one rater with the mean of the others, on the scale that metrics are
judged on. `intraclass` is the share of the variance of ratings that lies between units; its kinds follow
Shrout and Fleiss: "1" (raters are seats), "2" (raters are a sample of persons and their severity counts as
error), "3" (just these persons, severity ignored); with "k" for the mean of all raters instead of one.
"""

from dataclasses import dataclass

import numpy as np

from dialeval.errors import UsageError
from dialeval.statistics.agreement import why_undefined
from dialeval.statistics.correlation import correlate
from dialeval.statistics.estimate import Estimate, Floats, Matrix, Vector, clusters_of, constant, matrix
from dialeval.statistics.resampling import bootstrap_correlations

KINDS = ("1", "2", "3", "1k", "2k", "3k")


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
        return why_undefined(np.zeros((0, 0)), ratings) or Estimate.undefined("no overlap")
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


def intraclass(ratings: Matrix, kind: str = "1", confidence: float = 0.95) -> Estimate:
    """ICC over the units that every rater rated, with the F-test's p and interval.

    Args:
        ratings: Units x raters.
        kind: One of `KINDS`.
        confidence: Of the interval.

    >>> data = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    >>> [round(intraclass(data, kind).value, 2) for kind in ("1", "2", "3", "1k")]
    [0.17, 0.29, 0.71, 0.44]
    """
    if kind not in KINDS:
        raise UsageError(f"unknown kind {kind!r}; choose one of {', '.join(KINDS)}")
    data = matrix(ratings)
    data = data[:, (~np.isnan(data)).any(axis=0)]
    data = data[~np.isnan(data).any(axis=1)]
    n, k = data.shape
    if k < 2:
        return Estimate.undefined("one rater" if k else "no ratings", n)
    if n < 3:
        return Estimate.undefined("n < 3", n)
    if constant(data.ravel()):
        return Estimate.undefined("constant", n)
    parts = Variances.of(data)
    noise = parts.within if kind[0] == "1" else parts.error
    if noise <= 1e-14 * float(np.sum((data - data.mean()) ** 2)):
        return Estimate(parts.share(kind), n, reason="no error variance")
    return _with_bounds(kind, parts, confidence)


@dataclass(frozen=True, slots=True)
class Variances:
    """Mean squares of a full table: between units, between raters (`seats`), and what is left."""

    between: float
    seats: float
    error: float
    within: float
    n: int
    k: int

    @classmethod
    def of(cls, data: Floats) -> "Variances":
        """From units x raters without gaps."""
        n, k = data.shape
        grand = data.mean()
        units, raters = data.mean(axis=1) - grand, data.mean(axis=0) - grand
        rest = float(np.sum((data - grand - units[:, None] - raters[None, :]) ** 2))
        severity = float(n * np.sum(raters**2))
        between = float(k * np.sum(units**2) / (n - 1))
        error = rest / ((n - 1) * (k - 1))
        return cls(between, severity / (k - 1), error, (rest + severity) / (n * (k - 1)), n, k)

    def share(self, kind: str) -> float:
        """The intraclass correlation of one kind."""
        noise = self.within if kind[0] == "1" else self.error
        severity = (self.seats - self.error) / self.n if kind[0] == "2" else 0.0
        seats = 1 if kind.endswith("k") else self.k
        below = self.between + (seats - 1) * noise + seats * severity
        return (self.between - noise) / below if below != 0 else 0.0


def _with_bounds(kind: str, parts: Variances, confidence: float) -> Estimate:
    from scipy import stats

    n, k = parts.n, parts.k
    df, df_error = n - 1, (n * (k - 1) if kind[0] == "1" else (n - 1) * (k - 1))
    f = parts.between / (parts.within if kind[0] == "1" else parts.error)
    tail = (1 + confidence) / 2
    if kind[0] == "2":
        low, high = _two_way(parts, tail)
    else:
        ratios = f / stats.f.ppf(tail, df, df_error), f * stats.f.ppf(tail, df_error, df)
        low, high = ((r - 1) / (r + k - 1) for r in ratios)
    if kind.endswith("k"):
        low, high = (k * b / (1 + (k - 1) * b) for b in (low, high))
    return Estimate(parts.share(kind), n, float(low), float(high), p=float(stats.f.sf(f, df, df_error)))


def _two_way(parts: Variances, tail: float) -> tuple[float, float]:
    """Bounds of ICC(2,1) with Satterthwaite's degrees of freedom."""
    from scipy import stats

    n, k, single = parts.n, parts.k, parts.share("2")
    severity = parts.seats / parts.error
    rest = n * (1 + (k - 1) * single) - k * single
    below = (n - 1) * (k * single * severity) ** 2 + rest**2
    df = (k - 1) * (n - 1) * (k * single * severity + rest) ** 2 / below
    up, down = stats.f.ppf(tail, n - 1, df), stats.f.ppf(tail, df, n - 1)
    noise = k * parts.seats + (k * n - k - n) * parts.error
    low = n * (parts.between - up * parts.error) / (up * noise + n * parts.between)
    high = n * (down * parts.between - parts.error) / (noise + n * down * parts.between)
    return float(low), float(high)
