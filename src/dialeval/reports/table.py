"""Tables as data, which are rendered as HTML, Markdown, LaTeX and on the terminal.

Numbers are formatted here, once. An undefined number is a dash with its reason, never NaN and never blank.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import floor
from operator import attrgetter
from typing import Any, NamedTuple

from dialeval.statistics import Estimate
from dialeval.studies.excerpts import TurnValue
from dialeval.studies.findings import Correlation, SystemMean
from dialeval.studies.turn_scores import TurnScale

DASH = "\N{EN DASH}"
Writer = Callable[[float], str]
MARKS_EXPLAINED = "* p < .05, ** p < .01, *** p < .001"


@dataclass(frozen=True, slots=True)
class TableCell:
    """One cell.

    Attributes:
        text: The text; names are unchanged, numbers formatted.
        small: Smaller text beside it: an interval, n, the reason for a dash.
        mark: Significance stars.
        tone: A step from -4 to 4 on the colour scale, or None.
        bar: A point with its interval, drawn in HTML only.
    """

    text: str
    small: str = ""
    mark: str = ""
    tone: int | None = None
    bar: tuple[float | None, float | None, float | None] | None = None
    strong: bool = False


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column's heading, and whether it holds numbers (aligned right), names, or bars (HTML only)."""

    head: str
    kind: str = "number"


@dataclass(frozen=True, slots=True)
class Axis:
    """The scale under a column of bars."""

    low: float
    high: float
    ticks: tuple[float, ...]
    marker: float | None = None
    band: tuple[float, float] | None = None

    def place(self, value: float) -> float:
        """Return the position of a value in per cent of the width."""
        share = (value - self.low) / (self.high - self.low)
        return round(100 * min(1.0, max(0.0, share)), 2)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns, with a title, notes and, if a column holds bars, their axis."""

    name: str
    title: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    notes: tuple[str, ...] = ()
    axis: Axis | None = None
    rated: bool = False

    def plain(self) -> "Table":
        """Return the table without columns that only a browser can draw."""
        shown = [number for number, column in enumerate(self.columns) if column.kind != "bar"]
        return replace(
            self,
            columns=tuple(self.columns[number] for number in shown),
            rows=tuple(tuple(row[number] for number in shown) for row in self.rows),
        )

    def cut(self, most: int, note: str) -> "Table":
        """Return the first rows, with an additional note."""
        return replace(self, rows=self.rows[:most], notes=(*self.notes, note))


Shown = TableCell | Estimate | str | int | None
"""The value of a column for a record: a ready cell, an estimate, a name, an integer, or nothing."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column over records: its heading, its kind, and the function that returns its value."""

    column: TableColumn
    show: Callable[[Any], Shown]
    strong: bool = False

    def cell(self, record: Any) -> TableCell:
        """Return the cell of one record."""
        value = self.show(record)
        if isinstance(value, Estimate):
            return estimate_cell(value)
        if isinstance(value, int):
            return TableCell(f"{value:,}")
        cell = value if isinstance(value, TableCell) else TableCell(DASH if value is None else value)
        return replace(cell, strong=True) if self.strong else cell


class OfSource(NamedTuple):
    """A record of a table: a finding and the source that it is about."""

    source: str
    found: Any


def named(
    head: str, show: str | Callable[[Any], Shown], kind: str = "name", *, strong: bool = False
) -> Field:
    """Return a column of names, given by an attribute of the records or by a function."""
    return Field(TableColumn(head, kind), attrgetter(show) if isinstance(show, str) else show, strong)


def number(head: str, show: str | Callable[[Any], Shown]) -> Field:
    """Return a column of numbers."""
    return named(head, show, "number")


def numbers(heads: Sequence[str], show: Callable[[Any, int], Shown]) -> list[Field]:
    """Return several columns of numbers; `show` gets the record and the index of the column."""

    def at(index: int) -> Callable[[Any], Shown]:
        return lambda record: show(record, index)

    return [number(head, at(index)) for index, head in enumerate(heads)]


def tabulate(
    name: str,
    title: str,
    records: Iterable[Any],
    *fields: Field,
    notes: Sequence[str] = (),
    axis: "Axis | None" = None,
    rated: bool = False,
) -> "Table | None":
    """Return a table with a row for each record; None if there are none.

    >>> table = tabulate("t", "Words", ["a", "bcd"], named("Word", lambda word: word), number("n", len))
    >>> [[cell.text for cell in row] for row in table.rows]
    [['a', '1'], ['bcd', '3']]
    """
    rows = tuple(tuple(field.cell(record) for field in fields) for record in records)
    columns = tuple(field.column for field in fields)
    return Table(name, title, columns, rows, tuple(notes), axis, rated) if rows else None


def counts(row: Correlation | SystemMean) -> str:
    """Return the numbers of scored and unscored units as text."""
    return f"n {row.n:,}, unscored {row.n_unscored:,}"


def undefined(reason: str | None) -> TableCell:
    """Return a dash with the reason."""
    return TableCell(DASH, small=reason or "undefined")


def decimal(value: float | None, places: int = 3) -> str:
    """Format a number with fixed places; never a negative zero.

    >>> decimal(-0.0001), decimal(0.5, 2), decimal(None) == DASH
    ('0.000', '0.50', True)
    """
    if value is None:
        return DASH
    text = f"{value:.{places}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def figure(value: float | None, like: float | None = None) -> str:
    """Format a number with about three significant digits; `like` sets the magnitude that digits are for.

    >>> [figure(v) for v in (1234.5, 12.345, 1.2345, 0.01234, 0.0001234, 0.0)]
    ['1,234.5', '12.35', '1.23', '0.012', '1.2e-04', '0']
    >>> [figure(v, like=2) for v in (0.0, 0.333, 2.0)]
    ['0.00', '0.33', '2.00']
    """
    if value is None:
        return DASH
    size = abs(value if like is None else like)
    if size == 0:
        return "0"
    if size >= 1e6 or 0 < size < 0.001:
        return f"{value:.1e}"
    return f"{value:,.1f}" if size >= 100 else decimal(value, 2 if size >= 1 else 3)


def p_value(p: float | None) -> str:
    """Format a p-value.

    >>> p_value(0.00002), p_value(0.0312), p_value(None) == DASH
    ('<.001', '.031', True)
    """
    if p is None:
        return DASH
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0") if p < 0.9995 else "1.000"


def stars(p: float | None) -> str:
    """Return the significance stars of a p-value.

    >>> stars(0.03), stars(0.0001), stars(0.2)
    ('*', '***', '')
    """
    return "" if p is None else "*" * sum(p < limit for limit in (0.05, 0.01, 0.001))


def interval(estimate: Estimate, write: Writer = decimal) -> str:
    """Format the interval of an estimate, or the reason that there is none."""
    if estimate.low is None or estimate.high is None:
        return estimate.reason or ""
    return f"[{write(estimate.low)}, {write(estimate.high)}]"


def estimate_cell(
    estimate: Estimate, write: Writer = decimal, *, marked: bool = False, tone: bool = False
) -> TableCell:
    """Return the cell of an estimate: value, interval and stars, or a dash with the reason."""
    if estimate.value is None:
        return undefined(estimate.reason)
    return TableCell(
        write(estimate.value),
        small=interval(estimate, write),
        mark=stars(estimate.p) if marked else "",
        tone=correlation_tone(estimate.value) if tone else None,
    )


def p_cell(p: float | None, reason: str | None = None) -> TableCell:
    """Return the cell of a p-value with its stars."""
    return undefined(reason) if p is None else TableCell(p_value(p), mark=stars(p))


def bar_cell(estimate: Estimate) -> TableCell:
    """Return a cell that is drawn as a point with its interval."""
    return TableCell("", bar=(estimate.low, estimate.value, estimate.high))


def correlation_tone(value: float | None) -> int | None:
    """Return the step of a correlation on the colour scale.

    >>> [correlation_tone(r) for r in (-1.0, -0.3, 0.05, 0.55, 0.9)]
    [-4, -2, 0, 3, 4]
    """
    if value is None:
        return None
    step = sum(abs(value) >= limit for limit in (0.1, 0.25, 0.5, 0.75))
    return step if value > 0 else -step


def axis_over(values: Sequence[float]) -> Axis | None:
    """Return an axis with round ticks that covers all values.

    >>> axis_over([0.13, 0.88]).ticks
    (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    """
    if not values:
        return None
    import numpy as np

    low, high = min(values), max(values)
    if high - low < 1e-9 * max(1.0, abs(high)):
        low, high = low - 0.5, high + 0.5
    raw = (high - low) / 4
    if not np.isfinite(raw):
        return None
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw)
    first, last = np.floor(low / step + 1e-9), np.ceil(high / step - 1e-9)
    ticks = tuple(float(f"{number * step:.10g}") for number in np.arange(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks)


def ends(estimates: Sequence[Estimate]) -> list[float]:
    """Return all values and interval ends of estimates."""
    return [end for e in estimates for end in (e.low, e.value, e.high) if end is not None]


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours of a turn score, from its worst end (orange) to its best (blue)."""

    scale: TurnScale

    @property
    def label(self) -> str:
        """The name in the legend."""
        return self.scale.label

    @property
    def worst_end(self) -> str:
        """The value at the orange end."""
        return self.write(self.scale.high if self.scale.lower_is_better else self.scale.low)

    @property
    def best_end(self) -> str:
        """The value at the blue end."""
        return self.write(self.scale.low if self.scale.lower_is_better else self.scale.high)

    def write(self, value: float) -> str:
        """Format a value with the places that fit the scale."""
        return figure(value, max(abs(self.scale.low), abs(self.scale.high)))

    def text(self, score: TurnValue) -> str:
        """Format the score of a turn, or `unscored`."""
        return "unscored" if score.value is None else self.write(score.value)

    def tone_of(self, score: TurnValue) -> int | None:
        """Return the step of a turn's score on the colour scale."""
        return None if score.value is None else self.tone(score.value)

    def tone(self, value: float) -> int:
        """Return the step of a value on the colour scale.

        >>> palette = Palette(TurnScale("human", "quality", 0, 2))
        >>> [palette.tone(value) for value in (0, 0.5, 1, 1.4, 2)]
        [-4, -2, 0, 2, 4]
        """
        low, high = self.scale.low, self.scale.high
        share = 0.5 if high <= low else (value - low) / (high - low)
        step = min(8, max(0, floor(share * 9))) - 4
        return -step if self.scale.lower_is_better else step
