"""What the replies of a dialogue give and know: placeholders, states, and the domains they are about.

People's files are not clean: whatever is not of the expected type or name is left out and said, never
guessed at and never an error.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dialeval.dialogues.tasks.task import Slots, State, Task

_PLACEHOLDER = re.compile(r"\[([\w .:'/&-]{1,60})\]")
_PLURAL = re.compile(r"\[([\w .:'/&-]{1,60})\](?:-?e?s\b)?")
_SUFFIX = re.compile(r"\s?-(?:s|ly)\b")
_CLITIC = re.compile(r"\s+(n't|'(?:s|re|ve|ll|d|m))\b")


class Reader:
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
