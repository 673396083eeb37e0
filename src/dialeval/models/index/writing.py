"""Writing an index: what callers give is checked, then put beside what is there, then takes its place."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from dialeval.errors import DataError, UsageError
from dialeval.models.index import approximate
from dialeval.models.index.dense import VectorColumn, unit
from dialeval.models.index.layout import (
    ROWS,
    Approximate,
    DenseKind,
    IndexConfig,
    Kind,
    TokenKind,
    WordKind,
    checked_part,
    sweep,
    write_config,
)
from dialeval.models.index.segments import COLUMNS, DOCUMENTS, IDS, read_rows, schema_of, write_segment
from dialeval.models.index.sparse import Text
from dialeval.models.index.tokens import width_of
from dialeval.models.token_states import TokenStates

if TYPE_CHECKING:
    import pyarrow as pa

Column = npt.NDArray[Any] | Sequence[Text] | Sequence[TokenStates]
Given = tuple[Sequence[str], Mapping[str, Column], Sequence[bytes] | None]
"""Ids, columns and documents of some dialogues, as callers have them."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")


def extend(folder: Path, config: IndexConfig, batches: "Iterable[pa.RecordBatch]") -> IndexConfig:
    """Write rows behind those that `config` names, and then the new `config.json`; needs the lock.

    Segments at the end that are together as large as the one before them become one with it, so that there
    are few of them however often something is added.
    """
    sweep(folder)  # what a kill left may be as large as what is to come
    try:
        segments = [*config.segments, write_segment(folder, config, batches)]
        first, rows = len(segments) - 1, segments[-1].rows
        while first and segments[first - 1].rows <= rows:
            first -= 1
            rows += segments[first].rows
        if first < len(segments) - 1:
            for part in segments[first:]:
                checked_part(folder, part)  # else damage would be copied and then taken for what was written
            table = read_rows(folder, config, segments[first:])
            segments[first:] = [write_segment(folder, config, table.to_batches())]
        config = msgspec.structs.replace(config, segments=segments)
        return write_config(folder, msgspec.structs.replace(config, approximate=_searches(folder, config)))
    finally:
        sweep(folder)


def _searches(folder: Path, config: IndexConfig) -> dict[str, Approximate]:
    """Build anew what columns have outgrown."""
    searches = dict(config.approximate)
    for name, kind in config.columns.items():
        due = approximate.is_due(searches.get(name), config.rows, config.exact_up_to)
        if due and isinstance(kind, DenseKind):
            batches = read_rows(folder, config, config.segments)[name].chunks
            searches[name] = approximate.build(folder, VectorColumn(batches, kind, name, folder))
    return searches


# --- what callers give --------------------------------------------------------------------------------------


def in_blocks(
    ids: Sequence[str], columns: Mapping[str, Column], documents: Sequence[bytes] | None
) -> Iterator[Given]:
    """Cut whole columns into blocks, once they are known to be of one length."""
    if isinstance(ids, str | bytes):
        raise UsageError("ids are a list of strings, one for each dialogue")
    for name, column in [*columns.items(), *([] if documents is None else [(DOCUMENTS, documents)])]:
        if not hasattr(column, "__len__") or isinstance(column, str | bytes) or len(column) != len(ids):
            number = len(column) if hasattr(column, "__len__") else "no"
            raise UsageError(f"{name}: {number} rows for {len(ids)} ids")
    for start in range(0, len(ids), ROWS):
        part = slice(start, start + ROWS)
        some = {name: column[part] for name, column in columns.items()}
        yield ids[part], some, None if documents is None else documents[part]


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


def prepared(blocks: Iterable[Given], config: IndexConfig) -> "Iterator[pa.RecordBatch]":
    """Check dialogues against the columns of an index, and bring them into the form that is stored."""
    import pyarrow as pa

    for ids, columns, documents in blocks:
        if columns.keys() != config.columns.keys():
            raise UsageError(f"columns {sorted(columns)}, but the index has {sorted(config.columns)}")
        if (documents is not None) != config.documents:
            raise UsageError(f"the index was built {'with' if config.documents else 'without'} documents")
        texts = [[_id_bytes(name) for name in ids], *([] if documents is None else [documents])]
        arrays = [pa.array(one, pa.large_binary()) for one in texts]
        for name, kind in sorted(config.columns.items()):
            arrays.append(COLUMNS[type(kind)].packed(columns[name], kind, name, ids))
        yield pa.record_batch(arrays, schema=schema_of(config))


def _id_bytes(name: object) -> bytes:
    if not isinstance(name, str):
        raise UsageError(f"an id is a string, not {name!r:.80}")
    try:
        found = name.encode()
    except UnicodeEncodeError:
        raise DataError("an id has a lone surrogate, which no file can hold", field=ascii(name)) from None
    if not found:
        raise DataError("an id is empty", fix="every dialogue needs one")
    return found
