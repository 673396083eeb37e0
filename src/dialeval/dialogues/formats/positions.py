"""Where dialogues lie in a file, so that a stretch of it is read again without all that is before it.

`Scan` reads a file once, from end to end, and says of every dialogue where it starts; `reread` begins
there. In JSONL that is a byte (inside gzip, one that is unpacked up to), in Parquet with one dialogue a row
the row. Other formats have no such places: there `reread` reads on from the beginning and drops what is not
wanted.
"""

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, Literal, cast

from dialeval import files
from dialeval.dialogues.dialogue import Dialogue
from dialeval.dialogues.formats import tables
from dialeval.dialogues.formats.reading import (
    ending,
    first_line,
    is_one_object,
    is_one_source,
    numbered,
    one_a_line,
    parse_line,
    readable,
)
from dialeval.dialogues.formats.records import RecordShape
from dialeval.dialogues.formats.shapes import shape_named

Kind = Literal["lines", "rows", "items"]
Columns = tables.TurnColumns | None
_CHUNK = 1 << 20
_MARK = b"\xef\xbb\xbf"  # that a file is UTF-8, before its first line


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a file: how places in it are counted, and the shape of its records if that is known."""

    path: str
    kind: Kind
    shape: str | None = None
    format: str | None = None
    columns: Columns = None


class Scan:
    """One pass over a file; when it has ended, what the file is and what it hashes to.

    Iterating gives `(start, number, dialogue)`: where the dialogue starts, and its line, row or item.
    """

    def __init__(self, path: str, format: str | None = None, columns: Columns = None) -> None:
        self.layout = Layout(path, _kind(path, format, columns), format, format, columns)
        self.sha256, self.size = "", 0

    def __iter__(self) -> Iterator[tuple[int, int, Dialogue]]:
        path = self.layout.path
        if self.layout.kind != "lines":
            for place, (number, dialogue) in enumerate(_reread(self.layout, 0, 1)):
                yield place, number, dialogue
            self.sha256, self.size = _hashed(path)
            return
        with readable(path), files.open_packed(path) as file:
            hashed = _Hashing(file)
            packed = cast(BinaryIO, io.BufferedReader(hashed, _CHUNK))
            lines = _Lines(self.layout, files.unpacked(packed, self.layout.path))
            yield from lines
            while hashed.read(_CHUNK):  # what stands behind the last line: nothing but in broken gzip
                pass
        shape = lines.shape.name if lines.shape else None
        self.layout = Layout(path, "lines", shape, self.layout.format, self.layout.columns)
        self.sha256, self.size = hashed.digest.hexdigest(), hashed.size


def reread(layout: Layout, start: int, number: int) -> Iterator[Dialogue]:
    """Yield the dialogues of a file from a place on that a `Scan` named; nameless ones without a name."""
    with readable(layout.path):
        for _, dialogue in _reread(layout, start, number):
            yield dialogue


def _reread(layout: Layout, start: int, number: int) -> Iterator[tuple[int, Dialogue]]:
    if layout.kind == "rows":
        yield from tables.read_parquet(layout.path, tables.TableReading(layout.columns), start)
    elif layout.kind == "items":
        yield from islice(numbered(layout.path, layout.format, layout.columns), start, None)
    else:
        with files.open_binary(layout.path) as file:
            file.seek(start)
            for _, line, dialogue in _Lines(layout, file, start, number):
                yield line, dialogue


class _Lines:
    """Lines of JSONL with their places, from one of them on; remembers the shape that it found."""

    def __init__(self, layout: Layout, file: BinaryIO, start: int = 0, number: int = 1) -> None:
        self.path, self.file, self.start, self.number = layout.path, file, start, number
        self.shape: RecordShape | None = shape_named(layout.shape)

    def __iter__(self) -> Iterator[tuple[int, int, Dialogue]]:
        start, shape = self.start, self.shape
        for number, line in enumerate(files.lines(self.file, self.path, self.number), self.number):
            text = line.removeprefix(_MARK) if start == 0 else line
            dialogue, shape = parse_line(self.path, number, text, shape)
            self.shape = shape
            if dialogue is not None:
                yield start, number, dialogue
            start += len(line)


def _kind(path: str, format: str | None, columns: Columns) -> Kind:
    suffix = ending(path)
    if is_one_source(path) or suffix == ".eval":
        return "items"
    if suffix == ".parquet":
        return "rows" if tables.has_dialogue_rows(path, columns) else "items"
    if suffix in (".csv", ".tsv", ".txt", ".md") or format in ("table", "text", "predictions", "actdial"):
        return "items"
    with readable(path), files.open_binary(path) as file:
        start = first_line(path, file)
        whole = start.lstrip()[:1] == b"[" or is_one_object(path, start, file.readline(_CHUNK), format)
    return "items" if whole or not one_a_line(start, format) else "lines"


class _Hashing(io.RawIOBase):
    """A file that is hashed while it is read."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.digest, self.size = cast(Any, file), hashlib.sha256(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = int(self.file.readinto(buffer) or 0)
        self.digest.update(memoryview(buffer)[:count])
        self.size += count
        return count


def _hashed(path: str) -> tuple[str, int]:
    with files.open_packed(path) as file:
        hashed = _Hashing(file)
        while hashed.read(_CHUNK):
            pass
    return hashed.digest.hexdigest(), hashed.size
