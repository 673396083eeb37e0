"""What one rater judges at a time: a reply, a context, a segment, a dialogue, or a pair of them.

An item points into the study's dialogues. Its twins are other places that look exactly the same to a rater
(the same reply after the same context, given by several systems): they are judged once, and the answer counts
for all.
"""

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dialeval.annotation.scheme import Scheme, Value
from dialeval.dialogues import Dialogue, scored_turns
from dialeval.dialogues.dialogue import context_of
from dialeval.dialogues.segments import segments_of
from dialeval.errors import DataError

Place = tuple[int, int | None, int | None]  # number of the dialogue, turn, segment


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to judge: where it is, what it is compared with, where else it occurs, what the answer is."""

    place: Place
    other: Place | None = None
    twins: tuple[Place, ...] = ()
    gold: dict[str, tuple[Value, ...]] | None = None

    @property
    def places(self) -> tuple[Place, ...]:
        """Everything a judgement of this item is about."""
        return (self.place, *self.twins)


def make_items(scheme: Scheme, dialogues: Sequence[Dialogue], seed: int = 0) -> list[Item]:
    """Return the items of a study, sampled if the scheme says how many; gold items are always among them.

    >>> from dialeval.annotation.scheme import read_scheme
    >>> from dialeval.dialogues import dialogue
    >>> said = [("user", "Hi!"), ("assistant", "Hello!"), ("user", "Bye!"), ("assistant", "Bye!")]
    >>> [one.place for one in make_items(read_scheme("turn-quality"), [dialogue(said)])]
    [(0, 1, None), (0, 3, None)]
    """
    units: dict[str, Callable[[Scheme, Sequence[Dialogue]], list[Item]]] = {
        "context": _replies,
        "turn": _replies,
        "segment": _segments,
        "dialogue": lambda _, chats: [Item((number, None, None)) for number in range(len(chats))],
        "pair": _pairs,
    }
    found = _with_gold(units[scheme.unit](scheme, dialogues), scheme, dialogues)
    if not found:
        raise DataError(f"nothing to judge: no {scheme.unit} in these dialogues", fix="see docs/annotate.md")
    if scheme.items is None or len(found) <= scheme.items:
        return found
    plain = [number for number, one in enumerate(found) if one.gold is None]
    rest = max(0, scheme.items - (len(found) - len(plain)))
    kept = set(random.Random(seed).sample(plain, min(rest, len(plain))))  # noqa: S311
    return [one for number, one in enumerate(found) if one.gold is not None or number in kept]


def _replies(scheme: Scheme, dialogues: Sequence[Dialogue]) -> list[Item]:
    found: dict[Any, Item] = {}
    for number, dialogue in enumerate(dialogues):
        for turn in scored_turns(dialogue, scheme.speaker):
            place = (number, turn, None)
            key: Any = place
            if scheme.merge:
                key = _said(dialogue, turn, with_reply=scheme.unit == "turn", following=scheme.following)
            earlier = found.get(key)
            found[key] = Item(place) if earlier is None else replace(earlier, twins=(*earlier.twins, place))
    return list(found.values())


def _said(dialogue: Dialogue, turn: int, *, with_reply: bool, following: int = 0) -> tuple[Any, ...]:
    """Everything a rater would see of a place, so that equal keys are equal pages."""
    end = turn + 1 + following if with_reply else turn
    shown = [*context_of(dialogue, turn), *dialogue.turns[turn:end]]
    return tuple((one.speaker, one.text) for one in shown)


def _segments(scheme: Scheme, dialogues: Sequence[Dialogue]) -> list[Item]:
    found = []
    for number, dialogue in enumerate(dialogues):
        for turn, group in itertools.groupby(segments_of(dialogue, scheme.splitter), lambda one: one.turn):
            found += [Item((number, turn, place)) for place, _ in enumerate(group)]
    return found


def _pairs(scheme: Scheme, dialogues: Sequence[Dialogue]) -> list[Item]:
    groups: dict[str, list[int]] = {}
    for number, dialogue in enumerate(dialogues):
        groups.setdefault(str(dialogue.meta.get("pair") or dialogue.id), []).append(number)
    found = []
    for group in groups.values():
        for one, other in itertools.combinations(group, 2):
            if scheme.of == "dialogue":
                found.append(Item((one, None, None), (other, None, None)))
            else:
                turns = _same_contexts(dialogues[one], dialogues[other], scheme.speaker)
                found += [Item((one, turn, None), (other, turn, None)) for turn in turns]
    if not found:
        raise DataError(
            "no two dialogues to compare",
            fix="give two files whose dialogues have the same ids, or a meta field `pair` that two share",
        )
    return found


def _same_contexts(one: Dialogue, other: Dialogue, speaker: str | None) -> list[int]:
    """Turns where both answer the same context, and differently."""
    shared = sorted({*scored_turns(one, speaker)} & {*scored_turns(other, speaker)})
    return [
        turn
        for turn in shared
        if _said(one, turn, with_reply=False) == _said(other, turn, with_reply=False)
        and one.turns[turn].text != other.turns[turn].text
    ]


def _with_gold(items: list[Item], scheme: Scheme, dialogues: Sequence[Dialogue]) -> list[Item]:
    numbers = {dialogue.id: number for number, dialogue in enumerate(dialogues)}
    at = {place: number for number, one in enumerate(items) for place in one.places}
    made = list(items)
    for count, gold in enumerate(scheme.gold):
        number = at.get((numbers.get(gold.dialogue, -1), gold.turn, gold.segment))
        if number is None:
            raise DataError(
                f"no such item: dialogue {gold.dialogue!r}, turn {gold.turn}, segment {gold.segment}",
                field=f"gold[{count}]",
                fix="gold items must be among the dialogues of the study",
            )
        made[number] = replace(made[number], gold=gold.answers)
    return made
