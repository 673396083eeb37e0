"""Segment acts: what each segment of a dialogue does, such as to ask, to greet or to show that one listens.

Two kinds of classifier are read. The small one is a head over the vectors of a frozen encoder: those of the
segment, from a middle and from the last layer, those of the segment before, and a few plain facts. The large
one is a fine-tuned cross-encoder that reads the segment after the one before, as the FlowEval paper does.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from dialeval.dialogues import Dialogue
from dialeval.dialogues.acts import ACTS
from dialeval.dialogues.segments import DEFAULT_SPLITTER, Segment, segments_of, with_acts
from dialeval.errors import DataError
from dialeval.models.artefact import Artefact, Model
from dialeval.models.encoder import Encoder, recorded_encoder
from dialeval.models.heads import Head, VectorHead
from dialeval.models.needs import Need, segment_texts
from dialeval.models.network import Floats
from dialeval.models.pairs import PairScorer

DEFAULT = "dialeval-segment-act"
HEAD = Head("act", "classes", ACTS)
_FACTS = 7
Place = tuple[Sequence[Segment], int]


class SegmentActs(Model):
    """A classifier of segments.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hi, where is the station?"), ("assistant", "Sorry? I don't understand.")])
    >>> [[one["act"] for one in turn.meta["segments"]] for turn in SegmentActs.load().label([chat])[0].turns]
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
        """Return what it reads of an encoder; a cross-encoder has one of its own."""
        if self._pairs is not None:
            return []
        readings = [self._encoder.reading(layer, "mean") for layer in self._encoder.middle_and_last]
        return [Need(self._encoder, segment_texts(splitter), tuple(readings))]

    def label(self, dialogues: Sequence[Dialogue], splitter: str = DEFAULT_SPLITTER) -> list[Dialogue]:
        """Return the dialogues with the acts of all segments in the meta of their turns.

        An act that is known already, since somebody annotated the dialogue, is kept.
        """
        cut = [segments_of(dialogue, splitter) for dialogue in dialogues]
        open_ones = [segments if any(one.act is None for one in segments) else [] for segments in cut]
        rows = iter(self.shares(open_ones))
        labelled = []
        for dialogue, segments, asked in zip(dialogues, cut, open_ones, strict=True):
            said = {number: ACTS[int(next(rows).argmax())] for number in range(len(asked))}
            known = [replace(one, act=one.act or said[number]) for number, one in enumerate(segments)]
            labelled.append(with_acts(dialogue, known))
        return labelled

    def shares(self, dialogues: Sequence[Sequence[Segment]]) -> Floats:
        """Return the probability of each act for each segment of each dialogue, one after the other."""
        places = [(segments, number) for segments in dialogues for number in range(len(segments))]
        if not places:
            return np.zeros((0, len(ACTS)), np.float32)
        if self._pairs is not None:
            said = self._pairs.score([segment_pair(*place) for place in places]).values[HEAD.name]
        else:
            said = self._head.answers(segment_features(places, self._encoder))[HEAD.name]
        return np.asarray(said, np.float32)


def segment_pair(segments: Sequence[Segment], number: int) -> tuple[tuple[str, ...], str]:
    """Return a segment after the one before it, as a cross-encoder reads them."""
    before = tuple(one.text.strip() for one in segments[max(0, number - 1) : number])
    return before, segments[number].text.strip()


def segment_features(places: Sequence[Place], encoder: Encoder) -> Floats:
    """Describe segments, each given as those of its dialogue and its place among them, a row each.

    >>> said = [Segment(0, "user", "Hi"), Segment(0, "user", "who is there?"), Segment(1, "assistant", "Me.")]
    >>> features = segment_features([(said, 1), (said, 2)], Encoder.load())
    >>> features.shape, features[0, -7:].tolist()[:5]
    ((2, 1543), [1.0, 1.0, 0.0, 1.0, 1.0])
    """
    pairs = [segment_pair(*place) for place in places]
    texts = list(dict.fromkeys(text for before, own in pairs for text in (*before, own)))
    rows_of = {text: number for number, text in enumerate(texts)}
    vectors = [encoder.vectors(texts, layer=layer, pooling="mean") for layer in encoder.middle_and_last]
    known = np.concatenate(vectors, axis=1)
    width = known.shape[1]
    rows = np.zeros((len(places), 2 * width + _FACTS), np.float32)
    for row, place, (before, own) in zip(rows, places, pairs, strict=True):
        row[:width] = known[rows_of[own]]
        for text in before:
            row[width : 2 * width] = known[rows_of[text]]
        row[2 * width :] = segment_facts(*place)
    return rows


def segment_facts(segments: Sequence[Segment], number: int) -> list[float]:
    """Is something said before, by the same speaker, in the turn; who follows; a question mark; lengths."""
    one = segments[number]
    before = segments[number - 1] if number else None
    after = segments[number + 1] if number + 1 < len(segments) else None
    return [
        float(before is not None),
        float(before is not None and before.speaker == one.speaker),
        float(after is not None and after.turn == one.turn),
        float("?" in one.text),
        float(before is not None and "?" not in before.text),
        float(np.log1p(len(one.text.split()))),
        float(np.log1p(number)),
    ]
