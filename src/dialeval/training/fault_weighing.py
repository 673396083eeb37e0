"""Fits how features of a reply are weighed for each fault, on what the reader has not seen.

A case is a dialogue and what is known of some of its replies. Labelled pairs and marked dialogues are cases
as they are; of a good dialogue one reply stays as it is, and in its twin a fault is put in that place.
"""

import random
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dialeval.dialogues import Dialogue, Turn, takes_part
from dialeval.models.fault_features import reply_features
from dialeval.models.fault_reader import FaultReader
from dialeval.models.fault_weights import ABSENT, FAULTS, Weights, fit_weights, set_thresholds
from dialeval.training.fault_examples import Marked, marked
from dialeval.training.fault_injections import (
    COLD,
    COMPLAINTS,
    PLEASANTRIES,
    Chance,
    change_value,
    insult,
    negate,
    paraphrase,
    salad,
    values,
)

Known = Mapping[str, float]
_SOUND: Known = dict.fromkeys(FAULTS, 0.0)
_TOGETHER = 64
_MOST = 1600  # other cases: the weights are two dozen numbers
_BY_HAND = 15.0
_REPLIES = ("fault-pairs-begin", "fault-pairs-faithdial")  # with evidence; the others are sentences


Labelled = tuple[Mapping[str, float], float, float]
"""The features of a reply, 1 if it has the fault, and how much it counts."""


class Case(NamedTuple):
    """A dialogue, what is known of the faults of some turns, and how much it counts."""

    dialogue: Dialogue
    known: Mapping[int, Known]
    weight: float = 1.0


def weigh(reader: FaultReader, dialogues: Sequence[Dialogue]) -> dict[str, Weights]:
    """Fit the weights of all faults on dialogues that the reader was not trained on."""
    cases = list(_cases(dialogues))
    random.Random(0).shuffle(cases)  # noqa: S311
    cases.sort(key=lambda case: -case.weight)  # all that was written by hand
    rows: dict[str, list[Labelled]] = {fault: [] for fault in FAULTS}
    good = list[Mapping[str, float]]()  # by hand: what thresholds are set on
    by_hand = sum(case.weight == _BY_HAND for case in cases)
    for start in range(0, min(len(cases), by_hand + _MOST), _TOGETHER):
        some = cases[start : start + _TOGETHER]
        found = reply_features(reader, [case.dialogue for case in some])
        for case, (_, replies) in zip(some, found, strict=True):
            for reply in replies:
                if case.weight == _BY_HAND and case.known.get(reply.turn) == _SOUND:
                    good.append(reply.values)
                for fault, label in case.known.get(reply.turn, {}).items():
                    if FAULTS[fault][0] in reply.values or fault != "unsupported":
                        rows[fault].append((reply.values, label, case.weight))
    weights = {}
    for fault, labelled in rows.items():
        values, labels, counts = zip(*_equally_answered(labelled), strict=True)
        weights[fault] = fit_weights(fault, values, labels, counts)
    return set_thresholds(weights, good)


def _equally_answered(rows: Sequence[Labelled]) -> Iterator[Labelled]:
    """Leave the user's answer out of good replies as often as it is missing after faulty ones.

    A marked fault mostly ends its dialogue, a good reply does not. Without this, that there is an answer at
    all would speak for a good reply, and a displeased one would count too little.
    """
    chance = random.Random(0)  # noqa: S311
    faulty = [features for features, label, _ in rows if label > 0.5]
    answered = sum("displeased" in features for features in faulty) / max(1, len(faulty))
    for features, label, count in rows:
        silent = label <= 0.5 and chance.random() >= answered
        yield {**features, "displeased": ABSENT["displeased"]} if silent else features, label, count


def _cases(dialogues: Iterable[Dialogue]) -> Iterator[Case]:
    others: deque[str] = deque(["I'd rather have the window seat."], maxlen=200)
    for dialogue in dialogues:
        chance = random.Random(f"case|{dialogue.id}")  # noqa: S311
        if "pair" in dialogue.meta:
            known = _of_pair(dialogue)
            if known and chance.random() < (1.0 if "unsupported" in known else 0.08):
                yield Case(dialogue, {1: known})
        elif "faults" in dialogue.meta:
            yield from map(_of_mark, marked(dialogue))
        elif "category" not in dialogue.meta:
            said = [turn for turn in dialogue.turns if takes_part(turn) and turn.text.strip()]
            if len(said) > 2 and chance.random() < 0.5:
                yield from _of_good(dialogue.id, said, chance, others)
                others.append(chance.choice(said).text)


def _of_pair(dialogue: Dialogue) -> Known:
    targets, kind = dialogue.meta["targets"], dialogue.meta["pair"]
    known = {"nonsense": targets["nonsense"]} if "nonsense" in targets else {}
    if dialogue.id.startswith(_REPLIES) and "supported" in targets:
        known["unsupported"] = 1.0 - targets["supported"]
    if kind in ("own", "user") and "contradicts" in targets:
        known["contradicts-itself" if kind == "own" else "contradicts-user"] = targets["contradicts"]
    return known


def _of_mark(one: Marked) -> Case:
    if one.fault:
        return Case(one.dialogue, {one.fault.turn: {one.fault.name: 1.0}}, _BY_HAND)
    replies = [
        number for number, turn in enumerate(one.dialogue.turns) if number and turn.speaker == "assistant"
    ]
    return Case(one.dialogue, dict.fromkeys(replies, _SOUND), _BY_HAND)


def _of_good(id: str, said: Sequence[Turn], chance: Chance, others: Sequence[str]) -> Iterator[Case]:
    place = chance.randrange(2, len(said))
    kept = [
        Turn("assistant" if (place - number) % 2 == 0 else "user", turn.text)
        for number, turn in enumerate(said)
    ]
    chat = Dialogue(id, tuple(kept[: place + 2]), meta={"scored": [place]})
    yield Case(chat, {place: _SOUND})
    fault = chance.choice([name for name in FAULTS if name != "unsupported"])
    text = _faulty(fault, [turn.text for turn in kept[: place + 1]], chance, others)
    if text:
        complaint = _complaint(fault, chance)
        after = [Turn("user", complaint)] if complaint else kept[place + 1 : place + 2]
        turns = (*kept[:place], Turn("assistant", text), *after)
        yield Case(msgspec.structs.replace(chat, turns=turns), {place: {fault: 1.0}})


def _complaint(fault: str, chance: Chance) -> str | None:
    """Return what a user says to a fault; half of them say nothing of it."""
    return chance.choice(COMPLAINTS[fault]) if fault in COMPLAINTS and chance.random() < 0.5 else None


def _faulty(fault: str, said: Sequence[str], chance: Chance, others: Sequence[str]) -> str | None:
    """Return a reply with this fault in place of the last turn; None where none can be made."""
    *_, own, told, reply = said
    if fault == "contradicts-itself":
        return change_value(own, chance) if chance.random() < 0.5 else negate(own, chance)
    if fault == "contradicts-user":
        shared = values(told) & values(reply)
        return change_value(reply, chance, shared) if shared else None
    if fault == "ignores":
        return chance.choice(PLEASANTRIES) if told.rstrip().endswith("?") else None
    if fault == "off-topic":
        return chance.choice(others)
    if fault == "repeats":
        return paraphrase(own, chance)
    if fault == "nonsense":
        return salad(reply, chance)
    return insult(reply, chance) if chance.random() < 0.7 else chance.choice(COLD)
