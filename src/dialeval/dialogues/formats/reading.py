"""`read`: any file of dialogues as a stream, with the place named when something is wrong."""

import json
import zlib
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from dialeval import files
from dialeval.dialogues.dialogue import Dialogue, content_id
from dialeval.dialogues.formats import tables, transcript
from dialeval.dialogues.formats.records import ROLES, SHAPES, Shape, parse_record
from dialeval.errors import DataError, UsageError

FORMATS = (*(shape.name for shape in SHAPES), "table", "text")
_CHUNK = 1 << 16
_MAX_RECORD = 1 << 28  # characters of one dialogue in a JSON array; more is not a dialogue
_decode = msgspec.json.Decoder(Dialogue).decode
Numbered = Iterator[tuple[int, Dialogue]]


def read(
    path: str | Path, format: str | None = None, columns: tables.TurnColumns | None = None
) -> Iterator[Dialogue]:
    """Yield the dialogues of a file, one after the other, in flat memory.

    The kind of file follows from its name and first bytes, the shape of its records from the first one.
    `-` is JSONL on standard input; gzip is seen through. A dialogue without an id is named by its
    content; the second one with the same content gets `-2`, and so on.

    Args:
        path: JSONL, JSON array, Parquet, CSV, TSV or plain text, possibly gzipped.
        format: One of `FORMATS` instead of looking.
        columns: Which columns of a turn table hold what.

    Raises:
        DataError: With file, line and field. A duplicate id names both lines, at the latest at the end.
    """
    if format is not None and format not in FORMATS:
        raise UsageError(f"no format {format!r}; known: {', '.join(FORMATS)}")
    seen, nameless = _SeenIds(path), Counter[str]()
    try:
        for line, dialogue in _numbered(path, format, columns):
            if not dialogue.id:
                dialogue = _named(dialogue, nameless)  # noqa: PLW2901
            seen.add(dialogue.id, line)
            yield dialogue
    except (EOFError, zlib.error) as error:
        raise DataError(f"the compressed file is broken: {error}", file=path, fix="copy it again") from None
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error.reason}", file=path, fix="save the file as UTF-8") from None
    seen.check()


def _named(dialogue: Dialogue, nameless: Counter[str]) -> Dialogue:
    name = content_id(dialogue)
    nameless[name] += 1
    return msgspec.structs.replace(dialogue, id=name if nameless[name] == 1 else f"{name}-{nameless[name]}")


class _SeenIds:
    """Finds duplicate ids in twelve bytes a dialogue, so that memory stays flat over a gigabyte.

    Hashes are looked through when their number has doubled, and at the end.
    """

    def __init__(self, path: str | Path) -> None:
        self.path, self.hashes, self.lines, self.next = path, array("q"), array("I"), 4096

    def add(self, name: str, line: int) -> None:
        self.hashes.append(hash(name))
        self.lines.append(line)
        if len(self.hashes) >= self.next:
            self.check()
            self.next *= 2

    def check(self) -> None:
        import numpy as np

        order = np.argsort(hashes := np.frombuffer(self.hashes, dtype=np.int64), kind="stable")
        same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
        if len(same):
            first, second = (self.lines[int(order[same[0] + k])] for k in (0, 1))
            raise DataError(
                f"the id of this dialogue was already used in line {first}",
                file=self.path,
                line=second,
                field="id",
                fix="ids must be unique; leave them out to have them made",
            )


def _numbered(path: str | Path, format: str | None, columns: tables.TurnColumns | None) -> Numbered:
    suffix = Path(str(path).removesuffix(".gz")).suffix.lower()
    if suffix == ".parquet":
        yield from tables.read_parquet(path, columns)
    elif suffix in (".csv", ".tsv") or format == "table":
        yield from tables.read_csv(path, "\t" if suffix == ".tsv" else ",", columns)
    elif suffix == ".txt" or format == "text":
        yield from transcript.read_text(path)
    else:
        yield from _read_json(path, next((shape for shape in SHAPES if shape.name == format), None))


def _read_json(path: str | Path, shape: Shape | None) -> Numbered:
    with files.open_binary(path) as file:
        start = _first_line(path, file)
        if start.lstrip()[:1] == b"[":
            yield from _read_array(path, file, start, shape)
        else:
            yield from _read_lines(path, file, start, shape)


def _first_line(path: str | Path, file: BinaryIO) -> bytes:
    """Return the first line that holds something, counted in blank lines by the reader after it."""
    try:
        line = file.readline()
    except OSError as error:  # gzip's complaint about bytes that are not gzip
        raise DataError(str(error), file=path) from None
    return line.removeprefix(b"\xef\xbb\xbf")


def _read_lines(path: str | Path, file: BinaryIO, line: bytes, shape: Shape | None) -> Numbered:
    number = 1
    while line:
        dialogue: Dialogue | None
        try:
            dialogue = _decode(line)
            # What is not plain ASCII may need composing, and roles may go by other names: the slow way.
            plain = (
                line.isascii() and b"\\u" not in line and {turn.speaker for turn in dialogue.turns} <= ROLES
            )
            if not plain or (dialogue.references and max(dialogue.references) >= len(dialogue.turns)):
                dialogue = None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            dialogue = None
        if dialogue is None or (
            b'"tool"' in line and any(t.speaker == "tool" and t.text for t in dialogue.turns)
        ):
            record = _json(path, number, line)
            if record is not _BLANK:
                dialogue, shape = parse_record(record, shape, path, number)
                yield number, dialogue
        else:
            yield number, dialogue
        line = file.readline()
        number += 1


_BLANK = object()


def _json(path: str | Path, number: int, line: bytes) -> Any:
    try:
        text = line.decode()
        return json.loads(text) if text.strip() else _BLANK
    except json.JSONDecodeError as error:
        what = "the line breaks off" if error.pos >= len(text.rstrip()) else f"not JSON: {error.msg}"
        raise DataError(
            what, file=path, line=number, field=f"column {error.colno}", fix="one JSON object a line"
        ) from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"not UTF-8: {error.reason}", file=path, line=number, fix="save the file as UTF-8"
        ) from None
    except RecursionError:
        raise DataError("nested too deeply", file=path, line=number) from None


def _read_array(path: str | Path, file: BinaryIO, start: bytes, shape: Shape | None) -> Numbered:
    """Read a JSON array element by element, holding one element at a time; lines are counted as items."""
    import codecs

    decoder, utf8 = json.JSONDecoder(), codecs.getincrementaldecoder("utf-8")()
    text, number, ended = utf8.decode(start).lstrip()[1:], 0, False
    while True:
        text = text.lstrip(" \t\r\n,")
        if text[:1] == "]":
            return
        try:
            record, end = decoder.raw_decode(text) if text else (None, -1)
        except RecursionError:
            raise DataError("nested too deeply", file=path, line=number + 1) from None
        except json.JSONDecodeError as error:
            record, end = None, -1
            if (
                ended
                or len(text) > _MAX_RECORD
                or (error.pos < len(text) - 64 and error.msg.startswith("Expecting"))
            ):
                raise DataError(
                    f"not JSON: {error.msg}", file=path, line=number + 1, fix="item of the array"
                ) from None
        if end < 0 or (end == len(text) and not ended):
            if ended:
                raise DataError("the array is not closed: the file breaks off", file=path, line=number + 1)
            chunk = file.read(max(_CHUNK, len(text)))
            ended = not chunk
            try:
                text += utf8.decode(chunk, final=ended)
            except UnicodeDecodeError as error:
                raise DataError(f"not UTF-8: {error.reason}", file=path, line=number + 1) from None
            continue
        number += 1
        text = text[end:]
        dialogue, shape = parse_record(record, shape, path, number)
        yield number, dialogue
