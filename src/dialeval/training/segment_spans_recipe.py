"""The recipes `segmenter` and `span-act`: where segments end in a turn, and what each one does there.

Both learn from text as it is and from text that has lost marks, as chats and published sets often have: a
quarter of the turns is read without the commas that end segments, a quarter without any mark that does. Where
segments end is known from the whole text all the same.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from dialeval.dialogues import Dialogue, takes_part
from dialeval.dialogues.acts import ACTS
from dialeval.dialogues.segments import Segment, split
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.models.segment_acts import HEAD as ACT
from dialeval.models.segment_spans import (
    CLASSIFIER,
    CUT,
    SEGMENTER,
    Place,
    gap_features,
    places_of,
    span_features,
)
from dialeval.training import Recipe, TrainingSettings, VectorExample, vector_recipe
from dialeval.training.segment_act_recipe import draw

MOST_TURNS = 12_000  # whose gaps are learned from
_ENDS = " .,;:!?"
_TOGETHER = 2048  # segments described at a time


def segmenter(encoder: str | None = None) -> Recipe:
    """Where one segment of a turn ends and the next begins, learned from punctuated text that loses marks."""
    frozen = Encoder.load(encoder or DEFAULT)
    return vector_recipe(
        name="segmenter",
        heads=(CUT,),
        examples=lambda dialogues: _gaps(dialogues, frozen),
        dev_figure="accuracy",
        settings=TrainingSettings(
            batch=256, learning_rate=1e-3, epochs=4, warmup=0.1, weight_decay=0.01, dropout=0.1
        ),
        hidden=(64,),
        activation="gelu",
        about="Says after which words of a turn a segment ends, with or without punctuation.",
        fields={"encoder": {"name": frozen.name, "sha": frozen.sha}},
        kind=SEGMENTER,
    )


def span_act(encoder: str | None = None) -> Recipe:
    """What each segment of a turn does, read from the turn's own token states."""
    frozen = Encoder.load(encoder or DEFAULT)
    return vector_recipe(
        name="span-act",
        heads=(ACT,),
        examples=lambda dialogues: _acts(dialogues, frozen),
        dev_figure="macro_f1",
        settings=TrainingSettings(
            batch=128, learning_rate=1e-3, epochs=12, warmup=0.1, weight_decay=0.01, dropout=0.2
        ),
        hidden=(128,),
        activation="gelu",
        about="Says which of FlowEval's eleven acts a segment performs, from the token states of its turn.",
        fields={"encoder": {"name": frozen.name, "sha": frozen.sha}},
        kind=CLASSIFIER,
    )


def _gaps(dialogues: Iterable[Dialogue], encoder: Encoder) -> Iterator[VectorExample]:
    """Make an example of each gap between two words, of a fixed sample of turns."""
    turns = {turn.text for one in dialogues for turn in one.turns if takes_part(turn) and turn.text.strip()}
    chosen = sorted(turns, key=lambda text: _chance(f"turn|{text}"))[:MOST_TURNS]
    for start in range(0, len(chosen), 512):
        made = [damaged(text) for text in chosen[start : start + 512]]
        features, gaps = gap_features([text for text, _ in made], encoder)
        for row, (number, end) in zip(features, gaps, strict=True):
            if made[number][0][end:].strip():  # every turn ends at its end
                yield VectorExample(row.copy(), {CUT.name: float(end in made[number][1])})


def damaged(text: str) -> tuple[str, set[int]]:
    """Return a turn, perhaps without some of its marks, and the characters at which its segments end.

    >>> text, ends = damaged("Hey, how are you?")
    >>> [text[:end].strip().rstrip(",") for end in sorted(ends)][:1]
    ['Hey']
    """
    pieces, loss = [piece.strip() for piece in split(text)], _loss(text)
    if loss == "nothing":
        whole, cursor, ends = f" {text.strip()}", 0, set[int]()
        for piece in pieces:
            cursor = whole.find(piece, cursor) + len(piece)
            ends |= {cursor, cursor + 1} if whole[cursor : cursor + 1] == "," else {cursor}
        return whole, ends
    kept = [piece.rstrip(_ENDS) if loss == "marks" else piece for piece in pieces]
    lengths = np.cumsum([1 + len(piece) for piece in kept if piece])
    return "".join(f" {piece}" for piece in kept if piece), set(lengths.tolist())


def _acts(dialogues: Iterable[Dialogue], encoder: Encoder) -> Iterator[VectorExample]:
    drawn = draw(dialogues)
    for start in range(0, len(drawn), _TOGETHER):
        some = drawn[start : start + _TOGETHER]
        pairs = [_lost(dialogue, segments, number) for dialogue, segments, number, _, _ in some]
        rows = span_features([place for pair in pairs for place in pair], encoder)
        last = np.cumsum([len(pair) for pair in pairs]) - 1
        for place, (_, _, _, act, weight) in zip(last.tolist(), some, strict=True):
            yield VectorExample(rows[place].copy(), {ACT.name: ACTS.index(act)}, weight)


def _lost(dialogue: Dialogue, segments: Sequence[Segment], number: int) -> list[Place]:
    """Return a segment after the one before it, in turns that have perhaps lost marks."""
    near = range(max(0, number - 1), number + 1)
    numbers = {segments[one].turn for one in near}
    loss = _loss(f"{dialogue.id}|{number}")
    said: Sequence[Segment] = segments
    if loss == "marks":
        said = [replace(one, text=one.text.rstrip(_ENDS) or one.text) for one in segments]
    if loss != "nothing":
        turns = list(dialogue.turns)
        for turn in numbers:
            joined = " ".join(one.text.strip() for one in said if one.turn == turn)
            turns[turn] = msgspec.structs.replace(turns[turn], text=joined)
        dialogue = msgspec.structs.replace(dialogue, turns=tuple(turns))
    first = next(place for place, one in enumerate(said) if one.turn == segments[near[0]].turn)
    found = places_of(dialogue, said[first : number + 1])
    return [found[one - first]._replace(segments=said, number=one) for one in near]


def _loss(text: str) -> str:
    return ("nothing", "nothing", "commas", "marks")[int(4 * _chance(f"loss|{text}"))]


def _chance(text: str) -> float:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64
