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
    (one,) = verdict.columns
    assert one.paired
    assert one.new.n == one.old.n == one.difference.n == 60
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
    assert not verdict.columns[0].paired
    gap = verdict.columns[0].difference
    oracle = stats.ttest_ind(BASE - 0.1 + 0.1 * NOISE, BASE, equal_var=False).confidence_interval()
    assert (gap.low, gap.high) == pytest.approx((oracle.low, oracle.high), abs=0.02)
    far = check(run(BASE - 3, first=1000), run(BASE), **QUICK)
    assert far.worse == ("m/x",)


def test_half_of_the_smaller_side_has_to_be_shared() -> None:
    for shared, paired in ((30, True), (29, False)):
        verdict = check(run(BASE, first=60 - shared), run(BASE), **QUICK)
        assert verdict.columns[0].paired is paired
        assert verdict.columns[0].new.n == (30 if paired else 60)


def test_unscored_items_are_no_pairs() -> None:
    values: list[float | None] = list(BASE - 1)
    values[:20] = [None] * 20
    (one,) = check(run(values), run(BASE), **QUICK).columns
    assert one.new.n == one.old.n == 40
    assert one.old.value == pytest.approx(BASE[20:].mean())


def test_the_systems_name_is_no_part_of_an_item() -> None:
    assert check(run(BASE, system="bot-2"), run(BASE, system="bot-1"), **QUICK).columns[0].paired


def test_several_systems_in_one_context_are_all_compared() -> None:
    old = Scores.concat([run(BASE, system="A"), run(BASE, system="B")])
    new = Scores.concat([run(BASE - 1 + 0.1 * NOISE, system="A"), run(BASE, system="B")])
    (one,) = check(new, old, **QUICK).columns
    assert one.paired
    assert one.new.n == 120
    assert one.difference.value == pytest.approx(np.mean(-1 + 0.1 * NOISE) / 2)


def test_turns_of_a_dialogue_stay_together() -> None:
    """Sixty turns in three dialogues are three pieces of evidence: no p-value below one in eight."""

    def turns(values: Any) -> Scores:
        rows = [Score(f"d{i % 3}", i, "bot", "m", "x", v) for i, v in enumerate(values)]
        return Scores.of(rows, {"m": Signature("m.v1")})

    verdict = check(turns(BASE - 3), turns(BASE), level="turn", **QUICK)
    assert verdict.columns[0].p == pytest.approx(1 / 8)
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
    assert [one.label for one in both.columns] == ["m/x"]


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
    assert [one.label for one in verdict.columns] == ["m/user", "m/self"]
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
    assert verdict.columns[0].p < 0.05 < verdict.columns[0].p_holm  # type: ignore[operator]
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
    assert verdict.columns[0].p is not None


def test_compare_is_two_sided_and_repeatable_and_knows_its_way() -> None:
    up, far = run(BASE + 0.4 + 0.1 * NOISE), run(BASE + 0.4 + 0.1 * NOISE, first=100)
    found = compare({"old": run(BASE), "new": up}, **QUICK)
    assert found == compare({"old": run(BASE), "new": up}, **QUICK)
    assert (found.columns[0].p, found.columns[0].verdict, found.passed) == (1 / 1000, "better", True)
    back = compare({"old": up, "new": run(BASE)}, **QUICK)
    assert (back.columns[0].p, back.worse, back.summary) == (
        1 / 1000,
        ("m/x",),
        "By m/x, new is worse than old.",
    )
    apart = compare({"old": run(BASE), "new": far}, resamples=9999).columns[0]
    assert not apart.paired
    assert apart.p == pytest.approx(stats.ttest_ind(BASE + 0.4 + 0.1 * NOISE, BASE).pvalue, abs=0.01)


def test_versions_are_held_against_the_first_and_a_way_that_is_no_better_is_more_or_less() -> None:
    length = {
        name: run(BASE + k, "length", signature="length.v1|better:neither")
        for name, k in zip("abc", (0, 5, -5), strict=True)
    }
    found = compare(length, **QUICK)
    assert [(one.version, one.verdict) for one in found.columns] == [("b", "more"), ("c", "less")]
    assert found.passed and found.summary.startswith("No score says whether b is better than a: neither")
    scores = {"old": run(BASE, "quality"), "new": run(BASE - 1 + 0.1 * NOISE, "quality")}
    for name, k in (("old", 0), ("new", 1)):
        scores[name] = Scores.concat([run(BASE + k + 0.1 * NOISE * k), scores[name]])
    both = compare(scores, **QUICK)
    assert [one.short for one in both.columns] == ["quality/x", "m/x"], "the default metric comes first"
    assert both.summary == "By quality/x, new is worse than old. But better: m/x."
    assert "quality/x" in str(both) and "<td>worse</td>" in both._repr_html_()


def test_dialogues_for_half_of_a_difference() -> None:
    """Against the usual formula: n = (z_a + z_b)² s² / d², s that of the differences."""
    (one,) = compare({"old": run(BASE), "new": run(BASE + 0.3 + 0.5 * NOISE)}, **QUICK).columns
    gaps, half = 0.3 + 0.5 * NOISE, float(np.mean(0.3 + 0.5 * NOISE)) / 2
    usual = (1.96 + 0.8416) ** 2 * gaps.var(ddof=1) / half**2
    assert one.dialogues_for_half == pytest.approx(usual, rel=0.05)
    (same,) = compare({"old": run(BASE), "new": run(BASE)}, **QUICK).columns
    assert same.dialogues_for_half is None and same.verdict == "not told apart"


def test_partners_may_have_other_names() -> None:
    new = run(BASE - 0.1 + 0.1 * NOISE, first=1000)
    names = {f"d{1000 + i}": f"d{i}" for i in range(60)}
    (one,) = compare({"old": run(BASE), "new": new}, partners={"new": names}, **QUICK).columns
    assert one.paired and one.verdict == "worse"


def test_people_are_compared_together() -> None:
    rows = [
        Score(f"d{i}", None, None, f"human:{r}", "overall", float(v))
        for i, v in enumerate(BASE)
        for r in "ab"
    ]
    fewer = [r._replace(value=(r.value or 0) - 1) for r in rows if r.source == "human:a"]
    assert check(Scores.of(fewer), Scores.of(rows), **QUICK).worse == ("human/overall",)


def with_faults(overall: Any, named: int, shift: float, silent: int) -> Scores:
    """A metric of faults: its overall figure, some named ones that vary, and some that never occur."""
    rng, rows = np.random.default_rng(2), []
    columns = {"faults": overall}
    columns |= {f"named-{n}": rng.normal(size=60) + shift for n in range(named)}
    columns |= {f"silent-{n}": np.zeros(60) for n in range(silent)}
    for name, values in columns.items():
        rows += [Score(f"d{i}", None, "bot", "faults", name, float(v)) for i, v in enumerate(values)]
    return Scores.of(rows, {"faults": Signature.parse("faults.v1|better:lower")})


def test_named_faults_do_not_hide_the_overall_figure() -> None:
    drop = BASE + 0.1 + 0.3 * NOISE
    alone = check(with_faults(drop, 0, 0.0, 0), with_faults(BASE, 0, 0.0, 0), **QUICK)
    among = check(with_faults(drop, 12, 0.0, 20), with_faults(BASE, 12, 0.0, 20), **QUICK)
    assert 0.001 < alone.columns[0].p_holm < 0.05  # type: ignore[operator]
    assert among.columns[0].label == "faults/faults"
    assert among.columns[0].p_holm == alone.columns[0].p_holm
    assert among.worse == ("faults/faults",)


def test_faults_that_neither_side_has_cost_nothing_and_are_named_in_a_line() -> None:
    few = check(with_faults(BASE, 2, 0.05, 0), with_faults(BASE, 2, 0.0, 0), **QUICK)
    many = check(with_faults(BASE, 2, 0.05, 9), with_faults(BASE, 2, 0.0, 9), **QUICK)
    assert [one.p_holm for one in few.columns] == [one.p_holm for one in many.columns][: len(few.columns)]
    assert many.not_found == tuple(f"faults/silent-{n}" for n in range(9))
    assert [row[0] for row in many.rows()] == [row[0] for row in few.rows()]


def test_a_fault_that_one_of_the_versions_has_is_not_said_to_be_in_none() -> None:
    versions = {"old": with_faults(BASE, 1, 0.0, 2), "a": with_faults(BASE, 1, 0.0, 2)}
    versions["b"] = Scores.of(
        (row._replace(value=1.0) if row.dimension == "silent-0" else row for row in versions["a"]),
        versions["a"].signatures,
    )
    found = compare(versions, **QUICK)
    assert found.not_found == ("faults/silent-1",)
    assert "b: faults/silent-0" in [row[0] for row in found.rows()]


def test_the_legend_names_the_units_of_what_is_shown() -> None:
    faults = compare({"old": with_faults(BASE, 1, 0.0, 0), "new": with_faults(BASE, 1, 0.1, 0)}, **QUICK)
    assert "faults: faults in a hundred replies" in faults.legend
    assert "rules:" not in faults.legend
    assert "faults" not in compare({"old": run(BASE), "new": run(BASE)}, **QUICK).legend


def test_a_score_without_a_direction_gives_no_verdict_but_a_sentence() -> None:
    old, new = (run(BASE + k, "length", signature="length.v1|better:neither") for k in (0, 5))
    assert compare({"old": old, "new": new}, **QUICK).summary == (
        "No score says whether new is better than old: neither direction of length/x is better."
    )


def test_a_rule_that_another_source_counts_is_compared_once() -> None:
    def both(values: Any) -> Scores:
        rows = [
            Score(f"d{i}", None, "bot", source, "empty", float(v))
            for source in ("rules", "faults")
            for i, v in enumerate(values)
        ]
        made = {name: Signature.parse(f"{name}.v1|better:lower") for name in ("rules", "faults")}
        return Scores.of(rows, made)

    found = compare({"old": both(BASE), "new": both(BASE + 1)}, **QUICK)
    assert [one.label for one in found.columns] == ["faults/empty"]
