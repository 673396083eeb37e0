"""AUC intervals and lines between classes: scikit-learn's figures, honest accuracy, and reasons for none."""

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, roc_auc_score, roc_curve

from dialeval.errors import UsageError
from dialeval.statistics import (
    auc,
    best_threshold,
    bootstrap_aucs,
    bootstrap_statistic,
    held_out_threshold,
    kfold_groups,
    middle_cut,
    upper_half,
)

QUICK = {"resamples": 300}


def made(seed, n=120, gap=0.8, decimals=8):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, size=n)
    return np.round(labels * gap + rng.normal(size=n), decimals), labels, np.arange(n) // 4


@pytest.mark.parametrize("decimals", [8, 0])
def test_aucs_are_scikit_learns_and_their_intervals_those_of_the_slow_way(decimals):
    first, labels, dialogues = made(0, decimals=decimals)
    second = made(1, decimals=decimals)[0]
    found = bootstrap_aucs([first, second], labels, dialogues, **QUICK)
    for scores, one in zip((first, second), found, strict=True):
        assert one.value == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
        slow = bootstrap_statistic(
            np.column_stack([scores, labels]), lambda r: auc(r[:, 0], r[:, 1]).value, dialogues, **QUICK
        )
        assert (one.low, one.high) == pytest.approx((slow.low, slow.high), abs=1e-12)
    assert found[0].p < 0.001 < found[1].p


def test_aucs_leave_out_what_is_missing():
    scores, labels, dialogues = made(2)
    scores[::3] = np.nan
    gold = labels.astype(float)
    gold[::5] = np.nan
    (one,) = bootstrap_aucs([scores], gold, dialogues, **QUICK)
    both = ~(np.isnan(scores) | np.isnan(gold))
    assert (one.n, one.value) == (both.sum(), pytest.approx(roc_auc_score(gold[both], scores[both])))
    assert one.low < one.value < one.high


def test_workers_change_nothing():
    scores, labels, dialogues = made(3)
    alone, many = ([bootstrap_aucs([scores], labels, dialogues, workers=w, **QUICK)] for w in (1, 4))
    assert alone == many
    lines = [held_out_threshold(scores, labels, dialogues, workers=w, **QUICK) for w in (1, 4)]
    assert lines[0] == lines[1]


def test_aucs_say_why_there_is_none():
    nothing, one_class = np.full(8, np.nan), np.ones(8)
    labels = [0, 1] * 4
    empty, whole = bootstrap_aucs([nothing, np.arange(8.0)], labels, **QUICK)
    assert (empty.value, empty.reason, whole.n) == (None, "one class", 8)
    assert bootstrap_aucs([np.arange(8.0)], one_class, **QUICK)[0].reason == "one class"
    few = bootstrap_aucs([np.arange(8.0)], labels, [0, 0, 0, 0, 1, 1, 2, 2], **QUICK)[0]
    assert (few.low, few.p, few.reason) == (None, None, "no interval from fewer than 5")
    with pytest.raises(UsageError, match="length 3 beside 2 labels"):
        bootstrap_aucs([[1, 2, 3]], [0, 1])


@pytest.mark.parametrize("seed", range(6))
def test_the_best_line_has_the_best_balanced_accuracy(seed):
    scores, labels, _ = made(seed, n=60, decimals=1 if seed % 2 else 8)
    line, accuracy = best_threshold(scores, labels)
    false, true, _ = roc_curve(labels, scores, drop_intermediate=False)
    assert accuracy == pytest.approx((1 + np.max(true - false)) / 2, abs=1e-12)
    assert accuracy == pytest.approx(balanced_accuracy_score(labels, scores >= line), abs=1e-12)


def test_of_equally_good_lines_the_middle_one():
    assert best_threshold([1, 2, 3, 4, 5, 6], [0, 1, 0, 1, 0, 1]) == (3.5, pytest.approx(2 / 3))
    assert best_threshold([1, 1, 1], [0, 1, 0]) is None
    assert best_threshold([1, 2, 3], [1, 1, 1]) is None


def test_the_accuracy_is_of_lines_drawn_on_other_dialogues():
    scores, labels, dialogues = made(7)
    found = held_out_threshold(scores, labels, dialogues, folds=5, seed=3, **QUICK)
    parts = kfold_groups(dialogues, 5, 3)
    answers, lines = np.zeros(labels.size), []
    for part in range(5):
        line, _ = best_threshold(scores[parts != part], labels[parts != part])
        answers[parts == part] = scores[parts == part] >= line
        lines.append(line)
    assert found.accuracy.value == pytest.approx(balanced_accuracy_score(labels, answers), abs=1e-12)
    assert (found.lowest, found.highest, found.folds) == (min(lines), max(lines), 5)
    slow = bootstrap_statistic(
        np.column_stack([answers, labels]),
        lambda r: balanced_accuracy_score(r[:, 1], r[:, 0]),
        dialogues,
        seed=3,
        **QUICK,
    )
    assert (found.accuracy.low, found.accuracy.high) == pytest.approx((slow.low, slow.high), abs=1e-12)


def test_noise_is_worth_a_coin_on_other_dialogues_and_more_on_its_own():
    held_out, fitted = [], []
    for seed in range(40):
        scores, labels, dialogues = made(seed, n=40, gap=0.0)
        found = held_out_threshold(scores, labels, dialogues, resamples=1)
        held_out.append(found.accuracy.value)
        fitted.append(found.fitted)
    assert np.mean(held_out) == pytest.approx(0.5, abs=0.04)
    assert np.mean(fitted) > 0.57


def test_a_dialogue_is_never_on_both_sides():
    # Each dialogue has its own line, at which it is perfect; other dialogues know nothing of it.
    rng = np.random.default_rng(0)
    dialogues = np.repeat(np.arange(20), 10)
    start = rng.permutation(20)[dialogues] * 100.0
    labels = np.tile([0] * 5 + [1] * 5, 20)
    found = held_out_threshold(start + labels, labels, dialogues, **QUICK)
    assert found.accuracy.value <= 0.5


@pytest.mark.parametrize(
    ("scores", "labels", "dialogues", "reason"),
    [
        ([], [], None, "no values"),
        ([1, 1, 1, 1], [0, 1, 0, 1], None, "constant"),
        ([1, 2, 3, 4], [1, 1, 1, 1], None, "one class"),
        ([1, 2, 3, 4], [0, 0, 1, 1], [7, 7, 7, 7], "one dialogue: none held out"),
        ([1, 2], [0, 1], None, "one class in the held-out dialogues"),
    ],
)
def test_a_line_that_cannot_be_judged_says_why(scores, labels, dialogues, reason):
    found = held_out_threshold(scores, labels, dialogues, **QUICK)
    assert (found.accuracy.value, found.accuracy.reason) == (None, reason)


def test_cuts_and_halves():
    assert middle_cut([1, 5, 4, 2]) == 4
    assert middle_cut([0, 0.5, 1, None]) == 0.5
    assert middle_cut([]) is None
    assert upper_half([3, 1, 2]).tolist() == [1, 0, 1]
    assert upper_half([5, 5, 5, 1]).tolist() == [1, 1, 1, 0]
    assert upper_half([2, 2]).tolist() == [0, 0]
    assert np.isnan(upper_half([None, None])).all()


def test_draws_without_one_of_the_classes_make_no_noise():
    """Two of ten dialogues hold all of a class: some draws lack it, and nobody is warned."""
    labels = np.array([1.0] * 4 + [0.0] * 16)
    found = held_out_threshold(
        np.arange(20.0)[::-1], labels, np.repeat(np.arange(10), 2), workers=4, resamples=2000
    )
    assert found.accuracy.value is not None
