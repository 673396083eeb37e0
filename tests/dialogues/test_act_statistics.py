"""Counting acts: shares, dimensions, sizes, and corpora added together."""

import pytest

from dialeval.dialogues import Turn, dialogue
from dialeval.dialogues.act_statistics import ActStatistics, count_acts
from dialeval.dialogues.acts import ACTS
from dialeval.errors import DataError


def turn(speaker, *acts, **more):
    return Turn(speaker, "text", {"segments": [{"text": "text", "act": act} for act in acts], **more})


FIRST = dialogue([turn("user", "greeting", "question"), turn("assistant", "inform")], "d1")
SECOND = dialogue(
    [
        Turn("system", "Be kind."),
        turn("user", "inform", "backchannel_success", None),
        Turn("assistant", "Nobody has cut me."),
        Turn("tool", "", {"segments": [{"text": "x", "act": "inform"}]}),
        Turn("user", "", {"segments": []}),
    ],
    "d2",
)


def test_shares_are_of_the_labelled_segments():
    found = count_acts([FIRST, SECOND])
    rows = {row["act"]: (row["n"], row["share"]) for row in found.by_act()}
    assert list(rows) == list(ACTS)
    assert rows["inform"] == (2, 0.4)
    assert rows["backchannel-success"] == (1, 0.2)
    assert rows["goodbye"] == (0, 0.0)
    assert [(row["n"], row["share"]) for row in found.by_dimension()] == [(3, 0.6), (1, 0.2), (1, 0.2)]


def test_sizes_leave_out_who_takes_no_part():
    assert count_acts([FIRST, SECOND]).size() == {
        "dialogues": 2,
        "turns": 5,
        "segments": 6,
        "segments_per_turn": 2.0,  # of the three turns that have segments
        "unlabelled": 1,
        "uncut_turns": 2,
    }


def test_corpora_add_up():
    assert count_acts([FIRST]) + count_acts([SECOND]) == count_acts([FIRST, SECOND])
    assert sum([count_acts([FIRST])], ActStatistics()) == count_acts([FIRST])


def test_an_empty_corpus_has_no_shares():
    found = count_acts([])
    assert found.segments_per_turn is None
    assert {row["share"] for row in found.by_act() + found.by_dimension()} == {None}
    assert found.to_dict()["dialogues"] == 0


def test_an_act_that_is_none_is_named_with_its_place():
    with pytest.raises(DataError, match=r"dialogue 'd3', turn 1: act: no act 'statement'; known: inform"):
        count_acts([dialogue([turn("user", "inform"), turn("assistant", "statement")], "d3")])
