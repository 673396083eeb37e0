"""R11: do the tests reject as often as they say, and do the intervals cover as often as they say?

Each simulation prints its figure with seed and count. Bars: rejection of a true null at .05 within
[.037, .064] over 1,000 data sets; coverage of 95 % intervals within [.93, .97].
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats

from dialeval.statistics import (
    METHODS,
    bootstrap_correlations,
    bootstrap_means,
    paired_bootstrap,
    paired_randomisation,
    permute_differences,
    permute_means,
)

pytestmark = pytest.mark.soak
NULLS = 1_000
P_VALUES = 5_000  # a finer look: one of three figures at 1,000 was 2.7 standard errors high by chance
DATA_SETS = 2_000
SEED = 20_240


def generators(count, seed=SEED):
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(count)]


def share(one, count):
    """Mean of a yes or no over `count` data sets, each from its own child of the seed."""
    with ThreadPoolExecutor(2) as pool:
        return float(np.mean(list(pool.map(one, generators(count)))))


def check_level(name, rejected):
    """A test at .05 rejects a true null about as often."""
    rate = share(rejected, NULLS)
    report(f"{name}, rejection at .05", rate, NULLS)
    assert 0.037 <= rate <= 0.064


def report(name, figure, count):
    print(f"\n{name}: {figure:.4f} (seed {SEED}, {count} data sets)")


def two_equal_metrics(rng, n):
    """Two metrics that see the same truth through noise of the same size."""
    gold = rng.normal(size=n)
    shared = rng.normal(size=n)
    return gold, *(gold + shared + rng.normal(size=(2, n)))


@pytest.mark.parametrize("method", METHODS)
def test_permute_difference_rejects_a_true_null_at_its_level(method):
    def rejected(rng):
        gold, x, z = two_equal_metrics(rng, 80)
        return (
            permute_differences([x, z], gold, [(0, 1)], method, 499, seed=int(rng.integers(2**31)))[0].p
            <= 0.05
        )

    check_level(f"permute_difference {method}, n = 80, 499 permutations", rejected)


def test_permute_difference_with_clusters_rejects_at_its_level():
    """Metric errors shared inside a dialogue: swapping turn by turn would reject too often."""

    def rejected(rng):
        clusters = np.repeat(np.arange(40), 6)
        gold = rng.normal(size=240)
        x, z = (gold + rng.normal(size=40)[clusters] + rng.normal(size=240) for _ in range(2))
        draw = {"clusters": clusters, "seed": int(rng.integers(2**31))}
        return permute_differences([x, z], gold, [(0, 1)], "spearman", 499, **draw)[0].p <= 0.05

    check_level("permute_difference spearman, 40 clusters of 6", rejected)


def skewed(rng, n):
    return rng.gamma(2.0, size=n)


def test_paired_randomisation_rejects_at_its_level():
    def rejected(rng):
        base = skewed(rng, 40)
        a, b = base + skewed(rng, 40), base + skewed(rng, 40)
        return paired_randomisation(a, b, permutations=999, seed=int(rng.integers(2**31))).p <= 0.05

    check_level("paired_randomisation, n = 40", rejected)


def test_permute_means_rejects_at_its_level():
    def rejected(rng):
        return (
            permute_means(skewed(rng, 30), skewed(rng, 45), permutations=999, seed=int(rng.integers(2**31))).p
            <= 0.05
        )

    check_level("permute_means, n = 30 and 45", rejected)


def test_paired_bootstrap_rejects_at_its_level():
    def rejected(rng):
        a, b = rng.normal(size=(2, 100))
        return paired_bootstrap(a, b, resamples=999, seed=int(rng.integers(2**31))).p <= 0.05

    check_level("paired_bootstrap, n = 100", rejected)


def population(rho):
    """What each correlation of a bivariate normal with correlation `rho` estimates."""
    return {
        "pearson": rho,
        "spearman": 6 / np.pi * np.arcsin(rho / 2),
        "kendall": 2 / np.pi * np.arcsin(rho),
    }


def covered(found, truth):
    return [found[m][0].low <= truth[m] <= found[m][0].high for m in METHODS]


@pytest.mark.parametrize("rho", [0.0, 0.4, 0.8])
def test_bca_covers_at_100_items(rho):
    truth = population(rho)

    def one(rng):
        gold = rng.normal(size=100)
        x = rho * gold + np.sqrt(1 - rho**2) * rng.normal(size=100)
        return covered(
            bootstrap_correlations([x], gold, resamples=1000, seed=int(rng.integers(2**31))), truth
        )

    with ThreadPoolExecutor(2) as pool:
        rates = np.mean(list(pool.map(one, generators(DATA_SETS))), axis=0)
    for method, rate in zip(METHODS, rates, strict=True):
        report(f"BCa coverage {method}, n = 100, rho = {rho}", rate, DATA_SETS)
    assert all(0.93 <= rate <= 0.97 for rate in rates)


def test_clustered_bca_covers_at_60_dialogues_of_9_turns():
    """Gold and metric vary between dialogues; each pair is still bivariate normal with correlation .5."""
    truth = population(0.5)
    clusters = np.repeat(np.arange(60), 9)

    def normal(rng):
        return np.sqrt(0.5) * rng.normal(size=60)[clusters] + np.sqrt(0.5) * rng.normal(size=540)

    def one(rng):
        gold = normal(rng)
        x = 0.5 * gold + np.sqrt(0.75) * normal(rng)
        seed = int(rng.integers(2**31))
        right = bootstrap_correlations([x], gold, clusters, resamples=1000, seed=seed)
        naive = bootstrap_correlations([x], gold, methods=["spearman"], resamples=1000, seed=seed)[
            "spearman"
        ][0]
        return [*covered(right, truth), naive.low <= truth["spearman"] <= naive.high]

    with ThreadPoolExecutor(2) as pool:
        *rates, naive = np.mean(list(pool.map(one, generators(NULLS))), axis=0)
    for method, rate in zip(METHODS, rates, strict=True):
        report(f"BCa coverage {method}, 60 clusters of 9, rho = .5", rate, NULLS)
    report("the same by turns instead of dialogues, spearman", naive, NULLS)
    assert all(0.93 <= rate <= 0.97 for rate in rates)
    assert naive < min(rates)


def test_mean_interval_covers_at_60_dialogues_of_9_turns():
    clusters = np.repeat(np.arange(60), 9)

    def one(rng):
        values = rng.normal(size=60)[clusters] + rng.normal(size=540)
        found = bootstrap_means(values, clusters, resamples=1000, seed=int(rng.integers(2**31)))
        return found.low <= 0 <= found.high

    rate = share(one, NULLS)
    report("BCa coverage of a mean, 60 clusters of 9", rate, NULLS)
    assert 0.93 <= rate <= 0.97


def test_clustered_p_values_are_honest():
    """Jackknife p-values of a true zero correlation between two clustered columns."""
    clusters = np.repeat(np.arange(60), 9)

    def one(rng):
        x, gold = (rng.normal(size=60)[clusters] + rng.normal(size=540) for _ in range(2))
        found = bootstrap_correlations([x], gold, clusters, resamples=1)
        return [found[m][0].p <= 0.05 for m in METHODS] + [stats.spearmanr(x, gold).pvalue <= 0.05]

    with ThreadPoolExecutor(2) as pool:
        *rates, naive = np.mean(list(pool.map(one, generators(P_VALUES))), axis=0)
    for method, rate in zip(METHODS, rates, strict=True):
        report(f"clustered p of a true zero, {method}, rejection at .05", rate, P_VALUES)
    report("the same by turns instead of dialogues, spearman", naive, P_VALUES)
    assert all(0.037 <= rate <= 0.064 for rate in rates)
