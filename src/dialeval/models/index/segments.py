"""Segments: rows of an index on disk, written once as a stream of Arrow record batches, then memory-mapped.

A segment is one Arrow IPC file, a table: the ids of its rows, their documents if they have some, and the
columns, each as its class stores it. All segments of an index are read as one table of views of their files.
"""

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dialeval.errors import DataError
from dialeval.files import replacing_path
from dialeval.manifests import FileRecord
from dialeval.models.index.dense import VectorColumn
from dialeval.models.index.layout import (
    PARTS,
    REBUILD,
    ROWS,
    DenseKind,
    IndexConfig,
    IndexPart,
    TokenKind,
    WordKind,
)
from dialeval.models.index.sparse import WordColumn
from dialeval.models.index.tokens import TokenColumn

if TYPE_CHECKING:
    import pyarrow as pa

IDS, DOCUMENTS = "ids", "documents"
COLUMNS: dict[type, Any] = {DenseKind: VectorColumn, WordKind: WordColumn, TokenKind: TokenColumn}
"""The class that stores and reads each kind of column."""
_BATCH = 8 << 20  # bytes after which a record batch is written


def schema_of(config: IndexConfig) -> "pa.Schema":
    """Return what every segment of an index has."""
    import pyarrow as pa

    fields = {name: pa.large_binary() for name in (IDS, *([DOCUMENTS] if config.documents else []))}
    fields |= {name: COLUMNS[type(kind)].stored(kind) for name, kind in sorted(config.columns.items())}
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in fields.items()])


def read_rows(folder: Path, config: IndexConfig, parts: Sequence[IndexPart]) -> "pa.Table":
    """Map segments as one table without nulls, and look through its structure."""
    import pyarrow as pa

    schema, tables = schema_of(config), []
    for part in parts:
        path = folder / PARTS / part.name
        try:
            table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
            if table.schema != schema:
                raise DataError(f"holds {table.schema.types}: damaged", file=path, fix=REBUILD)
            table.validate(full=True)
        except (pa.ArrowException, OSError, ValueError) as error:  # a name that is no UTF-8, for one
            raise DataError(f"no Arrow file, or a damaged one: {error}", file=path, fix=REBUILD) from None
        if table.num_rows != part.rows or any(column.null_count for column in table.columns):
            raise DataError(f"not {part.rows} rows without nulls: damaged", file=path, fix=REBUILD)
        tables.append(table)
    return pa.concat_tables(tables)


def write_segment(folder: Path, config: IndexConfig, batches: "Iterable[pa.RecordBatch]") -> IndexPart:
    """Write rows as they come; the segment is there when all of them are, under a name that is not used yet.

    Raises:
        DataError: An id comes twice, or the disk is full.
    """
    import pyarrow as pa

    name, rows, schema = f"rows-{secrets.token_hex(8)}.arrow", 0, schema_of(config)
    texts = {IDS: _HashedLines()} | ({DOCUMENTS: _HashedLines()} if config.documents else {})
    with replacing_path(folder / PARTS / name) as path:
        try:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as file:
                for batch in _large(batches):
                    file.write_batch(batch)
                    rows += batch.num_rows
                    for column, lines in texts.items():
                        lines.add(batch.column(column))
        except (OSError, pa.ArrowException) as error:
            text = getattr(error, "strerror", None) or str(error)
            raise DataError(f"{text}; nothing was changed", file=folder) from None
        _refuse_duplicates(path)
        file_record = FileRecord.of(path)
    return IndexPart(name, rows, file_record, {f"{one}.txt": lines.record() for one, lines in texts.items()})


class _HashedLines:
    """Size and hash of texts, a line each: the identity of rows, however they are stored."""

    def __init__(self) -> None:
        self._size, self._digest = 0, hashlib.sha256()

    def add(self, texts: "pa.Array") -> None:
        lines = b"".join(text + b"\n" for text in texts.to_pylist())
        self._size += len(lines)
        self._digest.update(lines)

    def record(self) -> FileRecord:
        return FileRecord(self._size, self._digest.hexdigest())


def _large(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Put batches together into some of a few megabytes."""
    import pyarrow as pa

    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= ROWS or sum(one.nbytes for one in waiting) >= _BATCH:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting = []
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def _refuse_duplicates(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = pa.ipc.open_file(pa.memory_map(str(path))).read_all()[IDS]
    if pc.count_distinct(ids).as_py() == len(ids):
        return
    seen: dict[bytes, int] = {}
    for row, one in enumerate(ids.to_pylist()):
        if one in seen:
            raise DataError(f"rows {seen[one]} and {row} have the same id", field=repr(one.decode()))
        seen[one] = row
