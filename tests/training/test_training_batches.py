"""Which examples go together, and what a step's loss is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialeval.errors import DataError, UsageError
from dialeval.models.heads import Head
from dialeval.training import PairExample, TrainingSettings
from dialeval.training.examples import data_hash, parts, plan, steps_of, target_arrays

LENGTHS = np.random.default_rng(0).integers(5, 200, size=1000)


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=80),
    st.integers(1, 7),
    st.integers(1, 3),
    st.integers(1, 5),
    st.integers(0, 3),
)
def test_an_epoch_sees_every_example_once(
    lengths: list[int], batch: int, accumulate: int, group: int, epoch: int
) -> None:
    settings = TrainingSettings(batch=batch, accumulate=accumulate, group=group, seed=4)
    steps = plan(lengths, settings, epoch)
    assert sorted(np.concatenate(steps).tolist()) == list(range(len(lengths)))
    assert len(steps) == steps_of(len(lengths), settings)
    assert max(lengths) in [lengths[place] for place in steps[0]]
    for step in steps:
        divided = parts(step, settings)
        assert np.concatenate(divided).tolist() == step.tolist()
        assert len(divided) <= accumulate
        assert max(map(len, divided)) <= batch


def test_order_follows_from_seed_and_epoch() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        return np.concatenate(plan(LENGTHS, TrainingSettings(seed=seed), epoch)).tolist()

    assert order(1, 0) == order(1, 0)
    assert len({tuple(order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


def test_grouping_by_length_saves_padding() -> None:
    def padded(group: int) -> int:
        return sum(
            len(step) * LENGTHS[step].max()
            for step in plan(LENGTHS, TrainingSettings(batch=8, group=group), 0)
        )

    assert padded(50) < 1.06 * LENGTHS.sum()
    assert padded(1) > 1.5 * LENGTHS.sum()


def test_a_step_is_the_same_however_it_is_divided() -> None:
    whole, divided = TrainingSettings(batch=16), TrainingSettings(batch=4, accumulate=4)
    assert all(
        np.array_equal(*pair) for pair in zip(plan(LENGTHS, whole, 2), plan(LENGTHS, divided, 2), strict=True)
    )


def test_the_rate_rises_and_falls() -> None:
    rates = [TrainingSettings(learning_rate=1.0, warmup=0.2).rate(step, 10) for step in range(10)]
    assert rates == [0.5, 1.0, *(n / 8 for n in range(8, 0, -1))]
    assert {
        TrainingSettings(learning_rate=1.0, schedule="constant").rate(step, 10) for step in range(10)
    } == {1.0}


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch": 0},
        {"batch": 2.0},
        {"epochs": True},
        {"seed": -1},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"warmup": 1.5},
        {"dropout": 1.0},
        {"clip": -1.0},
        {"schedule": "cosine"},
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        TrainingSettings(**wrong)


HEADS = (Head("quality", "regression"), Head("stop", "binary"), Head("act", "classes", ("a", "b")))


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ({"quality": float("nan")}, "example 1: nan is not a finite number"),
        ({"stop": 1.5}, "1.5 is not between 0 and 1"),
        ({"act": 2}, "2 is not a whole number from 0 to 1"),
        ({"act": 0.5}, "0.5 is not a whole number"),
        ({"other": 1}, "a head 'other'; there are: quality, stop, act"),
    ],
)
def test_labels_that_no_head_can_learn_are_refused(targets: dict, message: str) -> None:
    fine = PairExample((), "Hello", {"quality": 1.0, "stop": None})
    with pytest.raises(DataError, match=message):
        target_arrays([fine, PairExample((), "Hello", targets)], HEADS)
    with pytest.raises(DataError, match="weight"):
        target_arrays([PairExample((), "Hello", {}, weight=-1.0)], HEADS)


def test_every_part_of_an_example_is_in_the_hash() -> None:
    one = PairExample(("a", "b"), "c", {"quality": 1.0})
    others = [
        PairExample(("ab",), "c", {"quality": 1.0}),
        PairExample(("a",), "bc", {"quality": 1.0}),
        PairExample(("a", "b", ""), "c", {"quality": 1.0}),
        PairExample(("a", "b"), "c", {"quality": 2.0}),
        PairExample(("a", "b"), "c", {"stop": 1.0}),
        PairExample(("a", "b"), "c", {"quality": 1.0}, weight=2.0),
        PairExample(("a", "\ud800"), "c", {"quality": 1.0}),
    ]
    assert len({data_hash([example]) for example in [one, *others]}) == len(others) + 1
    assert data_hash([one, others[0]]) != data_hash([others[0], one])
    assert data_hash([one]) == data_hash([PairExample(("a", "b"), "c", {"quality": 1, "stop": None})])
