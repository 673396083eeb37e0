"""Differences between the correlations of two metrics with a gold column: tests and intervals.

A test swaps the scores of two metrics at random; an interval resamples dialogues, the same for both. All
pairs of metrics take one pass: a swap changes the sums behind a correlation by fixed amounts, so a chunk of
permutations of all pairs is one matrix product, and a bootstrap sample gives the figures of all metrics.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np

from dialeval.statistics.correlation import check_method, correlate, zscore
from dialeval.statistics.estimate import (
    Booleans,
    Estimate,
    Floats,
    Matrix,
    Places,
    Vector,
    clusters_of,
    matrix,
    vector,
)
from dialeval.statistics.resampling import Draws, Resampling, many_rows, resampled, spread, with_interval
from dialeval.statistics.significance import sign_tests
from dialeval.statistics.weighted import Kernel, kernel

Differences = Callable[[Floats], Floats]
"""Signs (permutations x units) to differences of correlations (permutations x pairs); -1 swaps a unit."""


def permute_differences(
    columns: Matrix,
    gold: Vector,
    pairs: Sequence[tuple[int, int]],
    method: str = "spearman",
    permutations: int = 10_000,
    *,
    seed: int = 0,
    clusters: Vector | None = None,
) -> list[Estimate]:
    """Test which of two metrics correlates better with `gold`, for many pairs in one pass.

    Under the null hypothesis the metrics are exchangeable. So both are put on one scale (z-scores for
    Pearson, ranks otherwise), swapped at random by item (by dialogue if there are `clusters`), and the
    difference of correlations is computed again (for Spearman on the original ranks).

    Args:
        columns: Metrics x items, NaN where missing.
        pairs: Which rows of `columns` to compare.
        method: `pearson`, `spearman` or `kendall` (slow).
        permutations: How many; all of them if they are no more than this.
        clusters: Dialogue of each item; swaps are made dialogue by dialogue.

    Returns:
        For each pair the difference of the two correlations as `value`, and its two-sided p. Items count
        where both metrics and the gold are there.

    >>> metrics = [[1, 2, 3, 4, 5, 6, 8, 7], [2, 1, 8, 3, 7, 4, 6, 5]]
    >>> e = permute_differences(metrics, [1, 2, 3, 4, 5, 6, 7, 8], [(0, 1)])[0]
    >>> round(e.value, 3), round(e.p, 3)
    (0.524, 0.023)
    """
    check_method(method)
    data, target = matrix(columns), vector(gold)
    estimates: dict[int, Estimate] = {}
    for present, members in _by_items(data, target, pairs):
        y = target[present]
        codes, units = clusters_of(clusters, target.size, present)
        tested = []
        for member in members:
            estimates[member] = _gap(*(correlate(data[row][present], y, method) for row in pairs[member]))
            if estimates[member].defined:
                tested.append(member)
        if tested:
            ours, theirs = (data[[pairs[member][side] for member in tested]][:, present] for side in (0, 1))
            differences = _swapping(method, ours, theirs, y, codes)
            p = sign_tests(differences, units, permutations=permutations, seed=seed, alternative="two-sided")
            for member, value in zip(tested, p, strict=True):
                estimates[member] = replace(estimates[member], p=value)
    return [estimates[member] for member in range(len(pairs))]


def bootstrap_differences(
    columns: Matrix,
    gold: Vector,
    pairs: Sequence[tuple[int, int]],
    method: str = "spearman",
    *,
    clusters: Vector | None = None,
    **draws: Unpack[Draws],
) -> list[Estimate]:
    """Return differences between the correlations of two metrics with the gold, with paired intervals.

    Args:
        columns: Metrics x items, NaN where missing.
        pairs: Which rows of `columns` to compare, over the items that both have.
        method: `pearson`, `spearman` or `kendall`.
        clusters: Dialogue of each item; whole dialogues are drawn, the same for both metrics.

    >>> gold = [1, 2, 3, 4, 5, 6, 7, 8]
    >>> columns = [[1, 2, 3, 4, 5, 6, 8, 7], [2, 1, 8, 3, 7, 4, 6, 5]]
    >>> differences = bootstrap_differences(columns, gold, [(0, 0), (0, 1)])
    >>> [round(estimate.value, 3) for estimate in differences], differences[1].low > 0
    ([0.0, 0.524], False)
    """
    check_method(method)
    data, target, resampling = matrix(columns), vector(gold), Resampling(**draws)
    estimates: dict[int, Estimate] = {}
    for present, members in _by_items(data, target, pairs):
        y = target[present]
        codes, count = clusters_of(clusters, target.size, present)
        rows = {row: data[row][present] for member in members for row in pairs[member]}
        points = {row: correlate(values, y, method) for row, values in rows.items()}
        defined = [row for row in rows if points[row].value is not None]
        drawn, left_out = np.empty((2, 0, 0))
        if defined:
            stacked = np.vstack([rows[row] for row in defined])
            again = _redrawn(kernel(method, stacked, y, first_order=many_rows(y.size, count)), codes)
            drawn, left_out = resampled(again, count, resampling, rows=y.size)
        for member in members:
            estimates[member] = _gap(*(points[row] for row in pairs[member]))
            if estimates[member].defined:
                i, j = map(defined.index, pairs[member])
                gaps = drawn[i] - drawn[j], left_out[i] - left_out[j]
                estimates[member] = with_interval(estimates[member], *gaps, resampling.confidence)
    return [estimates[member] for member in range(len(pairs))]


def _gap(first: Estimate, second: Estimate) -> Estimate:
    """Return the difference of two estimates, or the reason that one is undefined."""
    if first.value is None or second.value is None:
        return Estimate.undefined((first if first.value is None else second).reason or "undefined", first.n)
    return Estimate(first.value - second.value, first.n)


def _redrawn(form: Kernel, codes: Places) -> Kernel:
    """Return a kernel that takes the weights of clusters instead of rows."""
    return lambda counts: form(spread(counts, codes))


def _by_items(
    data: Floats, target: Floats, pairs: Sequence[tuple[int, int]]
) -> list[tuple[Booleans, list[int]]]:
    """Return the pairs grouped by the mask of items for which they are complete."""
    groups: dict[bytes, tuple[Booleans, list[int]]] = {}
    present = ~np.isnan(data) & ~np.isnan(target)
    for member, (i, j) in enumerate(pairs):
        complete = present[i] & present[j]
        groups.setdefault(complete.tobytes(), (complete, []))[1].append(member)
    return list(groups.values())


def _swapping(method: str, left: Floats, right: Floats, target: Floats, codes: Places) -> Differences:
    scale: Callable[[Floats], Floats] = zscore if method == "pearson" else _ranks
    left, right = (np.vstack([scale(row) for row in side]) for side in (left, right))
    if method != "kendall":
        return _swapped(left, right, zscore(scale(target)), codes)
    forms = [_swapped_kendall(a, b, target, codes) for a, b in zip(left, right, strict=True)]
    return lambda signs: np.column_stack([form(signs) for form in forms])


def _swapped(left: Floats, right: Floats, target: Floats, codes: Places) -> Differences:
    """Return differences of Pearson's r under swaps, which change the sums by fixed amounts."""
    n, units, pairs = target.size, int(codes.max()) + 1, len(left)
    gaps = np.concatenate([left - right, left**2 - right**2, (left - right) * target])
    moves = np.column_stack([np.bincount(codes, gap, units) for gap in gaps])
    totals = np.concatenate([left + right, left**2 + right**2, (left + right) * target]).sum(axis=1)

    def correlation(sums: Floats) -> Floats:
        mean, square, product = (sums / n).reshape(-1, 3, pairs).transpose(1, 0, 2)
        spread = square - mean**2
        with np.errstate(all="ignore"):
            r: Floats = product / np.sqrt(np.where(spread > 1e-12, spread, np.nan))
        return np.nan_to_num(r)

    def differences(signs: Floats) -> Floats:
        moved = signs @ moves
        return correlation((totals + moved) / 2) - correlation((totals - moved) / 2)

    return differences


def _swapped_kendall(left: Floats, right: Floats, target: Floats, codes: Places) -> Differences:
    """The same for one pair and Kendall, which has to look at pairs of items: slower."""
    form = kernel("kendall", np.concatenate([left, right])[None, :], np.concatenate([target, target]))

    def differences(signs: Floats) -> Floats:
        keep = (signs[:, codes] > 0).astype(np.int32)
        ours, theirs = form(np.hstack([keep, 1 - keep]))[0], form(np.hstack([1 - keep, keep]))[0]
        return np.asarray(ours - theirs)

    return differences


def _ranks(values: Floats) -> Floats:
    from scipy import stats

    ranks: Floats = stats.rankdata(values)
    return ranks
