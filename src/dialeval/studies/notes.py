"""What a reader of a study would else miss, in plain sentences."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from dialeval.scores import Scores, is_human
from dialeval.studies.units import Column, Floats, Units

if TYPE_CHECKING:
    from dialeval.studies.meta_evaluation import Settings


def silent_sources(scores: Scores, units: Units, settings: "Settings") -> list[str]:
    """Name sources that have nothing to say at the level of the study."""
    present = {column.source for column in units.columns}
    absent = [name for name in scores.sources if name not in present and not is_human(name)]
    return [f"no score at {settings.level} level from: {', '.join(absent)}"] if absent else []


def hopeless_tests(differences: list[dict[str, Any]], settings: "Settings") -> list[str]:
    """Say when there are so many pairs that Holm's correction leaves nothing to find."""
    if len(differences) <= (1 - settings.confidence) * (settings.permutations + 1):
        return []
    return [
        f"{len(differences)} pairs of sources, {settings.permutations} permutations: after Holm's "
        "correction no difference can be significant; ask for more resamples or fewer sources"
    ]


def apart(units: Units, columns: list[Column], target: Floats) -> list[str]:
    """Say when ratings and scores do not speak of the same units: mostly ids that differ."""
    rated = ~np.isnan(target)
    if not rated.any():
        return []
    labels, scored = units.labels(columns), {c: ~np.isnan(units.columns[c]) for c in columns}
    empty = [c for c in columns if not scored[c].any()]
    lonely = [c for c in columns if c not in empty and not (rated & scored[c]).any()]
    notes = [f"not a single score from: {', '.join(labels[c] for c in empty)}"] if empty else []
    if lonely:
        known, other = (units.keys[int(np.flatnonzero(some)[0])] for some in (rated, scored[lonely[0]]))
        names = ", ".join(labels[c] for c in lonely)
        notes.append(
            f"nothing is both rated and scored by {names}: do the ids match? "
            f"Rated is {known.dialogue_id!r}, scored is {other.dialogue_id!r}"
        )
    return notes


def empty_ratings(scores: Scores, gold_columns: list[Column]) -> list[str]:
    """Say how many ratings have no value, and what stands there instead: it may be a typing error."""
    raters = {column.source for column in gold_columns}
    rows = scores.where(source=raters.__contains__, dimension=gold_columns[0].dimension)
    said = Counter(row.note for row in rows if row.value is None)
    shown = ", ".join(f"{note} ({count})" for note, count in said.most_common(3))
    return [f"ratings without a value: {said.total()}, with the note {shown}"] if said else []


def flat_lines(lines: list[dict[str, Any]]) -> list[str]:
    """Say where a fitted line says the same of most units: there only its intercept speaks."""
    return [
        f"{row['name']}: {row['at_lowest']:.0%} of the units have the lowest value of {row['source']} "
        f"({row['lowest']:g}); of all of them it says the same, whatever they are"
        for row in lines
        if row["at_lowest"] is not None and row["at_lowest"] > 0.5
    ]
