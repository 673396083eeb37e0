"""Flows, and ActBERT as it ships: pooling, long flows, empty ones, and guesses that beat guessing."""

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dialeval.dialogues import Turn, dialogue
from dialeval.dialogues.acts import ACTS
from dialeval.dialogues.formats import read
from dialeval.errors import DataError, UsageError
from dialeval.models.act_flows import FIRST, MASK, ActBert, Flow, flow_of, numbered
from dialeval.models.consensus import EXAMPLES
from dialeval.models.encoder import DEFAULT as ENCODER
from dialeval.models.segment_acts import SegmentActs


def turn(speaker: str, *acts: str | None) -> Turn:
    return Turn(speaker, "x", {"segments": [{"text": "x", "act": act} for act in acts]})


def some_flow(size: int, seed: int = 0) -> Flow:
    draw = random.Random(seed)
    acts = draw.choices(ACTS, weights=[8, 4, 1, 1, 1, 1, 1, 1, 2, 1, 1], k=size)
    return Flow(tuple(acts), tuple(draw.randint(0, 1) for _ in acts))


@pytest.fixture(scope="module")
def bert() -> ActBert:
    return ActBert.load()


@pytest.fixture(scope="module")
def flows() -> list[Flow]:
    return [flow_of(one) for one in SegmentActs.load().label(list(read(EXAMPLES))[:30])]


def test_a_flow_is_acts_and_who_performs_them() -> None:
    chat = dialogue(
        [
            turn("system", "directive"),
            turn("assistant", None, "greeting"),
            turn("user", "Greeting", "question"),
            turn("third", "inform"),
            turn("assistant", "inform"),
        ]
    )
    assert flow_of(chat) == Flow(("greeting", "greeting", "question", "inform", "inform"), (0, 1, 1, 1, 0)), (
        "the first act is that of whoever began"
    )
    assert flow_of(dialogue([("user", "Not annotated.")])) == Flow((), ())
    assert flow_of(dialogue([])) == Flow((), ())


def test_numbers_of_acts_are_no_marks() -> None:
    found = numbered(Flow(ACTS, (0,) * len(ACTS)))
    assert found == list(range(FIRST, FIRST + len(ACTS)))
    assert MASK not in found


def test_its_shape_is_the_papers(bert: ActBert) -> None:
    shape = bert._shape
    assert (shape.layers, shape.heads, shape.width, shape.segments) == (4, 4, 256, 2)
    assert shape.vocabulary == len(ACTS) + FIRST


@pytest.mark.parametrize("layer", [0, 1, 4, None])
def test_a_long_flow_is_read_in_pieces(bert: ActBert, layer: int | None) -> None:
    room, whole = bert._room, some_flow(3 * bert._room + 7)
    pieces = [
        Flow(whole.acts[start : start + room], whole.speakers[start : start + room])
        for start in range(0, len(whole.acts), room)
    ]
    assert len(pieces) == 4
    found = bert.vectors([whole, *pieces], layer)
    assert found.shape == (5, 256)
    assert np.abs(found[0] - found[1:].max(axis=0)).max() <= 1e-5


def test_company_and_order_change_nothing(bert: ActBert) -> None:
    some = [some_flow(size, size) for size in (1, 2, 3, 9, 40, 200, 3)]
    alone = np.concatenate([bert.vectors([one], 1) for one in some])
    assert np.abs(bert.vectors(some, 1) - alone).max() <= 1e-5
    assert np.abs(bert.vectors(some[::-1], 1)[::-1] - alone).max() <= 1e-5


def test_who_speaks_and_the_order_matter(bert: ActBert) -> None:
    acts = ("greeting", "question", "inform")
    one, other, turned = bert.vectors(
        [Flow(acts, (0, 0, 1)), Flow(acts, (0, 1, 0)), Flow(acts[::-1], (0, 0, 1))], 1
    )
    assert np.abs(one - other).max() > 1e-2
    assert np.abs(one - turned).max() > 1e-2


def test_nothing_done_is_nothing(bert: ActBert) -> None:
    found = bert.vectors([Flow((), ()), some_flow(4)])
    assert not found[0].any()
    assert found[1].any()
    assert np.isfinite(found).all()
    assert bert.vectors([]).shape == (0, 256)
    assert bert.shares([], []).shape == (0, len(ACTS))


def test_guesses_beat_the_commonest_act(bert: ActBert, flows: list[Flow]) -> None:
    asked = [(flow, place) for flow in flows for place in range(len(flow.acts))]
    shares = bert.shares([flow for flow, _ in asked], [place for _, place in asked])
    assert np.abs(shares.sum(axis=1) - 1).max() <= 1e-5
    truth = [flow.acts[place] for flow, place in asked]
    right = sum(ACTS[int(row.argmax())] == act for row, act in zip(shares, truth, strict=True))
    assert right / len(truth) > Counter(truth).most_common(1)[0][1] / len(truth) + 0.03


def test_a_guess_does_not_see_what_is_hidden(bert: ActBert) -> None:
    flow = some_flow(12)
    others = [Flow((*flow.acts[:5], act, *flow.acts[6:]), flow.speakers) for act in ACTS]
    assert np.ptp(bert.shares(others, [5] * len(others)), axis=0).max() <= 1e-6


def test_guesses_far_into_a_long_flow(bert: ActBert) -> None:
    whole = some_flow(5 * bert._room)
    places = [0, 1, bert._room, 3 * bert._room + 3, len(whole.acts) - 1]
    shares = bert.shares([whole] * len(places), places)
    assert shares.shape == (5, len(ACTS))
    head = Flow(whole.acts[: bert._room], whole.speakers[: bert._room])
    assert np.abs(bert.shares([head], [1]) - shares[1]).max() <= 1e-5


def test_bad_calls(bert: ActBert, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no layer 5; it has 0 to 4"):
        bert.vectors([some_flow(3)], 5)
    with pytest.raises(UsageError, match="1 flows, but 0 places"):
        bert.shares([some_flow(3)], [])
    with pytest.raises(DataError, match=r"not 'act-bert.v1'|not act-bert.v1"):
        ActBert.load(ENCODER)
    with pytest.raises(DataError):
        ActBert.load(tmp_path)
