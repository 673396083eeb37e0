"""BLEU over symbols against nltk, an independent implementation of the same paper."""

import random

import pytest
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

from dialeval.metrics.overlap import sequence_bleu

ACTS = ["inform", "question", "directive", "greeting", "thanking"]


@pytest.mark.parametrize("smoothing", ["method3", "method4"])
def test_equals_nltk(smoothing: str) -> None:
    draw = random.Random(7)
    for _ in range(500):
        length = draw.choice([2, 3, 4, 6, 12, 40])
        hypothesis = draw.choices(ACTS, k=length)
        references = [draw.choices(ACTS, k=draw.randint(1, 30)) for _ in range(draw.randint(1, 3))]
        expected = sentence_bleu(
            references, hypothesis, smoothing_function=getattr(SmoothingFunction(), smoothing)
        )
        assert sequence_bleu(hypothesis, references, smoothing=smoothing) == pytest.approx(
            float(expected), abs=1e-9
        )


def test_edges() -> None:
    assert sequence_bleu([], [["a"]]) == 0
    assert sequence_bleu(["a"], []) == 0
    assert sequence_bleu(["a"], [[]]) == 0
    assert sequence_bleu(["a"], [["b"]]) == 0
    assert sequence_bleu(list("abcd"), [list("abcd")], smoothing="none") == 1
    assert sequence_bleu(list("abce"), [list("abcd")], smoothing="none") == 0
