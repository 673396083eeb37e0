"""From rows to aligned arrays, and the parts of them that `--where` keeps."""

import numpy as np
import pytest

from dialeval.errors import DataError, UsageError
from dialeval.scores import Score, Scores
from dialeval.studies import Units, align
from dialeval.studies.units import Column, Key, human_columns, mean_over, where


def table(*rows: tuple[object, ...]) -> Scores:
    """Rows of (dialogue, turn, system, source, value)."""
    return Scores.of([Score(d, t, s, source, "x", v) for d, t, s, source, v in rows])  # type: ignore[arg-type]


TURNS = table(
    ("d1", 3, "A", "m", 4.0),
    ("d1", 1, "A", "m", 1.0),
    ("d1", 5, "A", "m", 10.0),
    ("d1", 7, "A", "m", None),
    ("d2", 1, "B", "m", None),
)


@pytest.mark.parametrize(
    ("aggregate", "value"), [("mean", 5.0), ("min", 1.0), ("max", 10.0), ("last", 10.0), ("median", 4.0)]
)
def test_turns_become_a_dialogue(aggregate: str, value: float) -> None:
    units = align(TURNS, "dialogue", aggregate)
    assert units.keys == (Key("d1", "A"), Key("d2", "B"))
    np.testing.assert_array_equal(units.columns[Column("m", "x")], [value, np.nan])


def test_turns_are_sorted_and_missing_is_nan() -> None:
    units = align(TURNS, "turn")
    assert [key.turn for key in units.keys] == [1, 3, 5, 7, 1]
    np.testing.assert_array_equal(units.columns[Column("m", "x")], [1, 4, 10, np.nan, np.nan])
    assert units.clusters.tolist() == [0, 0, 0, 0, 1]


def test_the_order_of_rows_changes_nothing() -> None:
    mixed = Scores(TURNS.table.take([4, 2, 0, 3, 1]))
    for level in ("turn", "dialogue", "system"):
        one, two = align(TURNS, level), align(mixed, level)
        assert one.keys == two.keys
        np.testing.assert_array_equal(*(u.columns[Column("m", "x")] for u in (one, two)))


def test_a_sources_own_dialogue_rows_come_first() -> None:
    scores = Scores.concat([TURNS, table(("d1", None, "A", "m", 0.5), ("d1", 1, "A", "n", 3.0))])
    units = align(scores, "dialogue")
    assert dict(zip(units.keys, units.columns[Column("m", "x")], strict=True))[Key("d1", "A")] == 0.5
    assert dict(zip(units.keys, units.columns[Column("n", "x")], strict=True))[Key("d1", "A")] == 3.0


def test_columns_without_turns_are_not_there_at_turn_level() -> None:
    scores = Scores.concat([TURNS, table(("d1", None, "A", "whole", 0.5))])
    assert list(align(scores, "turn").columns) == [Column("m", "x")]


def test_systems_are_means_of_their_dialogues() -> None:
    scores = table(
        ("d1", 1, "A", "m", 1.0),
        ("d1", 3, "A", "m", 1.0),
        ("d1", 5, "A", "m", 1.0),
        ("d2", 1, "A", "m", 4.0),
        ("d3", None, "A", "m2", None),
        ("d4", 1, "B", "m", None),
        ("d5", 1, None, "m", 100.0),
    )
    units = align(scores, "system")
    assert units.keys == (Key("A", "A"), Key("B", "B"))
    np.testing.assert_array_equal(units.columns[Column("m", "x")], [2.5, np.nan])
    assert units.clusters.tolist() == [0, 1]


def test_a_missing_system_is_taken_from_the_dialogue() -> None:
    scores = table(("d1", 1, "A", "m", 1.0), ("d1", 1, None, "human:u", 5.0), ("d9", 1, None, "m", 2.0))
    units = align(scores, "turn")
    assert units.keys == (Key("d1", "A", 1), Key("d9", None, 1))
    np.testing.assert_array_equal(units.columns[Column("human:u", "x")], [5.0, np.nan])


def test_an_unclear_system_is_an_error() -> None:
    scores = table(("d1", 1, "A", "m", 1.0), ("d1", 1, "B", "m", 1.0), ("d1", 1, None, "human:u", 5.0))
    with pytest.raises(DataError, match=r"system: human:u: dialogue 'd1' was answered by 2 systems"):
        align(scores, "turn")


def test_two_systems_in_the_same_context_are_two_units_of_one_cluster() -> None:
    rows = [("d1", 1, "A", "m", 1.0), ("d1", 1, "B", "m", 2.0), ("d2", 1, "B", "m", 2.0)]
    units = align(table(*rows), "turn")
    assert units.keys == (Key("d1", "A", 1), Key("d1", "B", 1), Key("d2", "B", 1))
    assert units.clusters.tolist() == [0, 0, 1]


@pytest.mark.parametrize(("turn", "place"), [(1, "d1, turn 1"), (None, "d1")])
def test_a_unit_scored_twice_is_an_error(turn: int | None, place: str) -> None:
    with pytest.raises(DataError, match=f"m scores {place} twice in 'x'"):
        align(table(("d1", turn, "A", "m", 1.0), ("d1", turn, None, "m", 2.0)), "dialogue")


def test_nothing_at_all() -> None:
    for level in ("turn", "dialogue", "system"):
        units = align(Scores.of([]), level)
        assert len(units) == 0
        assert units.clusters.size == 0
        assert units.columns == {}


def test_unknown_choices() -> None:
    with pytest.raises(UsageError, match="no level 'word'; known: turn, dialogue, system"):
        align(TURNS, "word")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no aggregate 'sum'"):
        align(TURNS, "dialogue", "sum")


def test_raters_are_averaged_over_those_who_rated() -> None:
    scores = table(
        ("d1", None, "A", "human:a", 1.0),
        ("d1", None, "A", "human:b", 4.0),
        ("d2", None, "A", "human:b", 3.0),
        ("d3", None, "A", "human:a", None),
        ("d3", None, "A", "humanoid", 9.0),
    )
    units = align(scores, "dialogue")
    raters = human_columns(units, "x")
    assert raters == [Column("human:a", "x"), Column("human:b", "x")]
    np.testing.assert_array_equal(mean_over(units, raters), [2.5, 3.0, np.nan])
    assert np.isnan(mean_over(units, [])).all()


def small() -> Units:
    keys = (Key("d1", "A", 1), Key("d1", "A", 3), Key("d2", "B", 1), Key("d3", None, 2))
    columns = {
        Column("bleu", "s"): np.array([0.0, 1.0, 2.0, np.nan]),
        Column("judge", "overall"): np.array([1.0, 2.0, 3.0, 4.0]),
        Column("judge", "fluent"): np.array([5.0, -1.0, 5.0, 5.0]),
    }
    return Units("turn", keys, columns)


@pytest.mark.parametrize(
    ("conditions", "kept"),
    [
        ("bleu<1", [0]),
        ("bleu <= 1", [0, 1]),
        ("bleu!=1", [0, 2]),
        ("bleu/s>=1", [1, 2]),
        ("judge/fluent=-1", [1]),
        ("judge/overall > 1 and judge/overall<4", [1, 2]),
        ("system=A", [0, 1]),
        ("system = 'A' and turn>=3", [1]),
        ("system!=A", [2]),
        ("dialogue==d2", [2]),
        ("dialogue!=*2", [0, 1, 3]),
        ("dialogue=d*", [0, 1, 2, 3]),
        ("system=*A*", [0, 1]),
        ("system=.", []),
        ("turn<3", [0, 2, 3]),
        ("gold>2e0", [3]),
        ("bleu>100", []),
    ],
)
def test_where(conditions: str, kept: list[int]) -> None:
    gold = np.array([1.0, np.nan, 2.0, 3.0])
    assert np.flatnonzero(where(small(), conditions, gold)).tolist() == kept


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ("", "expected for example"),
        ("bleu", "expected for example"),
        ("bleu<", "expected for example"),
        ("bleu<low", "'low' is not a number"),
        ("rouge<1", "no column 'rouge'; there are: bleu, judge/overall, judge/fluent"),
        ("judge<1", "no column 'judge'"),
        ("gold<1", "no column 'gold'"),
        ("bleu<1 or turn>2", "is not a number"),
    ],
)
def test_where_says_what_is_wrong(conditions: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        where(small(), conditions)


def test_a_dialogue_has_no_turn_to_ask_for() -> None:
    with pytest.raises(UsageError, match="a dialogue has no turn; use --level turn"):
        where(align(TURNS, "dialogue"), "turn>1")


def test_rounding_breaks_no_ties() -> None:
    """Ratings with the same sum are the same mean, in whatever order they are added up."""
    rows = [
        ("d1", None, None, "human:a", 0.1),
        ("d1", None, None, "human:b", 0.2),
        ("d1", None, None, "human:c", 0.3),
    ]
    rows += [
        ("d2", None, None, "human:a", 0.3),
        ("d2", None, None, "human:b", 0.2),
        ("d2", None, None, "human:c", 0.1),
    ]
    units = align(table(*rows), "dialogue")
    gold = mean_over(units, human_columns(units, "x"))
    assert gold[0] == gold[1]


@pytest.mark.parametrize("size", [1e-59, 1e-9, 1.0, 1e9, 1e59])
def test_means_of_any_size_keep_their_digits(size: float) -> None:
    units = align(table(*((f"d{i}", None, None, "human:u", i / 7 * size) for i in range(8))), "dialogue")
    gold = mean_over(units, human_columns(units, "x"))
    np.testing.assert_allclose(gold, [i / 7 * size for i in range(8)], rtol=1e-12)
