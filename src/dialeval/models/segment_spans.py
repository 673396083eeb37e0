"""Segments as spans of their turn: where they begin and end among its tokens, and what each one does.

A turn is encoded once, whole. A *segmenter* looks at the states of every two neighbouring words and says
whether a segment ends between them; it has learned to do so from text that had lost its commas, or all of its
marks, as well. A *classifier* reads the mean state of a segment's tokens, that of the segment before, and a
few plain facts. Neither encodes anything that other metrics of a run have not asked for anyway.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

from dialeval.dialogues import Dialogue, takes_part
from dialeval.dialogues.acts import ACTS, annotations
from dialeval.dialogues.segments import SPLITTERS, Segment, segments_of, with_acts
from dialeval.models.encoder import Encoder, Reading
from dialeval.models.heads import EncoderHead, Head
from dialeval.models.needs import Need, plain_turns
from dialeval.models.network import Floats
from dialeval.models.segment_acts import HEAD as ACT
from dialeval.models.segment_acts import segment_facts
from dialeval.models.token_states import plain

LEARNED = "dialeval-segmenter"
DEFAULT = "dialeval-span-act"
CUT = Head("cut", "binary")
SEGMENTER, CLASSIFIER = "segmenter.v1", "span-acts.v1"
_TURNS = 1024  # whose token states are held at a time
_MARKS = ",;:."


class Place(NamedTuple):
    """A segment of a dialogue: the turn as it is encoded, the characters it covers there, and its context."""

    turn: str
    start: int
    end: int
    segments: Sequence[Segment]
    number: int


def places_of(dialogue: Dialogue, segments: Sequence[Segment]) -> list[Place]:
    """Find segments in their turns.

    A segment whose text is not in the turn, or not after the one before, is a text of its own.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hey, how are you?")])
    >>> [(one.start, one.end) for one in places_of(chat, segments_of(chat))]
    [(1, 4), (6, 18)]
    """
    found, turn, cursor, text = list[Place](), -1, 0, ""
    for number, one in enumerate(segments):
        if one.turn != turn:
            turn, cursor, text = one.turn, 0, plain(dialogue.turns[one.turn].text)
        said = one.text.strip()
        start = text.find(said, cursor)
        if start < 0:
            own = plain(said)
            found.append(Place(own, len(own) - len(said), len(own), segments, number))
            continue
        cursor = start + len(said)
        found.append(Place(text, start, cursor, segments, number))
    return found


class Segmenter(EncoderHead):
    """Cuts turns where one thing ends and another begins, whether or not there is a mark.

    >>> Segmenter.load().cut(["hey how are you i am fine thanks"])
    [['hey', 'how are you', 'i am fine', 'thanks']]
    """

    kinds: ClassVar[tuple[str, ...]] = (SEGMENTER,)
    default: ClassVar[str] = LEARNED
    head: ClassVar[Head] = CUT

    def cut(self, texts: Sequence[str], offsets: "TokenOffsets | None" = None) -> list[list[str]]:
        """Cut each text; what is blank, or a mark alone, is no segment."""
        found: list[list[str]] = []
        for start in range(0, len(texts), _TURNS):
            some = [plain(text) for text in texts[start : start + _TURNS]]
            features, gaps = gap_features(some, self.encoder, offsets)
            ends: list[list[int]] = [[] for _ in some]
            if gaps:
                said = self._head.answers(features)[CUT.name]
                for (number, end), share in zip(gaps, said.tolist(), strict=True):
                    ends[number] += [end] if share >= 0.5 else []
            found += [list(_pieces(text, where)) for text, where in zip(some, ends, strict=True)]
        return found

    def segments(
        self, dialogues: Sequence[Dialogue], offsets: "TokenOffsets | None" = None
    ) -> list[list[Segment]]:
        """Return the segments of each dialogue; a cut that is there is kept."""
        parts = dict.fromkeys(
            turn.text
            for one in dialogues
            for turn in one.turns
            if takes_part(turn) and turn.text.strip() and annotations(turn) is None
        )
        pieces = dict(zip(parts, self.cut(list(parts), offsets), strict=True))
        found = []
        for one in dialogues:
            cut = list[Segment]()
            for number, turn in enumerate(one.turns):
                if takes_part(turn):
                    known = annotations(turn)
                    own: list[tuple[str, str | None]] = [(text, None) for text in pieces.get(turn.text, ())]
                    if known is not None:
                        own = [(one.text, one.act) for one in known]
                    cut += [Segment(number, turn.speaker, text, act) for text, act in own if text.strip()]
            found.append(cut)
        return found


def _pieces(text: str, ends: Sequence[int]) -> Iterator[str]:
    for start, end in zip([0, *ends], [*ends, len(text)], strict=True):
        piece = text[start:end].strip().strip(",").strip()
        if any(letter.isalnum() for letter in piece) or (piece and not set(piece) <= set(_MARKS)):
            yield piece


class TokenOffsets:
    """Where the tokens of texts begin and end; a text that is asked for again is not tokenised again."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self._known: dict[str, list[tuple[int, int]]] = {}

    def of(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Return first and last character of each token, of each text."""
        fresh = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known.update(zip(fresh, self.encoder.tokenizer.offsets(fresh), strict=True))
        return [self._known[text] for text in texts]


def gap_features(
    texts: Sequence[str], encoder: Encoder, offsets: TokenOffsets | None = None
) -> tuple[Floats, list[tuple[int, int]]]:
    """Describe the gaps between the words of turns: the states before and after each.

    Returns:
        A row for each gap, and its place: the number of the text, and the character where the word ends.
    """
    layer = encoder.middle_and_last[0]
    rows, gaps = [np.zeros((0, 2 * encoder.width), np.float32)], list[tuple[int, int]]()
    known = _offsets(encoder, offsets).of(texts)
    for number, (text, states, where) in enumerate(
        zip(texts, encoder.tokens(texts, layer=layer), known, strict=True)
    ):
        before = [
            place
            for place, (one, other) in enumerate(pairwise(where))
            if other[0] > one[1] or not text[one[1] - 1].isalnum()
        ]
        if before:
            place = np.array(before)
            rows.append(np.concatenate([states[place + 1], states[place + 2]], axis=1))
            gaps += [(number, where[place][1]) for place in before]
    return np.concatenate(rows), gaps


def _offsets(encoder: Encoder, known: TokenOffsets | None) -> TokenOffsets:
    return known if known is not None and known.encoder is encoder else TokenOffsets(encoder)


class SpanActs(EncoderHead):
    """A classifier of segments that reads them where they stand.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hi where is the station?"), ("assistant", "Sorry? I don't understand.")])
    >>> [[one["act"] for one in turn.meta["segments"]] for turn in SpanActs.load().label([chat])[0].turns]
    [['greeting', 'question'], ['apology', 'backchannel-failure']]
    """

    kinds: ClassVar[tuple[str, ...]] = (CLASSIFIER,)
    default: ClassVar[str] = DEFAULT
    head: ClassVar[Head] = ACT

    def needs(self, splitter: str = LEARNED) -> list[Need]:
        """Return what it reads of an encoder; a segmenter reads the first of its layers."""
        if splitter not in SPLITTERS:
            Segmenter.load(splitter)
        readings = tuple(Reading(layer, "tokens") for layer in self.encoder.middle_and_last)
        return [Need(self.encoder, plain_turns, readings)]

    def label(self, dialogues: Sequence[Dialogue], splitter: str = LEARNED) -> list[Dialogue]:
        """Return the dialogues with the acts of all segments in the meta of their turns.

        `splitter` is one of the rules, or names a segmenter. An act that is known already is kept.
        """
        offsets = TokenOffsets(self.encoder)
        if splitter in SPLITTERS:
            cut = [segments_of(one, splitter) for one in dialogues]
        else:
            cut = Segmenter.load(splitter).segments(dialogues, offsets)
        places = [
            place
            for one, segments in zip(dialogues, cut, strict=True)
            if any(segment.act is None for segment in segments)
            for place in places_of(one, segments)
        ]
        said = iter(self.shares(places, offsets))
        labelled = []
        for dialogue, segments in zip(dialogues, cut, strict=True):
            acts = [one.act for one in segments]
            if None in acts:
                guesses = [ACTS[int(next(said).argmax())] for _ in segments]
                acts = [act or guess for act, guess in zip(acts, guesses, strict=True)]
            known = [replace(one, act=act) for one, act in zip(segments, acts, strict=True)]
            labelled.append(with_acts(dialogue, known))
        return labelled

    def shares(self, places: Sequence[Place], offsets: TokenOffsets | None = None) -> Floats:
        """Return the probability of each act for each segment, a row each."""
        if not places:
            return np.zeros((0, len(ACTS)), np.float32)
        features = span_features(places, self.encoder, offsets)
        return np.asarray(self._head.answers(features)[ACT.name], np.float32)


def span_features(places: Sequence[Place], encoder: Encoder, offsets: TokenOffsets | None = None) -> Floats:
    """Describe segments, a row each: their mean states, those of the segment before, and plain facts.

    The segment before is read if it is the place before in `places`, as `places_of` gives them.
    """
    means = span_means(places, encoder, offsets)
    width = means.shape[1]
    facts = np.array([segment_facts(one.segments, one.number) for one in places], np.float32)
    rows = np.zeros((len(places), 2 * width + facts.shape[1]), np.float32)
    rows[:, :width], rows[:, 2 * width :] = means, facts
    for number, one in enumerate(places):
        before = places[number - 1]
        if number and before.segments is one.segments and before.number == one.number - 1:
            rows[number, width : 2 * width] = means[number - 1]
    return rows


def span_means(places: Sequence[Place], encoder: Encoder, offsets: TokenOffsets | None = None) -> Floats:
    """Return the mean state of each segment's tokens in two layers; zeros where it has no token."""
    layers, known = encoder.middle_and_last, _offsets(encoder, offsets)
    rows = np.zeros((len(places), len(layers), encoder.width), np.float32)
    by_turn: dict[str, list[int]] = {}
    for number, one in enumerate(places):
        by_turn.setdefault(one.turn, []).append(number)
    turns = list(by_turn)
    for start in range(0, len(turns), _TURNS):
        some = turns[start : start + _TURNS]
        encoder.prepare([(some, [Reading(layer, "tokens") for layer in layers])])
        states = zip(*(encoder.tokens(some, layer=layer) for layer in layers), strict=True)
        for turn, where, each in zip(some, known.of(some), states, strict=True):
            ends = [end for _, end in where]
            for number in by_turn[turn]:
                one = places[number]
                first, last = bisect_right(ends, one.start), bisect_right(ends, one.end)
                for layer, found in enumerate(each if last > first else ()):
                    rows[number, layer] = found[1 + first : 1 + last].mean(axis=0)
    return rows.reshape(len(places), -1)
