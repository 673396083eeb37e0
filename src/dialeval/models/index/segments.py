"""Segments: rows of an index on disk, written once as a stream, then memory-mapped.

A segment has the ids and documents of its rows as text with offsets, the hashes of the ids in order (so that
an id is found without a dictionary of all of them), and for each column a matrix of unit vectors, the
counts of its words or the states of its tokens. All numbers are little-endian and without a header:
`config.json` knows the shapes.
"""

import hashlib
import math
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, overload

import numpy as np

from dialeval.errors import DataError
from dialeval.files import replacing_folder
from dialeval.models.index.layout import (
    CONFIG,
    PARTS,
    REBUILD,
    Config,
    Dense,
    Part,
    Sparse,
    Stored,
    Tokens,
    place_of,
)
from dialeval.models.index.ragged import Array, Counts, Ragged, TokenRows
from dialeval.models.untrusted import open_regular

ROWS = 8192  # rows that are copied or counted at a time


@dataclass(frozen=True)
class Block:
    """Rows that are checked and ready to be written."""

    ids: Sequence[str]
    columns: Mapping[str, Array | Ragged]
    documents: Sequence[bytes] | None


class Texts(Sequence[bytes]):
    """Texts of any bytes, one after the other with a line feed behind each, and where they begin."""

    def __init__(self, text: Array, offsets: Array, path: Path) -> None:
        self.text, self.offsets, self.path = text, offsets, path

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, row: int) -> bytes: ...
    @overload
    def __getitem__(self, row: slice) -> list[bytes]: ...
    def __getitem__(self, row: int | slice) -> bytes | list[bytes]:
        if isinstance(row, slice):
            return [self[one] for one in range(*row.indices(len(self)))]
        start, stop = int(self.offsets[row]), int(self.offsets[row + 1])
        if not 0 <= start < stop <= len(self.text):
            raise DataError(f"row {row} lies outside the file: damaged", file=self.path, fix=REBUILD)
        return self.text[start : stop - 1].tobytes()


class Segment:
    """One segment, memory-mapped. Opening looks at names, kinds and sizes of files, not at their bytes."""

    def __init__(self, folder: Path, config: Config, part: Part) -> None:
        self.part, self.place, self.rows = part, place_of(folder, part), part.rows
        self.ids = self._texts("ids")
        self.keys, self.order = self._array("ids.keys", "<u8"), self._array("ids.order", "<i8")
        self.documents = self._texts("documents") if config.documents else None
        self.columns: dict[str, Array | Ragged] = {}
        for name, column in config.columns.items():
            if isinstance(column, Dense):
                self.columns[name] = self._array(f"{name}.vectors", "<f4", (self.rows, column.width))
            else:
                self.columns[name] = self._ragged(name, column)

    def find(self, names: Sequence[str], keys: Array) -> list[int | None]:
        """Return the row of each id, or None."""
        found: list[int | None] = [None] * len(names)
        places = np.searchsorted(self.keys, keys)
        for number in np.flatnonzero(self.keys[np.minimum(places, self.rows - 1)] == keys).tolist():
            place, wanted = int(places[number]), names[number].encode()
            while place < self.rows and self.keys[place] == keys[number]:  # two ids may share a hash
                row = int(self.order[place])
                if 0 <= row < self.rows and self.ids[row] == wanted:
                    found[number] = row
                place += 1
        return found

    def blocks(self) -> Iterator[Block]:
        """Give all rows again, as they were written."""
        for start in range(0, self.rows, ROWS):
            stop = min(start + ROWS, self.rows)
            columns = {
                name: column.slice(start, stop) if isinstance(column, Ragged) else column[start:stop]
                for name, column in self.columns.items()
            }
            documents = None if self.documents is None else self.documents[start:stop]
            yield Block([name.decode() for name in self.ids[start:stop]], columns, documents)

    def _texts(self, name: str) -> Texts:
        text = self._array(f"{name}.txt", "u1", (self._size(f"{name}.txt"),))
        return Texts(
            text, self._array(f"{name}.offsets", "<i8", (self.rows + 1,)), self.place / f"{name}.txt"
        )

    def _ragged(self, name: str, column: Sparse | Tokens) -> Ragged:
        form, width = (TokenRows, column.width) if isinstance(column, Tokens) else (Counts, 1)
        filled = self._size(f"{name}.{next(iter(form.FILES))}") // 4
        ends = self._array(f"{name}.ends", "<i8", (self.rows + 1,))
        return form(
            ends,
            *(
                self._array(f"{name}.{part}", kind, (filled, width) if part == "numbers" else (filled,))
                for part, kind in form.FILES.items()
            ),
        )

    def _size(self, name: str) -> int:
        if name not in self.part.files:
            raise DataError(f"is not listed in {CONFIG}", file=self.place / name, fix=REBUILD)
        return self.part.files[name].size

    def _array(self, name: str, kind: str, shape: tuple[int, ...] | None = None) -> Array:
        return mapped(self.place / name, self._size(name), kind, shape or (self.rows,))


def mapped(path: Path, size: int, kind: str, shape: tuple[int, ...]) -> Array:
    """Map an array into memory, read-only; a file that is not of the size it was written with is refused."""
    with open_regular(path) as file:
        found, wanted = file.seek(0, 2), math.prod(shape) * np.dtype(kind).itemsize
        if found != size or size != wanted:
            text = f"{found} bytes, where {CONFIG} says {size} and its rows need {wanted}"
            raise DataError(f"{text}: cut off or damaged", file=path, fix=REBUILD)
        # A plain view of the map: the class of maps is slow to take a row from.
        return np.asarray(np.memmap(file, kind, "r", shape=shape)) if size else np.empty(shape, kind)


def keys_of(names: Iterable[str]) -> Array:
    """Return 64 bits of a hash of each id, the same in every process."""
    digests = b"".join(hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
    return np.frombuffer(digests, "<u8")


def write_segment(folder: Path, blocks: Iterable[Block]) -> Part:
    """Write rows as they come; the segment is there when all of them are, under a name that is not used yet.

    Raises:
        DataError: An id comes twice, or the disk is full.
    """
    name = f"rows-{secrets.token_hex(8)}"
    with replacing_folder(folder / PARTS / name) as place:
        try:
            with ExitStack() as stack:
                writer = _Writer(place, stack)
                for block in blocks:
                    writer.write(block)
                keys, order = writer.sorted_keys()
            _refuse_duplicates(place, keys, order)
        except OSError as error:
            raise DataError(f"{error.strerror}; nothing was changed", file=folder) from None
        return Part(name, len(keys), {called: file.stored() for called, file in writer.files.items()})


class _HashedFile:
    """A file that knows its size and hash when it is written."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.size, self.digest = file, 0, hashlib.sha256()

    def write(self, data: bytes | memoryview) -> None:
        self.file.write(data)
        self.digest.update(data)
        self.size += len(data)

    def stored(self) -> Stored:
        return Stored(self.size, self.digest.hexdigest())


class _Writer:
    """The files of a segment while it is written."""

    def __init__(self, place: Path, stack: ExitStack) -> None:
        self.place, self.stack, self.files = place, stack, dict[str, _HashedFile]()
        self.keys: list[Array] = []

    def write(self, block: Block) -> None:
        self.keys.append(keys_of(block.ids))
        self._texts("ids", [name.encode() for name in block.ids])
        if block.documents is not None:
            self._texts("documents", block.documents)
        for name, column in block.columns.items():
            if isinstance(column, Ragged):
                before = self._file(f"{name}.{next(iter(column.FILES))}").size // 4
                self._ends(f"{name}.ends", before, column.ends)
                for part, kind in column.FILES.items():
                    self._write(f"{name}.{part}", getattr(column, part), kind)
            else:
                self._write(f"{name}.vectors", column, "<f4")

    def sorted_keys(self) -> tuple[Array, Array]:
        keys = np.concatenate([np.empty(0, "<u8"), *self.keys])
        order = np.argsort(keys, kind="stable")
        self._write("ids.keys", keys[order], "<u8")
        self._write("ids.order", order, "<i8")
        return keys[order], order

    def _file(self, name: str) -> _HashedFile:
        if name not in self.files:
            self.files[name] = _HashedFile(self.stack.enter_context((self.place / name).open("wb")))
        return self.files[name]

    def _write(self, name: str, array: Array, kind: str) -> None:
        self._file(name).write(np.ascontiguousarray(array, kind).reshape(-1).view("u1").data)

    def _ends(self, name: str, before: int, ends: Array) -> None:
        self._write(name, (ends[1:] if name in self.files else ends) + before, "<i8")

    def _texts(self, name: str, texts: Sequence[bytes]) -> None:
        ends = np.cumsum([0, *(len(text) + 1 for text in texts)])
        self._ends(f"{name}.offsets", self._file(f"{name}.txt").size, ends)
        self._file(f"{name}.txt").write(b"".join(text + b"\n" for text in texts))


def _refuse_duplicates(place: Path, keys: Array, order: Array) -> None:
    if not (alike := np.flatnonzero(keys[1:] == keys[:-1]).tolist()):
        return
    offsets = mapped(place / "ids.offsets", 8 * len(keys) + 8, "<i8", (len(keys) + 1,))
    text = mapped(place / "ids.txt", int(offsets[-1]), "u1", (int(offsets[-1]),))
    ids = Texts(text, offsets, place / "ids.txt")
    seen: dict[bytes, int] = {}
    for row in sorted({int(order[one]) for number in alike for one in (number, number + 1)}):
        if ids[row] in seen:
            raise DataError(
                f"rows {seen[ids[row]]} and {row} have the same id", field=repr(ids[row].decode())
            )
        seen[ids[row]] = row
