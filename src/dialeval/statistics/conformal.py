"""An interval for one dialogue: between which ratings will it be, if somebody rates it?

Conformal: the errors of held-out predictions on labelled units say how far off the next one will be, with no
assumption but that labelled and new dialogues come from the same place. With several units in a dialogue each
labelled dialogue weighs the same, as the new one is a new dialogue (Lee, Barber and Willett 2023).
"""

import numpy as np

from dialeval.statistics.estimate import Floats, Vector, clusters_of, vector
from dialeval.statistics.prediction_powered import Calibration, calibrated, mean_of, outside


def conformal_intervals(
    labels: Vector,
    scores: Vector,
    clusters: Vector | None = None,
    how: Calibration = "linear",
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[Floats, Floats, float | None]:
    """Predict the rating of every unlabelled unit, with an interval.

    Args:
        labels: What people said, NaN where nobody did.
        scores: What the judge said.
        clusters: Dialogue of each unit.
        how: Calibration of the score to the ratings.
        confidence: Share of intervals that hold the rating.
        seed: Of the folds.

    Returns:
        Low and high of each unit, and half their distance. Both ends are NaN for units that are labelled,
        unscored or beyond the labelled scores, where nothing is known; half the distance is None if there are
        too few labelled dialogues.

    >>> labels = [*range(30), None, None]
    >>> low, high, half = conformal_intervals(labels, [*range(30), 12.5, 40])
    >>> bool(low[30] <= 12.5 <= high[30]), bool(np.isnan(low[31]))
    (True, True)
    """
    given, judged = vector(labels), vector(scores)
    places, _ = clusters_of(clusters, given.size)
    predicted = calibrated(given, judged, places, how, seed=seed)
    known = ~np.isnan(given) & ~np.isnan(judged)
    half = _half_width(np.abs(given - predicted)[known], places[known], confidence)
    beyond, _ = outside(given, judged)
    middle = np.where(known | beyond, np.nan, predicted)
    if half is None:
        return np.full(given.size, np.nan), np.full(given.size, np.nan), None
    return middle - half, middle + half, half


def _half_width(errors: Floats, places: Vector, confidence: float) -> float | None:
    """The error that a new dialogue exceeds with the probability that is left.

    The new one takes a place among those it is compared with, and these are as many as the labelled units
    would be if they stood alone.
    """
    place, count = clusters_of(places, errors.size)
    alone, together = mean_of(errors).error, mean_of(errors, place).error
    n = errors.size if together == 0 else errors.size * min(1.0, (alone / together) ** 2)
    n = max(float(count), n)
    weights = 1 / (np.bincount(place)[place] * count)
    order = np.argsort(errors)
    reached = np.cumsum(weights[order]) >= confidence * (n + 1) / n - 1e-9
    return float(errors[order][reached.argmax()]) if reached.any() else None
