"""Is the difference real?

Two questions come up in every study. *Which of two metrics agrees better with people?* Both are measured on
the same items and against the same gold, so their correlations depend on each other: `williams` answers for
Pearson from three correlations, `permute_difference` for any correlation and for clustered turns.
*Which of two systems is better?* `paired_randomisation` when both answered the same items, `permute_means`
when they did not, `paired_bootstrap` for the size of the difference.

Random tests report (b + 1) / (m + 1), b of m random arrangements being at least as extreme: never 0. Where
all arrangements are no more than the number asked for, each is visited once and the p-value is exact.
Ask several questions, and `holm` keeps the chance of one wrong yes at the level; `significance_clusters` then
draws the lines in a ranking.
"""

from collections.abc import Mapping, Sequence
from math import comb

import numpy as np

from dialeval.errors import UsageError
from dialeval.statistics.estimate import (
    Estimate,
    Floats,
    Integers,
    Places,
    Vector,
    clusters_of,
    complete,
    vector,
)
from dialeval.statistics.permutation import all_deals, extreme, p_value, random_deals, sign_test
from dialeval.statistics.resampling import RESAMPLES, chunked, interval, leave_one_out


def williams(r12: float, r13: float, r23: float, n: int) -> Estimate:
    """Williams' test of r12 against r13, two correlations that share variable 1 (the gold).

    Args:
        r12: Gold with the first metric.
        r13: Gold with the second metric.
        r23: The two metrics with each other.
        n: Number of items.

    Returns:
        t with n - 3 degrees of freedom as `value`, and its two-sided p.

    >>> e = williams(0.6, 0.4, 0.5, 103)
    >>> round(e.value, 4), round(e.p, 4)
    (2.4863, 0.0146)
    """
    if any(abs(r) > 1 for r in (r12, r13, r23)):
        raise UsageError("a correlation lies between -1 and 1")
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
    """Holm's step-down adjustment: compare what it returns with the level as if it were one test.

    A test that could not be made (`None`) stays `None` and does not count.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    made = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, i) in enumerate(made):
        highest = max(highest, min(1.0, p * (len(made) - rank)))
        adjusted[i] = highest
    return adjusted


def significance_clusters(
    order: Sequence[str], p_values: Mapping[tuple[str, str], float | None], alpha: float = 0.05
) -> list[int]:
    """Groups in a ranking, best first: a new one starts where everything above beats everything below.

    Args:
        order: Names from best to worst.
        p_values: Adjusted p-value of each pair, keyed in either order. `None` or absent is not significant.
        alpha: Level.

    Returns:
        Cluster number of each name in `order`, from 1.

    >>> significance_clusters(["a", "b", "c"], {("a", "b"): 0.4, ("a", "c"): 0.01, ("c", "b"): 0.02})
    [1, 1, 2]
    """

    def beats(above: str, below: str) -> bool:
        p = p_values.get((above, below), p_values.get((below, above)))
        return p is not None and p < alpha

    numbers: list[int] = []
    for place, _ in enumerate(order):
        apart = place > 0 and all(beats(above, below) for above in order[:place] for below in order[place:])
        numbers.append(numbers[-1] + apart if numbers else 1)
    return numbers


def paired_randomisation(
    a: Vector,
    b: Vector,
    *,
    clusters: Vector | None = None,
    permutations: int = 10_000,
    seed: int = 0,
    alternative: str = "two-sided",
) -> Estimate:
    """Two systems on the same items: flip the sign of each difference (of each cluster) at random.

    Returns:
        mean(a - b) over the pairs that are complete, and p.

    >>> e = paired_randomisation([3, 4, 5, 4, 5], [2, 3, 4, 3, 4])
    >>> e.value, e.p
    (1.0, 0.0625)
    """
    gaps, places, units = _gaps(a, b, clusters)
    if gaps.size == 0:
        return Estimate.undefined("no overlap")
    sums = np.bincount(places, gaps, units)
    observed = float(gaps.mean())
    p = sign_test(
        observed,
        lambda signs: signs @ sums / gaps.size,
        units,
        permutations=permutations,
        seed=seed,
        alternative=alternative,
    )
    return Estimate(observed, gaps.size, p=p)


def _gaps(a: Vector, b: Vector, clusters: Vector | None) -> tuple[Floats, Places, int]:
    rows = np.arange(len(a), dtype=np.float64)
    left, right, kept = complete(a, b, rows)
    places, _ = clusters_of(clusters, rows.size)
    places, units = clusters_of(places[kept.astype(np.intp)], kept.size)
    return left - right, places, units


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
    """Two systems on different items: deal the items (or whole dialogues) out again at random.

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
    whole = units.sum(axis=0)

    def differences(picks: Floats) -> Floats:
        ours = picks @ units
        theirs = whole - ours
        result: Floats = ours[:, 0] / ours[:, 1] - theirs[:, 0] / theirs[:, 1]
        return result

    exact = comb(len(units), len(left)) <= permutations
    observed = float(differences((np.arange(len(units)) < len(left))[None, :].astype(np.float64))[0])
    every, hand = len(units), len(left)
    deals = all_deals(every, hand) if exact else random_deals(every, hand, permutations, seed)
    counts = [(extreme(differences(picks), observed, alternative), len(picks)) for picks in deals]
    return Estimate(observed, n, p=p_value(counts, exact=exact))


def _unit_sums(values: Vector, clusters: Vector | None) -> Floats:
    """Sum and number of values per cluster."""
    data = vector(values)
    places, _ = clusters_of(clusters, data.size)
    present = ~np.isnan(data)
    places, count = clusters_of(places[present], int(present.sum()))
    sums: Floats = np.stack(
        [np.bincount(places, data[present], count), np.bincount(places, minlength=count)], axis=1
    )
    return sums.astype(np.float64)


def paired_bootstrap(
    a: Vector,
    b: Vector,
    *,
    clusters: Vector | None = None,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = 0,
    alternative: str = "two-sided",
    workers: int = 1,
) -> Estimate:
    """How much better is `a` than `b` on the same items: mean difference, BCa interval, p.

    The p-value comes from the draws moved to a mean of zero: how often is pure chance at least this large?

    >>> e = paired_bootstrap([3, 5, 4, 6, 5, 7, 6, 5], [2, 4, 4, 4, 5, 5, 4, 4])
    >>> e.value, e.low > 0, e.p < 0.05
    (1.125, True, True)
    """
    gaps, places, units = _gaps(a, b, clusters)
    if gaps.size == 0:
        return Estimate.undefined("no overlap")
    mean = float(gaps.mean())
    if units < 2:
        return Estimate(mean, gaps.size, reason="n < 2" if gaps.size < 2 else "one cluster")
    sums = np.stack([np.bincount(places, gaps - mean, units), np.bincount(places, minlength=units)], axis=1)

    def excess(counts: Integers) -> Floats:
        total, n = (counts.astype(np.float64) @ sums).T
        result: Floats = total / n
        return result

    chance = np.concatenate(chunked(excess, units, resamples, seed, workers))
    left_out = np.concatenate([excess(c) for c in leave_one_out(units)])
    low, high, reason = interval(mean, mean + chance, mean + left_out, confidence)
    p = (extreme(chance, mean, alternative) + 1) / (resamples + 1)
    return Estimate(mean, gaps.size, low, high, p, reason)
