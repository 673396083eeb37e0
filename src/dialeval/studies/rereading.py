"""Turns of a new version to read beside the old one: where it fell furthest below its partner."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dialeval.dialogues import Dialogue, takes_part
from dialeval.dialogues.signals import next_turns
from dialeval.scores import Scores, is_fault
from dialeval.scores.signature import threshold
from dialeval.studies.excerpts import Excerpt, ShownTurn, TurnValue, turns_around
from dialeval.studies.turn_scores import TurnScale, choose_score, turn_values

MOST, EACH = 10, 2
MOST_CHARACTERS = 4_000
_AROUND = 2


class Said(NamedTuple):
    """A version: its scores, its dialogues, and the ids of their partners in the first version."""

    name: str
    scores: Scores
    dialogues: Mapping[tuple[str, str | None], Dialogue]
    partners: Mapping[str, str]


class _HeldReply(NamedTuple):
    """A reply of a new version, its score, and what the old version said in its place, if it did."""

    drop: float
    reason: str
    version: int
    dialogue: Dialogue
    turn: int
    value: TurnValue
    other: ShownTurn | None


class _Old:
    """The old version, for new replies to be held against."""

    def __init__(self, old: Said, scale: TurnScale) -> None:
        self._name, self._sign = old.name, -1.0 if scale.lower_is_better else 1.0
        self._values = turn_values(old.scores, scale)
        self._dialogues = {one.id: one for one in old.dialogues.values()}
        self._mean = _mean(value for own in self._values.values() for value in own.values())

    def hold(
        self, version: int, dialogue: Dialogue, turn: int, value: TurnValue, partner: str
    ) -> _HeldReply | None:
        """Hold a reply against its place in the partner, or else its mean, or else that of all.

        None for a reply that has no score, or is what the old version said.
        """
        other, base, where = None, None, f"the same dialogue of {self._name}"
        if (found := self._dialogues.get(partner)) is not None:
            own = self._values.get((found.id, found.system)) or self._values.get((found.id, None), {})
            base, said = _mean(own.values()), dialogue.turns[turn]
            there = found.turns[turn] if turn < len(found.turns) else None
            if there is not None and there.speaker == said.speaker:
                if there.text == said.text:
                    return None
                other = ShownTurn.of(found, turn, MOST_CHARACTERS, "other", own.get(turn))
                if other.score is not None and other.score.value is not None:
                    base, where = other.score.value, f"{self._name} in the same place"
        if base is None:
            base, where = self._mean, f"the mean of {self._name}"
        if value.value is None or base is None:
            return None
        drop = self._sign * (value.value - base)
        reason = f"{abs(drop):.2f} {'worse' if drop < 0 else 'better'} than {where}"
        return _HeldReply(drop, reason, version, dialogue, turn, value, other)


def said(name: str, scores: Scores, dialogues: Iterable[Dialogue], partners: Mapping[str, str]) -> Said:
    """Gather what is known of a version."""
    return Said(name, scores, {(one.id, one.system): one for one in dialogues}, partners)


def turns_to_read(versions: Sequence[Said]) -> tuple[TurnScale | None, tuple[Excerpt, ...]]:
    """Choose ten replies of the new versions: those furthest below what they are held against.

    That is the old version's reply in the same place, else the mean of the same dialogue, else its mean over
    all. At most two of one dialogue; replies in the same words come only when there are too few others.
    """
    old, *new = versions
    scale = choose_score(Scores.concat(one.scores.where(level="turn") for one in versions))
    if scale is None:
        return None, ()
    held, replies = _Old(old, scale), list[_HeldReply]()
    for place, one in enumerate(new):
        for (name, system), values in turn_values(one.scores, scale).items():
            dialogue = one.dialogues.get((name, system)) or one.dialogues.get((name, None))
            if dialogue is not None:
                partner = one.partners.get(name, name)
                known = (turn for turn in values if 0 <= turn < len(dialogue.turns))
                found = (held.hold(place, dialogue, turn, values[turn], partner) for turn in known)
                replies += [reply for reply in found if reply is not None]
    faults = [_faults(one.scores) for one in new]
    return scale, tuple(
        _excerpt(reply, new[reply.version].name, faults[reply.version]) for reply in _chosen(replies)
    )


def _chosen(replies: list[_HeldReply]) -> list[_HeldReply]:
    """Take the worst, at most two of one dialogue, those in words that were not taken yet before others."""
    replies.sort(key=lambda one: (one.drop, one.version, one.dialogue.id, one.turn))
    seen, fresh, again = set[str](), list[_HeldReply](), list[_HeldReply]()
    for reply in replies:
        words = reply.dialogue.turns[reply.turn].text.casefold()
        (again if words in seen else fresh).append(reply)
        seen.add(words)
    taken, chosen = Counter[tuple[int, str]](), list[_HeldReply]()
    for reply in (*(one for one in fresh if one.drop < 0), *again):
        taken[reply.version, reply.dialogue.id] += 1
        if taken[reply.version, reply.dialogue.id] <= EACH:
            chosen.append(reply)
    return sorted(chosen[:MOST], key=lambda one: one.drop)


def _mean(values: Iterable[TurnValue]) -> float | None:
    known = [one.value for one in values if one.value is not None]
    return float(np.mean(known)) if known else None


def _faults(scores: Scores) -> dict[tuple[str, int | None], list[str]]:
    found: dict[tuple[str, int | None], list[str]] = defaultdict(list)
    for row in scores.where(level="turn"):
        limit = threshold(scores.signatures, row.source, row.dimension)
        if is_fault(row.source, row.dimension) and row.value is not None and row.value >= limit:
            found[row.dialogue_id, row.turn].append(f"{row.source}/{row.dimension}")
    return found


def _excerpt(reply: _HeldReply, version: str, faults: Mapping[tuple[str, int | None], list[str]]) -> Excerpt:
    """Show a reply after what led to it, and what the old version said there."""
    dialogue, turn = reply.dialogue, reply.turn
    before = [n for n in range(turn) if takes_part(dialogue.turns[n])][-_AROUND:]
    after = next_turns(dialogue)[turn].turn
    turns = list(turns_around(dialogue, turn, before, after, MOST_CHARACTERS, reply.value))
    turns[len(before) : len(before)] = [] if reply.other is None else [reply.other]
    found = tuple(faults.get((dialogue.id, turn), ()))
    return Excerpt(dialogue.id, version, tuple(turns), reasons=(reply.reason,), faults=found)
