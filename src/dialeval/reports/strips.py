"""The colour of a turn: which score it shows, and where that lies between low and high."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from dialeval.reports.table import figure
from dialeval.scores import Scores, is_human
from dialeval.scores.signature import better
from dialeval.studies import Study


@dataclass(frozen=True, slots=True)
class Palette:
    """The score that colours turns: mean of all raters or one metric, and its range."""

    source: str
    dimension: str
    low: float
    high: float
    lower_is_better: bool = False

    @property
    def label(self) -> str:
        """What the legend says."""
        return self.source if self.source == self.dimension else f"{self.source} / {self.dimension}"

    @property
    def rated(self) -> bool:
        """Whether people gave it."""
        return is_human(self.source)

    @property
    def worst_end(self) -> str:
        """The value at the orange end."""
        return self.write(self.high if self.lower_is_better else self.low)

    @property
    def best_end(self) -> str:
        """The value at the blue end."""
        return self.write(self.low if self.lower_is_better else self.high)

    def write(self, value: float) -> str:
        """Write a value with as many places as its neighbours have."""
        return figure(value, max(abs(self.low), abs(self.high)))

    def tone(self, value: float) -> int:
        """Place a value on the colour scale.

        >>> scale = Palette("human", "quality", 0, 2)
        >>> [scale.tone(value) for value in (0, 0.5, 1, 1.4, 2)]
        [-4, -2, 0, 2, 4]
        """
        share = 0.5 if self.high <= self.low else (value - self.low) / (self.high - self.low)
        step = int(np.clip(np.floor(share * 9), 0, 8)) - 4
        return -step if self.lower_is_better else step


@dataclass(frozen=True, slots=True)
class TurnScore:
    """What a turn got: the value as text, its step on the colour scale, and a note if there is one."""

    text: str
    tone: int | None
    note: str = ""


def palette(study: Study, scores: Scores) -> Palette | None:
    """Choose the score that colours turns: the gold if people rated turns, else the first metric that did."""
    turns = scores.where(level="turn")
    if not len(turns):
        return None
    gold = str(study.settings.get("gold", "human"))
    rated = turns.where(source=is_human if gold == "human" else gold)
    if len(rated):
        wanted = study.settings.get("dimension")
        names = rated.dimensions
        dimension = wanted if wanted in names else names[0]
        ends = pc.min_max(rated.where(dimension=dimension).table["value"]).as_py()
        if ends["min"] is not None:
            return Palette(gold, str(dimension), ends["min"], ends["max"])
    order = [row["source"] for row in study.correlations] + turns.sources
    for source in dict.fromkeys(source for source in order if not is_human(source)):
        own = turns.where(source=source)
        for dimension in own.dimensions:
            values = pc.drop_null(own.where(dimension=dimension).table["value"])
            if len(values):
                low, high = pc.quantile(values, q=[0.05, 0.95]).to_pylist()
                lower = better(study.signatures, source, dimension) == "lower"
                return Palette(source, dimension, low, high, lower)
    return None


Found = dict[tuple[str, str | None], dict[int, TurnScore]]


def turn_scores(scores: Scores, colours: Palette | None) -> Found:
    """Collect the chosen score of every turn, averaged over raters, by dialogue and system."""
    if colours is None:
        return {}
    human = colours.source == "human"
    part = scores.where(
        source=is_human if human else colours.source, dimension=colours.dimension, level="turn"
    )
    values: dict[tuple[str, str | None, int], list[float]] = defaultdict(list)
    notes: dict[tuple[str, str | None, int], list[str]] = defaultdict(list)
    for row in part:
        if row.turn is None:
            continue
        key = (row.dialogue_id, row.system, row.turn)
        values[key] += [] if row.value is None else [row.value]
        notes[key] += [row.note] if row.note else []
    found: Found = defaultdict(dict)
    for (dialogue_id, system, turn), given in values.items():
        said = list(dict.fromkeys(notes[dialogue_id, system, turn]))
        if given:
            mean = float(np.mean(given))
            score = TurnScore(colours.write(mean), colours.tone(mean), "; ".join(said))
        else:
            score = TurnScore("unscored", None, "; ".join(said))
        found[dialogue_id, system][turn] = score
    return dict(found)
