"""The table: every format both ways, no NaN anywhere, means that say what they stand on."""

import json
import math
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialeval.errors import DataError, UsageError
from dialeval.scores import SCHEMA, Score, Scores, Signature, is_human

CELLS = [
    "=1+1",
    "+x",
    "-x",
    "@SUM(A1)",
    "'=x",
    "''-",
    "\t=",
    "\rx",
    'a"b',
    "a,b\r\nc",
    "\0",
    "\u2028",
    "\ufeff",
]
texts = st.one_of(st.sampled_from(CELLS), st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
signatures = st.dictionaries(st.from_regex("[a-z]{1,4}", fullmatch=True), texts, max_size=2).map(
    lambda fields: Signature.of("metric.v1", fields)
)
rows = st.builds(
    Score,
    dialogue_id=texts,
    turn=st.none() | st.integers(0, 2**31 - 1),
    system=st.none() | texts,
    source=texts,
    dimension=texts,
    value=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    note=st.none() | texts,
)


@st.composite
def tables(draw: st.DrawFn) -> Scores:
    found = draw(st.lists(rows, min_size=1, max_size=6))
    signed = {row.source: draw(signatures) for row in found if draw(st.booleans())}
    return Scores.of(found, signed)


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv"])
@settings(max_examples=60, deadline=None)
@given(table=tables())
def test_round_trip(ending: str, table: Scores) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"scores.{ending}"
        table.write(path)
        assert Scores.read(path) == table
        assert [entry.name for entry in Path(folder).iterdir()] == [path.name]


@given(table=tables())
def test_no_cell_of_a_csv_is_a_formula(table: Scores) -> None:
    import csv
    import io

    from dialeval.scores.columns import to_csv

    for record in list(csv.DictReader(io.StringIO(to_csv(table), newline="")))[:6]:
        for name, cell in record.items():
            assert name in ("turn", "value") or not cell.startswith(("=", "+", "-", "@", "\t", "\r"))


def test_a_hostile_signature_is_no_formula_either(tmp_path: Path) -> None:
    scores = Scores.of([Score("d", None, None, "s", "x", 1.0)], {"s": Signature("=HYPERLINK(1)")})
    scores.write(tmp_path / "s.csv")
    assert ",'=HYPERLINK(1)" in (tmp_path / "s.csv").read_text()
    assert Scores.read(tmp_path / "s.csv") == scores


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv"])
def test_an_empty_table_round_trips(ending: str, tmp_path: Path) -> None:
    Scores.of([]).write(tmp_path / f"s.{ending}")
    assert Scores.read(tmp_path / f"s.{ending}") == Scores.of([])


def test_a_long_note_round_trips_through_csv(tmp_path: Path) -> None:
    scores = Scores.of([Score("d", 1, None, "s", "x", None, "w" * 300_000)])
    scores.write(tmp_path / "s.csv")
    assert Scores.read(tmp_path / "s.csv") == scores


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_what_is_not_finite_is_unscored(bad: float) -> None:
    one = Scores.of([Score("d", None, None, "s", "x", bad), Score("e", None, None, "s", "x", bad, "why")])
    two = Scores.from_columns(
        [["d", "e"], [None] * 2, [None] * 2, ["s"] * 2, ["x"] * 2, [bad] * 2, [None, "why"]]
    )
    for scores in (one, two):
        assert [(row.value, row.note) for row in scores] == [(None, "not a finite number"), (None, "why")]


def test_unscored_always_says_why() -> None:
    scores = Scores.of([Score("d", None, None, "s", "x", None, note) for note in (None, "", "empty turn")])
    assert [row.note for row in scores] == ["unscored", "unscored", "empty turn"]
    assert next(iter(Scores.of([Score("d", None, None, "s", "x", 1.0, "")]))).note is None


def test_means_say_how_many_they_stand_on() -> None:
    values = [None if i < 3 else float(i) for i in range(10)]
    found = Scores.of(
        [Score(f"d{i}", None, "bot", "m", "x", value) for i, value in enumerate(values)]
        + [Score("d0", 2, "bot", "m", "x", None)]
    ).summary()
    by_level = {row["level"]: row for row in found}
    assert by_level["dialogue"]["mean"] == 6.0
    assert (by_level["dialogue"]["n"], by_level["dialogue"]["n_unscored"]) == (7, 3)
    assert by_level["turn"]["mean"] is None
    assert (by_level["turn"]["n"], by_level["turn"]["n_unscored"]) == (0, 1)
    assert Scores.of([]).summary() == []


def foreign(path: Path, **columns: object) -> Path:
    base = {
        "note": pa.array([None], pa.string()),
        "value": [1.0],
        "dialogue_id": ["d"],
        "turn": pa.array([None], pa.int64()),
        "system": pa.array([None], pa.string()),
        "source": ["s"],
        "dimension": ["x"],
    }
    pq.write_table(pa.table({**base, **columns}), path)
    return path


def test_parquet_made_elsewhere(tmp_path: Path) -> None:
    path = foreign(
        tmp_path / "s.parquet",
        value=pa.array([math.nan], pa.float32()),
        dialogue_id=pa.array(["d"]).dictionary_encode(),
        turn=pa.array([3], pa.int64()),
        extra=["more"],
    )
    scores = Scores.read(path)
    assert scores.table.schema == SCHEMA
    assert list(scores) == [Score("d", 3, None, "s", "x", None, "not a finite number")]
    assert Scores.read(foreign(tmp_path / "n.parquet", dialogue_id=[7])) == Scores.of(
        [Score("7", None, None, "s", "x", 1.0)]
    )


@pytest.mark.parametrize(
    "columns",
    [
        {"value": ["high"]},
        {"value": [[1.0]]},
        {"dialogue_id": pa.array([None], pa.string())},
        {"turn": [2**40]},
        {"turn": [1.5]},
        {"source": [{"a": 1}]},
    ],
)
def test_parquet_with_wrong_columns_names_the_file(columns: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"s\.parquet"):
        Scores.read(foreign(tmp_path / "s.parquet", **columns))


def test_parquet_that_lacks_a_column_or_has_it_twice(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["d"], "score": [1.0]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a.parquet: dialogue_id: no column .* --map"):
        Scores.read(tmp_path / "a.parquet")
    table = pq.read_table(foreign(tmp_path / "b.parquet"))
    twice = pa.Table.from_arrays([*table.columns, table["value"]], names=[*table.column_names, "value"])
    pq.write_table(twice, tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"b.parquet: .*value"):
        Scores.read(tmp_path / "b.parquet")


@pytest.mark.parametrize("packed", [b"[", b"[]", b'{"signatures": []}', b'{"signatures": {"s": "x|y"}}'])
def test_parquet_with_broken_signatures(packed: bytes, tmp_path: Path) -> None:
    table = Scores.of([Score("d", None, None, "s", "x", 1.0)]).table
    pq.write_table(table.replace_schema_metadata({b"dialeval": packed}), tmp_path / "s.parquet")
    with pytest.raises(DataError, match=r"s.parquet: the signatures"):
        Scores.read(tmp_path / "s.parquet")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"hello", b"\x1f\x8bno", b"\x1f\x8b\x08" + b"\0" * 30])
def test_no_parquet(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "s.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"s.parquet: (not a Parquet file|the compressed file is broken)"):
        Scores.read(tmp_path / "s.parquet")


def test_unknown_endings_are_refused(tmp_path: Path) -> None:
    for name in ("scores.xlsx", "scores"):
        with pytest.raises(UsageError, match=r"\.parquet, \.jsonl or \.csv"):
            Scores.of([]).write(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_standard_output_is_jsonl(capsys: pytest.CaptureFixture[str]) -> None:
    Scores.of([Score("d", 1, None, "s", "x", 0.5)]).write("-")
    assert json.loads(capsys.readouterr().out)["value"] == 0.5


def test_a_piped_table_is_read_by_its_first_character(tmp_path: Path) -> None:
    scores = Scores.of([Score("d", 1, None, "s", "x", 0.5)])
    scores.write(tmp_path / "a.jsonl")
    scores.write(tmp_path / "a.csv")
    for ending in ("jsonl", "csv"):
        (tmp_path / "table").write_bytes((tmp_path / f"a.{ending}").read_bytes())
        assert list(Scores.read(tmp_path / "table")) == list(scores)


def test_concat_refuses_two_signatures_for_one_source() -> None:
    row = Score("d", None, None, "bleu", "x", 1.0)
    one, two = (Scores.of([row], {"bleu": Signature.of("bleu.v1", {"order": n})}) for n in (2, 4))
    assert len(Scores.concat([one, one])) == 2
    with pytest.raises(DataError, match=r"two signatures for the source 'bleu': bleu.v1\|order:2 and"):
        Scores.concat([one, two])
    assert Scores.concat([]) == Scores.of([])
    both = Scores.concat([one, two.renamed("bleu4")])
    assert {name: str(made) for name, made in both.signatures.items()} == {
        "bleu": "bleu.v1|order:2",
        "bleu4": "bleu.v1|order:4",
    }


def test_renamed() -> None:
    scores = Scores.of([Score("d", None, None, "a", "x", 1.0), Score("d", None, None, "a", "y", 2.0)])
    assert scores.renamed("b").sources == ["b"]
    assert scores.renamed("b").signatures == {}
    assert Scores.of([]).renamed("b") == Scores.of([])
    two = Scores.concat([scores, scores.renamed("b")])
    with pytest.raises(DataError, match="more than one source"):
        two.renamed("c")


def test_where_and_duplicates() -> None:
    scores = Scores.of(
        [
            Score("d", None, "A", "m", "x", 1.0),
            Score("d", 1, "A", "m", "x", 2.0),
            Score("d", 1, None, "human:u", "y", 3.0),
            Score("d", 1, "B", "m", "x", 4.0),
            Score("d", None, None, "human:u", "y", None),
        ],
        {"m": Signature("m.v1")},
    )
    assert scores.sources == ["m", "human:u"]
    assert scores.dimensions == ["x", "y"]
    assert [row.value for row in scores.where(source="m", level="turn")] == [2.0, 4.0]
    assert [row.value for row in scores.where(system="A", dimension="x")] == [1.0, 2.0]
    assert scores.where(source=is_human).signatures == {}
    assert len(scores.where(source=lambda name: False)) == 0
    assert scores.where() == scores
    assert scores.duplicates() == [], "two systems answered one context"
    again = Scores.concat([scores, Scores.of([Score("d", 1, "B", "m", "x", 5.0)])])
    assert again.duplicates() == [("d", 1, "m", "x")]


def test_iteration_keeps_order_over_many_batches() -> None:
    scores = Scores.of(Score(f"d{i}", i, None, "m", "x", float(i)) for i in range(140_000))
    assert [row.turn for row in scores] == list(range(140_000))
