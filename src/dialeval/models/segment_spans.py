"""Segments as spans of their turn: where they begin and end among its tokens, and what each one does.

A turn is encoded once, whole. A *segmenter* looks at the states of every two neighbouring words and says
whether a segment ends between them; it has learned to do so from text that had lost its commas, or all of its
marks, as well. A *classifier* reads the mean state of a segment's tokens, that of the segment before, and a
few plain facts. Neither encodes anything that other metrics of a run have not asked for anyway.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np

from dialeval.dialogues import Dialogue, takes_part
from dialeval.dialogues.acts import ACTS, annotations
from dialeval.dialogues.segments import SPLITTERS, Segment, segments_of, with_acts
from dialeval.errors import DataError
from dialeval.models.artefact import Artefact, Model
from dialeval.models.encoder import Encoder, Reading, recorded_encoder
from dialeval.models.heads import Head, VectorHead
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


def read_layers(encoder: Encoder) -> tuple[int, int]:
    """Return the layers that segments are read from: a middle one and the last.

    >>> read_layers(Encoder.load())
    (3, 6)
    """
    return max(1, round(encoder.layers / 2)), encoder.layers


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


class Segmenter(Model):
    """Cuts turns where one thing ends and another begins, whether or not there is a mark.

    >>> Segmenter.load().cut(["hey how are you i am fine thanks"])
    [['hey', 'how are you', 'i am fine', 'thanks']]
    """

    kinds: ClassVar[tuple[str, ...]] = (SEGMENTER,)
    default: ClassVar[str] = LEARNED

    def __init__(self, artefact: Artefact) -> None:
        super().__init__(artefact)
        config, place = artefact.config, artefact.folder / "config.json"
        self._head, self.encoder = VectorHead(artefact), recorded_encoder(config, place)
        if CUT not in self._head.heads:
            raise DataError(f"has no head {CUT.name!r}", file=place, field="heads")

    def cut(self, texts: Sequence[str]) -> list[list[str]]:
        """Cut each text; what is blank, or a mark alone, is no segment."""
        found: list[list[str]] = []
        for start in range(0, len(texts), _TURNS):
            some = [plain(text) for text in texts[start : start + _TURNS]]
            features, gaps = gap_features(some, self.encoder)
            ends: list[list[int]] = [[] for _ in some]
            if gaps:
                said = self._head.answers(features)[CUT.name]
                for (number, end), share in zip(gaps, said.tolist(), strict=True):
                    ends[number] += [end] if share >= 0.5 else []
            found += [list(_pieces(text, where)) for text, where in zip(some, ends, strict=True)]
        return found

    def segment(self, dialogue: Dialogue) -> Dialogue:
        """Return the dialogue with the segments of its turns in their meta; a cut that is there is kept."""
        parts = dict.fromkeys(
            turn.text for turn in dialogue.turns if takes_part(turn) and annotations(turn) is None
        )
        pieces = dict(zip(parts, self.cut(list(parts)), strict=True))
        found = []
        for number, turn in enumerate(dialogue.turns):
            if takes_part(turn):
                known = annotations(turn)
                given = [(one.text, one.act) for one in known] if known is not None else None
                cut = given if given is not None else [(one, None) for one in pieces[turn.text]]
                found += [Segment(number, turn.speaker, text, act) for text, act in cut if text.strip()]
        return with_acts(dialogue, found)


def _pieces(text: str, ends: Sequence[int]) -> Iterator[str]:
    for start, end in zip([0, *ends], [*ends, len(text)], strict=True):
        piece = text[start:end].strip().strip(",").strip()
        if any(letter.isalnum() for letter in piece) or (piece and not set(piece) <= set(_MARKS)):
            yield piece


def gap_features(texts: Sequence[str], encoder: Encoder) -> tuple[Floats, list[tuple[int, int]]]:
    """Describe the gaps between the words of turns: the states before and after each.

    Returns:
        A row for each gap, and its place: the number of the text, and the character where the word ends.
    """
    layer = read_layers(encoder)[0]
    rows, gaps = list[Floats](), list[tuple[int, int]]()
    offsets = encoder.tokenizer.offsets(texts)
    for number, (text, states, where) in enumerate(
        zip(texts, encoder.tokens(texts, layer=layer), offsets, strict=True)
    ):
        for before in range(len(where) - 1):
            end = where[before][1]
            if where[before + 1][0] > end or not text[end - 1].isalnum():
                rows.append(np.concatenate([states[before + 1], states[before + 2]]))
                gaps.append((number, end))
    width = 2 * encoder.width
    return (np.stack(rows) if rows else np.zeros((0, width), np.float32)), gaps


class SpanActs(Model):
    """A classifier of segments that reads them where they stand.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hi where is the station?"), ("assistant", "Sorry? I don't understand.")])
    >>> [[one["act"] for one in turn.meta["segments"]] for turn in SpanActs.load().label([chat])[0].turns]
    [['greeting', 'question'], ['apology', 'backchannel-failure']]
    """

    kinds: ClassVar[tuple[str, ...]] = (CLASSIFIER,)
    default: ClassVar[str] = DEFAULT

    def __init__(self, artefact: Artefact) -> None:
        super().__init__(artefact)
        config, place = artefact.config, artefact.folder / "config.json"
        self._head, self.encoder = VectorHead(artefact), recorded_encoder(config, place)
        if ACT not in self._head.heads:
            raise DataError(f"has no head 'act' with the classes {', '.join(ACTS)}", file=place)

    def needs(self, splitter: str = LEARNED) -> list[Need]:
        """Return what it reads of an encoder; a segmenter reads the first of its layers."""
        if splitter not in SPLITTERS:
            Segmenter.load(splitter)
        readings = tuple(Reading(layer, "tokens") for layer in read_layers(self.encoder))
        return [Need(self.encoder, plain_turns, readings)]

    def label(self, dialogues: Sequence[Dialogue], splitter: str = LEARNED) -> list[Dialogue]:
        """Return the dialogues with the acts of all segments in the meta of their turns.

        `splitter` is one of the rules, or names a segmenter. An act that is known already is kept.
        """
        cut = [segments_by(one, splitter) for one in dialogues]
        places = [
            place
            for one, segments in zip(dialogues, cut, strict=True)
            if any(segment.act is None for segment in segments)
            for place in places_of(one, segments)
        ]
        said = iter(self.shares(places))
        labelled = []
        for dialogue, segments in zip(dialogues, cut, strict=True):
            acts = [one.act for one in segments]
            if None in acts:
                guesses = [ACTS[int(next(said).argmax())] for _ in segments]
                acts = [act or guess for act, guess in zip(acts, guesses, strict=True)]
            known = [replace(one, act=act) for one, act in zip(segments, acts, strict=True)]
            labelled.append(with_acts(dialogue, known))
        return labelled

    def shares(self, places: Sequence[Place]) -> Floats:
        """Return the probability of each act for each segment, a row each."""
        if not places:
            return np.zeros((0, len(ACTS)), np.float32)
        return np.asarray(self._head.answers(span_features(places, self.encoder))[ACT.name], np.float32)


def segments_by(dialogue: Dialogue, splitter: str) -> list[Segment]:
    """Return the segments of a dialogue, cut by a rule or by the segmenter of that name."""
    if splitter in SPLITTERS:
        return segments_of(dialogue, splitter)
    return segments_of(Segmenter.load(splitter).segment(dialogue))


def span_features(places: Sequence[Place], encoder: Encoder) -> Floats:
    """Describe segments, a row each: their mean states, those of the segment before, and plain facts.

    The segment before is read if it is the place before in `places`, as `places_of` gives them.
    """
    means = span_means(places, encoder)
    width = means.shape[1]
    facts = np.array([segment_facts(one.segments, one.number) for one in places], np.float32)
    rows = np.zeros((len(places), 2 * width + facts.shape[1]), np.float32)
    rows[:, :width], rows[:, 2 * width :] = means, facts
    for number, one in enumerate(places):
        before = places[number - 1]
        if number and before.segments is one.segments and before.number == one.number - 1:
            rows[number, width : 2 * width] = means[number - 1]
    return rows


def span_means(places: Sequence[Place], encoder: Encoder) -> Floats:
    """Return the mean state of each segment's tokens in two layers; zeros where it has no token."""
    layers = read_layers(encoder)
    turns = list(dict.fromkeys(one.turn for one in places))
    rows = np.zeros((len(places), len(layers) * encoder.width), np.float32)
    by_turn: dict[str, list[int]] = {}
    for number, one in enumerate(places):
        by_turn.setdefault(one.turn, []).append(number)
    for start in range(0, len(turns), _TURNS):
        some = turns[start : start + _TURNS]
        offsets = encoder.tokenizer.offsets(some)
        encoder.prepare([(some, [Reading(layer, "tokens") for layer in layers])])
        for order, layer in enumerate(layers):
            part = slice(order * encoder.width, (order + 1) * encoder.width)
            for turn, where, states in zip(some, offsets, encoder.tokens(some, layer=layer), strict=True):
                ends = np.array([end for _, end in where])
                for number in by_turn[turn]:
                    one = places[number]
                    first, last = np.searchsorted(ends, (one.start, one.end), side="right")
                    if last > first:
                        rows[number, part] = states[1 + first : 1 + last].mean(axis=0)
    return rows
