"""Least squares, ridge regression out of group, calibration, isotonic regression, and blending weights.

`ridge_out_of_group` combines several sources into one; no dialogue (or system, or data set) helps to predict
itself. `blend_weights` fits the weights of a sum of parts by non-negative least squares.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dialeval.errors import UsageError
from dialeval.statistics.correlation import silent
from dialeval.statistics.estimate import (
    Estimate,
    Floats,
    Matrix,
    Places,
    Vector,
    complete,
    constant,
    matrix,
    vector,
)


@dataclass(frozen=True, slots=True)
class Line:
    """A fitted line.

    Attributes:
        coefficients: The intercept and the slope; interval and p by Student's t.
        r_squared: Share of the variance explained; `None` when the outcome is constant.
        n: Complete rows used.
        reason: Why there is no fit.
    """

    coefficients: tuple[Estimate, Estimate]
    r_squared: float | None
    n: int
    reason: str | None = None


def ols(x: Vector, y: Vector, confidence: float = 0.95) -> Line:
    """Return the least-squares fit of `y` on one predictor, with an intercept.

    >>> line = ols([1, 2, 3, 4], [3, 5, 6, 9])
    >>> [round(c.value, 2) for c in line.coefficients], round(line.r_squared, 3)
    ([1.0, 1.9], 0.963)
    """
    predictor, outcome = complete(x, y)
    n = outcome.size
    if n < 3 or constant(predictor):
        reason = "n < 3" if n < 3 else "the predictor is constant"
        return Line((Estimate.undefined(reason, n),) * 2, None, n, reason)
    from scipy import stats

    with silent():
        fit = stats.linregress(predictor, outcome)
    reach = stats.t.ppf((1 + confidence) / 2, n - 2)

    def coefficient(value: float, error: float) -> Estimate:
        p = float(2 * stats.t.sf(abs(value) / error, n - 2)) if error > 0 else None
        return Estimate(float(value), n, float(value - reach * error), float(value + reach * error), p)

    both = coefficient(fit.intercept, fit.intercept_stderr), coefficient(fit.slope, fit.stderr)
    return Line(both, None if constant(outcome) else float(fit.rvalue**2), n)


def ridge_out_of_group(features: Matrix, y: Vector, groups: Vector, alpha: float = 1.0) -> Floats:
    """Predict each row from a ridge regression fitted on all other groups.

    Means, scales and the fill for missing features come from the training part of each fold alone. Rows
    without an outcome are predicted but never fitted.

    Args:
        features: Rows x features, NaN where missing.
        y: Outcome per row, NaN where unknown.
        groups: One label per row: leave one group out, or the folds of `kfold_groups`.
        alpha: Strength of the penalty on standardised features.

    Returns:
        A prediction per row; NaN (missing) where fewer than two outcomes were left to learn from.

    >>> ridge_out_of_group([[1], [2], [3], [4]], [2, 4, 6, 8], [0, 0, 1, 1], alpha=0).round(6).tolist()
    [2.0, 4.0, 6.0, 8.0]
    """
    table, outcome, labels = matrix(features), vector(y), np.asarray(groups)
    if not len(table) == outcome.size == labels.size:
        raise UsageError(f"{len(table)} rows of features, {outcome.size} outcomes, {labels.size} groups")
    if alpha < 0:
        raise UsageError("alpha must not be negative")
    predicted = np.full(outcome.size, np.nan)
    for label in np.unique(labels):
        test = labels == label
        train = ~test & ~np.isnan(outcome)
        if train.sum() >= 2:
            predicted[test] = _ridge(table[train], outcome[train], table[test], alpha)
    return predicted


def _ridge(train: Floats, outcome: Floats, test: Floats, alpha: float) -> Floats:
    present = ~np.isnan(train)
    mean = np.nansum(train, axis=0) / np.maximum(present.sum(axis=0), 1)
    filled = np.where(present, train, mean) - mean
    scale = np.sqrt(np.mean(filled**2, axis=0))
    scale[scale <= 1e-12 * np.maximum(1.0, np.abs(mean))] = np.inf  # a constant feature says nothing
    standardised = filled / scale
    unknown = np.where(np.isnan(test), 0.0, test - mean) / scale
    gram = standardised.T @ standardised + alpha * np.eye(standardised.shape[1])
    weights = np.linalg.lstsq(gram, standardised.T @ (outcome - outcome.mean()), rcond=None)[0]
    predicted: Floats = outcome.mean() + unknown @ weights
    return predicted


def kfold_groups(groups: int | Vector, k: int, seed: int = 0) -> Places:
    """Return a fold number per row, with groups kept whole and folds of nearly equal size.

    Args:
        groups: A label per row, or the number of rows if each is its own group.
        k: Number of folds; no more than there are groups.

    >>> sorted(kfold_groups(6, 3).tolist())
    [0, 0, 1, 1, 2, 2]
    """
    labels = np.arange(groups) if isinstance(groups, int) else np.asarray(groups)
    _, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if not 2 <= k <= sizes.size:
        raise UsageError(f"{k} folds of {sizes.size} groups; choose 2 to {sizes.size}")
    fold_of_group = np.empty(sizes.size, dtype=np.intp)
    filled = np.zeros(k)
    shuffled = np.random.default_rng(seed).permutation(sizes.size)
    for group in sorted(shuffled.tolist(), key=lambda g: -sizes[g]):
        fold = int(np.argmin(filled))
        fold_of_group[group] = fold
        filled[fold] += sizes[group]
    return fold_of_group[codes]


@dataclass(frozen=True, slots=True)
class Bin:
    """One bin of a calibration curve: the mean of x, and the mean of y with its interval."""

    x: float
    y: Estimate


def calibration(x: Vector, y: Vector, bins: int = 10, confidence: float = 0.95) -> list[Bin]:
    """Return the calibration curve: the mean rating in bins of equally many items, lowest scores first.

    Equal scores never fall into different bins, so there may be fewer bins than asked for. Intervals are
    Student's t within a bin.

    >>> [(b.x, b.y.value, b.y.n) for b in calibration([1, 2, 3, 4], [0, 1, 1, 2], bins=2)]
    [(1.5, 0.5, 2), (3.5, 1.5, 2)]
    """
    if bins < 1:
        raise UsageError("bins must be at least 1")
    scores, ratings = complete(x, y)
    if scores.size == 0:
        return []
    from scipy import stats

    # A tie group goes where its mean rank falls.
    bin_of = np.minimum((stats.rankdata(scores) - 0.5) * bins / scores.size, bins - 1e-9).astype(np.intp)
    return [
        Bin(float(scores[bin_of == b].mean()), _mean_t(ratings[bin_of == b], confidence))
        for b in np.unique(bin_of)
    ]


def _mean_t(values: Floats, confidence: float) -> Estimate:
    mean, n = float(values.mean()), values.size
    if n < 2:
        return Estimate(mean, n, reason="n < 2")
    from scipy import special

    reach = float(special.stdtrit(n - 1, (1 + confidence) / 2) * values.std(ddof=1) / np.sqrt(n))
    return Estimate(mean, n, mean - reach, mean + reach)


def isotonic(x: Vector, y: Vector) -> tuple[Floats, Floats]:
    """Return the isotonic regression of ratings on scores: distinct scores and the fitted rating at each.

    >>> [v.tolist() for v in isotonic([1, 2, 3, 4], [1, 3, 2, 4])]
    [[1.0, 2.0, 3.0, 4.0], [1.0, 2.5, 2.5, 4.0]]
    """
    scores, ratings = complete(x, y)
    if scores.size == 0:
        return scores, ratings
    from scipy import optimize

    levels, level_of, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    means = np.bincount(level_of, ratings) / sizes
    fitted: Floats = optimize.isotonic_regression(means, weights=sizes.astype(np.float64)).x
    return levels, fitted


def blend_weights(
    sets: Sequence[tuple[Floats, Floats, Floats]], prior: Floats, *, penalty: float = 20.0
) -> Floats:
    """Return non-negative weights of the columns of several tables for each kind of row, fitted to targets.

    A row belongs to several kinds by shares: its prediction is the weighted mean of the kinds' predictions.
    All tables have the same weight, whatever their length, and are centred, so that a set with lenient raters
    does not shift the weights. Two ridge penalties of the same strength apply to the deviation from the
    prior: its mean over the kinds is shrunk to zero, and that of each kind to this mean. So a kind with
    little data follows its prior and the other kinds.

    Args:
        sets: For each table its rows of parts, standardised, the targets, standardised in each table, and the
            share of each kind in each row.
        prior: Prior weights, a row for each kind; a negative one fixes the weight at zero.
        penalty: Strength of the ridge penalties relative to the mean squared errors of the tables.

    >>> rows = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
    >>> table = (rows, np.array([-1.3, -0.4, 0.4, 1.3]), np.ones((4, 1)))
    >>> blend_weights([table], np.array([[0.1, 0.1]]), penalty=0.01).round(2)
    array([[0.85, 0.  ]])
    """
    from scipy.optimize import nnls

    if not sets:
        raise UsageError("weights need at least one table with ratings")
    kinds, width = prior.shape
    free, lean = (prior >= 0).ravel(), np.maximum(prior, 0.0).ravel()
    mean = np.kron(np.full((1, kinds), 1.0 / kinds), np.eye(width))
    apart = np.eye(kinds * width) - np.kron(np.full((kinds, kinds), 1.0 / kinds), np.eye(width))
    left = [np.sqrt(penalty) * mean, np.sqrt(penalty / kinds) * apart]
    right = [block @ lean for block in left]
    for rows, targets, shares in sets:
        features = (shares[:, :, None] * rows[:, None, :]).reshape(len(rows), kinds * width)
        size = len(targets) ** -0.5
        left.append(size * (features - features.mean(axis=0)))
        right.append(size * (targets - targets.mean()))
    weights = np.zeros(kinds * width)
    weights[free], _ = nnls(np.concatenate(left)[:, free], np.concatenate(right))
    return weights.reshape(kinds, width)
