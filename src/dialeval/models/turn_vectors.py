"""Dialogues as sequences of turn vectors, and the context of each turn.

A reply is compared with the last turn of the other side, the mean of all earlier turns, and the earlier turns
of its own speaker. These similarities are a metric; the heads of a `DialogueScorer` read the vectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dialeval.dialogues import Dialogue, takes_part
from dialeval.models.encoder import Encoder
from dialeval.models.needs import Need, spoken_turns
from dialeval.models.network import Floats, multiply, unit

_ROWS = 512  # own turns compared at a time


@dataclass(frozen=True)
class TurnVectors:
    """The turns of one dialogue as vectors of length one; a turn without text is a row of zeros."""

    dialogue: Dialogue
    vectors: Floats
    spoken: list[bool]
    """True if a turn is part of the conversation and not blank."""
    cut: list[bool]
    """True if a turn was truncated."""

    def answered(self) -> list[int | None]:
        """Return for each turn the last earlier turn of another speaker, or None."""
        previous: list[int | None] = []
        last: int | None = None  # the last turn said, and the last one by anybody but its speaker
        last_other: int | None = None
        for number, turn in enumerate(self.dialogue.turns):
            same = last is not None and self.dialogue.turns[last].speaker == turn.speaker
            previous.append(last_other if same else last)
            if self.spoken[number]:
                last, last_other = number, previous[-1]
        return previous

    def contexts(self) -> Floats:
        """Return the mean of all earlier turns for each turn, (turns, width); zeros for the first."""
        sums = np.zeros((len(self.vectors) + 1, self.vectors.shape[1]), np.float64)
        is_spoken = np.array(self.spoken, np.float64)
        np.cumsum(self.vectors * is_spoken[:, None], axis=0, dtype=np.float64, out=sums[1:])
        count = np.concatenate([[0.0], np.cumsum(is_spoken)])
        return np.asarray(sums[:-1] / np.maximum(count[:-1, None], 1.0), np.float32)

    def repeats(self, turns: Sequence[int]) -> list[float | None]:
        """Return the cosine of each turn with the most similar earlier one of its speaker, or None."""
        similarities: dict[int, float | None] = {}
        speakers = {self.dialogue.turns[turn].speaker for turn in turns}
        for speaker in speakers:
            own_turns = [
                number
                for number, turn in enumerate(self.dialogue.turns)
                if turn.speaker == speaker and self.spoken[number]
            ]
            vectors = self.vectors[own_turns]
            for start in range(0, len(own_turns), _ROWS):
                rows = np.arange(start, min(start + _ROWS, len(own_turns)))
                cosines = multiply(vectors[rows], vectors[: rows[-1] + 1])
                cosines[np.arange(cosines.shape[1]) >= rows[:, None]] = -np.inf
                best = cosines.max(axis=1)
                similarities |= {
                    own_turns[row]: float(value) for row, value in zip(rows, best, strict=True) if row
                }
        return [similarities.get(turn) for turn in turns]


def vector_needs(encoder: Encoder) -> list[Need]:
    """Return the encoder outputs that `turn_vectors` reads."""
    return [Need(encoder, spoken_turns, (encoder.reading(),))]


def turn_vectors(encoder: Encoder, dialogues: Sequence[Dialogue], **reading: Any) -> list[TurnVectors]:
    """Return the turn vectors of dialogues; `reading` are keyword arguments for `Encoder.vectors`.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Do you like jazz?"), ("assistant", "Jazz, yes, and blues.")])
    >>> encoded = turn_vectors(Encoder.load(), [chat])[0]
    >>> encoded.answered(), round(float(encoded.vectors[1] @ encoded.vectors[0]), 2)
    ([None, 0], 0.79)
    """
    texts = list({turn.text: None for dialogue in dialogues for turn in dialogue.turns if turn.text.strip()})
    vectors = unit(encoder.vectors(texts, **reading))
    places = {text: number for number, text in enumerate(texts)}
    cut = dict(zip(texts, encoder.truncated(texts), strict=True))
    results = []
    for dialogue in dialogues:
        rows = np.zeros((len(dialogue.turns), encoder.width), np.float32)
        for number, turn in enumerate(dialogue.turns):
            if turn.text.strip():
                rows[number] = vectors[places[turn.text]]
        spoken = [bool(turn.text.strip()) and takes_part(turn) for turn in dialogue.turns]
        results.append(
            TurnVectors(dialogue, rows, spoken, [cut.get(turn.text, False) for turn in dialogue.turns])
        )
    return results
