"""Agreement against krippendorff, statsmodels and scikit-learn."""

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import aggregate_raters
from statsmodels.stats.inter_rater import fleiss_kappa as statsmodels_fleiss

from dialeval.errors import UsageError
from dialeval.statistics import (
    METHODS,
    agreement_interval,
    bootstrap_statistic,
    cohen_kappa,
    correlate,
    fleiss_kappa,
    gwet_ac,
    human_ceiling,
    krippendorff_alpha,
    majority,
    raw_agreement,
)

LEVELS = ("nominal", "ordinal", "interval", "ratio")


def ratings(rng, units=30, raters=4, labels=5, missing=0.0):
    truth = rng.integers(1, labels + 1, size=(units, 1))
    noise = rng.integers(1, labels + 1, size=(units, raters))
    data = np.where(rng.random((units, raters)) < 0.6, truth, noise).astype(float)
    data[rng.random(data.shape) < missing] = np.nan
    return data


@pytest.mark.parametrize("level", LEVELS)
def test_r10_alpha_is_krippendorffs_on_200_matrices(level):
    rng = np.random.default_rng(2024)
    compared = 0
    while compared < 200:
        shape = {"units": rng.integers(2, 40), "raters": rng.integers(2, 7), "labels": rng.integers(2, 9)}
        data = ratings(rng, **shape, missing=rng.uniform(0, 0.5))
        if rng.random() < 0.3:
            data = data * 1.7 - 1.7  # not only whole numbers, and zero among them
        paired = data[(~np.isnan(data)).sum(axis=1) >= 2]
        if np.unique(paired[~np.isnan(paired)]).size < 2:
            continue
        oracle = krippendorff.alpha(reliability_data=data.T, level_of_measurement=level)
        found = krippendorff_alpha(data, level)
        assert found.value == pytest.approx(oracle, abs=1e-10)
        assert found.n == len(paired)
        compared += 1


@pytest.mark.parametrize("seed", range(10))
def test_fleiss_is_statsmodels(seed):
    data = ratings(np.random.default_rng(seed), units=50, raters=3)
    oracle = statsmodels_fleiss(aggregate_raters(data.astype(int))[0], method="fleiss")
    assert fleiss_kappa(data).value == pytest.approx(oracle, abs=1e-12)


def test_fleiss_without_the_dominant_label_by_hand():
    """Dropping every 1 leaves (2,2), (3,3,2) and (2) alone, which falls out.

    Observed: unit one 1, unit two 1/3: mean 2/3. Labels: 2 three times, 3 twice: expected .36 + .16 = .52.
    kappa = (2/3 - .52) / .48 = .305556.
    """
    data = [[1, 2, 2], [3, 3, 2], [1, 1, 2], [1, 1, 1]]
    found = fleiss_kappa(data, exclude=1)
    assert found.value == pytest.approx(0.3055555556, abs=1e-9)
    assert found.n == 2
    assert fleiss_kappa(data).n == 4


@pytest.mark.parametrize("seed", range(5))
def test_cohen_is_scikit_learns(seed):
    a, b = ratings(np.random.default_rng(seed), raters=2).T
    assert cohen_kappa(a, b).value == pytest.approx(cohen_kappa_score(a, b), abs=1e-12)


@given(st.integers(0, 10_000), st.permutations([1.0, 2.0, 3.0, 4.0, 5.0]))
@settings(max_examples=40, deadline=None)
def test_nominal_figures_ignore_names_and_seats(seed, names):
    rng = np.random.default_rng(seed)
    data = ratings(rng, missing=0.2)
    renamed = np.array([0.0, *names])[np.nan_to_num(data).astype(int)]
    renamed = np.where(np.isnan(data), np.nan, renamed)
    shuffled = rng.permuted(renamed, axis=1)
    for figure in (fleiss_kappa, raw_agreement, lambda d: krippendorff_alpha(d, "nominal")):
        assert figure(shuffled).value == pytest.approx(figure(data).value, abs=1e-12)


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_ordinal_alpha_ignores_a_monotone_change_of_scale(seed):
    data = ratings(np.random.default_rng(seed), missing=0.3)
    assert krippendorff_alpha(data**3, "ordinal").value == pytest.approx(
        krippendorff_alpha(data, "ordinal").value, abs=1e-12
    )


def test_raw_agreement_with_different_numbers_of_ratings():
    """One unit of three ratings with one pair equal (1/3), one of two that differ (0), one alone."""
    assert raw_agreement([[1, 1, 2], [1, 2, None], [5, None, None]]).value == pytest.approx(1 / 6)


def test_majority_ties():
    data = [[2, 1, None], [3, 1, 1], [None, None, None], [5, 4, 3]]
    assert majority(data, "lowest")[[0, 1, 3]].tolist() == [1, 1, 3]
    assert majority(data, "highest")[[0, 1, 3]].tolist() == [2, 1, 5]
    assert majority(data, "first")[[0, 1, 3]].tolist() == [2, 1, 5]
    assert np.isnan(majority(data)).tolist() == [True, False, True, True]
    with pytest.raises(UsageError, match="null, lowest, highest, first"):
        majority(data, "random")


@pytest.mark.parametrize("method", METHODS)
def test_ceiling_pools_each_rating_with_the_mean_of_the_others(method):
    data = ratings(np.random.default_rng(1), units=25, missing=0.3)
    own, rest = [], []
    for row in data:
        given_ratings = row[~np.isnan(row)]
        for i, rating in enumerate(given_ratings):
            if given_ratings.size > 1:
                own.append(rating)
                rest.append(np.mean(np.delete(given_ratings, i)))
    found = human_ceiling(data, method)
    assert found.n == len(own)
    assert found.value == pytest.approx(correlate(own, rest, method).value, abs=1e-9)
    assert found.p is None


def test_ceiling_interval_resamples_units():
    data = ratings(np.random.default_rng(1), units=60)
    found = human_ceiling(data, resamples=500)
    assert found.low < found.value < found.high
    assert found.value == pytest.approx(human_ceiling(data).value, abs=1e-12)
    halves = human_ceiling(data, resamples=500, clusters=np.arange(60) // 10)
    assert (halves.low, halves.high) != (found.low, found.high)


@pytest.mark.parametrize(
    ("statistic", "figure"),
    [
        ("fleiss_kappa", fleiss_kappa),
        ("raw_agreement", raw_agreement),
        *((level, lambda d, level=level: krippendorff_alpha(d, level)) for level in LEVELS),
    ],
)
@pytest.mark.parametrize("clustered", [False, True])
def test_fast_intervals_are_the_slow_ones(statistic, figure, clustered):
    data = ratings(np.random.default_rng(6), units=24, missing=0.1)
    data = data[(~np.isnan(data)).sum(axis=1) >= 2]
    clusters = np.arange(len(data)) // 3 if clustered else None
    name, level = ("krippendorff_alpha", statistic) if statistic in LEVELS else (statistic, "ordinal")
    fast = agreement_interval(data, name, clusters, level=level, resamples=200, seed=3)
    slow = bootstrap_statistic(data, lambda rows: figure(rows).value, clusters, resamples=200, seed=3)
    assert (fast.value, fast.low, fast.high) == pytest.approx((slow.value, slow.low, slow.high), abs=1e-9)


def test_interval_with_a_label_excluded():
    data = ratings(np.random.default_rng(6), units=60, labels=3)
    found = agreement_interval(data, "fleiss_kappa", exclude=1, resamples=300)
    assert found.value == fleiss_kappa(data, exclude=1).value
    assert found.low < found.value < found.high


def test_interval_workers_change_nothing():
    data = ratings(np.random.default_rng(6))
    one, four = (agreement_interval(data, resamples=900, workers=w) for w in (1, 4))
    assert one == four


def test_unknown_names_are_refused():
    with pytest.raises(UsageError, match="nominal, ordinal, interval, ratio"):
        krippendorff_alpha([[1, 2], [2, 2]], "cardinal")
    with pytest.raises(UsageError, match="fleiss_kappa"):
        agreement_interval([[1, 2], [2, 2]], "gwet")


def test_gwet_by_hand():
    """125 units: 118 both yes, 7 split. Chance is 2 · .972 · .028; kappa of the same table is below 0."""
    table = [[1, 1]] * 118 + [[1, 0]] * 5 + [[0, 1]] * 2
    assert gwet_ac(table).value == pytest.approx((0.944 - 0.054432) / (1 - 0.054432))
    assert fleiss_kappa(table).value < 0


def test_gwet_interval_is_that_of_the_slow_bootstrap():
    ratings = np.random.default_rng(3).integers(0, 2, (40, 3))
    fast = agreement_interval(ratings, "gwet_ac", resamples=300)
    slow = bootstrap_statistic(ratings, lambda rows: gwet_ac(rows).value, resamples=300)
    assert (fast.low, fast.high) == pytest.approx((slow.low, slow.high))
