"""Classification by scores: AUC and thresholds.

A class is a label such as 0, 1, 2, or a half of the ratings where they take many values. `bootstrap_aucs`
measures how well a score separates the upper classes from the lower ones over all thresholds;
`best_threshold` chooses one. The accuracy on the dialogues that chose it is optimistic, so
`held_out_threshold` measures it on held-out ones. Accuracy is balanced: the mean recall of the two classes,
so that a constant answer gets .5.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from dialeval.errors import UsageError
from dialeval.statistics.correlation import auc
from dialeval.statistics.estimate import (
    Booleans,
    Estimate,
    Floats,
    Integers,
    Matrix,
    Places,
    Vector,
    clusters_of,
    constant,
    matrix,
    vector,
)
from dialeval.statistics.regression import kfold_groups
from dialeval.statistics.resampling import (
    FEWEST_CLUSTERS,
    Draws,
    Resampling,
    resampled,
    with_interval,
    with_intervals,
)
from dialeval.statistics.weighted import Kernel, Order


def upper_half(values: Vector) -> Floats:
    """Return 1 for values in the upper half, 0 for the lower, NaN for missing ones.

    A value at the median is upper, unless nothing lies below it: then only what is above the median is.

    >>> upper_half([1, 2, 3, 4, None]).tolist(), upper_half([1, 1, 1, 2]).tolist()
    ([0.0, 0.0, 1.0, 1.0, nan], [0.0, 0.0, 0.0, 1.0])
    """
    data = vector(values)
    present = data[~np.isnan(data)]
    if present.size == 0:
        return data
    middle = np.median(present)
    upper = data > middle if present.min() == middle else data >= middle
    return np.where(np.isnan(data), np.nan, upper)


def middle_cut(labels: Vector) -> float | None:
    """Return the lowest upper label: the first at or above the middle of the range.

    `None` if all labels are the same.

    >>> middle_cut([0, 1]), middle_cut([0, 1, 2, 2]), middle_cut([1, 2, 3, 4]), middle_cut([3, 3])
    (1.0, 1.0, 3.0, None)
    """
    data = vector(labels)
    names = np.unique(data[~np.isnan(data)])
    return float(names[names >= (names[0] + names[-1]) / 2][0]) if names.size > 1 else None


def bootstrap_aucs(
    columns: Matrix, upper: Vector, clusters: Vector | None = None, **draws: Unpack[Draws]
) -> list[Estimate]:
    """Return the AUC of many sources, with intervals by resampling whole clusters.

    Args:
        columns: Sources x items, NaN where a source did not score an item.
        upper: 1 (or `True`) for items of the upper classes, 0 for the others; items without it are dropped.
        clusters: Which dialogue each item belongs to.

    Returns:
        One estimate per source. `p` is Mann-Whitney's where rows stand alone; with clusters of more than one
        row it is a t-test of AUC = .5 on the jackknife over clusters.

    >>> estimate = bootstrap_aucs([[1, 2, 4, 3, 6, 5, 7]], [0, 0, 0, 1, 1, 1, 1], resamples=500)[0]
    >>> round(estimate.value, 3), estimate.n, estimate.low < estimate.value <= estimate.high
    (0.917, 7, True)
    """
    data, classes = matrix(columns), vector(upper)
    if data.shape[1] != classes.size:
        raise UsageError(f"columns of length {data.shape[1]} beside {classes.size} labels")
    labelled = ~np.isnan(classes)
    codes, count = clusters_of(clusters, classes.size, labelled)
    data, classes = data[:, labelled], classes[labelled]
    points = [auc(row, classes) for row in data]
    return with_intervals([points], lambda: [_auc_kernel(data, classes)], data, codes, count, draws, 0.5)[0]


def _auc_kernel(columns: Floats, classes: Floats) -> Kernel:
    """Return the AUC of each row of `columns` as a function of weights."""
    forms = [_auc_form(row, classes == classes.max()) for row in columns]
    return lambda weights: np.stack([form(weights) for form in forms])


def _auc_form(values: Floats, upper: Booleans) -> Callable[[Integers], Floats]:
    """Return AUC as a function of weights: rows are sorted once, ties counted group by group."""
    rows = np.flatnonzero(~np.isnan(values))
    if rows.size == 0:
        return lambda weights: np.full(len(weights), np.nan)
    order, positive = Order.of(values[rows]), upper[rows]

    def of(weights: Integers) -> Floats:
        drawn = weights.take(rows, axis=1)
        high, low = (order.totals(drawn * side).astype(np.float64) for side in (positive, ~positive))
        below = np.cumsum(low, axis=1) - low / 2
        pairs = high.sum(axis=1) * low.sum(axis=1)
        wins: Floats = np.sum(high * below, axis=1) / np.where(pairs > 0, pairs, np.nan)
        return wins

    return of


FOLDS = 10


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold between lower and upper classes, and its accuracy.

    Attributes:
        value: The best threshold on all items: scores at or above it are upper.
        fitted: Balanced accuracy on the items it was chosen on, which is optimistic.
        accuracy: Held-out balanced accuracy, .5 being chance; the interval takes the thresholds of the folds
            as given.
        lowest, highest: The range of thresholds over the folds.
        folds: Number of folds.
    """

    value: float | None
    fitted: float | None
    accuracy: Estimate
    lowest: float | None = None
    highest: float | None = None
    folds: int = 0


def best_threshold(scores: Vector, upper: Vector) -> tuple[float, float] | None:
    """Return the threshold with the best balanced accuracy, and that accuracy.

    `None` for one class or constant scores. Thresholds lie midway between neighbouring scores; of several
    equally good ones the middle one is taken.

    >>> best_threshold([1, 2, 3, 4], [0, 0, 1, 1])
    (2.5, 1.0)
    """
    values, classes = vector(scores), vector(upper)
    complete = ~(np.isnan(values) | np.isnan(classes))
    values, positive = values[complete], classes[complete] > 0
    if constant(values) or constant(positive.astype(np.float64)):
        return None
    levels, level_of = np.unique(values, return_inverse=True)
    caught = np.cumsum(np.bincount(level_of, positive, levels.size)[::-1])[::-1] / positive.sum()
    kept_out = np.cumsum(np.bincount(level_of, ~positive, levels.size)) / (~positive).sum()
    accuracy = (caught[1:] + kept_out[:-1]) / 2
    best = np.flatnonzero(accuracy >= accuracy.max() - 1e-12)
    at = int(best[(best.size - 1) // 2])
    line = levels[at] + (levels[at + 1] - levels[at]) / 2
    return float(line), float(accuracy[at])


def held_out_threshold(
    scores: Vector,
    upper: Vector,
    clusters: Vector | None = None,
    *,
    folds: int = FOLDS,
    **draws: Unpack[Draws],
) -> Threshold:
    """Return the best threshold with its cross-validated accuracy.

    For each fold of dialogues the threshold is chosen on all others; the balanced accuracy is that of the
    predictions of all folds together.

    Args:
        scores: Higher is better; negate a source of which lower is.
        upper: 1 for items of the upper classes, 0 for the others.
        clusters: Which dialogue each item belongs to; a dialogue is never split.
        folds: Number of folds; fewer if there are fewer dialogues.
        **draws: See `Resampling`; the seed also chooses the folds.

    >>> best = held_out_threshold(range(12), [0] * 6 + [1] * 6, folds=3, resamples=100)
    >>> best.value, best.fitted, round(best.accuracy.value, 3)
    (5.5, 1.0, 0.833)
    """
    values, classes = vector(scores), vector(upper)
    if values.size != classes.size:
        raise UsageError(f"{values.size} scores beside {classes.size} labels")
    complete = ~(np.isnan(values) | np.isnan(classes))
    codes, count = clusters_of(clusters, values.size, complete)
    values, positive = values[complete], classes[complete] > 0
    best = best_threshold(values, positive)
    if best is None:
        reason = "no values" if not values.size else "constant" if constant(values) else "one class"
        return Threshold(None, None, Estimate.undefined(reason, values.size))
    if count < 2:
        return Threshold(*best, Estimate.undefined("one dialogue: none held out", values.size))
    resampling = Resampling(**draws)
    parts = kfold_groups(codes, min(folds, count), resampling.seed)
    answers, lines = _held_out_answers(values, positive, parts)
    judged = ~np.isnan(answers)
    right = (answers[judged] > 0) == positive[judged]
    accuracy = _balanced(right, positive[judged], codes[judged], resampling)
    lowest, highest = (min(lines), max(lines)) if lines else (None, None)
    return Threshold(best[0], best[1], accuracy, lowest, highest, len(lines))


def _held_out_answers(values: Floats, positive: Booleans, parts: Places) -> tuple[Floats, list[float]]:
    """Return the prediction for every item by the threshold of the other folds, and the thresholds."""
    answers, lines = np.full(values.size, np.nan), []
    for part in np.unique(parts):
        here = parts == part
        threshold = best_threshold(values[~here], positive[~here])
        if threshold is not None:
            answers[here] = values[here] >= threshold[0]
            lines.append(threshold[0])
    return answers, lines


def _balanced(right: Booleans, positive: Booleans, codes: Places, resampling: Resampling) -> Estimate:
    """Return the mean recall of the two classes, with an interval by resampling clusters."""
    if not right.size or constant(positive.astype(np.float64)):
        return Estimate.undefined("one class in the held-out dialogues", right.size)
    codes, count = clusters_of(codes, right.size)
    masks = (positive, ~positive, positive & right, ~positive & right)
    sums = np.stack([np.bincount(codes, mask, count) for mask in masks], axis=1)

    def figures(counts: Integers) -> Floats:
        many, few, hit, kept_out = (counts.astype(np.float64) @ sums).T
        return np.asarray((hit / many + kept_out / few) / 2)  # NaN for a draw without one of the classes

    point = Estimate(float((right[positive].mean() + right[~positive].mean()) / 2), right.size)
    if count < FEWEST_CLUSTERS:
        return replace(point, reason=f"no interval from fewer than {FEWEST_CLUSTERS}")
    return with_interval(point, *resampled(figures, count, resampling), resampling.confidence)
