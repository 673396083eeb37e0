"""Triage: the worst turns, faults that metrics found, means worked out by hand."""

import random
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from report_cases import chat, quality

from dialeval import statistics
from dialeval.dialogues import Dialogue, Turn
from dialeval.dialogues.datasets import public_set
from dialeval.metrics.rules import Rules
from dialeval.reports.record_tables import failure_table, fault_table, index_table
from dialeval.scores import Score, Scores, Signature
from dialeval.studies.excerpts import Excerpt
from dialeval.studies.triage import EACH, MOST, MOST_CHARACTERS, triage
from dialeval.studies.turn_scores import choose_score, clustered_difference, clustered_mean

RULES = Rules().score


def value(bad: Excerpt) -> float | None:
    return bad.reply.score.value if bad.reply.score else None


def test_the_score_is_quality_if_there_is_one_else_the_first_with_a_direction() -> None:
    def row(source: str, dimension: str, value: float | None = 1.0, turn: int | None = 1) -> Score:
        return Score("d", turn, None, source, dimension, value, None if value is not None else "none")

    signatures = {"length": Signature.parse("length.v1|better:neither")}
    rows = [row("human:a", "quality"), row("length", "words"), row("empty", "x", None), row("bleu", "bleu")]
    chosen = choose_score(Scores.of(rows, signatures))
    assert chosen is not None and chosen.label == "bleu"
    named = choose_score(Scores.of([*rows, row("judge", "other"), row("judge", "quality")], signatures))
    assert named is not None and named.label == "judge / quality"
    assert choose_score(Scores.of([*rows[:3], row("flow", "quality", 1.0, None)], signatures)) is None
    assert triage(Scores.of(rows[:3], signatures), []) is None


def test_the_worst_come_first_at_most_two_of_one_dialogue() -> None:
    values = {(f"d{n}", turn): float(10 * n + turn) for n in range(30) for turn in (1, 3, 5)}
    talked = [
        chat(f"d{n}", *(f"Turn {t} of d{n}, which says a little." for t in range(6))) for n in range(30)
    ]
    random.Random(3).shuffle(talked)
    result = triage(quality(values), talked)
    assert result is not None
    assert len(result.worst) == MOST
    assert [(bad.dialogue_id, bad.reply.number) for bad in result.worst] == [
        (f"d{n}", turn) for n in range(MOST // EACH) for turn in (1, 3)
    ]
    few = triage(quality(values), talked, most=3)
    assert few is not None and [value(bad) for bad in few.worst] == [1.0, 3.0, 11.0]
    lower = Scores(quality(values).table, {"mine": Signature.parse("mine.v1|better:lower")})
    high = triage(lower, talked, most=4)
    assert high is not None and [value(bad) for bad in high.worst] == [295.0, 293.0, 285.0, 283.0]


def test_of_equal_scores_the_one_with_more_failures_comes_first() -> None:
    fine = [chat(f"a{n}", "I like trains.", "Trains are lovely in winter.") for n in range(50)]
    bad = chat("z", "Which train is fastest?", "Error: 502 Bad Gateway, I cannot help with the", "Never mind")
    result = triage(quality({(one.id, 1): 0.0 for one in [*fine, bad]}), [*fine, bad], find_faults=RULES)
    assert result is not None
    assert result.worst[0].dialogue_id == "z"
    assert set(result.worst[0].faults) >= {"rules/error-text", "rules/cut-off"}
    assert [one.dialogue_id for one in result.worst[1:4]] == ["a0", "a1", "a2"]


def test_a_bad_turn_stands_in_its_surroundings() -> None:
    turns = [
        Turn("system", "Be kind."),
        Turn("user", "One"),
        Turn("assistant", "Two"),
        Turn("user", "Three"),
        Turn("tool", "{}"),
        Turn("assistant", "F" * (MOST_CHARACTERS + 7)),
        Turn("assistant", "Five"),
        Turn("tool", "{}"),
        Turn("user", "Six"),
    ]
    result = triage(quality({("d", 5): 0.5, ("d", 99): -1.0}), [Dialogue("d", tuple(turns), "bot")])
    assert result is not None
    (bad,) = result.worst
    assert [(t.number, t.role, t.text, t.left_out) for t in bad.turns] == [
        (2, "before", "Two", 0),
        (3, "before", "Three", 0),
        (5, "reply", "F" * MOST_CHARACTERS, 7),
        (8, "next", "Six", 0),
    ]
    assert (bad.reply.speaker, bad.system, value(bad)) == ("assistant", "bot", 0.5)


def test_how_often_and_what_the_score_says_there() -> None:
    again = "I sell fresh fish on the pier."
    talked = [
        chat("a", "Fish?", again, "Any fish today?", again, "Thanks"),
        chat("b", "Fish?", again, "I like fish.", "Fish like you.", "that's not what I asked"),
        chat("c", "Fish?", "Fish is tasty."),
    ]
    scores = quality({("a", 1): 4.0, ("a", 3): 1.0, ("b", 1): 5.0, ("b", 3): 2.0, ("c", 1): None})
    result = triage(scores, talked, find_faults=RULES)
    assert result is not None
    by_name = {failure.name: failure for failure in result.failures}
    assert by_name.keys() == {f"rules/{name}" for name in Rules.dimensions}
    copied = by_name["rules/repeats"]
    assert (copied.found, copied.read, copied.here.value, copied.here.n) == (1, 5, 1.0, 1)
    assert copied.elsewhere.value == pytest.approx(11 / 3) and copied.elsewhere.n == 3
    assert copied.difference.value == pytest.approx(1 - 11 / 3)
    assert copied.example == ("a", 3, again)
    assert (result.n, result.n_unscored, result.dialogues) == (4, 1, 3)
    assert [failure.found for failure in result.failures] == sorted(
        (failure.found for failure in result.failures), reverse=True
    )
    table = failure_table(result)
    assert table is not None
    row = next(row for row in table.rows if row[0].text == "repeats")
    assert [cell.text for cell in row[1:5]] == ["1", "20.0 %", "1.00", "3.67"]
    assert row[3].small == "n 1\nunscored 0" and row[4].small == "n 3\nunscored 1"


def test_faults_are_looked_for_in_chunks_and_only_where_the_scores_have_none() -> None:
    """Systems named on one side only, turns that were not scored, and more dialogues than a chunk has."""
    talked = [chat(f"d{n}", "Hi", "" if n % 3 == 0 else "Hello.", system=None) for n in range(600)]
    scores = quality({(one.id, 1): 1.0 for one in talked[:500]})
    chunks: list[int] = []

    def find(some: Sequence[Dialogue]) -> Scores:
        chunks.append(len(some))
        return RULES(some)

    result = triage(scores, talked, find_faults=find)
    assert result is not None and chunks == [64] * 7 + [52]
    empty = next(one for one in result.failures if one.name == "rules/empty")
    assert (empty.found, empty.read, empty.example) == (167, 500, ("d0", 1, ""))
    assert empty.by_system["bot"].value == pytest.approx(33.4)
    known = Scores.concat([scores, Scores.of([Score("d1", 1, "bot", "faults", "off-topic", 1.0)])])
    told = triage(known, talked, find_faults=find)
    assert told is not None and [one.name for one in told.failures] == ["faults/off-topic"]
    assert chunks == [64] * 7 + [52]


def test_faults_that_a_metric_found_take_the_place_of_the_rules() -> None:
    """Counted by system in a hundred replies; a probability counts from its threshold on."""
    values = {"x": [1.0, 0.0, 0.0, 1.0], "y": [0.6, 0.2, 0.0, 0.0]}
    talked = [chat(f"{s}{n}", "Hi", "Hello there.", system=s) for s in values for n in range(4)]
    rows = [
        Score(f"{system}{n}", 1, system, *column, value)
        for system, own in values.items()
        for n, found_there in enumerate(own)
        for column, value in ((("mine", "quality"), 1 - found_there), (("rules", "loop"), found_there),
                              (("faults", "faultless"), 0.0))
    ]  # fmt: skip
    result = triage(Scores.of(rows, {"rules": Signature.parse("rules.v1|better:lower")}), talked)
    assert result is not None and result.score.label == "mine / quality"
    (loop,) = result.failures
    assert (loop.name, loop.found, loop.read) == ("rules/loop", 3, 8)
    assert {name: one.value for name, one in loop.by_system.items()} == pytest.approx({"x": 50.0, "y": 25.0})
    assert [bad.faults for bad in result.worst[:4]] == [("rules/loop",)] * 3 + [()]
    assert loop.example is not None and loop.example[0] in ("x0", "x3")
    table = fault_table(result)
    assert table is not None and [cell.text for cell in table.rows[0]] == ["loop", "50.0", "25.0"]


def test_a_fault_of_both_sources_is_counted_once_and_replies_with_any_fault_are_counted() -> None:
    """`faults` has the findings of `rules` among its own, so both would show one reply twice."""
    found = {"rules/empty": (1, 0, 0, 0), "faults/empty": (1, 0, 0, 0), "faults/ignores": (1, 1, 0, 0)}
    talked = [chat(f"x{n}", "Hi", "Hello there.", system="x") for n in range(4)]
    rows = [
        Score(f"x{n}", 1, "x", *name.split("/"), float(value))
        for name, values in found.items()
        for n, value in enumerate(values)
    ]
    rows += [Score(f"x{n}", 1, "x", "mine", "quality", float(n)) for n in range(4)]
    result = triage(Scores.of(rows), talked)
    assert result is not None
    assert [failure.name for failure in result.failures] == ["faults/ignores", "faults/empty"]
    assert result.faulty["x"].value == 50.0
    table = fault_table(result)
    assert table is not None
    shown = [(row[0].text, row[1].text) for row in table.rows]
    assert shown == [("any of them", "50.0"), ("ignores", "50.0"), ("empty", "25.0")]


def test_the_worst_turns_are_not_one_reply_again_and_again() -> None:
    """A third one with the same text is shown only if there are too few others."""
    texts = ["", " ", "\n", "I do not know.", "i do not know. ", "I do not know.", "Yes."]
    talked = [chat(f"d{n}", "Hi", text) for n, text in enumerate(texts)]
    scores = quality({(f"d{n}", 1): float(n) for n in range(len(texts))})
    for most, places in ((5, "01346"), (6, "012346"), (20, "0123456")):
        result = triage(scores, talked, most)
        assert result is not None
        assert [bad.dialogue_id for bad in result.worst] == [f"d{place}" for place in places]


def test_of_many_dialogues_faults_are_looked_for_in_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dialeval.studies.triage.MOST_SEARCHED", 50)
    talked = [chat(f"d{n:03}", "Hi", "") for n in range(120)]
    result = triage(quality({(one.id, 1): 1.0 for one in talked}), talked, find_faults=RULES)
    assert result is not None and len(result.worst) == MOST
    assert {one.read for one in result.failures} == {40}
    table = failure_table(result)
    assert table is not None and "Looked for in 40 of 120 replies" in table.notes[1]


def test_clustered_mean_is_the_t_interval_where_each_dialogue_has_one_turn() -> None:
    from scipy import stats

    values = np.random.default_rng(0).normal(size=40)
    mine = clustered_mean(values, np.arange(40))
    theirs = stats.t.interval(0.95, 39, values.mean(), stats.sem(values))
    assert (mine.low, mine.high) == pytest.approx(theirs)
    assert clustered_mean(np.array([np.nan]), np.array([0])).reason == "nothing scored"
    assert clustered_mean(np.array([1.0, 3.0]), np.array([0, 0])).reason == "one dialogue"


def test_clustered_mean_agrees_with_the_bootstrap_over_dialogues() -> None:
    random_numbers = np.random.default_rng(1)
    clusters = np.repeat(np.arange(300), random_numbers.integers(1, 9, 300))
    values = random_numbers.normal(size=300)[clusters] + random_numbers.normal(size=clusters.size)
    values[::17] = np.nan
    mine, drawn = (
        clustered_mean(values, clusters),
        statistics.bootstrap_means(values, clusters, resamples=4_000),
    )
    naive = 1.96 * float(np.nanstd(values)) / clusters.size**0.5
    assert mine.value == pytest.approx(drawn.value)
    assert mine.n == drawn.n
    assert mine.low is not None and mine.value is not None and drawn.low is not None
    assert mine.low == pytest.approx(drawn.low, abs=0.02)
    assert mine.high == pytest.approx(drawn.high, abs=0.02)
    assert mine.value - mine.low > 1.4 * naive  # turns of one dialogue are not new evidence


def test_clustered_difference_agrees_with_the_bootstrap_over_dialogues() -> None:
    random_numbers = np.random.default_rng(2)
    clusters = np.repeat(np.arange(300), 5)
    here = random_numbers.random(clusters.size) < 0.3
    values = random_numbers.normal(size=300)[clusters] + random_numbers.normal(size=clusters.size) - here

    def difference(rows: np.ndarray) -> float:  # type: ignore[type-arg]
        return float(rows[rows[:, 1] == 1, 0].mean() - rows[rows[:, 1] == 0, 0].mean())

    mine = clustered_difference(values, here, clusters)
    rows = np.column_stack([values, here])
    drawn = statistics.bootstrap_statistic(rows, difference, clusters, resamples=400)
    assert mine.value == pytest.approx(drawn.value)
    assert mine.low == pytest.approx(drawn.low, abs=0.03)
    assert mine.high == pytest.approx(drawn.high, abs=0.03)
    assert clustered_difference(values, here | True, clusters).reason == "nothing to compare with"


def test_the_score_over_the_replies_of_a_dialogue() -> None:
    values: dict[tuple[str, int], float | None] = {("a", turn): float(turn) for turn in range(1, 40, 2)}
    values |= {("b", 1): 3.0, ("b", 5): None}
    result = triage(quality(values), [])
    assert result is not None
    assert [one.label for one in result.by_index] == [*(str(n) for n in range(1, 15)), "15+"]
    first, second, *_, last = result.by_index
    assert (first.mean.value, first.mean.n, first.n_unscored) == (2.0, 2, 0)
    assert first.mean.low is not None
    assert (second.mean.value, second.mean.n, second.n_unscored) == (3.0, 1, 1)
    assert second.mean.reason == "one dialogue"
    assert (last.mean.value, last.mean.n) == (34.0, 6)
    assert result.failures == [] and result.worst == [] and result.dialogues == 0
    assert [row[0].text for row in index_table(result).rows] == [one.label for one in result.by_index]
    short = triage(quality({("a", n): 1.0 for n in range(15)}), [])
    assert short is not None and short.by_index[-1].label == "15"


@pytest.mark.parametrize(("of_rows", "of_text"), [("bot", None), (None, "bot"), (None, None)])
def test_a_system_named_on_one_side_only(of_rows: str | None, of_text: str | None) -> None:
    result = triage(quality({("d", 1): 1.0}, of_rows), [chat("d", "Hi", "Hello there", system=of_text)])
    assert result is not None and result.dialogues == len(result.worst) == 1


def test_answers_of_several_systems_to_one_context_are_kept_apart() -> None:
    rows = [Score("d", 1, system, "m", "quality", value) for system, value in (("x", 1.0), ("y", 0.0))]
    talked = [chat("d", "Hi", f"I am {system}.", system=system) for system in ("x", "y")]
    result = triage(Scores.of(rows), [*talked, *talked])
    assert result is not None
    assert [(bad.system, bad.turns[-1].text) for bad in result.worst] == [("y", "I am y."), ("x", "I am x.")]
    assert result.dialogues == 2
    unclear = triage(Scores.of(rows), [chat("d", "Hi", "I am?", system=None)])
    assert unclear is not None and unclear.dialogues == 0


def test_a_dialogue_of_fifty_thousand_turns_is_read_in_one_go() -> None:
    draw = random.Random(7)
    words = [f"word{n}" for n in range(3_000)] + ["the", "a", "you", "not", "is", "I"] * 500

    def long(turns: int) -> tuple[Scores, Dialogue]:
        texts = [" ".join(draw.choices(words, k=12)) + draw.choice(".?!") for _ in range(turns)]
        said = chat("long", *texts)
        return quality({("long", n): draw.random() for n in range(1, turns, 2)}), said

    taken = []
    for turns in (5_000, 50_000):
        scores, said = long(turns)
        began = time.process_time()
        result = triage(scores, [said], find_faults=RULES)
        taken.append(time.process_time() - began)
        assert result is not None and len(result.worst) == EACH
        assert max(failure.read for failure in result.failures) == turns // 2
    assert taken[1] < 25 * max(taken[0], 0.1)  # 10 if linear, 100 if quadratic


def test_a_turn_of_a_million_characters_is_looked_at_in_part() -> None:
    said = chat("d", "a " * 500_000 + "?", "b, " * 300_000, "((((" * 200_000)
    began = time.process_time()
    result = triage(quality({("d", 1): 0.0}), [said], find_faults=RULES)
    assert time.process_time() - began < 20  # measured: 1 to 2 s; minutes if all of it is looked at
    assert result is not None
    assert sum(len(turn.text) for turn in result.worst[0].turns) == 3 * MOST_CHARACTERS


def test_rules_point_at_what_people_call_breakdowns(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIALEVAL_DATA", str(data_folder))
    given: dict[tuple[str, int | None, str | None], list[float]] = defaultdict(list)
    for row in public_set("dbdc3").ratings():
        given[row[:3]] += [] if row.value is None else [row.value]
    rows = [Score(*key, "people", "no-breakdown", float(np.mean(values))) for key, values in given.items()]
    result = triage(Scores.of(rows), public_set("dbdc3").dialogues(), find_faults=RULES)
    assert result is not None and result.dialogues == 415
    by_name = {failure.name: failure for failure in result.failures}
    for name in ("repeats", "loop", "refusal", "empty"):
        assert by_name[f"rules/{name}"].found > 25
        assert (by_name[f"rules/{name}"].difference.high or 0) < 0, name
