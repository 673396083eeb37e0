"""Segmentation of turns into segments, the units that have one act each.

- `punkt`: sentences, by Punkt (Kiss and Strunk, 2006) with NLTK's English model. It knows abbreviations
  and needs a blank after the mark that ends a sentence: `Going good.for you?` stays whole. Unlike NLTK's own
  code, consecutive marks stay together: `Really??` is one sentence, not `Really?` and `?`.
- `punkt+comma`: sentences split again at their commas, which are dropped; the blank after a comma stays with
  the next segment. The authors of FlowEval did the same, though their paper does not mention it: no published
  segment has a comma, and many begin with a blank. A comma between two digits (`1,000`) does not split.

Text in languages with other sentence-final marks stays one segment. Time is linear in the length of the text.

Annotated segments (`turn.meta["segments"]`, from the readers of annotated sets) are kept; all other turns are
split. System prompts, tool calls and tool results have no segments.
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


def split(text: str, splitter: str = DEFAULT_SPLITTER) -> list[str]:
    """Return the segments of a text; a blank text has none.

    Every letter and digit of the text is in exactly one segment, in order.

    >>> split("Hey, how are you? I saw Dr. Hu at 9.30, with 1,000 others.")
    ['Hey', ' how are you?', 'I saw Dr. Hu at 9.30', ' with 1,000 others.']
    >>> split("Hey, how are you? Fine.", "punkt")
    ['Hey, how are you?', 'Fine.']
    """
    if splitter not in SPLITTERS:
        raise UsageError(f"unknown splitter {splitter!r}; known: {', '.join(SPLITTERS)}")
    return list(_split(text, splitter))


@functools.lru_cache(maxsize=1 << 13)
def _split(text: str, splitter: str) -> tuple[str, ...]:
    """Return the segments of a text; cached, since several metrics of a run split the same turns."""
    sentences = _sentences().tokenize(text)
    if splitter == "punkt":
        return tuple(sentence for sentence in sentences if sentence.strip())
    pieces = (piece.rstrip() for sentence in sentences for piece in _COMMA.split(sentence))
    return tuple(piece for piece in pieces if piece)


@cache
def _sentences() -> "punkt.PunktSentenceTokenizer":
    import punkt

    return punkt.PunktSentenceTokenizer(punkt.load_model("english"))


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment of a turn, with its act if that is known."""

    turn: int
    speaker: str
    text: str
    act: str | None = None


def segments_of(dialogue: Dialogue, splitter: str = DEFAULT_SPLITTER) -> list[Segment]:
    """Return the segments of all turns that take part; those without text are left out.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hey, how are you?"), ("assistant", "Fine.")])
    >>> [segment.text for segment in segments_of(chat)]
    ['Hey', ' how are you?', 'Fine.']
    """
    segments = []
    for number, turn in enumerate(dialogue.turns):
        if takes_part(turn):
            for text, act in _pieces(turn, splitter):
                if text.strip():
                    segments.append(Segment(number, turn.speaker, text, act))
    return segments


def _pieces(turn: Turn, splitter: str) -> list[tuple[str, str | None]]:
    annotated = annotations(turn)
    if annotated is None:
        return [(text, None) for text in split(turn.text, splitter)]
    return [(segment.text, None if segment.act is None else canonical(segment.act)) for segment in annotated]


def with_acts(dialogue: Dialogue, segments: Sequence[Segment]) -> Dialogue:
    """Return the dialogue with these segments and acts in the meta of its turns.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hey, how are you?")])
    >>> acted = with_acts(chat, [Segment(0, "user", "Hey", "greeting")])
    >>> acted.turns[0].meta["segments"]
    [{'text': 'Hey', 'act': 'greeting'}]
    """
    by_turn: dict[int, list[dict[str, Any]]] = {}
    for segment in segments:
        by_turn.setdefault(segment.turn, []).append({"text": segment.text, "act": segment.act})
    turns = tuple(
        msgspec.structs.replace(turn, meta={**turn.meta, "segments": by_turn.get(number, [])})
        if takes_part(turn)
        else turn
        for number, turn in enumerate(dialogue.turns)
    )
    return msgspec.structs.replace(dialogue, turns=turns)
