"""BLEU over sequences of any symbols, with the smoothing methods of Chen and Cherry (2014).

sacrebleu scores text; FlowEval needs the same figure on sequences of dialogue acts, and the papers of this
field use smoothing methods 3 and 4, which sacrebleu does not have under these names. Checked against nltk.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.metrics.registry import Rows, metric
from dialeval.scores import Scores

Smoothing = Literal["none", "method3", "method4"]


def sequence_bleu(
    hypothesis: Sequence[Hashable],
    references: Sequence[Sequence[Hashable]],
    order: int = 4,
    smoothing: Smoothing = "method3",
) -> float:
    """Compute BLEU of one sequence against one or more references, between 0 and 1.

    Method 3 (NIST) gives the first n without a match half a count, the next a quarter, and so on. Method 4
    does the same but divides less for short sequences, whose chance matches would else be overrated.

    Args:
        hypothesis: The symbols to score.
        references: Sequences to compare with.
        order: Longest n-gram.
        smoothing: What to do with an n that has no match.

    >>> acts = ["greeting", "question", "inform", "inform", "goodbye"]
    >>> round(sequence_bleu(acts, [["greeting", "question", "inform", "question", "goodbye"]]), 4)
    0.4273
    """
    if not hypothesis or not references or not all(references):
        return 0.0
    matches, totals = zip(*(_matches(hypothesis, references, n) for n in range(1, order + 1)), strict=True)
    if matches[0] == 0:
        return 0.0
    precisions = _smooth(matches, totals, len(hypothesis), smoothing)
    closest = min((abs(len(reference) - len(hypothesis)), len(reference)) for reference in references)[1]
    return _combined(precisions, len(hypothesis), closest)


def _combined(precisions: Sequence[float], length: int, closest: int) -> float:
    """Return the geometric mean times the brevity penalty."""
    if min(precisions) == 0:
        return 0.0
    brevity = 1.0 if length > closest else math.exp(1 - closest / length)
    return brevity * math.exp(math.fsum(math.log(p) for p in precisions) / len(precisions))


def _matches(
    hypothesis: Sequence[Hashable], references: Sequence[Sequence[Hashable]], n: int
) -> tuple[int, int]:
    """Count clipped n-gram matches, and how many there could be (at least one, so that it divides)."""
    counts = count_ngrams(hypothesis, n)
    most: Counter[tuple[Hashable, ...]] = Counter()
    for reference in references:
        most |= count_ngrams(reference, n)
    return sum((counts & most).values()), max(1, sum(counts.values()))


def count_ngrams(sequence: Sequence[Hashable], n: int) -> Counter[tuple[Hashable, ...]]:
    """Count the n-grams of a sequence."""
    return Counter(zip(*(sequence[shift:] for shift in range(n)), strict=False))


def _smooth(matches: Sequence[int], totals: Sequence[int], length: int, smoothing: Smoothing) -> list[float]:
    precisions, misses = [], 0
    for matched, total in zip(matches, totals, strict=True):
        if matched or smoothing == "none":
            precisions.append(matched / total)
            continue
        misses += 1
        if smoothing == "method4" and length > 1:
            precisions.append(1 / (2**misses * 5 / math.log(length)) / total)
        else:
            precisions.append(1 / (2**misses * total))
    return precisions


class NgramCounts:
    """The n-grams of a sequence of numbers below `symbols`, counted once to be compared with many others.

    >>> one, other = NgramCounts([0, 1, 2, 2, 3], symbols=11), NgramCounts([0, 1, 2, 1, 3], symbols=11)
    >>> round(one.bleu([other], "method3")[0], 4)
    0.4273
    """

    def __init__(self, sequence: Sequence[int], symbols: int, order: int = 4) -> None:
        numbers = np.asarray(sequence, np.int64)
        self.length, self.order = len(numbers), order
        grams, codes, first = [], np.zeros(len(numbers), np.int64), 0
        for n in range(1, order + 1):
            codes = codes[: len(numbers) - n + 1] * symbols + numbers[n - 1 :]
            grams.append(codes + first)
            first += symbols**n  # so that the n-grams of each length have numbers of their own
        self._codes, self._counts = np.unique(np.concatenate(grams), return_counts=True)
        starts = np.cumsum([0, *(symbols**n for n in range(1, order))])
        self._parts = np.searchsorted(self._codes, starts)
        self._size = first

    def bleu(self, references: Sequence["NgramCounts"], smoothing: Smoothing = "method3") -> list[float]:
        """Return BLEU against each of many sequences by itself."""
        table = np.zeros(self._size, np.int64)
        table[self._codes] = self._counts
        totals = [max(1, self.length - n) for n in range(self.order)]
        scores = []
        for reference in references:
            least = np.minimum(table[reference._codes], reference._counts)
            sums = np.cumsum([0, *least])[[*reference._parts, len(least)]]
            matches = np.diff(sums).tolist()
            if not matches[0]:
                scores.append(0.0)
                continue
            precisions = _smooth(matches, totals, self.length, smoothing)
            scores.append(_combined(precisions, self.length, reference.length))
        return scores


@metric("bleu.v1")
@dataclass(frozen=True)
class Bleu:
    """BLEU of a reply against its references, 0 to 100.

    A turn without a reference is unscored.

    `smoothing` is sacrebleu's (`exp`, `floor`, `add-k`, `none`) or Chen and Cherry's `method3` or `method4`.

    >>> from dialeval.dialogues import dialogue
    >>> turns = [("user", "Hi"), ("assistant", "Hello, how are you?")]
    >>> chat = dialogue(turns, references={1: ["Hello, how is it going?"]})
    >>> round(next(iter(Bleu().score([chat]))).value, 2)
    27.48
    """

    order: int = 4
    smoothing: Literal["exp", "floor", "add-k", "none", "method3", "method4"] = "exp"
    tokenize: str = "13a"
    lowercase: bool = False
    speaker: str | None = None
    dimensions: ClassVar[tuple[str, ...]] = ("bleu",)

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Compare each scored turn with its references."""
        return _against_references(self, dialogues, self.speaker, "bleu", self._sentence())

    def _sentence(self) -> Callable[[str, list[str]], float]:
        from sacrebleu.metrics.bleu import BLEU

        if self.smoothing in ("method3", "method4"):
            tokenizer = BLEU(tokenize=self.tokenize, lowercase=self.lowercase)

            def split(text: str) -> list[str]:
                return str(tokenizer._preprocess_segment(text)).split()

            smoothing = self.smoothing
            return lambda text, references: (
                100 * sequence_bleu(split(text), list(map(split, references)), self.order, smoothing)
            )
        bleu = BLEU(
            max_ngram_order=self.order,
            smooth_method=self.smoothing,
            tokenize=self.tokenize,
            lowercase=self.lowercase,
            effective_order=True,
        )
        return lambda text, references: float(bleu.sentence_score(text, references).score)


@metric("chrf.v1")
@dataclass(frozen=True)
class Chrf:
    """ChrF (character n-grams) of a reply against its references, 0 to 100.

    Suited to inflected languages.

    >>> from dialeval.dialogues import dialogue
    >>> turns = [("user", "Hi"), ("assistant", "Hello, how are you?")]
    >>> chat = dialogue(turns, references={1: ["Hello, how is it going?"]})
    >>> round(next(iter(Chrf().score([chat]))).value, 2)
    42.0
    """

    characters: int = 6
    words: int = 0
    beta: int = 2
    lowercase: bool = False
    speaker: str | None = None
    dimensions: ClassVar[tuple[str, ...]] = ("chrf",)

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Compare each scored turn with its references."""
        from sacrebleu.metrics.chrf import CHRF

        chrf = CHRF(
            char_order=self.characters, word_order=self.words, beta=self.beta, lowercase=self.lowercase
        )
        return _against_references(
            self,
            dialogues,
            self.speaker,
            "chrf",
            lambda text, references: float(chrf.sentence_score(text, references).score),
        )


def _against_references(
    metric: object,
    dialogues: Iterable[Dialogue],
    speaker: str | None,
    dimension: str,
    compare: Callable[[str, list[str]], float],
) -> Scores:
    rows = Rows(metric)
    for dialogue, number, text, references in with_references(dialogues, speaker):
        if not references:
            rows.add(dialogue, number, dimension, None, "no reference")
        else:
            rows.add(dialogue, number, dimension, compare(text, references) if text.strip() else 0.0)
    return rows.scores()


def with_references(
    dialogues: Iterable[Dialogue], speaker: str | None
) -> Iterator[tuple[Dialogue, int, str, list[str]]]:
    """Yield each scored turn: its dialogue, number and text, and its references but for blank ones."""
    for dialogue in dialogues:
        for number in scored_turns(dialogue, speaker):
            references = [text for text in dialogue.references.get(number, ()) if text.strip()]
            yield dialogue, number, dialogue.turns[number].text, references
