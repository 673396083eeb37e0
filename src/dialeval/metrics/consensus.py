"""The metric `consensus`: a reference-based metric with similar corpus dialogues as references.

Two parts of a score that spread differently cannot be weighed as they are: the one that spreads more decides
alone; and either depends on how long a dialogue is. So a corpus has a `Scale`: its own dialogues, each left
out in its turn and compared with the others, say what either part is among good dialogues of the same length.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from dialeval import files
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
from dialeval.models.artefact import home
from dialeval.models.consensus import Corpus, Described, Description, Neighbours, open_corpus
from dialeval.models.index.writing import spoken_texts
from dialeval.models.needs import Need
from dialeval.scores import Scores

Doubles = npt.NDArray[np.float64]
Compare = Callable[[Described], Iterable[tuple[Neighbours, Doubles, Doubles]]]
_LEAST = 1e-6  # a spread below it is none
_TOGETHER = 64


@metric("consensus.v1")
@dataclass(frozen=True)
class Consensus(OpensModels):
    """A reference-based metric with similar corpus dialogues as references.

    The k nearest dialogues of a corpus are the references.
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
        for chunk in encoded_chunks(self, dialogues):
            near = self._references(corpus, chunk)
            asked = [
                _as_reply(chat, [corpus.dialogue(row) for row in near[number]], str(number))
                for number, chat in enumerate(chunk)
            ]
            first = inner.dimensions[0]
            by_id = {row.dialogue_id: row for row in inner.score(asked) if row.dimension == first}
            for number, chat in enumerate(chunk):
                row = by_id.get(str(number))
                spoken = row is not None and bool(spoken_texts(chat))
                value = row.value if row is not None and spoken else None
                reason = "no text" if not spoken else row.note if row is not None else "unscored"
                rows.add(chat, None, "likeness", value, note if value is not None else reason)
        return rows.scores()

    def _references(self, corpus: Corpus, dialogues: list[Dialogue]) -> list[list[int]]:
        if self.by == "personas":
            return [corpus.alike_in_personas(chat, self.k) for chat in dialogues]
        return [neighbours.rows for neighbours in corpus.retrieve(corpus.how.describe(dialogues), 0, self.k)]

    def needs(self) -> list[Need]:
        """Open the corpus and the metric; return what they read of encoders."""
        open_corpus(self.corpus, self._description())
        return [*(self._description().needs() if self.by == "content" else ()), *needs_of([self._inner()])]

    def provenance(self) -> dict[str, str]:
        """Name corpus and encoder by their contents, and the metric by its signature."""
        marks = super().provenance()
        with contextlib.suppress(DialevalError):  # what is not there keeps its name: nothing is scored
            marks["metric"] = str(signature_of(self._inner())).replace("|", ";")
            corpus, note = open_corpus(self.corpus, self._description())
            marks["corpus"] = corpus.mark(note)
        return marks

    def _description(self) -> Description:
        return Description(encoder=self.encoder, l=self.l)

    def _inner(self) -> Any:
        name, _, options = self.metric.partition(";")
        return build(f"{name}:{options.replace(';', ',')}" if options else name)


def _as_reply(chat: Dialogue, references: list[Dialogue], name: str) -> Dialogue:
    """Return a dialogue as one turn with all its text, and each reference as one text.

    The name is a new one: two dialogues may have one id.
    """
    turns: list[tuple[str, str | None]] = [("user", ""), ("assistant", " ".join(spoken_texts(chat)))]
    return dialogue(
        turns, name, references={1: [" ".join(spoken_texts(reference)) for reference in references]}
    )


@dataclass(frozen=True)
class LengthTrend:
    """Regression of corpus scores on the logarithm of the number of tokens, and the residual spread."""

    level: float
    slope: float
    spread: float

    @classmethod
    def of(cls, values: Doubles, logs: Doubles) -> "LengthTrend":
        """Fit the line by least squares; where lengths do not vary it is flat.

        >>> LengthTrend.of(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 2.0]))
        LengthTrend(level=1.0, slope=1.0, spread=1e-06)
        """
        apart = logs - logs.mean() if len(logs) else logs
        square = float(apart @ apart)
        slope = float(apart @ values) / square if square > _LEAST else 0.0
        level = float(values.mean() - slope * logs.mean()) if len(logs) else 0.0
        rest = values - level - slope * logs
        return cls(
            round(level, 6), round(slope, 6), max(round(float(rest.std()), 6) if len(logs) else 0.0, _LEAST)
        )

    def count(self, values: Doubles, tokens: int) -> Doubles:
        """Return values in standard deviations from what a corpus dialogue of this length has."""
        return np.asarray((values - self.level - self.slope * np.log(max(1, tokens))) / self.spread)

    def __str__(self) -> str:
        return f"{self.level:.3f}{self.slope:+.3f}ln±{self.spread:.3f}"


@dataclass(frozen=True)
class Scale:
    """The lines of the largest `acts` and the largest `content` of corpus dialogues.

    >>> scale = Scale(LengthTrend(0.5, 0.0, 0.2), LengthTrend(0.2, 0.1, 0.05))
    >>> scale.acts.count(np.array([0.7]), 20).round(3), str(scale)
    (array([1.]), '0.500+0.000ln±0.200;0.200+0.100ln±0.050')
    """

    acts: LengthTrend
    content: LengthTrend

    def __str__(self) -> str:
        return f"{self.acts};{self.content}"


def corpus_scale(corpus: Corpus, size: int, settings: str, compare: Compare) -> Scale:
    """Fit the scale of a corpus by comparing a fixed sample with the rest; the result is cached on disk.

    Args:
        corpus: An open corpus.
        size: How many dialogues; all if there are fewer.
        settings: The settings that the values depend on, beside the corpus and how it is described.
        compare: The references of dialogues, and the two parts for each; no dialogue is its own reference.
    """
    key = "|".join([corpus.index.sha, *corpus.names.values(), str(size), settings])
    path = home() / "scales" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    if (stored := _read(path)) is not None:
        return stored
    order = sorted(range(len(corpus)), key=lambda row: hashlib.sha256(corpus.ids[row].encode()).digest())
    acts, content, logs = list[float](), list[float](), list[float]()
    for start in range(0, min(size, len(order)), _TOGETHER):
        described = corpus.described(order[start : min(start + _TOGETHER, size)])
        for states, (near, by_acts, by_content) in zip(described.states, compare(described), strict=True):
            if near.rows and len(states):
                acts.append(float(by_acts.max()))
                content.append(float(by_content.max()))
                logs.append(float(np.log(len(states))))
    scale = Scale(*(LengthTrend.of(np.array(values), np.array(logs)) for values in (acts, content)))
    _keep(path, scale)
    return scale


def _read(path: Path) -> Scale | None:
    """Return a kept scale; one that is not there, or damaged, is computed."""
    try:
        scale = msgspec.json.decode(path.read_bytes(), type=Scale)
    except (OSError, ValueError, RecursionError):
        return None
    return scale if min(scale.acts.spread, scale.content.spread) >= _LEAST else None


def _keep(path: Path, scale: Scale) -> None:
    with contextlib.suppress(DialevalError), files.replacing(path) as file:  # else it is computed again
        file.write(msgspec.json.encode(scale))
