"""Tables of venues, indexed so that a wish is looked up once and a query is a bitwise "and"."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dialeval import files
from dialeval.dialogues.tasks.schema import Domain, Schema
from dialeval.dialogues.tasks.wishes import close, minutes, number, plain
from dialeval.errors import DataError

_MOST = 1 << 16  # queries that are remembered
_LIST = '[{"id": …, …}, …]'


class Venues:
    """The venues of a domain as bits: what fits each wish is found once, what fits all is their "and"."""

    def __init__(
        self, domain: Domain, rows: list[dict[str, Any]], schema: Schema, file: object = None
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
                raise DataError(
                    f"no column {slot!r} in this table", file=file, fix="see slots in its declaration"
                )
            self._index(slot, [row.get(slot) for row in rows], blank)
        self._limits = {
            slot: [(_quantity(cell), held) for cell, held in self._cells[slot].items()]
            for slot, way in self.ways.items()
            if way in ("at-least", "at-most")
        }
        self._wishes: dict[tuple[str, str], int] = {}
        self._queries: dict[frozenset[tuple[str, str]], int] = {}

    def _index(self, slot: str, cells: list[Any], blank: frozenset[str]) -> None:
        """Note which rows hold each value of a column, and which fit every wish."""
        held: dict[str, int] = {}
        free = 0
        for place, cell in enumerate(cells):
            for one in cell if isinstance(cell, list) else [cell]:
                value = plain("" if one is None else str(one))
                if value in blank:
                    free |= 1 << place
                held[value] = held.get(value, 0) | 1 << place
        self._cells[slot], self._free[slot] = held, free

    def query(self, wishes: Mapping[str, str]) -> int:
        """Return the venues that fit all wishes, as bits by their place in `ids`; only known slots count."""
        key = frozenset(item for item in wishes.items() if item[0] in self.ways)
        found = self._queries.get(key)
        if found is None:
            if len(self._queries) >= _MOST:
                self._queries.clear()
                self._wishes.clear()
            found = self._queries[key] = self._search(key)
        return found

    def names(self, found: int) -> list[str]:
        """Name the venues of a result."""
        return [name for place, name in enumerate(self.ids) if found >> place & 1]

    def _search(self, wishes: Iterable[tuple[str, str]]) -> int:
        rows = (1 << len(self._of_row)) - 1
        for wish in wishes:
            if wish not in self._wishes:
                self._wishes[wish] = self._fitting(*wish)
            rows &= self._wishes[wish]
        if self._unique:
            return rows
        found = 0
        while rows:
            last = rows.bit_length() - 1
            found |= self._of_row[last]
            rows ^= 1 << last
        return found

    def _fitting(self, slot: str, wish: str) -> int:
        """Find the rows that fit one wish."""
        value, way, cells = plain(wish), self.ways[slot], self._cells[slot]
        if value in self._any:
            return (1 << len(self._of_row)) - 1
        found = self._free[slot]
        if way == "equal":
            return found | cells.get(value, 0)
        near = (held for cell, held in cells.items() if close(value, cell))
        for held in near if way == "close" else self._in_limit(slot, value, way):
            found |= held
        return found

    def _in_limit(self, slot: str, wish: str, way: str) -> Iterator[int]:
        """Find the cells on the right side of a limit; one that cannot be read is zero (midnight)."""
        limits = {True: minutes(wish, self._exact) or 0, False: number(wish) or 0}
        for (is_time, quantity), held in self._limits[slot]:
            if quantity is not None:
                limit = limits[is_time]
                if quantity >= limit if way == "at-least" else quantity <= limit:
                    yield held


def _quantity(cell: str) -> tuple[bool, float | None]:
    """Read a cell as a time of day if it is one, else as a number."""
    time = minutes(cell, exact=True)
    return (True, time) if time is not None else (False, number(cell))


def open_venues(path: Path, domain: Domain, schema: Schema, slot_name: Callable[[str], str]) -> Venues:
    """Read a table of venues: a JSON list, JSON lines, or CSV; columns are named as slots are."""
    read = _rows(path)
    names = {key: slot_name(str(key)) for key in dict.fromkeys(key for row in read for key in row)}
    rows = [{names[key]: cell for key, cell in row.items()} for row in read]
    column = slot_name(domain.id)
    for place, row in enumerate(rows, 1):
        if row.get(column) in (None, ""):
            raise DataError("a venue without an id", file=path, line=place, field=domain.id)
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
        raise DataError("not a table of venues: a list of objects is expected", file=path, fix=_LIST)
    return rows
