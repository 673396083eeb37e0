"""Broken exports: what is wrong is named with file and record, the rest is read, the loss is counted."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from dialeval.dialogues import Dialogue
from dialeval.dialogues.formats import read
from dialeval.errors import DataError

SAID = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]


def lenient(path: Path, *lines: Any) -> tuple[list[Dialogue], list[str]]:
    if lines:
        path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))
    notes: list[str] = []
    found = list(read(path, note=notes.append, lenient=True))
    return found, [note.removeprefix(f"{path}: ") for note in notes]


def test_half_an_array(tmp_path: Path) -> None:
    path = tmp_path / "half.json"
    path.write_text(json.dumps([{"id": f"d{n}", "messages": SAID} for n in range(5)])[:-40])
    found, notes = lenient(path)
    assert [one.id for one in found] == ["d0", "d1", "d2", "d3"]
    assert len(notes) == 1 and notes[0].startswith("in record 5: item 5 of the array: the file breaks off")
    with pytest.raises(DataError, match=r"half\.json:5: "):
        list(read(path))


@pytest.mark.parametrize(
    ("between", "behind", "said"),
    [
        (" ", "]", "a comma or ] is expected"),
        ("] ", "", "there is more"),
        (",", ",]", "an item is expected"),
        (", {bad}, ", "]", "not JSON"),
        (', {"id": "c", "id": "d", "messages": []}, ', "]", "the key 'id' stands there twice"),
    ],
)
def test_an_array_with_something_else_in_it_is_refused(
    between: str, behind: str, said: str, tmp_path: Path
) -> None:
    one, other = (json.dumps({"id": name, "messages": SAID}) for name in "ab")
    (tmp_path / "x.json").write_text(f"[{one}{between}{other}{behind}")
    with pytest.raises(DataError, match=re.escape(said)):
        lenient(tmp_path / "x.json")


@pytest.mark.parametrize(
    "line",
    [
        '{"id": "a", "id": "b", "messages": [{"role": "user", "content": "Hi"}]}',
        '{"id": "a", "messages": [{"role": "user", "content": "Hi", "content": "Ho"}]}',
        '{"id": "a", "messages": [{"role": "user", "role": "assistant", "content": "Hi"}]}',
        '{"id": "a", "messages": [], "messages": [{"role": "user", "content": "Hi"}]}',
        '{"id": "ä", "messages": [{"role": "user", "content": "Hi", "content": "Ho"}]}',
    ],
)
def test_a_key_that_stands_twice_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match=r"x\.jsonl:1: the key '\w+' stands there twice"):
        list(read(tmp_path / "x.jsonl"))


def test_what_is_no_key_may_come_often(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "content", "name": "role"}, {"role": "assistant", "content": "id"}]
    ((found,), notes) = lenient(tmp_path / "x.jsonl", {"id": "id", "messages": turns, "meta": {"id": "role"}})
    assert ([turn.text for turn in found.turns], notes) == (["content", "id"], [])


@pytest.mark.parametrize(
    ("id", "references"), [(True, {}), ("a", {"\u0661": ["x"]}), ("a", {"\u00b2": ["x"]})]
)
def test_what_serve_refuses_is_refused_here(id: object, references: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"x\.jsonl:1: (id|references): "):
        lenient(tmp_path / "x.jsonl", {"id": id, "messages": SAID, "references": references})


@pytest.mark.skipif(os.name != "posix", reason="no links and pipes")
def test_nothing_in_a_folder_is_left_out_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "a", "messages": SAID}))
    (tmp_path / "notes.md").symlink_to("nowhere")
    assert [one.id for one in read(tmp_path)] == ["a"]
    (tmp_path / "b.jsonl").symlink_to("nowhere")
    with pytest.raises(DataError, match=r"b\.jsonl: a link that leads nowhere"):
        list(read(tmp_path))
    (tmp_path / "b.jsonl").unlink()
    os.mkfifo(tmp_path / "b.jsonl")
    with pytest.raises(DataError, match=r"b\.jsonl: a pipe or a device"):
        list(read(tmp_path))


def test_a_broken_line_and_a_record_of_another_kind(tmp_path: Path) -> None:
    good = {"id": "a", "messages": SAID, "extra": 1}
    found, notes = lenient(
        tmp_path / "x.jsonl", good, '{"id": "b", "messa', {"name": "no dialogue"}, {**good, "id": "c"}
    )
    assert [one.id for one in found] == ["a", "c"]
    assert [note.partition(": ")[0] for note in notes] == ["in record 2", "in record 3"]
    assert "the line breaks off" in notes[0] and "messages: missing" in notes[1]


def test_what_begins_broken_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"x\.jsonl:1: column"):
        lenient(tmp_path / "x.jsonl", '{"id": "b", "messa', {"id": "a", "messages": SAID})


def test_a_result_without_its_call_is_noted(tmp_path: Path) -> None:
    turns = [*SAID, {"role": "tool", "tool_call_id": "c9", "content": "22"}]
    ((found,), notes) = lenient(tmp_path / "x.jsonl", {"id": "a", "messages": turns})
    assert found.turns[2].meta == {"note": "a tool's result without its call"} and notes == []


def oasst(name: str, parent: str | None) -> dict[str, Any]:
    return {"message_id": name, "parent_id": parent, "role": "prompter", "text": name, "message_tree_id": "t"}


def test_a_cycle_among_oasst_messages(tmp_path: Path) -> None:
    rows = [oasst("t", None), oasst("a", "t"), oasst("x", "y"), oasst("y", "x"), oasst("z", "gone")]
    found, notes = lenient(tmp_path / "x.jsonl", *rows)
    assert [[turn.text for turn in one.turns] for one in found] == [["t", "a"]]
    assert notes == [
        "2 times, first in record 3: in a cycle, or below one",
        "in record 5: its parent gone is missing",
    ]


def test_a_cycle_in_an_oasst_tree_and_in_chatgpt(tmp_path: Path) -> None:
    root = {"message_id": "t", "role": "prompter", "text": "Q", "replies": []}
    reply = {"message_id": "a", "role": "assistant", "text": "A", "replies": [{**root, "replies": []}]}
    ((tree,), _) = lenient(
        tmp_path / "t.jsonl", {"message_tree_id": "t", "prompt": {**root, "replies": [reply]}}
    )
    assert len(tree.turns) == 2 and tree.meta["note"] == "a cycle in its tree was cut"
    message = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["Hi"]}}
    nodes = {
        "a": {"message": message, "parent": "b", "children": ["b"]},
        "b": {"message": message, "parent": "a"},
    }
    ((chat,), _) = lenient(tmp_path / "c.json", {"id": "c", "mapping": nodes, "current_node": "a"})
    assert len(chat.turns) == 2 and chat.meta["note"] == "a cycle among its messages was cut"


def test_a_message_of_five_megabytes(tmp_path: Path) -> None:
    turns = [SAID[0], {"role": "assistant", "content": "long " * 1_000_000}]
    ((found,), notes) = lenient(tmp_path / "x.jsonl", {"id": "a", "messages": turns})
    assert len(found.turns[1].text) == 5_000_000 and notes == []


def test_spans_without_a_session_or_a_message(tmp_path: Path) -> None:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(SAID[:1])}
    spoken = {"trace_id": "t1", "attributes": {**attributes, "gen_ai.output.messages": json.dumps(SAID[1:])}}
    silent = {"trace_id": "t2", "attributes": {"gen_ai.operation.name": "embeddings"}}
    ((found,), notes) = lenient(tmp_path / "x.jsonl", spoken, silent)
    assert found.id == "t1" and found.meta["note"] == "no session: the trace is a dialogue of its own"
    assert notes == ["in record 2: no message in trace t2"]


def test_rows_without_a_conversation(tmp_path: Path) -> None:
    rows = [{"conversation_id": "c", **one} for one in SAID]
    found, notes = lenient(tmp_path / "x.jsonl", *rows, {"conversation_id": None, **SAID[0]})
    assert [len(one.turns) for one in found] == [2] and notes == ["in record 3: no conversation_id"]


def test_the_response_before_is_missing(tmp_path: Path) -> None:
    said = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}]
    record = {
        "id": "resp_2",
        "object": "response",
        "previous_response_id": "resp_1",
        "input": "So?",
        "output": said,
    }
    ((found,), notes) = lenient(tmp_path / "x.jsonl", record)
    assert [turn.text for turn in found.turns] == ["So?", "Yes."]
    assert notes == [
        "in record 1: the response before it is not in the file: what was said earlier is missing"
    ]


def test_halves_of_exports_that_are_joined(tmp_path: Path) -> None:
    asked = {"request_body": {"messages": SAID[:1]}, "request_id": "a"}
    answered = {**asked, "response_body": {"choices": [{"message": SAID[1]}]}}
    ((found,), notes) = lenient(tmp_path / "h.jsonl", answered, asked, '{"request_body": {"mess')
    assert [turn.text for turn in found.turns] == ["Hi", "Hello"]
    assert notes[0] == "in record 2: no question or no answer in it"
    assert notes[1].startswith("in record 3: column 23: the line breaks off")


def test_events_without_a_sender_and_entries_that_are_no_messages(tmp_path: Path) -> None:
    rasa = {"event": "user", "text": "Hi", "sender_id": "s"}
    ((found,), notes) = lenient(tmp_path / "r.jsonl", rasa, {**rasa, "sender_id": None})
    assert len(found.turns) == 1 and notes == ["in record 2: an event without sender_id"]
    joined = {"Id": "1", "Type": "EVENT", "ParticipantRole": "AGENT"}
    said = {"Id": "2", "Type": "MESSAGE", "ParticipantRole": "CUSTOMER", "Content": "Hi"}
    ((chat,), _) = lenient(tmp_path / "c.json", {"ContactId": "c", "Transcript": [joined, said]})
    assert chat.meta["note"] == "1 entries that are no messages left out" and chat.turns[0].speaker == "user"


def test_messages_that_never_say_who_spoke_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="messages: no message says who spoke"):
        lenient(tmp_path / "x.jsonl", {"messages": [{"content": "Hi"}, {"content": "Hello"}]})


def test_two_lists_of_messages_below_a_record_are_not_guessed_at(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no known kind of dialogue"):
        lenient(tmp_path / "x.jsonl", {"left": {"chat": SAID}, "right": {"chat": [SAID[0]] * 3}})


def test_two_programs_that_talk_with_each_other_stay_two(tmp_path: Path) -> None:
    said = [{"role": name, "content": "Hello there."} for name in ("Claude", "Gemini", "Claude")]
    path = tmp_path / "duo.jsonl"
    path.write_text(json.dumps({"messages": said}) + "\n", encoding="utf-8")
    (chat,) = read(path)
    assert [turn.speaker for turn in chat.turns] == ["Claude", "Gemini", "Claude"]
    path.write_text(json.dumps({"messages": [{**said[0], "role": "user"}, said[0]]}) + "\n", encoding="utf-8")
    (chat,) = read(path)
    assert [turn.speaker for turn in chat.turns] == ["user", "assistant"]
