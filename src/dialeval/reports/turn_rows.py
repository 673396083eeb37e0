"""The score that triage goes by: which one, its rows as arrays, and its means with intervals."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from dialeval.dialogues import Dialogue
from dialeval.reports.strips import Palette
from dialeval.scores import Scores, is_human
from dialeval.scores.signature import better
from dialeval.statistics import Estimate

LAST = 15  # replies of a dialogue that have a mean of their own; later ones share the last
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


def choose_score(scores: Scores) -> Palette | None:
    """Choose the automatic score of turns to go by: one called `quality` if there is one, else the first.

    Scores for which neither high nor low is good are passed over.

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
    known = [one for one in columns if better(scores.signatures, *one) in ("higher", "lower")]
    if not known:
        return None
    source, dimension = max(known, key=_is_quality)  # the first of equals
    own = pc.and_(pc.equal(turns["source"], source), pc.equal(turns["dimension"], dimension))
    low, high = pc.quantile(turns.filter(own)["value"], q=[0.05, 0.95]).to_pylist()
    return Palette(source, dimension, low, high, better(scores.signatures, source, dimension) == "lower")


def _is_quality(column: tuple[str, str]) -> tuple[bool, bool]:
    source, dimension = column
    return "quality" in (source, dimension), "quality" in source


class TurnRows:
    """The rows of one score, sorted by dialogue, system and turn; NaN is unscored.

    Attributes:
        turn: Number of each turn in its dialogue.
        value: Its score.
        cluster: A number for its dialogue, the same whichever system answered.
        index: Its place among the scored turns of its dialogue, from 1.
    """

    def __init__(self, scores: Scores, chosen: Palette) -> None:
        table = scores.where(source=chosen.source, dimension=chosen.dimension, level="turn").table
        ids, names = _codes(table["dialogue_id"])
        systems, system_names = _codes(table["system"])
        turns = table["turn"].to_numpy()
        order = np.lexsort((turns, systems, ids))
        self.turn: NDArray[np.int32] = turns[order]
        self.value: Floats = table["value"].to_numpy().astype(np.float64)[order]
        self.cluster, system = ids[order], systems[order]
        starts = np.flatnonzero(np.diff(self.cluster, prepend=-2) | np.diff(system, prepend=-2))
        stops = np.append(starts[1:], order.size)
        self.index = np.arange(order.size) - np.repeat(starts, stops - starts) + 1
        self._groups: dict[str, list[tuple[str | None, int, int]]] = {}
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            named = system_names[system[start]] if system[start] >= 0 else None
            self._groups.setdefault(names[self.cluster[start]], []).append((named, start, stop))

    def __len__(self) -> int:
        return int(self.value.size)

    def of(self, dialogue: Dialogue) -> tuple[int, int] | None:
        """Find the rows of a dialogue; where one side does not name the system, only one may be meant."""
        groups = self._groups.get(dialogue.id, [])
        exact = [group for group in groups if group[0] == dialogue.system]
        loose = [group for group in groups if group[0] is None or dialogue.system is None]
        chosen = exact or loose
        return chosen[0][1:] if len(chosen) == 1 else None


def _codes(column: Any) -> tuple[Integers, list[str]]:
    """A number for each row, -1 for null, and the names behind the numbers."""
    names = column.drop_null().unique()
    found = pc.fill_null(pc.index_in(column, value_set=names), -1)
    return found.to_numpy().astype(np.int64), names.to_pylist()


@dataclass(frozen=True, slots=True)
class IndexMean:
    """The mean score of the first, second, … reply of all dialogues."""

    label: str
    mean: Estimate
    n_unscored: int


def means_by_index(rows: TurnRows) -> list[IndexMean]:
    """Give the mean score of each reply of a dialogue by its place, later ones together."""
    places = np.minimum(rows.index, LAST)
    made = []
    for place in np.unique(places).tolist():
        own = places == place
        values = rows.value[own]
        label = f"{place}+" if place == LAST and (rows.index > LAST).any() else str(place)
        mean = clustered_mean(values, rows.cluster[own])
        made.append(IndexMean(label, mean, int(np.isnan(values).sum())))
    return made


def clustered_mean(values: Floats, clusters: Integers, confidence: float = 0.95) -> Estimate:
    """Average what is there, with an interval for which dialogues, not turns, are the observations.

    In closed form, because there may be millions of turns: the linearised variance of a ratio of sums over
    dialogues, with Student's t.

    >>> found = clustered_mean(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 0, 1, 2]))
    >>> found.value, round(found.low, 2), round(found.high, 2)
    (2.5, -0.86, 5.86)
    """
    scored = ~np.isnan(values)
    n = int(scored.sum())
    if not n:
        return Estimate.undefined("nothing scored")
    mean, parts, groups = _parts(values[scored], clusters[scored], int(clusters.max()) + 1)
    return _estimate(mean, n, parts, groups, confidence)


def clustered_difference(
    values: Floats, here: Booleans, clusters: Integers, confidence: float = 0.95
) -> Estimate:
    """Say how far the mean of some rows is from the mean of the others, with an interval over dialogues.

    >>> values, here = np.array([1.0, 3.0, 1.0, 3.0, 2.0]), np.array([True, False, True, False, False])
    >>> found = clustered_difference(values, here, np.array([0, 0, 1, 1, 2]))
    >>> round(found.value, 3), found.n
    (-1.667, 5)
    """
    scored = ~np.isnan(values)
    n = int(scored.sum())
    sides = [scored & here, scored & ~here]
    if not all(side.any() for side in sides):
        return Estimate.undefined("nothing to compare with", n)
    size = int(clusters.max()) + 1
    (one, own, few), (other, rest, many) = (_parts(values[side], clusters[side], size) for side in sides)
    return _estimate(one - other, n, own - rest, min(few, many), confidence)


def _parts(values: Floats, clusters: Integers, size: int) -> tuple[float, Floats, int]:
    """The mean, how far each cluster pulls it, and how many clusters there are."""
    mean = float(values.mean())
    pulls = np.bincount(clusters, values - mean, size) / values.size
    return mean, pulls, int((np.bincount(clusters, minlength=size) > 0).sum())


def _estimate(value: float, n: int, parts: Floats, groups: int, confidence: float) -> Estimate:
    if groups < 2:
        return Estimate(value, n, reason="one dialogue")
    from scipy.special import stdtrit

    error = float(np.sqrt(groups / (groups - 1) * (parts**2).sum()))
    half = float(stdtrit(groups - 1, (1 + confidence) / 2)) * error
    return Estimate(value, n, value - half, value + half)
