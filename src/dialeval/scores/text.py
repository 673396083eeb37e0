"""Scores as JSONL and CSV: the seven columns, and the signature as an eighth so that nothing is lost."""

import csv
import io
import json
import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from dialeval import files
from dialeval.errors import DataError
from dialeval.scores.table import SCHEMA, Scores, open_parquet

COLUMNS = (*SCHEMA.names, "signature")
# A spreadsheet runs a cell that starts with one of these as a formula (promise R19).
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_QUOTED_FORMULA = re.compile(r"'+[=+\-@\t\r]")


def guard_cell(text: str) -> str:
    """Keep a spreadsheet from running a cell; `unguard_cell` takes it back exactly.

    >>> guard_cell("=HYPERLINK(1)"), guard_cell("plain"), unguard_cell(guard_cell("'=x"))
    ("'=HYPERLINK(1)", 'plain', "'=x")
    """
    return "'" + text if _FORMULA.match(text) else text


def unguard_cell(text: str) -> str:
    """Undo `guard_cell`."""
    return text[1:] if _QUOTED_FORMULA.match(text) else text


def to_jsonl(scores: Scores) -> str:
    """One JSON object a row; NaN cannot occur."""
    signatures = {source: str(signature) for source, signature in scores.signatures.items()}
    lines = []
    for row in scores:
        record: dict[str, Any] = {**row._asdict(), "signature": signatures.get(row.source)}
        lines.append(json.dumps(record, ensure_ascii=False, allow_nan=False))
    return "".join(line + "\n" for line in lines)


def to_csv(scores: Scores, *, header: bool = True) -> str:
    """Comma-separated values with formula-like cells quoted; an empty cell is null."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    if header:
        writer.writerow(COLUMNS)
    signatures = {source: str(signature) for source, signature in scores.signatures.items()}
    for row in scores:
        cells = (*row, signatures.get(row.source))
        writer.writerow([guard_cell(item) if isinstance(item, str) else item for item in cells])
    return out.getvalue()


def write(file: BinaryIO, ending: str, parts: Iterable[Scores]) -> None:
    """Write tables under each other as they come, as `.jsonl` or `.csv`, holding one at a time."""
    if ending == ".csv":
        file.write(to_csv(Scores.of([])).encode())
    for part in parts:
        made = to_csv(part, header=False) if ending == ".csv" else to_jsonl(part)
        file.write(made.encode("utf-8", "replace"))


def read(path: str | Path) -> Scores:
    """Read JSONL or CSV in our own columns."""
    from dialeval.scores.columns import ColumnMap, read_columns

    names = {name: name for name in ("turn", "system", "source", "dimension", "note", "signature")}
    return read_columns(path, ColumnMap(id="dialogue_id", value="value", **names), strict=False)


def records(path: str | Path) -> list[tuple[int, dict[str, Any]]]:
    """Read a table of any columns from CSV, JSONL or Parquet: (line, record) pairs."""
    suffix = Path(str(path).removesuffix(".gz")).suffix.lower()
    if suffix == ".parquet":
        try:
            return list(enumerate(open_parquet(path).to_pylist(), 1))
        except (ValueError, OverflowError) as error:  # a time beyond all calendars, text that is none
            raise DataError(f"holds what cannot be read: {error}", file=path) from None
    with files.open_binary(path) as file:
        try:
            text = file.read().decode("utf-8-sig")
        except (UnicodeDecodeError, EOFError, OSError, zlib.error) as error:
            raise DataError(
                f"cannot be read as UTF-8 text: {error}", file=path, fix="save it as UTF-8"
            ) from None
    if suffix in (".jsonl", ".json", ".ndjson") or (suffix != ".csv" and text.lstrip().startswith("{")):
        return list(_json_records(path, text))
    return _csv_records(path, text)


def _json_records(path: str | Path, text: str) -> Any:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:  # a number of 5,000 digits, a thousand brackets
            what = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            raise DataError(
                f"not JSON: {what}", file=path, line=number, fix="one JSON object a line"
            ) from None
        if not isinstance(record, dict):
            raise DataError("not a JSON object", file=path, line=number, fix="one JSON object a line")
        yield number, record


def _csv_records(path: str | Path, text: str) -> list[tuple[int, dict[str, Any]]]:
    csv.field_size_limit(2**31 - 1)  # a judge's export may carry whole dialogues in a cell
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    found = []
    try:
        for record in reader:
            if None in record or None in record.values():
                raise DataError("as many cells as the header has are needed", file=path, line=reader.line_num)
            found.append((reader.line_num, {key: unguard_cell(cell) for key, cell in record.items()}))
    except csv.Error as error:
        raise DataError(f"not CSV: {error}", file=path, line=reader.reader.line_num) from None
    return found
