"""The rows of an index that is open: which dialogue is where, and what was stored for it."""

import bisect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import overload

import numpy as np

from dialeval.errors import DataError, UsageError
from dialeval.models.index.layout import Config
from dialeval.models.index.ragged import Array
from dialeval.models.index.segments import Block, Segment, keys_of


class Rows:
    """All segments, one after the other."""

    def __init__(self, folder: Path, config: Config) -> None:
        self.folder, self.config = folder, config
        self.segments = [Segment(folder, config, part) for part in config.segments]
        self.starts = list(itertools.accumulate((segment.rows for segment in self.segments), initial=0))

    def __len__(self) -> int:
        return self.starts[-1]

    def id(self, row: int) -> str:
        """Return the id of a row."""
        segment, inner = self._place(row)
        return segment.ids[inner].decode("utf-8", "replace")

    def document(self, row: int) -> bytes:
        """Return what was stored for a row."""
        segment, inner = self._place(row)
        if segment.documents is None:
            raise UsageError(f"{self.folder}: this index was built without documents")
        return segment.documents[inner]

    def find(self, ids: Sequence[str]) -> list[int | None]:
        """Return the row of each id, None for those that are not there."""
        keys = keys_of(ids)
        found: list[int | None] = [None] * len(ids)
        for start, segment in zip(self.starts, self.segments, strict=False):
            for number, row in enumerate(segment.find(ids, keys)):
                found[number] = found[number] if row is None else start + row
        return found

    def of(self, ids: Sequence[str]) -> list[int]:
        """Return the row of each id, all of which must be there."""
        if isinstance(ids, str | bytes):
            raise UsageError("ids are a list of strings")
        found = self.find(ids)
        if None in found:
            raise DataError("is not in the index", file=self.folder, field=repr(ids[found.index(None)]))
        return [row for row in found if row is not None]

    def chosen(self, which: Sequence[str] | Sequence[int] | Array) -> list[int]:
        """Return rows: those of ids, or numbers of rows as they are, all of which must be there."""
        if isinstance(which, str | bytes) or all(isinstance(one, str) for one in which):
            return self.of(which)  # type: ignore[arg-type]
        rows = np.asarray(which)
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= len(self):
            raise UsageError(f"rows are whole numbers from 0 to {len(self) - 1}, or ids")
        return [int(row) for row in rows]

    def new_only(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Let through what is to be added, unless an id is there already."""
        for block in blocks:
            for name, row in zip(block.ids, self.find(block.ids), strict=True):
                if row is not None:
                    raise DataError("is in the index already", file=self.folder, field=repr(name))
            yield block

    def _place(self, row: int) -> tuple[Segment, int]:
        number = bisect.bisect_right(self.starts, row) - 1
        return self.segments[number], row - self.starts[number]


class Ids(Sequence[str]):
    """The ids of an index, as a sequence that is not in memory."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        wanted = range(len(self))[row]
        return [self._rows.id(one) for one in wanted] if isinstance(wanted, range) else self._rows.id(wanted)
