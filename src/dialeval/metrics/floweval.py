"""FlowEval: similarity of a dialogue to its nearest dialogues in a corpus.

A dialogue is compared with the dialogues of a corpus that are most like it, in what speakers do and in what
they say; the best of them decides. The metrics here are the paper's (Zhao et al., EMNLP 2022) and its parts.
"""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from dialeval.dialogues import Dialogue
from dialeval.dialogues.acts import ACTS
from dialeval.errors import DialevalError, UsageError
from dialeval.metrics.consensus import Scale, corpus_scale
from dialeval.metrics.explanation import Explanation, Side, align
from dialeval.metrics.overlap import NgramCounts, Smoothing
from dialeval.metrics.registry import (
    Language,
    OpensModels,
    Rows,
    encoded_chunks,
    known_language,
    metric,
    model_field,
)
from dialeval.models import act_flows, encoder, segment_acts
from dialeval.models.act_flows import ActBert, Flow
from dialeval.models.consensus import Corpus, Described, Description, Neighbours, open_corpus
from dialeval.models.encoder import Encoder
from dialeval.models.matching import Matcher
from dialeval.models.needs import Need
from dialeval.scores import Scores

Doubles = npt.NDArray[np.float64]
_KEPT = 512  # judged dialogues that are kept for whoever asks why


class BestReference(NamedTuple):
    """A dialogue with its best reference: row in the corpus, and the two parts of the score."""

    dialogue: Dialogue
    labelled: Dialogue
    row: int | None
    overall: float | None
    acts: float | None
    content: float | None
    note: str | None


class _LastJudged:
    """The dialogues that one metric judged last, so that its explanation costs no second search."""

    def __init__(self) -> None:
        self._kept: list[BestReference] = []

    def keep(self, judged: Iterable[BestReference]) -> Iterator[BestReference]:
        """Pass on what is judged, and keep it if it is not much."""
        self._kept, recent = [], list[BestReference]()
        for best in judged:
            if len(recent) <= _KEPT:
                recent.append(best)
            yield best
        self._kept = recent

    def of(self, dialogues: Sequence[Dialogue]) -> list[BestReference]:
        """Return what was judged if it was of these very dialogues, else nothing."""
        if not len(self._kept) == len(dialogues) <= _KEPT:
            return []
        same = all(best.dialogue is dialogue for best, dialogue in zip(self._kept, dialogues, strict=True))
        return self._kept if same else []


@metric("floweval.v2")
@dataclass(frozen=True)
class FlowEval(OpensModels):
    """Similarity to the nearest corpus dialogue, by segment acts and content.

    `corpus` names an index or its folder (None: DailyDialog's, if it was indexed, else the bundled one). `ka`
    and `kc` are how many references are found by acts and by content, `w` is the weight of the acts; `h`
    and `l` are the layers of ActBERT and of the encoder; `idf` weighs tokens by their rarity in the corpus.
    To be weighed, `acts` and `content` are counted in standard deviations from what `scale` of the corpus's
    own dialogues have, at the same length, when each is compared with the others: `overall` is near 0 for a
    dialogue like those of the corpus. With `scale=0` they are weighed as they are, as in the paper.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hi, how are you?"), ("assistant", "Fine, thanks. And you?")], "d1")
    >>> [(row.dimension, round(row.value, 2)) for row in FlowEval(corpus="examples").score([chat])]
    [('overall', -2.91), ('acts', 0.0), ('content', 0.28)]
    """

    corpus: str | None = None
    ka: int = 40
    kc: int = 10
    w: float = 0.85
    h: int = 1
    l: int = 6  # noqa: E741  # the paper's letter
    idf: bool = True
    smoothing: Smoothing = "method4"
    splitter: str = segment_acts.LEARNED
    encoder: str = model_field(encoder.DEFAULT, Encoder.load)
    acts: str = model_field(segment_acts.SPANS, segment_acts.open_classifier)
    actbert: str = model_field(act_flows.DEFAULT, ActBert.load)
    scale: int = 200
    language: Language = known_language()
    dimensions: ClassVar[tuple[str, ...]] = ("overall", "acts", "content")
    tuned_on: ClassVar[tuple[str, ...]] = ("dbdc3", "dailydialog/dev")

    def __post_init__(self) -> None:
        if self.ka < 0 or self.kc < 0 or self.ka + self.kc < 1:
            raise UsageError(f"ka={self.ka}, kc={self.kc}: at least one reference is needed")
        if not 0 <= self.w <= 1:
            raise UsageError(f"w={self.w}: the weight of the acts is between 0 and 1")
        if self.scale < 0:
            raise UsageError(f"scale={self.scale}: a number of dialogues, or 0 for no scale")

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Compare each dialogue with its references."""
        rows = Rows(self)
        for best in self.judge(dialogues):
            for dimension in self.dimensions:
                rows.add(best.dialogue, None, dimension, getattr(best, dimension), best.note)
        return rows.scores()

    def judge(self, dialogues: Iterable[Dialogue]) -> Iterator[BestReference]:
        """Find the best reference of each dialogue, and keep it for `explain`."""
        return self._last.keep(self._judge(dialogues))

    def explain(self, dialogues: Sequence[Dialogue]) -> list[Explanation]:
        """Show each dialogue beside the reference that decided."""
        corpus, _ = open_corpus(self.corpus, self._description())
        return [_explained(best, corpus) for best in self._last.of(dialogues) or self._judge(dialogues)]

    def needs(self) -> list[Need]:
        """Open the corpus and all models; return what they read of encoders."""
        open_corpus(self.corpus, self._description())
        return self._description().needs()

    def provenance(self) -> dict[str, str]:
        """Name models and corpus by their contents, not by where they lie, and the scale by its numbers."""
        marks = super().provenance()
        with contextlib.suppress(DialevalError):  # what is not there keeps its name: nothing is scored
            corpus, note = open_corpus(self.corpus, self._description())
            marks["corpus"] = corpus.mark(note)
            marks |= {"scale": f"{self.scale}@{self._scale}"} if self.scale else {}
        return marks

    @functools.cached_property
    def _last(self) -> "_LastJudged":
        return _LastJudged()

    def _description(self) -> Description:
        return Description(self.encoder, self.acts, self.actbert, self.splitter, self.h, self.l)

    def _matcher(self, corpus: Corpus) -> Matcher:
        return Matcher(Encoder.load(self.encoder), self.l, corpus.idf if self.idf else None)

    def _judge(self, dialogues: Iterable[Dialogue]) -> Iterator[BestReference]:
        corpus, note = open_corpus(self.corpus, self._description())
        matcher = self._matcher(corpus)
        for chunk in encoded_chunks(self, dialogues):
            asked = corpus.how.describe(chunk)
            compared = self._compare(corpus, matcher, asked, self._weigh)
            for number, (neighbours, acts, content) in enumerate(compared):
                yield self._best(chunk[number], asked, number, neighbours.rows, acts, content, note)

    def _compare(
        self, corpus: Corpus, matcher: Matcher, asked: Described, weigh: Callable[..., Doubles]
    ) -> Iterator[tuple[Neighbours, Doubles, Doubles]]:
        """Find the references of dialogues and compute both parts of the score for each.

        Content is computed where, weighed with the acts, it may be the best; elsewhere it is minus infinity.
        """
        near = list(corpus.retrieve(asked, self.ka, self.kc))
        acts = []
        for neighbours, flow in zip(near, asked.flows, strict=True):
            flows = [corpus.flow(row) for row in neighbours.rows]
            acts.append(neighbours.likeness * flow_bleu(flow, flows, self.smoothing))
        worth = [
            functools.partial(weigh, part, tokens=len(states))
            for part, states in zip(acts, asked.states, strict=True)
        ]
        if self.w == 1:
            content: Iterable[Doubles] = map(np.zeros_like, acts)
        else:
            stored = [corpus.states(neighbours.rows) for neighbours in near]
            content = matcher.decisive(asked.states, stored, worth)
        yield from zip(near, acts, content, strict=True)

    @functools.cached_property
    def _scale(self) -> Scale:
        corpus, _ = open_corpus(self.corpus, self._description())
        matcher = self._matcher(corpus)
        settings = f"{self.ka}|{self.kc}|{self.idf}|{self.smoothing}|{self.w == 1}"

        def compare(asked: Described) -> Iterator[tuple[Neighbours, Doubles, Doubles]]:
            return self._compare(corpus, matcher, asked, lambda acts, content, tokens: content)

        return corpus_scale(corpus, self.scale, settings, compare)

    def _weigh(self, acts: Doubles, content: Doubles, tokens: int) -> Doubles:
        """Weigh the two parts, on the corpus's scale if there is one."""
        if self.scale:
            acts, content = self._scale.acts.count(acts, tokens), self._scale.content.count(content, tokens)
        return self.w * acts + (1 - self.w) * content

    def _best(
        self,
        dialogue: Dialogue,
        asked: Described,
        number: int,
        rows: Sequence[int],
        acts: Doubles,
        content: Doubles,
        note: str | None,
    ) -> BestReference:
        labelled = asked.dialogues[number]
        missing = "no text" if not asked.flows[number].acts else "no reference" if not rows else None
        if missing:
            return BestReference(dialogue, labelled, None, None, None, None, missing)
        whole = self._weigh(acts, content, len(asked.states[number]))
        best = int(whole.argmax())
        return BestReference(
            dialogue, labelled, rows[best], float(whole[best]), float(acts[best]), float(content[best]), note
        )


class _OnePart:
    """A metric that is one part of FlowEval, with the settings of `_whole`."""

    dimensions: ClassVar[tuple[str, ...]]
    _whole: FlowEval

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Compare each dialogue with its references."""
        rows = Rows(self)
        for best in self._whole.judge(dialogues):
            rows.add(best.dialogue, None, self.dimensions[0], best.overall, best.note)
        return rows.scores()

    def explain(self, dialogues: Sequence[Dialogue]) -> list[Explanation]:
        """Show each dialogue beside the reference that decided."""
        (part,) = self.dimensions
        return [
            replace(explanation, dimension=part, parts={part: explanation.parts[part]})
            for explanation in self._whole.explain(dialogues)
        ]

    def provenance(self) -> dict[str, str]:
        """Name models and corpus by their contents, not by where they lie."""
        return {name: mark for name, mark in self._whole.provenance().items() if hasattr(self, name)}

    def needs(self) -> list[Need]:
        """Open the corpus and all models; return what they read of encoders."""
        return self._whole.needs()


@metric("floweval-seg.v2")
@dataclass(frozen=True)
class FlowEvalSeg(_OnePart):
    """FlowEval by segment acts alone (FlowEval_seg of the paper).

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hi, how are you?"), ("assistant", "Fine, thanks. And you?")], "d1")
    >>> [(row.dimension, round(row.value, 2)) for row in FlowEvalSeg(corpus="examples").score([chat])]
    [('acts', 0.01)]
    """

    corpus: str | None = None
    k: int = 50
    h: int = 1
    l: int = 6  # noqa: E741
    smoothing: Smoothing = "method4"
    splitter: str = segment_acts.LEARNED
    encoder: str = encoder.DEFAULT
    acts: str = segment_acts.SPANS
    actbert: str = act_flows.DEFAULT
    language: Language = known_language()
    dimensions: ClassVar[tuple[str, ...]] = ("acts",)

    @functools.cached_property
    def _whole(self) -> FlowEval:  # type: ignore[override]
        same = {name: getattr(self, name) for name in _FLOW}
        return FlowEval(ka=self.k, kc=0, w=1.0, scale=0, **same)


_FLOW = ("corpus", "h", "l", "smoothing", "splitter", "encoder", "acts", "actbert")


@metric("consensus-bertscore.v1")
@dataclass(frozen=True)
class ConsensusBertScore(_OnePart):
    """BERTScore against the corpus dialogues with the most similar content.

    The best of the references counts.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hi, how are you?"), ("assistant", "Fine, thanks. And you?")], "d1")
    >>> [(row.dimension, round(row.value, 2)) for row in ConsensusBertScore(corpus="examples").score([chat])]
    [('content', 0.28)]
    """

    corpus: str | None = None
    k: int = 50
    l: int = 6  # noqa: E741
    idf: bool = True
    encoder: str = encoder.DEFAULT
    language: Language = known_language()
    dimensions: ClassVar[tuple[str, ...]] = ("content",)

    @functools.cached_property
    def _whole(self) -> FlowEval:  # type: ignore[override]
        return FlowEval(
            self.corpus, ka=0, kc=self.k, w=0.0, l=self.l, idf=self.idf, encoder=self.encoder, scale=0
        )


def _explained(best: BestReference, corpus: Corpus) -> Explanation:
    own = Side.of(best.labelled)
    reference = None if best.row is None else Side.of(corpus.dialogue(best.row))
    aligned = () if reference is None else align(own.labels, reference.labels)
    parts = {"acts": best.acts, "content": best.content}
    return Explanation(
        best.dialogue.id, "floweval", best.overall, parts, own, reference, aligned, best.note, "overall"
    )


def flow_bleu(flow: Flow, references: Sequence[Flow], smoothing: Smoothing) -> Doubles:
    """Return BLEU of a flow's acts against those of each other flow.

    >>> short, long = ("greeting", "question"), ("greeting", "question", "inform")
    >>> flow_bleu(Flow(short, (0, 0)), [Flow(long, (0, 0, 1))], "method4").round(3)
    array([0.134])
    """
    return np.array(_counted(flow).bleu([_counted(reference) for reference in references], smoothing))


@functools.lru_cache(maxsize=1 << 17)
def _counted(flow: Flow) -> NgramCounts:
    return NgramCounts([ACTS.index(act) for act in flow.acts], len(ACTS))
