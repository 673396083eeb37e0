"""Readers of what jobs are handed: the plan and the finished shards of a batch, the body of a request."""

import functools
import shutil
from pathlib import Path

from reader import fresh, lines, reader, room


@functools.cache
def _batch() -> Path:
    from dialeval.jobs.batch.batch import prepare

    where = room() / "batch-of-two"
    log = room() / "two.jsonl"
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    log.write_bytes(lines({"id": "a", "messages": said}, {"id": "b", "messages": said}))
    with prepare([str(log)], ["length"], str(where), turns_per_shard=2) as batch:
        batch.run(workers=1)
    return where


def _copy(path: Path, name: str) -> Path:
    """Put a file into the place of one of a batch's, and take the hash of the plan away."""
    made = fresh()
    shutil.copytree(_batch(), made, ignore=shutil.ignore_patterns("SHA256SUMS"))
    (made / name).write_bytes(path.read_bytes())
    return made


@reader("batch: run.json", "run.json", lambda: [(_batch() / "run.json").read_bytes()])
def _read_plan(path: Path) -> object:
    from dialeval.jobs.batch.folder import BatchFolder
    from dialeval.jobs.batch.plan import load_plan, read_shard

    folder = _copy(path, "run.json")
    try:
        plan = load_plan(BatchFolder(str(folder)))
        return plan and [list(read_shard(plan, shard.number)) for shard in plan.shards[:3]]
    finally:
        shutil.rmtree(folder)


@reader("batch: its dialogues", "run.json", lambda: [(_batch() / "run.json").read_bytes()])
def _read_dialogues_of_batch(path: Path) -> object:
    from dialeval.dialogues.formats import read

    folder = _copy(path, "run.json")
    try:
        return list(read(folder))
    finally:
        shutil.rmtree(folder)


@reader("batch: a finished shard", "done.json", lambda: [_done().read_bytes()])
def _read_done(path: Path) -> object:
    from dialeval.jobs.batch.folder import BatchFolder, done_name

    folder = _copy(path, done_name(0))
    try:
        return BatchFolder(str(folder)).finished(0)
    finally:
        shutil.rmtree(folder)


def _done() -> Path:
    from dialeval.jobs.batch.folder import done_name

    return _batch() / done_name(0)


_BODY = {
    "dialogues": [
        {
            "id": "a",
            "system": "bot",
            "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": None}],
            "references": {"1": ["Hello"]},
            "meta": {"topic": ["x", 1, None]},
        },
        {"messages": []},
    ],
    "sources": ["length"],
}


@reader("body of a request", "body.json", lambda: [lines(_BODY)])
def _read_body(path: Path) -> object:
    from dialeval.annotation.web import Refusal
    from dialeval.errors import DataError
    from dialeval.jobs.serving.requests import parse

    try:
        return parse(path.read_bytes(), ["length"], 100)
    except Refusal as refusal:
        assert 400 <= refusal.status < 500
        raise DataError(refusal.title) from None
