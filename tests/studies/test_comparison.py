"""Is the new run worse? Paired where it can be, one-sided, corrected, and never by accident."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dialeval.errors import UsageError
from dialeval.scores import Score, Scores, Signature
from dialeval.studies import check, compare

QUICK: dict[str, Any] = {"resamples": 999}


def run(
    values: Any,
    source: str = "m",
    *,
    first: int = 0,
    system: str = "bot",
    signature: str = "m.v1",
    turn: int | None = None,
) -> Scores:
    rows = [Score(f"d{first + i}", turn, system, source, "x", v) for i, v in enumerate(values)]
    return Scores.of(rows, {source: Signature.parse(signature)})


BASE = np.random.default_rng(0).normal(size=60)
NOISE = np.random.default_rng(1).normal(size=60)


def test_a_drop_is_found_where_items_are_paired() -> None:
    verdict = check(run(BASE - 0.3 + 0.1 * NOISE), run(BASE), **QUICK)
    assert not verdict.passed
    assert verdict.worse == ("m/x",)
    (one,) = verdict.comparisons
    assert one.paired
    assert one.first.n == one.second.n == one.difference.n == 60
    assert one.difference.value == pytest.approx(np.mean(-0.3 + 0.1 * NOISE))
    assert one.difference.low < one.difference.value < one.difference.high  # type: ignore[operator]
    assert one.p == 1 / 1000


@pytest.mark.parametrize("change", [0.0, 0.3, 5.0])
def test_no_drop_and_an_improvement_pass(change: float) -> None:
    assert check(run(BASE + change), run(BASE), **QUICK).passed


def test_the_same_numbers_in_other_dialogues_are_not_paired() -> None:
    assert check(run(BASE - 0.1 + 0.1 * NOISE), run(BASE), **QUICK).worse
    verdict = check(run(BASE - 0.1 + 0.1 * NOISE, first=1000), run(BASE), **QUICK)
    assert verdict.passed  # what a paired test sees is lost among the differences between dialogues
    assert not verdict.comparisons[0].paired
    assert verdict.comparisons[0].difference.low is None
    far = check(run(BASE - 3, first=1000), run(BASE), **QUICK)
    assert far.worse == ("m/x",)


def test_half_of_the_smaller_side_has_to_be_shared() -> None:
    for shared, paired in ((30, True), (29, False)):
        verdict = check(run(BASE, first=60 - shared), run(BASE), **QUICK)
        assert verdict.comparisons[0].paired is paired
        assert verdict.comparisons[0].first.n == (30 if paired else 60)


def test_unscored_items_are_no_pairs() -> None:
    values: list[float | None] = list(BASE - 1)
    values[:20] = [None] * 20
    (one,) = check(run(values), run(BASE), **QUICK).comparisons
    assert one.first.n == one.second.n == 40
    assert one.second.value == pytest.approx(BASE[20:].mean())


def test_the_systems_name_is_no_part_of_an_item() -> None:
    assert check(run(BASE, system="bot-2"), run(BASE, system="bot-1"), **QUICK).comparisons[0].paired


def test_several_systems_in_one_context_are_all_compared() -> None:
    old = Scores.concat([run(BASE, system="A"), run(BASE, system="B")])
    new = Scores.concat([run(BASE - 1 + 0.1 * NOISE, system="A"), run(BASE, system="B")])
    (one,) = check(new, old, **QUICK).comparisons
    assert one.paired
    assert one.first.n == 120
    assert one.difference.value == pytest.approx(np.mean(-1 + 0.1 * NOISE) / 2)


def test_turns_of_a_dialogue_stay_together() -> None:
    """Sixty turns in three dialogues are three pieces of evidence: no p-value below one in eight."""

    def turns(values: Any) -> Scores:
        rows = [Score(f"d{i % 3}", i, "bot", "m", "x", v) for i, v in enumerate(values)]
        return Scores.of(rows, {"m": Signature("m.v1")})

    verdict = check(turns(BASE - 3), turns(BASE), level="turn", **QUICK)
    assert verdict.comparisons[0].p == pytest.approx(1 / 8)
    assert verdict.passed
    assert verdict.level == "turn"


@pytest.mark.parametrize(("better", "worse"), [("lower", 0.5), ("higher", -0.5)])
def test_directions(better: str, worse: float) -> None:
    signature = f"m.v1|better:{better}"
    new, old = run(BASE + worse + 0.1 * NOISE, signature=signature), run(BASE, signature=signature)
    assert check(new, old, **QUICK).worse == ("m/x",)
    assert check(old, new, **QUICK).passed


def test_a_source_without_a_direction_is_no_gate() -> None:
    neither = [run(BASE + k, "length", signature="length.v1|better:neither") for k in (5, 0)]
    with pytest.raises(UsageError, match="neither more nor less is better for length"):
        check(*neither, **QUICK)
    both = check(Scores.concat([neither[0], run(BASE)]), Scores.concat([neither[1], run(BASE)]), **QUICK)
    assert [one.label for one in both.comparisons] == ["m/x"]


def opposite(user: Any, itself: Any, length: Any) -> Scores:
    """One source with three dimensions: more is better, less is better, neither."""
    signature = Signature.parse("m.v1|better:length=neither,self=lower")
    rows = [
        Score(f"d{i}", None, "bot", "m", dimension, float(value))
        for dimension, values in (("user", user), ("self", itself), ("length", length))
        for i, value in enumerate(values)
    ]
    return Scores.of(rows, {"m": signature})


@pytest.mark.parametrize(
    ("change", "worse"), [(0.5, ("m/self",)), (-0.5, ("m/user",))], ids=["all rise", "all fall"]
)
def test_each_dimension_has_its_own_direction(change: float, worse: tuple[str, ...]) -> None:
    moved = BASE + change + 0.1 * NOISE
    verdict = check(opposite(moved, moved, moved), opposite(BASE, BASE, BASE), **QUICK)
    assert [one.label for one in verdict.comparisons] == ["m/user", "m/self"]
    assert verdict.worse == worse
    down, up = BASE - 0.5 + 0.1 * NOISE, BASE + 0.5 + 0.1 * NOISE
    assert check(opposite(up, down, down), opposite(BASE, BASE, BASE), **QUICK).passed
    both = check(opposite(down, up, BASE), opposite(BASE, BASE, BASE), **QUICK)
    assert both.worse == ("m/user", "m/self")
    with pytest.raises(UsageError, match=r"neither more nor less is better for m/length$"):
        check(opposite(down, up, up), opposite(BASE, BASE, BASE), dimension="length", **QUICK)


def test_different_signatures_are_not_compared() -> None:
    with pytest.raises(UsageError, match=r"m was made differently on the two sides: m.v1\|k:1 and m.v1\|k:2"):
        check(run(BASE, signature="m.v1|k:1"), run(BASE, signature="m.v1|k:2"), **QUICK)


def test_columns_of_files_and_people_have_no_settings_to_differ() -> None:
    ours, file, other = "m.v1|k:1", "column.v1|file:a", "column.v1|file:b"
    for one, two in ((file, other), (ours, file), (file, ours)):
        assert check(run(BASE, signature=one), run(BASE, signature=two), **QUICK).passed
    people = [run(BASE + k, f"human:{name}", signature=f"s.v1|k:{k}") for k, name in ((0, "a"), (1, "b"))]
    verdict = check(*people, **QUICK)
    assert verdict.worse == ("human/x",)


def test_several_columns_are_corrected() -> None:
    rng = np.random.default_rng(3)
    small = -0.12 + 0.5 * rng.normal(size=60)
    p = stats.ttest_rel(BASE + small, BASE, alternative="less").pvalue
    assert 0.01 < p < 0.05
    new, old = [run(BASE + small)], [run(BASE)]
    assert check(new[0], old[0], resamples=9999).worse == ("m/x",)
    for name in "abcdef":
        new.append(run(BASE, name, signature=f"{name}.v1"))
        old.append(run(BASE + 0.5 * rng.normal(size=60) - 0.1, name, signature=f"{name}.v1"))
    verdict = check(Scores.concat(new), Scores.concat(old), resamples=9999)
    assert verdict.passed
    assert verdict.comparisons[0].p < 0.05 < verdict.adjusted[0]  # type: ignore[operator]
    assert check(Scores.concat(new), Scores.concat(old), source="m", resamples=9999).worse == ("m/x",)


def test_nothing_to_compare() -> None:
    with pytest.raises(UsageError, match=r"nothing to compare at dialogue level.*: m/x, n/x"):
        check(run(BASE), run(BASE, "n"), **QUICK)
    with pytest.raises(UsageError, match="there are: nothing"):
        check(run(BASE), run(BASE), source="other", **QUICK)
    with pytest.raises(UsageError, match="nothing to compare at turn level"):
        check(run(BASE), run(BASE), level="turn", **QUICK)
    with pytest.raises(UsageError, match="there are: nothing"):
        check(Scores.of([]), Scores.of([]), **QUICK)


def test_a_run_without_a_single_score_does_not_pass_by_silence() -> None:
    with pytest.raises(UsageError, match="m/x has no value on one side"):
        check(run([None] * 60), run(BASE), **QUICK)


@pytest.mark.parametrize(("a", "b"), [([1.0], [2.0]), ([1.0, 1.0], [1.0, 1.0]), ([1.0], [2.0, 3.0, 4.0])])
def test_hardly_anything_to_compare(a: list[float], b: list[float]) -> None:
    verdict = check(run(a), run(b), **QUICK)
    assert verdict.passed
    assert verdict.comparisons[0].p is not None


def test_compare_is_two_sided_by_default_and_repeatable() -> None:
    a = {(f"d{i}", None): float(v) for i, v in enumerate(BASE)}
    b = {(f"d{i}", None): float(v) for i, v in enumerate(BASE + 0.4 + 0.1 * NOISE)}
    one = compare("m", a, b, resamples=999)
    assert one == compare("m", a, b, resamples=999)
    assert one.p == compare("m", b, a, resamples=999).p == 1 / 1000
    apart = compare("m", a, {(f"e{i}", None): v for i, v in enumerate(b.values())}, resamples=9999)
    assert not apart.paired
    oracle = stats.ttest_ind(BASE, np.array(list(b.values()))).pvalue
    assert apart.p == pytest.approx(oracle, abs=0.01)


def test_nothing_at_all_has_no_p() -> None:
    empty = compare("m", {}, {("d", None): float("nan")}, resamples=99)
    assert (empty.p, empty.first.value, empty.difference.value) == (None, None, None)
    assert empty.difference.reason


def test_people_are_compared_together() -> None:
    rows = [
        Score(f"d{i}", None, None, f"human:{r}", "overall", float(v))
        for i, v in enumerate(BASE)
        for r in "ab"
    ]
    fewer = [r._replace(value=(r.value or 0) - 1) for r in rows if r.source == "human:a"]
    assert check(Scores.of(fewer), Scores.of(rows), **QUICK).worse == ("human/overall",)
