"""A mean of ratings over everything, from few labels and many scores.

People rated some units, a judge scored all of them. The mean of the scores alone is as wrong as the judge is;
the mean of the ratings alone throws the scores away. *Prediction-powered inference* (Angelopoulos, Duchi and
Zrnic 2023, "PPI++") takes the scores and corrects them by what the labelled units say about their error:

    mean of labels + weight · (mean score of the unlabelled - mean score of the labelled)

The weight is tuned to the smallest variance: a judge that knows nothing gets weight 0 and costs nothing.
Labels must be a random sample of the units; nothing is assumed about the judge.

All figures here are sums over clusters (dialogues, or whatever shares a context), up to first order. Each
keeps those sums, so that the difference of two figures is the difference of their sums, paired as far as they
share clusters. With every unit a cluster of its own and a given weight, value and error are those of
`ppi-python`, which knows no clusters and compiles itself at run time (numba): it is the oracle in the tests.

`conformal_intervals` is about one dialogue: between which ratings will it be, if somebody rates it? The
errors of held-out predictions on labelled units say how far off the next one will be, with no assumption but
that labelled and new dialogues come from the same place. With several units in a dialogue each labelled
dialogue weighs the same, as the new one is a new dialogue (Lee, Barber and Willett 2023).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dialeval.errors import UsageError
from dialeval.statistics.estimate import (
    Booleans,
    Estimate,
    Floats,
    Places,
    Vector,
    clusters_of,
    constant,
    vector,
)
from dialeval.statistics.regression import isotonic, kfold_groups

Calibration = Literal["linear", "isotonic"]
FEWEST = 10  # labelled clusters; of fewer, Student's t says more than the data
FEWEST_OF_A_CLASS = 5  # labelled units that a share is taken of
CHANCE = 0.01  # of so many scores beyond the labelled ones, if labels were drawn at random


@dataclass(frozen=True, slots=True)
class ClusteredFigure:
    """A figure with what each cluster adds to its error.

    Attributes:
        value: The figure.
        pulls: For every cluster (labelled or not) its share of the error, to first order; they add up to 0.
        n: Labels it stands on.
        df: Degrees of freedom: clusters with a label, less what was fitted to them.
        weight: How much of a score counts, for prediction-powered figures.
        rate: Whether it is the share of a yes among labels of yes and no.
    """

    value: float
    pulls: Floats
    n: int
    df: int
    weight: float | None = None
    rate: bool = False

    @property
    def error(self) -> float:
        """The standard error, without a correction for few clusters."""
        return float(np.sqrt(np.sum(self.pulls**2)))

    def __sub__(self, other: "ClusteredFigure") -> "ClusteredFigure":
        """Difference of two figures over the same clusters."""
        return ClusteredFigure(
            self.value - other.value, self.pulls - other.pulls, self.n + other.n, min(self.df, other.df)
        )

    def reach(self, confidence: float = 0.95) -> float:
        """Half the width of the interval by Student's t."""
        from scipy import special

        error = self.error * np.sqrt((self.df + 1) / self.df)
        return float(special.stdtrit(self.df, (1 + confidence) / 2) * error)

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Value, interval by Student's t, and p of the value being 0.

        The interval of a rate is Wilson's, for as many independent labels as would have its error: a few
        labels of yes and no are skewed, and t alone misses a low rate from below twice as often as it says.
        """
        from scipy import special

        if self.df < 1:
            return Estimate(self.value, self.n, reason="one cluster")
        error = self.error * np.sqrt((self.df + 1) / self.df)
        if error == 0:
            return Estimate(self.value, self.n, reason="no variance")
        reach = self.reach(confidence)
        p = float(2 * special.stdtr(self.df, -abs(self.value) / error))
        middle = self.value
        if self.rate and 0 < middle < 1:
            shrunk = 1 / (1 + reach**2 / (middle * (1 - middle)))  # n / (n + t²)
            middle = shrunk * middle + (1 - shrunk) / 2
            reach = float(np.sqrt(shrunk**2 * reach**2 + (1 - shrunk) ** 2 / 4))
        return Estimate(self.value, self.n, middle - reach, middle + reach, p)


def mean_of(values: Vector, clusters: Vector | None = None) -> ClusteredFigure:
    """The mean of what has a value; clusters without any count as well, with 0.

    >>> found = mean_of([1, 2, 3, 4, None]).estimate()
    >>> found.value, round(found.low, 3), round(found.high, 3)
    (2.5, 0.446, 4.554)
    """
    data = vector(values)
    places, count = clusters_of(clusters, data.size)
    known = ~np.isnan(data)
    if not known.any():
        raise UsageError("a mean needs at least one value")
    mean = float(data[known].mean())
    pulls = _summed(np.where(known, data - mean, 0.0) / known.sum(), places, count)
    return ClusteredFigure(
        mean, pulls, int(known.sum()), _labelled(known, places) - 1, rate=_yes_or_no(data[known])
    )


def prediction_powered(
    labels: Vector,
    scores: Vector,
    clusters: Vector | None = None,
    weight: float | None = None,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> ClusteredFigure:
    """Estimate the mean label of all units with a score: PPI++ over clusters.

    Args:
        labels: What people said, NaN where nobody did.
        scores: What the judge said of every unit; units without a score take no part.
        clusters: Dialogue of each unit.
        weight: How much of the scores counts; by default what gives the smallest variance.
        bounds: Of the tuned weight. A score has a scale of its own, so there are none; of what `calibrated`
            returns take 0 to 1, as held-out predictions of a judge that knows nothing fall where labels rise.

    >>> found = prediction_powered([1, 2, 3, 4, *[None] * 6], [1, 2, 3, 5, 1, 2, 3, 4, 4, 5])
    >>> round(found.value, 3), round(found.weight, 3)
    (2.659, 0.382)
    """
    given, judged = vector(labels), vector(scores)
    places, count = clusters_of(clusters, given.size)
    scored = ~np.isnan(judged)
    known, rest = scored & ~np.isnan(given), scored & np.isnan(given)
    if not known.any():
        raise UsageError("no unit has both a label and a score")
    n, df = int(known.sum()), _labelled(known, places) - 1
    own = _centred(given, known, places, count)
    if not rest.any() or constant(judged[scored]):
        return ClusteredFigure(float(given[known].mean()), own, n, df, 0.0, _yes_or_no(given[known]))
    gap = _centred(judged, known, places, count) - _centred(judged, rest, places, count)
    leverage = np.zeros(count)
    if weight is None:
        weight, leverage = _tuned(own, gap, df, bounds)
    value = given[known].mean() + weight * (judged[rest].mean() - judged[known].mean())
    # As if the weight had been tuned without the cluster: what was fitted to it would look too good.
    pulls = (own - weight * gap) / (1 - np.minimum(leverage, 0.5))
    return ClusteredFigure(float(value), pulls, n, df, weight, _yes_or_no(given[known]))


def _tuned(own: Floats, gap: Floats, df: int, bounds: tuple[float, float]) -> tuple[float, Floats]:
    """The weight of the smallest variance, and how far each cluster moves it.

    A weight that chance could explain is drawn towards 0 (the positive part of 1 - 1/F).
    """
    size = float(gap @ gap)
    best = float(own @ gap / size)
    rest = own - best * gap
    noise = float(rest @ rest / max(df, 1))
    kept = max(0.0, 1.0 - noise / (best * best * size)) if best else 0.0
    weight = float(np.clip(kept * best, *bounds))
    return weight, gap**2 / size * (kept if weight == kept * best else 0.0)


def calibrated(
    labels: Vector,
    scores: Vector,
    clusters: Vector | None = None,
    how: Calibration = "isotonic",
    folds: int = 10,
    seed: int = 0,
) -> Floats:
    """Bring scores to the scale of the labels, cross-fitted: no cluster helps to predict its own labels.

    Isotonic: the closest curve that never falls, straight between labelled scores and level beyond them.
    Units without a label get the mean of the folds' curves.

    >>> labels = [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, None]
    >>> scores = [10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 36]
    >>> calibrated(labels, scores, how="linear")[-1].round(2)
    np.float64(3.55)
    """
    given, judged = vector(labels), vector(scores)
    places, _ = clusters_of(clusters, given.size)
    scored = ~np.isnan(judged)
    known = scored & ~np.isnan(given)
    groups = np.unique(places[known])
    if groups.size < 2:
        raise UsageError("a calibration needs labels in at least two clusters")
    fold_of = np.full(int(places.max()) + 1, -1, dtype=np.intp)
    fold_of[groups] = kfold_groups(groups, min(folds, groups.size), seed)
    parts = range(int(fold_of.max()) + 1)
    made = np.full((len(parts), given.size), np.nan)
    for part in parts:
        fit = known & (fold_of[places] != part)
        made[part, scored] = _curve(judged[fit], given[fit], judged[scored], how)
    held_out = np.where(known, fold_of[places], -1)
    mean: Floats = made.mean(axis=0)
    return np.where(held_out >= 0, made[np.maximum(held_out, 0), np.arange(given.size)], mean)


def _curve(x: Floats, y: Floats, new: Floats, how: Calibration) -> Floats:
    if how == "isotonic":
        return np.asarray(np.interp(new, *isotonic(x, y)))
    pull = x - x.mean()
    slope = pull @ (y - y.mean()) / (pull @ pull) if not constant(x) else 0.0
    return np.asarray(y.mean() + slope * (new - x.mean()))


def corrected_rate(labels: Vector, verdicts: Vector, clusters: Vector | None = None) -> ClusteredFigure | str:
    """Estimate a pass rate from yes/no verdicts by the judge's sensitivity and specificity (Rogan, Gladen).

    Both are measured on the labelled units, and their uncertainty counts.

    Args:
        labels: 1 or 0, or the share of raters who said 1; NaN where nobody said.
        verdicts: 1 or 0 of every unit.
        clusters: Dialogue of each unit.

    Returns:
        The rate, or the reason there is none.

    >>> labels, verdicts = [1] * 8 + [0] * 8 + [None] * 8, [1] * 7 + [0] * 7 + [1] * 2 + [1] * 6 + [0] * 2
    >>> round(corrected_rate(labels, verdicts).value, 3)
    0.6
    """
    given, judged = vector(labels), vector(verdicts)
    places, count = clusters_of(clusters, given.size)
    known = ~np.isnan(judged + given)
    good, bad = np.where(known, given, 0.0), np.where(known, 1 - given, 0.0)
    fewest = min(good.sum(), bad.sum())
    if fewest < FEWEST_OF_A_CLASS:
        return f"only {fewest:.3g} of one kind labelled: sensitivity or specificity is unknown"
    filled = np.nan_to_num(judged)
    hits, alarms = (float(own @ filled / own.sum()) for own in (good, bad))
    room = hits - alarms  # sensitivity + specificity - 1
    error = np.sqrt(hits * (1 - hits) / good.sum() + alarms * (1 - alarms) / bad.sum())
    if room <= 2 * error:
        return "the judge says yes as often to the bad as to the good: nothing to correct"
    yes = ~np.isnan(judged)
    rate = (judged[yes].mean() - alarms) / room
    pulls = _centred(judged, yes, places, count)
    for own, mean, part in ((bad, alarms, 1 - rate), (good, hits, rate)):
        pulls = pulls - part * _summed(own * (filled - mean) / own.sum(), places, count)
    return ClusteredFigure(float(rate), pulls / room, int(known.sum()), _labelled(known, places) - 2)


def outside(labels: Vector, scores: Vector) -> tuple[Booleans, bool]:
    """Which unlabelled units score beyond every labelled one, and whether these are more than chance leaves.

    Of labels drawn at random, the number beyond both ends is beta-binomial, whatever the distribution.

    >>> beyond, refused = outside([1, 2, 3, None, None, None], [1, 2, 3, 2, 4, 5])
    >>> beyond.tolist(), refused
    ([False, False, False, False, True, True], False)
    """
    from scipy import stats

    given, judged = vector(labels), vector(scores)
    known = ~np.isnan(given) & ~np.isnan(judged)
    rest = np.isnan(given) & ~np.isnan(judged)
    beyond: Booleans = rest & ((judged < judged[known].min()) | (judged > judged[known].max()))
    n = int(known.sum())
    tail = float(stats.betabinom.sf(beyond.sum() - 1, rest.sum(), 2, n - 1)) if n > 1 and rest.any() else 1.0
    return beyond, tail < CHANCE


def worth_in_labels(alone: ClusteredFigure, powered: ClusteredFigure) -> float | None:
    """How many more labels would give the same error without the judge: effective sample size less n.

    >>> alone, half = (ClusteredFigure(0.0, np.array([e, -e]), 100, 99) for e in (0.2, 0.1))
    >>> round(worth_in_labels(alone, half), 6)
    300.0
    """
    return None if powered.error == 0 else alone.n * (alone.error / powered.error) ** 2 - alone.n


def _centred(values: Floats, chosen: Booleans, places: Places, count: int) -> Floats:
    """What each cluster adds to the error of the mean over the chosen units."""
    size = chosen.sum()
    return _summed(np.where(chosen, values - values[chosen].mean(), 0.0) / size, places, count)


def _summed(values: Floats, places: Places, count: int) -> Floats:
    return np.bincount(places, values, count).astype(np.float64)


def _yes_or_no(labels: Floats) -> bool:
    return bool(np.isin(labels, (0.0, 1.0)).all())


def _labelled(known: Booleans, places: Places) -> int:
    return int(np.unique(places[known]).size)


def conformal_intervals(
    labels: Vector,
    scores: Vector,
    clusters: Vector | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[Floats, Floats, float | None]:
    """Predict the rating of every unlabelled unit, with an interval.

    Args:
        labels: What people said, NaN where nobody did.
        scores: What the judge said.
        clusters: Dialogue of each unit.
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
    predicted = calibrated(given, judged, places, "linear", seed=seed)
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
