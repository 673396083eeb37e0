"""Counting acts: shares, dimensions, sizes, and corpora added together.

Majorities in rounds, agreement against another implementation, accuracy with Wilson's interval.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import fleiss_kappa as oracle_kappa
from statsmodels.stats.proportion import proportion_confint

from dialeval.dialogues import Turn, dialogue
from dialeval.dialogues.act_statistics import (
    ActStatistics,
    Voted,
    accuracies,
    accuracy,
    agreement,
    count_acts,
    decide,
    rounds_of,
    settle,
    voted,
)
from dialeval.dialogues.acts import ACTS
from dialeval.errors import DataError, UsageError


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
    with pytest.raises(
        DataError, match=r"dialogue 'd3', turn 1: act: unknown act 'statement'; known: inform"
    ):
        count_acts([dialogue([turn("user", "inform"), turn("assistant", "statement")], "d3")])


I, Q, D, A, G = "inform", "question", "directive", "apology", "greeting"  # noqa: E741


@pytest.mark.parametrize(
    ("rounds", "act"),
    [
        ([[I, I, I]], I),
        ([[I, Q, I]], I),
        ([[I, Q, D]], None),
        ([[I, Q, D], [A, G, Q]], Q),  # votes of both rounds count together
        ([[I, Q, D], [I, Q, G]], None),  # two each
        ([[I, Q, D], [I, Q, G], [Q]], Q),
        ([[I, Q, D], [A, G, "thanking"]], None),
        ([[I, I, Q], [Q, Q, Q]], I),  # decided before; nobody should have asked again
        ([[I, None, None]], None),
        ([[I, None, I]], I),
        ([[None, "", None]], None),
        ([[I, Q, None], [I]], I),
        ([[]], None),
        ([], None),
        ([["Backchannel_success", "backchannel-success", I]], "backchannel-success"),
    ],
)
def test_a_majority_or_another_round(rounds, act):
    assert decide(rounds) == act


votes = st.lists(st.sampled_from([*ACTS[:4], None]), max_size=9)


@given(votes)
def test_the_act_that_wins_has_two_votes_and_more_than_any_other(given_votes):
    act = decide([given_votes])
    counts = {one: given_votes.count(one) for one in ACTS}
    if act is None:
        best = max(counts.values())
        assert best < 2 or list(counts.values()).count(best) > 1
    else:
        assert counts[act] >= 2
        assert all(counts[act] > count for other, count in counts.items() if other != act)


@given(votes, st.randoms())
def test_within_a_round_the_order_of_votes_does_not_matter(given_votes, chance):
    shuffled = chance.sample(given_votes, len(given_votes))
    assert decide([given_votes]) == decide([shuffled])


def test_rounds_of_three():
    assert rounds_of([I, Q, D, I]) == [[I, Q, D], [I]]
    assert rounds_of([]) == []
    with pytest.raises(UsageError):
        rounds_of([I], 0)


def chat(*segments, name="d1"):
    return dialogue([Turn("user", "x", {"segments": list(segments)}), Turn("assistant", "y")], name)


def segment(act, *given_votes):
    return {"text": "x", "act": act, **({"votes": list(given_votes)} if given_votes else {})}


def test_votes_settle_what_is_open_and_nothing_else():
    before = chat(segment(None, I, I, Q), segment(None, I, Q, D), segment(G, I, I, I), segment(None))
    after = settle(before)
    assert [one["act"] for one in after.turns[0].meta["segments"]] == [I, None, G, None]
    assert after.turns[0].meta["segments"][0]["votes"] == [I, I, Q]
    assert after.turns[1] == before.turns[1]
    assert before.turns[0].meta["segments"][0]["act"] is None  # the input is as it was


def test_segments_that_somebody_voted_on():
    found = list(voted([chat(segment(G, I, I, "Question"), segment(I), segment(None, I, Q, None))]))
    assert found == [Voted("d1_0_0", (I, I, Q), G, I), Voted("d1_0_2", (I, Q, None), None, None)]


def test_a_vote_for_no_act_is_named_with_its_place():
    with pytest.raises(DataError, match=r"d1_0_1: act: unknown act 'statement'"):
        list(voted([chat(segment(I), segment(None, "statement", I, I))]))


def of(*lists):
    return [Voted(f"d{place // 2}_0_{place}", tuple(one)) for place, one in enumerate(lists)]


def test_kappa_is_that_of_statsmodels():
    random = np.random.default_rng(4)
    truth = random.choice(11, 60, p=[0.5, 0.2, *[0.3 / 9] * 9])
    noisy = np.where(random.random((60, 3)) < 0.8, truth[:, None], random.choice(11, (60, 3)))
    table = (noisy[:, :, None] == np.arange(11)).sum(axis=1)
    found = agreement(of(*([ACTS[vote] for vote in row] for row in noisy)))
    assert found.kappa.value == pytest.approx(oracle_kappa(table))
    assert found.kappa.low < found.kappa.value < found.kappa.high
    assert found.dominant == ACTS[int(table.sum(axis=0).argmax())]
    assert found.kappa_without_dominant.n < found.kappa.n


def test_without_the_dominant_act_its_votes_are_gone():
    found = agreement(of([I, I, I], [I, I, I], [I, Q, Q], [G, G, I], [Q, G, I], [G, G, G]))
    assert found.dominant == I
    rest = [[0, 2], [2, 0], [1, 1], [3, 0]]  # greeting, question: units of two or three votes that are left
    observed = np.mean([sum(c * (c - 1) for c in row) / (sum(row) * (sum(row) - 1)) for row in rest])
    shares = np.array(rest).sum(axis=0) / np.sum(rest)
    expected = float((shares**2).sum())
    assert found.kappa_without_dominant.value == pytest.approx((observed - expected) / (1 - expected))
    assert found.kappa_without_dominant.n == 4


def test_agreement_looks_at_the_first_round_and_at_skips():
    plain = agreement(of([I, I, Q], [Q, Q, None], [G, G, G]))
    more = agreement(of([I, I, Q, G, G], [Q, Q, None, I], [G, G, G]))
    assert plain == more
    assert plain.segments == plain.kappa.n == 3


@pytest.mark.parametrize(
    ("lists", "reason"),
    [
        ([], "no ratings"),
        ([[None, None]], "no ratings"),
        ([[I], [Q]], "one rater"),
        ([[I, I], [I, I]], "constant"),
    ],
)
def test_agreement_that_cannot_be_told_says_why(lists, reason):
    found = agreement(of(*lists))
    assert (found.kappa.value, found.kappa.reason) == (None, reason)
    assert found.kappa_without_dominant.value is None


@pytest.mark.parametrize(("right", "n"), [(0, 1), (1, 1), (0, 20), (20, 20), (7, 20), (7200, 8000)])
def test_accuracy_has_the_interval_of_wilson(right, n):
    labels = {str(place): I if place < right else Q for place in range(n)}
    found = accuracy(labels, {str(place): I for place in range(n)})
    low, high = proportion_confint(right, n, method="wilson")
    assert (found.value, found.n) == (right / n, n)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_accuracy_passes_over_what_has_no_label():
    found = accuracy({"a": I, "b": None, "x": Q}, {"a": "Inform", "b": Q, "c": Q})
    assert (found.value, found.n) == (1.0, 1)
    assert accuracy({}, {"a": I}).reason == "no overlap"


def test_majority_and_each_rater_against_the_expert():
    segments = [
        Voted("a", (I, Q, I), None, I),
        Voted("b", (Q, Q, D, A), None, Q),
        Voted("c", (I, None, D), None, None),
    ]
    found = accuracies(segments, {"a": I, "b": D, "c": D})
    assert {who: (one.value, one.n) for who, one in found.items()} == {
        "majority": (0.5, 2),
        "rater 1": (pytest.approx(1 / 3), 3),
        "rater 2": (0.0, 2),
        "rater 3": (1.0, 3),
    }
    assert accuracies([], {"a": I})["majority"].reason == "no overlap"
