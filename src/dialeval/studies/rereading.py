"""Replies of a new version to read: those that score furthest below the old version."""

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


class ScoredVersion(NamedTuple):
    """A version: its scores, its dialogues, and the ids of their partners in the first version."""

    name: str
    scores: Scores
    dialogues: Sequence[Dialogue]
    partners: Mapping[str, str]


class _ComparedReply(NamedTuple):
    """A reply of a new version, its score, and the old version's reply in the same place, if any."""

    drop: float
    reason: str
    version: int
    dialogue: Dialogue
    turn: int
    value: TurnValue
    other: ShownTurn | None


class _Baseline:
    """The old version, with which new replies are compared."""

    def __init__(self, old: ScoredVersion, scale: TurnScale) -> None:
        self._name, self._sign = old.name, -1.0 if scale.lower_is_better else 1.0
        self._values = turn_values(old.scores, scale)
        self._dialogues = {dialogue.id: dialogue for dialogue in old.dialogues}
        self._mean = _mean(value for values in self._values.values() for value in values.values())

    def compare(
        self, version: int, dialogue: Dialogue, turn: int, value: TurnValue, partner: str
    ) -> _ComparedReply | None:
        """Compare a reply with the same turn of its partner, or else with the mean of that, or of all.

        None for a reply without a score, and for one with the old version's text.
        """
        old_turn, base, where = None, None, f"the same dialogue of {self._name}"
        if (old_dialogue := self._dialogues.get(partner)) is not None:
            old_id = old_dialogue.id
            values = self._values.get((old_id, old_dialogue.system)) or self._values.get((old_id, None), {})
            base, reply = _mean(values.values()), dialogue.turns[turn]
            old_reply = old_dialogue.turns[turn] if turn < len(old_dialogue.turns) else None
            if old_reply is not None and old_reply.speaker == reply.speaker:
                if old_reply.text == reply.text:
                    return None
                old_turn = ShownTurn.of(old_dialogue, turn, MOST_CHARACTERS, "other", values.get(turn))
                if old_turn.score is not None and old_turn.score.value is not None:
                    base, where = old_turn.score.value, f"{self._name} in the same place"
        if base is None:
            base, where = self._mean, f"the mean of {self._name}"
        if value.value is None or base is None:
            return None
        drop = self._sign * (value.value - base)
        reason = f"{abs(drop):.2f} {'worse' if drop < 0 else 'better'} than {where}"
        return _ComparedReply(drop, reason, version, dialogue, turn, value, old_turn)


def turns_to_read(versions: Sequence[ScoredVersion]) -> tuple[TurnScale | None, tuple[Excerpt, ...]]:
    """Return ten replies of the new versions: those with the largest drops from the old version.

    A reply is compared with the old version's reply in the same place, else with the mean of the same
    dialogue, else with the mean of all. At most two are of one dialogue; replies with the same text are
    repeated only if there are too few others.
    """
    old, *new = versions
    scale = choose_score(Scores.concat(version.scores.where(level="turn") for version in versions))
    if scale is None:
        return None, ()
    baseline, replies = _Baseline(old, scale), list[_ComparedReply]()
    for number, version in enumerate(new):
        dialogues = {(dialogue.id, dialogue.system): dialogue for dialogue in version.dialogues}
        for (name, system), values in turn_values(version.scores, scale).items():
            dialogue = dialogues.get((name, system)) or dialogues.get((name, None))
            if dialogue is not None:
                partner = version.partners.get(name, name)
                in_range = (turn for turn in values if 0 <= turn < len(dialogue.turns))
                compared = (
                    baseline.compare(number, dialogue, turn, values[turn], partner) for turn in in_range
                )
                replies += [reply for reply in compared if reply is not None]
    faults = [_faults(version.scores) for version in new]
    return scale, tuple(
        _excerpt(reply, new[reply.version].name, faults[reply.version]) for reply in _chosen(replies)
    )


def _chosen(replies: list[_ComparedReply]) -> list[_ComparedReply]:
    """Return the worst, at most two of one dialogue; replies with new texts come before repeated ones."""
    replies.sort(key=lambda reply: (reply.drop, reply.version, reply.dialogue.id, reply.turn))
    seen, distinct, repeated = set[str](), list[_ComparedReply](), list[_ComparedReply]()
    for reply in replies:
        text = reply.dialogue.turns[reply.turn].text.casefold()
        (repeated if text in seen else distinct).append(reply)
        seen.add(text)
    taken, chosen = Counter[tuple[int, str]](), list[_ComparedReply]()
    for reply in (*(candidate for candidate in distinct if candidate.drop < 0), *repeated):
        taken[reply.version, reply.dialogue.id] += 1
        if taken[reply.version, reply.dialogue.id] <= EACH:
            chosen.append(reply)
    return sorted(chosen[:MOST], key=lambda reply: reply.drop)


def _mean(values: Iterable[TurnValue]) -> float | None:
    scored = [value.value for value in values if value.value is not None]
    return float(np.mean(scored)) if scored else None


def _faults(scores: Scores) -> dict[tuple[str, int | None], list[str]]:
    faults: dict[tuple[str, int | None], list[str]] = defaultdict(list)
    for row in scores.where(level="turn"):
        limit = threshold(scores.signatures, row.source, row.dimension)
        if is_fault(row.source, row.dimension) and row.value is not None and row.value >= limit:
            faults[row.dialogue_id, row.turn].append(f"{row.source}/{row.dimension}")
    return faults


def _excerpt(
    reply: _ComparedReply, version: str, faults: Mapping[tuple[str, int | None], list[str]]
) -> Excerpt:
    """Return the excerpt around a reply, with the old version's reply in the same place."""
    dialogue, turn = reply.dialogue, reply.turn
    before = [n for n in range(turn) if takes_part(dialogue.turns[n])][-_AROUND:]
    after = next_turns(dialogue)[turn].turn
    turns = list(turns_around(dialogue, turn, before, after, MOST_CHARACTERS, reply.value))
    turns[len(before) : len(before)] = [] if reply.other is None else [reply.other]
    names = tuple(faults.get((dialogue.id, turn), ()))
    return Excerpt(dialogue.id, version, tuple(turns), reasons=(reply.reason,), faults=names)
