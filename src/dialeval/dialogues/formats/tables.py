"""Tables of turns (CSV, Parquet), and Parquet files with a column of whole dialogues."""

import csv
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, BinaryIO

from dialeval import files
from dialeval.dialogues.dialogue import Dialogue
from dialeval.dialogues.formats.chats import is_internal, side
from dialeval.dialogues.formats.messages import is_lifted, role
from dialeval.dialogues.formats.records import RecordShape, plain_text
from dialeval.dialogues.formats.rows import in_order
from dialeval.dialogues.formats.shapes import (
    Numbered,
    Tell,
    column_names,
    dialogues_of,
    fitting,
    nested,
    parse_record,
    shape_named,
)
from dialeval.dialogues.formats.values import decoded, feedback_name, named_column, plain_name
from dialeval.errors import DataError, UsageError
from dialeval.parquet import Parquet, is_compressed, pieces
from dialeval.scores.columns import to_number, unguard_cell
from dialeval.scores.table import refuse_twins

_GUESSED = ("id", "speaker", "text", "turn", "system", "time")
_AHEAD = 20_000  # rows that are looked at for dialogues whose rows do not stand together
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


@dataclass(frozen=True, slots=True)
class TableReading:
    """How a table is read: its columns, the shape of its rows if that is known, and whom to tell."""

    columns: TurnColumns | None = None
    shape: RecordShape | None = None
    tell: Tell | None = None
    lenient: bool = False
    took: Tell | None = None

    def take(self, name: str) -> None:
        """Tell which format was found."""
        if self.took:
            self.took(name)


def read_csv(path: str | Path, delimiter: str, how: TableReading) -> Numbered:
    """Yield the dialogues of a table: one turn a row, rows of a dialogue together, or one dialogue a row."""
    csv.field_size_limit(files.max_record())
    with files.open_binary(path) as file:
        lines = _text_lines(path, file)
        first = next(lines, "")
        if delimiter == "," and "," not in first:  # spreadsheets in many languages write semicolons
            delimiter = next((mark for mark in (";", "\t") if mark in first), delimiter)
        reader = csv.DictReader(chain((first,), lines), delimiter=delimiter, strict=True)
        try:
            header = list(reader.fieldnames or ())
            refuse_twins(path, header, 1)
            rows = _csv_rows(path, reader, how)
            if header == list(OURS):
                yield from _group(path, rows, header, how, ours=True)
            else:
                yield from read_rows(path, header, rows, how)
        except csv.Error as error:
            raise DataError(f"not CSV: {error}", file=path, line=reader.line_num) from None


def _csv_rows(
    path: str | Path, reader: "csv.DictReader[str]", how: TableReading
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows with their lines; where a table breaks off after some, that is told if `lenient`."""
    last = 0
    try:
        for row in reader:
            last = reader.line_num
            yield last, row
    except csv.Error as error:
        if not (how.lenient and last):
            raise
        if how.tell:
            how.tell(f"{path}: in record {last + 1}: not CSV: {error}; what follows is lost")


def _text_lines(path: str | Path, file: BinaryIO) -> Iterator[str]:
    for number, raw in enumerate(files.lines(file, path), 1):
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"not UTF-8: {error.reason}", file=path, line=number, fix="save it as UTF-8"
            ) from None


def read_parquet(path: str | Path, how: TableReading, first: int = 0) -> Numbered:
    """Yield the dialogues of a Parquet file: one a row (`messages`, `conversations`), or one turn a row.

    Args:
        path: The file.
        how: Which columns of a table of turns hold what, and the rest.
        first: Begin at this row, from 0, without reading the row groups before its own.
    """
    import pyarrow as pa

    with files.open_binary(path) as file:
        try:
            parquet = Parquet(file, path)
            found = (row for batch in parquet.batches(first) for row in batch.to_pylist())
            rows: Iterable[tuple[int, dict[str, Any]]] = enumerate(found, first + 1)
            if b"dialeval" in (parquet.schema.metadata or {}):
                rows = ((number, _unpack(path, number, row)) for number, row in rows)
            yield from read_rows(path, parquet.schema.names, rows, how)
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            raise DataError(f"not a Parquet file of dialogues: {error}", file=path) from None


_DATASET = ("state.json", "dataset_info.json", "dataset_dict.json")


def is_dataset(path: str | Path) -> bool:
    """Whether a path is the folder of a Hugging Face dataset, or of several splits of one."""
    folder = Path(path)
    try:
        return folder.is_dir() and any((folder / name).is_file() for name in _DATASET)
    except OSError:  # a name that is too long
        return False


def dataset_files(path: str | Path) -> list[Path]:
    """List the Arrow files of a dataset on disk, its splits one after the other; of a file, itself."""
    found = sorted(Path(path).rglob("*.arrow")) if Path(path).is_dir() else [Path(path)]
    return [one for one in found if not one.name.startswith("cache-")]


def read_dataset(path: str | Path, how: TableReading) -> Numbered:
    """Yield the dialogues of a Hugging Face dataset on disk (`save_to_disk`), read with pyarrow alone."""
    import pyarrow as pa

    parts = dataset_files(path)
    if not parts:
        raise DataError("a dataset without any Arrow file", file=path, fix="save_to_disk writes them")
    names: list[str] = []

    def rows() -> Iterator[dict[str, Any]]:
        for part in parts:
            unpacked, number = 0, 1
            try:
                with pa.memory_map(str(part)) as source:
                    if is_compressed(pa.ipc.MessageReader.open_stream(source)):
                        fix = "load it and save_to_disk, which does not compress"
                        raise DataError("a compressed Arrow file", file=part, fix=fix)
                    source.seek(0)
                    for batch in pa.ipc.open_stream(source):
                        for size, piece in pieces(batch, part, number):
                            unpacked += size
                            files.check_expansion(part, source.size(), unpacked)
                            yield from piece.to_pylist()
                        number += len(batch)
            except (pa.ArrowException, OSError, ValueError) as error:
                raise DataError(f"not an Arrow file of a dataset: {error}", file=part) from None

    stream = rows()
    first = next(stream, None)
    if first is not None:
        names = list(first)
        yield from read_rows(path, names, enumerate(chain((first,), stream), 1), how)


def read_rows(
    path: str | Path, header: list[str], rows: Iterable[tuple[int, dict[str, Any]]], how: TableReading
) -> Numbered:
    """Yield the dialogues of numbered rows: of the shape that a row has, else one turn a row."""
    refuse_twins(path, header)
    if how.columns is not None:
        how.take("table")
        yield from _group(path, rows, header, how, ours=False)
        return
    stream = iter(rows)
    first = next(stream, None)
    if first is None:
        if how.shape is None and not holds_dialogues(header, None):
            _columns(path, header, TurnColumns())
        return
    rows = chain((first,), stream)
    shape = how.shape or _row_shape(header, _cells(first[1]))
    if shape is None:
        how.take("table")
        yield from _group(path, rows, header, how, ours=False)
        return
    records = ((number, _cells(row)) for number, row in rows)
    yield from dialogues_of(records, path, how.shape, how.tell, lenient=how.lenient, took=how.took)


def _row_shape(header: list[str], row: dict[str, Any]) -> RecordShape | None:
    """Return the shape of rows that are more than a turn; None for a table of turns."""
    if holds_dialogues(header, None) and not all(map(_is_short, map(row.get, column_names() & {*header}))):
        return fitting(row)[0] if fitting(row) else shape_named("messages")
    turns = all(named_column(header, key) for key in ("id", "speaker", "text"))
    whole = any(isinstance(cell, dict) for cell in row.values())  # a message in a cell
    found = [shape for shape in fitting(row) if shape.name not in ("bare", "predictions")]
    found = [shape for shape in found if shape.name != "rows" or (whole and not turns)]
    if not found and not turns and nested(row):
        return shape_named("messages")
    return found[0] if found and not (turns and found[0].general) else None


def _is_short(cell: object) -> bool:
    """Whether a cell can be the name of a dialogue, rather than hold one."""
    return isinstance(cell, int) or (isinstance(cell, str) and 0 < len(cell) < 100)


def _cells(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the JSON in its cells read, and empty ones left out."""
    return {name: decoded(cell) for name, cell in row.items() if cell not in (None, "")}


def has_dialogue_rows(path: str | Path, columns: TurnColumns | None) -> bool:
    """Whether a row of a Parquet file is a whole dialogue, rather than a turn."""
    import pyarrow as pa

    with files.open_binary(path) as file:
        try:
            return holds_dialogues(Parquet(file, path).schema.names, columns)
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            raise DataError(f"not a Parquet file of dialogues: {error}", file=path) from None


def holds_dialogues(names: Iterable[str], columns: TurnColumns | None) -> bool:
    """Whether a row of a table with these columns is a whole dialogue, rather than a turn."""
    return columns is None and not column_names().isdisjoint(names)


_UNLIKE_OURS = (ValueError, TypeError, AttributeError, KeyError, RecursionError)


def _unpack(path: str | Path, line: int, row: dict[str, Any]) -> dict[str, Any]:
    """Undo what the writer packed: free-form parts are JSON in a Parquet file of ours."""
    try:
        messages = [_unpacked(item, "meta") for item in row["messages"]]
        return {**_unpacked(row, "references", "meta"), "messages": messages}
    except _UNLIKE_OURS as error:
        raise DataError(f"not as dialeval writes it: {error}", file=path, line=line) from None


def _unpacked(item: dict[str, Any], *packed: str) -> dict[str, Any]:
    fields = json.loads(item.get("fields") or "{}")
    plain = {key: value for key, value in item.items() if key != "fields"}
    return {**plain, **{key: json.loads(item.get(key) or "{}") for key in packed}, **fields}


def _group(
    path: str | Path,
    rows: Iterable[tuple[int, dict[str, Any]]],
    header: list[str],
    how: TableReading,
    *,
    ours: bool,
) -> Numbered:
    names = _columns(path, header, how.columns or TurnColumns())
    begin, group, size, most = 0, list[dict[str, Any]](), 0, files.max_record()
    for line, row in rows if ours else _together(path, rows, names["id"], how):
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
            begin, size = line, 0
        size += sum(len(cell) for cell in row.values() if isinstance(cell, str))
        if size > most:
            raise files.too_large(path, begin)
        group.append(row)
    if group:
        yield begin, _turns(path, begin, group, names, ours)


def _together(
    path: str | Path, rows: Iterable[tuple[int, dict[str, Any]]], name: str, how: TableReading
) -> Iterable[tuple[int, dict[str, Any]]]:
    """Return rows with those of a dialogue together; only where they are not, all are held in memory."""
    stream = iter(rows)
    ahead = list(islice(stream, _AHEAD))
    ids = [str(row.get(name)) for _, row in ahead]
    changes = sum(one != other for one, other in pairwise(ids)) + 1
    if how.columns is None and plain_name(name) == "id" and len(set(ids)) == len(ids) > 1:
        fix = "name the column of the dialogue: --columns id=COLUMN"
        raise DataError("each row has an id of its own", file=path, line=2, field=name, fix=fix)
    if changes <= len(set(ids)):
        return chain(ahead, stream)
    if how.tell:
        how.tell(f"{path}: rows of a dialogue do not stand together, joined by {name}")
    chats: dict[str, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
    for one in chain(ahead, stream):
        chats[str(one[1].get(name))].append(one)
    return chain.from_iterable(chats.values())


def _columns(path: str | Path, header: list[str], columns: TurnColumns) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in _GUESSED:
        named = getattr(columns, key, None)
        free = [name for name in header if name not in found.values()]
        column = named or named_column(free, key)
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
            numbers = [to_number(str(row[names["turn"]])) for row in rows]
            if not all(map(math.isfinite, numbers)):
                raise ValueError  # noqa: TRY301
            rows = [rows[place] for place in sorted(range(len(rows)), key=numbers.__getitem__)]
        except (TypeError, ValueError):
            raise DataError("not a turn number", file=path, line=line, field=names["turn"]) from None
    elif "time" in names:
        rows = [one["row"] for one in in_order([{"time": row[names["time"]], "row": row} for row in rows])]
    shown = rows if ours else [row for row in rows if not is_internal(row)] or rows
    hidden, rows = len(rows) - len(shown), shown
    first, record = rows[0], dict[str, Any](references={}, meta={})
    record["meta"] |= {"note": "internal notes left out"} if hidden else {}
    record["id"], record["system"] = (
        first[names["id"]],
        first.get(names["system"]) if "system" in names else None,
    )
    who, text = names["speaker"], names["text"]
    record["messages"] = [{"role": side(who, row[who]), "content": _said(row[text])} for row in rows]
    for message, row in zip(record["messages"], rows, strict=True):
        message.update({"time": row[names["time"]]} if "time" in names and row[names["time"]] else {})
    if ours:
        try:
            _restore(record, rows)
        except _UNLIKE_OURS as error:
            raise DataError(f"not as dialeval writes it: {error}", file=path, line=line) from None
    else:
        used = set(names.values())
        whole = _about_all(rows)
        used |= set(whole)
        record |= whole
        for message, row in zip(record["messages"], rows, strict=True):
            cells = {key: value for key, value in row.items() if key not in used and value not in (None, "")}
            lifted = {key: value for key, value in cells.items() if is_lifted(key)}
            message["meta"] = {key: value for key, value in cells.items() if key not in lifted}
            message |= {key: decoded(value) for key, value in lifted.items()}
        if not any(role(message["role"]) == "assistant" for message in record["messages"]):
            for message in record[
                "messages"
            ]:  # two columns of speakers, user and system: the system is the bot
                if str(message["role"]).strip().lower() == "system":
                    message["role"] = "assistant"
    return parse_record(record, shape_named("messages"), path, line)[0][0]


_MARKED = re.compile(r"\s*<(p|div|span|html|body|br)\b[^>]*>.*>\s*", re.DOTALL)


def _said(cell: Any) -> Any:
    """Return the text of a cell; a body in HTML, which help desks export, becomes text."""
    return plain_text(cell) if isinstance(cell, str) and _MARKED.fullmatch(cell) else cell


def _about_all(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the feedback that each row repeats: it is about the dialogue."""
    if len(rows) < 2:
        return {}
    same = {key: cell for key, cell in rows[0].items() if all(row.get(key) == cell for row in rows)}
    return {key: cell for key, cell in same.items() if feedback_name(key) and cell not in (None, "")}


def _restore(record: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Undo what the writer did to cells of a table of ours."""
    record["id"] = unguard_cell(record["id"])
    record["system"] = unguard_cell(record["system"] or "") or None
    for number, (message, row) in enumerate(zip(record["messages"], rows, strict=True)):
        packed = json.loads(row["meta"] or "{}")
        record["meta"] |= packed.get("dialogue", {})
        record |= packed.get("dialogue_fields", {})
        said = {"role": unguard_cell(message["role"]), "content": unguard_cell(message["content"])}
        message.update(**said, meta=packed.get("turn", {}), **packed.get("turn_fields", {}))
        if row["references"]:
            record["references"][str(number)] = json.loads(row["references"])
