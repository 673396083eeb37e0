"""Where to draw the line between lower and upper classes, and how good a line is.

A line that was chosen on the dialogues it is judged on flatters itself, so `held_out_threshold` measures its
accuracy on others. Accuracy is balanced: the mean of the shares of right answers in the two classes, so that
always giving the commoner answer is worth .5 and no more.
"""

from dataclasses import dataclass

import numpy as np

from dialeval.errors import UsageError
from dialeval.statistics.classification import resampled
from dialeval.statistics.estimate import (
    Booleans,
    Estimate,
    Floats,
    Integers,
    Places,
    Vector,
    clusters_of,
    constant,
    vector,
)
from dialeval.statistics.regression import kfold_groups
from dialeval.statistics.resampling import FEWEST_CLUSTERS, RESAMPLES, interval

FOLDS = 10


@dataclass(frozen=True, slots=True)
class Threshold:
    """A line between lower and upper, and how good it is.

    Attributes:
        value: The line that is best on all items: upper is what scores at or above it.
        fitted: Balanced accuracy of that line on the very items it was chosen on: flattering.
        accuracy: Balanced accuracy on dialogues that did not choose the line, .5 being chance; the interval
            is for the lines as they were drawn.
        lowest, highest: The range of the lines drawn on parts of the dialogues; wide is unsteady.
        folds: How many parts there were.
    """

    value: float | None
    fitted: float | None
    accuracy: Estimate
    lowest: float | None = None
    highest: float | None = None
    folds: int = 0


def best_threshold(scores: Vector, upper: Vector) -> tuple[float, float] | None:
    """The line with the best balanced accuracy, and that accuracy; `None` of one class or constant scores.

    Lines lie midway between neighbouring scores; of several equally good ones the middle one is taken.

    >>> best_threshold([1, 2, 3, 4], [0, 0, 1, 1])
    (2.5, 1.0)
    """
    values, classes = vector(scores), vector(upper)
    known = ~(np.isnan(values) | np.isnan(classes))
    values, positive = values[known], classes[known] > 0
    if constant(values) or constant(positive.astype(np.float64)):
        return None
    levels, place = np.unique(values, return_inverse=True)
    caught = np.cumsum(np.bincount(place, positive, levels.size)[::-1])[::-1] / positive.sum()
    kept_out = np.cumsum(np.bincount(place, ~positive, levels.size)) / (~positive).sum()
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
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = 0,
    workers: int = 1,
) -> Threshold:
    """Draw the best line, and measure how good such a line is on dialogues that did not choose it.

    The dialogues are dealt into folds. For each fold the line is drawn on all others, and what it says of the
    fold is kept; the balanced accuracy is that of all answers together.

    Args:
        scores: Higher is better; turn the sign of a source of which lower is.
        upper: 1 for items of the upper classes, 0 for the others.
        clusters: Which dialogue each item belongs to: a dialogue is never on both sides.
        folds: How many parts; fewer if there are fewer dialogues.
        resamples: Draws for the interval.
        confidence: Probability the interval is built for.
        seed: Which dialogues go together, and the draws.
        workers: Threads.

    >>> found = held_out_threshold(range(12), [0] * 6 + [1] * 6, folds=3, resamples=100)
    >>> found.value, found.fitted, round(found.accuracy.value, 3)
    (5.5, 1.0, 0.833)
    """
    values, classes = vector(scores), vector(upper)
    if values.size != classes.size:
        raise UsageError(f"{values.size} scores beside {classes.size} labels")
    places, _ = clusters_of(clusters, values.size)
    known = ~(np.isnan(values) | np.isnan(classes))
    values, positive = values[known], classes[known] > 0
    places, count = clusters_of(places[known], values.size)
    whole = best_threshold(values, positive)
    if whole is None:
        reason = "no values" if not values.size else "constant" if constant(values) else "one class"
        return Threshold(None, None, Estimate.undefined(reason, values.size))
    if count < 2:
        return Threshold(*whole, Estimate.undefined("one dialogue: none to measure on", values.size))
    parts = kfold_groups(places, min(folds, count), seed)
    answers, lines = _held_out_answers(values, positive, parts)
    judged = ~np.isnan(answers)
    right = (answers[judged] > 0) == positive[judged]
    accuracy = _balanced(right, positive[judged], places[judged], resamples, confidence, seed, workers)
    lowest, highest = (min(lines), max(lines)) if lines else (None, None)
    return Threshold(whole[0], whole[1], accuracy, lowest, highest, len(lines))


def _held_out_answers(values: Floats, positive: Booleans, parts: Places) -> tuple[Floats, list[float]]:
    """The answer for every item by the line of the other folds (NaN if they draw none), and the lines."""
    answers, lines = np.full(values.size, np.nan), []
    for part in np.unique(parts):
        here = parts == part
        found = best_threshold(values[~here], positive[~here])
        if found is not None:
            answers[here] = values[here] >= found[0]
            lines.append(found[0])
    return answers, lines


def _balanced(
    right: Booleans,
    positive: Booleans,
    places: Places,
    resamples: int,
    confidence: float,
    seed: int,
    workers: int,
) -> Estimate:
    """Mean share of right answers over the two classes, with an interval by resampling clusters."""
    if not right.size or constant(positive.astype(np.float64)):
        return Estimate.undefined("one class in the dialogues without it", right.size)
    places, count = clusters_of(places, right.size)
    masks = (positive, ~positive, positive & right, ~positive & right)
    sums = np.stack([np.bincount(places, mask, count) for mask in masks], axis=1)

    def figures(counts: Integers) -> Floats:
        many, few, hit, kept_out = (counts.astype(np.float64) @ sums).T
        with np.errstate(invalid="ignore"):  # NaN for a draw without one of the classes
            return np.asarray((hit / many + kept_out / few) / 2)

    value = float((right[positive].mean() + right[~positive].mean()) / 2)
    if count < FEWEST_CLUSTERS:
        return Estimate(value, right.size, reason=f"no interval from fewer than {FEWEST_CLUSTERS}")
    draws, left_out = resampled(figures, count, resamples, seed, workers)
    low, high, reason = interval(value, draws, left_out, confidence)
    return Estimate(value, right.size, low, high, reason=reason)
