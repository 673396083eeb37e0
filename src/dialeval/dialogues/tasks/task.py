"""A task with its data: goals, venues, and, where a log is at hand, what was booked, known and said in it."""

import functools
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dialeval import files
from dialeval.dialogues.datasets.multiwoz import canonical_id
from dialeval.dialogues.datasets.publicset import data_folder
from dialeval.dialogues.tasks.schema import Domain, Schema, open_schema
from dialeval.dialogues.tasks.venues import Venues, open_venues
from dialeval.dialogues.tasks.wishes import plain
from dialeval.errors import DataError

T = TypeVar("T")
Slots = dict[str, str]
State = dict[str, Slots]
_Value = str | int | float | bool | list[str] | None


class Goal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a user wants of one domain: wishes that a venue must fit, and what must be told about it.

    What to book is part of many goals. It is not checked: a booking shows by its reference.
    """

    informable: dict[str, _Value] = {}
    requestable: list[str] = []
    booking: Any = None

    @property
    def asked(self) -> frozenset[str]:
        """The placeholders that must be given."""
        return frozenset(map(str.lower, self.requestable))


@dataclass(frozen=True, eq=False)
class Task:
    """A declaration and the folder of its data; each file is read when it is asked for."""

    schema: Schema
    folder: Path
    goals_path: Path
    sha: str

    @functools.cached_property
    def goals(self) -> dict[str, dict[str, Goal]]:
        """The goal of every dialogue, by domain; ids without case and ending."""
        found = _load(self.goals_path, dict[str, dict[str, Goal]])
        for name, goal in found.items():
            self.check_goal(goal, self.goals_path, name)
        return dict(self._by_id(self.goals_path, found))

    def check_goal(self, goal: Mapping[str, Goal], file: object, name: str) -> None:
        """Refuse a goal that asks for what the declaration does not know: it could never be reached."""
        for domain, wanted in goal.items():
            if domain not in self.schema.domain:
                known = ", ".join(self.schema.domain)
                raise DataError(f"no domain {domain!r}; there are: {known}", file=file, field=name)
            for slot in wanted.requestable:
                if slot.lower() not in self.schema.placeholders:
                    known = ", ".join(self.schema.placeholders)
                    raise DataError(f"no placeholder {slot!r}; there are: {known}", file=file, field=name)

    @functools.cached_property
    def venues(self) -> dict[str, Venues]:
        """The tables of the domains that have one."""
        return {
            name: open_venues(self.folder / domain.table, domain, self.schema, self.slot_name)
            for name, domain in self.schema.domain.items()
            if domain.table is not None
        }

    @functools.cached_property
    def booked(self) -> dict[str, list[list[str]]] | None:
        """The domains that were booked by each reply of the log, if there is a log."""
        return self._optional("booked", dict[str, list[list[str]]])

    @functools.cached_property
    def states(self) -> dict[str, list[dict[str, dict[str, Any]]]] | None:
        """The gold state at each reply of the log, if there is a log."""
        return self._optional("states", dict[str, list[dict[str, dict[str, Any]]]])

    @functools.cached_property
    def references(self) -> dict[str, list[str]] | None:
        """The log's own replies, delexicalised, if there is a log."""
        return self._optional("references", dict[str, list[str]])

    @functools.cached_property
    def expected(self) -> frozenset[str]:
        """The dialogues that a file of predictions should hold: those with states, else those with goals."""
        return frozenset(self.goals if self.states is None else self.states)

    def replies_in_log(self, name: str) -> int | None:
        """Say how many replies the log of a dialogue has, if there is a log."""
        logs: tuple[Mapping[str, list[Any]] | None, ...] = (self.booked, self.states)
        return next((len(log[name]) for log in logs if log is not None and name in log), None)

    def _optional(self, key: str, shape: type[dict[str, T]]) -> dict[str, T] | None:
        name = getattr(self.schema.files, key)
        if name is None:
            return None
        return dict(self._by_id(self.folder / name, _load(self.folder / name, shape)))

    def _by_id(self, path: Path, found: Mapping[str, T]) -> Iterator[tuple[str, T]]:
        seen: dict[str, str] = {}
        for name, item in found.items():
            folded = canonical_id(name)
            if seen.setdefault(folded, name) != name:
                raise DataError(f"the same dialogue as {seen[folded]!r}", file=path, field=name)
            yield folded, item

    @functools.cached_property
    def _slot_names(self) -> dict[str, str]:
        pairs = [(other, slot) for slot, others in self.schema.slots.items() for other in others]
        return {_squeezed(other): slot for other, slot in pairs}

    def slot_name(self, written: str) -> str:
        """Write the name of a slot in one way, `Price Range` as `pricerange`."""
        squeezed = _squeezed(written)
        return self._slot_names.get(squeezed, squeezed)

    @functools.cached_property
    def _spellings(self) -> dict[str, dict[str, str]]:
        return {
            slot: {plain(other): value for value, others in values.items() for other in others}
            for slot, values in self.schema.spellings.items()
        }

    def value(self, slot: str, written: object) -> str:
        """Write the value of a slot in one way; of a list, the first."""
        if isinstance(written, list):
            written = written[0] if written else ""
        text = plain(written if isinstance(written, str) else "" if written is None else str(written))
        return self._spellings.get(slot, {}).get(text, text)

    def wishes(self, goal: Goal) -> Slots:
        """Return the wishes of a goal, as `Venues.query` takes them."""
        named = ((self.slot_name(slot), value) for slot, value in goal.informable.items())
        return {slot: self.value(slot, value) for slot, value in named}

    @functools.cached_property
    def known_slots(self) -> dict[str, frozenset[str]]:
        """The slots that each domain knows."""
        return {name: _slots_of(domain) for name, domain in self.schema.domain.items()}


def _squeezed(name: str) -> str:
    return name.lower().replace(" ", "")


def _slots_of(domain: Domain) -> frozenset[str]:
    return frozenset((*domain.slots, *domain.other, *domain.booking, *domain.told))


def _load(path: Path, shape: type[T]) -> T:
    with files.open_binary(path) as file:
        data = file.read()
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(str(error), file=path, fix="see docs/tasks.md") from None


def open_task(
    schema: str = "multiwoz",
    data: str | None = None,
    goals: str | None = None,
    rules: Mapping[str, str] | None = None,
) -> Task:
    """Open a task by the name or path of its declaration.

    Args:
        schema: A shipped declaration, or the path of one.
        data: Folder of its files; by default that of the declaration, and for MultiWOZ the public set's.
        goals: File of goals in place of the declared one.
        rules: Rules in place of the declared ones.

    >>> task = open_task("example")
    >>> task.venues["cafe"].names(task.venues["cafe"].query({"area": "harbour"}))
    ['c1', 'c4']
    """
    declared, path, sha = open_schema(schema)
    folder = Path(data) if data else data_folder() / "multiwoz" if schema == "multiwoz" else path.parent
    goals_path = Path(goals) if goals else folder / declared.files.goals
    named = [declared.files.booked, declared.files.states, declared.files.references]
    tables = [domain.table for domain in declared.domain.values()]
    paths = (goals_path, *(folder / name for name in (*named, *tables) if name is not None))
    chosen = tuple(sorted((rules or {}).items()))
    return _opened(str(path), chosen, folder, goals_path, sha, tuple(map(_stamp, paths)))


def _stamp(path: Path) -> tuple[str, int, int]:
    """Tell a file from what was there before under the same name."""
    if not path.is_file():
        raise DataError(
            "this file of the task is missing", file=path, fix="get it, or name its folder: data=…"
        )
    found = path.stat()
    return str(path), found.st_mtime_ns, found.st_size


@functools.lru_cache(maxsize=8)
def _opened(
    path: str,
    rules: tuple[tuple[str, str], ...],
    folder: Path,
    goals: Path,
    sha: str,
    stamps: tuple[tuple[str, int, int], ...],
) -> Task:
    declared = open_schema(path)[0]
    kept = msgspec.structs.replace(declared.rules, **dict(rules))
    digest = hashlib.sha256("".join([sha, *(files.sha256(one) for one, *_ in stamps)]).encode())
    return Task(msgspec.structs.replace(declared, rules=kept), folder, goals, digest.hexdigest()[:12])
