"""Readers of dialogues, votes, acts and tasks."""

import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import specimens
from mutation import any_line, any_table, one_of
from reader import few, fresh, lines, parquet, reader, room, shipped

# --- dialogues ----------------------------------------------------------------------------------------------

_SAID = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello", "meta": {"a": 1}}]
_SHAREGPT = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}
_CONVLAB = {
    "dialogue_id": "c",
    "turns": [
        {"speaker": "user", "utterance": "Hi", "utt_idx": 0},
        {"speaker": "system", "utterance": "Yes"},
    ],
}
_PARLAI = {"dialog": [[{"id": "human", "text": "Hi"}, {"id": "model", "text": "Yes", "episode_done": True}]]}
_PARTS = {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image", "url": "x"}]}
_OURS = {"id": "a", "system": "s", "messages": _SAID, "references": {"1": ["Yes"]}, "meta": {"k": [1]}}


def _dialogue_lines() -> list[bytes]:
    return [
        lines(_OURS, {"messages": [_PARTS, {"role": "tool", "content": "22"}]}),
        lines(_SHAREGPT),
        lines(_CONVLAB),
        lines(_PARLAI),
    ]


def _dialogue_arrays() -> list[bytes]:
    predictions = {"sng0073": [{"response": "[name] ?", "state": {"a": {"b": "c"}}}, "yes"], "x": []}
    return [
        json.dumps([_OURS, {**_OURS, "id": "b"}], indent=1).encode(),
        json.dumps([_CONVLAB]).encode(),
        json.dumps(predictions).encode(),
        json.dumps(predictions, indent=1).encode(),
    ]


def _dialogue_tables() -> list[bytes]:
    from dialeval.dialogues.formats.tables import OURS

    foreign = b'session_id,turn,role,content,extra\r\na,1,user,"Hi, you",x\r\na,2,system,Hello,\r\n'
    meta = b'"{""turn"": {}, ""dialogue"": {""k"": 1}}"'
    own = b"\r\n".join(
        [",".join(OURS).encode(), b"a,0,user,Hi,s,," + meta, b"""a,1,assistant,'=x,s,"[""Yes""]",{}""", b""]
    )
    return [foreign, own]


def _read_dialogues(path: Path) -> object:
    from dialeval.dialogues import formats

    found = list(formats.read(path, note=lambda _: None))
    for ending in (".jsonl", ".csv", ".parquet"):  # what was read can be written
        formats.write(found, room() / f"again{ending}")
    return found


reader("dialogues as JSON lines", "chats.jsonl", _dialogue_lines)(_read_dialogues)
reader("dialogues as JSON", "chats.json", _dialogue_arrays)(_read_dialogues)
reader("dialogues as CSV", "chats.csv", _dialogue_tables, one_of(any_line))(_read_dialogues)
reader(
    "dialogues as TSV", "chats.tsv", lambda: [_dialogue_tables()[0].replace(b",", b"\t")], one_of(any_line)
)(_read_dialogues)


@reader(
    "dialogues as text",
    "chats.txt",
    lambda: [b"User: Hi\nSystem: Hello\n  and more\n\nAlice: x\nBob:\n"],
    one_of(any_line),
)
def _text(path: Path) -> object:
    return _read_dialogues(path)


@reader(
    "gzipped dialogues",
    "chats.jsonl.gz",
    lambda: [specimens.gzipped(_dialogue_lines()[0])],
    specimens.any_gzip,
)
def _gzip(path: Path) -> object:
    return _read_dialogues(path)


def _dialogue_parquet() -> list[bytes]:
    packed = [{**one, "meta": "{}"} for one in _SAID]
    return [
        parquet([{"id": "a", "messages": _SAID[:1]}]),
        parquet([_SHAREGPT]),
        parquet(
            [{"id": "a", "system": "s", "messages": packed, "references": "{}", "meta": "{}"}],
            {b"dialeval": b"1"},
        ),
        parquet([{"dialogue_id": "a", "turn": n, "speaker": "user", "text": "Hi"} for n in range(2)]),
    ]


reader("dialogues as Parquet", "chats.parquet", _dialogue_parquet, one_of(any_table))(_read_dialogues)


@reader("votes", "votes.jsonl", lambda: [few(shipped("dialogues", "examples", "votes.jsonl"))])
def _votes(path: Path) -> object:
    from dialeval.dialogues.votes import read_votes

    return read_votes(path)


def _acts() -> list[bytes]:
    segment = {
        "index": "c_test_1_0_0",
        "fs_text": "Hi.",
        "annotation": "greeting",
        "annotation_raw": ["inform", None],
    }
    return [json.dumps([segment, {**segment, "index": "c_test_1_1_0"}]).encode()]


@reader("segment acts", "acts.json", _acts)
def _segments(path: Path) -> object:
    from dialeval.dialogues.act_statistics import settle, voted
    from dialeval.dialogues.formats.actdial import holds_segments, read_dialogues

    holds_segments(path)
    found = [settle(one) for one in read_dialogues(path)]
    return list(voted(found))


def _task_reader(name: str) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        import dialeval
        from dialeval.dialogues.tasks import open_task

        folder = fresh()
        shutil.copytree(Path(dialeval.__file__).parent / "dialogues" / "tasks" / "example", folder)
        shutil.copyfile(path, folder / name)
        try:
            task = open_task(str(folder / "task.toml"))
            found = [task.goals, task.booked, task.states, task.references, task.expected]
            wish = {"area": "harbour", "leave": "10:00", "name": "x"}
            found.extend(table.query(wish) for table in task.venues.values())
            return found + [task.wishes(goal) for wanted in task.goals.values() for goal in wanted.values()]
        finally:
            shutil.rmtree(folder)

    return read


for _name in ("task.toml", "goals.json", "states.json", "references.json", "cafes.jsonl", "boats.csv"):
    reader(
        f"task: {_name}",
        _name,
        functools.partial(lambda name: [shipped("dialogues", "tasks", "example", name)], _name),
    )(_task_reader(_name))
