"""BLEU over sequences of any symbols, with the smoothing methods of Chen and Cherry (2014).

sacrebleu scores text; FlowEval needs the same figure on sequences of dialogue acts, and the papers of this
field use smoothing methods 3 and 4, which sacrebleu does not have under these names. Checked against nltk.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Literal

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
    if min(precisions) == 0:
        return 0.0
    closest = min((abs(len(one) - len(hypothesis)), len(one)) for one in references)[1]
    brevity = 1.0 if len(hypothesis) > closest else math.exp(1 - closest / len(hypothesis))
    return brevity * math.exp(math.fsum(math.log(p) for p in precisions) / order)


def _matches(
    hypothesis: Sequence[Hashable], references: Sequence[Sequence[Hashable]], n: int
) -> tuple[int, int]:
    """Count clipped n-gram matches, and how many there could be (at least one, so that it divides)."""
    found = count_ngrams(hypothesis, n)
    most: Counter[tuple[Hashable, ...]] = Counter()
    for reference in references:
        most |= count_ngrams(reference, n)
    return sum((found & most).values()), max(1, sum(found.values()))


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
