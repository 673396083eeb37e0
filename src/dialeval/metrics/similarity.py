"""The metrics `similarity` and `bertscore`: similarity of a reply to its context or to references.

`similarity`, to the context, is the baseline that a learned metric must beat. `bertscore` compares with
references, word by word.
"""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dialeval.dialogues import Dialogue, in_blocks, scored_turns
from dialeval.errors import DataError
from dialeval.files import sha256
from dialeval.metrics.overlap import with_references
from dialeval.metrics.registry import (
    Better,
    Language,
    OpensModels,
    Rows,
    chunks,
    known_language,
    metric,
    model_field,
)
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.models.matching import Matcher, idf_of_file
from dialeval.models.needs import Need
from dialeval.models.turn_vectors import TurnVectors, turn_vectors, vector_needs
from dialeval.scores import Scores


@metric("similarity.v1")
@dataclass(frozen=True)
class Similarity(OpensModels):
    """Cosine similarity of a reply to earlier turns.

    `user` is the last turn of somebody else, `context` the mean of all turns before, `self` the most similar
    earlier turn of the same speaker: high `user` is good, high `self` is a speaker who repeats.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Do you like jazz?"), ("assistant", "Jazz, yes, and blues.")], "d1")
    >>> [(row.dimension, row.value and round(row.value, 2), row.note) for row in Similarity().score([chat])]
    [('user', 0.79, None), ('context', 0.79, None), ('self', None, 'no earlier turn of this speaker')]
    """

    encoder: str = model_field(DEFAULT, Encoder.load)
    speaker: str | None = None
    language: Language = known_language()
    dimensions: ClassVar[tuple[str, ...]] = ("user", "context", "self")
    better: ClassVar[Mapping[str, Better]] = {"self": "lower"}

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Compare each scored turn with the turns before it."""
        rows = Rows(self)
        for chunk in chunks(dialogues):
            for encoded in turn_vectors(Encoder.load(self.encoder), chunk):
                self._add(rows, encoded)
        return rows.scores()

    def needs(self) -> list[Need]:
        """Open the encoder; return what is read of it."""
        return vector_needs(Encoder.load(self.encoder))

    def _add(self, rows: Rows, encoded: TurnVectors) -> None:
        dialogue = encoded.dialogue
        turns = scored_turns(dialogue, self.speaker)
        contexts, answered = encoded.contexts(), encoded.answered()
        first_cut = encoded.cut.index(True) if True in encoded.cut else len(encoded.cut)
        for turn, repeat in zip(turns, encoded.repeats(turns), strict=True):
            if not dialogue.turns[turn].text.strip():
                for dimension in self.dimensions:
                    rows.add(dialogue, turn, dimension, None, "empty reply")
                continue
            reply, before = encoded.vectors[turn], answered[turn]
            length = float(np.linalg.norm(contexts[turn]))
            user = None if before is None else reply @ encoded.vectors[before]
            context = None if length < 1e-9 else reply @ contexts[turn] / length
            cut = encoded.cut[turn]
            for dimension, value, missing, short in (
                (
                    "user",
                    user,
                    "no turn of another speaker before",
                    cut or (before is not None and encoded.cut[before]),
                ),
                ("context", context, "nothing said before", first_cut <= turn),
                ("self", repeat, "no earlier turn of this speaker", cut),
            ):
                note = missing if value is None else "truncated" if short else None
                rows.add(dialogue, turn, dimension, value, note)


_AT_ONCE = 4096  # turns that are compared together


@metric("bertscore.v1")
@dataclass(frozen=True)
class BertScore(OpensModels):
    """BERTScore of a reply against its references, at most 1.

    A turn without a reference is unscored.

    `idf` names a file of dialogues; tokens that are rare in its turns then count more. Of several references
    the best counts.

    >>> from dialeval.dialogues import dialogue
    >>> turns = [("user", "Hi"), ("assistant", "Hello, how are you?")]
    >>> chat = dialogue(turns, references={1: ["Hello, how is it going?"]})
    >>> {row.dimension: round(row.value, 2) for row in BertScore().score([chat])}
    {'precision': 0.79, 'recall': 0.72, 'f1': 0.75}
    """

    encoder: str = model_field(DEFAULT, Encoder.load)
    layer: int = 6
    idf: str | None = None
    speaker: str | None = None
    language: Language = known_language()
    dimensions: ClassVar[tuple[str, ...]] = ("precision", "recall", "f1")
    tuned_on: ClassVar[tuple[str, ...]] = ("dailydialog", "multiwoz")  # the default layer

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Compare each scored turn with its references."""
        matcher, rows = self._matcher(), Rows(self)
        for block in in_blocks(with_references(dialogues, self.speaker), _AT_ONCE):
            scores = matcher.score(
                [text for _, _, text, _ in block], [references for *_, references in block]
            )
            texts = list(
                {text for *_, reply, references in block if references for text in (reply, *references)}
            )
            cut = {text for text, is_cut in zip(texts, matcher.truncated(texts), strict=True) if is_cut}
            for (dialogue, number, text, references), values in zip(block, scores, strict=True):
                note = None if cut.isdisjoint([text, *references]) else "truncated"
                for dimension, value in zip(self.dimensions, values, strict=True):
                    if references:
                        rows.add(dialogue, number, dimension, value, note)
                    else:
                        rows.add(dialogue, number, dimension, None, "no reference")
        return rows.scores()

    def provenance(self) -> dict[str, str]:
        """Name the encoder, and the file behind `idf`, by their contents rather than by their places."""
        marks = super().provenance()
        if self.idf is not None:
            with contextlib.suppress(DataError):  # a file that is not there keeps its name: nothing is scored
                marks["idf"] = sha256(self.idf)[:12]
        return marks

    def _matcher(self) -> Matcher:
        encoder = Encoder.load(self.encoder)
        return Matcher(encoder, self.layer, None if self.idf is None else idf_of_file(self.idf, encoder))
