"""Correlations of two columns of numbers, AUC, and distributions per class.

*Pearson* measures a linear relation, *Spearman* a linear relation of ranks, *Kendall* (tau-b) pairs in the
same order. Metrics have arbitrary scales and people use few steps, so rank correlations are more robust;
Pearson shows whether a metric could be read as a rating. Values and p-values are scipy's.

Missing values are deleted pairwise; `n` is the number of complete pairs.
"""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from dialeval.errors import UsageError
from dialeval.statistics.estimate import (
    Estimate,
    Floats,
    Matrix,
    Vector,
    complete,
    constant,
    matrix,
    number,
    vector,
)

METHODS = ("pearson", "spearman", "kendall")
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def pearson(x: Vector, y: Vector) -> Estimate:
    """Return Pearson's linear correlation.

    >>> round(pearson([1, 2, 3, 4], [1, 3, 2, 4]).value, 3)
    0.8
    >>> pearson([1, 1, 1], [1, 2, 3]).reason
    'constant'
    """
    return correlate(x, y, "pearson")


def spearman(x: Vector, y: Vector) -> Estimate:
    """Return Spearman's rank correlation, ties at their mean rank.

    >>> round(spearman([1, 2, 3, 4], [1, 2, 2, 9]).value, 4)
    0.9487
    """
    return correlate(x, y, "spearman")


def kendall(x: Vector, y: Vector) -> Estimate:
    """Return Kendall's tau-b: concordant minus discordant pairs, corrected for ties on either side.

    >>> round(kendall([1, 2, 3, 4], [1, 3, 2, 4]).value, 4)
    0.6667
    """
    return correlate(x, y, "kendall")


def correlate(x: Vector, y: Vector, method: str = "spearman") -> Estimate:
    """Return one of the correlations in `METHODS`, with its two-sided p-value.

    Undefined below three pairs and when either side is constant.
    """
    check_method(method)
    left, right = complete(x, y)
    if left.size < 3:
        return Estimate.undefined("n < 3", left.size)
    if constant(left) or constant(right):
        return Estimate.undefined("constant", left.size)
    from scipy import stats

    function = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}[method]
    with silent():
        result = function(left, right)
    value = number(result.statistic)
    if value is None:
        return Estimate.undefined("numerically constant", left.size)
    p = number(result.pvalue)
    if p == 0 and method == "spearman" and left.size < 20:
        p = 2 / math.factorial(left.size)  # scipy's t is infinite for a perfect order; this is exact
    return Estimate(value, left.size, p=p)


def check_method(method: str) -> None:
    """Raise a `UsageError` for an unknown correlation."""
    if method not in METHODS:
        raise UsageError(f"unknown correlation {method!r}; choose one of {', '.join(METHODS)}")


def correlation_matrix(columns: Matrix, method: str = "spearman") -> list[list[Estimate]]:
    """Return the correlations of all pairs of rows of `columns` (sources x items), on the items both scored.

    >>> [[round(e.value, 2) for e in row] for row in correlation_matrix([[1, 2, 3, 4], [4, 3, 1, 2]])]
    [[1.0, -0.8], [-0.8, 1.0]]
    """
    data = matrix(columns)
    upper = {
        (i, j): correlate(data[i], data[j], method) for i in range(len(data)) for j in range(i, len(data))
    }
    return [[upper[min(i, j), max(i, j)] for j in range(len(data))] for i in range(len(data))]


def angle(r: float | None) -> float | None:
    """Return a correlation as an angle in degrees: 0 the same, 90 unrelated, 180 opposite.

    >>> angle(0.0)
    90.0
    """
    return None if r is None else float(np.degrees(np.arccos(np.clip(r, -1.0, 1.0))))


def auc(scores: Vector, labels: Vector) -> Estimate:
    """Return the area under the ROC curve, ties counting half; p by Mann-Whitney.

    `labels` hold two values; the larger one (`True`, 1) is the positive class.

    >>> auc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]).value
    0.75
    """
    values, classes = complete(scores, labels)
    names = np.unique(classes)
    if names.size > 2:
        raise UsageError(f"auc needs two classes, got {names.size}")
    if names.size < 2:
        return Estimate.undefined("one class", values.size)
    from scipy import stats

    positive, negative = values[classes == names[1]], values[classes == names[0]]
    ranks = stats.rankdata(values)
    wins = ranks[classes == names[1]].sum() - positive.size * (positive.size + 1) / 2
    with silent():
        p = (
            1.0
            if constant(values)
            else stats.mannwhitneyu(positive, negative, alternative="two-sided").pvalue
        )
    return Estimate(float(wins / (positive.size * negative.size)), values.size, p=number(p))


@dataclass(frozen=True, slots=True)
class ClassDistribution:
    """The scores of one class of items; `quantiles` are those of `QUANTILES`."""

    label: float
    n: int
    mean: float
    sd: float | None
    quantiles: tuple[float, ...]


def class_distributions(scores: Vector, labels: Vector) -> list[ClassDistribution]:
    """Return the distribution of scores for each label, in the order of the labels.

    >>> [(c.label, c.n, c.mean) for c in class_distributions([1, 2, 3, 6], [0, 0, 1, 1])]
    [(0.0, 2, 1.5), (1.0, 2, 4.5)]
    """
    values, classes = complete(scores, labels)
    return [_distribution(float(label), values[classes == label]) for label in np.unique(classes)]


def _distribution(label: float, values: Floats) -> ClassDistribution:
    sd = float(values.std(ddof=1)) if values.size > 1 else None
    quantiles = tuple(float(q) for q in np.quantile(values, QUANTILES))
    return ClassDistribution(label, values.size, float(values.mean()), sd, quantiles)


def zscore(x: Vector) -> Floats:
    """Return values with mean 0 and standard deviation 1, ignoring missing ones; a constant becomes zeros.

    >>> zscore([1, 2, 3]).round(3).tolist()
    [-1.225, 0.0, 1.225]
    """
    values = vector(x)
    present = values[~np.isnan(values)]
    if constant(present):
        return np.where(np.isnan(values), np.nan, 0.0)
    scaled: Floats = (values - present.mean()) / present.std()
    return scaled


@contextmanager
def silent() -> Iterator[None]:
    """Suppress warnings of a numerical routine whose undefined results are handled."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
