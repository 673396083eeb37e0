"""Correlations of many resamples at once, from how often each row was drawn.

A bootstrap draws rows with replacement. The rows need not be gathered: every correlation can be written in
the number of times each row was drawn (an integer matrix `weights`, resamples x rows).

- Pearson: six weighted sums per source, one matrix product for all sources.
- Spearman: rows are sorted once; the mid-rank of a value is a running sum of weights, and the variance of
  ranks follows from the sizes of the tie groups alone.
- Kendall: concordant minus discordant pairs are a quadratic form w'Aw with signs in A. Filling A would cost
  n² per resample. Instead, cut x into blocks and y into bins that never split a tie. Pairs that differ in
  block *and* bin are counted on the small grid of block x bin totals; only pairs within a block or within a
  bin need a dense sign matrix, and those are small. About n·√n work, nearly all of it in matrix products.
  Beyond some ten thousand rows that takes minutes. Then the form is expanded around equal weights without
  its square term, which is smaller than the linear one by the root of the number of clusters: one matrix
  product with the contribution of each row, found once by sorting.

Leaving one cluster out (the jackknife of BCa) and swapping two metrics (the permutation test) are weights
too, so the same three functions serve all of them. Rank sums are integers and exact.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dialeval.statistics.correlation import check_method
from dialeval.statistics.estimate import Floats, Integers, Places

Light: TypeAlias = NDArray[np.float32] | Floats
"""Weights as floats: float32 where that is exact, as it is twice as fast."""

Kernel: TypeAlias = Callable[[Integers], Floats]
"""Weights (resamples x rows) to correlations (sources x resamples), NaN where undefined."""

BLOCK = 96  # rows per block: large enough for fast products, small enough to keep them few
EXACT = 4096  # block totals below this keep float32 products exact: 4096² = 2²⁴


def kernel(method: str, columns: Floats, gold: Floats, *, first_order: bool = False) -> Kernel:
    """Return a correlation of rows of `columns` (NaN = missing) with `gold`, as a function of weights.

    `first_order` uses the linear part of Kendall's pair count, for many rows and nearly equal weights, as in
    a bootstrap or jackknife.
    """
    check_method(method)
    if method == "pearson":
        return _pearson(columns, gold)
    form = _spearman if method == "spearman" else partial(_kendall, first_order=first_order)
    parts = [
        (rows, present, form(columns[np.ix_(rows, present)], gold[present]))
        for rows, present in _patterns(columns)
    ]

    def by_pattern(weights: Integers) -> Floats:
        result = np.empty((len(columns), len(weights)))
        for rows, present, part in parts:
            result[rows] = part(weights if present.size == gold.size else weights.take(present, axis=1))
        return result

    return by_pattern


def _patterns(columns: Floats) -> Iterator[tuple[Places, Places]]:
    """Yield groups of sources that miss the same rows, and so share gold ranks: (sources, rows present)."""
    present = ~np.isnan(columns)
    patterns: dict[bytes, list[int]] = {}
    for source, row in enumerate(present):
        patterns.setdefault(np.packbits(row).tobytes(), []).append(source)
    for sources in patterns.values():
        yield np.array(sources, dtype=np.intp), np.flatnonzero(present[sources[0]])


def _pearson(columns: Floats, gold: Floats) -> Kernel:
    present = ~np.isnan(columns)
    x = np.where(present, _centre_rows(columns), 0.0)
    y = _centre_rows(gold[None, :])
    # What concerns the gold alone is the same for all sources that miss the same rows.
    patterns, pattern_of = np.unique(present, axis=0, return_inverse=True)
    terms = np.concatenate([x, x * x, x * y, patterns, patterns * y, patterns * y * y]).T.copy()

    def of(weights: Integers) -> Floats:
        sums = (weights.astype(np.float64) @ terms).T
        sx, sxx, sxy = sums[: 3 * len(x)].reshape(3, len(x), len(weights))
        n, sy, syy = sums[3 * len(x) :].reshape(3, len(patterns), len(weights))[:, pattern_of.ravel()]
        with np.errstate(all="ignore"):
            vx, vy = n * sxx - sx * sx, n * syy - sy * sy
            r = (n * sxy - sx * sy) / np.sqrt(vx * vy)
        # A constant resample leaves rounding noise instead of a zero variance.
        r[(vx <= 1e-11 * n * sxx) | (vy <= 1e-11 * n * syy)] = np.nan
        return np.asarray(np.clip(r, -1.0, 1.0))

    return of


def _centre_rows(columns: Floats) -> Floats:
    """Scale each row to mean 0 and range 1: products of raw values would lose digits or overflow."""
    n = np.maximum((~np.isnan(columns)).sum(axis=1, keepdims=True), 1)
    centred = columns - np.nansum(columns / n, axis=1, keepdims=True)
    spread = np.nanmax(np.abs(centred), axis=1, keepdims=True, initial=0.0)
    scaled: Floats = centred / np.where(spread > 0, spread, 1.0)
    return scaled


@dataclass(frozen=True, slots=True)
class Order:
    """Rows sorted by a value, and where each group of ties starts (`None`: no ties)."""

    rows: Places
    starts: Places | None

    @classmethod
    def of(cls, values: Floats) -> "Order":
        """Sort the values once for all resamples."""
        rows = np.argsort(values, kind="stable")
        ordered = values[rows]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        return cls(rows, None if starts.size == rows.size else starts)

    def totals(self, weights: Integers) -> Integers:
        """Return the weights summed over each group of ties, smallest value first."""
        taken = weights.take(self.rows, axis=1, mode="clip")
        return taken if self.starts is None else np.add.reduceat(taken, self.starts, axis=1)

    def expand(self, per_group: Integers) -> Integers:
        """Return a figure per group for the original rows."""
        group_of = np.empty(self.rows.size, dtype=np.intp)
        if self.starts is None:
            group_of[self.rows] = np.arange(self.rows.size)
        else:
            sizes = np.diff(np.append(self.starts, self.rows.size))
            group_of[self.rows] = np.repeat(np.arange(self.starts.size), sizes)
        return per_group.take(group_of, axis=1, mode="clip")


def _dot(left: Integers, right: Integers) -> Floats:
    result: Floats = np.einsum("ij,ij->i", left, right, dtype=np.float64, casting="unsafe")
    return result


def _cubes(totals: Integers) -> Floats:
    wide = totals.astype(np.float64)
    result: Floats = np.einsum("ij,ij,ij->i", wide, wide, wide)
    return result


def _spearman(columns: Floats, gold: Floats) -> Kernel:
    if gold.size == 0:
        return _nothing(len(columns))
    y_order = Order.of(gold)
    x_orders = [Order.of(column) for column in columns]

    def of(weights: Integers) -> Floats:
        n = weights.sum(axis=1, dtype=np.int32)
        y_totals = y_order.totals(weights)
        # Twice the centred mid-rank: what lies below minus what lies above, a whole number.
        y_ranks = 2 * np.cumsum(y_totals, axis=1, dtype=np.int32) - y_totals - n[:, None]
        pull = weights * y_order.expand(y_ranks)
        untied = _cubes(weights) if any(order.starts is None for order in x_orders) else None
        untied_level = _dot(pull, weights)
        y_cubes = _cubes(y_totals)
        result = np.empty((len(columns), len(weights)))
        for row, order in enumerate(x_orders):
            x_totals, pulls = order.totals(weights), order.totals(pull)
            below = np.cumsum(x_totals, axis=1, dtype=np.int32)
            level = untied_level if order.starts is None else _dot(pulls, x_totals)
            cubes = untied if order.starts is None and untied is not None else _cubes(x_totals)
            shared = 2 * _dot(pulls, below) - level
            result[row] = _ratio(3 * shared, n**3.0 - cubes, n**3.0 - y_cubes)
        return result

    return of


def _ratio(shared: Floats, left: Floats, right: Floats) -> Floats:
    """Return covariance over the root of both variances; NaN where either variance is zero."""
    both = left * right
    result: Floats = np.divide(shared, np.sqrt(both), out=np.full(shared.shape, np.nan), where=both > 0)
    return np.clip(result, -1.0, 1.0)


def _nothing(k: int) -> Kernel:
    return lambda weights: np.full((k, len(weights)), np.nan)


def _kendall(columns: Floats, gold: Floats, *, first_order: bool) -> Kernel:
    if gold.size == 0:
        return _nothing(len(columns))
    y_order = Order.of(gold)
    x_orders = [Order.of(column) for column in columns]
    count = _linear_count(columns, gold) if first_order else _pair_count(columns, gold, y_order)

    def of(weights: Integers) -> Floats:
        n = weights.sum(axis=1, dtype=np.float64)
        y_totals = y_order.totals(weights)
        free_y = n * n - _dot(y_totals, y_totals)
        result = count(weights)
        for row, order in enumerate(x_orders):
            x_totals = weights if order.starts is None else order.totals(weights)
            free_x = n * n - _dot(x_totals, x_totals)
            result[row] = _ratio(result[row], free_x, free_y)
        return result

    return of


def _pair_count(columns: Floats, gold: Floats, y_order: Order) -> Kernel:
    """Return the number of concordant minus discordant pairs, exactly."""
    bins = _cut(gold)
    pairs = [PairCount.of(column, gold, bins) for column in columns]

    def of(weights: Integers) -> Floats:
        # Whole numbers stay exact in float32 as long as a block's total stays below 4096.
        small = int(weights.max(initial=0)) * BLOCK < EXACT
        light: Light = weights.astype(np.float32) if small else weights.astype(np.float64)
        by_bin = light.take(y_order.rows, axis=1, mode="clip")
        return np.stack([count(light, by_bin) for count in pairs])

    return of


def _linear_count(columns: Floats, gold: Floats) -> Kernel:
    """Return the pair count to first order: w'Aw is m²·1'A1 + 2m·(w - m)'A1 for weights near their mean m."""
    rows = np.column_stack([row_pairs(column, gold) for column in columns]).astype(np.float64)
    totals = rows.sum(axis=0)[:, None]

    def of(weights: Integers) -> Floats:
        wide = weights.astype(np.float64)
        mean = wide.mean(axis=1)
        return np.asarray(mean * (2 * (wide @ rows).T - mean * totals))

    return of


def row_pairs(x: Floats, y: Floats) -> Places:
    """Return for each row the number of rows it is concordant with, minus those it is discordant with.

    >>> row_pairs(np.array([1.0, 2.0, 3.0, 3.0]), np.array([1.0, 2.0, 4.0, 3.0])).tolist()
    [3, 3, 2, 2]
    """
    return _below(x, y) + _below(-x, -y) - _below(x, -y) - _below(-x, y)


def _below(x: Floats, y: Floats) -> Places:
    """Return for each row how many rows are smaller in both x and y, in n·log² n.

    Two ranks of y differ first in one bit: of the rows that agree above it, those with a 0 there are smaller.
    So each bit is one pass along x over the rows that agree above it.
    """
    rows = np.argsort(x, kind="stable")
    x_rank, y_rank = (np.unique(values[rows], return_inverse=True)[1] for values in (x, y))
    counts = np.zeros(x.size, dtype=np.intp)
    for bit in range(int(y_rank.max()).bit_length()):
        order = np.argsort(y_rank >> (bit + 1), kind="stable")
        above, ones = y_rank[order] >> (bit + 1), (y_rank[order] >> bit) & 1
        zeros = np.concatenate([[0], np.cumsum(1 - ones)])
        tie = above * x.size + x_rank[order]
        first, last = np.searchsorted(above, above), np.searchsorted(tie, tie)
        counts[rows[order]] += ones * (zeros[last] - zeros[first])
    return counts


def _cut(values: Floats) -> Places:
    """Return a block number per row, increasing with the value: at most `BLOCK` rows each, ties never split.

    A group of ties larger than `BLOCK` is a block of its own.
    """
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    block_of_group = np.empty(sizes.size, dtype=np.intp)
    block, filled = 0, 0
    for i, size in enumerate(sizes.tolist()):
        if filled and filled + size > BLOCK:
            block, filled = block + 1, 0
        block_of_group[i] = block
        filled += size
    return block_of_group[group]


def _signs(values: Floats) -> Floats:
    result: Floats = np.sign(values[:, None] - values[None, :])
    return result


Part: TypeAlias = tuple[int, int, NDArray[np.float32]]
"""A range of sorted rows, first and last, and its matrix."""


@dataclass(frozen=True, slots=True)
class PairCount:
    """Concordant minus discordant pairs (each counted from both ends) of one column with the gold.

    Attributes:
        rows: Rows sorted by block of x.
        blocks: First and last place of each block in `rows`, and which bin of y each of its rows is in.
        bins: Number of bins of y.
        x_parts: Per block of x: first and last place in `rows`, and its sign matrix.
        y_parts: Per bin of y: the same over rows sorted by y, without pairs of one block.
    """

    rows: Places
    blocks: tuple[Part, ...]
    bins: int
    x_parts: tuple[Part, ...]
    y_parts: tuple[Part, ...]

    @classmethod
    def of(cls, x: Floats, y: Floats, bins: Places) -> "PairCount":
        """Precompute everything that does not depend on the weights."""
        blocks, columns = _cut(x), int(bins.max()) + 1
        rows, y_rows = np.argsort(x, kind="stable"), np.argsort(y, kind="stable")
        member = np.eye(columns, dtype=np.float32)
        slices = tuple((a, b, member[bins[rows[a:b]]]) for a, b in _edges(blocks[rows]))
        return cls(
            rows, slices, columns, _parts(x, y, rows, blocks, None), _parts(x, y, y_rows, bins, blocks)
        )

    def __call__(self, weights: Light, by_bin: Light) -> Floats:
        """Return the count per resample, from weights in row order and in gold order."""
        by_block = weights.take(self.rows, axis=1, mode="clip")
        total = np.zeros(len(weights))
        for ordered, parts in ((by_block, self.x_parts), (by_bin, self.y_parts)):
            for first, last, signs in parts:
                part = ordered[:, first:last]
                total += np.einsum("ij,ij->i", part @ signs.astype(part.dtype, copy=False), part)
        if min(len(self.blocks), self.bins) > 1:
            total += self._across(by_block)
        return total

    def _across(self, by_block: Light) -> Floats:
        """Return the count of pairs that differ in block and bin, from the totals per block x bin."""
        grid = np.empty((len(self.blocks), len(by_block), self.bins), dtype=by_block.dtype)
        for block, (first, last, member) in enumerate(self.blocks):
            np.matmul(by_block[:, first:last], member.astype(grid.dtype, copy=False), out=grid[block])
        across_x, across_y = (
            _signs(np.arange(size, dtype=np.float64)).astype(grid.dtype)
            for size in (len(self.blocks), self.bins)
        )
        over_x = (across_x @ grid.reshape(len(self.blocks), -1)).reshape(grid.shape)
        over_y = grid @ across_y
        result: Floats = np.einsum("ijk,ijk->j", over_x, over_y, dtype=np.float64, casting="unsafe")
        return result


def _edges(ordered: Places) -> list[tuple[int, int]]:
    """Return start and end of each run of equal numbers."""
    edges = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1], [True]])).tolist()
    return list(pairwise(edges))


def _parts(x: Floats, y: Floats, rows: Places, blocks: Places, apart: Places | None) -> tuple[Part, ...]:
    """Return sign matrices along a sorted order, one per block, without pairs in a group of `apart`."""
    parts = []
    for first, last in _edges(blocks[rows]):
        if last - first > BLOCK:
            continue  # one large group of ties: no pair inside it is ordered
        members = rows[first:last]
        signs = _signs(x[members]) * _signs(y[members])
        if apart is not None:
            signs[apart[members][:, None] == apart[members][None, :]] = 0.0
        if signs.any():
            parts.append((first, last, signs.astype(np.float32)))
    return tuple(parts)
