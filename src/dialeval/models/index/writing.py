"""Writing an index: what callers give is checked, then put beside what is there, then takes its place."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from dialeval.errors import DataError, UsageError
from dialeval.models.index import approximate
from dialeval.models.index.dense import Vectors, unit
from dialeval.models.index.layout import (
    Approximate,
    Config,
    Dense,
    Kind,
    Part,
    Sparse,
    Tokens,
    check_hashes,
    sweep,
    write_config,
)
from dialeval.models.index.ragged import Array, Ragged
from dialeval.models.index.segments import ROWS, Block, Segment, write_segment
from dialeval.models.index.sparse import Text, check_texts, count
from dialeval.models.index.tokens import pack, width_of
from dialeval.models.states import TokenStates

Column = npt.NDArray[Any] | Sequence[Text] | Sequence[TokenStates]
Given = tuple[Sequence[str], Mapping[str, Column], Sequence[bytes] | None]
"""Ids, columns and documents of some dialogues, as callers have them."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")


def extend(folder: Path, config: Config, blocks: Iterable[Block]) -> Config:
    """Write rows behind those that `config` names, and then the new `config.json`; needs the lock.

    Segments at the end that are together as large as the one before them become one with it, so that there
    are few of them however often something is added.
    """
    sweep(folder)  # what a kill left may be as large as what is to come
    try:
        segments = [*config.segments, write_segment(folder, blocks)]
        first, rows = len(segments) - 1, segments[-1].rows
        while first and segments[first - 1].rows <= rows:
            first -= 1
            rows += segments[first].rows
        if first < len(segments) - 1:
            segments[first:] = [_merged(folder, config, segments[first:])]
        config = msgspec.structs.replace(config, segments=segments)
        return write_config(folder, msgspec.structs.replace(config, approximate=_searches(folder, config)))
    finally:
        sweep(folder)


def _merged(folder: Path, config: Config, parts: Sequence[Part]) -> Part:
    for part in parts:
        check_hashes(folder, part)  # else damage would be copied and then taken for what was written
    opened = (Segment(folder, config, part) for part in parts)
    return write_segment(folder, itertools.chain.from_iterable(one.blocks() for one in opened))


def _searches(folder: Path, config: Config) -> dict[str, Approximate]:
    """Build anew what columns have outgrown."""
    searches = dict(config.approximate)
    due = [
        (name, kind.width)
        for name, kind in config.columns.items()
        if isinstance(kind, Dense) and approximate.is_due(searches.get(name), config.rows, config.exact_up_to)
    ]
    opened = [Segment(folder, config, part) for part in config.segments] if due else []
    for name, width in due:
        arrays: list[Any] = [segment.columns[name] for segment in opened]
        searches[name] = approximate.build(folder, Vectors(arrays, width, folder))
    return searches


# --- what callers give --------------------------------------------------------------------------------------


def in_blocks(
    ids: Sequence[str], columns: Mapping[str, Column], documents: Sequence[bytes] | None
) -> Iterator[Given]:
    """Cut whole columns into blocks, once they are known to be of one length."""
    if isinstance(ids, str | bytes):
        raise UsageError("ids are a list of strings, one for each dialogue")
    for name, column in [*columns.items(), *([] if documents is None else [("documents", documents)])]:
        if not hasattr(column, "__len__") or isinstance(column, str | bytes) or len(column) != len(ids):
            number = len(column) if hasattr(column, "__len__") else "no"
            raise UsageError(f"{name}: {number} rows for {len(ids)} ids")
    for start in range(0, len(ids), ROWS):
        part = slice(start, start + ROWS)
        some = {name: column[part] for name, column in columns.items()}
        yield ids[part], some, None if documents is None else documents[part]


def kinds_of(columns: Mapping[str, Column]) -> dict[str, Kind]:
    """Tell columns of vectors from those of words and of token states."""
    kinds: dict[str, Kind] = {}
    for name, column in columns.items():
        if not _NAME.fullmatch(name) or name in ("ids", "documents"):
            raise UsageError(f"{name!r} cannot be the name of a column: lower-case letters, digits, - and _")
        if isinstance(column, np.ndarray):
            kinds[name] = Dense(unit(column[:0], None, name).shape[1])
        elif len(column) and isinstance(first := column[0], TokenStates):
            kinds[name] = Tokens(width_of(first, name))
        else:
            kinds[name] = Sparse()
    if not kinds:
        raise UsageError("an index needs a column to search in")
    return kinds


def prepared(blocks: Iterable[Given], config: Config) -> Iterator[Block]:
    """Check dialogues against the columns of an index, and bring them into the form that is stored."""
    for ids, columns, documents in blocks:
        if columns.keys() != config.columns.keys():
            raise UsageError(f"columns {sorted(columns)}, but the index has {sorted(config.columns)}")
        if (documents is not None) != config.documents:
            raise UsageError(f"the index was built {'with' if config.documents else 'without'} documents")
        for name in ids:
            _check_id(name)
        ready: dict[str, Array | Ragged] = {}
        for name, kind in config.columns.items():
            if isinstance(kind, Dense):
                ready[name] = unit(columns[name], kind.width, name, ids).astype("<f4")
            elif isinstance(kind, Tokens):
                ready[name] = pack(columns[name], kind.width, name, ids)
            else:
                ready[name] = count(check_texts(name, columns[name]), kind.buckets)
        yield Block(ids, ready, documents)


def _check_id(name: object) -> None:
    if not isinstance(name, str):
        raise UsageError(f"an id is a string, not {name!r:.80}")
    try:
        if not name.encode():
            raise DataError("an id is empty", fix="every dialogue needs one")
    except UnicodeEncodeError:
        raise DataError("an id has a lone surrogate, which no file can hold", field=ascii(name)) from None
