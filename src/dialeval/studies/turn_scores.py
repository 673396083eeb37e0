"""The score of single turns that a page goes by: which one, its values, its means with intervals."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from dialeval.scores import Scores, is_fault, is_human
from dialeval.scores.signature import better
from dialeval.statistics import Estimate
from dialeval.statistics.prediction_powered import ClusteredFigure, mean_of
from dialeval.studies.excerpts import TurnValue
from dialeval.studies.findings import Study
from dialeval.studies.units import Floats, Places, Units

LAST = 15  # replies of a dialogue that have a mean of their own; later ones share the last
Booleans = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TurnScale:
    """A score of turns, the mean of all raters or one metric's, and the range in which it mostly lies."""

    source: str
    dimension: str
    low: float
    high: float
    lower_is_better: bool = False

    @property
    def label(self) -> str:
        """Its name on a page."""
        return self.source if self.source == self.dimension else f"{self.source} / {self.dimension}"

    @property
    def rated(self) -> bool:
        """Whether people gave it."""
        return is_human(self.source)


def colouring_scale(study: Study, scores: Scores) -> TurnScale | None:
    """Choose the score that colours turns: the gold if people rated turns, else a metric's."""
    gold = study.settings.gold
    rated = scores.where(level="turn", source=is_human if gold == "human" else gold)
    if len(rated):
        wanted, names = study.settings.dimension, rated.dimensions
        dimension = wanted if wanted in names else names[0]
        ends = pc.min_max(rated.where(dimension=dimension).table["value"]).as_py()
        if ends["min"] is not None:
            return TurnScale(gold, str(dimension), ends["min"], ends["max"])
    return choose_score(scores, "higher", "lower") or choose_score(scores, "neither")


TurnValues = dict[tuple[str, str | None], dict[int, TurnValue]]


def turn_values(scores: Scores, scale: TurnScale | None) -> TurnValues:
    """Collect the chosen score of every turn, averaged over raters, by dialogue and system."""
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
    found: TurnValues = defaultdict(dict)
    for (dialogue_id, system, turn), given in values.items():
        note = "; ".join(dict.fromkeys(notes[dialogue_id, system, turn]))
        mean = float(np.mean(given)) if given else None
        found[dialogue_id, system][turn] = TurnValue(mean, note)
    return dict(found)


def choose_score(scores: Scores, *ways: str) -> TurnScale | None:
    """Choose the automatic score that bad turns are found by: one called `quality`, else the first.

    Scores for which neither high nor low is good are passed over unless `ways` says otherwise, and so are
    single faults.

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
    wanted = ways or ("higher", "lower")
    known = [one for one in columns if better(scores.signatures, *one) in wanted and not is_fault(*one)]
    if not known:
        return None
    source, dimension = max(known, key=_is_quality)  # the first of equals
    own = pc.and_(pc.equal(turns["source"], source), pc.equal(turns["dimension"], dimension))
    low, high = pc.quantile(turns.filter(own)["value"], q=[0.05, 0.95]).to_pylist()
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
    """Return the mean score of each reply of a dialogue by its place, later ones together."""
    keys = units.keys
    first = [not place or keys[place - 1][:2] != key[:2] for place, key in enumerate(keys)]
    starts = np.flatnonzero(first)
    index = np.arange(len(keys)) - np.repeat(starts, np.diff(starts, append=len(keys))) + 1
    places = np.minimum(index, LAST)
    made = []
    for place in np.unique(places).tolist():
        own = places == place
        label = f"{place}+" if place == LAST and (index > LAST).any() else str(place)
        mean = clustered_mean(values[own], units.clusters[own])
        made.append(IndexMean(label, mean, int(np.isnan(values[own]).sum())))
    return made


def clustered_mean(values: Floats, clusters: Places, confidence: float = 0.95) -> Estimate:
    """Average what is there, with an interval for which dialogues, not turns, are the observations.

    In closed form, because there may be millions of turns: the linearised variance of a ratio of sums over
    dialogues, with Student's t.

    >>> found = clustered_mean(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 0, 1, 2]))
    >>> found.value, round(found.low, 2), round(found.high, 2)
    (2.5, -0.86, 5.86)
    """
    if np.isnan(values).all():
        return Estimate.undefined("nothing scored")
    return _over_dialogues(mean_of(values, clusters), confidence)


def clustered_difference(
    values: Floats, here: Booleans, clusters: Places, confidence: float = 0.95
) -> Estimate:
    """Return how far the mean of some rows is from the mean of the others, with an interval over dialogues.

    >>> values, here = np.array([1.0, 3.0, 1.0, 3.0, 2.0]), np.array([True, False, True, False, False])
    >>> found = clustered_difference(values, here, np.array([0, 0, 1, 1, 2]))
    >>> round(found.value, 3), found.n
    (-1.667, 5)
    """
    sides = [np.where(own, values, np.nan) for own in (here, ~here)]
    if any(np.isnan(side).all() for side in sides):
        return Estimate.undefined("nothing to compare with", int((~np.isnan(values)).sum()))
    one, other = (mean_of(side, clusters) for side in sides)
    return _over_dialogues(one - other, confidence)


def _over_dialogues(found: ClusteredFigure, confidence: float) -> Estimate:
    """Return a figure with its interval; one that does not vary at all is its own interval."""
    if found.df < 1:
        return Estimate(found.value, found.n, reason="one dialogue")
    reach = found.reach(confidence)
    return Estimate(found.value, found.n, found.value - reach, found.value + reach)
