"""Cutting a turn into segments, the stretches that each do one thing.

- `punkt`: into sentences, by Punkt (Kiss and Strunk, 2006) with NLTK's English model. It knows abbreviations
  and needs a blank after the mark that ends a sentence: `Going good.for you?` stays whole. Unlike NLTK's own
  code, the marks of a run stay together: `Really??` is one sentence, not `Really?` and `?`.
- `punkt+comma`: the same, and each sentence at its commas, which are dropped; the blank after a comma stays
  with what follows. So did the authors of FlowEval, though their paper does not say it: no published segment
  holds a comma, and many begin with a blank. A comma between two digits (`1,000`) does not cut.

Languages that end their sentences with other marks come out in one piece. Time grows linearly with the text.

The segments of a dialogue: stretches of its turns that each do one thing, in the order they were said.

Where somebody has cut the turns already (`turn.meta["segments"]`, as the readers of annotated sets give it),
that cut is kept; all other turns are cut by a splitter. Turns that take no part, system prompts and tools'
answers, have no segments.
"""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from dialeval.dialogues.acts import annotations, canonical
from dialeval.dialogues.dialogue import Dialogue, Turn, takes_part
from dialeval.errors import UsageError

if TYPE_CHECKING:
    import punkt

Splitter = Literal["punkt", "punkt+comma"]
SPLITTERS: tuple[Splitter, ...] = get_args(Splitter)
DEFAULT_SPLITTER: Splitter = "punkt+comma"
_COMMA = re.compile(r"(?<!\d),|,(?!\d)")


def split(text: str, how: str = DEFAULT_SPLITTER) -> list[str]:
    """Cut a turn into segments; what is blank is none, so an empty text has none.

    Every letter and digit of the text is in exactly one segment, in its order.

    >>> split("Hey, how are you? I saw Dr. Hu at 9.30, with 1,000 others.")
    ['Hey', ' how are you?', 'I saw Dr. Hu at 9.30', ' with 1,000 others.']
    >>> split("Hey, how are you? Fine.", "punkt")
    ['Hey, how are you?', 'Fine.']
    """
    if how not in SPLITTERS:
        raise UsageError(f"no splitter {how!r}; known: {', '.join(SPLITTERS)}")
    return list(_split(text, how))


@functools.lru_cache(maxsize=1 << 13)
def _split(text: str, how: str) -> tuple[str, ...]:
    """Cut a turn; several metrics of a run ask for the same turns, one after the other."""
    sentences = _sentences().tokenize(text)
    if how == "punkt":
        return tuple(sentence for sentence in sentences if sentence.strip())
    pieces = (piece.rstrip() for sentence in sentences for piece in _COMMA.split(sentence))
    return tuple(piece for piece in pieces if piece)


@cache
def _sentences() -> "punkt.PunktSentenceTokenizer":
    import punkt

    return punkt.PunktSentenceTokenizer(punkt.load_model("english"))


@dataclass(frozen=True, slots=True)
class Segment:
    """One stretch of a turn; `act` is what it does, if that is known."""

    turn: int
    speaker: str
    text: str
    act: str | None = None


def segments_of(dialogue: Dialogue, splitter: str = DEFAULT_SPLITTER) -> list[Segment]:
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


def _pieces(turn: Turn, splitter: str) -> list[tuple[str, str | None]]:
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
