"""`read`: any file of dialogues as a stream, with the place named when something is wrong."""

import contextlib
import json
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from dialeval import files
from dialeval.dialogues.dialogue import Dialogue, content_id
from dialeval.dialogues.formats import predictions, tables, transcript
from dialeval.dialogues.formats.records import SHAPES, Shape, parse_record
from dialeval.errors import DataError, UsageError
from dialeval.stores import is_address

FORMATS = (*(shape.name for shape in SHAPES), "predictions", "table", "text")
_CHUNK = 1 << 16
_RECENT = 1 << 17  # dialogues of a stream whose names are remembered, at least
_MAX_RECORD = 1 << 28  # characters of one dialogue in a JSON array; more is not a dialogue
_decode = msgspec.json.Decoder(Dialogue).decode
_PLAIN_ROLES = frozenset(("user", "assistant", "system"))
Numbered = Iterator[tuple[int, Dialogue]]


def read(
    path: str | Path, format: str | None = None, columns: tables.TurnColumns | None = None
) -> Iterator[Dialogue]:
    """Yield the dialogues of a file, one after the other, in flat memory.

    The kind of file follows from its name and first bytes, the shape of its records from the first one.
    `-` is JSONL on standard input; gzip is seen through. A dialogue without an id is named by its
    content; the second one with the same content gets `-2`, and so on. A stream has no end, so there only
    the last 131,072 names, or up to twice as many, are remembered.

    Args:
        path: JSONL, JSON array, predictions by id, Parquet, CSV, TSV or plain text, possibly gzipped.
        format: One of `FORMATS` instead of looking.
        columns: Which columns of a turn table hold what.

    Raises:
        DataError: With file, line and field. A duplicate id names both lines, at the latest at the end.
    """
    if format is not None and format not in FORMATS:
        raise UsageError(f"no format {format!r}; known: {', '.join(FORMATS)}")
    seen = _SeenIds(path, lambda: numbered(path, format, columns))
    nameless = _Recent(_RECENT) if str(path) == "-" else Counter[str]()
    add, check_at = seen.add, 4096
    with readable(path):
        for line, dialogue in numbered(path, format, columns):
            if not dialogue.id:
                yield named(dialogue, nameless)
                continue
            add(dialogue.id, line)
            if line >= check_at:
                seen.check()
                check_at *= 2
            yield dialogue
    seen.check()


@contextlib.contextmanager
def readable(path: str | Path) -> Iterator[None]:
    """Say of bytes that are neither gzip nor text, as they should be, which file they are in."""
    try:
        yield
    except (EOFError, zlib.error) as error:
        raise DataError(f"the compressed file is broken: {error}", file=path, fix="copy it again") from None
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error.reason}", file=path, fix="save the file as UTF-8") from None


def named(dialogue: Dialogue, nameless: Counter[str]) -> Dialogue:
    """Name a dialogue by its content; `nameless` counts how often that content came before."""
    name = content_id(dialogue)
    nameless[name] += 1
    return msgspec.structs.replace(dialogue, id=name if nameless[name] == 1 else f"{name}-{nameless[name]}")


class _Recent(Counter[Any]):
    """Numbers by name, of which at least the last `most` are remembered."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self.old = most, dict[Any, int]()

    def __missing__(self, name: Any) -> int:
        return self.old.get(name, 0)

    def __setitem__(self, name: Any, number: int) -> None:
        if len(self) == self.most:
            self.old = dict(self)
            self.clear()
        super().__setitem__(name, number)


class _SeenIds:
    """Finds duplicate ids in eight bytes a dialogue, so that memory stays flat over a gigabyte.

    Hashes are sorted in place and looked through when their number has doubled, and at the end. Only when
    two are equal is the file read again, to name the lines. A stream cannot be: there the hashes of the last
    ids are kept with their lines.
    """

    def __init__(self, path: str | Path, again: Callable[[], Numbered]) -> None:
        self.path, self.again, self.hashes = path, again, array("q")
        self.lines = _Recent(_RECENT)
        self.add = self._keep if str(path) == "-" else self._hash

    def _hash(self, name: str, line: int) -> None:
        self.hashes.append(hash(name))

    def _keep(self, name: str, line: int) -> None:
        hashed = hash(name)
        if first := self.lines[hashed]:
            self._complain(first, line)
        self.lines[hashed] = line

    def check(self) -> None:
        import numpy as np

        hashes = np.frombuffer(self.hashes, dtype=np.int64)
        hashes.sort()
        for first in range(0, len(hashes) - 1, _CHUNK):
            part = hashes[first : first + _CHUNK + 1]
            same = np.flatnonzero(part[1:] == part[:-1])
            if len(same):
                twice = int(part[same[0]])
                lines = [line for line, found in self.again() if found.id and hash(found.id) == twice]
                self._complain(lines[0], lines[-1])

    def _complain(self, first: int, second: int) -> None:
        raise DataError(
            f"the id of this dialogue was already used in line {first}",
            file=self.path,
            line=second,
            field="id",
            fix="ids must be unique; leave them out to have them made",
        )


def numbered(path: str | Path, format: str | None, columns: tables.TurnColumns | None) -> Numbered:
    """Yield the dialogues of a file with their lines, rows or items, nameless ones without a name."""
    suffix = ending(path)
    if suffix == ".parquet":
        return tables.read_parquet(path, columns)
    if suffix in (".csv", ".tsv") or format == "table":
        return tables.read_csv(path, "\t" if suffix == ".tsv" else ",", columns)
    if suffix == ".txt" or format == "text":
        return transcript.read_text(path)
    shape = next((shape for shape in SHAPES if shape.name == format), None)
    file = files.open_binary(path)
    start = first_line(path, file)
    if format == "predictions" or (suffix == ".json" and shape is None and predictions.looks_like(start)):
        return predictions.read_predictions(path, file, start)
    return (_read_array if start.lstrip()[:1] == b"[" else _read_lines)(path, file, start, shape)


def ending(path: str | Path) -> str:
    """Return how a name ends, that of an address before its query, without `.gz`.

    >>> ending("chats.JSONL.gz"), ending("s3://logs/may.parquet?region=eu-west-1")
    ('.jsonl', '.parquet')
    """
    name = str(path).partition("?")[0] if is_address(path) else str(path)
    return Path(name.removesuffix(".gz")).suffix.lower()


def first_line(path: str | Path, file: BinaryIO) -> bytes:
    """Return the first line that holds something, counted in blank lines by the reader after it."""
    try:
        line = file.readline()
    except OSError as error:  # gzip's complaint about bytes that are not gzip
        raise DataError(str(error), file=path) from None
    return line.removeprefix(b"\xef\xbb\xbf")


def _read_lines(path: str | Path, file: BinaryIO, first: bytes, shape: Shape | None) -> Numbered:
    with file:
        for number, line in enumerate(chain((first,), file), 1):
            dialogue, shape = parse_line(path, number, line, shape)
            if dialogue is not None:
                yield number, dialogue


def parse_line(
    path: str | Path, number: int, line: bytes, shape: Shape | None
) -> tuple[Dialogue | None, Shape | None]:
    """Read one line of JSONL, in the shape that the file has so far; a blank line holds no dialogue."""
    dialogue = _read_plain(line)
    if dialogue is not None:
        return dialogue, shape
    record = _json(path, number, line)
    return (None, shape) if record is _BLANK else parse_record(record, shape, path, number)


def _read_plain(line: bytes) -> Dialogue | None:
    """Decode a line in our own format that needs no second look, at the speed of msgspec; else None.

    What is not plain ASCII may need composing, roles may go by other names, and tool messages hold no text.
    """
    if not line.isascii() or (b"\\" in line and b"\\u" in line):
        return None
    try:
        dialogue = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    for turn in dialogue.turns:
        if turn.speaker not in _PLAIN_ROLES:
            return None
    if dialogue.references and max(dialogue.references) >= len(dialogue.turns):
        return None
    return dialogue


_BLANK = object()


def _json(path: str | Path, number: int, line: bytes) -> Any:
    try:
        text = line.decode()
        return json.loads(text) if text.strip() else _BLANK
    except json.JSONDecodeError as error:
        broken = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        what, column = (
            ("the line breaks off", len(text.rstrip())) if broken else (f"not JSON: {error.msg}", error.colno)
        )
        raise DataError(
            what, file=path, line=number, field=f"column {column}", fix="one JSON object a line"
        ) from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"not UTF-8: {error.reason}", file=path, line=number, fix="save the file as UTF-8"
        ) from None
    except RecursionError:
        raise DataError("nested too deeply", file=path, line=number) from None
    except ValueError as error:  # a number of 5,000 digits
        raise DataError(f"not JSON: {error}", file=path, line=number) from None


def _read_array(path: str | Path, file: BinaryIO, start: bytes, shape: Shape | None) -> Numbered:
    """Read a JSON array element by element, holding one element at a time; lines are counted as items."""
    import codecs

    with file:
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
            except ValueError as error:  # a number of 5,000 digits
                raise DataError(f"not JSON: {error}", file=path, line=number + 1) from None
            if end < 0 or (end == len(text) and not ended):
                if ended:
                    raise DataError(
                        "the array is not closed: the file breaks off", file=path, line=number + 1
                    )
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
