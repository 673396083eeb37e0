"""The mean rating of all units, from few labels and many scores.

People rated some units, a judge scored all of them. The mean of the scores has the bias of the judge; the
mean of the ratings ignores the scores. *Prediction-powered inference* (Angelopoulos, Duchi and Zrnic 2023,
"PPI++") uses the scores and corrects their bias with the labelled units:

    mean of labels + weight · (mean score of the unlabelled - mean score of the labelled)

The weight minimises the variance: an uninformative judge gets weight 0 and does no harm. Labels must be a
random sample of the units; nothing is assumed about the judge.

To first order, the error of each figure here is a sum over clusters (dialogues, or units that share a
context). A figure keeps the terms of that sum, so that the error of a difference is paired over shared
clusters. With every unit its own cluster and a given weight, value and error are those of `ppi-python`, which
has no clusters and needs numba: it is the oracle in the tests.

`conformal_intervals` predict the rating of one unit. The errors of held-out predictions on labelled units
bound the error of the next one, if labelled and new dialogues are exchangeable. Each labelled dialogue has
the same weight, because a new unit belongs to a new dialogue (Lee, Barber and Willett 2023).
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
FEWEST = 10  # labelled clusters for an estimate
FEWEST_OF_A_CLASS = 5  # labelled units for sensitivity or specificity
CHANCE = 0.01  # significance level of the test for scores outside the labelled range


@dataclass(frozen=True, slots=True)
class ClusteredFigure:
    """A figure with the influence of each cluster on it.

    Attributes:
        value: The figure.
        influence: The first-order influence of every cluster (labelled or not); they add up to 0.
        n: Number of labels.
        df: Degrees of freedom: clusters with a label, minus fitted parameters.
        weight: The weight of the scores, for prediction-powered figures.
        rate: Whether it is a share of labels 1 among labels 0 and 1.
    """

    value: float
    influence: Floats
    n: int
    df: int
    weight: float | None = None
    rate: bool = False

    @property
    def error(self) -> float:
        """The standard error, without a small-sample correction."""
        return float(np.sqrt(np.sum(self.influence**2)))

    @property
    def corrected_error(self) -> float:
        """The standard error for Student's t; 0 without degrees of freedom."""
        return float(self.error * np.sqrt((self.df + 1) / self.df)) if self.df > 0 else 0.0

    def __sub__(self, other: "ClusteredFigure") -> "ClusteredFigure":
        """Return the difference of two figures over the same clusters."""
        return ClusteredFigure(
            self.value - other.value,
            self.influence - other.influence,
            self.n + other.n,
            min(self.df, other.df),
        )

    def half_width(self, confidence: float = 0.95) -> float:
        """Return half the width of the interval by Student's t."""
        from scipy import special

        return float(special.stdtrit(self.df, (1 + confidence) / 2) * self.corrected_error)

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the value with its interval by Student's t, and the p-value of its being 0.

        The interval of a rate is Wilson's, for the effective number of labels: few binary labels are skewed,
        and the t interval undercovers low rates.
        """
        from scipy import special

        if self.df < 1:
            return Estimate(self.value, self.n, reason="one cluster")
        if self.error == 0:
            return Estimate(self.value, self.n, reason="no variance")
        reach = self.half_width(confidence)
        p = float(2 * special.stdtr(self.df, -abs(self.value) / self.corrected_error))
        middle = self.value
        if self.rate and 0 < middle < 1:
            shrunk = 1 / (1 + reach**2 / (middle * (1 - middle)))  # n / (n + t²)
            middle = shrunk * middle + (1 - shrunk) / 2
            reach = float(np.sqrt(shrunk**2 * reach**2 + (1 - shrunk) ** 2 / 4))
        return Estimate(self.value, self.n, middle - reach, middle + reach, p)


def mean_of(values: Vector, clusters: Vector | None = None) -> ClusteredFigure:
    """Return the mean of all values that are not missing; a cluster without any has influence 0.

    >>> mean = mean_of([1, 2, 3, 4, None]).estimate()
    >>> mean.value, round(mean.low, 3), round(mean.high, 3)
    (2.5, 0.446, 4.554)
    """
    data = vector(values)
    codes, count = clusters_of(clusters, data.size)
    present = ~np.isnan(data)
    if not present.any():
        raise UsageError("a mean needs at least one value")
    mean = float(data[present].mean())
    influence = _summed(np.where(present, data - mean, 0.0) / present.sum(), codes, count)
    return ClusteredFigure(
        mean, influence, int(present.sum()), _labelled(present, codes) - 1, rate=_yes_or_no(data[present])
    )


def prediction_powered(
    labels: Vector,
    scores: Vector,
    clusters: Vector | None = None,
    weight: float | None = None,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> ClusteredFigure:
    """Return the mean label of all units with a score: PPI++ over clusters.

    Args:
        labels: The ratings, NaN where there is none.
        scores: The judge's scores; units without a score are left out.
        clusters: Dialogue of each unit.
        weight: The weight of the scores; by default the one with the smallest variance.
        bounds: Bounds of the tuned weight: none for scores on their own scale, 0 to 1 for those of
            `calibrated`, because held-out predictions of an uninformative judge correlate negatively with
            the labels.

    >>> mean = prediction_powered([1, 2, 3, 4, *[None] * 6], [1, 2, 3, 5, 1, 2, 3, 4, 4, 5])
    >>> round(mean.value, 3), round(mean.weight, 3)
    (2.659, 0.382)
    """
    ratings, judged = vector(labels), vector(scores)
    codes, count = clusters_of(clusters, ratings.size)
    scored = ~np.isnan(judged)
    labelled, rest = scored & ~np.isnan(ratings), scored & np.isnan(ratings)
    if not labelled.any():
        raise UsageError("no unit has both a label and a score")
    n, df = int(labelled.sum()), _labelled(labelled, codes) - 1
    base = _centred(ratings, labelled, codes, count)
    if not rest.any() or constant(judged[scored]):
        return ClusteredFigure(
            float(ratings[labelled].mean()), base, n, df, 0.0, _yes_or_no(ratings[labelled])
        )
    gap = _centred(judged, labelled, codes, count) - _centred(judged, rest, codes, count)
    leverage = np.zeros(count)
    if weight is None:
        weight, leverage = _tuned(base, gap, df, bounds)
    value = ratings[labelled].mean() + weight * (judged[rest].mean() - judged[labelled].mean())
    # As if the weight had been tuned without the cluster, which corrects for overfitting.
    influence = (base - weight * gap) / (1 - np.minimum(leverage, 0.5))
    return ClusteredFigure(float(value), influence, n, df, weight, _yes_or_no(ratings[labelled]))


def _tuned(base: Floats, gap: Floats, df: int, bounds: tuple[float, float]) -> tuple[float, Floats]:
    """Return the weight with the smallest variance, and the leverage of each cluster on it.

    The weight is shrunk towards 0 (the positive part of 1 - 1/F).
    """
    size = float(gap @ gap)
    best = float(base @ gap / size)
    rest = base - best * gap
    noise = float(rest @ rest / max(df, 1))
    shrinkage = max(0.0, 1.0 - noise / (best * best * size)) if best else 0.0
    weight = float(np.clip(shrinkage * best, *bounds))
    return weight, gap**2 / size * (shrinkage if weight == shrinkage * best else 0.0)


def calibrated(
    labels: Vector,
    scores: Vector,
    clusters: Vector | None = None,
    method: Calibration = "isotonic",
    folds: int = 10,
    seed: int = 0,
) -> Floats:
    """Calibrate scores to the labels, cross-fitted: no cluster helps to predict its own labels.

    The isotonic curve is interpolated between labelled scores and constant beyond them. Units without a label
    get the mean of the folds' curves.

    >>> labels = [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, None]
    >>> scores = [10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 36]
    >>> calibrated(labels, scores, method="linear")[-1].round(2)
    np.float64(3.55)
    """
    ratings, judged = vector(labels), vector(scores)
    codes, _ = clusters_of(clusters, ratings.size)
    scored = ~np.isnan(judged)
    labelled = scored & ~np.isnan(ratings)
    groups = np.unique(codes[labelled])
    if groups.size < 2:
        raise UsageError("a calibration needs labels in at least two clusters")
    fold_of = np.full(int(codes.max()) + 1, -1, dtype=np.intp)
    fold_of[groups] = kfold_groups(groups, min(folds, groups.size), seed)
    parts = range(int(fold_of.max()) + 1)
    predicted = np.full((len(parts), ratings.size), np.nan)
    for part in parts:
        fit = labelled & (fold_of[codes] != part)
        predicted[part, scored] = _curve(judged[fit], ratings[fit], judged[scored], method)
    held_out = np.where(labelled, fold_of[codes], -1)
    mean: Floats = predicted.mean(axis=0)
    return np.where(held_out >= 0, predicted[np.maximum(held_out, 0), np.arange(ratings.size)], mean)


def _curve(x: Floats, y: Floats, new: Floats, method: Calibration) -> Floats:
    if method == "isotonic":
        return np.asarray(np.interp(new, *isotonic(x, y)))
    pull = x - x.mean()
    slope = pull @ (y - y.mean()) / (pull @ pull) if not constant(x) else 0.0
    return np.asarray(y.mean() + slope * (new - x.mean()))


def corrected_rate(labels: Vector, verdicts: Vector, clusters: Vector | None = None) -> ClusteredFigure | str:
    """Return a rate of yes, corrected by the judge's sensitivity and specificity (Rogan and Gladen).

    Both are estimated on the labelled units, and their uncertainty is included.

    Args:
        labels: 1 or 0, or the share of raters who said 1; NaN where there is none.
        verdicts: 1 or 0 for every unit.
        clusters: Dialogue of each unit.

    Returns:
        The rate, or the reason that it is undefined.

    >>> labels, verdicts = [1] * 8 + [0] * 8 + [None] * 8, [1] * 7 + [0] * 7 + [1] * 2 + [1] * 6 + [0] * 2
    >>> round(corrected_rate(labels, verdicts).value, 3)
    0.6
    """
    ratings, judged = vector(labels), vector(verdicts)
    codes, count = clusters_of(clusters, ratings.size)
    labelled = ~np.isnan(judged + ratings)
    good, bad = np.where(labelled, ratings, 0.0), np.where(labelled, 1 - ratings, 0.0)
    fewest = min(good.sum(), bad.sum())
    if fewest < FEWEST_OF_A_CLASS:
        return f"only {fewest:.3g} of one kind labelled: sensitivity or specificity is unknown"
    filled = np.nan_to_num(judged)
    hits, alarms = (float(shares @ filled / shares.sum()) for shares in (good, bad))
    room = hits - alarms  # sensitivity + specificity - 1
    error = np.sqrt(hits * (1 - hits) / good.sum() + alarms * (1 - alarms) / bad.sum())
    if room <= 2 * error:
        return "the judge says yes as often to bad units as to good ones: no correction is possible"
    yes = ~np.isnan(judged)
    rate = (judged[yes].mean() - alarms) / room
    influence = _centred(judged, yes, codes, count)
    for shares, mean, part in ((bad, alarms, 1 - rate), (good, hits, rate)):
        influence = influence - part * _summed(shares * (filled - mean) / shares.sum(), codes, count)
    return ClusteredFigure(float(rate), influence / room, int(labelled.sum()), _labelled(labelled, codes) - 2)


def outside(labels: Vector, scores: Vector) -> tuple[Booleans, bool]:
    """Return the mask of unlabelled units outside the range of labelled scores, and if they are too many.

    If labels are a random sample, their number is beta-binomial for any distribution of scores.

    >>> beyond, refused = outside([1, 2, 3, None, None, None], [1, 2, 3, 2, 4, 5])
    >>> beyond.tolist(), refused
    ([False, False, False, False, True, True], False)
    """
    from scipy import stats

    ratings, judged = vector(labels), vector(scores)
    labelled = ~np.isnan(ratings) & ~np.isnan(judged)
    rest = np.isnan(ratings) & ~np.isnan(judged)
    beyond: Booleans = rest & ((judged < judged[labelled].min()) | (judged > judged[labelled].max()))
    n = int(labelled.sum())
    tail = float(stats.betabinom.sf(beyond.sum() - 1, rest.sum(), 2, n - 1)) if n > 1 and rest.any() else 1.0
    return beyond, tail < CHANCE


def worth_in_labels(alone: ClusteredFigure, powered: ClusteredFigure) -> float | None:
    """Return the additional labels that would give the same error without the judge.

    This is the effective sample size minus n.

    >>> alone, half = (ClusteredFigure(0.0, np.array([e, -e]), 100, 99) for e in (0.2, 0.1))
    >>> round(worth_in_labels(alone, half), 6)
    300.0
    """
    return None if powered.error == 0 else alone.n * (alone.error / powered.error) ** 2 - alone.n


def _centred(values: Floats, chosen: Booleans, codes: Places, count: int) -> Floats:
    """Return the influence of each cluster on the mean over the chosen units."""
    size = chosen.sum()
    return _summed(np.where(chosen, values - values[chosen].mean(), 0.0) / size, codes, count)


def _summed(values: Floats, codes: Places, count: int) -> Floats:
    return np.bincount(codes, values, count).astype(np.float64)


def _yes_or_no(labels: Floats) -> bool:
    return bool(np.isin(labels, (0.0, 1.0)).all())


def _labelled(mask: Booleans, codes: Places) -> int:
    return int(np.unique(codes[mask]).size)


def conformal_intervals(
    labels: Vector, scores: Vector, clusters: Vector | None = None, confidence: float = 0.95, seed: int = 0
) -> tuple[Floats, Floats, float | None]:
    """Return conformal intervals for the ratings of unlabelled units.

    Args:
        labels: The ratings, NaN where there is none.
        scores: The judge's scores.
        clusters: Dialogue of each unit.
        confidence: Share of intervals that contain the rating.

    Returns:
        Low and high of each unit, and the half-width. Both ends are NaN for units that are labelled, unscored
        or outside the range of labelled scores; the half-width is None if there are too few labelled
        dialogues.

    >>> labels = [*range(30), None, None]
    >>> low, high, half = conformal_intervals(labels, [*range(30), 12.5, 40])
    >>> bool(low[30] <= 12.5 <= high[30]), bool(np.isnan(low[31]))
    (True, True)
    """
    ratings, judged = vector(labels), vector(scores)
    codes, _ = clusters_of(clusters, ratings.size)
    predicted = calibrated(ratings, judged, codes, "linear", seed=seed)
    labelled = ~np.isnan(ratings) & ~np.isnan(judged)
    half = _half_width(np.abs(ratings - predicted)[labelled], codes[labelled], confidence)
    beyond, _ = outside(ratings, judged)
    middle = np.where(labelled | beyond, np.nan, predicted)
    if half is None:
        return np.full(ratings.size, np.nan), np.full(ratings.size, np.nan), None
    return middle - half, middle + half, half


def _half_width(errors: Floats, clusters: Vector, confidence: float) -> float | None:
    """Return the error that a new dialogue exceeds with probability 1 - confidence.

    The quantile has the conformal correction (n + 1) / n, with the effective number of labelled units.
    """
    codes, count = clusters_of(clusters, errors.size)
    alone, together = mean_of(errors).error, mean_of(errors, codes).error
    n = errors.size if together == 0 else errors.size * min(1.0, (alone / together) ** 2)
    n = max(float(count), n)
    weights = 1 / (np.bincount(codes)[codes] * count)
    order = np.argsort(errors)
    reached = np.cumsum(weights[order]) >= confidence * (n + 1) / n - 1e-9
    return float(errors[order][reached.argmax()]) if reached.any() else None
