"""Examples of right and wrong values, made of annotated task dialogues.

The Schema-Guided Dialogue corpus marks where a reply states a value of a slot, what the user asked for, and
which rows the service returned. A reply that states a value is supported by the row that has it; with
another value of the same slot in that place it is not. The same holds for values that the user gave or that
the assistant stated before. Unchanged replies with other values (another restaurant, another date) are
examples of no contradiction.
"""

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dialeval.dialogues import Dialogue
from dialeval.models.evidence_windows import nearest_windows
from dialeval.models.fault_reader import Memory
from dialeval.training.examples import FaultExample
from dialeval.training.fault_injections import Chance

_MAX_TURNS = 4  # replies of one dialogue that examples are made of
_MAX_ROWS = 4  # rows of a service's answer that are shown as evidence
_POOL_SIZE = 60
_NUMBER_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class _Value(NamedTuple):
    """A slot's value where it stands in a turn."""

    slot: str
    start: int
    end: int
    text: str


class SlotExamples:
    """Makes examples of one dialogue after another, with values of earlier dialogues as the wrong ones."""

    def __init__(self) -> None:
        self._pool: dict[str, deque[str]] = {}

    def examples(self, dialogue: Dialogue, chance: Chance) -> Iterator[FaultExample]:
        """Return examples of up to four replies of a dialogue that state a value."""
        values = [_values(turn.meta, turn.text) for turn in dialogue.turns]
        replies = [
            number
            for number, turn in enumerate(dialogue.turns)
            if number and turn.speaker == "assistant" and values[number]
        ]
        for number in chance.sample(replies, min(_MAX_TURNS, len(replies))):
            value = chance.choice(values[number])
            wrong = self._replace(dialogue.turns[number].text, value, chance)
            yield from _with_evidence(dialogue, number, values[number], value, wrong, chance)
            for role, kind in (("user", "user"), ("assistant", "own")):
                earlier = [
                    (other, earlier_value)
                    for other in range(number)
                    if dialogue.turns[other].speaker == role
                    for earlier_value in values[other]
                    if earlier_value.slot == value.slot
                ]
                if earlier:
                    other, earlier_value = earlier[-1]
                    same_subject = kind == "user" or _share_another(values[other], values[number], value)
                    changed = wrong if same_subject else None
                    yield from _with_earlier(
                        dialogue, number, value, changed, kind, other, earlier_value, chance
                    )
        for value in (value for turn_values in values for value in turn_values):
            self._pool.setdefault(value.slot, deque(maxlen=_POOL_SIZE)).append(value.text)

    def _replace(self, text: str, value: _Value, chance: Chance) -> str | None:
        """Return the text with another value of the slot; None where none is known."""
        same = _normalise(value.text)
        others = [other for other in self._pool.get(value.slot, ()) if _normalise(other) != same]
        return text[: value.start] + chance.choice(others) + text[value.end :] if others else None


def _with_evidence(
    dialogue: Dialogue,
    number: int,
    values: Sequence[_Value],
    value: _Value,
    wrong: str | None,
    chance: Chance,
) -> Iterator[FaultExample]:
    """Read a reply with the rows that the service returned last, as it is and with a wrong value."""
    answers = [turn.meta["results"] for turn in dialogue.turns[: number + 1] if turn.meta.get("results")]
    rows = [row for table in answers[-1].values() for row in table] if answers else []
    stated = {_normalise(other.text) for other in values}
    shared = [len(stated & {_normalise(str(cell)) for cell in row.values()}) for row in rows]
    if not rows or not max(shared) or value.slot.rpartition("/")[2] not in rows[0]:
        return
    best = rows[shared.index(max(shared))]
    others = [row for row in rows if row is not best]
    shown = [best, *chance.sample(others, min(len(others), chance.randrange(_MAX_ROWS)))]
    chance.shuffle(shown)
    passage, reply = _render(shown, chance), dialogue.turns[number].text

    def read(text: str, supported: float) -> FaultExample:
        memory = tuple(Memory("evidence", window) for window in nearest_windows([passage], text))
        targets = {"supported": supported, "contradicts": 1.0 - supported}
        return FaultExample(memory, text, targets)

    yield read(reply, 1.0)
    if wrong:
        yield read(wrong, 0.0)


def _with_earlier(
    dialogue: Dialogue,
    number: int,
    value: _Value,
    wrong: str | None,
    kind: str,
    earlier: int,
    earlier_value: _Value,
    chance: Chance,
) -> Iterator[FaultExample]:
    """Read a reply with an earlier turn about the same slot, as it is and with a wrong value."""
    memory = (Memory(kind, dialogue.turns[earlier].text),)
    same = _normalise(earlier_value.text) == _normalise(value.text)
    if same or chance.random() < 0.4:
        yield FaultExample(memory, dialogue.turns[number].text, {"contradicts": 0.0})
    if same and wrong:
        yield FaultExample(memory, wrong, {"contradicts": 1.0})


def _share_another(earlier: Sequence[_Value], values: Sequence[_Value], value: _Value) -> bool:
    """Return whether two turns agree in a value of another slot, so that they are about the same thing."""
    known = {(other.slot, _normalise(other.text)) for other in earlier}
    return any((other.slot, _normalise(other.text)) in known for other in values if other is not value)


def _values(meta: Mapping[str, Any], text: str) -> list[_Value]:
    return [
        _Value(f"{service.partition('_')[0]}/{slot}", start, end, text[start:end])
        for service, spans in meta.get("slots", {}).items()
        for slot, start, end in spans
        if text[start:end].strip()
    ]


def _normalise(text: str) -> str:
    """Return a value without case, blanks, currency and number words, so that equal values are equal.

    >>> _normalise("Four") == _normalise("4"), _normalise("$12.00") == _normalise("12")
    (True, True)
    """
    bare = re.sub(r"[\s$,.]|:00|\.00$", "", re.sub(r"\.00\b", "", text.lower()))
    return str(_NUMBER_WORDS.index(bare)) if bare in _NUMBER_WORDS else bare


def _render(rows: Sequence[Mapping[str, Any]], chance: Chance) -> str:
    """Write rows as tools do: JSON, a table, or lines of names and values."""
    style = chance.random()
    if style < 0.5:
        return json.dumps(list(rows) if len(rows) > 1 else rows[0], ensure_ascii=False)
    if style < 0.7:
        names = list(rows[0])
        lines = [names, *([str(row.get(name, "")) for name in names] for row in rows)]
        return "\n".join(" | ".join(line) for line in lines)
    return "\n\n".join(
        "\n".join(f"{name.replace('_', ' ')}: {cell}" for name, cell in row.items()) for row in rows
    )
