"""Scores as JSONL and CSV, and foreign tables, whose columns are named by a `ColumnMap`.

Our own text files have the seven columns of the table and the signature as an eighth. The command line takes
a map as `--map judge.csv:id=conversation,value=score,source=gpt-4`.
"""

import csv
import dataclasses
import io
import json
import math
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from dialeval import files
from dialeval.errors import DataError, UsageError
from dialeval.scores.signature import FOREIGN, Signature, add_signature
from dialeval.scores.table import SCHEMA, Score, Scores, is_human, open_parquet, refuse_twins


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """The columns of a foreign table.

    `id` and `value` (and `turn`, `rater`) are columns. `source`, `dimension`, `system` and `note` are columns
    if the file has one of that name, and constants if not.

    >>> ColumnMap.parse("judge.csv:id=conversation,value=score,source=gpt-4")[1].source
    'gpt-4'
    """

    id: str
    value: str
    turn: str | None = None
    source: str | None = None
    rater: str | None = None
    dimension: str | None = None
    system: str | None = None
    note: str | None = None
    signature: str | None = None

    @classmethod
    def parse(cls, text: str) -> tuple[str, "ColumnMap"]:
        """Parse `file:id=column,value=column,…` of the command line."""
        path, rest = split.groups() if (split := re.match(r"(.+?):(\w+=.*)", text, re.DOTALL)) else ("", "")
        names = {item.name for item in dataclasses.fields(cls)}
        pairs = dict(part.partition("=")[::2] for part in rest.split(",") if part)
        if not path or not {"id", "value"} <= set(pairs) <= names or not all(pairs.values()):
            raise UsageError(
                f"--map {text!r}: expected FILE:id=COLUMN,value=COLUMN and, as needed, turn=, source=, "
                "rater=, dimension=, system=, note="
            )
        return path, cls(**pairs)


def read_columns(path: str | Path, columns: ColumnMap, *, strict: bool = True) -> Scores:
    """Read a foreign table of scores.

    Text instead of a number (`N/A`) becomes the note of an unscored row; a column without any number is an
    error, because it is most likely the wrong one.

    Args:
        path: A CSV, JSONL or Parquet file.
        columns: The columns of the file.
        strict: Whether the optional columns of the map must exist (our own files may lack some).
    """
    rows = records(path)
    header = dict.fromkeys(key for _, record in rows for key in record)  # a JSON line may leave some out
    reader = _RowReader(path, columns, list(header), strict)
    scores = [reader.row(line, record) for line, record in rows]
    if scores and strict and all(score.value is None for score in scores):
        raise DataError(
            "no number in this column", file=path, field=columns.value, fix="name another with value=…"
        )
    return Scores.of(scores, reader.signatures)


_LIKELY = {
    "id": r"dialog|conversation|session|chat|\bid|_id\b|id$",
    "rater": r"rater|annotator|worker|judge",
    "turn": r"turn|utterance|message",
    "value": r"overall|score|rating|value|quality|label",
}


def likely_columns(header: list[str]) -> str:
    """Return a guess at the columns in the notation of `--map`, for the user to correct.

    >>> likely_columns(["conversation_id", "annotator", "comment", "overall"])
    'id=conversation_id,rater=annotator,value=overall'
    """
    left, columns = [str(name) for name in header], dict[str, str]()
    for field, pattern in _LIKELY.items():
        fitting = [name for name in left if re.search(pattern, name.lower())]
        if not fitting and field in ("id", "value"):
            fitting = left
        if fitting:
            columns[field] = fitting[0]
            left.remove(fitting[0])
    return ",".join(f"{field}={name}" for field, name in columns.items())


class _RowReader:
    """Converts records to `Score` rows and collects their signatures."""

    def __init__(self, path: str | Path, columns: ColumnMap, header: list[str], strict: bool) -> None:
        self.path, self.columns = path, columns
        self.signatures: dict[str, Signature] = {}
        named = [(item.name, getattr(columns, item.name)) for item in dataclasses.fields(columns)]
        self.present = {name for name, column in named if column in header}
        for name in ("id", "value", "turn", "rater"):
            column = getattr(columns, name)
            if (
                header
                and column is not None
                and name not in self.present
                and (strict or name in ("id", "value"))
            ):
                has = ", ".join(map(str, header))
                raise DataError(
                    f"no such column; the file has: {has}",
                    file=path,
                    field=column,
                    fix="these are dialogues: dialeval score them first"
                    if "messages" in header
                    else f"name the columns: --map {path}:{likely_columns(header)}; in Python: columns=…",
                )
        self.signature = self._make_signature()

    def _make_signature(self) -> Signature:
        digest = {} if str(self.path) == "-" else {"sha256": files.sha256(self.path)[:12]}
        named = {
            k: v
            for k, v in dataclasses.asdict(self.columns).items()
            if v is not None and k not in ("note", "signature")
        }
        return Signature.of(FOREIGN, {"file": Path(self.path).name, **digest, **named})

    def _cell(self, record: dict[str, Any], name: str) -> Any:
        column = getattr(self.columns, name)
        if name in self.present:
            return record.get(column)
        return None if column == name else column

    def row(self, line: int, record: dict[str, Any]) -> Score:
        name = self._cell(record, "id")
        if name is None or name == "":
            raise DataError("no dialogue id", file=self.path, line=line, field=self.columns.id)
        source = self._source(record)
        self._sign(line, source, self._cell(record, "signature"))
        value, note = _number(record.get(self.columns.value), _text(self._cell(record, "note")))
        return Score(
            _text(name) or "",
            self._turn(line, self._cell(record, "turn")),
            _text(self._cell(record, "system")),
            source,
            _text(self._cell(record, "dimension")) or self.columns.value,
            value,
            note,
        )

    def _source(self, record: dict[str, Any]) -> str:
        """Return the source of a row; a blank rater is a person without a name."""
        rater = _text(self._cell(record, "rater"))
        unnamed = "human" if self.columns.rater is not None else Path(self.path).stem
        return f"human:{rater}" if rater else _text(self._cell(record, "source")) or unnamed

    def _sign(self, line: int, source: str, signature: object) -> None:
        """Store the signature of a row; a metric in a file without signatures gets that of the file.

        People get none, because the same rater may be in two files.
        """
        if signature:
            parsed = Signature.parse(str(signature))
            if not add_signature(self.signatures, source, parsed):
                raise DataError(
                    f"two signatures for the source {source!r}", file=self.path, line=line, field="signature"
                )
        elif "signature" not in self.present and not is_human(source):
            self.signatures[source] = self.signature

    def _turn(self, line: int, cell: object) -> int | None:
        if cell is None or cell == "":
            return None
        try:
            number = to_number(str(cell))
            if number != int(number) or not 0 <= number < 2**31:
                raise ValueError  # noqa: TRY301
        except (ValueError, OverflowError):
            raise DataError(
                f"not a turn number: {str(cell)[:40]!r}",
                file=self.path,
                line=line,
                field=self.columns.turn,
                fix="a turn's number is its index among the messages, from 0",
            ) from None
        return int(number)


def _text(cell: object) -> str | None:
    """Return a cell as text; a lone surrogate cannot be stored and becomes U+FFFD."""
    if cell is None or cell == "":
        return None
    text = str(cell)
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def to_number(text: str) -> float:
    """Parse a number; Python's `1_0` and full-width digits are refused.

    >>> to_number(" -2.5e3 ")
    -2500.0
    >>> to_number("1_0")
    Traceback (most recent call last):
    ...
    ValueError: not a number: '1_0'
    """
    if "_" in text or not text.isascii():
        raise ValueError(f"not a number: {text[:40]!r}")
    return float(text)


def _number(cell: object, note: str | None) -> tuple[float | None, str | None]:
    if cell is None or cell == "":
        return None, note or "missing"
    try:
        value = float(cell) if isinstance(cell, bool) else to_number(str(cell))
    except ValueError:
        return None, note or _text(str(cell)[:80])
    return (value, note) if math.isfinite(value) else (None, note or f"not a finite number: {str(cell)[:40]}")


COLUMNS = (*SCHEMA.names, "signature")
# A spreadsheet evaluates a cell that starts with one of these as a formula (promise R19).
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_QUOTED_FORMULA = re.compile(r"'+[=+\-@\t\r]")


def guard_cell(text: str) -> str:
    """Quote a cell that a spreadsheet would evaluate as a formula; `unguard_cell` restores it exactly.

    >>> guard_cell("=HYPERLINK(1)"), guard_cell("plain"), unguard_cell(guard_cell("'=x"))
    ("'=HYPERLINK(1)", 'plain', "'=x")
    """
    return "'" + text if _FORMULA.match(text) else text


def unguard_cell(text: str) -> str:
    """Undo `guard_cell`."""
    return text[1:] if _QUOTED_FORMULA.match(text) else text


def to_jsonl(scores: Scores) -> str:
    """Return the scores as JSONL, one object per row."""
    signatures = {source: str(signature) for source, signature in scores.signatures.items()}
    lines = []
    for row in scores:
        record: dict[str, Any] = {**row._asdict(), "signature": signatures.get(row.source)}
        lines.append(json.dumps(record, ensure_ascii=False, allow_nan=False))
    return "".join(line + "\n" for line in lines)


def to_csv(scores: Scores, *, header: bool = True) -> str:
    """Return the scores as CSV with formula-like cells quoted; an empty cell is null."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    if header:
        writer.writerow(COLUMNS)
    signatures = {source: str(signature) for source, signature in scores.signatures.items()}
    for row in scores:
        cells = (*row, signatures.get(row.source))
        writer.writerow([guard_cell(item) if isinstance(item, str) else item for item in cells])
    return out.getvalue()


def write_tables(file: BinaryIO, ending: str, parts: Iterable[Scores]) -> None:
    """Write tables one after the other, as `.jsonl` or `.csv`, with one at a time in memory."""
    if ending == ".csv":
        file.write(to_csv(Scores.of([])).encode())
    for part in parts:
        text = to_csv(part, header=False) if ending == ".csv" else to_jsonl(part)
        file.write(text.encode("utf-8", "replace"))


def read_scores(path: str | Path) -> Scores:
    """Read JSONL or CSV with our own columns."""
    names = {name: name for name in ("turn", "system", "source", "dimension", "note", "signature")}
    return read_columns(path, ColumnMap(id="dialogue_id", value="value", **names), strict=False)


def records(path: str | Path) -> list[tuple[int, dict[str, Any]]]:
    """Read a table with any columns from CSV, JSONL or Parquet: (line, record) pairs."""
    suffix = Path(str(path).removesuffix(".gz")).suffix.lower()
    if suffix == ".parquet":
        try:
            return list(enumerate(open_parquet(path).to_pylist(), 1))
        except (ValueError, OverflowError) as error:  # a date out of range, invalid text
            raise DataError(f"has values that cannot be read: {error}", file=path) from None
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
            record = files.parse_json(line)
        except DataError as error:
            raise DataError(str(error), file=path, line=number) from None
        except json.JSONDecodeError as error:
            raise DataError(
                f"not JSON: {error.msg}", file=path, line=number, fix="one JSON object a line"
            ) from None
        if not isinstance(record, dict):
            raise DataError("not a JSON object", file=path, line=number, fix="one JSON object a line")
        yield number, record


def _csv_records(path: str | Path, text: str) -> list[tuple[int, dict[str, Any]]]:
    csv.field_size_limit(files.max_record())  # a judge's export may carry whole dialogues in a cell
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    rows = []
    try:
        refuse_twins(path, list(reader.fieldnames or ()), 1)
        for record in reader:
            if None in record or None in record.values():
                raise DataError("not as many cells as the header has", file=path, line=reader.line_num)
            rows.append((reader.line_num, {key: unguard_cell(cell) for key, cell in record.items()}))
    except csv.Error as error:
        raise DataError(f"not CSV: {error}", file=path, line=reader.reader.line_num) from None
    return rows
