"""Anyone's score column as a source: name the columns, and a judge's export joins the study.

The same notation serves the command line (`--map judge.csv:id=conversation,value=score,source=gpt-4`)
and Python (`ColumnMap`).
"""

import dataclasses
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dialeval import files
from dialeval.errors import DataError, UsageError
from dialeval.scores.signature import Signature, add_signature
from dialeval.scores.table import Score, Scores, is_human


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """Which column holds what.

    `id` and `value` (and `turn`, `rater`) are columns. `source`, `dimension`, `system` and `note` name a
    column if the file has one of that name, and are taken as they stand if not.

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
        """Read `file:id=column,value=column,…` as given on the command line."""
        path, rest = split.groups() if (split := re.match(r"(.+?):(\w+=.*)", text, re.DOTALL)) else ("", "")
        known = {item.name for item in dataclasses.fields(cls)}
        pairs = dict(part.partition("=")[::2] for part in rest.split(",") if part)
        if not path or not {"id", "value"} <= set(pairs) <= known or not all(pairs.values()):
            raise UsageError(
                f"--map {text!r}: expected FILE:id=COLUMN,value=COLUMN and, as needed, turn=, source=, "
                "rater=, dimension=, system=, note="
            )
        return path, cls(**pairs)


def read_columns(path: str | Path, columns: ColumnMap, *, strict: bool = True) -> Scores:
    """Read a foreign table of scores.

    Text where a number should be (`N/A`) is kept as the note of an unscored row; a column without a
    single number is an error, because then it is most likely the wrong one.

    Args:
        path: A CSV, JSONL or Parquet file.
        columns: Which column holds what.
        strict: Whether the optional columns that the map names must exist (ours may lack some).
    """
    from dialeval.scores.text import records

    rows = records(path)
    known = dict.fromkeys(key for _, record in rows for key in record)  # a JSON line may leave some out
    reader = _Reader(path, columns, list(known), strict)
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
    """Guess which column holds what, in the notation of `--map`, for somebody to correct.

    >>> likely_columns(["conversation_id", "annotator", "comment", "overall"])
    'id=conversation_id,rater=annotator,value=overall'
    """
    left, found = [str(name) for name in header], dict[str, str]()
    for what, pattern in _LIKELY.items():
        fitting = [name for name in left if re.search(pattern, name.lower())]
        if not fitting and what in ("id", "value"):
            fitting = left
        if fitting:
            found[what] = fitting[0]
            left.remove(fitting[0])
    return ",".join(f"{what}={name}" for what, name in found.items())


class _Reader:
    """Turns one record after the other into a Score, and remembers signatures met on the way."""

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
                    fix=f"say which column holds what: --map {path}:{likely_columns(header)}",
                )
        self.signature = self._make_signature()

    def _make_signature(self) -> Signature:
        digest = {} if str(self.path) == "-" else {"sha256": files.sha256(self.path)[:12]}
        named = {
            k: v
            for k, v in dataclasses.asdict(self.columns).items()
            if v is not None and k not in ("note", "signature")
        }
        return Signature.of("column.v1", {"file": Path(self.path).name, **digest, **named})

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
        """A rater is a person; where only raters are named, a blank one is a person without a name."""
        rater = _text(self._cell(record, "rater"))
        unnamed = "human" if self.columns.rater is not None else Path(self.path).stem
        return f"human:{rater}" if rater else _text(self._cell(record, "source")) or unnamed

    def _sign(self, line: int, source: str, signature: object) -> None:
        """Keep the signature a row brings; a metric from a file without signatures gets the file's own.

        People get none: the same rater may well be in two files.
        """
        if signature:
            found = Signature.parse(str(signature))
            if not add_signature(self.signatures, source, found):
                raise DataError(
                    f"two signatures for the source {source!r}", file=self.path, line=line, field="signature"
                )
        elif "signature" not in self.present and not is_human(source):
            self.signatures[source] = self.signature

    def _turn(self, line: int, cell: object) -> int | None:
        if cell is None or cell == "":
            return None
        try:
            number = float(str(cell))
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
    """A cell as text; half a character (a lone surrogate) cannot be stored and becomes U+FFFD."""
    if cell is None or cell == "":
        return None
    text = str(cell)
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _number(cell: object, said: str | None) -> tuple[float | None, str | None]:
    if cell is None or cell == "":
        return None, said or "missing"
    try:
        value = float(str(cell)) if not isinstance(cell, bool) else float(cell)
    except ValueError:
        return None, said or _text(str(cell)[:80])
    return (value, said) if math.isfinite(value) else (None, said or f"not a finite number: {cell}")
