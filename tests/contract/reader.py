"""What a reader of files is, and where all of them are kept.

`read` is given the path of a file; only `DialevalError` may come out of it. Where what is read is a folder
(an artefact, an index, a task), the file takes the place of one of its files, and hashes are made to fit, so
that what is tried lies behind them.
"""

import functools
import io
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import specimens
from mutation import Mutate, any_json, any_line, one_of

NUMBERS = itertools.count()


@dataclass(frozen=True)
class Reader:
    """A way into the package: what its files are called, how they are read, what good ones look like."""

    name: str
    file: str
    read: Callable[[Path], object]
    seeds: Callable[[], Sequence[bytes]]
    mutate: Mutate


READERS: dict[str, Reader] = {}


def reader(name: str, file: str, seeds: Callable[[], Sequence[bytes]], mutate: Mutate | None = None) -> Any:
    def add(read: Callable[[Path], object]) -> Callable[[Path], object]:
        READERS[name] = Reader(name, file, read, seeds, mutate or one_of(any_json, any_line))
        return read

    return add


def lines(*records: object) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in records)


def parquet(rows: list[dict[str, Any]], metadata: dict[bytes, bytes] | None = None) -> bytes:
    import pyarrow as pa

    return parquet_of(pa.Table.from_pylist(rows).replace_schema_metadata(metadata))


def parquet_of(table: Any) -> bytes:
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def shipped(*parts: str) -> bytes:
    import dialeval

    return Path(dialeval.__file__).parent.joinpath(*parts).read_bytes()


def few(data: bytes, count: int = 3) -> bytes:
    return b"".join(data.splitlines(keepends=True)[:count])


@functools.cache
def room() -> Path:
    import atexit

    made = Path(tempfile.mkdtemp(prefix="dialeval-readers-", dir=specimens.memory()))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def fresh() -> Path:
    """Return a folder that is not there yet: what is loaded once is not taken for what was there before."""
    return room() / f"{os.getpid()}-{next(NUMBERS)}"
