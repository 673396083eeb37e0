"""Tables of turns (CSV, Parquet), and Parquet files with a column of whole dialogues."""

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any

from dialeval import files
from dialeval.dialogues.dialogue import Dialogue
from dialeval.dialogues.formats.records import parse_record, role
from dialeval.errors import DataError, UsageError
from dialeval.scores.text import unguard_cell

_GUESSES = {
    "id": ("dialogue_id", "conversation_id", "dialog_id", "session_id", "chat_id", "conversation", "id"),
    "speaker": ("speaker", "role", "sender", "from", "author", "participant"),
    "text": ("text", "content", "message", "utterance", "body"),
    "turn": ("turn", "turn_id", "index", "position", "utt_idx"),
    "system": ("system", "model", "bot"),
}
OURS = ("dialogue_id", "turn", "speaker", "text", "system", "references", "meta")


@dataclass(frozen=True, slots=True)
class TurnColumns:
    """Which column of a turn table holds what; what is not named is guessed from usual names.

    >>> TurnColumns.parse("id=session,text=body")
    TurnColumns(id='session', speaker=None, text='body', turn=None, system=None)
    """

    id: str | None = None
    speaker: str | None = None
    text: str | None = None
    turn: str | None = None
    system: str | None = None

    @classmethod
    def parse(cls, text: str) -> "TurnColumns":
        """Read `id=column,speaker=column,…` as given on the command line."""
        pairs = dict(part.partition("=")[::2] for part in text.split(",") if part)
        unknown = set(pairs) - {item.name for item in fields(cls)}
        if unknown or not all(pairs.values()):
            raise UsageError(
                f"--columns {text!r}: expected id=,speaker=,text=,turn=,system= with column names"
            )
        return cls(**pairs)


def read_csv(path: str | Path, delimiter: str, columns: TurnColumns | None) -> Iterator[tuple[int, Dialogue]]:
    """Yield the dialogues of a table with one turn a row; rows of a dialogue stand together."""
    csv.field_size_limit(2**31 - 1)
    with files.open_binary(path) as file:
        reader = csv.DictReader(_text_lines(path, file), delimiter=delimiter, strict=True)
        try:
            header = list(reader.fieldnames or ())
            ours = header == list(OURS)
            rows = ((reader.line_num, row) for row in reader)
            yield from _group(path, rows, header, columns, ours=ours)
        except csv.Error as error:
            raise DataError(f"not CSV: {error}", file=path, line=reader.line_num) from None


def _text_lines(path: str | Path, file: Iterable[bytes]) -> Iterator[str]:
    for number, raw in enumerate(file, 1):
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"not UTF-8: {error.reason}", file=path, line=number, fix="save it as UTF-8"
            ) from None


def read_parquet(
    path: str | Path, columns: TurnColumns | None, first: int = 0
) -> Iterator[tuple[int, Dialogue]]:
    """Yield the dialogues of a Parquet file: one a row (`messages`, `conversations`), or one turn a row.

    Args:
        path: The file.
        columns: Which columns of a table of turns hold what.
        first: Begin at this row, from 0, without reading the row groups before its own.
    """
    import pyarrow as pa

    with files.open_binary(path) as file:
        try:
            parquet = files.open_parquet(file, path)
            names = parquet.schema_arrow.names
            ours = b"dialeval" in (parquet.schema_arrow.metadata or {})
            rows = enumerate(_rows(parquet, first), first + 1)
            if _holds_dialogues(names, columns):
                for number, row in rows:
                    yield (
                        number,
                        parse_record(_unpack(path, number, row) if ours else row, None, path, number)[0],
                    )
            else:
                yield from _group(path, rows, names, columns, ours=False)
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            raise DataError(f"not a Parquet file of dialogues: {error}", file=path) from None


def has_dialogue_rows(path: str | Path, columns: TurnColumns | None) -> bool:
    """Say whether a row of a Parquet file is a whole dialogue, rather than a turn."""
    import pyarrow as pa

    with files.open_binary(path) as file:
        try:
            return _holds_dialogues(files.open_parquet(file, path).schema_arrow.names, columns)
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            raise DataError(f"not a Parquet file of dialogues: {error}", file=path) from None


def _holds_dialogues(names: Iterable[str], columns: TurnColumns | None) -> bool:
    return columns is None and bool(
        {"messages", "conversations", "conversation", "turns", "dialog"} & set(names)
    )


def _rows(parquet: Any, first: int) -> Iterator[dict[str, Any]]:
    groups, before = list(range(parquet.num_row_groups)), 0
    while groups and before + parquet.metadata.row_group(groups[0]).num_rows <= first:
        before += parquet.metadata.row_group(groups.pop(0)).num_rows
    batches = parquet.iter_batches(batch_size=1024, use_threads=False, row_groups=groups)
    yield from islice((row for batch in batches for row in batch.to_pylist()), first - before, None)


_UNLIKE_OURS = (ValueError, TypeError, AttributeError, KeyError, RecursionError)


def _unpack(path: str | Path, line: int, row: dict[str, Any]) -> dict[str, Any]:
    """Undo what the writer packed: free-form parts are JSON in a Parquet file of ours."""
    try:
        messages = [{**item, "meta": json.loads(item.get("meta") or "{}")} for item in row["messages"]]
        rest = {key: json.loads(row[key] or "{}") for key in ("references", "meta")}
    except _UNLIKE_OURS as error:
        raise DataError(f"not as dialeval writes it: {error}", file=path, line=line) from None
    return {**row, "messages": messages, **rest}


def _group(
    path: str | Path,
    rows: Iterable[tuple[int, dict[str, Any]]],
    header: list[str],
    columns: TurnColumns | None,
    *,
    ours: bool,
) -> Iterator[tuple[int, Dialogue]]:
    names = _columns(path, header, columns or TurnColumns())
    begin, group = 0, list[dict[str, Any]]()
    for line, row in rows:
        if None in row or None in list(row):
            raise DataError(
                f"{len(header)} cells are expected", file=path, line=line, fix="quote cells with commas"
            )
        name = row[names["id"]]
        if name in (None, ""):
            raise DataError("no dialogue id", file=path, line=line, field=names["id"])
        if group and group[-1][names["id"]] != name:
            yield begin, _turns(path, begin, group, names, ours)
            group = []
        if not group:
            begin = line
        group.append(row)
    if group:
        yield begin, _turns(path, begin, group, names, ours)


def _columns(path: str | Path, header: list[str], columns: TurnColumns) -> dict[str, str]:
    found = {}
    for key, guesses in _GUESSES.items():
        named = getattr(columns, key)
        column = named or next((name for name in guesses if name in header), None)
        if (named and named not in header) or (column is None and key in ("id", "speaker", "text")):
            raise DataError(
                f"no column for the {key}; the file has: {', '.join(header) or 'no header'}",
                file=path,
                line=1,
                field=named or key,
                fix=f"name it: --columns {key}=COLUMN",
            )
        if column is not None:
            found[key] = column
    return found


def _turns(
    path: str | Path, line: int, rows: list[dict[str, Any]], names: dict[str, str], ours: bool
) -> Dialogue:
    """Make a record of messages out of the rows of one dialogue, and read that."""
    if "turn" in names:
        try:
            rows = sorted(rows, key=lambda row: float(row[names["turn"]]))
        except (TypeError, ValueError):
            raise DataError("not a turn number", file=path, line=line, field=names["turn"]) from None
    first, record = rows[0], dict[str, Any](references={}, meta={})
    record["id"], record["system"] = first[names["id"]], first.get(names.get("system", "")) or None
    record["messages"] = [{"role": row[names["speaker"]], "content": row[names["text"]]} for row in rows]
    if ours:
        try:
            _restore(record, rows)
        except _UNLIKE_OURS as error:
            raise DataError(f"not as dialeval writes it: {error}", file=path, line=line) from None
    else:
        used = set(names.values())
        for message, row in zip(record["messages"], rows, strict=True):
            message["meta"] = {k: v for k, v in row.items() if k not in used and v not in (None, "")}
        if not any(role(row[names["speaker"]]) == "assistant" for row in rows):
            for message in record[
                "messages"
            ]:  # two columns of speakers, user and system: the system is the bot
                if str(message["role"]).strip().lower() == "system":
                    message["role"] = "assistant"
    return parse_record(record, None, path, line)[0]


def _restore(record: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Undo what the writer did to cells of a table of ours."""
    record["id"] = unguard_cell(record["id"])
    record["system"] = unguard_cell(record["system"] or "") or None
    for number, (message, row) in enumerate(zip(record["messages"], rows, strict=True)):
        packed = json.loads(row["meta"] or "{}")
        record["meta"] |= packed.get("dialogue", {})
        message |= {"role": unguard_cell(message["role"]), "content": unguard_cell(message["content"])}
        message["meta"] = packed.get("turn", {})
        if row["references"]:
            record["references"][str(number)] = json.loads(row["references"])
