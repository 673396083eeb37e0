"""One door: whatever holds dialogues is opened the same way, by every command and in Python."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dialeval
from dialeval.dialogues import dialogue, formats
from dialeval.dialogues.formats import read, write
from dialeval.errors import DataError, UsageError
from dialeval.jobs.batch.batch import prepare
from dialeval.jobs.scoring import score_to

MESSAGES = [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello there!"}]


def chat(name: str, text: str = "Hello!") -> dialeval.Dialogue:
    return dialogue([("user", "Hi!"), ("assistant", text)], name, system="bot")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with two files of dialogues and one public set."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path / "data"))
    (tmp_path / "logs" / "june").mkdir(parents=True)
    write([chat("a1"), chat("a2")], "logs/may.jsonl")
    write([chat("b1")], "logs/june/first.parquet")
    (tmp_path / "logs" / "_draft.jsonl").write_text("no dialogue")
    (tmp_path / "logs" / "README.txt").write_text("no dialogue either")
    record = {"context": "User: Hi!\nSystem: Hello!", "annotations": {"Overall": [4]}, "system": "Meena"}
    (tmp_path / "data" / "fed").mkdir(parents=True)
    (tmp_path / "data" / "fed" / "fed_data.json").write_text(json.dumps([record]))
    return tmp_path


def ids(source: Any, **more: Any) -> list[str]:
    return [one.id for one in read(source, **more)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("logs/may.jsonl", ["a1", "a2"]),
        (Path("logs/may.jsonl"), ["a1", "a2"]),
        (["logs/june/first.parquet", "logs/may.jsonl"], ["b1", "a1", "a2"]),
        ("logs", ["b1", "a1", "a2"]),
        ("logs/m*.jsonl", ["a1", "a2"]),
        ("logs/**/*.parquet", ["b1"]),
        ("file://{here}/logs/may.jsonl", ["a1", "a2"]),
        ("fed", ["fed-d-e3720753ccc3"]),
        ("fed/test", ["fed-d-e3720753ccc3"]),
        ("set:fed", ["fed-d-e3720753ccc3"]),
        (["logs/may.jsonl", "fed"], ["a1", "a2", "fed-d-e3720753ccc3"]),
        ([chat("x")], ["x"]),
        (chat("x"), ["x"]),
        ({"id": "x", "messages": MESSAGES}, ["x"]),
        ([{"id": "x", "messages": MESSAGES}, {"id": "y", "conversations": []}], ["x", "y"]),
        (MESSAGES, ["287c311de92653a6"]),
        ([MESSAGES, MESSAGES], ["287c311de92653a6", "287c311de92653a6-2"]),
        ([("user", "Hi!"), ("assistant", "Hello there!")], ["287c311de92653a6"]),
        ([], []),
    ],
)
def test_every_kind_of_source(here: Path, source: Any, expected: list[str]) -> None:
    named = source.format(here=here) if isinstance(source, str) else source
    assert ids(named) == expected


def test_read_in_python_is_the_door_of_the_commands() -> None:
    assert dialeval.read is formats.read


def test_run_folder_and_finished_batch_are_what_they_scored(here: Path) -> None:
    score_to(read("logs"), ["length"], "run")
    assert list(read("run")) == list(read("logs"))
    with prepare(["logs"], ["length"], "out") as batch:
        batch.run("local", 1)
    assert sorted(ids("out")) == sorted(ids("logs"))
    write([chat("a1"), chat("a3")], "logs/may.jsonl")
    with pytest.raises(DataError, match=r"may.jsonl: no longer what was planned"):
        ids("out")
    Path("out/_SUCCESS").unlink()
    with pytest.raises(DataError, match="this batch is not finished"):
        ids("out")


def test_a_file_called_like_a_public_set_wins_and_that_is_said(here: Path) -> None:
    write([chat("mine")], "plain.jsonl")
    Path("plain.jsonl").rename("fed")
    told: list[str] = []
    assert ids("fed", note=told.append) == ["mine"]
    assert told == ["fed: what is read is the file or folder here; set:fed is the public set"]
    with pytest.warns(UserWarning, match="set:fed is the public set"):
        assert ids("fed") == ["mine"]
    assert ids("set:fed") == ["fed-d-e3720753ccc3"]


def test_an_id_in_two_files_is_an_error_that_names_both(here: Path) -> None:
    write([chat("c1"), chat("a2")], "more.jsonl")
    with pytest.raises(
        DataError, match=r"more.jsonl:2: id: the id 'a2' was already used in logs/may.jsonl:2"
    ):
        ids(["logs/may.jsonl", "more.jsonl"])


def test_equal_dialogues_without_ids_are_counted_over_all_files(here: Path) -> None:
    for name in ("one.jsonl", "two.jsonl"):
        Path(name).write_text(json.dumps({"messages": MESSAGES}) + "\n")
    assert ids(["one.jsonl", "two.jsonl"]) == ["287c311de92653a6", "287c311de92653a6-2"]


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("nothing.jsonl", DataError, "nothing.jsonl: no such file"),
        ("*.nothing", DataError, "no dialogues in *.nothing"),
        ("set:nothing", UsageError, "no public set called 'nothing'"),
        ("fed/train", UsageError, "fed has no part 'train'"),
        ([chat("x"), "y"], UsageError, "item 1 is no Dialogue"),
        (
            [{"id": "x", "messages": []}] * 2,
            DataError,
            "the list:2: id: the id 'x' was already used in line 1",
        ),
        ([{"id": "x", "messages": "Hi"}], DataError, "the list:1: messages: a list is expected"),
        ([7], DataError, "the list:1: a JSON object is expected, not int"),
    ],
)
def test_what_cannot_be_opened(here: Path, source: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message.replace("*", r"\*")):
        ids(source)


def test_a_folder_of_transcripts(here: Path) -> None:
    Path("texts").mkdir()
    Path("texts/one.txt").write_text("User: Hi!\nSystem: Hello!\n")
    assert len(ids("texts")) == 1


# Data frames: pandas where it is installed, and whatever exports an Arrow stream

TURNS = {"conversation_id": ["x", "x", "y"], "role": ["user", "bot", "user"], "text": ["Hi!", None, "Bye!"]}


class Exporting:
    """A data frame of a library that we have never heard of: all we may use is the Arrow interface."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def arrow(columns: dict[str, Any]) -> Any:
    import pyarrow as pa

    return Exporting(pa.table(columns))


def frame(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


@pytest.mark.parametrize("made", [arrow, frame])
def test_a_table_of_turns(made: Callable[[dict[str, Any]], Any]) -> None:
    first, second = read(made(TURNS))
    assert [(turn.speaker, turn.text) for turn in first.turns] == [("user", "Hi!"), ("assistant", "")]
    assert first.turns[1].meta == {"note": "no text"}
    assert (first.id, second.id) == ("x", "y")
    renamed = {{"conversation_id": "which"}.get(name, name): cells for name, cells in TURNS.items()}
    assert ids(made(renamed), columns="id=which") == ["x", "y"]
    with pytest.raises(DataError, match="the table:1: id: no column for the id; the file has: which"):
        ids(made(renamed))


@pytest.mark.parametrize("made", [arrow, frame])
def test_a_table_of_conversations(made: Callable[[dict[str, Any]], Any]) -> None:
    calls = [*MESSAGES, {"role": "assistant", "content": "Done.", "name": "tool"}]
    found = list(read(made({"id": [1, 2], "messages": [MESSAGES, calls], "score": [0.5, None]})))
    assert [(one.id, len(one.turns), one.meta) for one in found] == [("1", 2, {"score": 0.5}), ("2", 3, {})]
    assert [(turn.meta, turn.name) for turn in found[1].turns] == [({}, None), ({}, None), ({}, "tool")]


def test_a_frame_with_dates_and_arrays_is_scored(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(
        {"messages": [MESSAGES, MESSAGES], "at": pandas.to_datetime(["2026-01-01", None])}
    )
    table.to_parquet(tmp_path / "t.parquet")  # lists come back as arrays
    again = pandas.read_parquet(tmp_path / "t.parquet")
    assert [one.meta for one in read(again[again["at"].notna()])] == [{"at": "2026-01-01T00:00:00"}]
    assert [row.value for row in dialeval.score(again, "length")] == [2.0, 2.0]


# `score` and `dialogue` in Python


def test_messages_make_a_dialogue() -> None:
    made = dialeval.dialogue(MESSAGES)
    assert [(turn.speaker, turn.text) for turn in made.turns] == [
        ("user", "Hi!"),
        ("assistant", "Hello there!"),
    ]
    assert made.id == dialeval.dialogue([("user", "Hi!"), ("assistant", "Hello there!")]).id
    shared = dialeval.dialogue([{"from": "human", "value": "Hi!"}, {"from": "gpt", "value": "Hello there!"}])
    assert shared == made


@pytest.mark.parametrize(
    "source",
    [
        MESSAGES,
        [MESSAGES],
        [{"messages": MESSAGES}],
        {"messages": MESSAGES},
        "chats.jsonl",
        Path("chats.jsonl"),
    ],
)
def test_score_takes_what_read_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Any) -> None:
    monkeypatch.chdir(tmp_path)
    write(read([{"messages": MESSAGES}]), "chats.jsonl")
    assert [row.value for row in dialeval.score(source, ["length"])] == [2.0]


def test_score_takes_one_metric_alone_and_has_a_default() -> None:
    from dialeval.metrics import build

    assert dialeval.score(MESSAGES, "length").sources == ["length"]
    assert dialeval.score(MESSAGES, build("length")).sources == ["length"]
    assert dialeval.score(MESSAGES).sources == ["quality"]


# The place of a duplicate id


@pytest.mark.parametrize("seed", ["0", "1", "2", "3"])
def test_the_line_of_a_duplicate_does_not_depend_on_the_hash_seed(tmp_path: Path, seed: str) -> None:
    names = [f"d{number}" for number in range(200)]
    rows = [json.dumps({"id": name, "messages": MESSAGES}) for name in [*names, *reversed(names)]]
    (tmp_path / "twice.jsonl").write_text("\n".join(rows))
    code = "import dialeval; list(dialeval.read('twice.jsonl'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "twice.jsonl:201: id: the id 'd199' was already used in line 200" in done.stderr


def test_a_name_that_no_file_can_have_is_refused() -> None:
    for name in ("9" * 5000, "a\0b"):
        with pytest.raises(DataError):
            list(read(name))


def test_what_is_no_dialogue_at_all_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match="cannot read dialogues from int: give a path, messages"):
        read(42)
