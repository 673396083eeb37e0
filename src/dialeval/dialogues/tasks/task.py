"""A task with its data: goals, venues, and, where a log is at hand, what was booked, known and said in it.

`TaskReader` finds in the replies of a dialogue what they give and know: placeholders, states, and domains.
People's files are not clean: whatever is not of the expected type or name is left out and said, never
guessed at and never an error.
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
    """The goal of a user in one domain: wishes that a venue must fit, and what must be told about it.

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

    schema: TaskSchema
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
        """Return how many replies the log of a dialogue has, None if there is no log."""
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
    """Return a key that changes when a file does, though its name stays."""
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


_PLACEHOLDER = re.compile(r"\[([\w .:'/&-]{1,60})\]")
_PLURAL = re.compile(r"\[([\w .:'/&-]{1,60})\](?:-?e?s\b)?")
_SUFFIX = re.compile(r"\s?-(?:s|ly)\b")
_CLITIC = re.compile(r"\s+(n't|'(?:s|re|ve|ll|d|m))\b")


class TaskReader:
    """Reads replies for one task, remembering every spelling it has seen."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._placeholders: dict[str, str | None] = {}
        self._values: dict[tuple[str, str], str] = {}
        self._slots: dict[str, str] = {}
        self._spelt = {
            other: name
            for name, others in task.schema.placeholders.items()
            for other in (name, *(other.lower() for other in others))
        }
        self._prefixes = (*task.schema.prefixes, *task.schema.domain)

    def placeholders(self, text: str, unknown: "Counter[str]") -> set[str]:
        """Return what a reply gives; placeholders that the declaration does not have are counted."""
        if "[" not in text:
            return set()
        found = set()
        for written in _PLACEHOLDER.findall(text):
            name = self._placeholder(written)
            if name is None:
                unknown[f"[{written}]"] += 1
            else:
                found.add(name)
        return found

    def _placeholder(self, written: str) -> str | None:
        """Find a placeholder by its full spelling, else without a prefix such as `value_` or `hotel_`."""
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
        """Write a reply so that files which delexicalise in different ways can be compared by words.

        Lower case, placeholders by their one name in capitals and without a plural, no `-s` or `-ly` left
        over by delexicalisation, `do n't` as `don't`.
        """
        named = _PLURAL.sub(lambda found: (self._placeholder(found[1]) or "").upper(), reply.lower())
        return _CLITIC.sub(r"\1", _SUFFIX.sub("", named))

    def state(self, given: object, before: tuple[Any, State], unknown: "Counter[str]") -> State:
        """Clean a state: slots and values in one way; `before` is the last one, raw and clean, for reuse."""
        if not isinstance(given, Mapping):
            unknown["state is not an object"] += given is not None
            return {}
        raw, clean = before
        found: State = {}
        for domain, slots in given.items():
            if isinstance(raw, Mapping) and domain in clean and raw.get(domain) == slots:
                found[domain] = clean[domain]
            elif isinstance(slots, Mapping):
                found[domain.lower()] = self._slots_of(slots)
            else:
                unknown[f"{domain} is not an object"] += 1
        return found

    def _slots_of(self, slots: Mapping[str, Any]) -> Slots:
        found = {}
        for written, value in slots.items():
            slot = self._slots.get(written) or self._slots.setdefault(written, self.task.slot_name(written))
            if isinstance(value, str):
                key = (slot, value)
                if key not in self._values:
                    self._values[key] = self.task.value(slot, value)
                found[slot] = self._values[key]
            elif value is not None and value != []:
                found[slot] = self.task.value(slot, value)
        return found


def active_domains(states: Iterable[State]) -> list[tuple[str, ...]]:
    """Guess which domain each reply is about: the one whose state changed last.

    Where several changed at once, the one that was talked about stays; else it is the one with most slots.
    Where nothing changes, and several had changed the time before, it is the other one's turn.

    >>> hotel, train = {"area": "east"}, {"day": "monday"}
    >>> active_domains([{}, {"hotel": hotel}, {"hotel": hotel, "train": train}, {"hotel": hotel}])
    [(), ('hotel',), ('train',), ('train',)]
    """
    current: str | None = None
    old: State = {}
    waiting: Sequence[str] = ()
    found: list[tuple[str, ...]] = []
    for state in states:
        changed = [domain for domain, slots in state.items() if slots.items() - old.get(domain, {}).items()]
        if changed and current not in changed:
            current = max(changed, key=lambda domain: len(state[domain]))
        elif not changed and current is not None and len(waiting) > 1:
            others = [domain for domain in waiting if domain in state and domain != current]
            current = others[0] if others else current
        if current is not None:
            old, waiting = state, changed
        found.append(() if current is None else (current,))
    return found
