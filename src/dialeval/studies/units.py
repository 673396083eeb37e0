"""From the Scores table to aligned arrays: one row a unit, one column a source and dimension.

A unit is a turn, a dialogue or a system. Turn scores become dialogue scores by an explicit aggregation
(mean by default); a source that gives dialogue rows itself keeps them. System figures are means over the
dialogues of a system. Missing is NaN in these arrays, and nowhere else. Units are sorted by name and turn, so
that no finding depends on the order of rows in a file.
"""

import operator
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dialeval.dialogues.contexts import conversation_of
from dialeval.errors import DataError, UsageError
from dialeval.scores import SCHEMA, Scores, is_human

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
Level = Literal["turn", "dialogue", "system"]
LEVELS: tuple[Level, ...] = ("turn", "dialogue", "system")
LARGEST = 1e60  # of a value; its fourth power, over any number of rows, is still a number
AGGREGATES: dict[str, Callable[[Floats], Any]] = {
    "mean": np.mean,
    "min": np.min,
    "max": np.max,
    "last": lambda values: values[-1],
    "median": np.median,
}


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "==": operator.eq,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
_CONDITION = re.compile(r"\s*(?P<name>.+?)\s*(?P<sign><=|>=|!=|==|=|<|>)\s*(?P<value>.+?)\s*")


class Key(NamedTuple):
    """The name of a unit: a dialogue of a system, and a turn in it (None for the whole)."""

    dialogue_id: str
    system: str | None
    turn: int | None = None


class Column(NamedTuple):
    """A source and one of its dimensions."""

    source: str
    dimension: str


@dataclass(frozen=True)
class Units:
    """Aligned arrays over the units of one level."""

    level: Level
    keys: tuple[Key, ...]
    columns: dict[Column, Floats]

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def clusters(self) -> Places:
        """Numbers that are equal for units of the same dialogue: what a bootstrap draws and a fit leaves out.

        Answers of several systems to the same context are one cluster: what they share is not new evidence.
        So are the answers at several turns of one conversation.
        """
        numbers: dict[str, int] = {}
        names = (conversation_of(key.dialogue_id) for key in self.keys)
        return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.intp)

    def by_system(self) -> dict[str, Places]:
        """Return the places of the units of each system, systems by name; units without one are left out."""
        places: dict[str, list[int]] = defaultdict(list)
        for place, key in enumerate(self.keys):
            if key.system is not None:
                places[key.system].append(place)
        return {name: np.array(places[name], dtype=np.intp) for name in sorted(places)}

    def keep(self, chosen: NDArray[np.bool_] | Places) -> "Units":
        """Return the units for which a mask holds, or those at some places."""
        keys = tuple(self.keys[place] for place in np.arange(len(self))[chosen].tolist())
        columns = {name: values[chosen] for name, values in self.columns.items()}
        return replace(self, keys=keys, columns=columns)

    def labels(self, columns: Sequence[Column] | None = None) -> dict[Column, str]:
        """Name columns as shortly as is clear: the source alone for its only or namesake dimension."""
        wanted = list(self.columns) if columns is None else list(columns)
        counts: dict[str, int] = defaultdict(int)
        for column in wanted:
            counts[column.source] += 1
        short = {c for c in wanted if counts[c.source] == 1 or c.dimension == c.source}
        return {c: c.source if c in short else f"{c.source}/{c.dimension}" for c in wanted}

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
    _refuse_extremes(scores)
    rows = _number(scores)
    if level == "turn":
        return _turns(rows)
    found = {column: _by_dialogue(rows, number, aggregate) for number, column in enumerate(rows.columns)}
    if level == "dialogue":
        return _arrays(level, rows.dialogues, found)
    systems = sorted({key.system for key in rows.dialogues if key.system is not None})
    keys = [Key(name, name) for name in systems]
    numbers: dict[str | None, int] = {name: number for number, name in enumerate(systems)}
    owner = np.array([numbers.get(key.system, -1) for key in rows.dialogues], dtype=np.intp)
    return _arrays(level, keys, {column: _by_system(part, owner) for column, part in found.items()})


def _refuse_extremes(scores: Scores) -> None:
    """Refuse values whose products are beyond floating point: no statistic of them is a number."""
    beyond = pc.fill_null(pc.greater(pc.abs(scores.table["value"]), LARGEST), False)
    if not pc.any(beyond).as_py():
        return
    row = next(iter(Scores(scores.table.filter(beyond).slice(0, 1))))
    what = f"{row.source}/{row.dimension}: {row.value:g} for the dialogue {row.dialogue_id}"
    raise DataError(
        f"{what} is beyond ±{LARGEST:g}",
        fix="nothing can be computed with it: mend the value, or leave the source out",
    )


Part = tuple[Places, Floats]
"""Some units by number, and a value for each."""


@dataclass(frozen=True, slots=True)
class _NumberedRows:
    """The table as numbers: for each row its dialogue (of a system), turn (-1: none), column and value."""

    dialogue: Places
    turn: Places
    column: Places
    value: Floats
    dialogues: list[Key]
    columns: list[Column]


def _number(scores: Scores) -> _NumberedRows:
    table = with_systems(scores).table.combine_chunks()
    (ids, names), (systems, system_names), (sources, source_names), (dimensions, dimension_names) = (
        _codes(table[name]) for name in ("dialogue_id", "system", "source", "dimension")
    )
    width = len(system_names) + 1
    dialogues, dialogue = np.unique(ids * width + systems + 1, return_inverse=True)
    keys = [
        Key(names[code // width], system_names[code % width - 1] if code % width else None)
        for code in dialogues.tolist()
    ]
    made, first, column = np.unique(
        sources * len(dimension_names) + dimensions, return_index=True, return_inverse=True
    )
    order = np.argsort(first)  # columns stay in the order of the file
    pairs = [divmod(int(made[place]), len(dimension_names)) for place in order]
    columns = [Column(source_names[source], dimension_names[dimension]) for source, dimension in pairs]
    turn = pc.fill_null(table["turn"], -1).to_numpy().astype(np.intp)
    value = table["value"].to_numpy().astype(np.float64)
    rows = _NumberedRows(dialogue, turn, np.argsort(order)[column], value, keys, columns)
    _refuse_duplicates(rows)
    return rows


def _codes(column: Any) -> tuple[Places, list[str]]:
    """Return a number for each row, in the order of the names (-1 for null), and the names."""
    names: list[str] = sorted(column.drop_null().unique().to_pylist())
    found = pc.fill_null(pc.index_in(column, value_set=pa.array(names, pa.string())), -1)
    return found.to_numpy().astype(np.intp), names


def with_systems(scores: Scores) -> Scores:
    """Fill in the system where a row lacks it, as ratings and foreign columns often do, from the dialogue.

    Raises:
        DataError: If several systems answered the same contexts, so that it is not clear which is meant.
    """
    if not scores.table["system"].null_count:
        return scores
    ids, _ = _codes(scores.table["dialogue_id"])
    systems, names = _codes(scores.table["system"])
    width = len(names) + 1
    known, system = np.divmod(np.unique((ids * width + systems)[systems >= 0]), width)
    count = np.bincount(known, minlength=int(ids.max(initial=-1)) + 1)
    unclear = np.flatnonzero((systems < 0) & (count[ids] > 1))
    if unclear.size:
        row = scores.table.slice(int(unclear[0]), 1).to_pylist()[0]
        raise DataError(
            f"{row['source']}: dialogue {row['dialogue_id']!r} was answered by "
            f"{count[ids[unclear[0]]]} systems",
            field="system",
            fix="say which system is meant: a column system, or system=… in --map",
        )
    only = np.full(count.size, -1, dtype=np.intp)
    only[known] = system
    filled = np.where(systems < 0, only[ids], systems)
    column = pa.array(names, pa.string()).take(pa.array(filled, mask=filled < 0))
    return Scores(scores.table.set_column(2, SCHEMA.field("system"), column), scores.signatures)


def _refuse_duplicates(rows: _NumberedRows) -> None:
    _, unit = np.unique(_unit(rows), return_inverse=True)
    _, first, count = np.unique(unit * len(rows.columns) + rows.column, return_index=True, return_counts=True)
    twice = first[count > 1]
    if twice.size:
        place = int(twice.min())
        column, name = rows.columns[rows.column[place]], rows.dialogues[rows.dialogue[place]].dialogue_id
        where = name if rows.turn[place] < 0 else f"{name}, turn {rows.turn[place]}"
        raise DataError(
            f"{column.source} scores {where} twice in {column.dimension!r}",
            fix="keep one of the rows, or give the sources different names",
        )


def _unit(rows: _NumberedRows) -> Places:
    """Return one number for a dialogue and a turn; larger for later ones."""
    return rows.dialogue * (int(rows.turn.max(initial=0)) + 2) + rows.turn + 1


def _turns(rows: _NumberedRows) -> Units:
    on_turns = rows.turn >= 0
    _, first, unit = np.unique(_unit(rows)[on_turns], return_index=True, return_inverse=True)
    dialogue, turn = rows.dialogue[on_turns][first].tolist(), rows.turn[on_turns][first].tolist()
    named = [rows.dialogues[place] for place in dialogue]
    keys = [Key(key.dialogue_id, key.system, t) for key, t in zip(named, turn, strict=True)]
    column, value = rows.column[on_turns], rows.value[on_turns]
    parts = {
        name: (unit[column == number], value[column == number])
        for number, name in enumerate(rows.columns)
        if (column == number).any()
    }
    return _arrays("turn", keys, parts)


def _by_dialogue(rows: _NumberedRows, column: int, aggregate: str) -> Part:
    """Return a column's own figures for dialogues, or its turns put together."""
    own = rows.column == column
    dialogue, turn, value = rows.dialogue[own], rows.turn[own], rows.value[own]
    if (turn < 0).any():
        return dialogue[turn < 0], value[turn < 0]
    order = np.lexsort((turn, dialogue))
    return _grouped(dialogue[order], value[order], AGGREGATES[aggregate])


def _by_system(part: Part, owner: Places) -> Part:
    """Average over the dialogues of each system; dialogues of unknown systems do not count."""
    system, value = owner[part[0]], part[1]
    order = np.argsort(system, kind="stable")
    order = order[system[order] >= 0]
    return _grouped(system[order], value[order], np.mean)


def _grouped(groups: Places, values: Floats, combine: Callable[[Floats], Any]) -> Part:
    """Return one figure for each run of equal numbers, over the values that are there."""
    names, starts = np.unique(groups, return_index=True)
    parts = [part[~np.isnan(part)] for part in np.split(values, starts[1:])] if names.size else []
    return names, np.array([combine(part) if part.size else np.nan for part in parts], dtype=np.float64)


def _arrays(level: Level, keys: Sequence[Key], parts: dict[Column, Part]) -> Units:
    """Put every column on the units that at least one of them knows."""
    used = np.unique(np.concatenate([places for places, _ in parts.values()])) if parts else np.arange(0)
    columns = {}
    for column, (places, values) in parts.items():
        columns[column] = np.full(used.size, np.nan)
        columns[column][np.searchsorted(used, places)] = values
    return Units(level, tuple(keys[place] for place in used.tolist()), columns)


def named_columns(units: Units, columns: Sequence[Column], names: Sequence[str]) -> list[Column]:
    """Choose columns by source, label or source/dimension; a name that fits none of them is refused."""
    labels = units.labels()
    called = {c: (c.source, labels[c], f"{c.source}/{c.dimension}") for c in columns}
    for name in names:
        if not any(name in own for own in called.values()):
            raise UsageError(f"no source {name!r}; there are: {', '.join(labels[c] for c in columns)}")
    return list(dict.fromkeys(c for name in names for c in columns if name in called[c]))


def human_columns(units: Units, dimension: str) -> list[Column]:
    """Return the raters' columns of one dimension, in the order of their names."""
    return sorted(c for c in units.columns if is_human(c.source) and c.dimension == dimension)


def mean_over(units: Units, columns: Sequence[Column]) -> Floats:
    """Average several columns unit by unit, over those that have a value."""
    return settled(raw_mean(units, columns))


def raw_mean(units: Units, columns: Sequence[Column]) -> Floats:
    """Return the same with all its digits, for what is averaged once more."""
    if not columns:
        return np.full(len(units), np.nan)
    stacked = np.vstack([units.columns[column] for column in columns])
    present = ~np.isnan(stacked)
    counts = present.sum(axis=0)
    sums = np.where(present, stacked, 0.0).sum(axis=0)
    means: Floats = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return means


def settled(means: Floats) -> Floats:
    """Drop the last digits: rounding noise would break the tie of two units that were rated alike."""
    exponent = np.frexp(np.max(np.abs(means), initial=0.0, where=~np.isnan(means)))[1]
    rounded: Floats = np.ldexp(np.round(np.ldexp(means, -exponent), 13), exponent)
    return rounded


def where(units: Units, conditions: str, gold: Floats | None = None) -> NDArray[np.bool_]:
    """Return which units fulfil all conditions joined by `and`: `--where "bleu<1 and system=meena"`.

    A condition compares a column (by its label, such as `bleu` or `judge/overall`), `gold`, `turn`, `system`
    or `dialogue` with a value. A unit without a value in that column does not fulfil it. In names of systems
    and dialogues `*` stands for anything: `dialogue=uss-sgd-*`.
    """
    mask = np.ones(len(units), dtype=bool)
    for condition in re.split(r"\s+and\s+", conditions.strip()):
        mask &= _mask(units, condition, gold)
    return mask


def _mask(units: Units, condition: str, gold: Floats | None) -> NDArray[np.bool_]:
    match = _CONDITION.fullmatch(condition)
    if not match:
        raise UsageError(f"--where {condition!r}: expected for example bleu<1, system=mybot, turn>=3")
    name, value = match["name"], match["value"].strip("'\"")
    compare = _OPERATORS[match["sign"]]
    if name in ("system", "dialogue"):
        found = [key.system if name == "system" else key.dialogue_id for key in units.keys]
        pattern = re.compile(".*".join(map(re.escape, value.split("*"))), re.DOTALL)
        fits = (one is not None and compare(one, one if pattern.fullmatch(one) else value) for one in found)
        return np.fromiter(fits, dtype=bool)
    try:
        number = float(value)
    except ValueError:
        raise UsageError(f"--where {condition!r}: {value!r} is not a number") from None
    values = _values(units, condition, name, gold)
    present = ~np.isnan(values)
    fulfilled: NDArray[np.bool_] = present & compare(np.where(present, values, 0.0), number)
    return fulfilled


def _values(units: Units, condition: str, name: str, gold: Floats | None) -> Floats:
    if name == "turn":
        if units.level != "turn":
            raise UsageError(f"--where {condition!r}: a {units.level} has no turn; use --level turn")
        return np.array([key.turn for key in units.keys], dtype=float)
    known = {} if gold is None else {"gold": gold}
    known |= {label: units.columns[column] for column, label in units.labels().items()}
    full = {f"{column.source}/{column.dimension}": values for column, values in units.columns.items()}
    if name not in known and name not in full:
        raise UsageError(f"--where {condition!r}: no column {name!r}; there are: {', '.join(known)}")
    return known[name] if name in known else full[name]
