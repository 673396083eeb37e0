"""BERTScore: word by word, how close in meaning is a reply to what people would have said?"""

import contextlib
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from dialeval.dialogues import Dialogue
from dialeval.errors import DataError
from dialeval.files import sha256
from dialeval.metrics.overlap import with_references
from dialeval.metrics.registry import Rows, metric
from dialeval.models.encoder import DEFAULT, Encoder, mark
from dialeval.models.matching import Matcher, idf_of_file
from dialeval.scores import Scores

_AT_ONCE = 4096  # turns that are compared together


@metric("bertscore.v1")
@dataclass(frozen=True)
class BertScore:
    """BERTScore of a reply against its references, at most 1; a turn without a reference is unscored.

    `idf` names a file of dialogues; tokens that are rare in its turns then count more. Of several references
    the best counts.

    >>> from dialeval.dialogues import dialogue
    >>> turns = [("user", "Hi"), ("assistant", "Hello, how are you?")]
    >>> chat = dialogue(turns, references={1: ["Hello, how is it going?"]})
    >>> {row.dimension: round(row.value, 2) for row in BertScore().score([chat])}
    {'precision': 0.79, 'recall': 0.72, 'f1': 0.75}
    """

    encoder: str = DEFAULT
    layer: int = 6
    idf: str | None = None
    speaker: str | None = None
    dimensions: ClassVar[tuple[str, ...]] = ("precision", "recall", "f1")
    tuned_on: ClassVar[tuple[str, ...]] = ("dailydialog", "multiwoz")  # the default layer

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Compare each scored turn with its references."""
        matcher, rows = self._matcher(), Rows(self)
        turns = with_references(dialogues, self.speaker)
        while block := list(itertools.islice(turns, _AT_ONCE)):
            found = matcher.score([text for _, _, text, _ in block], [known for *_, known in block])
            texts = list({text for *_, said, known in block if known for text in (said, *known)})
            cut = {text for text, long in zip(texts, matcher.truncated(texts), strict=True) if long}
            for (dialogue, number, text, references), values in zip(block, found, strict=True):
                note = None if cut.isdisjoint([text, *references]) else "truncated"
                for dimension, value in zip(self.dimensions, values, strict=True):
                    if references:
                        rows.add(dialogue, number, dimension, value, note)
                    else:
                        rows.add(dialogue, number, dimension, None, "no reference")
        return rows.scores()

    def provenance(self) -> dict[str, str]:
        """Name the encoder, and the file behind `idf`, by their contents rather than by their places."""
        found = {"encoder": mark(self.encoder)}
        if self.idf is not None:
            with contextlib.suppress(DataError):  # a file that is not there keeps its name: nothing is scored
                found["idf"] = sha256(self.idf)[:12]
        return found

    def _matcher(self) -> Matcher:
        encoder = Encoder.load(self.encoder)
        return Matcher(encoder, self.layer, None if self.idf is None else idf_of_file(self.idf, encoder))
