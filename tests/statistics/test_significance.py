"""Tests of differences: hand-worked, enumerated, and against statsmodels and scipy."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from dialeval.errors import UsageError
from dialeval.statistics import (
    METHODS,
    bootstrap_differences,
    bootstrap_statistic,
    compact_letters,
    correlate,
    holm,
    paired_bootstrap,
    paired_randomisation,
    permute_differences,
    permute_means,
    williams,
)


def test_williams_by_hand():
    """r12 = .8, r13 = .6, r23 = .5, n = 28, every step on paper.

    K     = 1 - .64 - .36 - .25 + 2(.8)(.6)(.5) = -.25 + .48 = .23
    2K(n-1)/(n-3) = .46 * 27/25 = .4968
    mean² (1-r23)³ = .7² * .5³ = .49 * .125 = .06125
    t     = (.8 - .6) * sqrt(27 * 1.5 / (.4968 + .06125)) = .2 * sqrt(40.5 / .55805)
          = .2 * sqrt(72.57414) = .2 * 8.519046 = 1.703809, with 25 degrees of freedom;
    the table has t(.90) = 1.316, t(.95) = 1.708 for 25, so the two-sided p lies just above .10.
    """
    found = williams(0.8, 0.6, 0.5, 28)
    assert found.value == pytest.approx(1.703809, abs=1e-6)
    assert 0.100 < found.p < 0.102
    assert found.p == pytest.approx(2 * stats.t.sf(found.value, 25), abs=1e-12)


def test_williams_is_antisymmetric_and_knows_its_limits():
    assert williams(0.3, 0.6, 0.2, 50).value == pytest.approx(-williams(0.6, 0.3, 0.2, 50).value)
    assert williams(0.4, 0.4, 0.1, 50).p == 1.0
    assert williams(0.4, 0.4, 1.0, 50).reason == "metrics are identical"
    assert williams(0.4, 0.2, 0.1, 3).reason == "n < 4"
    with pytest.raises(UsageError):
        williams(1.4, 0.2, 0.1, 30)


def by_enumeration(x, z, gold, method, units):
    """All swaps, one by one, with the plain correlation."""
    scale = stats.zscore if method == "pearson" else stats.rankdata
    x, z = scale(x), scale(z)
    observed = correlate(x, gold, method).value - correlate(z, gold, method).value
    hits = 0
    for swap in product([False, True], repeat=int(units.max()) + 1):
        swapped = np.array(swap)[units]
        a, b = np.where(swapped, z, x), np.where(swapped, x, z)
        gap = correlate(a, gold, method).value - correlate(b, gold, method).value
        hits += abs(gap) >= abs(observed) - 1e-10
    return hits / 2 ** (int(units.max()) + 1)


def permute_difference(x, z, gold, method="spearman", permutations=10_000, **draw):
    return permute_differences([x, z], gold, [(0, 1)], method, permutations, **draw)[0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("clustered", [False, True])
def test_permutation_is_exact_at_small_n(method, clustered):
    rng = np.random.default_rng(3)
    gold = np.round(rng.normal(size=9) * 2)
    x, z = gold + rng.normal(size=9), gold + 3 * rng.normal(size=9)
    units = np.array([0, 0, 1, 2, 2, 3, 4, 5, 5]) if clustered else np.arange(9)
    found = permute_difference(x, z, gold, method, 512, clusters=units if clustered else None)
    assert found.p == pytest.approx(by_enumeration(x, z, gold, method, units), abs=1e-12)
    assert found.value == pytest.approx(correlate(x, gold, method).value - correlate(z, gold, method).value)


@pytest.mark.parametrize("method", METHODS)
def test_random_permutations_come_near_the_exact_p(method):
    rng = np.random.default_rng(1)
    gold = rng.normal(size=11)
    x, z = gold + 0.8 * rng.normal(size=11), rng.normal(size=11)
    exact = permute_difference(x, z, gold, method, 2048)
    random = permute_difference(x, z, gold, method, 2047, seed=5)
    assert random.p == pytest.approx(exact.p, abs=0.03)
    assert (random.p * 2048) % 1 == pytest.approx(0, abs=1e-6)  # (b + 1) / (m + 1)


def test_swapping_the_metrics_swaps_the_sides():
    rng = np.random.default_rng(2)
    gold = rng.normal(size=200)
    good, poor = gold + 0.5 * rng.normal(size=200), gold + 2 * rng.normal(size=200)
    one, other = (permute_difference(*pair, gold, permutations=500) for pair in ((good, poor), (poor, good)))
    assert one.p == other.p == pytest.approx(1 / 501)
    assert other.value == pytest.approx(-one.value)


def test_permute_difference_drops_incomplete_items_and_says_why_not():
    gold = [1, 2, 3, 4, 5, None]
    assert permute_difference([1, 2, 3, 4, None, 6], [2, 1, 4, 3, 5, 6], gold).n == 4
    assert permute_difference([1, 1, 1, 1, 1, 1], [2, 1, 4, 3, 5, 6], gold).reason == "constant"
    assert permute_difference([1, None, None, 1, None, 1], [2, 1, 4, 3, 5, 6], gold).reason == "n < 3"
    same = permute_difference([1, 3, 2, 4, 5, 6], [1, 3, 2, 4, 5, 6], [1, 2, 3, 4, 5, 6])
    assert (same.value, same.p) == (0.0, 1.0)


@pytest.mark.parametrize("seed", range(5))
def test_holm_is_statsmodels(seed):
    p = np.random.default_rng(seed).uniform(size=12) ** 3
    assert holm(p.tolist()) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-12)


def test_holm_passes_undefined_through():
    assert holm([None, 0.02, None]) == [None, 0.02, None]
    assert holm([]) == []


def test_letters_of_a_ranking():
    p = {
        ("a", "b"): 0.001,
        ("a", "c"): 0.001,
        ("a", "d"): 0.001,
        ("b", "c"): 0.3,
        ("d", "b"): 0.01,
        ("c", "d"): 0.2,
    }
    assert compact_letters(["a", "b", "c", "d"], p) == [("a",), ("b",), ("b", "c"), ("c",)]
    p["c", "d"] = 0.04
    assert compact_letters(["a", "b", "c", "d"], p) == [("a",), ("b",), ("b",), ("c",)]
    p["a", "d"] = None
    assert compact_letters(["a", "b", "c", "d"], p) == [("a",), ("b",), ("b",), ("a",)]
    assert compact_letters([], {}) == []


@given(st.integers(1, 14), st.randoms(use_true_random=False), st.floats(0, 1))
def test_two_names_share_a_letter_exactly_if_no_test_tells_them_apart(size, random, share):
    names = [f"s{place}" for place in range(size)]
    pairs = list(combinations(names, 2))
    p = {pair[:: random.choice((1, -1))]: 0.01 if random.random() < share else 0.5 for pair in pairs}
    letters = dict(zip(names, compact_letters(names, p), strict=True))
    assert all(letters.values()) and letters[names[0]][0] == "a"
    for one, other in pairs:
        alike = p.get((one, other), p.get((other, one))) >= 0.05
        assert bool(set(letters[one]) & set(letters[other])) == alike
    groups = {
        letter: {name for name in names if letter in letters[name]}
        for name in names
        for letter in letters[name]
    }
    assert not any(one < other for one in groups.values() for other in groups.values()), "no letter to spare"


def test_more_groups_than_letters():
    names = [f"s{place}" for place in range(60)]
    made = compact_letters(names, dict.fromkeys(combinations(names, 2), 0.001))
    assert len(set(made)) == 60 and made[52] == ("a2",)


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_paired_randomisation_is_scipys_exact_test(alternative):
    rng = np.random.default_rng(8)
    a, b = rng.normal(0.4, 1, size=10), rng.normal(size=10)
    oracle = stats.permutation_test(
        (a, b),
        lambda x, y: np.mean(x - y),
        permutation_type="samples",
        n_resamples=np.inf,
        alternative=alternative,
    )
    found = paired_randomisation(a, b, alternative=alternative)
    assert found.value == pytest.approx(oracle.statistic, abs=1e-12)
    if alternative == "two-sided":  # scipy doubles the smaller tail; for sign flips both are the same
        assert found.p == pytest.approx(min(1.0, oracle.pvalue), abs=1e-12)
    else:
        assert found.p == pytest.approx(oracle.pvalue, abs=1e-12)


def test_clusters_flip_together():
    a, b = [1, 2, 3, 4], [0, 0, 0, 0]
    assert paired_randomisation(a, b, clusters=[0, 0, 1, 1]).p == 0.5
    assert paired_randomisation(a, b).p == 0.125


@pytest.mark.parametrize("alternative", ["less", "greater"])
def test_permute_means_is_scipys_exact_test(alternative):
    rng = np.random.default_rng(8)
    a, b = rng.normal(0.5, 1, size=5), rng.normal(size=6)
    oracle = stats.permutation_test(
        (a, b), lambda x, y: np.mean(x) - np.mean(y), n_resamples=np.inf, alternative=alternative
    )
    found = permute_means(a, b, alternative=alternative)
    assert found.value == pytest.approx(a.mean() - b.mean(), abs=1e-12)
    assert found.p == pytest.approx(oracle.pvalue, abs=1e-12)


def test_permute_means_two_sided_by_enumeration():
    a, b = [3.0, 5.0, 9.0], [1.0, 2.0, 2.0, 8.0]
    every = np.array(a + b)
    gaps = []
    for hand in combinations(range(7), 3):
        ours = np.isin(np.arange(7), hand)
        gaps.append(abs(every[ours].mean() - every[~ours].mean()))
    observed = abs(np.mean(a) - np.mean(b))
    exact = np.mean(np.array(gaps) >= observed - 1e-12)
    assert permute_means(a, b).p == pytest.approx(exact, abs=1e-12)
    assert permute_means(a, b, permutations=34, seed=1).p == pytest.approx(exact, abs=0.25)
    assert permute_means(a, b, permutations=34, seed=1).p * 35 % 1 == pytest.approx(0, abs=1e-9)


def test_permute_means_deals_whole_dialogues():
    clustered = permute_means([5, 5, 5, 6], [1, 1, 2, 1], clusters_a=[0, 0, 1, 1], clusters_b=[0, 0, 1, 1])
    assert (clustered.value, clustered.n) == (4.0, 8)
    assert clustered.p == pytest.approx(2 / 6)


def test_paired_bootstrap_agrees_with_a_t_test_where_that_is_right():
    rng = np.random.default_rng(4)
    b = rng.normal(size=300)
    a = b + rng.normal(0.13, 1, size=300)
    t = stats.ttest_rel(a, b)
    found = paired_bootstrap(a, b)
    bounds = t.confidence_interval()
    assert found.value == pytest.approx(np.mean(a - b), abs=1e-12)
    assert found.p == pytest.approx(t.pvalue, abs=0.01)
    assert (found.low, found.high) == pytest.approx((bounds.low, bounds.high), abs=0.01)
    assert paired_bootstrap(a, b, alternative="greater").p == pytest.approx(t.pvalue / 2, abs=0.01)


def test_paired_bootstrap_workers_change_nothing():
    a, b = np.random.default_rng(0).normal(size=(2, 40))
    assert paired_bootstrap(a, b, workers=1) == paired_bootstrap(a, b, workers=4)


def test_nothing_shared():
    assert paired_randomisation([1, None], [None, 2]).reason == "no overlap"
    assert paired_bootstrap([1, None], [None, 2]).reason == "no overlap"
    assert permute_means([None], [1]).reason == "no values"


@pytest.mark.parametrize("test", [paired_randomisation, permute_means, paired_bootstrap])
def test_an_unknown_alternative_is_refused(test):
    with pytest.raises(UsageError, match="two-sided, less, greater"):
        test([1.0, 2.0, 4.0], [2.0, 2.0, 3.0], alternative="both")


@pytest.mark.parametrize("method", ["pearson", "spearman"])
@pytest.mark.parametrize("clustered", [False, True])
def test_intervals_of_differences_equal_the_slow_and_general_bootstrap(method, clustered):
    draw = np.random.default_rng(3)
    gold = draw.normal(size=40)
    columns = np.vstack([gold + draw.normal(size=40) * spread for spread in (0.4, 0.8, 3)])
    columns[2, ::5] = np.nan  # over what both have
    clusters = np.arange(40) // 4 if clustered else None
    pairs = [(0, 0), (0, 1), (2, 0), (1, 2)]
    draws = {"resamples": 200, "confidence": 0.68, "seed": 5}
    found = bootstrap_differences(columns, gold, pairs, method, clusters=clusters, **draws)
    assert (found[0].value, found[0].low, found[0].high) == (0, 0, 0)
    for (one, other), fast in list(zip(pairs, found, strict=True))[1:]:
        kept = ~np.isnan(columns[one] + columns[other])

        def gap(rows, one=one, other=other):
            first, second = (correlate(rows[:, place], rows[:, 3], method) for place in (one, other))
            return None if first.value is None or second.value is None else first.value - second.value

        rows = np.vstack([columns, gold]).T[kept]
        slow = bootstrap_statistic(rows, gap, None if clusters is None else clusters[kept], **draws)
        assert (fast.value, fast.low, fast.high, fast.n) == pytest.approx(
            (slow.value, slow.low, slow.high, kept.sum()), abs=1e-9
        )


def test_a_difference_to_a_constant_metric_is_undefined():
    columns = [[1, 2, 3, 4, 6, 5], [2] * 6]
    found = bootstrap_differences(columns, [1, 2, 3, 4, 5, 6], [(0, 1), (1, 1)], resamples=50)
    assert [(one.value, one.reason) for one in found] == [(None, "constant")] * 2
