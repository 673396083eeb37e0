"""Similarity of a reply to what was said before it: the baseline that a learned metric must beat."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.metrics.registry import Better, Rows, metric
from dialeval.models.encoder import DEFAULT, Encoder, mark
from dialeval.models.turn_vectors import TurnVectors, turn_vectors
from dialeval.scores import Scores


@metric("similarity.v1")
@dataclass(frozen=True)
class Similarity:
    """Cosine of a reply to the turn it answers (`user`), to the context (`context`), to itself (`self`).

    `user` is the last turn of somebody else, `context` the mean of all turns before, `self` the most similar
    earlier turn of the same speaker: high `user` is good, high `self` is a speaker who repeats.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Do you like jazz?"), ("assistant", "Jazz, yes, and blues.")], "d1")
    >>> [(row.dimension, row.value and round(row.value, 2), row.note) for row in Similarity().score([chat])]
    [('user', 0.79, None), ('context', 0.79, None), ('self', None, 'no earlier turn of this speaker')]
    """

    encoder: str = DEFAULT
    speaker: str | None = None
    dimensions: ClassVar[tuple[str, ...]] = ("user", "context", "self")
    better: ClassVar[Mapping[str, Better]] = {"self": "lower"}

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Compare each scored turn with the turns before it."""
        rows = Rows(self)
        for found in turn_vectors(Encoder.load(self.encoder), list(dialogues)):
            self._add(rows, found)
        return rows.scores()

    def provenance(self) -> dict[str, str]:
        """Name the encoder by what it computes, not by where it lies."""
        return {"encoder": mark(self.encoder)}

    def _add(self, rows: Rows, found: TurnVectors) -> None:
        dialogue = found.dialogue
        turns = scored_turns(dialogue, self.speaker)
        contexts, answered = found.contexts(), found.answered()
        first_cut = found.cut.index(True) if True in found.cut else len(found.cut)
        for turn, repeat in zip(turns, found.repeats(turns), strict=True):
            if not dialogue.turns[turn].text.strip():
                for dimension in self.dimensions:
                    rows.add(dialogue, turn, dimension, None, "empty reply")
                continue
            reply, before = found.vectors[turn], answered[turn]
            length = float(np.linalg.norm(contexts[turn]))
            user = None if before is None else reply @ found.vectors[before]
            context = None if length < 1e-9 else reply @ contexts[turn] / length
            cut = found.cut[turn]
            for dimension, value, missing, short in (
                (
                    "user",
                    user,
                    "no turn of another speaker before",
                    cut or (before is not None and found.cut[before]),
                ),
                ("context", context, "nothing said before", first_cut <= turn),
                ("self", repeat, "no earlier turn of this speaker", cut),
            ):
                note = missing if value is None else "truncated" if short else None
                rows.add(dialogue, turn, dimension, value, note)
