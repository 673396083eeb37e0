"""Significance tests for differences between metrics and between systems.

*Which of two metrics agrees better with people?* Both correlations are on the same items and gold, so they
depend on each other: `williams` tests Pearson's r from three correlations, `permute_differences` any
correlation, also with clustered turns. *Which of two systems is better?* `paired_randomisation` if both
answered the same items, `permute_means` if not, `paired_bootstrap` for the size of the difference.

Random tests report (b + 1) / (m + 1), with b of m random arrangements at least as extreme: never 0. If there
are no more arrangements than asked for, all are visited and the p-value is exact. `holm` controls the
family-wise error rate of several tests; `compact_letters` shows which names do not differ significantly.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from math import comb
from string import ascii_letters
from typing import Unpack

import numpy as np

from dialeval.errors import UsageError
from dialeval.statistics.estimate import Estimate, Floats, Places, Vector, clusters_of, complete, vector
from dialeval.statistics.resampling import (
    CHUNK,
    Draws,
    Resampling,
    chunks,
    deviations,
    means_of,
    of_one_cluster,
    resampled,
    with_interval,
)


def williams(r12: float, r13: float, r23: float, n: int) -> Estimate:
    """Run Williams' test of r12 against r13, two correlations that share variable 1 (the gold).

    Args:
        r12: Gold with the first metric.
        r13: Gold with the second metric.
        r23: The two metrics with each other.

    Returns:
        t with n - 3 degrees of freedom as `value`, and its two-sided p.

    >>> e = williams(0.6, 0.4, 0.5, 103)
    >>> round(e.value, 4), round(e.p, 4)
    (2.4863, 0.0146)
    """
    if any(abs(r) > 1 for r in (r12, r13, r23)):
        raise UsageError("a correlation is between -1 and 1")
    if n < 4:
        return Estimate.undefined("n < 4", n)
    rest = 1 - r12**2 - r13**2 - r23**2 + 2 * r12 * r13 * r23
    spread = 2 * max(rest, 0.0) * (n - 1) / (n - 3) + ((r12 + r13) / 2) ** 2 * (1 - r23) ** 3
    if spread <= 1e-15:
        return Estimate.undefined("metrics are identical", n)
    from scipy import stats

    t = (r12 - r13) * np.sqrt((n - 1) * (1 + r23) / spread)
    return Estimate(float(t), n, p=float(2 * stats.t.sf(abs(t), n - 3)))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values after Holm's step-down adjustment.

    An undefined test (`None`) stays `None` and does not count.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    tests = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, i) in enumerate(tests):
        highest = max(highest, min(1.0, p * (len(tests) - rank)))
        adjusted[i] = highest
    return adjusted


def compact_letters(
    order: Sequence[str], p_values: Mapping[tuple[str, str], float | None], alpha: float = 0.05
) -> list[tuple[str, ...]]:
    """Return the compact letter display: two names share a letter exactly if they do not differ.

    A letter stands for a group in which no pair differs significantly, and every pair that does not differ is
    in one. Groups are grown from the best names down, each as large as possible.

    Args:
        order: Names from best to worst.
        p_values: Adjusted p-value of each pair, keyed in either order. `None` or absent is not significant.

    Returns:
        The letters of each name in `order`; the best name has `a`.

    >>> tests = {("a", "b"): 0.4, ("a", "c"): 0.01, ("c", "b"): 0.3}
    >>> compact_letters(["a", "b", "c"], tests)
    [('a',), ('a', 'b'), ('b',)]
    """

    def alike(i: int, j: int) -> bool:
        pair = order[i], order[j]
        p = p_values.get(pair, p_values.get(pair[::-1]))
        return p is None or p >= alpha

    size = range(len(order))
    neighbours = [{j for j in size if j != i and alike(i, j)} for i in size]
    groups: list[set[int]] = []
    for i in size:
        for j in sorted(j for j in neighbours[i] if j > i) or [i]:
            if any(i in group and j in group for group in groups):
                continue
            group = {i, j}
            for more in size:
                if more not in group and group <= neighbours[more]:
                    group.add(more)
            groups.append(group)
    return [tuple(_letter(index) for index, group in enumerate(groups) if i in group) for i in size]


def _letter(index: int) -> str:
    """Return a to z, A to Z, then a2 and so on."""
    name, again = ascii_letters[index % len(ascii_letters)], index // len(ascii_letters)
    return f"{name}{again + 1}" if again else name


def paired_randomisation(
    a: Vector,
    b: Vector,
    *,
    clusters: Vector | None = None,
    permutations: int = 10_000,
    seed: int = 0,
    alternative: str = "two-sided",
) -> Estimate:
    """Test two systems on the same items: flip the sign of each difference (of each cluster) at random.

    Returns:
        mean(a - b) over the pairs that are complete, and p.

    >>> e = paired_randomisation([3, 4, 5, 4, 5], [2, 3, 4, 3, 4])
    >>> e.value, e.p
    (1.0, 0.0625)
    """
    gaps, codes, units = _gaps(a, b, clusters)
    if gaps.size == 0:
        return Estimate.undefined("no overlap")
    means = np.bincount(codes, gaps, units)[:, None] / gaps.size
    p = sign_tests(
        lambda signs: signs @ means, units, permutations=permutations, seed=seed, alternative=alternative
    )
    return Estimate(float(gaps.mean()), gaps.size, p=p[0])


def _gaps(a: Vector, b: Vector, clusters: Vector | None) -> tuple[Floats, Places, int]:
    left, right = complete(a, b)
    mask = ~(np.isnan(vector(a)) | np.isnan(vector(b)))
    return left - right, *clusters_of(clusters, mask.size, mask)


def permute_means(
    a: Vector,
    b: Vector,
    *,
    clusters_a: Vector | None = None,
    clusters_b: Vector | None = None,
    permutations: int = 10_000,
    seed: int = 0,
    alternative: str = "two-sided",
) -> Estimate:
    """Test two systems on different items: reassign the items (or whole dialogues) at random.

    Returns:
        mean(a) - mean(b), n of both together, and p.

    >>> e = permute_means([5, 6, 7], [1, 2, 3])
    >>> e.value, e.p
    (4.0, 0.1)
    """
    left, right = _unit_sums(a, clusters_a), _unit_sums(b, clusters_b)
    n = int(left[:, 1].sum() + right[:, 1].sum())
    if len(left) == 0 or len(right) == 0:
        return Estimate.undefined("no values", n)
    units = np.concatenate([left, right])
    units[:, 0] -= units[:, 0].sum() / n * units[:, 1]  # centred, so that rounding stays small
    total = units.sum(axis=0)

    def differences(picks: Floats) -> Floats:
        ours = picks @ units
        theirs = total - ours
        result: Floats = ours[:, 0] / ours[:, 1] - theirs[:, 0] / theirs[:, 1]
        return result

    exact = comb(len(units), len(left)) <= permutations
    observed = float(differences((np.arange(len(units)) < len(left))[None, :].astype(np.float64))[0])
    sizes = len(units), len(left)
    deals = all_deals(*sizes) if exact else random_deals(*sizes, permutations, seed)
    counts = [(extreme(differences(picks), observed, alternative), len(picks)) for picks in deals]
    return Estimate(observed, n, p=p_value(counts, exact=exact))


def _unit_sums(values: Vector, clusters: Vector | None) -> Floats:
    """Return sum and number of values per cluster."""
    data = vector(values)
    present = ~np.isnan(data)
    codes, count = clusters_of(clusters, data.size, present)
    sums: Floats = np.stack(
        [np.bincount(codes, data[present], count), np.bincount(codes, minlength=count)], axis=1
    )
    return sums.astype(np.float64)


def paired_bootstrap(
    a: Vector,
    b: Vector,
    *,
    clusters: Vector | None = None,
    alternative: str = "two-sided",
    **draws: Unpack[Draws],
) -> Estimate:
    """Return the mean difference of `a` and `b` on the same items, with BCa interval and p.

    The p-value comes from the bootstrap distribution shifted to a mean of zero.

    >>> e = paired_bootstrap([3, 5, 4, 6, 5, 7, 6, 5], [2, 4, 4, 4, 5, 5, 4, 4])
    >>> e.value, e.low > 0, e.p < 0.05
    (1.125, True, True)
    """
    gaps, codes, units = _gaps(a, b, clusters)
    if gaps.size == 0:
        return Estimate.undefined("no overlap")
    mean, resampling = float(gaps.mean()), Resampling(**draws)
    if units < 2:
        return of_one_cluster(Estimate(mean, gaps.size))
    chance, left_out = resampled(deviations(gaps, codes, units), units, resampling)
    p = (extreme(chance, mean, alternative) + 1) / (resampling.resamples + 1)
    return with_interval(
        Estimate(mean, gaps.size, p=p), *means_of(gaps, chance, left_out), resampling.confidence
    )


ALTERNATIVES = ("two-sided", "less", "greater")


def sign_tests(
    figures: Callable[[Floats], Floats], units: int, *, permutations: int, seed: int, alternative: str
) -> list[float]:
    """Return the p-values of several figures at once; the observed figure is that of unchanged signs.

    Args:
        figures: Sign vectors (arrangements x units) to figures (arrangements x tests).
        units: Length of a sign vector.
        permutations: How many arrangements; all of them if they are no more than this.
        alternative: One of `ALTERNATIVES`.
    """
    exact = units < 62 and 2**units <= permutations
    observed = figures(np.ones((1, units)))[0]
    counts: list[list[tuple[int, int]]] = [[] for _ in observed]
    for signs in all_signs(units) if exact else random_signs(units, permutations, seed):
        for test, (arranged, seen) in enumerate(zip(figures(signs).T, observed.tolist(), strict=True)):
            counts[test].append((extreme(arranged, seen, alternative), len(signs)))
    return [p_value(chunks, exact=exact) for chunks in counts]


def p_value(counts: list[tuple[int, int]], *, exact: bool) -> float:
    """Return the share of extreme arrangements, from (extreme, visited) per chunk."""
    hits, total = sum(h for h, _ in counts), sum(n for _, n in counts)
    return hits / total if exact else (hits + 1) / (total + 1)


def extreme(figures: Floats, observed: float, alternative: str) -> int:
    """Return how many figures are at least as extreme as the observed one.

    Differences within rounding error and undefined figures count as extreme, which can only raise the
    p-value.
    """
    slack = 1e-10 * max(abs(observed), float(np.max(np.abs(figures), initial=0.0, where=~np.isnan(figures))))
    if alternative == "greater":
        return int(np.sum(~(figures < observed - slack)))
    if alternative == "less":
        return int(np.sum(~(figures > observed + slack)))
    if alternative == "two-sided":
        return int(np.sum(~(np.abs(figures) < abs(observed) - slack)))
    raise UsageError(f"unknown alternative {alternative!r}; choose one of {', '.join(ALTERNATIVES)}")


def all_signs(units: int) -> Iterator[Floats]:
    """Yield every vector of +1 and -1, the unchanged one first."""
    for first in range(0, 2**units, CHUNK):
        numbers = np.arange(first, min(first + CHUNK, 2**units))
        yield 1.0 - 2.0 * ((numbers[:, None] >> np.arange(units)) & 1).astype(np.float64)


def random_signs(units: int, permutations: int, seed: int) -> Iterator[Floats]:
    """Yield random vectors of +1 and -1."""
    for rng, size in chunks(permutations, seed, "permutations"):
        yield 2.0 * rng.integers(0, 2, size=(size, units)).astype(np.float64) - 1.0


def all_deals(units: int, hand: int) -> Iterator[Floats]:
    """Yield every way to assign `hand` of the units to the first side, as 0 and 1."""
    hands = np.array(list(combinations(range(units), hand)))
    for first in range(0, len(hands), CHUNK):
        picks = np.zeros((len(hands[first : first + CHUNK]), units))
        np.put_along_axis(picks, hands[first : first + CHUNK], 1.0, axis=1)
        yield picks


def random_deals(units: int, hand: int, permutations: int, seed: int) -> Iterator[Floats]:
    """Yield random ways to assign `hand` of the units to the first side, as 0 and 1."""
    deck = (np.arange(units) < hand).astype(np.float64)
    for rng, size in chunks(permutations, seed, "permutations"):
        yield rng.permuted(np.tile(deck, (size, 1)), axis=1)
