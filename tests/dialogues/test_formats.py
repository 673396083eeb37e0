"""Every format in, three formats out, and one clear line when a file is wrong."""

import gzip
import io
import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialeval.dialogues import Dialogue, Passage, ToolCall, Turn, dialogue, scored_turns
from dialeval.dialogues.formats import TurnColumns, read, write
from dialeval.errors import DataError

SAID = [("user", "Hi!"), ("assistant", "Hello, how are you?")]


def said(found: Dialogue) -> list[tuple[str, str]]:
    return [(turn.speaker, turn.text) for turn in found.turns]


def lines(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_our_own_jsonl(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello, how are you?"}]
    record = {
        "id": "a",
        "system": "bot",
        "messages": messages,
        "references": {"1": ["Hey!"]},
        "meta": {"x": 1},
    }
    (found,) = read(lines(tmp_path / "chats.jsonl", record))
    assert said(found) == SAID
    assert (found.id, found.system, found.references, found.meta) == ("a", "bot", {1: ["Hey!"]}, {"x": 1})


def test_openai_parts_tools_and_missing_pieces(tmp_path: Path) -> None:
    messages = [
        {"role": "system", "content": "Be kind."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "x"}}],
        },
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1"}]},
        {"role": "tool", "content": "22 degrees", "tool_call_id": "c1"},
        {"role": "assistant", "content": "It is warm."},
        {"content": "who am I?"},
    ]
    (found,) = read(lines(tmp_path / "chats.jsonl", {"messages": messages}))
    assert [turn.speaker for turn in found.turns] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "unknown",
    ]
    assert [turn.text for turn in found.turns] == [
        "Be kind.",
        "Look",
        "",
        "22 degrees",
        "It is warm.",
        "who am I?",
    ]
    assert found.turns[1].meta["parts"][0]["type"] == "image_url"
    assert (found.turns[2].meta, found.turns[2].tool_calls) == ({}, (ToolCall("", {}, "c1"),))
    assert (found.turns[3].meta, found.turns[3].tool_call_id) == ({}, "c1")
    assert scored_turns(found) == [4]
    assert found.turns[5].meta["note"] == "no role"
    assert len(found.id) == 16


def test_sharegpt_as_an_array(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "Hi!"}, {"from": "gpt", "value": "Hello, how are you?"}]
    path = tmp_path / "sharegpt.json"
    path.write_text(
        json.dumps([{"id": f"c{n}", "system": "prompt", "conversations": turns} for n in range(3)], indent=1)
    )
    found = list(read(path))
    assert [one.id for one in found] == ["c0", "c1", "c2"]
    assert said(found[0]) == SAID
    assert found[0].system is None
    assert (found[0].meta, found[0].instructions) == ({}, "prompt")


def test_array_longer_than_a_chunk_and_broken_off(tmp_path: Path) -> None:
    records = [
        {"id": str(n), "messages": [{"role": "user", "content": "ä" * (n * 997 % 9000)}]} for n in range(120)
    ]
    path = tmp_path / "array.json"
    path.write_text(json.dumps(records, ensure_ascii=False))
    assert [(one.id, len(one.turns[0].text)) for one in read(path)] == [
        (str(n), n * 997 % 9000) for n in range(120)
    ]
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match=r"array\.json:120: "):
        list(read(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[A] garbage", r"x\.json:1: item 1 of the array: after the closing \] .*'garbage'"),
        ("[A]\n[B]", "after the closing"),
        ("[A]" + " " * 100_000 + "B", "after the closing"),
        ("[,,,A]", "item 1 of the array: an item is expected, not ','"),
        ("[A,,B]", "x\\.json:2: item 2 of the array: an item is expected, not ','"),
        ("[A,]", "item 2 of the array: an item is expected, not ']'"),
        ("[A B]", "item 1 of the array: a comma or \\] is expected after it, not '{'"),
        ("[A,B", "not closed"),
    ],
)
def test_an_array_is_read_to_its_last_byte_or_refused(tmp_path: Path, content: str, message: str) -> None:
    for name in "AB":
        content = content.replace(name, json.dumps({"id": name, "messages": []}))
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(DataError, match=message):
        list(read(tmp_path / "x.json"))


def test_a_column_that_stands_there_twice_is_refused(tmp_path: Path) -> None:
    rows = "dialogue_id,speaker,text,text\na,user,Hi,Ho\n"
    (tmp_path / "x.csv").write_text(rows)
    (tmp_path / "x.tsv").write_text(rows.replace(",", "\t"))
    cells = [pa.array([cell]) for cell in ("a", "user", "Hi", "Ho")]
    pq.write_table(
        pa.Table.from_arrays(cells, ["dialogue_id", "speaker", "text", "text"]), tmp_path / "x.parquet"
    )
    for name, line in (("x.csv", ":1"), ("x.tsv", ":1"), ("x.parquet", "")):
        with pytest.raises(DataError, match=f"{name}{line}: text: duplicate column"):
            list(read(tmp_path / name))


def test_convlab_and_parlai(tmp_path: Path) -> None:
    acts = {"categorical": []}
    turns = [
        {"speaker": "user", "utterance": "Hi!", "utt_idx": 0, "dialogue_acts": acts},
        {"speaker": "system", "utterance": "Hello, how are you?", "utt_idx": 1, "dialogue_acts": acts},
    ]
    (found,) = read(
        lines(tmp_path / "a.jsonl", {"dialogue_id": "mwz-1", "domains": ["hotel"], "turns": turns})
    )
    assert (found.id, said(found), found.meta) == ("mwz-1", SAID, {"domains": ["hotel"]})
    assert found.turns[1].meta == {"dialogue_acts": acts}
    exchange = [
        {"id": "Human 1", "text": "Hi!", "episode_done": False},
        {"id": "BlenderBot", "text": "Hello, how are you?"},
    ]
    (found,) = read(lines(tmp_path / "b.jsonl", {"dialog": [exchange], "metadata_path": "x"}))
    assert said(found) == SAID


def test_parquet_with_messages_or_conversations(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello, how are you?"}]
    pq.write_table(
        pa.Table.from_pylist([{"conversation_id": "x", "model": "m", "messages": messages}]),
        tmp_path / "a.parquet",
    )
    (found,) = read(tmp_path / "a.parquet")
    assert (found.id, found.system, said(found)) == ("x", "m", SAID)
    turns = [{"from": "human", "value": "Hi!"}, {"from": "gpt", "value": "Hello, how are you?"}]
    pq.write_table(pa.Table.from_pylist([{"id": "x", "conversations": turns}]), tmp_path / "b.parquet")
    assert said(next(read(tmp_path / "b.parquet"))) == SAID


def test_turn_table_with_column_mapping(tmp_path: Path) -> None:
    path = tmp_path / "turns.csv"
    path.write_text(
        'session,who,body,mood\ns1,Human,Hi!,\ns1,bot,"Hello, how are you?",calm\ns2,Human,Bye,\n'
    )
    found = list(read(path, columns=TurnColumns(id="session", speaker="who", text="body")))
    assert [one.id for one in found] == ["s1", "s2"]
    assert said(found[0]) == SAID
    assert found[0].turns[1].meta == {"mood": "calm"}
    lacks = r"turns\.csv:1: speaker: no column for the speaker.*--columns speaker=COLUMN"
    with pytest.raises(DataError, match=lacks):
        list(read(path))


def test_rows_of_a_dialogue_that_do_not_stand_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are joined where that shows among the first rows; later, an id that comes again is refused."""
    path, notes = tmp_path / "turns.csv", list[str]()
    path.write_text(
        "dialogue_id,turn,speaker,text\na,1,system,Hello\na,0,user,Hi\nb,0,user,Hi\na,2,user,Bye\n"
    )
    first, second = read(path, note=notes.append)
    assert (first.id, second.id) == ("a", "b")
    assert [turn.text for turn in first.turns] == ["Hi", "Hello", "Bye"]
    assert notes == [f"{path}: rows of a dialogue do not stand together, joined by dialogue_id"]
    monkeypatch.setattr("dialeval.dialogues.formats.tables._AHEAD", 3)
    with pytest.raises(DataError, match=r"turns\.csv:5: id: .*already used in line 2"):
        list(read(path))


def test_plain_text(tmp_path: Path) -> None:
    path = tmp_path / "chat.txt"
    path.write_text("User: Hi!\nSystem: Hello,\nhow are you?\n\n\nHuman: One more\nBot:\n")
    first, second = read(path)
    assert said(first) == [("user", "Hi!"), ("assistant", "Hello,\nhow are you?")]
    assert said(second) == [("user", "One more"), ("assistant", "")]
    path.write_text("no speaker here\n")
    with pytest.raises(DataError, match=r"chat\.txt:1: a dialogue begins without a speaker"):
        list(read(path))


def test_gzip_bom_blank_lines_and_identical_nameless_dialogues(tmp_path: Path) -> None:
    record = json.dumps({"messages": [{"role": "user", "content": "Hi!"}]})
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + f"{record}\n\n  \n{record}\n".encode()))
    first, second = read(path)
    assert second.id == f"{first.id}-2"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(DataError, match="compressed file is broken"):
        list(read(path))


def test_unicode_is_composed_and_surrogates_replaced(tmp_path: Path) -> None:
    path = tmp_path / "u.jsonl"
    path.write_bytes(
        rb'{"id":"a","messages":[{"role":"user","content":"cafe\u0301 \ud800 \u2028 \u0000"}]}' + b"\n"
    )
    (found,) = read(path)
    assert found.turns[0].text == "café \ufffd \u2028 \x00"
    assert found.turns[0].meta == {"note": "lone surrogate replaced"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"id":"a","messages":[{"role":"us', r"x\.jsonl:1: column \d+: "),
        (b'{"id":"a","messages":[]}\n{"id":"b","messages":7}\n', r"x\.jsonl:2: messages: a list is expected"),
        (b'{"id":"a","messages":[{"role":"user","content":"\xff"}]}', r"x\.jsonl:1: not UTF-8"),
        (b'{"id":"a","messages":[]}\n{"id":"a","messages":[]}\n', r"x\.jsonl:2: id: .*used in line 1"),
        (b'{"name":"a"}\n', r"x\.jsonl:1: no known kind of dialogue"),
        (b"7\n", r"x\.jsonl:1: a JSON object is expected"),
        (b'{"id":"a","messages":["hi"]}\n', r"x\.jsonl:1: messages\[0\]: not an object"),
        (b'{"id":"a","messages":[{"role":"user","content":3}]}\n', r"messages\[0\]\.content: text expected"),
        (b'{"id":"a","messages":[],"references":{"4":["x"]}}\n', r"x\.jsonl:1: references: there is no turn"),
        (b"[" * 100_000, r"x\.jsonl:1: "),
        (b'{"id":' * 100_000, r"x\.jsonl:1: "),
    ],
)
def test_malformed_files_name_the_place(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(read(path))


def test_missing_file_folder_and_not_parquet(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        list(read(tmp_path / "none.jsonl"))
    with pytest.raises(DataError, match="no dialogues in"):
        list(read(tmp_path))
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(DataError, match="not a Parquet file"):
        list(read(tmp_path / "x.parquet"))


def test_a_duplicate_far_apart_is_found(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text("".join(f'{{"id":"d{n if n != 9000 else 3}","messages":[]}}\n' for n in range(10_000)))
    with pytest.raises(DataError, match=r"many\.jsonl:9001: id: .*line 4"):
        list(read(path))


texts = st.text(max_size=12).map(lambda text: dialogue([("user", text)]).turns[0].text)
turns = st.lists(
    st.tuples(st.sampled_from(["user", "assistant", "Alice", "=cmd"]), texts), min_size=1, max_size=4
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(turns, st.sampled_from([None, "bot", "+x"]), texts), max_size=4),
    st.sampled_from(["jsonl", "parquet", "csv"]),
)
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, drawn: list, ending: str
) -> None:
    made = [
        dialogue(said, f"'=d{n}", system=system, references={0: [text]}, meta={"about": text})
        for n, (said, system, text) in enumerate(drawn)
    ]
    path = tmp_path_factory.mktemp("written") / f"chats.{ending}"
    assert write(made, path) == len(made)
    assert list(read(path)) == made


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "csv"])
@pytest.mark.parametrize("word", ["stock", "Vorräte"])  # read fast, and with a second look
def test_all_that_a_turn_carries_is_written_and_read_back(tmp_path: Path, ending: str, word: str) -> None:
    call = ToolCall(word, {"item": "lamp", "n": [1, None]}, "c1")
    turns = [
        Turn("system", f"Be brief about {word}."),
        Turn("user", "Any lamps?", time="2026-01-01T00:00:00Z", language="en", name="Ann"),
        Turn("assistant", "", tool_calls=(call, ToolCall("raw", "{not json"))),
        Turn("tool", '{"left": 3}', {"is_error": True}, tool_call_id="c1", name=word),
        Turn("assistant", "Three.", {"x": 1}, model="m1", finish_reason="length"),
        Turn(
            "assistant", "Yes.", evidence=(Passage(word, "stock.md"),), feedback={"thumbs": 0, "rating": 4.5}
        ),
    ]
    made = dialogue(turns, "d1", instructions=word, evidence=["A policy."], feedback={"resolved": 1.0})
    write([made], tmp_path / f"x.{ending}")
    assert list(read(tmp_path / f"x.{ending}")) == [made]


def test_a_failing_write_leaves_nothing(tmp_path: Path) -> None:
    def broken():
        yield dialogue([("user", "Hi")], "a")
        raise DataError("the source broke off")

    for ending in ("jsonl", "parquet", "csv"):
        with pytest.raises(DataError, match="broke off"):
            write(broken(), tmp_path / f"x.{ending}")
    assert list(tmp_path.iterdir()) == []


NAMES = ["x.jsonl", "x.json", "x.csv", "x.tsv", "x.txt", "x.parquet", "x.jsonl.gz", "x"]
records = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "messages", "role", "content", "conversations", "from", "value", "turns", "meta"]
            )
            | st.sampled_from(["speaker", "utterance", "dialog", "text", "references", "system", "0", "1"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(NAMES))
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    path = tmp_path_factory.mktemp("bytes") / name
    path.write_bytes(content)
    try:
        assert all(isinstance(one, Dialogue) for one in read(path, note=lambda _: None))
    except DataError as error:
        assert str(path) in str(error)


@settings(max_examples=200, deadline=None)
@given(st.lists(records, max_size=3), st.booleans())
def test_any_json_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, made: list, array: bool
) -> None:
    path = tmp_path_factory.mktemp("json") / "x.json"
    path.write_text(json.dumps(made) if array else "\n".join(map(json.dumps, made)))
    try:
        found = list(read(path, note=lambda _: None))
    except DataError as error:
        assert str(path) in str(error)
        return
    for one in found:
        assert all(isinstance(turn.text, str) for turn in one.turns)
    write(found, path.with_suffix(".jsonl"))
    assert list(read(path.with_suffix(".jsonl"))) == found


@pytest.mark.parametrize("format", [None, "messages"])
def test_one_conversation_written_over_several_lines(tmp_path: Path, format: str | None) -> None:
    path = tmp_path / "one.json"
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello you"}]
    path.write_text(json.dumps({"id": "d1", "messages": said}, indent=2))
    (found,) = read(path, format)
    assert (found.id, [turn.text for turn in found.turns]) == ("d1", ["Hi", "Hello you"])


def test_an_object_of_lists_without_any_response_is_no_file_of_predictions(tmp_path: Path) -> None:
    path = tmp_path / "unknown.json"
    path.write_text(json.dumps({"events": [{"kind": "click", "page": "Hi"}]}, indent=2))
    with pytest.raises(
        DataError, match=r"unknown\.json:1: no known kind of dialogue: keys are events \(nearest is rasa"
    ):
        list(read(path))


def test_small_files_that_unpack_to_gigabytes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dialeval.files._FEW_BYTES", 1 << 16)
    monkeypatch.setattr("dialeval.files._CHUNK", 1 << 16)
    monkeypatch.setattr("dialeval.files._Packed.checked_at", 1 << 16)
    for name, piece in (("line", b"a"), ("blank", b"\n")):
        with gzip.open(tmp_path / f"{name}.jsonl.gz", "wb") as file:
            file.write(piece * (1 << 20))
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 300, pa.int32()), ["x" * (1 << 20)])
    pq.write_table(
        pa.table({"id": ["a"] * 300, "role": ["user"] * 300, "text": text}),
        tmp_path / "x.parquet",
        compression="zstd",
    )
    for name in ("line.jsonl.gz", "blank.jsonl.gz", "x.parquet"):
        with pytest.raises(DataError, match=rf"{name}: .* bytes unpack to .*DIALEVAL_MAX_RATIO"):
            list(read(tmp_path / name))
    monkeypatch.setenv("DIALEVAL_MAX_RATIO", "2000")
    assert list(read(tmp_path / "blank.jsonl.gz")) == []


def test_a_record_beyond_the_limit_is_refused_and_the_limit_can_be_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = json.dumps({"id": "a", "messages": [{"role": "user", "content": "x" * 3000}]})
    turns = "".join(f"b,user,{'y' * 400}\n" for _ in range(9))
    contents = {
        "x.jsonl": f'{{"id": "b", "messages": []}}\n{record}\n',
        "x.json": f'[{{"id": "b", "messages": []}},{record}]',
        "x.csv": f"id,role,text\na,user,Hi\n{turns}",
        "x.txt": "User: Hi\n\n" + f"User: {'y' * 400}\n" * 9,
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    rows = [{"id": "b", "messages": []}, json.loads(record)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
    monkeypatch.setattr("dialeval.dialogues.formats.reading._CHUNK", 64)
    places = {"x.jsonl": 2, "x.json": 2, "x.csv": 3, "x.txt": 3, "x.parquet": 2}
    for name, line in places.items():
        monkeypatch.setenv("DIALEVAL_MAX_RECORD", "2000")
        with pytest.raises(DataError, match=rf"{name}:{line}: a record of more than 2,000 bytes"):
            list(read(tmp_path / name))
        monkeypatch.setenv("DIALEVAL_MAX_RECORD", "8000")
        assert len(list(read(tmp_path / name))) == 2, name


def test_a_parquet_row_of_gigabytes_is_refused_in_little_memory(tmp_path: Path) -> None:
    said = pa.StructArray.from_arrays(
        [pa.array(["user"] * 200_000), pa.array(["x" * 2000] * 200_000)], ["role", "content"]
    )
    zeros = pa.array([0] * 5_000_000, pa.int8())
    for name, column in (("texts", said), ("numbers", zeros)):
        rows = pa.ListArray.from_arrays(pa.array([0, len(column)], pa.int32()), column)
        few = pa.array([[{"role": "user", "content": "Hi"}]])
        columns = {"messages": rows} if name == "texts" else {"messages": few, "scores": rows}
        pq.write_table(pa.table({"id": ["a"], **columns}), tmp_path / f"{name}.parquet")
        assert (tmp_path / f"{name}.parquet").stat().st_size < 20_000
    before = pa.total_allocated_bytes(), pa.default_memory_pool().max_memory()
    with pytest.raises(DataError, match=r"texts\.parquet:1: a record of more than 67,108,864 bytes"):
        list(read(tmp_path / "texts.parquet"))
    with pytest.raises(DataError, match=r"numbers\.parquet: .* bytes unpack to 40,.*DIALEVAL_MAX_RATIO"):
        list(read(tmp_path / "numbers.parquet"))
    assert pa.default_memory_pool().max_memory() - max(before) < 1 << 26


def test_a_text_repeated_in_many_rows_counts_once_a_row(tmp_path: Path) -> None:
    chats = [json.dumps([{"role": "user", "content": "x" * 20_000}])] * 2000
    pq.write_table(pa.table({"id": list(map(str, range(2000))), "messages": chats}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"x\.parquet: .* bytes unpack to .*DIALEVAL_MAX_RATIO"):
        list(read(tmp_path / "x.parquet"))


@pytest.mark.parametrize("options", [{"row_group_size": 15}, {"dictionary_pagesize_limit": 1024}])
def test_messages_in_several_row_groups_and_kinds_of_pages(options: dict[str, int], tmp_path: Path) -> None:
    rows = [{"id": f"d{n}", "messages": [{"role": "user", "content": f"{n} " * 50}] * 4} for n in range(500)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "logs.parquet", **options)
    found = list(read(tmp_path / "logs.parquet"))
    assert [(chat.id, chat.turns[3].text) for chat in found] == [
        (row["id"], row["messages"][3]["content"]) for row in rows
    ]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_parquet_texts_of_every_type_are_read(kind: pa.DataType, tmp_path: Path) -> None:
    texts = pa.array(["Hi", "Hello", "So?", None]).cast(kind)
    table = pa.table({"id": ["a"] * 4, "role": ["user", "assistant"] * 2, "text": texts})
    nested = pa.array([[("k", "v")], None, [], [("k", "w")]], pa.map_(pa.string(), pa.string()))
    pq.write_table(table.append_column("more", nested), tmp_path / "x.parquet")
    (found,) = read(tmp_path / "x.parquet")
    assert [turn.text for turn in found.turns] == ["Hi", "Hello", "So?", ""]


def test_an_arrow_dataset_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    chat = json.dumps([{"role": "user", "content": "x" * 200_000}])
    repeated = pa.table({"id": list(map(str, range(1000))), "messages": [chat] * 1000})
    small = pa.table({"id": ["a"], "messages": [chat]})
    for name, table, packing, message in (
        ("repeated", repeated.set_column(1, "messages", repeated[1].dictionary_encode()), None, "unpack to"),
        ("compressed", small, "zstd", "a compressed Arrow file"),
        ("texts", small.set_column(1, "messages", small[1].dictionary_encode()), "lz4", "a compressed Arrow"),
        ("long", pa.table({"id": ["a"], "messages": [chat * 400]}), None, "a record of more than"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "state.json").write_text("{}")
        options = pa.ipc.IpcWriteOptions(compression=packing)
        with pa.ipc.new_stream(str(folder / "data.arrow"), table.schema, options=options) as stream:
            stream.write_table(table)
        with pytest.raises(DataError, match=rf"data\.arrow.*{message}"):
            list(read(folder))


def test_a_zip_of_samples_is_bounded_and_any_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.eval"

    def write(text: str) -> bytes:
        said = [{"role": "user", "content": text}, {"role": "assistant", "content": "Ho"}]
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("header.json", json.dumps({"eval": {"task": "t", "model": "m"}}))
            packed.writestr("samples/1.json", json.dumps({"id": 1, "epoch": 1, "messages": said}))
        return path.read_bytes()

    write("x" * 30_000_000)
    with pytest.raises(DataError, match=r"x\.eval: .* bytes unpack to .*DIALEVAL_MAX_RATIO"):
        list(read(path))
    whole, refused = write("Hi"), 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 9]) + whole[place + 1 :])
        try:
            list(read(path))
        except DataError:
            refused += 1
    assert refused > len(whole) // 2


def test_gzip_on_standard_input_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    line = json.dumps({"id": "a", "messages": [{"role": "user", "content": "Hi"}]}).encode() + b"\n"
    for data in (line, gzip.compress(line)):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert [one.id for one in read("-")] == ["a"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(line)[:-9])))
    with pytest.raises(DataError, match=r"^-: the compressed file is broken"):
        list(read("-"))


def test_a_column_without_a_name_is_kept_beside_the_text(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,role,text,\na,user,Hi,why\n")
    (found,) = read(tmp_path / "x.csv")
    assert found.turns[0].meta == {"": "why"}


def test_a_device_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").symlink_to("/dev/zero")
    with pytest.raises(DataError, match=r"x\.jsonl: this is a device, not a file"):
        list(read(tmp_path / "x.jsonl"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "x.jsonl",
            '{"id":"a","messages":[],"references":{"-1":["x"]}}',
            "references: there is no turn '-1'",
        ),
        (
            "x.jsonl",
            '{"id":"a","messages":[{"role":"bot","content":"x"}],"references":{"0":["x"],"00":["y"]}}',
            "references: the turn 0 stands there twice",
        ),
        ("x.jsonl", '{"id":{"x":1},"messages":[]}', "id: text or a number is expected"),
        ("x.jsonl", '{"id":"a","messages":[{"role":{},"content":"x"}]}', "role: a name is expected"),
        ("x.csv", "id,turn,role,text\na,nan,user,Hi\n", "turn: not a turn number"),
    ],
)
def test_what_the_service_refuses_is_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content + "\n")
    with pytest.raises(DataError, match=message):
        list(read(tmp_path / name))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"id": b"a"}, "x.parquet:1: id: text or a number is expected"),
        ({"system": b"bot"}, "x.parquet:1: system: text expected, not bytes"),
        (
            {"messages": [{"role": b"user", "content": "Hi"}]},
            "x.parquet:1: messages.0..role: a name is expected",
        ),
    ],
)
def test_bytes_are_no_names(tmp_path: Path, changed: dict[str, object], message: str) -> None:
    row = {"id": "a", "system": "bot", "messages": [{"role": "user", "content": "Hi"}], **changed}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "x.parquet")
    with pytest.raises(DataError, match=message):
        list(read(tmp_path / "x.parquet"))
