"""One layout of tokens for training and scoring: what is kept, what is cut, what the families do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialeval.errors import DataError, UsageError
from dialeval.models.pairs import PairLayout, pair_input

BERT = PairLayout(cls=1, sep=2, pair_separator=(2,), segments=True)
ROBERTA = PairLayout(cls=1, sep=2, pair_separator=(2, 2), segments=False)
TURN = st.lists(st.integers(10, 99), max_size=8)


def joined(history: list[list[int]]) -> list[int]:
    """The whole history as it would stand without a limit."""
    ids: list[int] = []
    for turn in history:
        if turn:
            ids += [2, *turn] if ids else turn
    return ids


@given(st.lists(TURN, max_size=6), TURN, st.integers(5, 60), st.sampled_from([BERT, ROBERTA]))
def test_what_is_kept(history: list[list[int]], response: list[int], limit: int, layout: PairLayout) -> None:
    made = pair_input(history, response, limit, layout)
    room = limit - layout.special
    kept, whole = response[:room], joined(history)
    newest = whole[len(whole) - min(len(whole), room - len(kept)) :]
    newest = newest[1:] if newest[:1] == [2] else newest  # a history does not begin with a separator
    assert made.ids == [1, *newest, *layout.pair_separator, *kept, 2]
    assert len(made.ids) <= limit
    assert made.history_cut == (newest != whole)
    assert made.response_cut == (kept != response)
    second = len(kept) + 1 if layout.segments else 0
    assert made.segments == [0] * (len(made.ids) - second) + [1] * second


def test_a_response_is_never_cut_for_a_history() -> None:
    made = pair_input([[11] * 500], [21] * 7, 10, BERT)
    assert made.ids == [1, 2, *[21] * 7, 2]
    assert (made.history_cut, made.response_cut) == (True, False)


def test_a_limit_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(UsageError, match="3 of them are special"):
        pair_input([], [21], 3, BERT)


@pytest.mark.parametrize(
    "fields",
    [
        None,
        {},
        BERT.fields() | {"more": 1},
        BERT.fields() | {"cls": True},
        BERT.fields() | {"sep": -1},
        BERT.fields() | {"sep": 200},
        BERT.fields() | {"pair_separator": 2},
        BERT.fields() | {"pair_separator": ["2"]},
        BERT.fields() | {"segments": 1},
    ],
)
def test_a_layout_is_read_as_written_or_refused(fields: object) -> None:
    assert PairLayout.read({"layout": BERT.fields()}, 200, "config.json") == BERT
    with pytest.raises(DataError, match=r"config\.json: layout"):
        PairLayout.read({"layout": fields}, 200, "config.json")


def test_a_tokenizer_without_pairs_is_refused() -> None:
    with pytest.raises(DataError, match="takes no pairs"):
        PairLayout.of([], [], segments=1)


@pytest.mark.parametrize("family", ["encoder", "roberta", "distilbert"])
def test_one_turn_is_laid_out_as_the_family_does(family: str, home) -> None:
    """The oracle is the template of the tokenizer itself."""
    from transformers import AutoTokenizer

    from dialeval.training import Head, PairNetwork, TrainingSettings

    network = PairNetwork(home / family, [Head("quality", "regression")], TrainingSettings())
    theirs = AutoTokenizer.from_pretrained(home / family).backend_tokenizer
    for history, response in [("how do i get to rome", "banana"), ("", "the train"), ("thank you", "")]:
        said, answered = network.tokenizer.bare([history, response])
        ours = pair_input([said], answered, 48, network.layout)
        found = theirs.encode(history, response)
        assert ours.ids == found.ids
        if family == "encoder":
            assert ours.segments == found.type_ids
