"""A task with its data: goals, venues, and, if there is a log, its bookings, states and replies.

`TaskReader` reads placeholders, states and domains from the replies of a dialogue. Files of predictions are
not clean: values of an unexpected type or name are left out and counted, never guessed and never an error.
"""

import functools
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dialeval import files
from dialeval.dialogues.datasets.publicset import data_folder
from dialeval.dialogues.datasets.task_oriented import canonical_id
from dialeval.dialogues.tasks.schema import Domain, TaskSchema, open_schema
from dialeval.dialogues.tasks.venues import Venues, open_venues, plain
from dialeval.errors import DataError

T = TypeVar("T")
Slots = dict[str, str]
State = dict[str, Slots]
_Value = str | int | float | bool | list[str] | None


class Goal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The goal of a user in one domain: wishes that a venue must match, and the information to ask for.

    Many goals have a booking. Its slots are not checked: a booking is recognised by its reference.
    """

    informable: dict[str, _Value] = {}
    requestable: list[str] = []
    booking: Any = None

    @property
    def asked(self) -> frozenset[str]:
        """The placeholders that replies must provide."""
        return frozenset(map(str.lower, self.requestable))


@dataclass(frozen=True, eq=False)
class Task:
    """A declaration and the folder of its data; each file is read on first use."""

    schema: TaskSchema
    folder: Path
    goals_path: Path
    sha: str

    @functools.cached_property
    def goals(self) -> dict[str, dict[str, Goal]]:
        """The goal of every dialogue, by domain; ids in lower case without ending."""
        goals = _load(self.goals_path, dict[str, dict[str, Goal]])
        for name, goal in goals.items():
            self.check_goal(goal, self.goals_path, name)
        return dict(self._by_id(self.goals_path, goals))

    def check_goal(self, goal: Mapping[str, Goal], file: object, name: str) -> None:
        """Raise a DataError for a goal with an undeclared domain or placeholder, which is unreachable."""
        for domain, wish in goal.items():
            if domain not in self.schema.domain:
                names = ", ".join(self.schema.domain)
                raise DataError(f"unknown domain {domain!r}; known: {names}", file=file, field=name)
            for slot in wish.requestable:
                if slot.lower() not in self.schema.placeholders:
                    names = ", ".join(self.schema.placeholders)
                    raise DataError(f"unknown placeholder {slot!r}; known: {names}", file=file, field=name)

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
        """The dialogues that a file of predictions should have: those with states, else those with goals."""
        return frozenset(self.goals if self.states is None else self.states)

    def replies_in_log(self, name: str) -> int | None:
        """Return the number of replies in the log of a dialogue; None if there is no log."""
        logs: tuple[Mapping[str, list[Any]] | None, ...] = (self.booked, self.states)
        return next((len(log[name]) for log in logs if log is not None and name in log), None)

    def _optional(self, key: str, shape: type[dict[str, T]]) -> dict[str, T] | None:
        name = getattr(self.schema.files, key)
        if name is None:
            return None
        return dict(self._by_id(self.folder / name, _load(self.folder / name, shape)))

    def _by_id(self, path: Path, entries: Mapping[str, T]) -> Iterator[tuple[str, T]]:
        spellings: dict[str, str] = {}
        for name, item in entries.items():
            folded = canonical_id(name)
            if spellings.setdefault(folded, name) != name:
                raise DataError(f"the same dialogue as {spellings[folded]!r}", file=path, field=name)
            yield folded, item

    @functools.cached_property
    def _slot_names(self) -> dict[str, str]:
        pairs = [(synonym, slot) for slot, synonyms in self.schema.slots.items() for synonym in synonyms]
        return {_squeezed(synonym): slot for synonym, slot in pairs}

    def slot_name(self, written: str) -> str:
        """Return the canonical name of a slot: `pricerange` for `Price Range`."""
        squeezed = _squeezed(written)
        return self._slot_names.get(squeezed, squeezed)

    @functools.cached_property
    def _spellings(self) -> dict[str, dict[str, str]]:
        return {
            slot: {plain(spelling): value for value, spellings in values.items() for spelling in spellings}
            for slot, values in self.schema.spellings.items()
        }

    def value(self, slot: str, written: object) -> str:
        """Return the canonical spelling of a slot's value; for a list, of its first."""
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
        """The valid slots of each domain."""
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
        data: Folder of its files; by default the declaration's, and for MultiWOZ the public set's.
        goals: File of goals instead of the declared one.
        rules: Rules instead of the declared ones.

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
    """Return a key that changes with the content of a file: its path, time and size."""
    if not path.is_file():
        raise DataError(
            "this file of the task is missing", file=path, fix="download it, or give its folder: data=…"
        )
    status = path.stat()
    return str(path), status.st_mtime_ns, status.st_size


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
    replaced = msgspec.structs.replace(declared.rules, **dict(rules))
    digest = hashlib.sha256("".join([sha, *(files.sha256(name) for name, *_ in stamps)]).encode())
    return Task(msgspec.structs.replace(declared, rules=replaced), folder, goals, digest.hexdigest()[:12])


_PLACEHOLDER = re.compile(r"\[([\w .:'/&-]{1,60})\]")
_PLURAL = re.compile(r"\[([\w .:'/&-]{1,60})\](?:-?e?s\b)?")
_SUFFIX = re.compile(r"\s?-(?:s|ly)\b")
_CLITIC = re.compile(r"\s+(n't|'(?:s|re|ve|ll|d|m))\b")


class TaskReader:
    """Reads replies for one task; spellings are cached."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._placeholders: dict[str, str | None] = {}
        self._values: dict[tuple[str, str], str] = {}
        self._slots: dict[str, str] = {}
        self._spelt = {
            spelling: name
            for name, spellings in task.schema.placeholders.items()
            for spelling in (name, *(spelling.lower() for spelling in spellings))
        }
        self._prefixes = (*task.schema.prefixes, *task.schema.domain)

    def placeholders(self, text: str, unknown: "Counter[str]") -> set[str]:
        """Return the placeholders of a reply; undeclared ones are counted in `unknown`."""
        if "[" not in text:
            return set()
        names = set()
        for written in _PLACEHOLDER.findall(text):
            name = self._placeholder(written)
            if name is None:
                unknown[f"[{written}]"] += 1
            else:
                names.add(name)
        return names

    def _placeholder(self, written: str) -> str | None:
        """Return a placeholder by its full spelling, else without a prefix such as `value_` or `hotel_`."""
        if written not in self._placeholders:
            spelt = written.lower().strip()
            name = self._spelt.get(spelt)
            for prefix in self._prefixes if name is None else ():
                if spelt.startswith(f"{prefix}_"):
                    name = self._spelt.get(spelt[len(prefix) + 1 :])
                    break
            self._placeholders[written] = name
        return self._placeholders[written]

    def text(self, reply: str) -> str:
        """Return a reply in normal form, so that differently delexicalised files can be compared by words.

        Lower case, placeholders by their canonical name in capitals and without plural, no `-s` or `-ly` left
        over by delexicalisation, `don't` for `do n't`.
        """
        named = _PLURAL.sub(lambda match: (self._placeholder(match[1]) or "").upper(), reply.lower())
        return _CLITIC.sub(r"\1", _SUFFIX.sub("", named))

    def state(self, raw_state: object, before: tuple[Any, State], unknown: "Counter[str]") -> State:
        """Return a state with canonical slots and values; `before` is the previous one, raw and clean."""
        if not isinstance(raw_state, Mapping):
            unknown["state is not an object"] += raw_state is not None
            return {}
        raw, clean = before
        cleaned: State = {}
        for domain, slots in raw_state.items():
            if isinstance(raw, Mapping) and domain in clean and raw.get(domain) == slots:
                cleaned[domain] = clean[domain]
            elif isinstance(slots, Mapping):
                cleaned[domain.lower()] = self._slots_of(slots)
            else:
                unknown[f"{domain} is not an object"] += 1
        return cleaned

    def _slots_of(self, slots: Mapping[str, Any]) -> Slots:
        values = {}
        for written, value in slots.items():
            slot = self._slots.get(written) or self._slots.setdefault(written, self.task.slot_name(written))
            if isinstance(value, str):
                key = (slot, value)
                if key not in self._values:
                    self._values[key] = self.task.value(slot, value)
                values[slot] = self._values[key]
            elif value is not None and value != []:
                values[slot] = self.task.value(slot, value)
        return values


def active_domains(states: Iterable[State]) -> list[tuple[str, ...]]:
    """Return the estimated domain of each reply: the one whose state changed last.

    If several change at once, the current one is kept if it is among them, else the one with most slots is
    taken. If nothing changes, and several changed the time before, the next of those follows.

    >>> hotel, train = {"area": "east"}, {"day": "monday"}
    >>> active_domains([{}, {"hotel": hotel}, {"hotel": hotel, "train": train}, {"hotel": hotel}])
    [(), ('hotel',), ('train',), ('train',)]
    """
    current: str | None = None
    old: State = {}
    waiting: Sequence[str] = ()
    active: list[tuple[str, ...]] = []
    for state in states:
        changed = [domain for domain, slots in state.items() if slots.items() - old.get(domain, {}).items()]
        if changed and current not in changed:
            current = max(changed, key=lambda domain: len(state[domain]))
        elif not changed and current is not None and len(waiting) > 1:
            others = [domain for domain in waiting if domain in state and domain != current]
            current = others[0] if others else current
        if current is not None:
            old, waiting = state, changed
        active.append(() if current is None else (current,))
    return active
