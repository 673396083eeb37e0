"""The labels that an estimate is made from, aligned with everything that was scored."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dialeval.errors import DataError, UsageError
from dialeval.scores import Scores, is_human
from dialeval.scores.signature import better
from dialeval.statistics.estimate import Booleans
from dialeval.studies.notes import said_instead
from dialeval.studies.units import (
    Column,
    Floats,
    Level,
    Units,
    align,
    human_columns,
    mean_over,
    with_systems,
)

_FIX = "label dialogues drawn at random: dialeval plan chooses them"


@dataclass(frozen=True, slots=True)
class Labels:
    """The ratings of a study, aligned with its units."""

    units: Units
    raters: Floats  # units x raters
    mean: Floats
    gold: str
    dimension: str

    @property
    def known(self) -> Booleans:
        """Which units have a label."""
        return ~np.isnan(self.mean)

    @property
    def scale(self) -> tuple[float, float]:
        """The lowest and the highest rating."""
        return float(np.nanmin(self.raters)), float(np.nanmax(self.raters))


def read_labels(
    scores: Scores, gold: str = "human", level: Level | None = None, dimension: str | None = None
) -> Labels:
    """Read the ratings, and refuse those that say nothing."""
    scores = with_systems(scores)
    rated = scores.where(source=is_human if gold == "human" else gold)
    given, said = len(rated), said_instead(rated)
    rated = Scores(rated.table.filter(rated.table["value"].is_valid()), rated.signatures)
    if given and not len(rated):
        raise DataError(f"no rating of {gold!r} is a number: {said}", fix="give ratings as numbers")
    if not len(rated):
        raise DataError(f"no rating of {gold!r} among: {', '.join(scores.sources) or 'nothing'}", fix=_FIX)
    if level not in (None, "turn", "dialogue"):
        raise UsageError(f"no level {level!r}; a unit is a turn or a dialogue")
    level = level or ("dialogue" if len(rated.where(level="dialogue")) else "turn")
    own = rated.where(level=level)
    known = (own if len(own) else rated).dimensions
    chosen = dimension or next(name for name in ("overall", "quality", *known) if name in known)
    if chosen not in known:
        raise UsageError(f"no rating called {chosen!r}; there are: {', '.join(known)}")
    units = align(scores, level)
    columns = human_columns(units, chosen) if gold == "human" else [Column(gold, chosen)]
    raters = np.vstack([units.columns[column] for column in columns]).T
    labels = Labels(units, raters, mean_over(units, columns), gold, chosen)
    n = int(labels.known.sum())
    if n < 2:
        raise DataError(f"{n} label of {chosen!r}: nothing can be said from it", fix=_FIX)
    if labels.scale[0] == labels.scale[1]:
        raise DataError(
            f"all {n} labels of {chosen!r} are {labels.scale[0]:g}: nothing can be said of what differs",
            fix=_FIX,
        )
    return labels


def judged_columns(scores: Scores, labels: Labels, sources: Sequence[str] = ()) -> list[Column]:
    """Return what is judged: all columns but people's, those that are neither good nor bad, and spreads."""
    units = labels.units
    columns = [
        column
        for column in units.columns
        if not is_human(column.source)
        and column.source != labels.gold
        and (sources or better(scores.signatures, *column) != "neither")
    ]
    if sources:
        named = units.labels()
        wanted = {name: [c for c in columns if name in (c.source, named[c])] for name in sources}
        if missing := [name for name, found in wanted.items() if not found]:
            raise UsageError(f"no source {missing[0]!r}; there are: {', '.join(named[c] for c in columns)}")
        columns = list(dict.fromkeys(c for found in wanted.values() for c in found))
    if not columns:
        raise DataError(
            "no scores beside the ratings", fix="score the dialogues, or name a judge's table: --map"
        )
    scored = np.any([~np.isnan(units.columns[column]) for column in columns], axis=0)
    if not (labels.known & scored).any():
        raise DataError(
            f"none of the {labels.known.sum()} labelled units is among the {scored.sum()} scored ones",
            fix="the ids of ratings and dialogues must be the same",
        )
    return columns
