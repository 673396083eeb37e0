"""Every format in, three formats out, and one clear line when a file is wrong."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialeval.dialogues import Dialogue, dialogue
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
    assert [turn.text for turn in found.turns] == ["Be kind.", "Look", "", "", "It is warm.", "who am I?"]
    assert found.turns[1].meta["parts"][0]["type"] == "image_url"
    assert found.turns[2].meta == {"tool_calls": [{"id": "c1"}], "note": "no text"}
    assert found.turns[3].meta == {"content": "22 degrees", "tool_call_id": "c1"}
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
    assert found[0].meta == {"system_prompt": "prompt"}


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
    with pytest.raises(DataError, match=r"turns\.csv:1: id: no column for the id.*--columns id=COLUMN"):
        list(read(path))
    path.write_text(
        "dialogue_id,turn,speaker,text\na,1,system,Hello\na,0,user,Hi\nb,0,user,Hi\na,2,user,Bye\n"
    )
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
    with pytest.raises(DataError, match="this is a folder"):
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
        assert all(isinstance(one, Dialogue) for one in read(path))
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
        found = list(read(path))
    except DataError as error:
        assert str(path) in str(error)
        return
    for one in found:
        assert all(isinstance(turn.text, str) for turn in one.turns)
    write(found, path.with_suffix(".jsonl"))
    assert list(read(path.with_suffix(".jsonl"))) == found
