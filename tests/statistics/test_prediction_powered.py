"""Prediction-powered means against ppi-python, calibration against scikit-learn, the rest by hand."""

import numpy as np
import ppi_py
import pytest
from scipy import stats
from sklearn.isotonic import IsotonicRegression

from dialeval.errors import UsageError
from dialeval.statistics.prediction_powered import (
    calibrated,
    conformal_intervals,
    corrected_rate,
    mean_of,
    outside,
    prediction_powered,
    worth_in_labels,
)


def sample(seed: int, n: int = 60, rest: int = 900) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels (NaN for most), scores, and all the ratings that the labels come from."""
    rng = np.random.default_rng(seed)
    ratings = rng.normal(3, 1, n + rest)
    scores = 0.6 * ratings + rng.normal(0, 0.5, n + rest)
    return np.where(np.arange(n + rest) < n, ratings, np.nan), scores, ratings


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0, 1.4])
@pytest.mark.parametrize("seed", range(3))
def test_value_and_error_are_those_of_ppi_python(seed: int, weight: float) -> None:
    labels, scores, _ = sample(seed)
    known = ~np.isnan(labels)
    given = labels[known], scores[known], scores[~known]
    found = prediction_powered(labels, scores, weight=weight)
    low, high = (float(np.ravel(end)[0]) for end in ppi_py.ppi_mean_ci(*given, alpha=0.05, lam=weight))
    z = stats.norm.isf(0.025)
    assert found.value == pytest.approx((low + high) / 2, abs=1e-6)
    assert found.error == pytest.approx((high - low) / 2 / z, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_the_tuned_weight_is_near_that_of_ppi_python_and_no_worse(seed: int) -> None:
    labels, scores, _ = sample(seed, n=400, rest=4_000)
    known = ~np.isnan(labels)
    given = labels[known], scores[known], scores[~known]
    theirs = float(np.ravel(ppi_py.ppi_mean_pointestimate(*given))[0])
    found = prediction_powered(labels, scores)
    assert found.value == pytest.approx(theirs, abs=0.01)
    for other in (found.weight * 0.8, found.weight * 1.2):
        assert found.error <= prediction_powered(labels, scores, weight=other).error * 1.005


def test_a_perfect_judge_leaves_only_the_unlabelled_to_chance() -> None:
    labels, _, ratings = sample(0, n=200, rest=20_000)
    found = prediction_powered(labels, ratings)
    assert found.estimate().value == pytest.approx(ratings.mean(), abs=0.01)
    assert worth_in_labels(mean_of(labels), found) > 5_000


def test_a_constant_judge_gives_labels_only() -> None:
    labels, _, _ = sample(1)
    assert prediction_powered(labels, np.ones(labels.size)).estimate() == mean_of(labels).estimate()


def test_clusters_widen_and_singles_are_students_t() -> None:
    values = np.repeat([1.0, 2.0, 4.0, 3.0, 5.0], 6)
    alone, together = mean_of(values).estimate(), mean_of(values, np.repeat(np.arange(5), 6)).estimate()
    low, high = stats.t.interval(0.95, values.size - 1, values.mean(), stats.sem(values))
    assert (alone.low, alone.high) == pytest.approx((low, high))
    low, high = stats.t.interval(0.95, 4, 3.0, stats.sem([1, 2, 4, 3, 5]))
    assert (together.low, together.high) == pytest.approx((low, high))


def test_differences_are_paired_by_cluster() -> None:
    first, second = np.array([3.0, 4, 5, 6, 4]), np.array([2.0, 3.5, 4, 4, 3])
    values, items = np.concatenate([first, second]), np.tile(np.arange(5), 2)
    side = np.arange(10) < 5
    a, b = (mean_of(np.where(own, values, np.nan), items) for own in (side, ~side))
    found, expected = (a - b).estimate(), stats.ttest_rel(first, second)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval()))


def test_calibration_is_the_isotonic_fit_of_the_other_folds() -> None:
    labels, scores, _ = sample(3, n=40, rest=100)
    made, known = calibrated(labels, scores, folds=40), ~np.isnan(labels)
    place = 7
    fit = known & (np.arange(labels.size) != place)
    model = IsotonicRegression(out_of_bounds="clip").fit(scores[fit], labels[fit])
    assert made[place] == pytest.approx(model.predict(scores[[place]])[0])
    assert np.isfinite(made).all()


def test_corrected_rate_by_hand() -> None:
    labels = [1] * 20 + [0] * 20 + [None] * 60
    verdicts = [1] * 16 + [0] * 4 + [1] * 6 + [0] * 14 + [1] * 30 + [0] * 30
    found = corrected_rate(labels, verdicts)
    assert found.value == pytest.approx((0.52 + 0.7 - 1) / (0.8 + 0.7 - 1))


@pytest.mark.parametrize(
    ("labels", "verdicts", "reason"),
    [
        ([1] * 9 + [None], [1] * 10, "only 0 of one kind"),
        ([1, 0] * 10, [1, 1, 0, 0] * 5, "no correction is possible"),
    ],
)
def test_corrected_rate_says_why_not(labels: list, verdicts: list, reason: str) -> None:
    assert reason in corrected_rate(labels, verdicts)


def test_scores_far_from_the_labelled_are_more_than_chance() -> None:
    labels = np.array([*range(30), *[np.nan] * 30])
    near, far = (
        np.concatenate([np.arange(30), np.arange(30)]),
        np.concatenate([np.arange(30), np.arange(25, 55)]),
    )
    assert not outside(labels, near)[0].any()
    beyond, refused = outside(labels, far)
    assert (beyond.sum(), refused) == (25, True)


def test_nothing_to_go_on_is_said() -> None:
    with pytest.raises(UsageError, match="both a label and a score"):
        prediction_powered([1, np.nan], [np.nan, 2])
    with pytest.raises(UsageError, match="at least one value"):
        mean_of([np.nan])
    with pytest.raises(UsageError, match="at least two clusters"):
        calibrated([1, 2, np.nan], [1, 2, 3], [0, 0, 1])


def test_conformal_width_is_the_rank_of_the_held_out_errors() -> None:
    labels, scores, ratings = sample(5, n=99, rest=2_000)
    low, high, half = conformal_intervals(labels, scores)
    errors = np.sort(np.abs(labels - calibrated(labels, scores, method="linear"))[:99])
    assert half == pytest.approx(errors[94])  # 95 of 100 places, the new one among them
    rest = ~np.isnan(low)
    assert 0.9 < np.mean((low <= ratings) & (ratings <= high), where=rest) < 0.99
    assert np.isnan(low[:99]).all()


def test_conformal_needs_enough_dialogues() -> None:
    labels, scores, _ = sample(5, n=15)
    assert conformal_intervals(labels, scores)[2] is None
    assert conformal_intervals(labels, scores, confidence=0.9)[2] is not None
