"""BLEU between flows of acts: counted once, it is what the plain function and nltk say."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

from dialeval.dialogues.acts import ACTS
from dialeval.metrics.floweval import flow_bleu
from dialeval.metrics.overlap import NgramCounts, Smoothing, sequence_bleu
from dialeval.models.act_flows import Flow

SMOOTHINGS: tuple[Smoothing, ...] = ("none", "method3", "method4")
sequences = st.lists(st.integers(0, 10), max_size=24)


def flow(acts: list[str]) -> Flow:
    return Flow(tuple(acts), tuple(number % 2 for number in range(len(acts))))


@given(sequences, st.lists(sequences, max_size=4), st.sampled_from(SMOOTHINGS), st.integers(1, 5))
def test_counted_once_it_is_the_same(
    own: list[int], others: list[list[int]], smoothing: Smoothing, order: int
) -> None:
    found = NgramCounts(own, 11, order).bleu([NgramCounts(other, 11, order) for other in others], smoothing)
    expected = [sequence_bleu(own, [other], order, smoothing) for other in others]
    assert found == pytest.approx(expected, abs=1e-12)


@given(sequences, st.integers(2, 4))
def test_a_sequence_equals_itself(own: list[int], order: int) -> None:
    counted = NgramCounts(own, 11, order)
    assert counted.bleu([counted], "none") == [1.0 if len(own) >= order else 0.0]


@pytest.mark.parametrize("smoothing", ["method3", "method4"])
def test_flows_against_nltk(smoothing: Smoothing) -> None:
    draw, smooth = random.Random(3), getattr(SmoothingFunction(), smoothing)
    for _ in range(60):
        own = draw.choices(ACTS, weights=[12, 5, 2, 1, 1, 1, 1, 1, 2, 1, 1], k=draw.choice([2, 3, 5, 17, 60]))
        others = [draw.choices(ACTS, k=draw.randint(1, 40)) for _ in range(8)]
        expected = [float(sentence_bleu([other], own, smoothing_function=smooth)) for other in others]
        assert flow_bleu(flow(own), list(map(flow, others)), smoothing) == pytest.approx(expected, abs=1e-9)


def test_speakers_do_not_count_and_nothing_is_like_nothing() -> None:
    acts = ("greeting", "question", "inform")
    one, other = Flow(acts, (0, 0, 1)), Flow(acts, (0, 1, 0))
    assert flow_bleu(one, [other], "none").tolist() == [0.0]  # too short for four in a row
    assert flow_bleu(one, [other], "method4") == flow_bleu(one, [one], "method4")
    assert flow_bleu(one, [Flow((), ())], "method4").tolist() == [0.0]
    assert flow_bleu(Flow((), ()), [one], "method4").tolist() == [0.0]
    assert flow_bleu(one, [], "method4").shape == (0,)
    assert np.isfinite(flow_bleu(Flow(("inform",), (0,)), [one], "method4")).all()
