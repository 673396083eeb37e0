"""Other people's score columns, good and bad."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dialeval.errors import DataError, UsageError
from dialeval.scores import ColumnMap, Score, Scores, read_columns

MAP = ColumnMap(id="conversation", value="score")


def csv_file(path: Path, *lines: str) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def jsonl_file(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_parse() -> None:
    path, columns = ColumnMap.parse("judge.csv:id=conversation,value=score,source=gpt-4")
    assert path == "judge.csv"
    assert columns == ColumnMap(id="conversation", value="score", source="gpt-4")
    path, columns = ColumnMap.parse(r"C:\data\a:b.csv:id=x,value=a=b,turn=t,rater=who,system=bot:2")
    assert path == r"C:\data\a:b.csv"
    assert (columns.value, columns.turn, columns.rater, columns.system) == ("a=b", "t", "who", "bot:2")


@pytest.mark.parametrize(
    "text",
    [
        "judge.csv",
        "judge.csv:",
        ":id=a,value=b",
        "judge.csv:id=a",
        "j.csv:id=a,value=b,colour=c",
        "j.csv:id=,value=b",
    ],
)
def test_parse_says_what_it_expects(text: str) -> None:
    with pytest.raises(UsageError, match="expected FILE:id=COLUMN,value=COLUMN"):
        ColumnMap.parse(text)


def test_names_come_from_the_file_by_default(tmp_path: Path) -> None:
    path = csv_file(
        tmp_path / "judge.csv", "conversation,score", "d1,4", "d2,N/A", "d3,", "d4,nan", "d5,-inf"
    )
    assert list(read_columns(path, MAP)) == [
        Score("d1", None, None, "judge", "score", 4.0),
        Score("d2", None, None, "judge", "score", None, "N/A"),
        Score("d3", None, None, "judge", "score", None, "missing"),
        Score("d4", None, None, "judge", "score", None, "not a finite number: nan"),
        Score("d5", None, None, "judge", "score", None, "not a finite number: -inf"),
    ]


def test_a_name_is_a_column_if_there_is_one_and_itself_if_not(tmp_path: Path) -> None:
    path = csv_file(
        tmp_path / "a.csv", "conversation,score,model,aspect,bot", "d1,4,m1,fluent,s1", "d2,3,m2,dull,"
    )
    columns = ColumnMap(id="conversation", value="score", source="model", dimension="aspect", system="bot")
    assert [row[2:5] for row in read_columns(path, columns)] == [
        ("s1", "m1", "fluent"),
        (None, "m2", "dull"),
    ]
    literal = ColumnMap(id="conversation", value="score", source="gpt-4", dimension="overall", system="mybot")
    assert {row[2:5] for row in read_columns(path, literal)} == {("mybot", "gpt-4", "overall")}


def test_raters_turns_and_falsy_names(tmp_path: Path) -> None:
    columns = ColumnMap(id="conversation", value="score", turn="t", rater="who", system="bot")
    path = jsonl_file(
        tmp_path / "r.jsonl",
        {"conversation": 0, "score": 1, "who": 0, "bot": 0, "t": 0},
        {"conversation": "d", "score": True, "who": "anna", "bot": None, "t": 2.0},
        {"conversation": "d", "score": "3", "who": "", "t": "4"},
    )
    assert list(read_columns(path, columns)) == [
        Score("0", 0, "0", "human:0", "score", 1.0),
        Score("d", 2, None, "human:anna", "score", 1.0),
        Score("d", 4, None, "human", "score", 3.0),
    ]


def test_the_first_line_may_lack_a_field(tmp_path: Path) -> None:
    columns = ColumnMap(id="conversation", value="score", turn="turn", note="why")
    path = jsonl_file(
        tmp_path / "r.jsonl",
        {"conversation": "d", "score": 1},
        {"conversation": "d", "score": 2, "turn": 3, "why": "long"},
    )
    assert [(row.turn, row.value, row.note) for row in read_columns(path, columns)] == [
        (None, 1.0, None),
        (3, 2.0, "long"),
    ]
    own = jsonl_file(
        tmp_path / "own.jsonl",
        {"dialogue_id": "d", "value": 1},
        {"dialogue_id": "d", "value": 2, "turn": 3, "source": "m"},
    )
    assert [(row.turn, row.source) for row in Scores.read(own)] == [(None, "own"), (3, "m")]


def test_scores_read_other_columns_by_name(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "people.csv", "conversation,stars,who", "d1,4,ann")
    (row,) = Scores.read(path, "id=conversation,value=stars,rater=who")
    assert (row.dialogue_id, row.source, row.dimension, row.value) == ("d1", "human:ann", "stars", 4.0)
    with pytest.raises(DataError, match=r"people.csv:id=conversation,value=stars; in Python: columns="):
        Scores.read(path)


@pytest.mark.parametrize("field", ["id", "value", "turn", "rater"])
def test_a_wrong_column_names_file_field_and_columns(field: str, tmp_path: Path) -> None:
    path = csv_file(tmp_path / "judge.csv", "conversation,score", "d1,4")
    columns = ColumnMap(**{"id": "conversation", "value": "score", field: "nope"})
    with pytest.raises(
        DataError, match=r"judge.csv: nope: no such column; the file has: conversation, score"
    ):
        read_columns(path, columns)


def test_a_column_without_a_number_is_the_wrong_one(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "judge.csv", "conversation,score", "d1,good", "d2,bad")
    with pytest.raises(DataError, match=r"judge.csv: score: no number in this column"):
        read_columns(path, MAP)


@pytest.mark.parametrize("turn", ["1.5", "-1", "two", "inf", "nan", "2147483648"])
def test_a_turn_that_is_none(turn: str, tmp_path: Path) -> None:
    path = csv_file(tmp_path / "a.csv", "conversation,score,turn", "d0,1,0", f"d1,4,{turn}")
    with pytest.raises(DataError, match=r"a.csv:3: turn: not a turn number"):
        read_columns(path, ColumnMap(id="conversation", value="score", turn="turn"))


def test_a_row_without_an_id(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "a.csv", "conversation,score", "d0,1", ",4")
    with pytest.raises(DataError, match=r"a.csv:3: conversation: no dialogue id"):
        read_columns(path, MAP)


def test_gzip_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    content = "\ufeffconversation,score\r\nd1,4\r\n\r\nd2,5\r\n".encode()
    (tmp_path / "a.csv").write_bytes(content)
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(content))
    (tmp_path / "c.jsonl").write_bytes(b'\xef\xbb\xbf{"conversation": "d1", "score": 4}\r\n\r\n')
    assert [row[0] for row in read_columns(tmp_path / "a.csv", MAP)] == ["d1", "d2"]
    assert [row[0] for row in read_columns(tmp_path / "b.csv.gz", MAP)] == ["d1", "d2"]
    assert [row[0] for row in read_columns(tmp_path / "c.jsonl", MAP)] == ["d1"]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_nothing_in_it(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_text("")
    assert len(read_columns(path, MAP)) == len(Scores.read(path)) == 0
    csv_file(tmp_path / "b.csv", "conversation,score")
    assert len(read_columns(tmp_path / "b.csv", MAP)) == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"conversation,score\nd1,4,5\n", "a.csv:2: not as many cells"),
        ("a.csv", b"conversation,score\nd1\n", "a.csv:2: not as many cells"),
        ("a.csv", b'conversation,score\n"d1,4\n', "a.csv:2: not CSV"),
        ("a.csv", "conversation,score\ncaf\u00e9,4\n".encode("latin-1"), "a.csv: cannot be read as UTF-8"),
        (
            "a.csv.gz",
            gzip.compress(b"conversation,score\nd1,4\n" * 99, mtime=0)[:40],
            "a.csv.gz: the compressed file is broken",
        ),
        (
            "a.csv.gz",
            b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff\xff",
            "a.csv.gz: the compressed file is broken",
        ),
        ("a.jsonl", b'{"conversation": "d", "score": 1}\n{"conv', "a.jsonl:2: not JSON"),
        (
            "a.jsonl",
            b'{"conversation": "d", "score": 1, "score": 5}',
            "a.jsonl:1: the key 'score' stands there twice",
        ),
        ("a.jsonl", b"[1, 2]\n", "a.jsonl:1: not a JSON object"),
        (
            "a.jsonl",
            b'{"conversation": "d", "score": ' + b"1" * 5000 + b"}",
            "a.jsonl:1: a number of more than",
        ),
        ("a.jsonl", b"[" * 200_000, "a.jsonl:1: nested too deeply"),
        ("a.parquet", b"conversation,score\nd1,4\n", "a.parquet: not a Parquet file"),
    ],
)
def test_broken_files_are_named(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_columns(tmp_path / name, MAP)


def test_a_folder_and_nothing_at_all(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="this is a folder"):
        read_columns(tmp_path, MAP)
    with pytest.raises(DataError, match=r"gone.csv: no such file"):
        read_columns(tmp_path / "gone.csv", MAP)


def test_half_a_character_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"conversation": "d\\ud800", "score": 1}\n{"conversation": "e", "score": "x\\udfff"}\n')
    assert [(row[0], row.note) for row in read_columns(path, MAP)] == [("d\ufffd", None), ("e", "x\ufffd")]


def test_huge_and_odd_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"conversation": "a", "score": NaN}\n{"conversation": "b", "score": 1e999}\n'
        f'{{"conversation": "c", "score": {10**400}}}\n{{"conversation": "d", "score": [1]}}\n'
        '{"conversation": "e", "score": 1e-5}\n'
    )
    found = list(read_columns(path, MAP))
    assert [row.value for row in found] == [None, None, None, None, 1e-5]
    assert all(row.note for row in found[:4])


def test_parquet_with_foreign_columns(tmp_path: Path) -> None:
    table = pa.table({"conversation": [1, 2], "score": pa.array([0.5, float("nan")]), "turn": [3, 4]})
    pq.write_table(table, tmp_path / "a.parquet")
    found = list(
        read_columns(tmp_path / "a.parquet", ColumnMap(id="conversation", value="score", turn="turn"))
    )
    assert [row[:2] for row in found] == [("1", 3), ("2", 4)]
    assert [row.value for row in found] == [0.5, None]


def test_a_foreign_column_is_signed_with_its_file_and_people_are_not(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "judge.csv", "conversation,score", "d1,4")
    signature = str(read_columns(path, MAP).signatures["judge"])
    assert signature.startswith("column.v1|file:judge.csv|sha256:")
    assert signature.endswith("|id:conversation|value:score")
    other = read_columns(csv_file(tmp_path / "judge.csv", "conversation,score", "d1,5"), MAP)
    assert str(other.signatures["judge"]) != signature

    ratings = ColumnMap(id="conversation", value="score", rater="who")
    parts = [
        read_columns(csv_file(tmp_path / f"{name}.csv", "conversation,score,who", f"{name},4,anna"), ratings)
        for name in ("monday", "tuesday")
    ]
    assert Scores.concat(parts).sources == ["human:anna"]
    assert Scores.concat(parts).signatures == {}


def test_two_signatures_for_one_source_in_one_file(tmp_path: Path) -> None:
    path = jsonl_file(
        tmp_path / "a.jsonl",
        {"dialogue_id": "d", "value": 1, "source": "m", "signature": "m.v1|a:1"},
        {"dialogue_id": "e", "value": 1, "source": "m", "signature": "m.v1|a:2"},
    )
    with pytest.raises(DataError, match=r"a.jsonl:2: signature: two signatures"):
        Scores.read(path)


def test_a_column_that_stands_there_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,score,score\na,1,2\n")
    with pytest.raises(DataError, match=r"x\.csv:1: score: duplicate column"):
        read_columns(tmp_path / "x.csv", ColumnMap("id", "score"))


@pytest.mark.parametrize("cell", ["1_0", "\uff11\uff10", "\u0663"])
def test_what_only_python_takes_for_a_number_is_none(tmp_path: Path, cell: str) -> None:
    path = csv_file(tmp_path / "judge.csv", "conversation,score", f"d1,{cell}", "d2,4")
    row, _ = read_columns(path, MAP)
    assert (row.value, row.note) == (None, cell)
    with pytest.raises(DataError, match="not a turn number"):
        Scores.read(
            csv_file(tmp_path / "a.csv", "dialogue_id,turn,source,dimension,value", f"d,{cell},m,x,1")
        )
