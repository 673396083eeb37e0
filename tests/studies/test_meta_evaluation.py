"""A study against direct computations, and what it says when there is nothing to say (R8, R9)."""

import json
import math
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

import krippendorff
import numpy as np
import pytest
from scipy import stats
from statsmodels.stats import inter_rater

from dialeval import statistics
from dialeval.errors import DataError, UsageError
from dialeval.scores import Score, Scores, Signature, is_human
from dialeval.studies import Study, StudySettings, study
from dialeval.studies.findings import GoldRatings

QUICK: dict[str, Any] = {"resamples": 200, "permutations": 200}
ORACLES = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}


def synthetic(
    dialogues: int = 40,
    turns: int = 3,
    raters: int = 3,
    systems: int = 4,
    missing: float = 0.2,
    seed: int = 0,
) -> Scores:
    """Two metrics of different worth and some raters who leave turns out."""
    rng = np.random.default_rng(seed)
    rows = []
    for d in range(dialogues):
        quality = rng.normal() + (d % systems) * 0.5
        for t in range(turns):
            now = quality + 0.5 * rng.normal()
            place: tuple[str, int, str] = (f"d{d:03}", 2 * t + 1, f"s{d % systems}")
            rows += [
                Score(
                    *place,
                    f"human:r{r}",
                    "overall",
                    float(np.clip(np.round(3 + now + 0.7 * rng.normal()), 1, 5)),
                )
                for r in range(raters)
                if rng.random() >= missing
            ]
            rows.append(Score(*place, "good", "x", float(now + 0.5 * rng.normal())))
            rows.append(Score(*place, "bad", "x", float(rng.normal()) if t else None))
    return Scores.of(rows, {name: Signature(f"{name}.v1") for name in ("good", "bad")})


def by_hand(scores: Scores, level: str, source: str) -> tuple[Any, Any]:
    """The metric and the gold as plain arrays, made with dictionaries and exact fractions only.

    Raters are averaged turn by turn, turns to dialogues, dialogues to systems, each step over what is there.
    """
    turns: dict[bool, dict[Any, list[Fraction]]] = {True: {}, False: {}}
    for row in scores:
        human = row.source.startswith("human:")
        if row.value is not None and (human or row.source == source):
            turns[human].setdefault((row.system, row.dialogue_id, row.turn), []).append(Fraction(row.value))
    steps = {"turn": 0, "dialogue": 1, "system": 2}[level]
    sides = []
    for found in (turns[False], turns[True]):
        values = {key: mean(one) for key, one in found.items()}
        for _ in range(steps):
            grouped: dict[Any, list[Fraction]] = {}
            for key, value in values.items():
                grouped.setdefault(key[:-1], []).append(value)
            values = {key: mean(one) for key, one in grouped.items()}
        sides.append(values)
    both = sorted(set(sides[0]) & set(sides[1]))
    x, y = (np.array([float(side[key]) for key in both]) for side in sides)
    return x, y


@pytest.mark.parametrize("level", ["turn", "dialogue", "system"])
def test_correlations_equal_direct_computations(level: Any) -> None:
    scores = synthetic()
    found = study(scores, level=level, **QUICK)
    assert [row.source for row in found.correlations] == ["good", "bad"]
    for row in found.correlations:
        x, y = by_hand(scores, level, row.source)
        assert row.n == x.size
        for method, oracle in ORACLES.items():
            assert row.of(method).value == pytest.approx(oracle(x, y).statistic, abs=1e-12)
    assert found.n_dialogues == 40
    assert found.n_units == {"turn": 120, "dialogue": 40, "system": 4}[level]


def test_unscored_turns_are_counted() -> None:
    found = study(synthetic(missing=0.0), **QUICK)
    rows = {row.source: row for row in found.correlations}
    assert (rows["good"].n, rows["good"].n_unscored) == (120, 0)
    assert (rows["bad"].n, rows["bad"].n_unscored) == (80, 40)
    means = {(row.system, row.source): row for row in found.systems}
    assert (means["s0", "bad"].n, means["s0", "bad"].n_unscored) == (20, 10)


def test_intervals_draw_whole_dialogues() -> None:
    """Every turn written down ten times is no new evidence: n grows, the interval stays."""
    once = synthetic(turns=1, missing=0.0)
    again = [row._replace(turn=1 + k) for row in once for k in range(10)]
    one = study(once, level="turn", **QUICK).correlations[0].spearman
    ten = study(Scores.of(again, once.signatures), level="turn", **QUICK).correlations[0].spearman
    assert ten.n == 10 * one.n
    assert ten.value == pytest.approx(one.value)
    assert ten.high - ten.low == pytest.approx(one.high - one.low, rel=0.05)


def test_the_default_level_is_the_one_that_was_rated() -> None:
    scores = synthetic()
    assert study(scores, **QUICK).settings.level == "turn"
    whole = Scores.of([Score("d000", None, "s0", "human:r0", "overall", 3.0)])
    assert study(Scores.concat([scores, whole]), **QUICK).settings.level == "dialogue"


def test_the_default_dimension() -> None:
    ratings = [Score(f"d{i}", None, None, "human:u", "fluent", float(i)) for i in range(5)]
    more = [Score(f"d{i}", None, None, "human:u", "quality", float(i)) for i in range(5)]
    assert study(Scores.of(ratings), **QUICK).gold == GoldRatings("human", "fluent", 1, 5, 0)
    gold = study(Scores.of(ratings + more), **QUICK).gold
    assert gold is not None
    assert gold.dimension == "quality"


def test_a_judge_as_gold() -> None:
    scores = synthetic()
    judged = Scores.concat([scores, Scores.of([r for r in scores if r.source == "good"]).renamed("judge")])
    found = study(judged, gold="judge", **QUICK)
    assert [row.source for row in found.correlations] == ["good", "bad"]
    assert found.correlations[0].pearson.value == pytest.approx(1.0)
    assert found.gold is not None
    assert found.gold.raters == 1
    assert found.ceiling == {}
    one = study(scores, gold="human:r1", **QUICK)
    assert one.gold is not None
    assert one.gold.raters == 1
    assert {row.source for row in one.correlations} == {"good", "bad"}
    assert {(row.source, row.dimension) for row in found.systems} >= {
        ("judge", "x"),
        ("human", "overall"),
    }


def test_a_source_called_gold_is_a_source_like_any_other() -> None:
    rows = [Score(f"d{i}", None, None, "gold", "gold", float(i)) for i in range(9)]
    rows += [Score(f"d{i}", None, None, "m", "x", float(i % 4)) for i in range(9)]
    found = study(Scores.of(rows), gold="gold", where="gold>2", **QUICK)
    assert found.correlations[0].n == 6
    other = study(Scores.of([*rows, *(r._replace(source="human:u") for r in rows[:9])]), where="m<3", **QUICK)
    assert {row.source for row in other.correlations} == {"gold", "m"}


def test_by_system_and_by_dimension() -> None:
    scores = synthetic()
    parts = study(scores, by="system", **QUICK).subsets
    assert [part.name for part in parts] == ["s0", "s1", "s2", "s3"]
    alone = study(scores.where(system="s2"), **QUICK)
    inside = {row.source: row.kendall.value for row in parts[2].correlations}
    assert inside == {row.source: row.kendall.value for row in alone.correlations}

    second = [
        r._replace(dimension="fluent", value=6 - (r.value or 0)) for r in scores if r.source == "human:r0"
    ]
    both = study(Scores.concat([scores, Scores.of(second)]), by="dimension", **QUICK)
    values = {part.name: part.correlations for part in both.subsets}
    assert list(values) == ["overall", "fluent"]
    assert {r.label: r.spearman for r in values["overall"]} == {
        r.label: r.spearman for r in both.correlations
    }
    assert all(row.spearman.value < 0 for row in values["fluent"] if row.label == "good")


@pytest.mark.parametrize("labels", [2, 3])
def test_classes(labels: int) -> None:
    rng = np.random.default_rng(5)
    truth = rng.integers(0, labels, 60)
    value = truth + rng.normal(size=60)
    rows = [Score(f"d{i}", None, None, "human:u", "label", float(t)) for i, t in enumerate(truth)]
    rows += [Score(f"d{i}", None, None, "m", "x", float(v)) for i, v in enumerate(value)]
    (row,) = study(Scores.of(rows), **QUICK).classes
    assert [cut.at for cut in row.cuts] == list(range(1, labels))
    for cut in row.cuts:
        high, low = value[truth >= cut.at], value[truth < cut.at]
        wins = stats.mannwhitneyu(high, low).statistic / (high.size * low.size)
        assert cut.auc.value == pytest.approx(wins)
    for label, one in enumerate(row.distributions):
        assert one.n == (truth == label).sum()
        assert one.mean == pytest.approx(value[truth == label].mean())


def test_worst_cases() -> None:
    rows = [Score(f"d{i:02}", None, None, "human:u", "overall", float(i)) for i in range(30)]
    values = [float(i) for i in range(30)]
    values[4], values[25] = 90.0, -80.0
    rows += [Score(f"d{i:02}", None, None, "m", "x", v) for i, v in enumerate(values)]
    cases = study(Scores.of(rows), **QUICK).worst
    assert [case.dialogue_id for case in cases[:12]] == [f"d{i:02}" for i in range(12)]
    wrong = {case.dialogue_id: case.why for case in cases[12:]}
    assert wrong["d04"] == "m too kind"
    assert wrong["d25"] == "m too strict"
    assert cases[4].values == {"m": 90.0}


def test_the_ceiling_is_one_rater_against_the_others() -> None:
    scores = synthetic(missing=0.0)
    ceiling = study(scores, **QUICK).ceiling["pearson"]
    ratings = np.array([r.value for r in scores if r.source.startswith("human:")]).reshape(-1, 3)
    rest = (ratings.sum(axis=1, keepdims=True) - ratings) / 2
    assert ceiling.value == pytest.approx(stats.pearsonr(ratings.ravel(), rest.ravel()).statistic)
    assert ceiling.low < ceiling.value < ceiling.high


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_agreement_against_other_packages(missing: float) -> None:
    scores = synthetic(missing=missing)
    (panel,) = study(scores, **QUICK).agreement
    found: dict[Any, dict[str, float]] = {}
    for row in scores.where(source=lambda name: name.startswith("human:")):
        found.setdefault((row.dialogue_id, row.turn), {})[row.source] = row.value or math.nan
    ratings = np.array([[one.get(f"human:r{r}", np.nan) for r in range(3)] for one in found.values()])
    for level, estimate in panel.alpha.items():
        oracle = krippendorff.alpha(ratings.T, level_of_measurement=level)
        assert estimate.value == pytest.approx(oracle, abs=1e-10)
        assert estimate.low < estimate.value < estimate.high
    assert (panel.n_units, panel.n_ratings) == (len(ratings), int((~np.isnan(ratings)).sum()))
    assert sum(panel.labels.values()) == panel.n_ratings
    assert panel.dominant == float(max(panel.labels, key=panel.labels.get))
    pairs = [(0, 1), (0, 2), (1, 2)]
    kappas = []
    for a, b in pairs:
        both = ~np.isnan(ratings[:, [a, b]]).any(axis=1)
        kappas.append(
            inter_rater.cohens_kappa(
                inter_rater.to_table(ratings[both][:, [a, b]], bins=np.arange(0.5, 6))[0]
            ).kappa
        )
    assert panel.cohen.value == pytest.approx(np.mean(kappas))
    if not missing:
        counts = inter_rater.aggregate_raters(ratings)[0]
        assert panel.fleiss.value == pytest.approx(inter_rater.fleiss_kappa(counts))


def test_differences_and_letters() -> None:
    scores = synthetic(dialogues=120, turns=1)
    scores = Scores.of([r for r in scores if r.source != "bad"], scores.signatures)
    rng = np.random.default_rng(3)
    noise = [Score(f"d{i:03}", 1, f"s{i % 4}", "noise", "x", float(rng.normal())) for i in range(120)]
    twin = [r._replace(source="twin", value=3 * (r.value or 0)) for r in scores if r.source == "good"]
    found = study(Scores.concat([scores, Scores.of(noise), Scores.of(twin)]), resamples=200, permutations=999)
    tests = {(row.first, row.second): row for row in found.differences}
    assert set(tests) == {("good", "noise"), ("good", "twin"), ("noise", "twin")}
    apart, same = tests["good", "noise"], tests["good", "twin"]
    x, y = by_hand(scores, "turn", "good")
    z, gold = by_hand(Scores.concat([scores, Scores.of(noise)]), "turn", "noise")
    r12, r13 = stats.spearmanr(x, y).statistic, stats.spearmanr(z, gold).statistic
    assert apart.difference.value == pytest.approx(r12 - r13, abs=1e-12)
    williams = statistics.williams(r12, r13, stats.spearmanr(x, z).statistic, x.size)
    assert apart.williams.p == pytest.approx(williams.p)
    assert apart.permutation_holm < 0.05
    assert same.difference.value == pytest.approx(0.0)
    assert same.permutation_holm == 1.0
    assert found.letters == {"good": ("a",), "twin": ("a",), "noise": ("b",)}
    assert found.as_good_as("good") == ["twin"]


def opposite(n: int = 60) -> tuple[Scores, dict[str, Any]]:
    """One source whose `self` is low where people are pleased, whose `user` is high, and an alike of each."""
    rng = np.random.default_rng(5)
    quality = rng.normal(size=n)
    noise = rng.normal(size=(2, n))
    columns = {
        ("two", "user"): quality + 0.8 * noise[0],
        ("two", "self"): -quality + 0.4 * noise[1],
        ("wrong", "self"): -quality + 0.4 * noise[1],
        ("human:a", "overall"): quality,
    }
    rows = [
        Score(f"d{i:02}", None, f"s{i % 2}", source, dimension, float(values[i]))
        for (source, dimension), values in columns.items()
        for i in range(n)
    ]
    signatures = {"two": Signature.parse("two.v1|better:self=lower"), "wrong": Signature("wrong.v1")}
    return Scores.of(rows, signatures), {f"{s}/{d}": values for (s, d), values in columns.items()}


def test_only_the_dimension_that_should_be_low_is_turned() -> None:
    scores, columns = opposite()
    found = study(scores, combine=("z=zmean:two/user+two/self",), by="system", **QUICK)
    assert [row.label for row in found.correlations] == ["z", "two/self", "two/user", "wrong"]
    rows = {row.label: row.pearson.value for row in found.correlations}
    gold = columns["human:a/overall"]
    assert rows["two/self"] == rows["wrong"] == pytest.approx(np.corrcoef(columns["two/self"], gold)[0, 1])
    assert rows["two/self"] < -0.8 < 0.6 < rows["two/user"]  # shown as it is, ranked by what it is worth
    z = stats.zscore(columns["two/user"]) - stats.zscore(columns["two/self"])
    assert rows["z"] == pytest.approx(np.corrcoef(z, gold)[0, 1])
    assert not set(found.letters["wrong"]) & set(found.letters["two/user"])
    tests = {(row.first, row.second): row for row in found.differences}
    rank = {label: stats.spearmanr(values, gold).statistic for label, values in columns.items()}
    difference = tests["two/user", "two/self"].difference.value
    assert difference == pytest.approx(rank["two/user"] + rank["two/self"])  # x - (-y)
    assert tests["two/self", "wrong"].difference.value == pytest.approx(-2 * rank["two/self"])
    for part in found.subsets:
        assert [row.label for row in part.correlations] == ["z", "two/self", "two/user", "wrong"]
    kind = {row.dialogue_id for row in found.worst if row.why == "two/self too kind"}
    place = np.argmax(np.abs(stats.zscore(-columns["two/self"]) - stats.zscore(gold)))
    strict = {row.dialogue_id for row in found.worst if row.why == "two/self too strict"}
    assert f"d{place:02}" in kind | strict
    assert len(kind | strict) == 3


def test_the_matrix_of_sources() -> None:
    scores = synthetic()
    matrix = study(scores, method="pearson", **QUICK).matrix
    assert matrix.labels == ("good", "bad", "gold")
    x, y = by_hand(scores, "turn", "good")
    value = matrix.correlations["kendall"][0][2].value
    assert value == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-12)
    r = matrix.correlations["pearson"][2][0].value
    assert matrix.angles[0][2] == pytest.approx(math.degrees(math.acos(r)))
    assert matrix.angles[1][1] == pytest.approx(0.0, abs=1e-5)


def test_systems_are_compared() -> None:
    found = study(synthetic(dialogues=80, missing=0.0), **QUICK)
    row = next(r for r in found.systems if r.system == "s3" and r.source == "human")
    values = [
        r.value for r in synthetic(dialogues=80, missing=0.0) if r.system == "s3" and "human" in r.source
    ]
    assert row.mean.value == pytest.approx(np.mean(values))  # type: ignore[arg-type]
    gold = [r for r in found.comparisons if r.source == "human"]
    assert len(gold) == 6
    assert not any(r.paired for r in gold)
    outer = next(r for r in gold if (r.first, r.second) == ("s0", "s3"))
    assert outer.difference.value < -1
    assert outer.p_holm < 0.05


@pytest.mark.parametrize("count", [50, 51, 102])
def test_comparisons_grow_with_the_systems_and_not_with_their_pairs(count: int) -> None:
    """Up to 50 systems all pairs are tested; of more each against the best, and a note says so."""
    rng = np.random.default_rng(0)
    rows = [
        Score(f"s{s}d{d}", None, f"s{s:03}", source, "overall", float((s == 7) * 9 + rng.normal()))
        for s in range(count)
        for d in range(4)
        for source in ("human:a", "metric")
    ]
    found = study(Scores.of(rows), resamples=100, permutations=100)
    told = [note for note in found.notes if "compared with the best" in note]
    names = [f"s{s:03}" for s in range(count)]
    pairs = [(row.first, row.second) for row in found.comparisons]
    if count == 50:
        assert pairs == list(combinations(names, 2))
        assert not told
        return
    assert pairs == [("s007", name) for name in names if name != "s007"]
    assert told == [
        f"{count} systems: each is compared with the best, s007, and not with the others "
        "(all pairs up to 50 systems)"
    ]
    means = {row.system: row.mean.value for row in found.systems if row.source == "human"}
    for row in found.comparisons[:5]:
        assert row.difference.value == pytest.approx(means["s007"] - means[row.second], abs=1e-12)  # type: ignore[operator]
    assert [row.p_holm for row in found.comparisons] == statistics.holm([row.p for row in found.comparisons])


def test_the_best_of_many_systems_is_the_lowest_where_less_is_better() -> None:
    rng = np.random.default_rng(0)
    rows = [
        Score(f"s{s}d{d}", None, f"s{s:03}", source, "overall", float(-9 * (s == 7) + rng.normal()))
        for s in range(60)
        for d in range(3)
        for source in ("errors", "metric")
    ]
    signed = {"errors": Signature.parse("errors.v1|better:lower")}
    found = study(Scores.of(rows, signed), gold="errors", resamples=100, permutations=100)
    assert {row.first for row in found.comparisons} == {"s007"}


def test_systems_that_answered_the_same_contexts_are_paired() -> None:
    rows = [
        Score(f"c{i}", 1, name, "human:u", "overall", i + plus)
        for i in range(20)
        for name, plus in (("A", 0.0), ("B", 1.0))
    ]
    found = study(Scores.of(rows), **QUICK)
    (row,) = found.comparisons
    assert row.paired
    assert row.difference.value == pytest.approx(-1.0)
    assert row.p < 0.01
    assert (found.n_units, found.n_dialogues) == (40, 40)


def test_where_holds_for_every_table() -> None:
    scores = synthetic()
    part = study(scores, where="system=s1", **QUICK)
    alone = study(scores.where(system="s1"), **QUICK)
    for name in ("correlations", "systems", "agreement", "ceiling", "worst", "n_units", "n_dialogues"):
        assert getattr(part, name) == getattr(alone, name)
    assert {row.system for row in part.systems} == {"s1"}
    early = study(scores, where="turn<2", **QUICK)
    first = study(Scores.of([r for r in scores if r.turn == 1], scores.signatures), **QUICK)
    assert early.agreement == first.agreement
    assert early.systems == first.systems
    two = study(scores, level="system", where="system!=s0", **QUICK)
    assert two.n_units == 3
    assert {row.system for row in two.systems} == {"s1", "s2", "s3"}
    assert two.agreement == study(scores, where="system!=s0", **QUICK).agreement


def test_ratings_without_a_system_follow_their_dialogue_under_where() -> None:
    scores = synthetic()
    bare = Scores.of(
        [r._replace(system=None) if "human" in r.source else r for r in scores], scores.signatures
    )
    assert (
        study(bare, where="system=s1", **QUICK).to_json()
        == study(scores, where="system=s1", **QUICK).to_json()
    )


def test_combined_sources_are_sources() -> None:
    scores = synthetic()
    found = study(scores, combine=("both=mean:good+bad", "fitted=fit:good+bad,folds=dialogue"), **QUICK)
    rows = {row.source: row for row in found.correlations}
    assert set(rows) == {"good", "bad", "both", "fitted"}
    good, bad = (
        {(r.dialogue_id, r.turn): r.value for r in scores if r.source == name} for name in ("good", "bad")
    )
    average = [
        r._replace(source="both", value=(r.value + bad[r.dialogue_id, r.turn]) / 2)  # type: ignore[operator]
        for r in scores
        if r.source == "good" and bad[r.dialogue_id, r.turn] is not None
    ]
    assert len(good) == len(bad)
    x, y = by_hand(Scores.concat([scores, Scores.of(average)]), "turn", "both")
    assert rows["both"].spearman.value == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    assert found.signatures["both"] == "combination.v1|method:mean|parts:good,bad"
    assert {row.source for row in found.systems} == {"good", "bad", "both", "fitted", "human"}


def test_sources_can_be_chosen() -> None:
    scores = Scores.concat([synthetic(), Scores.of([Score("d000", 1, "s0", "bad", "y", 1.0)])])
    names = {
        name: study(scores, sources=(name,), **QUICK).correlations for name in ("bad", "bad/y", "good/x")
    }
    assert [(r.source, r.dimension) for r in names["bad"]] == [("bad", "x"), ("bad", "y")]
    assert [(r.source, r.dimension) for r in names["bad/y"]] == [("bad", "y")]
    assert [(r.source, r.dimension) for r in names["good/x"]] == [("good", "x")]
    with pytest.raises(UsageError, match="no source 'ugly'; there are: good, bad/x, bad/y"):
        study(scores, sources=("ugly",), **QUICK)


def no_nan(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(no_nan, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(no_nan, value))
    return not isinstance(value, float) or math.isfinite(value)


def with_reasons(value: object) -> bool:
    """Every estimate without a value has a reason."""
    if isinstance(value, dict):
        undefined = value.get("value", 0) is None and "reason" in value
        return not (undefined and not value["reason"]) and all(map(with_reasons, value.values()))
    return all(map(with_reasons, value)) if isinstance(value, list) else True


def sound(found: Study, folder: Path) -> Study:
    assert no_nan(found.to_dict())
    assert with_reasons(found.to_dict())
    json.loads(found.to_json(), parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    found.save(folder / "study.json")
    assert Study.load(folder / "study.json") == found
    assert "source" in str(found)
    return found


@pytest.mark.parametrize("level", ["turn", "dialogue", "system"])
def test_saved_and_loaded_is_equal(level: Any, tmp_path: Path) -> None:
    options = {
        "by": "system",
        "combine": ("both=zmean:good+bad",),
        "where": "turn<6" if level == "turn" else None,
    }
    sound(study(synthetic(), level=level, **options, **QUICK), tmp_path)
    rows = [Score(f"d{i}", 1, "s", "human:u", "label", float(i % 3)) for i in range(12)]
    rows += [Score(f"d{i}", 1, "s", "m", "x", float(i)) for i in range(12)]
    assert sound(study(Scores.of(rows), level=level, **QUICK), tmp_path).settings.combine == ()


def ratings_and_scores(gold: list[Any], metric: list[Any], raters: int = 1) -> Scores:
    rows = [
        Score(f"d{i}", None, f"s{i % 3}", f"human:{r}", "overall", v)
        for i, v in enumerate(gold)
        for r in range(raters)
    ]
    return Scores.of(rows + [Score(f"d{i}", None, f"s{i % 3}", "m", "x", v) for i, v in enumerate(metric)])


@pytest.mark.parametrize(
    ("gold", "metric", "reason"),
    [
        ([1.0, 2.0, 3.0, 4.0], [5.0, 5.0, 5.0, 5.0], "constant"),
        ([2.0, 2.0, 2.0, 2.0], [1.0, 2.0, 3.0, 4.0], "constant"),
        ([2.0, 2.0, 2.0, 2.0], [7.0, 7.0, 7.0, 7.0], "constant"),
        ([1.0, 2.0], [2.0, 1.0], "n < 3"),
        ([1.0], [2.0], "n < 3"),
        ([1.0, 2.0, 3.0, 4.0], [None, None, None, None], "n < 3"),
        ([None, None, None, None], [1.0, 2.0, 3.0, 4.0], "n < 3"),
        ([1.0, 2.0, None, None], [None, None, 3.0, 4.0], "n < 3"),
    ],
)
@pytest.mark.parametrize("raters", [1, 2])
@pytest.mark.parametrize("level", ["dialogue", "system"])
def test_what_cannot_be_computed_says_why(
    gold: list[Any], metric: list[Any], reason: str, raters: int, level: Any, tmp_path: Path
) -> None:
    scores = ratings_and_scores(gold, metric, raters)
    found = sound(study(scores, level=level, by="system", **QUICK), tmp_path)
    for method in ORACLES:
        assert found.correlations[0].of(method).value is None
        assert found.correlations[0].of(method).reason in (reason, "n < 3")
    assert found.letters == {}


def test_three_systems(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    scores = ratings_and_scores(
        [float(i % 3 + rng.normal()) for i in range(60)], rng.normal(size=60).tolist()
    )
    more = [r._replace(source="n", value=float(rng.normal())) for r in scores if r.source == "m"]
    found = sound(study(Scores.concat([scores, Scores.of(more)]), level="system", **QUICK), tmp_path)
    assert (found.n_units, found.n_dialogues) == (3, 60)
    (test,) = found.differences
    assert test.permutation.p >= 0.25  # three systems have eight arrangements
    assert test.williams.value is None
    assert test.williams.reason == "n < 4"
    assert found.letters == {"m": ("a",), "n": ("a",)}


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("raters", [1, 3])
def test_missing_ratings(missing: float, raters: int, tmp_path: Path) -> None:
    for seed in range(3):
        scores = synthetic(dialogues=8, raters=raters, missing=missing, seed=seed)
        found = sound(study(scores, by="dimension", combine=("f=fit:good,folds=2",), **QUICK), tmp_path)
        assert len(found.ceiling) == (3 if raters > 1 else 0)
        assert len(found.agreement) == (raters > 1)


def test_people_who_never_meet_and_people_who_always_agree(tmp_path: Path) -> None:
    apart = [Score(f"d{i}", None, None, f"human:{i % 3}", "overall", float(i)) for i in range(9)]
    (panel,) = sound(study(Scores.of(apart), **QUICK), tmp_path).agreement
    assert {panel.alpha["ordinal"].reason, panel.raw.reason} == {"no overlap"}
    same = [Score(f"d{i}", None, None, f"human:{r}", "overall", 4.0) for i in range(9) for r in range(3)]
    (panel,) = sound(study(Scores.of(same), **QUICK), tmp_path).agreement
    assert panel.raw.value == 1.0
    assert panel.fleiss.reason == panel.alpha["nominal"].reason == "constant"


def test_a_rater_who_always_gives_the_same_value_is_named(tmp_path: Path) -> None:
    rows = [
        Score(f"d{i}", None, None, f"human:{rater}", "overall", 4.0 if rater == "lazy" else float(i % 5))
        for i in range(9)
        for rater in ("ann", "lazy")
    ]
    (note,) = sound(study(Scores.of(rows), **QUICK), tmp_path).notes[-1:]
    assert note.startswith("raters with the same value for every unit: human:lazy (4 to 9);")
    few = study(Scores.of(row for row in rows if row.dialogue_id < "d4"), **QUICK)
    alone = study(Scores.of(row for row in rows if row.source == "human:lazy"), **QUICK)
    assert not any("same value" in one for one in (*few.notes, *alone.notes))


def test_the_figure_says_what_is_drawn(tmp_path: Path) -> None:
    scores = synthetic()
    signatures = {"bad": Signature.parse("bad.v1|better:lower")}
    (axes,) = study(Scores.of(scores, signatures), **QUICK).plot().axes
    assert axes.get_xlabel() == "Spearman with human / overall (95 % interval)"
    shown = [label.get_text() for label in axes.get_yticklabels()]
    assert "bad (lower is better)" in shown and "good" in shown


def test_no_rows_and_no_gold(tmp_path: Path) -> None:
    nothing = sound(study(Scores.of([])), tmp_path)
    assert (nothing.gold, nothing.n_units, nothing.correlations) == (None, 0, ())
    scores = synthetic().where(source=lambda name: name in ("good", "bad"))
    for level in ("turn", "dialogue", "system"):
        found = sound(study(scores, level=level, **QUICK), tmp_path)
        assert found.correlations == found.worst == found.agreement == ()
        assert found.matrix.labels == ("good", "bad")
        assert len(found.systems) == 8
        assert "no source 'human'" in found.notes[0]
    only = sound(study(synthetic().where(source=lambda name: "human" in name), **QUICK), tmp_path)
    assert only.correlations == ()
    assert only.ceiling
    assert only.notes == ("no source besides the gold ratings: nothing to correlate",)


def test_a_part_with_nothing_in_it(tmp_path: Path) -> None:
    found = sound(study(synthetic(), where="good>1000", by="system", **QUICK), tmp_path)
    assert found.n_units == found.n_dialogues == 0
    assert {row.spearman.reason for row in found.correlations} == {"n < 3"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gold": "judge"}, "no source 'judge' to compare with; there are: "),
        ({"dimension": "fluent"}, "no rating called 'fluent' at turn level; there are: overall"),
        ({"level": "word"}, "no level 'word'; known: turn, dialogue, system"),
        ({"method": "cosine"}, "no method 'cosine'; known: pearson, spearman, kendall"),
        ({"by": "turn"}, "no by 'turn'; known: system, dimension"),
        ({"aggregate": "sum"}, "no aggregate 'sum'"),
        ({"resamples": 0}, "at least 1"),
        ({"confidence": 95}, "between 0 and 1"),
        ({"colour": "red"}, "colour"),
        ({"combine": ("x",)}, "expected name="),
    ],
)
def test_impossible_wishes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        study(synthetic(dialogues=4), **options)


def test_a_turn_study_needs_turn_ratings() -> None:
    with pytest.raises(UsageError, match="no 'human' rating at turn level; try --level dialogue"):
        study(ratings_and_scores([1.0, 2.0], [1.0, 2.0]), level="turn")


@pytest.mark.parametrize("content", ["", "[]", "{}", "7", '{"version": "study.v2", "x": 1}', "\x00"])
def test_what_is_no_study(content: str, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(content)
    with pytest.raises(DataError, match=r"s.json: not a study"):
        Study.load(tmp_path / "s.json")
    (tmp_path / "s.json").write_text('{"version": "study.v0"}')
    with pytest.raises(DataError, match="another version"):
        Study.load(tmp_path / "s.json")


def test_the_same_seed_gives_the_same_study() -> None:
    scores = synthetic()
    one, two = (study(scores, seed=7, workers=workers, resamples=600, permutations=200) for workers in (1, 2))
    assert one.to_json() == two.to_json()
    mixed = Scores(scores.table.take(np.random.default_rng(0).permutation(len(scores))), scores.signatures)
    other = study(mixed, seed=7, resamples=600, permutations=200)
    rows = {row.label: row for row in other.correlations}
    assert rows == {row.label: row for row in one.correlations}
    assert study(scores, seed=8, **QUICK).correlations != study(scores, seed=7, **QUICK).correlations


def test_settings_are_kept() -> None:
    found = study(synthetic(), seed=3, combine=("b=mean:good+bad",), **QUICK)
    assert found.settings.seed == 3
    assert "workers" not in found.to_dict()["settings"]
    assert found.settings == StudySettings(
        level="turn", dimension="overall", seed=3, combine=("b=mean:good+bad",), **QUICK
    )


def test_majority_of_raters_and_its_ties() -> None:
    votes = {
        "d0": (0, 0, 1),
        "d1": (1, 1, 0),
        "d2": (2, 1, 0),
        "d3": (2, 2, 2),
        "d4": (0, 1, 1),
        "d5": (2, 2, 0),
    }
    rows = [
        Score(name, None, None, f"human:r{rater}", "overall", float(value))
        for name, given in votes.items()
        for rater, value in enumerate(given)
    ]
    rows += [Score(name, None, None, "m", "x", float(place)) for place, name in enumerate(votes)]
    found = study(Scores.of(rows), consensus="majority", **QUICK)
    assert found.gold is not None
    assert (found.gold.n, found.gold.n_unrated) == (5, 1)  # d2 has no majority
    expected = ORACLES["pearson"]([0, 1, 3, 4, 5], [0, 1, 2, 1, 2]).statistic
    assert found.correlations[0].pearson.value == pytest.approx(expected, abs=1e-12)
    lowest = study(Scores.of(rows), consensus="majority", tie="lowest", **QUICK)
    assert lowest.gold is not None
    assert lowest.gold.n == 6
    mean = study(Scores.of(rows), **QUICK)
    assert [cut.at for cut in mean.classes[0].cuts] == [1.0, 2.0]  # classes are the majority's labels
    assert [one.n for one in mean.classes[0].distributions] == [1, 2, 2]


def test_a_decision_counts_more_than_the_majority() -> None:
    """Rows of the source `adjudicated`, as annotation exports them, settle what raters did not agree on."""
    votes = {
        "d0": (0, 0, 1),
        "d1": (2, 1, 0),
        "d2": (1, 2, 0),
        "d3": (2, 2, 2),
        "d4": (0, 1, 1),
        "d5": (1, 1, 2),
    }
    rows = [
        Score(name, 1, None, f"human:r{rater}", "turn-quality", float(value))
        for name, given in votes.items()
        for rater, value in enumerate(given)
    ]
    rows += [Score(name, 1, None, "m", "x", float(place)) for place, name in enumerate(votes)]
    decided = [Score("d1", 1, None, "adjudicated", "turn-quality", 2.0)]
    decided += [Score("d5", 1, None, "adjudicated", "turn-quality", 0.0)]
    for level in ("turn", "dialogue"):
        found = study(Scores.of(rows + decided), level=level, consensus="majority", **QUICK)  # type: ignore[arg-type]
        assert found.gold is not None
        assert (found.gold.n, found.gold.n_unrated, found.gold.decided) == (5, 1, 2)  # d2 is still open
        assert dict(zip(found.units.dialogue_ids, found.units.gold or (), strict=True)) == {
            "d0": 0.0, "d1": 2.0, "d2": None, "d3": 2.0, "d4": 1.0, "d5": 0.0,
        }  # fmt: skip
        assert [row.source for row in found.correlations] == ["m"], "a decision is no metric"
        assert [one.n for one in found.labels.classes] == [2, 1, 2]
    assert [row.source for row in study(Scores.of(rows + decided), **QUICK).correlations] == ["m"]
    asked = study(Scores.of(rows + decided), sources=("m", "adjudicated"), **QUICK)
    assert {row.source for row in asked.correlations} == {"m", "adjudicated"}


def test_what_is_no_number_is_counted() -> None:
    """In ratings and in foreign columns; a metric of ours says itself why it gave no score."""
    rows = list(synthetic(missing=0.0))
    rows[0] = rows[0]._replace(value=None, note="good")
    place = next(place for place, row in enumerate(rows) if not is_human(row.source))
    rows[place] = rows[place]._replace(value=None, note="N/A")
    source = rows[place].source
    found = study(Scores.of(rows, {source: Signature("column.v1", (("file", "judge.csv"),))}), **QUICK)
    assert "ratings without a value: 1, with the note good (1)" in found.notes
    assert f"scores without a value from {source}: 1, with the note N/A (1)" in found.notes
    ours = study(Scores.of(rows, {source: Signature("length.v1")}), **QUICK)
    assert not any("scores without a value" in one for one in ours.notes)


def test_ids_that_do_not_meet_are_named() -> None:
    rows = [Score(f"r{i}", None, None, "human:a", "overall", float(i)) for i in range(5)]
    rows += [Score(f"m{i}", None, None, "metric", "x", float(i)) for i in range(5)]
    (note,) = study(Scores.of(rows), **QUICK).notes
    assert (
        note == "no unit is both rated and scored by metric: do the ids match? 'r0' is rated, 'm0' is scored"
    )


def test_a_source_that_scored_nothing_is_no_matter_of_ids() -> None:
    rows = [Score(f"d{i}", None, None, "human:a", "overall", float(i)) for i in range(5)]
    rows += [Score(f"d{i}", None, None, "metric", "x", float(i)) for i in range(5)]
    rows += [Score(f"d{i}", None, None, "other", "y", None, "asked of turns only") for i in range(5)]
    assert study(Scores.of(rows), **QUICK).notes == ("no scores from: other",)
