"""Lines, ridge and calibration against statsmodels and scikit-learn."""

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dialeval.errors import UsageError
from dialeval.statistics import calibration, isotonic, kfold_groups, ols, ridge_out_of_group


def test_ols_is_statsmodels():
    rng = np.random.default_rng(1)
    x = rng.normal(5, 2, size=60)
    y = x + rng.normal(size=60) * 3
    oracle = sm.OLS(y, sm.add_constant(x)).fit()
    line = ols(x, y, confidence=0.9)
    assert [c.value for c in line.coefficients] == pytest.approx(oracle.params, abs=1e-9)
    assert [c.p for c in line.coefficients] == pytest.approx(oracle.pvalues, abs=1e-9)
    assert [(c.low, c.high) for c in line.coefficients] == [
        pytest.approx(tuple(row), abs=1e-9) for row in oracle.conf_int(0.1)
    ]
    assert line.r_squared == pytest.approx(oracle.rsquared, abs=1e-9)


def test_ols_drops_incomplete_rows_and_says_why_not():
    assert ols([1, 2, None, 4, 7], [2, 3, 1, None, 9]).n == 3
    assert ols([1, 2], [1, 2]).reason == "n < 3"
    assert ols([3, 3, 3, 3], [1, 2, 3, 4]).reason == "the predictor is constant"
    flat = ols([1, 2, 3, 4], [5, 5, 5, 5])
    assert flat.r_squared is None
    assert flat.coefficients[1].value == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("alpha", [0.1, 10.0])
def test_ridge_is_scikit_learns_fold_by_fold(alpha):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 3)) * [1, 10, 100]
    y = features @ [1, 0.1, 0.01] + rng.normal(size=40)
    groups = rng.integers(0, 5, size=40)
    found = ridge_out_of_group(features, y, groups, alpha)
    for group in range(5):
        model = make_pipeline(StandardScaler(), Ridge(alpha)).fit(
            features[groups != group], y[groups != group]
        )
        assert found[groups == group] == pytest.approx(model.predict(features[groups == group]), abs=1e-9)


def test_ridge_never_sees_the_group_it_predicts():
    rng = np.random.default_rng(1)
    features, y, groups = rng.normal(size=(30, 2)), rng.normal(size=30), np.repeat(np.arange(6), 5)
    before = ridge_out_of_group(features, y, groups)
    y[:5] += 1000
    after = ridge_out_of_group(features, y, groups)
    assert after[:5] == pytest.approx(before[:5], abs=1e-12)
    assert not np.allclose(after[5:], before[5:])


def test_ridge_fills_gaps_with_the_training_mean_alone():
    features = np.array([[1.0, 5], [2, 5], [3, 5], [np.nan, 5], [900, 5]])
    y, groups = np.array([1.0, 2, 3, 2, 4]), np.array([0, 0, 0, 1, 2])
    found = ridge_out_of_group(features, y, groups, alpha=1.0)
    # Row 3 is missing: predicted at the training mean, which is the mean outcome of the others.
    assert found[3] == pytest.approx(np.mean([1, 2, 3, 4]))
    assert np.isfinite(found).all()


def test_ridge_predicts_rows_without_an_outcome():
    found = ridge_out_of_group([[1], [2], [3], [4]], [1, 2, 3, None], [0, 1, 2, 3], alpha=0)
    assert found[3] == pytest.approx(4)
    nothing = ridge_out_of_group([[1], [2]], [1, None], [0, 1])
    assert np.isnan(nothing).all()


@pytest.mark.parametrize("k", [2, 5])
def test_folds_keep_groups_whole_and_even(k):
    groups = np.random.default_rng(0).integers(0, 40, size=400)
    folds = kfold_groups(groups, k, seed=3)
    assert all(np.unique(folds[groups == g]).size == 1 for g in range(40))
    sizes = np.bincount(folds, minlength=k)
    assert sizes.max() - sizes.min() <= np.bincount(groups).max()
    assert (folds == kfold_groups(groups, k, seed=3)).all()
    assert (folds != kfold_groups(groups, k, seed=4)).any()


def test_folds_of_plain_rows():
    assert np.bincount(kfold_groups(11, 3)).tolist() == [4, 4, 3]
    with pytest.raises(UsageError, match="choose 2 to 3"):
        kfold_groups([1, 1, 2, 3], 4)


def test_calibration_bins_are_even_and_never_split_ties():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 100))
    bins = calibration(x, y, bins=5)
    assert [b.y.n for b in bins] == [20] * 5
    assert np.mean([b.y.value for b in bins]) == pytest.approx(y.mean())
    assert [b.x for b in bins] == sorted(b.x for b in bins)
    assert all(b.y.low < b.y.value < b.y.high for b in bins)
    coarse = calibration(np.repeat([1.0, 2.0, 3.0], [50, 30, 20]), y, bins=10)
    assert [b.x for b in coarse] == [1, 2, 3]
    assert [b.y.n for b in coarse] == [50, 30, 20]


def test_calibration_of_little():
    assert calibration([], []) == []
    (only,) = calibration([1], [2])
    assert (only.y.value, only.y.low, only.y.reason) == (2, None, "n < 2")
    with pytest.raises(UsageError):
        calibration([1], [2], bins=0)


def test_isotonic_is_scikit_learns():
    rng = np.random.default_rng(3)
    x = np.round(rng.normal(size=80), 1)
    y = x + rng.normal(size=80)
    levels, fitted = isotonic(x, y)
    assert fitted == pytest.approx(IsotonicRegression().fit(x, y).predict(levels), abs=1e-9)
    assert isotonic([], [])[0].size == 0
