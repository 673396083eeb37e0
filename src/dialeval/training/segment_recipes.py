"""The recipes `segment-act`, `segmenter` and `span-act`: where segments end, and what each one does.

Acts are learned from annotated segments (ActDial, Controllable Dialogue, a labelled log) and from corpora
with other acts, whose labels `act_mapping.toml` maps to ours with a reason for each line. A corpus labels
whole utterances; such a label goes to the one segment of the utterance that is more than a filler, and to
none if there are several. Common acts are sampled, rare ones count more, and segments that people annotated
with our acts count more than mapped ones.

The segmenter and the classifier of spans learn from text as it is and from text that has lost marks, as chats
and published sets often have: a quarter of the turns is read without the commas that end segments, a quarter
without any mark that does. Where segments end is known from the whole text all the same.
"""

import functools
import hashlib
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dialeval.dialogues import Dialogue
from dialeval.dialogues.acts import ACTS, canonical
from dialeval.dialogues.dialogue import Turn, says_something, takes_part
from dialeval.dialogues.segments import Segment, segments_of, split, with_acts
from dialeval.models.encoder import Encoder
from dialeval.models.segment_acts import (
    CLASSIFIER,
    CUT,
    HEAD,
    SEGMENTER,
    SegmentSpan,
    gap_features,
    places_of,
    segment_features,
    segment_pair,
    span_features,
)
from dialeval.training.examples import PairExample, VectorExample
from dialeval.training.recipe import Recipe, encoder_recipe, pair_recipe
from dialeval.training.settings import TrainingSettings

MOST_MAPPED = {"inform": 6000, "question": 6000}  # training segments of an act, per corpus
MOST_OF_OTHERS = 3000
MOST_ANNOTATED = 40_000
ANNOTATED = "annotated"
ANNOTATED_WEIGHT = 10.0
SHARES = 0.5  # 1: the acts of a mapped corpus weigh what they do there; 0: all weigh the same
Chosen = tuple[Sequence[Segment], int, str, float]  # segments of a dialogue, a place, its act, its weight
_TABLE = Path(__file__).with_name("act_mapping.toml")
_ENDS = " .,;:!?-\"'()"
_SMALL = TrainingSettings(
    batch=128, learning_rate=1e-3, epochs=12, warmup=0.1, weight_decay=0.01, dropout=0.2
)
MOST_TURNS = 12_000  # whose gaps are learned from
_MARKS = " .,;:!?"
_TOGETHER = 2048  # segments described at a time
_ABOUT = "Says which of FlowEval's eleven acts a segment of a dialogue performs."


def recipe(encoder: str | None = None) -> Recipe:
    """Segment-act classifier: a head on the shipped encoder, or fine-tuned.

    Args:
        encoder: None: a small head on the frozen shipped encoder. A folder or Hub id, such as
            `roberta-large`, is fine-tuned as a whole.
    """
    if encoder is not None:
        return pair_recipe(
            name="segment-act",
            heads=(HEAD,),
            examples=_pair_examples,
            dev_figure="accuracy",
            settings=TrainingSettings(batch=32, learning_rate=1e-5, epochs=3, warmup=0.1, max_length=128),
            encoder=encoder,
            about=_ABOUT,
        )
    return encoder_recipe(
        "segment-act",
        HEAD,
        _vector_examples,
        "macro_f1",
        _SMALL,
        kind="segment-acts.v1",
        hidden=128,
        about=_ABOUT,
    )


def segmenter(encoder: str | None = None) -> Recipe:
    """Segmenter of turns, learned from text whose punctuation is removed."""
    settings = replace(_SMALL, batch=256, epochs=4, dropout=0.1)
    about = "Says after which words of a turn a segment ends, with or without punctuation."
    return encoder_recipe(
        "segmenter", CUT, _gaps, "accuracy", settings, kind=SEGMENTER, hidden=64, about=about, encoder=encoder
    )


def span_act(encoder: str | None = None) -> Recipe:
    """Segment-act classifier over the token states of the turn."""
    about = "Says which of FlowEval's eleven acts a segment performs, from the token states of its turn."
    return encoder_recipe(
        "span-act", HEAD, _acts, "macro_f1", _SMALL, kind=CLASSIFIER, hidden=128, about=about, encoder=encoder
    )


def _vector_examples(dialogues: Iterable[Dialogue], encoder: Encoder) -> Iterator[VectorExample]:
    chosen = choose(dialogues)
    rows = segment_features([(segments, number) for segments, number, _, _ in chosen], encoder)
    for row, (_, _, act, weight) in zip(rows, chosen, strict=True):
        yield VectorExample(row, {HEAD.name: ACTS.index(act)}, weight)


def _pair_examples(dialogues: Iterable[Dialogue]) -> Iterator[PairExample]:
    for segments, number, act, weight in choose(dialogues):
        before, text = segment_pair(segments, number)
        yield PairExample(before, text, {HEAD.name: ACTS.index(act)}, weight)


def choose(dialogues: Iterable[Dialogue]) -> list[Chosen]:
    """Draw training segments as `draw` does, without their dialogues."""
    return [drawn[1:] for drawn in draw(dialogues)]


def draw(dialogues: Iterable[Dialogue]) -> list[tuple[Dialogue, Sequence[Segment], int, str, float]]:
    """Draw training segments: for each corpus and act a fixed sample, weighted.

    Mapped segments are weighted such that the acts have nearly the shares that they have in the corpus, rare
    ones somewhat more (their counts to the power of `SHARES`), on average 1. Segments annotated with our acts
    keep their own shares, and each counts as much as ten mapped ones.
    """
    labelled: dict[tuple[str, str], list[tuple[bytes, Dialogue, Sequence[Segment], int]]] = defaultdict(list)
    for dialogue in dialogues:
        corpus = _corpus(dialogue)
        segments: Sequence[Segment] = segments_of(mapped(dialogue))
        for number, segment in enumerate(segments):
            if segment.act is not None:
                key = hashlib.blake2b(
                    f"{dialogue.id}|{number}|{segment.text}".encode(), digest_size=8
                ).digest()
                labelled[corpus, segment.act].append((key, dialogue, segments, number))
    chosen: dict[tuple[str, str], list[tuple[Dialogue, Sequence[Segment], int]]] = {}
    for (corpus, act), places in labelled.items():
        most = MOST_ANNOTATED if corpus == ANNOTATED else MOST_MAPPED.get(act, MOST_OF_OTHERS)
        chosen[corpus, act] = [place[1:] for place in sorted(places, key=lambda place: place[0])[:most]]
    counted = {key: len(places) for key, places in labelled.items() if key[0] != ANNOTATED}
    factor = sum(len(chosen[key]) for key in counted) / max(1.0, sum(n**SHARES for n in counted.values()))
    return [
        (dialogue, segments, number, act, factor * counted[corpus, act] ** SHARES / len(places))
        if corpus != ANNOTATED
        else (dialogue, segments, number, act, ANNOTATED_WEIGHT)
        for (corpus, act), places in chosen.items()
        for dialogue, segments, number in places
    ]


def _corpus(dialogue: Dialogue) -> str:
    """Return the name of the corpus, by the annotation in the meta of its turns."""
    for turn in dialogue.turns:
        for field, name in (("segments", ANNOTATED), ("tag", "swda"), ("acts", "sgd")):
            if field in turn.meta:
                return name
    return "dailydialog"


@dataclass(frozen=True, slots=True)
class ActRule:
    """One line of the table."""

    act: str
    why: str
    corpus: str | None
    labels: frozenset[str]
    only: re.Pattern[str] | None
    words: tuple[int, int]
    asked: bool | None
    phrase: bool

    def fits(self, corpus: str, label: str | None, text: str, telling: bool) -> bool:
        """Return whether the rule applies to the segment; only phrases apply outside the main segment."""
        if not (self.phrase or (telling and label is not None)):
            return False
        plain = text.lower().strip(_ENDS)
        return (
            self.corpus in (None, corpus)
            and (not self.labels or label in self.labels)
            and (self.only is None or self.only.fullmatch(plain) is not None)
            and self.words[0] <= len(plain.split()) <= self.words[1]
            and self.asked in (None, "?" in text)
        )


@functools.cache
def rules() -> tuple[ActRule, ...]:
    """Return the table in the order in which its lines are tried.

    >>> len(rules()), rules()[0].act
    (35, 'greeting')
    """
    return tuple(
        ActRule(
            canonical(row["act"]),
            row["why"],
            row.get("corpus"),
            frozenset(row.get("labels", ())),
            re.compile(row["only"]) if "only" in row else None,
            tuple(row.get("words", (1, 40))),
            row.get("asked"),
            row.get("phrase", False),
        )
        for row in _table()["rule"]
    )


@functools.cache
def _table() -> dict[str, Any]:
    return tomllib.loads(_TABLE.read_text(encoding="utf-8"))


@functools.cache
def _fillers() -> re.Pattern[str]:
    return re.compile(_table()["fillers"]["only"])


def mapped(dialogue: Dialogue) -> Dialogue:
    """Return the dialogue with our acts, where its corpus' labels say them; segments it has are kept.

    >>> from dialeval.dialogues.dialogue import Turn, dialogue
    >>> call = dialogue([Turn("A", "Well, where do you live?", {"tag": "qw"})])
    >>> [turn.meta["segments"] for turn in mapped(call).turns][0]
    [{'text': 'Well', 'act': None}, {'text': ' where do you live?', 'act': 'question'}]
    """
    if any("segments" in turn.meta for turn in dialogue.turns):
        return dialogue
    segments = [
        segment
        for number, turn in enumerate(dialogue.turns)
        if takes_part(turn)
        for segment in _mapped_turn(number, turn)
    ]
    return with_acts(dialogue, segments)


def _mapped_turn(number: int, turn: Turn) -> Iterator[Segment]:
    pieces = split(turn.text)
    telling = [
        place
        for place, piece in enumerate(pieces)
        if len(pieces) == 1 or not _fillers().fullmatch(piece.lower().strip(_ENDS))
    ]
    corpus, label = _label(turn)
    for place, piece in enumerate(pieces):
        act = next(
            (rule.act for rule in rules() if rule.fits(corpus, label, piece, [place] == telling)), None
        )
        yield Segment(number, turn.speaker, piece, act)


def _label(turn: Turn) -> tuple[str, str | None]:
    """Name the corpus and the label of a turn; a turn with several different labels has none."""
    meta = turn.meta
    if "tag" in meta:
        return "swda", str(meta["tag"])
    if isinstance(meta.get("acts"), dict):
        kinds = {str(act[0]) for acts in meta["acts"].values() for act in acts}
        return "sgd", kinds.pop() if len(kinds) == 1 else None
    return "dailydialog", None if meta.get("act") is None else str(meta["act"])


def _gaps(dialogues: Iterable[Dialogue], encoder: Encoder) -> Iterator[VectorExample]:
    """Make an example of each gap between two words, of a fixed sample of turns."""
    turns = {turn.text for dialogue in dialogues for turn in dialogue.turns if says_something(turn)}
    chosen = sorted(turns, key=lambda text: _chance(f"turn|{text}"))[:MOST_TURNS]
    for start in range(0, len(chosen), 512):
        damaged_turns = [damaged(text) for text in chosen[start : start + 512]]
        features, gaps = gap_features([text for text, _ in damaged_turns], encoder)
        for row, (number, end) in zip(features, gaps, strict=True):
            if damaged_turns[number][0][end:].strip():  # every turn ends at its end
                yield VectorExample(row.copy(), {CUT.name: float(end in damaged_turns[number][1])})


def damaged(text: str) -> tuple[str, set[int]]:
    """Return a turn, perhaps without some of its marks, and the characters at which its segments end.

    >>> text, ends = damaged("Hey, how are you?")
    >>> [text[:end].strip().rstrip(",") for end in sorted(ends)][:1]
    ['Hey']
    """
    pieces, loss = [piece.strip() for piece in split(text)], _loss(text)
    if loss == "nothing":
        padded, cursor, ends = f" {text.strip()}", 0, set[int]()
        for piece in pieces:
            cursor = padded.find(piece, cursor) + len(piece)
            ends |= {cursor, cursor + 1} if padded[cursor : cursor + 1] == "," else {cursor}
        return padded, ends
    kept_pieces = [piece.rstrip(_MARKS) if loss == "marks" else piece for piece in pieces]
    lengths = np.cumsum([1 + len(piece) for piece in kept_pieces if piece])
    return "".join(f" {piece}" for piece in kept_pieces if piece), set(lengths.tolist())


def _acts(dialogues: Iterable[Dialogue], encoder: Encoder) -> Iterator[VectorExample]:
    drawn = draw(dialogues)
    for start in range(0, len(drawn), _TOGETHER):
        block = drawn[start : start + _TOGETHER]
        pairs = [_lost(dialogue, segments, number) for dialogue, segments, number, _, _ in block]
        rows = span_features([place for pair in pairs for place in pair], encoder)
        last = np.cumsum([len(pair) for pair in pairs]) - 1
        for place, (_, _, _, act, weight) in zip(last.tolist(), block, strict=True):
            yield VectorExample(rows[place].copy(), {HEAD.name: ACTS.index(act)}, weight)


def _lost(dialogue: Dialogue, segments: Sequence[Segment], number: int) -> list[SegmentSpan]:
    """Return a segment after the one before it, in turns that have perhaps lost marks."""
    near = range(max(0, number - 1), number + 1)
    numbers = {segments[place].turn for place in near}
    loss = _loss(f"{dialogue.id}|{number}")
    shown: Sequence[Segment] = segments
    if loss == "marks":
        shown = [replace(segment, text=segment.text.rstrip(_MARKS) or segment.text) for segment in segments]
    if loss != "nothing":
        turns = list(dialogue.turns)
        for turn in numbers:
            joined = " ".join(segment.text.strip() for segment in shown if segment.turn == turn)
            turns[turn] = msgspec.structs.replace(turns[turn], text=joined)
        dialogue = msgspec.structs.replace(dialogue, turns=tuple(turns))
    first = next(place for place, segment in enumerate(shown) if segment.turn == segments[near[0]].turn)
    spans = places_of(dialogue, shown[first : number + 1])
    return [spans[place - first]._replace(segments=shown, number=place) for place in near]


def _loss(text: str) -> str:
    return ("nothing", "nothing", "commas", "marks")[int(4 * _chance(f"loss|{text}"))]


def _chance(text: str) -> float:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64
