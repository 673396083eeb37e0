"""Trust: what it says of judges that are good, useless, biased or absent, and what it refuses to say."""

from collections.abc import Iterator

import numpy as np
import pytest

from dialeval.errors import DataError, DialevalError, UsageError
from dialeval.scores import Score, Scores
from dialeval.studies.biases import changes, drift, repeated
from dialeval.studies.trust import predict_ratings, trust
from dialeval.studies.trust_findings import Trust
from dialeval.studies.units import Key


def rows(
    seed: int = 0,
    n: int = 600,
    labelled: int = 90,
    judge: str = "good",
    raters: int = 3,
    yes_no: bool = False,
) -> Iterator[Score]:
    """Yield the judge's score of every dialogue, and people's ratings of some."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        system = "ab"[i % 2]
        quality = 3 + 0.5 * (i % 2) + rng.normal(0, 0.8)
        noise = rng.normal(0, 0.5)
        said = {
            "good": quality + 0.6 + noise,
            "useless": 3 + noise,
            "biased": quality + noise + 1.5 * (i % 2 == 0),
            "missing": None,
            "constant": 3.0,
        }[judge]
        if said is not None:
            said = float(said > 3) if yes_no else float(np.clip(round(said, 1), 1, 5))
        yield Score(f"d{i}", None, system, "judge", "quality", said, None if said is not None else "NaN")
        for rater in "xyz"[:raters] if i < labelled else "":
            value = np.clip(round(quality + rng.normal(0, 0.6)), 1, 5)
            yield Score(
                f"d{i}", None, None, f"human:{rater}", "overall", float(value > 3 if yes_no else value)
            )


def test_a_good_judge_is_worth_labels_and_its_own_mean_misleads() -> None:
    found = trust(Scores.of(rows()))
    (one,) = found.sources
    every = one.estimates[0]
    assert "helps" in one.verdict and "misleads" in one.verdict
    assert every.worth > 30 and every.n_labels == 90 and every.n_units == 600
    assert every.powered.low < 3.25 < every.powered.high < every.naive.low
    assert any("off by +0" in reason for reason in one.reasons)
    assert not any("than people give" in reason for reason in one.reasons), "noise is no bias"
    assert [mean.system for mean in one.estimates] == [None, "a", "b"]
    (gap,) = one.differences
    assert gap.powered.low < -0.5 < gap.powered.high and not gap.paired
    assert one.replacement.alignment == "distance" and one.half_width > 0.5
    assert len(one.disagreements) == 10 and one.calibration


def test_a_useless_judge_is_said_to_be_so() -> None:
    (one,) = trust(Scores.of(rows(judge="useless"))).sources
    assert "adds nothing" in one.verdict
    assert abs(one.estimates[0].worth) < 9
    assert not one.replacement.passed


def test_a_judge_that_favours_a_system_is_found_out() -> None:
    (one,) = trust(Scores.of(rows(judge="biased"))).sources
    by_name = {bias.name: bias for bias in one.biases}
    assert by_name["system a"].estimate.low > 0 and by_name["system a"].p_holm < 0.001
    assert any("system a gets more than from people" in reason for reason in one.reasons)
    (gap,) = one.differences
    assert gap.powered.value < 0  # though the judge says the opposite
    assert one.estimates[1].naive.value > one.estimates[2].naive.value


def test_traits_and_kinds() -> None:
    table = Scores.of(rows())
    shape = {Key(f"d{i}", "ab"[i % 2]): float(i % 7) for i in range(600)}
    kinds = {Key(f"d{i}", "ab"[i % 2]): "booking" if i % 3 else "chat" for i in range(600)}
    (one,) = trust(table, traits={"words": shape, "kind": kinds}).sources
    assert {bias.name for bias in one.biases} == {
        "words",
        "system a",
        "system b",
        "kind booking",
        "kind chat",
    }
    assert all(-1 <= bias.estimate.low <= bias.estimate.high for bias in one.biases)


def test_yes_and_no_are_corrected_and_compared_label_by_label() -> None:
    (one,) = trust(Scores.of(rows(yes_no=True, labelled=200))).sources
    every = one.estimates[0]
    assert every.corrected.low < every.powered.value < every.corrected.high
    assert one.replacement.alignment == "accuracy"
    assert one.agreement.n == 600 and one.agreement.ac1.low < one.agreement.ac1.value
    assert sum(one.agreement.people.values()) == pytest.approx(1)


def test_scores_beyond_the_labelled_ones_are_left_out() -> None:
    table = Scores.of(rows())
    far = Scores.of(Score(f"far{i}", None, "ab"[i % 2], "judge", "quality", 99.0) for i in range(300))
    (one,) = trust(Scores.concat([table, far])).sources
    assert one.excluded and one.outside >= 300
    assert one.estimates[0].n_units <= 600
    assert any("outside the range of labelled scores: left out" in reason for reason in one.reasons)


def test_labels_that_are_no_sample_are_named() -> None:
    picked = [row for row in rows(labelled=600) if row.source == "judge" or int(row.dialogue_id[1:]) % 3 == 0]
    judged = {row.dialogue_id: row.value for row in picked if row.source == "judge"}
    kept = [row for row in picked if row.source == "judge" or judged[row.dialogue_id] > 3.9]
    (one,) = trust(Scores.of(kept)).sources
    assert any("no estimate here is valid" in reason for reason in one.reasons)


def test_predictions_are_scores() -> None:
    table = predict_ratings(Scores.of(rows()))
    assert {row.dimension for row in table} == {"rating", "low", "high"}
    assert len(table) == 3 * 510
    by_unit = {(row.dialogue_id, row.dimension): row.value for row in table if row.value is not None}
    assert by_unit["d599", "low"] < by_unit["d599", "rating"] < by_unit["d599", "high"]
    assert str(table.signatures["judge:calibrated"]).startswith("calibrated.v1|gold:human")


def test_an_outcome_can_be_the_truth(tmp_path) -> None:
    table = [row for row in rows() if row.source == "judge"]
    table += [
        Score(row.dialogue_id, None, row.system, "reward", "success", float(row.value > 3))
        for row in table[:80]
    ]
    found = trust(Scores.of(table), gold="reward")
    assert (found.dimension, found.raters, found.sources[0].replacement) == ("success", 1, None)
    (tmp_path / "trust.json").write_bytes(found.to_json())
    assert Trust.load(tmp_path / "trust.json") == found
    (tmp_path / "other.json").write_text("{}x")
    with pytest.raises(DataError, match="not a result of dialeval trust"):
        Trust.load(tmp_path / "other.json")


# --- bad input: a sentence, no number -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (rows(labelled=1), "only 1 label of 'overall': nothing can be estimated"),
        (rows(labelled=0), "no rating of 'human'"),
        ((row for row in rows() if row.source != "judge"), "no scores beside the ratings"),
        (
            (r._replace(value=4.0) if r.source != "judge" else r for r in rows()),
            "all 90 labels of 'overall' are 4",
        ),
        (
            (r._replace(dialogue_id="x" + r.dialogue_id) if r.source != "judge" else r for r in rows()),
            "none of the 90 labelled units is among the 600 scored",
        ),
        (rows(judge="missing"), "none of the 90 labelled units is among the 0 scored"),
    ],
    ids=["one", "none", "no judge", "constant", "other dialogues", "NaN"],
)
def test_labels_that_say_nothing(made: Iterator[Score], said: str) -> None:
    with pytest.raises(DialevalError, match=said):
        trust(Scores.of(made))


def test_labels_of_one_system_only() -> None:
    kept = (row for row in rows(labelled=200) if row.source == "judge" or int(row.dialogue_id[1:]) % 2 == 0)
    found = trust(Scores.of(kept))
    (one,) = found.sources
    every, a, b = one.estimates
    assert every.powered.value is None and "100 of 100 labels are of a" in every.powered.reason
    assert a.powered.defined and b.powered.value is None and b.powered.reason == "no label"
    assert one.differences == () and "no estimate over all systems" in one.verdict
    assert found.notes == ("no labels of b: no estimate",)


def test_some_missing_scores_and_foreign_labels_are_counted() -> None:
    table = [
        r._replace(value=None, note="NaN") if r.source == "judge" and r.dialogue_id.endswith("7") else r
        for r in rows()
    ]
    table += [Score(f"elsewhere{i}", None, None, "human:x", "overall", 3.0) for i in range(4)]
    found = trust(Scores.of(table))
    assert found.sources[0].n_unscored == 64
    assert any("64 units are unscored" in reason for reason in found.sources[0].reasons)
    assert found.notes == ("13 labels (for example of 'd17') are left out: no source scored those units",)


@pytest.mark.parametrize(
    ("judge", "said"), [("constant", "gives every labelled unit 3"), ("few", "shares only 4")]
)
def test_a_judge_that_cannot_be_used(judge: str, said: str) -> None:
    made = rows(judge="constant" if judge == "constant" else "good")
    table = [r for r in made if judge == "constant" or r.source != "judge" or int(r.dialogue_id[1:]) < 4]
    (one,) = trust(Scores.of(table)).sources
    assert said in one.verdict and not one.usable and one.estimates == ()


def test_unknown_names() -> None:
    with pytest.raises(UsageError, match="no source 'other'"):
        trust(Scores.of(rows()), sources=["other"])
    with pytest.raises(UsageError, match="no rating called 'charm'"):
        trust(Scores.of(rows()), dimension="charm")


# --- stability ----------------------------------------------------------------------------------------------


def judged(*values: float | None, source: str = "judge") -> Scores:
    made = (Score(f"d{i}", None, None, source, "quality", value) for i, value in enumerate(values))
    return Scores.of(made)


def test_changes_by_hand() -> None:
    (one,) = changes(judged(1, 2, 3, 4, None), judged(1, 2, 3, 2, 5), "again")
    assert (one.n, one.shift.value, one.equal, one.largest) == (4, -0.5, 0.75, 2)
    assert one.flips.value == 0.25 and one.spread == pytest.approx(np.sqrt(4 / 4 / 2))


def test_yes_and_no_flip_when_they_change() -> None:
    (one,) = changes(judged(1, 1, 1, 0), judged(1, 1, 0, 1), "again")
    assert one.flips.value == 0.5


def test_drift_needs_the_same_source_made_the_same_way() -> None:
    assert drift(judged(1, 2, 4), judged(1, 2, 3))[0].shift.value == pytest.approx(1 / 3)
    with pytest.raises(UsageError, match="no source in common"):
        drift(judged(1, 2), judged(1, 2, source="other"))


def test_runs_of_one_judge() -> None:
    runs = Scores.concat(
        [judged(1, 2, 3), judged(1, 2, 4, source="judge-2"), judged(1, 3, 3, source="judge-3")]
    )
    found = repeated(runs, ["judge", "judge-2", "judge-3"])
    assert [(one.change, one.largest) for one in found] == [
        ("run again: judge-2", 1),
        ("run again: judge-3", 1),
    ]
    with pytest.raises(UsageError, match="no source 'judge-9'"):
        repeated(runs, ["judge", "judge-9"])
