"""Correlations against scipy and scikit-learn, and what must not change them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from dialeval.errors import UsageError
from dialeval.statistics import (
    METHODS,
    angle,
    auc,
    class_distributions,
    correlate,
    correlation_matrix,
    zscore,
)

SCIPY = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("steps", [None, 3, 40])
@pytest.mark.parametrize("n", [3, 4, 9, 200, 2000])
def test_value_and_p_are_scipys(method, steps, n):
    rng = np.random.default_rng(n)
    gold = rng.normal(size=n)
    x = gold + rng.normal(size=n)
    if steps:
        gold, x = np.round(gold * steps / 3), np.round(x * steps / 3)
        gold[:2], x[:2] = (0, 1), (1, 0)
    missing = rng.random(n) < (0.3 if n > 9 else 0)
    x[missing] = np.nan
    oracle = SCIPY[method](x[~missing], gold[~missing])
    ours = correlate(x, gold, method)
    assert ours.n == (~missing).sum()
    assert ours.value == pytest.approx(oracle.statistic, abs=1e-12)
    perfect = method == "spearman" and oracle.pvalue == 0  # there scipy's t is infinite; ours is exact
    assert ours.p == pytest.approx(2 / math.factorial(ours.n) if perfect else oracle.pvalue, abs=1e-12)


def test_pairs_are_deleted_on_either_side():
    ours = correlate([1, 2, None, 4, 9, np.inf], [2, None, 3, 5, 7, 1], "pearson")
    assert ours.n == 3
    assert ours.value == pytest.approx(stats.pearsonr([1, 4, 9], [2, 5, 7]).statistic, abs=1e-12)


def test_an_unknown_method_is_refused_by_name():
    with pytest.raises(UsageError, match="pearson, spearman, kendall"):
        correlate([1, 2, 3], [1, 2, 3], "cosine")


def test_different_lengths_are_refused():
    with pytest.raises(UsageError, match="different length: 3, 2"):
        correlate([1, 2, 3], [1, 2])


whole = st.lists(st.integers(-50, 50), min_size=5, max_size=40)


@given(whole, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_rank_correlations_ignore_a_monotone_change_of_scale(values, random):
    other = list(values)
    random.shuffle(other)
    for method in ("spearman", "kendall"):
        plain = correlate(values, other, method)
        bent = correlate([v**3 + v for v in values], np.exp(np.array(other) / 10.0), method)
        flipped = correlate([-v for v in values], other, method)
        if plain.value is None:
            assert bent.reason == flipped.reason == "constant"
        else:
            assert bent.value == pytest.approx(plain.value, abs=1e-12)
            assert flipped.value == pytest.approx(-plain.value, abs=1e-12)


@given(whole, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_correlations_are_symmetric_and_bounded(values, random):
    other = list(values)
    random.shuffle(other)
    for method in METHODS:
        there, back = correlate(values, other, method), correlate(other, values, method)
        assert there.reason == back.reason
        if there.value is not None:
            assert there.value == pytest.approx(back.value, abs=1e-12)
            assert -1 <= there.value <= 1


def test_matrix_uses_the_items_each_pair_shares():
    rng = np.random.default_rng(5)
    columns = rng.normal(size=(3, 60))
    columns[0, :20] = np.nan
    columns[1, 40:] = np.nan
    table = correlation_matrix(columns, "kendall")
    assert [[e.n for e in row] for row in table] == [[40, 20, 40], [20, 40, 40], [40, 40, 60]]
    assert table[0][1].value == pytest.approx(
        stats.kendalltau(columns[0, 20:40], columns[1, 20:40]).statistic, abs=1e-12
    )
    assert table[1][0] == table[0][1]


def test_angle():
    assert angle(1.0) == 0.0
    assert angle(0.5) == pytest.approx(60.0)
    assert angle(-1.0) == 180.0
    assert angle(None) is None


@pytest.mark.parametrize("seed", range(10))
def test_auc_is_scikit_learns_and_p_is_mann_whitneys(seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, size=80)
    scores = np.round(labels * 0.4 + rng.normal(size=80), 1 if seed % 2 else 8)
    ours = auc(scores, labels)
    oracle = stats.mannwhitneyu(scores[labels == 1], scores[labels == 0])
    assert ours.value == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    assert ours.p == pytest.approx(oracle.pvalue, abs=1e-12)


def test_auc_of_awkward_labels():
    assert auc([1, 2, 3], [1, 1, 1]).reason == "one class"
    assert (auc([2, 2, 2, 2], [0, 1, 0, 1]).value, auc([2, 2, 2, 2], [0, 1, 0, 1]).p) == (0.5, 1.0)
    assert auc([1, None, 3], [True, False, False]).value == 0.0
    with pytest.raises(UsageError, match="two classes"):
        auc([1, 2, 3], [0, 1, 2])


def test_class_distributions():
    low, high = class_distributions([1, 2, 3, 10, None], [0, 0, 0, 1, 1])
    assert (low.n, low.mean, low.sd, low.quantiles[2]) == (3, 2.0, 1.0, 2.0)
    assert (high.n, high.mean, high.sd) == (1, 10.0, None)


def test_zscore_keeps_gaps_and_flattens_constants():
    assert zscore([5, 5, None, 5])[[0, 1, 3]].tolist() == [0, 0, 0]
    values = np.random.default_rng(0).normal(3, 9, size=50)
    assert zscore(values) == pytest.approx(stats.zscore(values), abs=1e-12)
