"""Tables of venues, indexed so that a wish is looked up once and a query is a bitwise "and".

A wish matches a cell by one of four comparisons: equal, close in spelling, at least, at most.
"""

import csv
import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dialeval import files
from dialeval.dialogues.tasks.schema import Domain, TaskSchema
from dialeval.errors import DataError

_TIME = re.compile(r"(\d{1,2})\s*[:.]\s*(\d{2})(?!\d)")
_COMPACT = re.compile(r"(?<!\d)(\d{1,2})(\d{2})(?!\d)")
_HOUR = re.compile(r"\d{1,2}")
_EXACT = re.compile(r"(\d\d):(\d\d)")
_HALF = re.compile(r"([ap])\.?\s?m\b\.?")
_PARTS_OF_DAY = {
    "morning": 8 * 60,
    "noon": 12 * 60,
    "mid-day": 12 * 60,
    "lunch": 12 * 60,
    "afternoon": 13 * 60,
}
CLOSE = 0.9  # least share of the shorter text that must occur in the longer one


def plain(text: str) -> str:
    """Return a value in normal form: lower case, single blanks, `and` for `&`, no blank before an apostrophe.

    >>> plain(" Rosa 's  B&B ")
    "rosa's b and b"
    """
    return " ".join(text.lower().replace("&", " and ").replace(" '", "'").split())


def minutes(text: str, exact: bool = False) -> int | None:
    """Return a time of day as minutes after midnight; None if there is none, or if `exact` and not HH:MM.

    >>> [minutes(text) for text in ("17:15", "after 5:15 pm", "9", "1730", "lunch", "soon")]
    [1035, 1035, 540, 1050, 720, None]
    >>> minutes("after 5:15 pm", exact=True) is None
    True
    """
    if exact:
        match = _EXACT.fullmatch(text)
        return int(match[1]) * 60 + int(match[2]) if match else None
    if match := _TIME.search(text) or _COMPACT.search(text):
        hour, minute = int(match[1]), int(match[2])
    elif match := _HOUR.search(text):
        hour, minute = int(match[0]), 0
    else:
        return next((at for words, at in _PARTS_OF_DAY.items() if words in text), None)
    half = _HALF.search(text, match.end())
    if half and half[1] == "p" and hour < 12:
        hour += 12
    return hour * 60 + minute


def number(text: str) -> float | None:
    """Return the first number of a text.

    >>> number("23.60 pounds"), number("many")
    (23.6, None)
    """
    match = re.search(r"-?\d+(?:\.\d+)?", text)
    return float(match[0]) if match else None


def closeness(first: str, second: str) -> float:
    """Return the share of the shorter text that is a subsequence of the best window of the longer one.

    >>> closeness("gandhi", "the gandhi"), closeness("", "pub")
    (1.0, 0.0)
    >>> round(closeness("city center", "city centre"), 3)
    0.909
    """
    shorter, longer = (first, second) if len(first) <= len(second) else (second, first)
    if not shorter or shorter in longer:
        return float(bool(shorter))
    size, places = len(shorter), _places(shorter)
    windows = (longer[at : at + size] for at in range(len(longer) - size + 1))
    return max(_in_order(places, size, window) for window in windows) / size


def close(first: str, second: str) -> bool:
    """Return whether two texts are close; a comparison with the whole longer one comes first, to save time.

    >>> close("city center", "city centre"), close("city centre", "river bar")
    (True, False)
    """
    shorter, longer = (first, second) if len(first) <= len(second) else (second, first)
    if not shorter or shorter in longer:
        return bool(shorter)
    return (
        _in_order(_places(shorter), len(shorter), longer) >= CLOSE * len(shorter)
        and closeness(first, second) >= CLOSE
    )


@functools.lru_cache(maxsize=4096)
def _places(text: str) -> dict[str, int]:
    """Return the places of each letter as bits."""
    places: dict[str, int] = {}
    for place, letter in enumerate(text):
        places[letter] = places.get(letter, 0) | 1 << place
    return places


def _in_order(places: dict[str, int], size: int, text: str) -> int:
    """Return the length of the longest common subsequence, with the rows of the usual table as bits."""
    row = full = (1 << size) - 1
    for letter in text:
        if match := row & places.get(letter, 0):
            row = ((row + match) | (row - match)) & full
    return size - row.bit_count()


_MOST = 1 << 16  # cached queries
_LIST = '[{"id": …, …}, …]'


class Venues:
    """The venues of a domain as bits: the matches of each wish are cached, a query is their "and"."""

    def __init__(
        self, domain: Domain, rows: list[dict[str, Any]], schema: TaskSchema, file: object = None
    ) -> None:
        self.ways, self._any = domain.slots, frozenset(map(plain, schema.any))
        self._exact = schema.rules.times == "exact"
        names = [str(row[domain.id]) for row in rows]
        places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        self.ids = tuple(places)
        self._of_row = [1 << places[name] for name in names]
        self._unique = len(places) == len(names)
        self._cells: dict[str, dict[str, int]] = {}
        self._free: dict[str, int] = {}
        blank = frozenset(map(plain, schema.blank))
        for slot in domain.slots:
            if not any(slot in row for row in rows):
                raise DataError(f"no column {slot!r}", file=file, fix="see slots in its declaration")
            self._index(slot, [row.get(slot) for row in rows], blank)
        self._limits = {
            slot: [(_quantity(cell), rows_with) for cell, rows_with in self._cells[slot].items()]
            for slot, way in self.ways.items()
            if way in ("at-least", "at-most")
        }
        self._wishes: dict[tuple[str, str], int] = {}
        self._queries: dict[frozenset[tuple[str, str]], int] = {}

    def _index(self, slot: str, cells: list[Any], blank: frozenset[str]) -> None:
        """Index the rows by the values of a column, and the rows that match every wish."""
        rows_with: dict[str, int] = {}
        free = 0
        for place, cell in enumerate(cells):
            for item in cell if isinstance(cell, list) else [cell]:
                value = plain("" if item is None else str(item))
                if value in blank:
                    free |= 1 << place
                rows_with[value] = rows_with.get(value, 0) | 1 << place
        self._cells[slot], self._free[slot] = rows_with, free

    def query(self, wishes: Mapping[str, str]) -> int:
        """Return the venues that match all wishes, as bits in the order of `ids`; other slots are ignored."""
        key = frozenset(item for item in wishes.items() if item[0] in self.ways)
        venues = self._queries.get(key)
        if venues is None:
            if len(self._queries) >= _MOST:
                self._queries.clear()
                self._wishes.clear()
            venues = self._queries[key] = self._search(key)
        return venues

    def names(self, venues: int) -> list[str]:
        """Return the ids of the venues of a result."""
        return [name for place, name in enumerate(self.ids) if venues >> place & 1]

    def _search(self, wishes: Iterable[tuple[str, str]]) -> int:
        rows = (1 << len(self._of_row)) - 1
        for wish in wishes:
            if wish not in self._wishes:
                self._wishes[wish] = self._fitting(*wish)
            rows &= self._wishes[wish]
        if self._unique:
            return rows
        venues = 0
        while rows:
            last = rows.bit_length() - 1
            venues |= self._of_row[last]
            rows ^= 1 << last
        return venues

    def _fitting(self, slot: str, wish: str) -> int:
        """Return the rows that match one wish."""
        value, way, cells = plain(wish), self.ways[slot], self._cells[slot]
        if value in self._any:
            return (1 << len(self._of_row)) - 1
        matching = self._free[slot]
        if way == "equal":
            return matching | cells.get(value, 0)
        near = (rows for cell, rows in cells.items() if close(value, cell))
        for rows in near if way == "close" else self._in_limit(slot, value, way):
            matching |= rows
        return matching

    def _in_limit(self, slot: str, wish: str, way: str) -> Iterator[int]:
        """Yield the rows within a limit; a limit that cannot be read is zero (midnight)."""
        limits = {True: minutes(wish, self._exact) or 0, False: number(wish) or 0}
        for (is_time, quantity), rows in self._limits[slot]:
            if quantity is not None:
                limit = limits[is_time]
                if quantity >= limit if way == "at-least" else quantity <= limit:
                    yield rows


def _quantity(cell: str) -> tuple[bool, float | None]:
    """Return whether a cell is a time of day, and its value; other cells are numbers."""
    time = minutes(cell, exact=True)
    return (True, time) if time is not None else (False, number(cell))


def open_venues(path: Path, domain: Domain, schema: TaskSchema, slot_name: Callable[[str], str]) -> Venues:
    """Read a table of venues: a JSON list, JSON lines, or CSV; columns are named as slots are."""
    read = _rows(path)
    names = {key: slot_name(str(key)) for key in dict.fromkeys(key for row in read for key in row)}
    rows = [{names[key]: cell for key, cell in row.items()} for row in read]
    column = slot_name(domain.id)
    for place, row in enumerate(rows, 1):
        if row.get(column) in (None, ""):
            raise DataError("venue without an id", file=path, line=place, field=domain.id)
    if column != domain.id:
        rows = [{**row, domain.id: row[column]} for row in rows]
    return Venues(domain, rows, schema, path)


def _rows(path: Path) -> list[dict[str, Any]]:
    with files.open_binary(path) as file:
        data = file.read()
    try:
        text = data.decode("utf-8-sig")
        if path.name.removesuffix(".gz").endswith(".csv"):
            return [dict(row) for row in csv.DictReader(text.splitlines())]
        if text.lstrip()[:1] == "[":
            rows = json.loads(text)
        else:
            rows = [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ValueError, csv.Error, RecursionError) as error:
        raise DataError(f"not a table of venues: {error}", file=path, fix=_LIST) from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError("not a table of venues: expected a list of objects", file=path, fix=_LIST)
    return rows
