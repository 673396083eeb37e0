"""The segments of a dialogue: stretches of its turns that each do one thing, in the order they were said.

Where somebody has cut the turns already (`turn.meta["segments"]`, as the readers of annotated sets give it),
that cut is kept; all other turns are cut by a splitter. Turns that take no part, system prompts and tools'
answers, have no segments.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from dialeval.dialogues.acts import annotations, canonical
from dialeval.dialogues.dialogue import Dialogue, Turn, takes_part
from dialeval.dialogues.segmentation import DEFAULT_SPLITTER, Splitter, split


@dataclass(frozen=True, slots=True)
class Segment:
    """One stretch of a turn; `act` is what it does, if that is known."""

    turn: int
    speaker: str
    text: str
    act: str | None = None


def segments_of(dialogue: Dialogue, splitter: Splitter = DEFAULT_SPLITTER) -> list[Segment]:
    """Return the segments of all turns that take part; a segment without text is passed over.

    >>> from dialeval.dialogues import dialogue
    >>> [one.text for one in segments_of(dialogue([("user", "Hey, how are you?"), ("assistant", "Fine.")]))]
    ['Hey', ' how are you?', 'Fine.']
    """
    found = []
    for number, turn in enumerate(dialogue.turns):
        if takes_part(turn):
            for text, act in _pieces(turn, splitter):
                if text.strip():
                    found.append(Segment(number, turn.speaker, text, act))
    return found


def _pieces(turn: Turn, splitter: Splitter) -> list[tuple[str, str | None]]:
    known = annotations(turn)
    if known is None:
        return [(text, None) for text in split(turn.text, splitter)]
    return [(one.text, None if one.act is None else canonical(one.act)) for one in known]


def with_acts(dialogue: Dialogue, segments: Sequence[Segment]) -> Dialogue:
    """Return the dialogue with these segments and acts in the meta of its turns.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hey, how are you?")])
    >>> acted = with_acts(chat, [Segment(0, "user", "Hey", "greeting")])
    >>> acted.turns[0].meta["segments"]
    [{'text': 'Hey', 'act': 'greeting'}]
    """
    by_turn: dict[int, list[dict[str, Any]]] = {}
    for one in segments:
        by_turn.setdefault(one.turn, []).append({"text": one.text, "act": one.act})
    turns = tuple(
        msgspec.structs.replace(turn, meta={**turn.meta, "segments": by_turn.get(number, [])})
        if takes_part(turn)
        else turn
        for number, turn in enumerate(dialogue.turns)
    )
    return msgspec.structs.replace(dialogue, turns=turns)
