"""The rows of an index: validation, storage, and merging.

A segment is one memory-mapped Arrow IPC file, written as a stream of record batches, with ids, documents (if
there are any) and columns. All segments of an index are read as one table.
"""

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from dialeval.dialogues import Dialogue, in_blocks, takes_part
from dialeval.errors import DataError, UsageError
from dialeval.files import replacing_path
from dialeval.manifests import FileRecord
from dialeval.models.encoder import Encoder
from dialeval.models.index import approximate
from dialeval.models.index.dense import VectorColumn, unit
from dialeval.models.index.layout import (
    PARTS,
    REBUILD,
    ROWS,
    Approximate,
    DenseKind,
    IndexConfig,
    IndexPart,
    Kind,
    TokenKind,
    WordKind,
    checked_part,
    sweep,
    write_config,
)
from dialeval.models.index.ragged import Text, TokenColumn, WordColumn, width_of
from dialeval.models.token_states import TokenStates

if TYPE_CHECKING:
    import pyarrow as pa

Column = npt.NDArray[Any] | Sequence[Text] | Sequence[TokenStates]
Block = tuple[Sequence[str], Mapping[str, Column], Sequence[bytes] | None]
"""Ids, columns and documents of a block of dialogues."""
IDS, DOCUMENTS = "ids", "documents"
COLUMNS: dict[type, Any] = {DenseKind: VectorColumn, WordKind: WordColumn, TokenKind: TokenColumn}
"""The class that stores and reads each kind of column."""
DIALOGUES = 2_000  # encoded at a time
_BATCH = 8 << 20  # bytes after which a record batch is written
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")


def extend(folder: Path, config: IndexConfig, batches: "Iterable[pa.RecordBatch]") -> IndexConfig:
    """Append rows and write the new `config.json`; needs the lock.

    Segments at the end that are together as large as the one before them are merged with it, so that there
    are few segments however often rows are added.
    """
    sweep(folder)  # leftovers may be as large as the new rows
    try:
        segments = [*config.segments, write_segment(folder, config, batches)]
        first, rows = len(segments) - 1, segments[-1].rows
        while first and segments[first - 1].rows <= rows:
            first -= 1
            rows += segments[first].rows
        if first < len(segments) - 1:
            for part in segments[first:]:
                checked_part(folder, part)  # else damage would be copied and get a valid hash
            table = read_rows(folder, config, segments[first:])
            segments[first:] = [write_segment(folder, config, table.to_batches())]
        config = msgspec.structs.replace(config, segments=segments)
        return write_config(folder, msgspec.structs.replace(config, approximate=_searches(folder, config)))
    finally:
        sweep(folder)


def _searches(folder: Path, config: IndexConfig) -> dict[str, Approximate]:
    """Build approximate search for columns that have become too large."""
    searches = dict(config.approximate)
    for name, kind in config.columns.items():
        due = approximate.is_due(searches.get(name), config.rows, config.exact_up_to)
        if due and isinstance(kind, DenseKind):
            batches = read_rows(folder, config, config.segments)[name].chunks
            searches[name] = approximate.build(folder, VectorColumn(batches, kind, name, folder))
    return searches


# --- validation ---------------------------------------------------------------------------------------------


def row_blocks(
    ids: Sequence[str], columns: Mapping[str, Column], documents: Sequence[bytes] | None
) -> Iterator[Block]:
    """Yield columns in blocks; raises if their lengths differ."""
    if isinstance(ids, str | bytes):
        raise UsageError("ids are a list of strings, one for each dialogue")
    for name, column in [*columns.items(), *([] if documents is None else [(DOCUMENTS, documents)])]:
        if not hasattr(column, "__len__") or isinstance(column, str | bytes) or len(column) != len(ids):
            number = len(column) if hasattr(column, "__len__") else "no"
            raise UsageError(f"{name}: {number} rows for {len(ids)} ids")
    for start in range(0, len(ids), ROWS):
        part = slice(start, start + ROWS)
        block = {name: column[part] for name, column in columns.items()}
        yield ids[part], block, None if documents is None else documents[part]


def kinds_of(columns: Mapping[str, Column]) -> dict[str, Kind]:
    """Return the kind of each column: vectors, words or token states."""
    kinds: dict[str, Kind] = {}
    for name, column in columns.items():
        if not _NAME.fullmatch(name) or name in (IDS, DOCUMENTS):
            raise UsageError(f"{name!r} cannot be the name of a column: lower-case letters, digits, - and _")
        if isinstance(column, np.ndarray):
            kinds[name] = DenseKind(unit(column[:0], None, name).shape[1])
        elif len(column) and isinstance(first := column[0], TokenStates):
            kinds[name] = TokenKind(width_of(first, name))
        else:
            kinds[name] = WordKind()
    if not kinds:
        raise UsageError("an index needs a column to search in")
    return kinds


def prepared(blocks: Iterable[Block], config: IndexConfig) -> "Iterator[pa.RecordBatch]":
    """Validate blocks against the columns of an index and yield them as record batches."""
    import pyarrow as pa

    for ids, columns, documents in blocks:
        if columns.keys() != config.columns.keys():
            raise UsageError(f"columns {sorted(columns)}, but the index has {sorted(config.columns)}")
        if (documents is not None) != config.documents:
            raise UsageError(f"the index was built {'with' if config.documents else 'without'} documents")
        texts = [[_id_bytes(name) for name in ids], *([] if documents is None else [documents])]
        arrays = [pa.array(values, pa.large_binary()) for values in texts]
        for name, kind in sorted(config.columns.items()):
            arrays.append(COLUMNS[type(kind)].packed(columns[name], kind, name, ids))
        yield pa.record_batch(arrays, schema=schema_of(config))


def _id_bytes(name: object) -> bytes:
    if not isinstance(name, str):
        raise UsageError(f"an id is a string, not {name!r:.80}")
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        raise DataError("an id has a lone surrogate, which no file can hold", field=ascii(name)) from None
    if not encoded:
        raise DataError("an id is empty", fix="every dialogue needs one")
    return encoded


# --- segments -----------------------------------------------------------------------------------------------


def schema_of(config: IndexConfig) -> "pa.Schema":
    """Return the Arrow schema of all segments of an index."""
    import pyarrow as pa

    fields = {name: pa.large_binary() for name in (IDS, *([DOCUMENTS] if config.documents else []))}
    fields |= {name: COLUMNS[type(kind)].stored(kind) for name, kind in sorted(config.columns.items())}
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in fields.items()])


def read_rows(folder: Path, config: IndexConfig, parts: Sequence[IndexPart]) -> "pa.Table":
    """Map segments as one table and validate its structure; nulls are refused."""
    import pyarrow as pa

    schema, tables = schema_of(config), []
    for part in parts:
        path = folder / PARTS / part.name
        try:
            table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
            if table.schema != schema:
                raise DataError(f"holds {table.schema.types}: damaged", file=path, fix=REBUILD)
            table.validate(full=True)
        except (pa.ArrowException, OSError, ValueError) as error:  # such as a name that is not UTF-8
            raise DataError(f"not an Arrow file, or a damaged one: {error}", file=path, fix=REBUILD) from None
        if table.num_rows != part.rows or any(column.null_count for column in table.columns):
            raise DataError(f"not {part.rows} rows without nulls: damaged", file=path, fix=REBUILD)
        tables.append(table)
    return pa.concat_tables(tables)


def write_segment(folder: Path, config: IndexConfig, batches: "Iterable[pa.RecordBatch]") -> IndexPart:
    """Write a segment under a new name; it appears when it is complete.

    Raises:
        DataError: An id is not unique, or the disk is full.
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
    return IndexPart(
        name, rows, file_record, {f"{column}.txt": lines.record() for column, lines in texts.items()}
    )


class _HashedLines:
    """Size and hash of texts as lines: the identity of rows, independent of their storage."""

    def __init__(self) -> None:
        self._size, self._digest = 0, hashlib.sha256()

    def add(self, texts: "pa.Array") -> None:
        lines = b"".join(text + b"\n" for text in texts.to_pylist())
        self._size += len(lines)
        self._digest.update(lines)

    def record(self) -> FileRecord:
        return FileRecord(self._size, self._digest.hexdigest())


def _large(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Combine batches into larger ones of a few megabytes."""
    import pyarrow as pa

    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) >= ROWS or sum(part.nbytes for part in waiting) >= _BATCH:
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
    for row, name in enumerate(ids.to_pylist()):
        if name in seen:
            raise DataError(f"rows {seen[name]} and {row} have the same id", field=repr(name.decode()))
        seen[name] = row


# --- dialogues by their text --------------------------------------------------------------------------------


def spoken_texts(dialogue: Dialogue) -> list[str]:
    """Return the texts of a dialogue without instructions, tool messages and blanks.

    >>> from dialeval.dialogues import dialogue
    >>> spoken_texts(dialogue([("system", "You are a hotel desk."), ("user", "A room?"), ("assistant", " ")]))
    ['A room?']
    """
    spoken = (turn.text for turn in dialogue.turns if takes_part(turn))
    return [text for text in spoken if text.strip()]


def features(dialogues: Sequence[Dialogue], encoder: Encoder) -> dict[str, Column]:
    """Return the columns of `Index.of_dialogues` for dialogues to add or to search with.

    `text` is the mean of the vectors of a dialogue's turns (zeros if it has none), `words` is its text.
    """
    spoken = [spoken_texts(dialogue) for dialogue in dialogues]
    places = {
        text: place for place, text in enumerate(dict.fromkeys(text for texts in spoken for text in texts))
    }
    vectors = encoder.vectors(list(places)) if places else None
    means = np.zeros((len(spoken), encoder.width), np.float64)
    for row, texts in enumerate(spoken):
        if texts and vectors is not None:
            means[row] = vectors[[places[text] for text in texts]].mean(axis=0, dtype=np.float64)
    return {"text": means, "words": ["\n".join(texts) for texts in spoken]}


def dialogue_blocks(
    dialogues: Iterable[Dialogue], encoder: Encoder, progress: Callable[[int], None] | None
) -> Iterator[Block]:
    """Yield blocks of ids, features and JSON; `progress` is called with the number of dialogues so far."""
    from dialeval.dialogues.formats.writing import to_json  # brings pyarrow with it

    done = 0
    for block in in_blocks(dialogues, DIALOGUES):
        yield (
            [dialogue.id for dialogue in block],
            features(block, encoder),
            [to_json(dialogue) for dialogue in block],
        )
        done += len(block)
        if progress is not None:
            progress(done)
