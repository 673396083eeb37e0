"""Features of a turn from other trained heads: coherence, user sentiment, and segment acts.

Whether a reply fits what it answers, or whether a user is annoyed, is no linear function of two turns'
vectors. Shipped heads predict both, and the acts of segments. The *flow* of a dialogue up to a turn is
described by the shares of its acts and of pairs of acts, and by its length: most of what makes a flow usual
among people, which FlowEval rewards, is in these shares.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dialeval.dialogues import Dialogue
from dialeval.dialogues.acts import ACTS
from dialeval.dialogues.segments import Segment, segments_of
from dialeval.dialogues.signals import next_turns
from dialeval.models import reactions, segment_acts
from dialeval.models.artefact import recorded
from dialeval.models.coherence import HISTORIES, CoherenceScorer
from dialeval.models.needs import Need
from dialeval.models.network import Floats
from dialeval.models.reactions import Reactions, exchanges
from dialeval.models.segment_acts import SegmentActs

Places = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
FLOW = ("acts", "transitions", "sizes")
"""Blocks of features: shares of acts (all, first speaker, others); shares of act pairs; sizes."""


def flow_features(dialogue: Dialogue, turns: Sequence[int]) -> dict[str, Floats]:
    """Return features of a dialogue with labelled segments up to each turn: a row per turn, by block.

    >>> from dialeval.dialogues import dialogue
    >>> from dialeval.models.segment_acts import SegmentActs
    >>> chat = dialogue([("user", "Hi, where is the station?"), ("assistant", "Behind the church.")])
    >>> features = flow_features(SegmentActs.load().label([chat])[0], [0, 1])
    >>> features["acts"][:, [ACTS.index("greeting"), ACTS.index("inform")]].round(2)
    array([[0.5 , 0.  ],
           [0.33, 0.33]], dtype=float32)
    >>> [features[name].shape for name in FLOW]
    [(2, 33), (2, 121), (2, 9)]
    """
    segments = [segment for segment in segments_of(dialogue) if segment.act is not None]
    upto = np.searchsorted([segment.turn for segment in segments], np.asarray(turns, np.int64), side="right")
    rows = zip(
        FLOW, (_acts(segments, upto), _transitions(segments, upto), _sizes(segments, upto)), strict=True
    )
    return {name: np.asarray(block, np.float32) for name, block in rows}


def _acts(segments: Sequence[Segment], upto: Places) -> Doubles:
    """Return the shares of acts among the first segments: of all, of the first speaker, of the others."""
    acts = _numbers(segments)
    is_first = np.array([segment.speaker == segments[0].speaker for segment in segments], bool)
    return np.concatenate(
        [_shares(acts, mask, len(ACTS), upto) for mask in (is_first | ~is_first, is_first, ~is_first)], 1
    )


def _transitions(segments: Sequence[Segment], upto: Places) -> Doubles:
    acts = _numbers(segments)
    pairs = acts[:-1] * len(ACTS) + acts[1:]
    return _shares(pairs, np.ones(len(pairs), bool), len(ACTS) ** 2, np.maximum(upto - 1, 0))


def _numbers(segments: Sequence[Segment]) -> Places:
    return np.array([ACTS.index(segment.act or "") for segment in segments], np.int64)


def _shares(numbers: Places, counted: npt.NDArray[np.bool_], size: int, upto: Places) -> Doubles:
    """Return the share of each number among the counted ones of the first `upto`, a row each."""
    one_hot = np.zeros((len(numbers) + 1, size))
    one_hot[1:][np.flatnonzero(counted), numbers[counted]] = 1.0
    counts = np.cumsum(one_hot, axis=0)[upto]
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0))


def _sizes(segments: Sequence[Segment], upto: Places) -> Doubles:
    """Return log counts of segments, turns and words, squares, segments per turn, and lengths."""
    words = np.array([len(segment.text.split()) for segment in segments], np.float64)
    turn = np.array([segment.turn for segment in segments], np.int64)
    starts = np.flatnonzero(np.diff(turn, prepend=-1))
    spoken = np.searchsorted(starts, upto, side="left")  # turns among the first segments
    turn_lengths = np.log1p(np.add.reduceat(words, starts)) if len(starts) else words
    log_segments, turns = np.log1p(upto), np.log1p(spoken)
    mean, square = _mean(turn_lengths, spoken), _mean(turn_lengths**2, spoken)
    spread = np.sqrt(np.maximum(square - mean**2, 0.0))
    log_words = np.log1p(_mean(words, upto) * upto)
    amounts = [log_segments, turns, log_words, log_segments**2, turns**2, upto / np.maximum(spoken, 1)]
    return np.stack([*amounts, mean, spread, _mean(np.log1p(words), upto)], axis=1)


def _mean(values: Doubles, upto: Places) -> Doubles:
    """Return the mean of the first `upto` values; 0 of none."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(sums[upto] / np.maximum(upto, 1))


_UNKNOWN = 0.5  # coherence of a turn that follows nothing


class _Auxiliary(NamedTuple):
    """A model that features are computed with: its default name, its loader, and the feature blocks."""

    name: str
    load: Callable[[str], Any]
    blocks: tuple[str, ...]


_AUXILIARY: Mapping[str, _Auxiliary] = {
    "acts": _Auxiliary(segment_acts.DEFAULT, SegmentActs.load, FLOW),
    "coherence": _Auxiliary("dialeval-coherence", CoherenceScorer.load, ("fit",)),
    "reactions": _Auxiliary(reactions.DEFAULT, Reactions.load, ("moods",)),
}
"""By the field of an artefact's config that names it."""


@dataclass(frozen=True)
class AuxiliaryFeatures:
    """A dialogue, with labelled segments if requested, and the predictions for its turns."""

    dialogue: Dialogue
    fits: Mapping[int, float] = field(default_factory=dict)
    sentiments: Sequence[tuple[int, str, float]] = ()
    """(answering turn, speaker who is answered, sentiment), in the order of turns."""

    def fit(self, turns: Sequence[int]) -> Floats:
        """Return the coherence of turns with what was said before them, a row each."""
        return np.array([[self.fits.get(turn, _UNKNOWN)] for turn in turns], np.float32).reshape(-1, 1)

    def moods(self, turns: Sequence[int]) -> Floats:
        """Return the last and the mean sentiment of earlier answers to the speaker of each turn."""
        rows = np.zeros((len(turns), 2), np.float32)
        speakers = [self.dialogue.turns[turn].speaker for turn in turns]
        for speaker in dict.fromkeys(speakers):
            pairs = [(answer, value) for answer, to, value in self.sentiments if to == speaker]
            values = [value for _, value in pairs]
            sums, answers = np.concatenate([[0.0], np.cumsum(values)]), [answer for answer, _ in pairs]
            for row, (turn, turn_speaker) in enumerate(zip(turns, speakers, strict=True)):
                if turn_speaker == speaker and (count := bisect_left(answers, turn)):
                    rows[row] = values[count - 1], sums[count] / count
        return rows


class AuxiliaryModels:
    """The models that some blocks of features need.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Do you like jazz?"), ("assistant", "Yes, and the blues."),
    ...     ("user", "Great, I love it!"), ("assistant", "Which band?")])
    >>> features = AuxiliaryModels.shipped(["fit", "moods"]).read([chat])[0]
    >>> features.fit([1]).shape, features.moods([1, 3])[:, 0] > 0
    ((1, 1), array([False,  True]))
    """

    def __init__(self, models: Mapping[str, Any]) -> None:
        self._models = models

    @classmethod
    def shipped(cls, blocks: Sequence[str]) -> "AuxiliaryModels":
        """Load the shipped models that these blocks of features need."""
        return cls({name: auxiliary.load(auxiliary.name) for name, auxiliary in _needed(blocks).items()})

    @classmethod
    def recorded(cls, config: Mapping[str, Any], file: Path, blocks: Sequence[str]) -> "AuxiliaryModels":
        """Load the models that an artefact was trained with, checked by hash."""
        return cls(
            {
                name: recorded(config, name, file, auxiliary.load)
                for name, auxiliary in _needed(blocks).items()
            }
        )

    def needs(self) -> list[Need]:
        """Return what they read of encoders."""
        return [need for model in self._models.values() for need in model.needs()]

    def fields(self) -> dict[str, dict[str, str]]:
        """Return name and hash of each, for an artefact's config."""
        return {
            name: {"name": _AUXILIARY[name].name, "sha": model.sha} for name, model in self._models.items()
        }

    def read(self, dialogues: Sequence[Dialogue], speaker: str | None = None) -> list[AuxiliaryFeatures]:
        """Return the features of each dialogue."""
        acts, coherence = self._models.get("acts"), self._models.get("coherence")
        labelled = acts.label(dialogues) if acts else dialogues
        fits: Sequence[Mapping[int, float]] = [{}] * len(dialogues)
        if coherence:
            questions = [("ur", history) for history in HISTORIES]
            fits = [_fits(figures) for figures in coherence.score(dialogues, speaker, questions)]
        return [
            AuxiliaryFeatures(dialogue, fit, sentiments)
            for dialogue, fit, sentiments in zip(labelled, fits, self._sentiments(dialogues), strict=True)
        ]

    def _sentiments(self, dialogues: Sequence[Dialogue]) -> list[list[tuple[int, str, float]]]:
        model = self._models.get("reactions")
        if not model:
            return [[] for _ in dialogues]
        groups = [exchanges(dialogue, range(len(dialogue.turns))) for dialogue in dialogues]
        values = iter(
            model.sentiments([exchange for group in groups for exchange in group.values()]).tolist()
        )
        sentiments = []
        for dialogue, group in zip(dialogues, groups, strict=True):
            answers = next_turns(dialogue)
            rows = [(answers[turn].turn or 0, dialogue.turns[turn].speaker, next(values)) for turn in group]
            sentiments.append(sorted(rows, key=lambda row: row[0]))
        return sentiments


def _needed(blocks: Sequence[str]) -> dict[str, _Auxiliary]:
    return {
        name: auxiliary
        for name, auxiliary in _AUXILIARY.items()
        if any(block in auxiliary.blocks for block in blocks)
    }


def _fits(figures: Sequence[Any]) -> dict[int, float]:
    """Return the mean coherence of each turn over the available histories."""
    return {
        figure.turn: float(np.mean(list(figure.values["ur"].values())))
        for figure in figures
        if "ur" in figure.values
    }
