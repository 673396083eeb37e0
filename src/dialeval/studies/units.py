"""Alignment: from a table of scores to arrays with a row per unit and a column per source and dimension.

A unit is a turn, a dialogue or a system. Turn scores are aggregated to dialogue scores (mean by default),
unless the source has dialogue scores itself. System figures are means over the dialogues of a system. Missing
is NaN in these arrays, and nowhere else. Units are sorted by name and turn, so that no finding depends on the
order of rows in a file.
"""

import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dialeval.dialogues.contexts import conversation_of
from dialeval.errors import DataError, UsageError
from dialeval.scores import SCHEMA, Score, Scores, is_human

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
Level = Literal["turn", "dialogue", "system"]
LEVELS: tuple[Level, ...] = ("turn", "dialogue", "system")
LARGEST = 1e60  # the fourth power of a value, summed over rows, must be finite
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
    """The key of a unit: a dialogue of a system, and a turn in it (None for the whole dialogue)."""

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
        """The cluster of each unit, as a number: a bootstrap draws clusters, and a fit leaves them out.

        A cluster is a dialogue. Answers of several systems to the same context are one cluster, and so are
        answers at several turns of one conversation.
        """
        numbers: dict[str, int] = {}
        names = (conversation_of(key.dialogue_id) for key in self.keys)
        return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.intp)

    def by_system(self) -> dict[str, Places]:
        """Return the indices of the units of each system, sorted by name; units without one are left out."""
        indices: dict[str, list[int]] = defaultdict(list)
        for index, key in enumerate(self.keys):
            if key.system is not None:
                indices[key.system].append(index)
        return {name: np.array(indices[name], dtype=np.intp) for name in sorted(indices)}

    def keep(self, chosen: NDArray[np.bool_] | Places) -> "Units":
        """Return the units selected by a mask or by indices."""
        keys = tuple(self.keys[index] for index in np.arange(len(self))[chosen].tolist())
        columns = {name: values[chosen] for name, values in self.columns.items()}
        return replace(self, keys=keys, columns=columns)

    def labels(self, columns: Sequence[Column] | None = None) -> dict[Column, str]:
        """Return short labels of columns: the source alone for its only dimension or one of the same name."""
        chosen = list(self.columns) if columns is None else list(columns)
        counts: dict[str, int] = defaultdict(int)
        for column in chosen:
            counts[column.source] += 1
        short = {c for c in chosen if counts[c.source] == 1 or c.dimension == c.source}
        return {c: c.source if c in short else f"{c.source}/{c.dimension}" for c in chosen}

    def with_columns(self, columns: dict[Column, Floats]) -> "Units":
        """Return the same units with more columns."""
        return replace(self, columns={**self.columns, **columns})


def align(scores: Scores, level: Level, aggregate: str = "mean") -> Units:
    """Return the scores as aligned arrays.

    Args:
        scores: Any number of sources; a source may not score the same unit twice in one dimension.
        level: What a unit is.
        aggregate: How to aggregate turns to a dialogue, for sources that score turns only.
    """
    if level not in LEVELS:
        raise UsageError(f"no level {level!r}; known: {', '.join(LEVELS)}")
    if aggregate not in AGGREGATES:
        raise UsageError(f"no aggregate {aggregate!r}; known: {', '.join(AGGREGATES)}")
    _check_range(scores)
    rows = _encode_rows(scores)
    if level == "turn":
        return _turns(rows)
    by_dialogue = {
        column: _by_dialogue(rows, number, aggregate) for number, column in enumerate(rows.columns)
    }
    if level == "dialogue":
        return _arrays(level, rows.dialogues, by_dialogue)
    systems = sorted({key.system for key in rows.dialogues if key.system is not None})
    keys = [Key(name, name) for name in systems]
    numbers: dict[str | None, int] = {name: number for number, name in enumerate(systems)}
    owner = np.array([numbers.get(key.system, -1) for key in rows.dialogues], dtype=np.intp)
    return _arrays(level, keys, {column: _by_system(part, owner) for column, part in by_dialogue.items()})


def _check_range(scores: Scores) -> None:
    """Refuse values so large that statistics of them overflow."""
    beyond = pc.fill_null(pc.greater(pc.abs(scores.table["value"]), LARGEST), False)
    if not pc.any(beyond).as_py():
        return
    row = next(iter(Scores(scores.table.filter(beyond).slice(0, 1))))
    value = f"{row.source}/{row.dimension}: {row.value:g} for the dialogue {row.dialogue_id}"
    raise DataError(f"{value} is beyond ±{LARGEST:g}", fix="correct the value, or leave the source out")


Part = tuple[Places, Floats]
"""Indices of units, and a value for each."""


@dataclass(frozen=True, slots=True)
class _NumberedRows:
    """The table as codes: for each row its dialogue (of a system), turn (-1: none), column and value."""

    dialogue: Places
    turn: Places
    column: Places
    value: Floats
    dialogues: list[Key]
    columns: list[Column]


def _encode_rows(scores: Scores) -> _NumberedRows:
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
    codes, first, column = np.unique(
        sources * len(dimension_names) + dimensions, return_index=True, return_inverse=True
    )
    order = np.argsort(first)  # columns stay in the order of the file
    pairs = [divmod(int(codes[index]), len(dimension_names)) for index in order]
    columns = [Column(source_names[source], dimension_names[dimension]) for source, dimension in pairs]
    turn = pc.fill_null(table["turn"], -1).to_numpy().astype(np.intp)
    value = table["value"].to_numpy().astype(np.float64)
    rows = _NumberedRows(dialogue, turn, np.argsort(order)[column], value, keys, columns)
    _check_duplicates(rows)
    return rows


def _codes(column: Any) -> tuple[Places, list[str]]:
    """Return the codes of a column (-1 for null), and its sorted names."""
    names: list[str] = sorted(column.drop_null().unique().to_pylist())
    codes = pc.fill_null(pc.index_in(column, value_set=pa.array(names, pa.string())), -1)
    return codes.to_numpy().astype(np.intp), names


def with_systems(scores: Scores) -> Scores:
    """Return the scores with missing systems filled in from other rows of the same dialogue.

    Raises:
        DataError: If a dialogue has several systems, and a row does not name one.
    """
    if not scores.table["system"].null_count:
        return scores
    ids, _ = _codes(scores.table["dialogue_id"])
    systems, names = _codes(scores.table["system"])
    width = len(names) + 1
    dialogue, system = np.divmod(np.unique((ids * width + systems)[systems >= 0]), width)
    count = np.bincount(dialogue, minlength=int(ids.max(initial=-1)) + 1)
    unclear = np.flatnonzero((systems < 0) & (count[ids] > 1))
    if unclear.size:
        row = scores.table.slice(int(unclear[0]), 1).to_pylist()[0]
        raise DataError(
            f"{row['source']}: dialogue {row['dialogue_id']!r} was answered by "
            f"{count[ids[unclear[0]]]} systems",
            field="system",
            fix="name the system in a column system, or by system=… in --map",
        )
    only = np.full(count.size, -1, dtype=np.intp)
    only[dialogue] = system
    filled = np.where(systems < 0, only[ids], systems)
    column = pa.array(names, pa.string()).take(pa.array(filled, mask=filled < 0))
    return Scores(scores.table.set_column(2, SCHEMA.field("system"), column), scores.signatures)


def _check_duplicates(rows: _NumberedRows) -> None:
    _, unit = np.unique(_unit(rows), return_inverse=True)
    _, first, count = np.unique(unit * len(rows.columns) + rows.column, return_index=True, return_counts=True)
    twice = first[count > 1]
    if twice.size:
        index = int(twice.min())
        column, name = rows.columns[rows.column[index]], rows.dialogues[rows.dialogue[index]].dialogue_id
        where = name if rows.turn[index] < 0 else f"{name}, turn {rows.turn[index]}"
        raise DataError(
            f"{column.source} scores {where} twice in {column.dimension!r}",
            fix="keep one of the rows, or give the sources different names",
        )


def _unit(rows: _NumberedRows) -> Places:
    """Return one code for a dialogue and a turn; larger for later ones."""
    return rows.dialogue * (int(rows.turn.max(initial=0)) + 2) + rows.turn + 1


def _turns(rows: _NumberedRows) -> Units:
    on_turns = rows.turn >= 0
    _, first, unit = np.unique(_unit(rows)[on_turns], return_index=True, return_inverse=True)
    dialogue, turn = rows.dialogue[on_turns][first].tolist(), rows.turn[on_turns][first].tolist()
    named = [rows.dialogues[index] for index in dialogue]
    keys = [Key(key.dialogue_id, key.system, t) for key, t in zip(named, turn, strict=True)]
    column, value = rows.column[on_turns], rows.value[on_turns]
    parts = {
        name: (unit[column == number], value[column == number])
        for number, name in enumerate(rows.columns)
        if (column == number).any()
    }
    return _arrays("turn", keys, parts)


def _by_dialogue(rows: _NumberedRows, column: int, aggregate: str) -> Part:
    """Return a column's dialogue scores, or its aggregated turn scores."""
    mask = rows.column == column
    dialogue, turn, value = rows.dialogue[mask], rows.turn[mask], rows.value[mask]
    if (turn < 0).any():
        return dialogue[turn < 0], value[turn < 0]
    order = np.lexsort((turn, dialogue))
    return _grouped(dialogue[order], value[order], AGGREGATES[aggregate])


def _by_system(part: Part, owner: Places) -> Part:
    """Return means over the dialogues of each system; dialogues of unknown systems are left out."""
    system, value = owner[part[0]], part[1]
    order = np.argsort(system, kind="stable")
    order = order[system[order] >= 0]
    return _grouped(system[order], value[order], np.mean)


def _grouped(groups: Places, values: Floats, combine: Callable[[Floats], Any]) -> Part:
    """Return one aggregate for each run of equal group numbers, ignoring missing values."""
    names, starts = np.unique(groups, return_index=True)
    parts = [part[~np.isnan(part)] for part in np.split(values, starts[1:])] if names.size else []
    return names, np.array([combine(part) if part.size else np.nan for part in parts], dtype=np.float64)


def _arrays(level: Level, keys: Sequence[Key], parts: dict[Column, Part]) -> Units:
    """Return units for which at least one column has a row, with all columns on them."""
    used = np.unique(np.concatenate([indices for indices, _ in parts.values()])) if parts else np.arange(0)
    columns = {}
    for column, (indices, values) in parts.items():
        columns[column] = np.full(used.size, np.nan)
        columns[column][np.searchsorted(used, indices)] = values
    return Units(level, tuple(keys[index] for index in used.tolist()), columns)


def score_rows(
    keys: Sequence[Key], values: Floats, source: str, dimension: str, note: str | None = None
) -> Iterator[Score]:
    """Yield the rows of a new source; a missing value gets the note."""
    for key, value in zip(keys, values.tolist(), strict=True):
        scored = (None, note) if np.isnan(value) else (value, None)
        yield Score(key.dialogue_id, key.turn, key.system, source, dimension, *scored)


def named_columns(units: Units, columns: Sequence[Column], names: Sequence[str]) -> list[Column]:
    """Return columns by source, label or source/dimension; an unknown name is an error."""
    labels = units.labels()
    aliases = {c: (c.source, labels[c], f"{c.source}/{c.dimension}") for c in columns}
    for name in names:
        if not any(name in known_names for known_names in aliases.values()):
            raise UsageError(f"no source {name!r}; there are: {', '.join(labels[c] for c in columns)}")
    return list(dict.fromkeys(c for name in names for c in columns if name in aliases[c]))


def human_columns(units: Units, dimension: str) -> list[Column]:
    """Return the raters' columns of one dimension, in the order of their names."""
    return sorted(c for c in units.columns if is_human(c.source) and c.dimension == dimension)


def mean_over(units: Units, columns: Sequence[Column]) -> Floats:
    """Return the mean of several columns for each unit, ignoring missing values."""
    return round_noise(unrounded_mean(units, columns))


def unrounded_mean(units: Units, columns: Sequence[Column]) -> Floats:
    """Return the mean as `mean_over`, without rounding, to be averaged once more."""
    if not columns:
        return np.full(len(units), np.nan)
    stacked = np.vstack([units.columns[column] for column in columns])
    present = ~np.isnan(stacked)
    counts = present.sum(axis=0)
    sums = np.where(present, stacked, 0.0).sum(axis=0)
    means: Floats = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return means


def round_noise(means: Floats) -> Floats:
    """Round off the last digits, because rounding noise would break ties of equally rated units."""
    exponent = np.frexp(np.max(np.abs(means), initial=0.0, where=~np.isnan(means)))[1]
    rounded: Floats = np.ldexp(np.round(np.ldexp(means, -exponent), 13), exponent)
    return rounded


def where(units: Units, conditions: str, gold: Floats | None = None) -> NDArray[np.bool_]:
    """Return the mask of units that fulfil all conditions, as in `--where "bleu<1 and system=meena"`.

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
        names = [key.system if name == "system" else key.dialogue_id for key in units.keys]
        pattern = re.compile(".*".join(map(re.escape, value.split("*"))), re.DOTALL)
        fits = (
            unit_name is not None and compare(unit_name, unit_name if pattern.fullmatch(unit_name) else value)
            for unit_name in names
        )
        return np.fromiter(fits, dtype=bool)
    try:
        number = float(value)
    except ValueError:
        raise UsageError(f"--where {condition!r}: {value!r} is not a number") from None
    values = _column_values(units, condition, name, gold)
    present = ~np.isnan(values)
    fulfilled: NDArray[np.bool_] = present & compare(np.where(present, values, 0.0), number)
    return fulfilled


def _column_values(units: Units, condition: str, name: str, gold: Floats | None) -> Floats:
    if name == "turn":
        if units.level != "turn":
            raise UsageError(f"--where {condition!r}: a {units.level} has no turn; use --level turn")
        return np.array([key.turn for key in units.keys], dtype=float)
    by_label = {} if gold is None else {"gold": gold}
    by_label |= {label: units.columns[column] for column, label in units.labels().items()}
    full = {f"{column.source}/{column.dimension}": values for column, values in units.columns.items()}
    if name not in by_label and name not in full:
        raise UsageError(f"--where {condition!r}: no column {name!r}; there are: {', '.join(by_label)}")
    return by_label[name] if name in by_label else full[name]
