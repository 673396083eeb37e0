"""Scorers over turn vectors: each turn is encoded once, and a small head reads it with its context.

A cross-encoder with 128 tokens of context reads every turn again for each reply; here a reply costs a few
rows of features. A reply is scored by what precedes it only.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.errors import DataError, UsageError
from dialeval.models.artefact import Artefact, Model
from dialeval.models.auxiliary_features import FLOW, AuxiliaryFeatures, AuxiliaryModels, flow_features
from dialeval.models.encoder import recorded_encoder
from dialeval.models.heads import VectorHead
from dialeval.models.needs import Need
from dialeval.models.network import Floats
from dialeval.models.turn_vectors import TurnVectors, turn_vectors, vector_needs
from dialeval.models.untrusted import read_setting


@dataclass(frozen=True)
class _ScoredTurns:
    """The scored turns of a dialogue and their context, a row for each."""

    encoded: TurnVectors
    turns: list[int]
    auxiliary: AuxiliaryFeatures

    @functools.cached_property
    def reply(self) -> Floats:
        return self.encoded.vectors[self.turns]

    @functools.cached_property
    def answered(self) -> list[int | None]:
        answered = self.encoded.answered()
        return [answered[turn] for turn in self.turns]

    @functools.cached_property
    def user(self) -> Floats:
        return self._rows(self.answered)

    @functools.cached_property
    def context(self) -> Floats:
        return self.encoded.contexts()[self.turns]

    @functools.cached_property
    def own(self) -> Floats:
        last: dict[str, int] = {}
        before: list[int | None] = []
        for number, turn in enumerate(self.encoded.dialogue.turns):
            before.append(last.get(turn.speaker))
            if self.encoded.spoken[number]:
                last[turn.speaker] = number
        return self._rows([before[turn] for turn in self.turns])

    @functools.cached_property
    def owns(self) -> Floats:
        return self._before(of_speaker=True)

    @functools.cached_property
    def others(self) -> Floats:
        return self._before(of_speaker=False)

    def _before(self, of_speaker: bool) -> Floats:
        """Return the mean of earlier turns by the same speaker, or by others; zeros if there are none."""
        speakers = np.array([turn.speaker for turn in self.encoded.dialogue.turns], dtype=object)
        is_spoken = np.array(self.encoded.spoken, np.float64)
        means = dict[str, Floats]()
        for speaker in {str(speakers[turn]) for turn in self.turns}:
            counted = is_spoken * ((speakers == speaker) == of_speaker)
            sums = np.cumsum(self.encoded.vectors * counted[:, None], axis=0, dtype=np.float64)
            means[speaker] = sums / np.maximum(np.cumsum(counted), 1.0)[:, None]
        rows = np.zeros_like(self.reply)
        for row, turn in zip(rows, self.turns, strict=True):
            if turn:
                row[:] = means[str(speakers[turn])][turn - 1]
        return rows

    def _rows(self, numbers: Sequence[int | None]) -> Floats:
        rows = np.zeros_like(self.reply)
        for row, number in zip(rows, numbers, strict=True):
            if number is not None:
                row[:] = self.encoded.vectors[number]
        return rows

    def similarities(self) -> Floats:
        context = self.context / np.maximum(np.linalg.norm(self.context, axis=1, keepdims=True), 1e-9)
        repeats = [value or 0.0 for value in self.encoded.repeats(self.turns)]
        columns = [(self.reply * self.user).sum(axis=1), (self.reply * context).sum(axis=1), repeats]
        return np.stack(columns, axis=1).astype(np.float32)

    def lengths(self) -> Floats:
        turns = self.encoded.dialogue.turns
        words = [len(turns[turn].text.split()) for turn in self.turns]
        answered_words = [
            0 if before is None else len(turns[before].text.split()) for before in self.answered
        ]
        return np.log1p(np.array([words, answered_words], np.float32).T)

    def place(self) -> Floats:
        return np.log1p(np.array(self.turns, np.float32))[:, None]

    @functools.cached_property
    def flow(self) -> dict[str, Floats]:
        return flow_features(self.auxiliary.dialogue, self.turns)

    def flow_block(self, name: str) -> Floats:
        return self.flow[name]


FEATURES: Mapping[str, Callable[[_ScoredTurns], Floats]] = {
    **{name: attrgetter(name) for name in ("reply", "user", "context", "own", "owns", "others")},
    "reply*user": lambda turns: turns.reply * turns.user,
    "reply*context": lambda turns: turns.reply * turns.context,
    "reply*own": lambda turns: turns.reply * turns.own,
    "similarities": _ScoredTurns.similarities,
    "lengths": _ScoredTurns.lengths,
    "place": _ScoredTurns.place,
    **{name: partial(_ScoredTurns.flow_block, name=name) for name in FLOW},
    "fit": lambda turns: turns.auxiliary.fit(turns.turns),
    "moods": lambda turns: turns.auxiliary.moods(turns.turns),
}
"""Blocks of features by name: the vectors of the reply, of the turn it answers (`user`), of all before it
(`context`), of its speaker's last turn (`own`), of all earlier ones (`owns`) and of what anybody else said
(`others`); their products; cosines to the first three; words of reply and answered turn; the turn's place;
the flow of the dialogue up to it; whether it fits, and how users sounded, see `auxiliary_features`."""


def turn_features(
    encoded: TurnVectors,
    turns: Sequence[int],
    blocks: Sequence[str],
    auxiliary: AuxiliaryFeatures | None = None,
) -> Floats:
    """Return blocks of features of turns, a row for each turn; some blocks need `auxiliary`.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Do you like jazz?"), ("assistant", "Jazz, yes, and blues.")])
    >>> from dialeval.models.encoder import Encoder
    >>> turn_features(turn_vectors(Encoder.load(), [chat])[0], [1], ["similarities", "place"]).round(2)
    array([[0.79, 0.79, 0.  , 0.69]], dtype=float32)
    """
    if unknown := [name for name in blocks if name not in FEATURES]:
        raise UsageError(f"no feature {unknown[0]!r}; known: {', '.join(FEATURES)}")
    scored = _ScoredTurns(encoded, list(turns), auxiliary or AuxiliaryFeatures(encoded.dialogue))
    return np.concatenate([FEATURES[name](scored) for name in blocks], axis=1, dtype=np.float32)


def feature_sizes(width: int, blocks: Sequence[str]) -> dict[str, int]:
    """Return the number of columns of each block, for vectors of this width.

    >>> feature_sizes(384, ["reply", "similarities"])
    {'reply': 384, 'similarities': 3}
    """
    nothing = TurnVectors(Dialogue("", ()), np.zeros((0, width), np.float32), [], [])
    return {name: turn_features(nothing, [], [name]).shape[1] for name in blocks}


_Judges = Literal["turns", "dialogues"]


@dataclass(frozen=True)
class TurnScores:
    """The outputs of each head for the scored turns of one dialogue."""

    dialogue: Dialogue
    turns: list[int]
    values: dict[str, npt.NDArray[np.float64]]
    cut: list[bool]
    """True if a turn, or one before it, was too long for the encoder."""
    end: dict[str, float] = field(default_factory=dict)
    """The output of each head for the whole dialogue, if it was trained on whole dialogues."""


class DialogueScorer(Model):
    """A head over turn vectors, and the encoder it was trained on."""

    kinds: ClassVar[tuple[str, ...]] = ("dialogue-scorer.v1",)

    def __init__(self, artefact: Artefact) -> None:
        super().__init__(artefact)
        config, place = artefact.config, artefact.folder / "config.json"
        self._head = VectorHead(artefact)
        self.heads = self._head.heads
        self.features: list[str] = read_setting(config, "features", list[str], place)
        if unknown := [name for name in self.features if name not in FEATURES]:
            fix = f"known: {', '.join(FEATURES)}"
            raise DataError(f"unknown feature {unknown[0][:40]!a}", file=place, field="features", fix=fix)
        self.encoder = recorded_encoder(config, place)
        self._auxiliary = AuxiliaryModels.recorded(config, place, self.features)
        judges = read_setting(config, "judges", _Judges, place) if "judges" in config else "turns"
        self._judges_dialogues = judges == "dialogues"

    def needs(self) -> list[Need]:
        """Return what it and its auxiliary models read of encoders."""
        return [*vector_needs(self.encoder), *self._auxiliary.needs()]

    def score(self, dialogues: Sequence[Dialogue], speaker: str | None = None) -> list[TurnScores]:
        """Return the scores of each dialogue's scored turns."""
        scores = []
        auxiliary = self._auxiliary.read(dialogues, speaker)
        for encoded, features in zip(turn_vectors(self.encoder, dialogues), auxiliary, strict=True):
            dialogue, turns = encoded.dialogue, scored_turns(encoded.dialogue, speaker)
            values = self._head.answers(turn_features(encoded, turns, self.features, features))
            first = encoded.cut.index(True) if True in encoded.cut else len(encoded.cut)
            cut = [first <= turn for turn in turns]
            scores.append(TurnScores(dialogue, turns, values, cut, self._end(encoded, features)))
        return scores

    def _end(self, encoded: TurnVectors, auxiliary: AuxiliaryFeatures) -> dict[str, float]:
        if not self._judges_dialogues or not encoded.dialogue.turns:
            return {}
        last = turn_features(encoded, [len(encoded.dialogue.turns) - 1], self.features, auxiliary)
        return {name: float(values[0]) for name, values in self._head.answers(last).items()}
