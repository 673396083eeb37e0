"""From the Scores table to aligned arrays: one row a unit, one column a source and dimension.

A unit is a turn, a dialogue or a system. Turn scores become dialogue scores by an explicit aggregation
(mean by default); a source that gives dialogue rows itself keeps them. System figures are means over the
dialogues of a system. Missing is NaN in these arrays, and nowhere else.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dialeval.errors import DataError, UsageError
from dialeval.scores import Score, Scores, is_human

Floats = NDArray[np.float64]
Level = Literal["turn", "dialogue", "system"]
LEVELS: tuple[Level, ...] = ("turn", "dialogue", "system")
AGGREGATES: dict[str, Callable[[list[float]], float]] = {
    "mean": lambda values: float(np.mean(values)),
    "min": min,
    "max": max,
    "last": lambda values: values[-1],
    "median": lambda values: float(np.median(values)),
}


class Key(NamedTuple):
    """What a unit is called: a dialogue of a system, and a turn in it (None for the whole)."""

    dialogue_id: str
    system: str | None
    turn: int | None = None


class Column(NamedTuple):
    """A source and one of its dimensions."""

    source: str
    dimension: str


@dataclass(frozen=True, slots=True)
class Units:
    """Aligned arrays over the units of one level."""

    level: Level
    keys: tuple[Key, ...]
    columns: dict[Column, Floats]

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def clusters(self) -> NDArray[np.intp]:
        """Numbers that are equal for units of the same dialogue: what a bootstrap draws."""
        numbers: dict[tuple[str, str | None], int] = {}
        return np.array([numbers.setdefault(key[:2], len(numbers)) for key in self.keys], dtype=np.intp)

    def keep(self, mask: NDArray[np.bool_]) -> "Units":
        """Return the units for which the mask holds."""
        keys = tuple(key for key, wanted in zip(self.keys, mask, strict=True) if wanted)
        return replace(self, keys=keys, columns={name: values[mask] for name, values in self.columns.items()})

    def labels(self, columns: Sequence[Column] | None = None) -> dict[Column, str]:
        """Name columns as shortly as is clear: the source alone if it has one dimension."""
        wanted = list(self.columns) if columns is None else list(columns)
        counts: dict[str, int] = defaultdict(int)
        for column in wanted:
            counts[column.source] += 1
        return {c: c.source if counts[c.source] == 1 else f"{c.source}/{c.dimension}" for c in wanted}

    def with_columns(self, columns: dict[Column, Floats]) -> "Units":
        """Return the same units with more columns."""
        return replace(self, columns={**self.columns, **columns})


def align(scores: Scores, level: Level, aggregate: str = "mean") -> Units:
    """Arrange a table of scores by unit.

    Args:
        scores: Any number of sources; a source may not score the same unit twice in one dimension.
        level: What a unit is.
        aggregate: How turns become a dialogue, for sources that score turns only.
    """
    if level not in LEVELS:
        raise UsageError(f"no level {level!r}; known: {', '.join(LEVELS)}")
    if aggregate not in AGGREGATES:
        raise UsageError(f"no aggregate {aggregate!r}; known: {', '.join(AGGREGATES)}")
    values = _values(scores)
    if level == "turn":
        kept = {c: {k: v for k, v in found.items() if k.turn is not None} for c, found in values.items()}
        return _arrays(level, {column: found for column, found in kept.items() if found})
    per_dialogue = {column: _by_dialogue(found, aggregate) for column, found in values.items()}
    if level == "dialogue":
        return _arrays(level, per_dialogue)
    return _arrays(level, {column: _by_system(found) for column, found in per_dialogue.items()})


Found = dict[Key, float]


def _values(scores: Scores) -> dict[Column, Found]:
    systems = _systems(scores)
    columns: dict[Column, Found] = defaultdict(dict)
    for row in scores:
        key = Key(row.dialogue_id, _system_of(row, systems), row.turn)
        found = columns[Column(row.source, row.dimension)]
        if key in found:
            where = row.dialogue_id if row.turn is None else f"{row.dialogue_id}, turn {row.turn}"
            raise DataError(
                f"{row.source} scores {where} twice in {row.dimension!r}",
                fix="keep one of the rows, or give the sources different names",
            )
        found[key] = np.nan if row.value is None else row.value
    return columns


def _systems(scores: Scores) -> dict[str, set[str]]:
    """Which systems a dialogue id belongs to: one, unless several systems answered the same contexts."""
    pairs = scores.table.group_by(["dialogue_id", "system"], use_threads=False).aggregate([])
    systems: dict[str, set[str]] = defaultdict(set)
    for name, system in zip(pairs["dialogue_id"].to_pylist(), pairs["system"].to_pylist(), strict=True):
        if system is not None:
            systems[name].add(system)
    return systems


def _system_of(row: Score, systems: dict[str, set[str]]) -> str | None:
    """Ratings and foreign columns often lack the system: take it from the dialogue, if that is clear."""
    if row.system is not None:
        return row.system
    known = systems.get(row.dialogue_id, set())
    if len(known) > 1:
        raise DataError(
            f"{row.source}: dialogue {row.dialogue_id!r} was answered by {len(known)} systems",
            field="system",
            fix="say which system is meant: a column system, or system=… in --map",
        )
    return next(iter(known), None)


def _by_dialogue(found: Found, aggregate: str) -> Found:
    whole = {key: value for key, value in found.items() if key.turn is None}
    if whole:
        return whole
    turns: dict[Key, list[tuple[int, float]]] = defaultdict(list)
    for key, value in found.items():
        if key.turn is not None:
            turns[Key(key.dialogue_id, key.system)].append((key.turn, value))
    combine = AGGREGATES[aggregate]
    result = {}
    for key, pairs in turns.items():
        scored = [value for _, value in sorted(pairs) if not np.isnan(value)]
        result[key] = combine(scored) if scored else np.nan
    return result


def _by_system(found: Found) -> Found:
    """Average over the dialogues of each system; dialogues of unknown systems do not count."""
    groups: dict[str, list[float]] = defaultdict(list)
    for key, value in found.items():
        if key.system is not None:
            groups[key.system].append(value)
    means = {}
    for system, values in groups.items():
        scored = [value for value in values if not np.isnan(value)]
        means[Key(system, system)] = float(np.mean(scored)) if scored else np.nan
    return means


def _arrays(level: Level, columns: dict[Column, Found]) -> Units:
    keys = tuple(dict.fromkeys(key for found in columns.values() for key in found))
    arrays = {
        c: np.array([found.get(key, np.nan) for key in keys], dtype=float) for c, found in columns.items()
    }
    return Units(level, keys, arrays)


def human_columns(units: Units, dimension: str) -> list[Column]:
    """Return the raters' columns of one dimension."""
    return [column for column in units.columns if is_human(column.source) and column.dimension == dimension]


def mean_over(units: Units, columns: Sequence[Column]) -> Floats:
    """Average several columns unit by unit, over those that have a value."""
    if not columns:
        return np.full(len(units), np.nan)
    stacked = np.vstack([units.columns[column] for column in columns])
    present = ~np.isnan(stacked)
    counts = present.sum(axis=0)
    sums = np.where(present, stacked, 0.0).sum(axis=0)
    result: Floats = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return result
