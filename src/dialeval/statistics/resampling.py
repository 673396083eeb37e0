"""Bootstrap intervals over whole dialogues.

Turns of one dialogue are correlated, so drawing single turns would overstate the evidence. Whole *clusters*
(dialogues) are drawn, with all their rows. Without clusters every row is its own.

Intervals are BCa (bias-corrected, accelerated; the acceleration from the jackknife over clusters), with
Student quantiles for the number of clusters instead of normal ones, because bootstrap intervals are too
narrow in small samples. If BCa is undefined they are plain percentiles.

Samples are drawn in chunks of fixed size, each with its own child of the seed, so the number of workers
changes nothing. See `weighted` for why no row is gathered or sorted again.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypedDict, TypeVar, Unpack

import numpy as np

from dialeval.errors import UsageError
from dialeval.statistics.correlation import METHODS, check_method, correlate
from dialeval.statistics.estimate import (
    Estimate,
    Floats,
    Integers,
    Matrix,
    Places,
    Vector,
    clusters_of,
    constant,
    matrix,
    number,
    vector,
)
from dialeval.statistics.weighted import Kernel, kernel

CHUNK = 256
MOST_LEFT_OUT = 2_000
MOST_WEIGHTS = 2**19  # in memory at a time
MOST_PAIRED_ROWS = 10_000  # for which Kendall's tau counts every pair in each sample
FEW_CLUSTERS = 128
FEWEST_CLUSTERS = 5  # with fewer, too many samples are constant or the data themselves
T = TypeVar("T")


class Draws(TypedDict, total=False):
    """Keyword arguments of every function that returns a bootstrap interval; see `Resampling`."""

    resamples: int
    confidence: float
    seed: int
    workers: int


@dataclass(frozen=True, slots=True)
class Resampling:
    """The settings of a bootstrap.

    Attributes:
        resamples: Number of bootstrap samples.
        confidence: Confidence level.
        seed: Same seed, same interval, whatever the number of workers.
        workers: Threads.
    """

    resamples: int = 10_000
    confidence: float = 0.95
    seed: int = 0
    workers: int = 1


def bootstrap_correlations(
    columns: Matrix,
    gold: Vector,
    clusters: Vector | None = None,
    *,
    methods: Sequence[str] = METHODS,
    **draws: Unpack[Draws],
) -> dict[str, list[Estimate]]:
    """Return the correlations of many sources with one gold column, with intervals.

    Args:
        columns: Sources x items, NaN where a source did not score an item.
        gold: The rating of each item; items without it are dropped.
        clusters: Which dialogue each item belongs to; whole dialogues are resampled.
        methods: Any of `METHODS`; all use the same bootstrap samples.

    Returns:
        Per method one estimate per source. `p` is the usual two-sided test where rows stand alone; with
        clusters of more than one row it is a t-test on the jackknife over clusters.

    >>> result = bootstrap_correlations([[1, 2, 3, 4, 6, 5]], [1, 2, 4, 3, 5, 6], methods=["spearman"])
    >>> round(result["spearman"][0].value, 3)
    0.886
    """
    for method in methods:
        check_method(method)
    data, target = matrix(columns), vector(gold)
    if data.shape[1] != target.size:
        raise UsageError(f"columns of length {data.shape[1]} against a gold column of length {target.size}")
    rated = ~np.isnan(target)
    codes, count = clusters_of(clusters, target.size, rated)
    data, target = data[:, rated], target[rated]
    points = [[correlate(row, target, method) for row in data] for method in methods]

    def forms() -> list[Kernel]:
        first_order = many_rows(target.size, count)
        return [kernel(method, data, target, first_order=first_order) for method in methods]

    return dict(zip(methods, with_intervals(points, forms, data, codes, count, draws), strict=True))


def with_intervals(
    points: Sequence[Sequence[Estimate]],
    forms: Callable[[], Sequence[Kernel]],
    data: Floats,
    codes: Places,
    count: int,
    draws: Draws,
    chance: float = 0.0,
) -> list[list[Estimate]]:
    """Return figures (kinds x sources) with their intervals, all from the same bootstrap samples.

    `forms` makes a kernel for each kind; `data` are the sources' scores, and `chance` is tested against where
    clusters have several rows.
    """
    if count < FEWEST_CLUSTERS or not any(point.defined for row in points for point in row):
        return [[without_interval(point, count) for point in row] for row in points]
    kernels, resampling = forms(), Resampling(**draws)

    def figures(counts: Integers) -> Floats:
        weights = spread(counts, codes)
        return np.stack([form(weights) for form in kernels])

    drawn, left_out = resampled(figures, count, resampling, rows=codes.size)
    helpful = [np.unique(codes[~np.isnan(row)] % left_out_groups(count)) for row in data]
    options: dict[str, Any] = {"test": count < codes.size, "chance": chance}
    return [
        [
            with_interval(point, drawn[i, j], left_out[i, j][helpful[j]], resampling.confidence, **options)
            for j, point in enumerate(row)
        ]
        for i, row in enumerate(points)
    ]


def many_rows(rows: int, clusters: int) -> bool:
    """Return whether Kendall's tau is computed to first order: too many rows for all pairs, enough clusters.

    The bounds change by about a hundredth of the width of the interval, no more than with another seed.
    """
    return rows > MOST_PAIRED_ROWS and clusters >= 200


def without_interval(estimate: Estimate, clusters: int) -> Estimate:
    """Return an estimate from too few clusters: with a p-value only if each row is a cluster."""
    if not estimate.defined:
        return estimate
    reason = "one cluster" if clusters == 1 else f"no interval from fewer than {FEWEST_CLUSTERS}"
    return Estimate(
        estimate.value, estimate.n, p=estimate.p if clusters == estimate.n else None, reason=reason
    )


def with_interval(
    point: Estimate,
    draws: Floats,
    left_out: Floats,
    confidence: float,
    *,
    test: bool = False,
    chance: float = 0.0,
) -> Estimate:
    """Return an estimate with its interval and, if `test`, the jackknife p-value of its being `chance`."""
    if point.value is None:
        return point
    low, high, reason = interval(point.value, draws, left_out, confidence)
    p = _jackknife_p(point.value - chance, left_out) if test else point.p
    return Estimate(point.value, point.n, low, high, p, reason)


def _jackknife_p(value: float, left_out: Floats) -> float | None:
    """Return the two-sided p-value of a figure being 0, by Student's t on the jackknife over clusters."""
    m = left_out.size
    if m < 3 or np.isnan(left_out).any() or constant(left_out):
        return None
    from scipy import special

    error = np.sqrt((m - 1) / m * np.sum((left_out - left_out.mean()) ** 2))
    return number(2 * special.stdtr(m - 1, -abs(value) / error))


def bootstrap_means(values: Vector, clusters: Vector | None = None, **draws: Unpack[Draws]) -> Estimate:
    """Return a mean over rows with a bootstrap interval over clusters.

    >>> e = bootstrap_means([1, 2, 3, 4, 5, 6, 7, 8])
    >>> e.value, round(e.low, 1), round(e.high, 1)
    (4.5, 2.5, 6.5)
    """
    data = vector(values)
    present = ~np.isnan(data)
    codes, count = clusters_of(clusters, data.size, present)
    data = data[present]
    if data.size == 0:
        return Estimate.undefined("no values")
    mean = Estimate(float(data.mean()), data.size)
    if count < 2:
        return of_one_cluster(mean)
    resampling = Resampling(**draws)
    drawn, left_out = resampled(deviations(data, codes, count), count, resampling)
    return with_interval(mean, *means_of(data, drawn, left_out), resampling.confidence)


def means_of(data: Floats, draws: Floats, left_out: Floats) -> tuple[Floats, Floats]:
    """Return the means for given deviations from that of the data, clipped to its range.

    Means within rounding error of an end of the range become that end: a share of 0 is not 2e-16.
    """
    low, high = float(data.min()), float(data.max())
    rounding = 16 * np.finfo(np.float64).eps * max(abs(low), abs(high))
    first, second = (data.mean() + deviation for deviation in (draws, left_out))
    for means in (first, second):
        means[means < low + rounding] = low
        means[means > high - rounding] = high
    return first, second


def of_one_cluster(point: Estimate) -> Estimate:
    """Return an estimate of one cluster, without an interval."""
    return replace(point, reason="n < 2" if point.n < 2 else "one cluster")


def deviations(data: Floats, codes: Places, count: int) -> Callable[[Integers], Floats]:
    """Return the mean of a sample minus that of all data, as a function of cluster weights."""
    centred = data - data.mean()
    sums = np.stack([np.bincount(codes, centred, count), np.bincount(codes, minlength=count)], axis=1)

    def of(counts: Integers) -> Floats:
        total, n = (counts.astype(np.float64) @ sums).T
        return np.asarray(total / n)

    return of


def bootstrap_statistic(
    rows: Matrix | Vector,
    statistic: Callable[[Floats], float | None],
    clusters: Vector | None = None,
    **draws: Unpack[Draws],
) -> Estimate:
    """Return any statistic of a table of rows with its interval; slow, because rows are gathered.

    It draws the same clusters as the fast functions for the same seed, which makes it their oracle in tests.

    >>> e = bootstrap_statistic([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0], lambda r: float(np.median(r)))
    >>> e.value, e.n
    (3.5, 8)
    """
    table = np.array(rows, dtype=np.float64)
    codes, count = clusters_of(clusters, len(table))
    value = statistic(table) if len(table) else None
    if value is None or not np.isfinite(value):
        return Estimate.undefined("undefined on the data" if len(table) else "no values", len(table))
    point = Estimate(float(value), len(table))
    if count < 2:
        return of_one_cluster(point)

    def figures(counts: Integers) -> Floats:
        values = [statistic(table[np.repeat(np.arange(len(table)), row)]) for row in spread(counts, codes)]
        return np.array([np.nan if f is None else f for f in values], dtype=np.float64)

    draws.setdefault("resamples", 1_000)
    resampling = Resampling(**draws)
    return with_interval(point, *resampled(figures, count, resampling), resampling.confidence)


def resampled(
    figures: Callable[[Integers], Floats], count: int, resampling: Resampling, rows: int = 0
) -> tuple[Floats, Floats]:
    """Return the figures of every bootstrap sample, and of the jackknife, along the last axis.

    `rows` is the number of weights per sample: if it is large, few samples are taken at a time, because
    allocating memory for all of them takes longer than the arithmetic.
    """
    step = max(8, MOST_WEIGHTS // max(rows, count))

    def quietly(counts: Integers) -> Floats:
        with np.errstate(all="ignore"):  # a figure that does not exist in a draw is NaN
            parts = [figures(counts[first : first + step]) for first in range(0, len(counts), step)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)

    jobs = chunks(resampling.resamples, resampling.seed, "resamples")
    draws = in_threads(lambda job: quietly(draw(job[0], count, job[1])), jobs, resampling.workers)
    firsts = list(range(0, left_out_groups(count), CHUNK))
    left_out = in_threads(lambda at: quietly(leave_out(count, at)), firsts, resampling.workers)
    return np.concatenate(draws, axis=-1), np.concatenate(left_out, axis=-1)


def spread(counts: Integers, codes: Places) -> Integers:
    """Return the weights of rows from the weights of their clusters."""
    if codes.size == counts.shape[1] and np.array_equal(codes, np.arange(codes.size)):
        return counts
    return counts.take(codes, axis=1, mode="clip")


def draw(rng: np.random.Generator, count: int, size: int) -> Integers:
    """Return `size` bootstrap samples of `count` clusters, as the number of times each cluster was drawn."""
    narrow = np.uint16 if count <= 2**16 else np.uint32
    picks = rng.integers(0, count, size=(size, count), dtype=narrow)
    if count <= FEW_CLUSTERS:  # one call for the whole chunk: a call a draw would take most of the time
        numbered = picks + np.arange(size)[:, None] * count
        return np.bincount(numbered.ravel(), minlength=size * count).reshape(size, count).astype(np.int32)
    counts = np.empty((size, count), dtype=np.int32)
    # Row by row: the counters of one draw stay in the cache, those of a whole chunk would not.
    for row, sample in zip(counts, picks, strict=True):
        row[:] = np.bincount(sample, minlength=count)
    return counts


def left_out_groups(count: int) -> int:
    """Return the number of jackknife groups: one per cluster, or groups of clusters if there are many.

    Leaving out groups of equal size estimates the same error and skewness at linear cost.
    """
    return count if count <= MOST_LEFT_OUT else MOST_LEFT_OUT // 2


def leave_out(count: int, first: int) -> Integers:
    """Return the weights of a chunk of the jackknife: 0 for one cluster or group, 1 for all others."""
    groups = left_out_groups(count)
    size = min(CHUNK, groups - first)
    weights = np.ones((size, count), dtype=np.int32)
    for row, group in enumerate(range(first, first + size)):
        weights[row, group::groups] = 0
    return weights


def chunks(draws: int, seed: int, name: str) -> list[tuple[np.random.Generator, int]]:
    """Return generator and size of every chunk of samples; each chunk has its own child of the seed."""
    if draws < 1:
        raise UsageError(f"{name} must be at least 1")
    sizes = [min(CHUNK, draws - first) for first in range(0, draws, CHUNK)]
    children = np.random.SeedSequence(seed).spawn(len(sizes))
    return [(np.random.default_rng(child), size) for child, size in zip(children, sizes, strict=True)]


J = TypeVar("J")


def in_threads(function: Callable[[J], T], jobs: Sequence[J], workers: int) -> list[T]:
    """Return the results in the order of the jobs, for any number of threads."""
    if workers <= 1:
        return [function(job) for job in jobs]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, jobs))


def interval(
    value: float, draws: Floats, left_out: Floats, confidence: float
) -> tuple[float | None, float | None, str | None]:
    """Return BCa bounds from bootstrap and jackknife values, percentiles if BCa is undefined, or a reason.

    Samples in which the statistic is undefined (NaN) are dropped; if they are more than half, there is no
    interval.
    """
    if not 0 < confidence < 1:
        raise UsageError(f"confidence must be between 0 and 1, not {confidence}")
    defined = draws[~np.isnan(draws)]
    if defined.size * 2 < draws.size or defined.size == 0:
        return None, None, "undefined in most resamples"
    from scipy import special

    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    m = max(left_out.size, 2)
    z = special.stdtrit(m - 1, tails) * np.sqrt(m / (m - 1))
    slack = 1e-12 * max(1.0, abs(value))
    below = np.mean(defined < value - slack) + np.mean(np.abs(defined - value) <= slack) / 2
    shift, bend = special.ndtri(below), _acceleration(left_out)
    levels = special.ndtr(z)
    if np.isfinite(shift) and bend is not None:
        room = 1 - bend * (shift + z)
        if np.all(room > 0):
            levels = special.ndtr(shift + (shift + z) / room)
    low, high = np.quantile(defined, levels)
    return float(low), float(high), None


def _acceleration(left_out: Floats) -> float | None:
    if left_out.size < 3 or np.isnan(left_out).any():
        return None
    pull = left_out.mean() - left_out
    scale = float(np.sum(pull**2))
    return None if scale <= 1e-300 else float(np.sum(pull**3) / (6 * scale**1.5))
