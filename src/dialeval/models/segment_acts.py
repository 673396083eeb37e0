"""Segment acts: where the segments of a turn end, and the act of each, such as a question or a greeting.

There are three kinds of classifier. Two are heads over a frozen encoder: over the segment alone
(`SegmentActs`: its vectors from a middle and the last layer, those of the segment before, and a few counts),
or over the turn (`SpanActs`: the mean state of the segment's tokens in it). The third is a fine-tuned
cross-encoder that reads a segment with the one before, as in the FlowEval paper. A `Segmenter` classifies
each gap between two words by their states; it was also trained on text without commas or any punctuation.
Models that read turns encode only texts that other metrics of the run need anyway.
"""

import functools
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

from dialeval.dialogues import Dialogue, says_something, takes_part
from dialeval.dialogues.acts import ACTS, annotations
from dialeval.dialogues.segments import DEFAULT_SPLITTER, SPLITTERS, Segment, segments_of, with_acts
from dialeval.errors import DataError
from dialeval.models.artefact import Artefact, Model, load, opened_once
from dialeval.models.encoder import Encoder, Reading, recorded_encoder
from dialeval.models.heads import EncoderHead, Head, VectorHead
from dialeval.models.needs import Need, plain_turns, segment_texts
from dialeval.models.network import Floats
from dialeval.models.pairs import PairScorer
from dialeval.models.token_states import plain

DEFAULT, SPANS, LEARNED = "dialeval-segment-act", "dialeval-span-act", "dialeval-segmenter"
HEAD, CUT = Head("act", "classes", ACTS), Head("cut", "binary")
SEGMENTER, CLASSIFIER = "segmenter.v1", "span-acts.v1"
_FACTS = 7
_TURNS = 1024  # turns whose token states are in memory at a time
_MARKS = ",;:."
Place = tuple[Sequence[Segment], int]
"""A segment: those of its dialogue, and its place among them."""


def _with_guesses(
    dialogues: Sequence[Dialogue], cut: Sequence[Sequence[Segment]], shares: Iterator[Floats]
) -> list[Dialogue]:
    """Return dialogues with acts in the meta of turns: annotated ones, else the likeliest by `shares`.

    There is a row of shares for each segment of the dialogues that have one without an act.
    """
    labelled = []
    for dialogue, segments in zip(dialogues, cut, strict=True):
        filled = list(segments)
        if is_open(segments):
            guesses = [ACTS[int(next(shares).argmax())] for _ in segments]
            filled = [
                replace(segment, act=segment.act or act)
                for segment, act in zip(segments, guesses, strict=True)
            ]
        labelled.append(with_acts(dialogue, filled))
    return labelled


def is_open(segments: Sequence[Segment]) -> bool:
    """Return whether a segment has no act yet."""
    return any(segment.act is None for segment in segments)


class SegmentActs(Model):
    """A classifier of segments.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hi, where is the station?"), ("assistant", "Sorry? I don't understand.")])
    >>> [[s["act"] for s in turn.meta["segments"]] for turn in SegmentActs.load().label([chat])[0].turns]
    [['greeting', 'question'], ['backchannel-failure', 'backchannel-failure']]
    """

    kinds: ClassVar[tuple[str, ...]] = ("segment-acts.v1", "pair-scorer.v1")
    default: ClassVar[str] = DEFAULT

    def __init__(self, artefact: Artefact) -> None:
        super().__init__(artefact)
        config, place = artefact.config, artefact.folder / "config.json"
        self._pairs = PairScorer(artefact) if artefact.kind == "pair-scorer.v1" else None
        if self._pairs is None:
            self._head, self._encoder = VectorHead(artefact), recorded_encoder(config, place)
        if HEAD not in (self._pairs.heads if self._pairs else self._head.heads):
            raise DataError(f"has no head 'act' with the classes {', '.join(ACTS)}", file=place)

    def needs(self, splitter: str = DEFAULT_SPLITTER) -> list[Need]:
        """Return the needed readings of an encoder; a cross-encoder has its own."""
        if self._pairs is not None:
            return []
        readings = [self._encoder.reading(layer, "mean") for layer in self._encoder.middle_and_last]
        return [Need(self._encoder, segment_texts(splitter), tuple(readings))]

    def label(self, dialogues: Sequence[Dialogue], splitter: str = DEFAULT_SPLITTER) -> list[Dialogue]:
        """Return the dialogues with the acts of all segments in the meta of their turns.

        Annotated acts are kept.
        """
        cut = [segments_of(dialogue, splitter) for dialogue in dialogues]
        shares = self.shares([segments for segments in cut if is_open(segments)])
        return _with_guesses(dialogues, cut, iter(shares))

    def shares(self, dialogues: Sequence[Sequence[Segment]]) -> Floats:
        """Return the probability of each act for each segment of each dialogue, one after the other."""
        places = [(segments, number) for segments in dialogues for number in range(len(segments))]
        if not places:
            return np.zeros((0, len(ACTS)), np.float32)
        if self._pairs is not None:
            probabilities = self._pairs.score([segment_pair(*place) for place in places]).values[HEAD.name]
        else:
            probabilities = self._head.answers(segment_features(places, self._encoder))[HEAD.name]
        return np.asarray(probabilities, np.float32)


def segment_pair(segments: Sequence[Segment], number: int) -> tuple[tuple[str, ...], str]:
    """Return a segment after the one before it, as a cross-encoder reads them."""
    before = tuple(segment.text.strip() for segment in segments[max(0, number - 1) : number])
    return before, segments[number].text.strip()


def segment_features(places: Sequence[Place], encoder: Encoder) -> Floats:
    """Return features of segments, each given as its dialogue's segments and its index, a row each.

    >>> cut = [Segment(0, "user", "Hi"), Segment(0, "user", "who is there?"), Segment(1, "assistant", "Me.")]
    >>> features = segment_features([(cut, 1), (cut, 2)], Encoder.load())
    >>> features.shape, features[0, -7:].tolist()[:5]
    ((2, 1543), [1.0, 1.0, 0.0, 1.0, 1.0])
    """
    pairs = [segment_pair(*place) for place in places]
    texts = list(dict.fromkeys(text for before, current in pairs for text in (*before, current)))
    rows_of = {text: number for number, text in enumerate(texts)}
    vectors = [encoder.vectors(texts, layer=layer, pooling="mean") for layer in encoder.middle_and_last]
    encoded = np.concatenate(vectors, axis=1)
    width = encoded.shape[1]
    rows = np.zeros((len(places), 2 * width + _FACTS), np.float32)
    for row, place, (before, current) in zip(rows, places, pairs, strict=True):
        row[:width] = encoded[rows_of[current]]
        for text in before:
            row[width : 2 * width] = encoded[rows_of[text]]
        row[2 * width :] = segment_facts(*place)
    return rows


def segment_facts(segments: Sequence[Segment], number: int) -> list[float]:
    """Return features of context, question marks, length and position of a segment."""
    segment = segments[number]
    before = segments[number - 1] if number else None
    after = segments[number + 1] if number + 1 < len(segments) else None
    return [
        float(before is not None),
        float(before is not None and before.speaker == segment.speaker),
        float(after is not None and after.turn == segment.turn),
        float("?" in segment.text),
        float(before is not None and "?" not in before.text),
        float(np.log1p(len(segment.text.split()))),
        float(np.log1p(number)),
    ]


class SegmentSpan(NamedTuple):
    """A segment of a dialogue: the turn as it is encoded, the characters it covers there, and its context."""

    turn: str
    start: int
    end: int
    segments: Sequence[Segment]
    number: int


def places_of(dialogue: Dialogue, segments: Sequence[Segment]) -> list[SegmentSpan]:
    """Return the span of each segment in its turn.

    A segment whose text is not in the turn, or not after the one before, is a text of its own.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hey, how are you?")])
    >>> [(span.start, span.end) for span in places_of(chat, segments_of(chat))]
    [(1, 4), (6, 18)]
    """
    spans, turn, cursor, text = list[SegmentSpan](), -1, 0, ""
    for number, segment in enumerate(segments):
        if segment.turn != turn:
            turn, cursor, text = segment.turn, 0, plain(dialogue.turns[segment.turn].text)
        stripped = segment.text.strip()
        start = text.find(stripped, cursor)
        if start < 0:
            alone = plain(stripped)
            spans.append(SegmentSpan(alone, len(alone) - len(stripped), len(alone), segments, number))
            continue
        cursor = start + len(stripped)
        spans.append(SegmentSpan(text, start, cursor, segments, number))
    return spans


class Segmenter(EncoderHead):
    """Cuts turns into segments, with or without punctuation.

    >>> Segmenter.load().cut(["hey how are you i am fine thanks"])
    [['hey', 'how are you', 'i am fine', 'thanks']]
    """

    kinds: ClassVar[tuple[str, ...]] = (SEGMENTER,)
    default: ClassVar[str] = LEARNED
    head: ClassVar[Head] = CUT

    def cut(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the segments of each text, without blanks and lone punctuation."""
        cuts: list[list[str]] = []
        for start in range(0, len(texts), _TURNS):
            batch = [plain(text) for text in texts[start : start + _TURNS]]
            features, gaps = gap_features(batch, self.encoder)
            ends: list[list[int]] = [[] for _ in batch]
            if gaps:
                probabilities = self._head.answers(features)[CUT.name]
                for (number, end), share in zip(gaps, probabilities.tolist(), strict=True):
                    ends[number] += [end] if share >= 0.5 else []
            cuts += [list(_pieces(text, positions)) for text, positions in zip(batch, ends, strict=True)]
        return cuts

    def segments(self, dialogues: Sequence[Dialogue]) -> list[list[Segment]]:
        """Return the segments of each dialogue; annotated segments are kept."""
        parts = dict.fromkeys(
            turn.text
            for dialogue in dialogues
            for turn in dialogue.turns
            if says_something(turn) and annotations(turn) is None
        )
        pieces = dict(zip(parts, self.cut(list(parts)), strict=True))
        results = []
        for dialogue in dialogues:
            cut = list[Segment]()
            for number, turn in enumerate(dialogue.turns):
                if takes_part(turn):
                    annotated = annotations(turn)
                    labelled: list[tuple[str, str | None]] = [
                        (text, None) for text in pieces.get(turn.text, ())
                    ]
                    if annotated is not None:
                        labelled = [(annotation.text, annotation.act) for annotation in annotated]
                    cut += [
                        Segment(number, turn.speaker, text, act) for text, act in labelled if text.strip()
                    ]
            results.append(cut)
        return results


def _pieces(text: str, ends: Sequence[int]) -> Iterator[str]:
    for start, end in zip([0, *ends], [*ends, len(text)], strict=True):
        piece = text[start:end].strip().strip(",").strip()
        if any(letter.isalnum() for letter in piece) or (piece and not set(piece) <= set(_MARKS)):
            yield piece


@functools.lru_cache(maxsize=1 << 13)
def _offsets(encoder: Encoder, text: str) -> list[tuple[int, int]]:
    """Return first and last character of each token of a text; cached for segmenter and classifier."""
    return encoder.tokenizer.offsets([text])[0]


def gap_features(texts: Sequence[str], encoder: Encoder) -> tuple[Floats, list[tuple[int, int]]]:
    """Return features of the gaps between words: the token states before and after each.

    Returns:
        A row for each gap, and its place: the number of the text, and the character where the word ends.
    """
    layer = encoder.middle_and_last[0]
    rows, gaps = [np.zeros((0, 2 * encoder.width), np.float32)], list[tuple[int, int]]()
    for number, (text, states) in enumerate(zip(texts, encoder.tokens(texts, layer=layer), strict=True)):
        offsets = _offsets(encoder, text)
        before = [
            place
            for place, (previous, following) in enumerate(pairwise(offsets))
            if following[0] > previous[1] or not text[previous[1] - 1].isalnum()
        ]
        if before:
            place = np.array(before)
            rows.append(np.concatenate([states[place + 1], states[place + 2]], axis=1))
            gaps += [(number, offsets[place][1]) for place in before]
    return np.concatenate(rows), gaps


class SpanActs(EncoderHead):
    """A classifier of segments that reads them in their turn.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hi where is the station?"), ("assistant", "Sorry? I don't understand.")])
    >>> [[s["act"] for s in turn.meta["segments"]] for turn in SpanActs.load().label([chat])[0].turns]
    [['greeting', 'question'], ['apology', 'backchannel-failure']]
    """

    kinds: ClassVar[tuple[str, ...]] = (CLASSIFIER,)
    default: ClassVar[str] = SPANS
    head: ClassVar[Head] = HEAD

    def needs(self, splitter: str = LEARNED) -> list[Need]:
        """Return the needed readings of an encoder; a segmenter reads the first of its layers."""
        if splitter not in SPLITTERS:
            Segmenter.load(splitter)
        readings = tuple(Reading(layer, "tokens") for layer in self.encoder.middle_and_last)
        return [Need(self.encoder, plain_turns, readings)]

    def label(self, dialogues: Sequence[Dialogue], splitter: str = LEARNED) -> list[Dialogue]:
        """Return the dialogues with the acts of all segments in the meta of their turns.

        `splitter` is one of the rules, or names a segmenter. Annotated acts are kept.
        """
        if splitter in SPLITTERS:
            cut = [segments_of(dialogue, splitter) for dialogue in dialogues]
        else:
            cut = Segmenter.load(splitter).segments(dialogues)
        pairs = zip(dialogues, cut, strict=True)
        spans = [
            span
            for dialogue, segments in pairs
            if is_open(segments)
            for span in places_of(dialogue, segments)
        ]
        return _with_guesses(dialogues, cut, iter(self.shares(spans)))

    def shares(self, places: Sequence[SegmentSpan]) -> Floats:
        """Return the probability of each act for each segment, a row each."""
        if not places:
            return np.zeros((0, len(ACTS)), np.float32)
        features = span_features(places, self.encoder)
        return np.asarray(self._head.answers(features)[HEAD.name], np.float32)


@opened_once
def open_classifier(folder: str) -> SegmentActs | SpanActs:
    """Open a classifier of segments, of either kind."""
    return (SpanActs if load(folder).kind == CLASSIFIER else SegmentActs).load(folder)


def span_features(places: Sequence[SegmentSpan], encoder: Encoder) -> Floats:
    """Return features of segments, a row each: mean states, those of the segment before, and counts.

    The segment before is used if it precedes in `places`, as in the result of `places_of`.
    """
    means = span_means(places, encoder)
    width = means.shape[1]
    facts = np.array([segment_facts(span.segments, span.number) for span in places], np.float32)
    rows = np.zeros((len(places), 2 * width + facts.shape[1]), np.float32)
    rows[:, :width], rows[:, 2 * width :] = means, facts
    for number, span in enumerate(places):
        before = places[number - 1]
        if number and before.segments is span.segments and before.number == span.number - 1:
            rows[number, width : 2 * width] = means[number - 1]
    return rows


def span_means(places: Sequence[SegmentSpan], encoder: Encoder) -> Floats:
    """Return the mean state of each segment's tokens in two layers; zeros where it has no token."""
    layers = encoder.middle_and_last
    rows = np.zeros((len(places), len(layers), encoder.width), np.float32)
    by_turn: dict[str, list[int]] = {}
    for number, span in enumerate(places):
        by_turn.setdefault(span.turn, []).append(number)
    turns = list(by_turn)
    for start in range(0, len(turns), _TURNS):
        batch = turns[start : start + _TURNS]
        encoder.prepare([(batch, [Reading(layer, "tokens") for layer in layers])])
        states = zip(*(encoder.tokens(batch, layer=layer) for layer in layers), strict=True)
        for turn, by_layer in zip(batch, states, strict=True):
            ends = [end for _, end in _offsets(encoder, turn)]
            for number in by_turn[turn]:
                span = places[number]
                first, last = bisect_right(ends, span.start), bisect_right(ends, span.end)
                for layer, layer_states in enumerate(by_layer if last > first else ()):
                    rows[number, layer] = layer_states[1 + first : 1 + last].mean(axis=0)
    return rows.reshape(len(places), -1)
