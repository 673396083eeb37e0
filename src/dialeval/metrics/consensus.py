"""Any metric that needs references, without any: dialogues of a corpus stand in for them."""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from dialeval.dialogues import Dialogue, dialogue
from dialeval.errors import DialevalError, UsageError
from dialeval.metrics.registry import (
    OpensModels,
    Rows,
    build,
    encoded_chunks,
    metric,
    model_field,
    needs_of,
    signature_of,
)
from dialeval.models import encoder
from dialeval.models.consensus import Corpus, Description, open_corpus
from dialeval.models.index.writing import said
from dialeval.models.needs import Need
from dialeval.scores import Scores


@metric("consensus.v1")
@dataclass(frozen=True)
class Consensus(OpensModels):
    """A reference-based metric made reference-free: the k nearest dialogues of a corpus are the references.

    `metric` names it, its own options after a semicolon each (`metric=bleu;order=2`). All that was said in a
    dialogue is one text, as it is in the references. Its first dimension is given as `likeness`. With
    `by=personas`, references are those whose speakers were given most of the same sentences to play.

    >>> chat = dialogue([("user", "Hi, how are you?"), ("assistant", "Fine, thanks. And you?")], "d1")
    >>> [row.value and round(row.value, 2) for row in Consensus("chrf", corpus="examples").score([chat])]
    [5.46]
    """

    metric: str = "bleu"
    corpus: str | None = None
    k: int = 50
    by: Literal["content", "personas"] = "content"
    l: int = 6  # noqa: E741  # the letter of the FlowEval paper
    encoder: str = model_field(encoder.DEFAULT, encoder.Encoder.load)
    dimensions: ClassVar[tuple[str, ...]] = ("likeness",)

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UsageError(f"k={self.k}: at least one reference is needed")

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Score each dialogue as one text against its neighbours in the corpus."""
        inner = self._inner()
        corpus, note = open_corpus(self.corpus, self._description())
        rows = Rows(self)
        for some in encoded_chunks(self, dialogues):
            near = self._references(corpus, some)
            asked = [
                _as_reply(one, [corpus.dialogue(row) for row in near[number]], str(number))
                for number, one in enumerate(some)
            ]
            first = inner.dimensions[0]
            found = {row.dialogue_id: row for row in inner.score(asked) if row.dimension == first}
            for number, one in enumerate(some):
                row = found.get(str(number))
                spoken = row is not None and bool(said(one))
                value = row.value if row is not None and spoken else None
                reason = "no text" if not spoken else row.note if row is not None else "unscored"
                rows.add(one, None, "likeness", value, note if value is not None else reason)
        return rows.scores()

    def _references(self, corpus: Corpus, dialogues: list[Dialogue]) -> list[list[int]]:
        if self.by == "personas":
            return [corpus.alike_in_personas(one, self.k) for one in dialogues]
        return [found.rows for found in corpus.retrieve(corpus.how.describe(dialogues), 0, self.k)]

    def needs(self) -> list[Need]:
        """Open the corpus and the metric; return what they read of encoders."""
        open_corpus(self.corpus, self._description())
        return [*(self._description().needs() if self.by == "content" else ()), *needs_of([self._inner()])]

    def provenance(self) -> dict[str, str]:
        """Name corpus and encoder by their contents, and the metric by its signature."""
        found = super().provenance()
        with contextlib.suppress(DialevalError):  # what is not there keeps its name: nothing is scored
            found["metric"] = str(signature_of(self._inner())).replace("|", ";")
            corpus, note = open_corpus(self.corpus, self._description())
            found["corpus"] = corpus.mark(note)
        return found

    def _description(self) -> Description:
        return Description(encoder=self.encoder, l=self.l)

    def _inner(self) -> Any:
        name, _, options = self.metric.partition(";")
        return build(f"{name}:{options.replace(';', ',')}" if options else name)


def _as_reply(one: Dialogue, references: list[Dialogue], name: str) -> Dialogue:
    """Put all that was said into one turn, and all that was said in each reference into one text.

    The name is a new one: two dialogues may have one id.
    """
    turns: list[tuple[str, str | None]] = [("user", ""), ("assistant", " ".join(said(one)))]
    return dialogue(turns, name, references={1: [" ".join(said(other)) for other in references]})
