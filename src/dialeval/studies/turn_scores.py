"""Turn scores: which one ranks and colours turns, its values, and clustered means with intervals."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from dialeval.scores import Scores, is_fault, is_human
from dialeval.scores.signature import better
from dialeval.statistics import Estimate
from dialeval.statistics.estimate import Booleans
from dialeval.statistics.prediction_powered import ClusteredFigure, mean_of
from dialeval.studies.excerpts import TurnValue
from dialeval.studies.findings import Study
from dialeval.studies.units import Floats, Places, Units

LAST = 15  # replies of a dialogue that have a mean of their own; later ones share the last


@dataclass(frozen=True, slots=True)
class TurnScale:
    """A score of turns, by all raters or one metric, and the range of most of its values."""

    source: str
    dimension: str
    low: float
    high: float
    lower_is_better: bool = False

    @property
    def label(self) -> str:
        """The name on a page."""
        return self.source if self.source == self.dimension else f"{self.source} / {self.dimension}"

    @property
    def rated(self) -> bool:
        """Return whether people gave it."""
        return is_human(self.source)


def colouring_scale(study: Study, scores: Scores) -> TurnScale | None:
    """Return the score that colours turns: the gold if people rated turns, else a metric's."""
    gold = study.settings.gold
    rated = scores.where(level="turn", source=is_human if gold == "human" else gold)
    if len(rated):
        preferred, names = study.settings.dimension, rated.dimensions
        dimension = preferred if preferred in names else names[0]
        ends = pc.min_max(rated.where(dimension=dimension).table["value"]).as_py()
        if ends["min"] is not None:
            return TurnScale(gold, str(dimension), ends["min"], ends["max"])
    return choose_score(scores, "higher", "lower") or choose_score(scores, "neither")


TurnValues = dict[tuple[str, str | None], dict[int, TurnValue]]


def turn_values(scores: Scores, scale: TurnScale | None) -> TurnValues:
    """Return the score of every turn, averaged over raters, by dialogue and system."""
    if scale is None:
        return {}
    source = is_human if scale.source == "human" else scale.source
    part = scores.where(source=source, dimension=scale.dimension, level="turn")
    values: dict[tuple[str, str | None, int], list[float]] = defaultdict(list)
    notes: dict[tuple[str, str | None, int], list[str]] = defaultdict(list)
    for row in part:
        if row.turn is None:
            continue
        key = (row.dialogue_id, row.system, row.turn)
        values[key] += [] if row.value is None else [row.value]
        notes[key] += [row.note] if row.note else []
    by_dialogue: TurnValues = defaultdict(dict)
    for (dialogue_id, system, turn), scores_ in values.items():
        note = "; ".join(dict.fromkeys(notes[dialogue_id, system, turn]))
        mean = float(np.mean(scores_)) if scores_ else None
        by_dialogue[dialogue_id, system][turn] = TurnValue(mean, note)
    return dict(by_dialogue)


def choose_score(scores: Scores, *ways: str) -> TurnScale | None:
    """Return the automatic score to rank turns by: one called `quality`, else the first.

    By default the score must have a good direction; `ways` are the allowed ones. Single faults are not
    considered.

    >>> from dialeval.scores import Score
    >>> rows = [Score("d1", 1, None, source, dimension, 1.0) for source, dimension in
    ...     (("bleu", "bleu"), ("user-reaction", "quality"), ("turn-quality", "quality"))]
    >>> choose_score(Scores.of(rows)).label
    'turn-quality / quality'
    """
    turns = scores.where(level="turn", source=lambda source: not is_human(source)).table
    turns = turns.filter(pc.is_valid(turns["value"]))
    pairs = turns.group_by(["source", "dimension"], use_threads=False).aggregate([]).to_pylist()
    columns = [(row["source"], row["dimension"]) for row in pairs]
    allowed = ways or ("higher", "lower")
    candidates = [
        column
        for column in columns
        if better(scores.signatures, *column) in allowed and not is_fault(*column)
    ]
    if not candidates:
        return None
    source, dimension = max(candidates, key=_is_quality)  # the first of equals
    mask = pc.and_(pc.equal(turns["source"], source), pc.equal(turns["dimension"], dimension))
    low, high = pc.quantile(turns.filter(mask)["value"], q=[0.05, 0.95]).to_pylist()
    return TurnScale(source, dimension, low, high, better(scores.signatures, source, dimension) == "lower")


def _is_quality(column: tuple[str, str]) -> tuple[bool, bool]:
    source, dimension = column
    return "quality" in (source, dimension), "quality" in source


@dataclass(frozen=True, slots=True)
class IndexMean:
    """The mean score of the first, second, … reply of all dialogues."""

    label: str
    mean: Estimate
    n_unscored: int


def means_by_index(values: Floats, units: Units) -> list[IndexMean]:
    """Return the mean score of the first, second, … reply over all dialogues; late ones are pooled."""
    keys = units.keys
    first = [not row or keys[row - 1][:2] != key[:2] for row, key in enumerate(keys)]
    starts = np.flatnonzero(first)
    index = np.arange(len(keys)) - np.repeat(starts, np.diff(starts, append=len(keys))) + 1
    pooled = np.minimum(index, LAST)
    means = []
    for number in np.unique(pooled).tolist():
        mask = pooled == number
        label = f"{number}+" if number == LAST and (index > LAST).any() else str(number)
        mean = clustered_mean(values[mask], units.clusters[mask])
        means.append(IndexMean(label, mean, int(np.isnan(values[mask]).sum())))
    return means


def clustered_mean(values: Floats, clusters: Places) -> Estimate:
    """Return the mean with an interval for which dialogues, not turns, are the observations.

    In closed form, because there may be millions of turns: the linearised variance of a ratio of sums over
    dialogues, with Student's t.

    >>> mean = clustered_mean(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 0, 1, 2]))
    >>> mean.value, round(mean.low, 2), round(mean.high, 2)
    (2.5, -0.86, 5.86)
    """
    if np.isnan(values).all():
        return Estimate.undefined("nothing scored")
    return _clustered_estimate(mean_of(values, clusters))


def clustered_difference(
    values: Floats, here: Booleans, clusters: Places, confidence: float = 0.95
) -> Estimate:
    """Return the mean of some rows minus that of the others, with an interval over dialogues.

    >>> values, here = np.array([1.0, 3.0, 1.0, 3.0, 2.0]), np.array([True, False, True, False, False])
    >>> gap = clustered_difference(values, here, np.array([0, 0, 1, 1, 2]))
    >>> round(gap.value, 3), gap.n
    (-1.667, 5)
    """
    sides = [np.where(mask, values, np.nan) for mask in (here, ~here)]
    if any(np.isnan(side).all() for side in sides):
        return Estimate.undefined("nothing to compare with", int((~np.isnan(values)).sum()))
    inside, outside = (mean_of(side, clusters) for side in sides)
    return _clustered_estimate(inside - outside, confidence)


def _clustered_estimate(figure: ClusteredFigure, confidence: float = 0.95) -> Estimate:
    """Return a figure with its interval, which has no width if the figure has no variance."""
    if figure.df < 1:
        return Estimate(figure.value, figure.n, reason="one dialogue")
    reach = figure.half_width(confidence)
    return Estimate(figure.value, figure.n, figure.value - reach, figure.value + reach)
