"""Planning: precision read from a pilot, false alarms of the gate, and what to label next."""

from collections import Counter

import numpy as np
import pytest

from dialeval.errors import DataError, UsageError
from dialeval.scores import Score, Scores
from dialeval.statistics.power import Precision
from dialeval.statistics.prediction_powered import prediction_powered
from dialeval.studies.planning import choose, false_alarms, plan, precisions_of


def log(n: int = 400, labelled: int = 400, seed: int = 0) -> Scores:
    rng, rows = np.random.default_rng(seed), []
    for i in range(n):
        quality = 3 + (i % 2) + rng.normal()
        rows.append(Score(f"d{i}", None, "ab"[i % 2], "judge", "quality", float(quality + rng.normal())))
        if i < labelled:
            rows.append(Score(f"d{i}", None, None, "human:x", "overall", float(quality)))
    return Scores.of(rows)


def test_a_pilot_tells_spread_and_agreement_inside_systems() -> None:
    found, n = precisions_of(log())
    assert n == 400 and list(found) == [None, "judge"]
    assert found[None].sd == pytest.approx(1, abs=0.1)
    assert found["judge"].correlation == pytest.approx(np.sqrt(0.5), abs=0.05)
    assert found[None].scored == 200 and found[None].design == pytest.approx(1, abs=0.3)


def test_items_in_common_are_seen() -> None:
    rng, rows = np.random.default_rng(2), []
    for i in range(100):
        shared = rng.normal()
        for system in "ab":
            quality = shared + rng.normal()
            rows.append(Score(f"q{i}", None, system, "judge", "quality", float(quality + rng.normal())))
            rows.append(Score(f"q{i}", None, system, "human:x", "overall", float(quality)))
    found, _ = precisions_of(Scores.of(rows))
    assert found[None].pairing == pytest.approx(0.5, abs=0.15)
    assert found[None].design == pytest.approx(1)


def test_realised_power_is_what_was_predicted() -> None:
    """400 draws, seed 1: normal labels, a judge with r = .7."""
    rng, n, scored, difference, found = np.random.default_rng(1), 60, 300, 0.4, 0
    for _ in range(400):
        sides = []
        for shift in (difference, 0.0):
            quality = rng.normal(shift, 1, scored)
            judge = quality + rng.normal(0, np.sqrt(1 / 0.49 - 1), scored)
            sides.append(prediction_powered(np.where(np.arange(scored) < n, quality, np.nan), judge))
        found += (sides[0].value - sides[1].value) / np.hypot(sides[0].error, sides[1].error) > 1.98
    predicted = Precision(1.0, 0.7, scored).power(difference, n)
    assert found / 400 == pytest.approx(predicted, abs=0.06)


def test_sentences_say_when_there_is_too_little() -> None:
    found = plan({None: Precision(1.0, scored=30)}, 0.2, pilot=20)
    assert found.needs[0].labels == 394 and not found.needs[0].enough
    assert "There are only 30 dialogues per system" in found.sentences[1]
    assert "rough estimate" in found.sentences[-1]


@pytest.mark.parametrize(
    ("scores", "said"), [(log(labelled=0), "no pilot labels"), (log(labelled=4), "4 pilot labels")]
)
def test_no_pilot(scores: Scores, said: str) -> None:
    with pytest.raises(DataError, match=said):
        precisions_of(scores)


def test_the_gate_on_nothing_new() -> None:
    found = false_alarms(log(n=120), splits=60)
    assert found.n == 60 and found.low <= 0.05 <= found.high
    with pytest.raises(UsageError, match="too few to split"):
        false_alarms(log(n=10))


def test_chosen_dialogues_are_spread_over_systems_and_scores() -> None:
    scores = log(labelled=100)
    chosen = choose(scores, 60, seed=3)
    assert Counter(key.system for key in chosen) == {"a": 30, "b": 30}
    assert len(set(chosen)) == 60 and all(int(key.dialogue_id[1:]) >= 100 for key in chosen)
    value = {row.dialogue_id: row.value for row in scores if row.source == "judge"}
    free = np.sort([value[f"d{i}"] for i in range(100, 400, 2)])
    ranks = np.searchsorted(free, [value[key.dialogue_id] for key in chosen if key.system == "a"])
    assert np.array_equal(np.sort(ranks) // 5, np.arange(30)), "one of every five in the order of scores"
    assert choose(scores, 10_000) != [] and len(choose(scores, 10_000)) == 300
    with pytest.raises(UsageError, match="no source 'other'"):
        choose(scores, 5, "other")


def test_every_dialogue_is_as_likely() -> None:
    scores, counts = log(n=40, labelled=0), Counter()
    for seed in range(400):
        counts.update(key.dialogue_id for key in choose(scores, 10, seed=seed))
    assert min(counts.values()) > 60 and max(counts.values()) < 145
