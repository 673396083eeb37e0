"""`write`: dialogues as JSONL (canonical), Parquet, or a CSV table of turns; read back they are equal."""

import csv
import io
import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from dialeval import files
from dialeval.dialogues.dialogue import Dialogue, Turn
from dialeval.dialogues.formats.tables import OURS
from dialeval.errors import UsageError
from dialeval.scores.columns import guard_cell

ENDINGS = (".jsonl", ".parquet", ".csv")
_BATCH = 1024


def write(dialogues: Iterable[Dialogue], path: str | Path) -> int:
    """Write dialogues as a stream, by the ending of the name (`-` is JSONL on standard output).

    The file appears when all is written; an error on the way leaves nothing behind. A CSV table has one
    row a turn, so a dialogue without turns is not in it.

    Returns:
        How many dialogues were written.
    """
    if str(path) == "-":
        return _write_jsonl(dialogues, files.standard_output().buffer)
    suffix = Path(path).suffix.lower()
    if suffix not in ENDINGS:
        raise UsageError(f"cannot write {path}: use one of {', '.join(ENDINGS)}")
    with files.replacing(path) as file:
        return {".jsonl": _write_jsonl, ".parquet": _write_parquet, ".csv": _write_csv}[suffix](
            dialogues, file
        )


def _write_jsonl(dialogues: Iterable[Dialogue], file: BinaryIO) -> int:
    count = 0
    for count, dialogue in enumerate(dialogues, 1):  # noqa: B007
        file.write(to_json(dialogue) + b"\n")
    file.flush()
    return count


def to_json(dialogue: Dialogue) -> bytes:
    """Return the canonical JSON of a dialogue, one line.

    >>> from dialeval.dialogues import dialogue
    >>> to_json(dialogue([("user", "Hi!")], "d1", system="bot")).decode()
    '{"id":"d1","messages":[{"role":"user","content":"Hi!"}],"system":"bot"}'
    """
    return msgspec.json.encode(dialogue)


def _write_csv(dialogues: Iterable[Dialogue], file: BinaryIO) -> int:
    text = io.TextIOWrapper(file, "utf-8", errors="replace", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(OURS)
    count = 0
    for count, dialogue in enumerate(dialogues, 1):  # noqa: B007
        for number, turn in enumerate(dialogue.turns):
            packed = {"turn": turn.meta, "turn_fields": _fields(turn)}
            if number == 0:
                packed |= {"dialogue": dialogue.meta, "dialogue_fields": _fields(dialogue)}
            writer.writerow(
                [
                    guard_cell(dialogue.id),
                    number,
                    guard_cell(turn.speaker),
                    guard_cell(turn.text),
                    guard_cell(dialogue.system or ""),
                    _packed(dialogue.references.get(number)),
                    _packed({key: value for key, value in packed.items() if value}),
                ]
            )
    text.detach()
    return count


def _write_parquet(dialogues: Iterable[Dialogue], file: BinaryIO) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    message = pa.struct([(name, pa.string()) for name in ("role", "content", "meta", "fields")])
    columns = [("id", pa.string()), ("system", pa.string()), ("messages", pa.list_(message))]
    schema = pa.schema(
        [*columns, *((name, pa.string()) for name in ("references", "meta", "fields"))],
        {b"dialeval": b"dialogues.v1"},
    )
    count, stream = 0, iter(dialogues)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        while rows := [_row(dialogue) for dialogue in islice(stream, _BATCH)]:
            writer.write_table(pa.Table.from_pylist(rows, schema))
            count += len(rows)
    return count


def _row(dialogue: Dialogue) -> dict[str, Any]:
    messages = [
        {"role": t.speaker, "content": t.text, "meta": _packed(t.meta), "fields": _packed(_fields(t))}
        for t in dialogue.turns
    ]
    references = {str(number): texts for number, texts in dialogue.references.items()}
    packed = {
        "references": _packed(references),
        "meta": _packed(dialogue.meta),
        "fields": _packed(_fields(dialogue)),
    }
    return {"id": dialogue.id, "system": dialogue.system, "messages": messages, **packed}


def _fields(made: Turn | Dialogue) -> dict[str, Any]:
    """Return the fields that have no column of their own and are not empty."""
    plain: dict[str, Any] = msgspec.to_builtins(made, str_keys=True)
    columns = ("id", "messages", "role", "content", "system", "references", "meta")
    return {name: value for name, value in plain.items() if name not in columns}


def _packed(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str) if value else ""
