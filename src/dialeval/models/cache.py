"""A cache of encodings, keyed by content, in memory and on disk.

A text is encoded once per encoder. Keys are derived from the input and entries are never updated, so an
entry is right or missing. The disk cache is one table in one SQLite file, shared by any number of processes.
It is optional: if it fails (disk full, no permission, damage), the run continues after one warning.
"""

import contextlib
import hashlib
import math
import os
import sqlite3
import struct
import threading
import warnings
import weakref
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import filelock  # noqa: F401  # its hooks for forks must be there before ours, which run first then
import numpy as np
import numpy.typing as npt

from dialeval.errors import DataError, UsageError
from dialeval.files import locked

Array: TypeAlias = npt.NDArray[np.floating[Any]]
Key: TypeAlias = bytes | tuple[str, str]
"""The key of an entry: the result of `key`, or its two arguments, which saves the hash."""

_TYPES: dict[int, np.dtype[Any]] = {4: np.dtype("<f4"), 2: np.dtype("<f2")}
_KNOWN = frozenset(_TYPES.values())
_HEAD = struct.Struct("<BBHII")  # layout, type, dimensions, rows, columns; a checksum of 4 bytes follows
_START = _HEAD.size + 4
_LAYOUT = 1
_OVERHEAD = 400  # bytes that an entry takes in memory besides its numbers: objects, key, place in the order
_MEGABYTE = 1 << 20
_PAGE = 8192
_PATIENCE = 30.0  # seconds to wait for another process
_AT_ONCE = 900  # keys in one query; SQLite before 3.32 takes 999 at most
_STARTS = 3  # times that damage is answered with a fresh file
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_SCHEMA = (
    "CREATE TABLE entries (id INTEGER PRIMARY KEY, key BLOB UNIQUE, tick INTEGER, body BLOB)",
    "CREATE INDEX by_tick ON entries (tick)",
)


def key(namespace: str, text: str) -> bytes:
    """Return the 20-byte key of a text in a namespace (an encoder and how it is read).

    >>> key("encoder", "Good morning").hex()
    'e976207a6122c06341d830b5419c51a3e2b2e1dc'
    >>> key("ab", "c") == key("a", "bc")
    False
    """
    name = namespace.encode("utf-8", "surrogatepass")
    content = len(name).to_bytes(8, "little") + name + text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=20).digest()


_lock = threading.RLock()  # one for all caches, so that a fork can wait for it
_live: "weakref.WeakSet[Cache | DiskCache]" = weakref.WeakSet()


class Cache:
    """A least-recently-used cache of arrays in `limit` bytes of memory, optionally backed by a disk cache.

    Returned arrays are read-only. The first value of a key wins. Arrays that are read from disk are kept in
    memory.

    >>> cache = Cache()
    >>> cache.store([b"a"], np.array([[0.5, 2]], np.float32))
    >>> cache.fetch([b"a", b"b"])
    [array([0.5, 2. ], dtype=float32), None]
    """

    def __init__(self, limit: int = 256 * _MEGABYTE, disk: "DiskCache | None" = None) -> None:
        if limit < 0:
            raise UsageError(f"a cache of {limit} bytes: the limit must be 0 or more")
        self.limit, self.disk = limit, disk
        self.held = 0  # bytes, an estimate that includes what each entry costs beside its numbers
        self._kept: OrderedDict[Key, Array] = OrderedDict()
        _live.add(self)

    def clear(self) -> None:
        """Delete all entries in memory."""
        with _lock:
            self._kept.clear()
            self.held = 0

    def fetch(self, keys: Sequence[Key]) -> list[Array | None]:
        """Return the array of each key, or None."""
        find, refresh = self._kept.get, self._kept.move_to_end
        with _lock:
            arrays = [find(name) for name in keys]
            for name, array in zip(keys, arrays, strict=True):
                if array is not None:
                    refresh(name)
        missing = [place for place, array in enumerate(arrays) if array is None]
        if self.disk is not None and missing:
            stored = self.disk.fetch([_on_disk(keys[place]) for place in missing])
            for place, array in zip(missing, stored, strict=True):
                if array is not None:
                    arrays[place] = array
                    self._keep([keys[place]], [array])
        return arrays

    def store(self, keys: Sequence[Key], arrays: Sequence[Array] | Array) -> None:
        """Store a copy of each array, or of each row of a matrix, under its key."""
        _check_arrays(keys, arrays)
        self._keep(keys, arrays)
        if self.disk is not None:
            self.disk.store([_on_disk(name) for name in keys], arrays)

    def _keep(self, keys: Sequence[Key], arrays: Sequence[Array] | Array) -> None:
        entries = self._kept
        with _lock:
            for name, array in zip(keys, arrays, strict=True):
                size = array.nbytes + _OVERHEAD
                if name in entries:
                    entries.move_to_end(name)
                elif size <= self.limit:
                    # Memory of its own, because a row would keep its whole batch; `bytes` cannot be unlocked.
                    entries[name] = np.ndarray(array.shape, array.dtype, array.tobytes())
                    self.held += size
                    while self.held > self.limit:
                        self.held -= entries.popitem(last=False)[1].nbytes + _OVERHEAD


def _on_disk(name: Key) -> bytes:
    return name if isinstance(name, bytes) else key(*name)


def forget() -> None:
    """Empty every cache in memory of this process.

    Which texts share a batch changes the last digits of their vectors. Work that must come out the same to
    the byte, whatever was done before it, begins by forgetting.
    """
    for cache in list(_live):
        if isinstance(cache, Cache):
            cache.clear()


# --- on disk ------------------------------------------------------------------------------------------------


class DiskCache:
    """A disk cache of arrays in at most `limit` bytes, shared by processes; evicts the least recently used.

    The limit covers the file and the journal beside it. An array of more than a 64th of it, or of 4 MiB, is
    not kept. Every array has a checksum; one that fails it counts as missing. A damaged file is
    renamed to `*.damaged`, and a new one is started.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, DiskCache(folder) as cache:
    ...     cache.store([b"a"], [np.array([0.5, 2], np.float32)])
    ...     cache.fetch([b"a", b"b"])
    [array([0.5, 2. ], dtype=float32), None]
    """

    def __init__(self, folder: str | Path, limit: int = 4096 * _MEGABYTE) -> None:
        if limit < _MEGABYTE:
            raise UsageError(f"a cache of {limit} bytes on disk: the limit must be {_MEGABYTE} or more")
        self.limit = limit
        self.path = Path(folder).absolute() / "encodings.sqlite"
        self._largest = min(4 * _MEGABYTE, limit // 64)  # bytes of an array, and of a transaction
        self._most = (limit - limit // 8) // _PAGE  # pages; the rest is room for the journal
        self._base: sqlite3.Connection | None = None
        self._file = (0, 0)  # device and inode of what is open: another process may have set it aside
        self._starts = 0
        self._fetches = self._stores = True
        _live.add(self)

    def fetch(self, keys: Sequence[bytes]) -> list[Array | None]:
        """Return the array of each key, or None; one query for some hundreds of keys."""
        arrays: dict[bytes, Array] = {}
        with _lock:
            if self._fetches:
                self._fetches = self._attempt(lambda: self._read(keys, arrays))
        return [arrays.get(name) for name in keys]

    def store(self, keys: Sequence[bytes], arrays: Sequence[Array] | Array) -> None:
        """Store each array under its key, in transactions of a few megabytes; existing entries stay."""
        _check_arrays(keys, arrays)
        rows: list[tuple[bytes, bytes]] = []
        room = self._largest
        for name, array in zip(keys, arrays, strict=True):
            if array.nbytes <= self._largest and self._stores:
                rows.append((name, _packed(name, array)))
                room -= array.nbytes + 64
            if room <= 0:
                self._store(rows)
                rows, room = [], self._largest
        self._store(rows)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with _lock:
            self._close()

    def __enter__(self) -> "DiskCache":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _store(self, rows: list[tuple[bytes, bytes]]) -> None:
        with _lock:
            if rows and self._stores:
                self._attempt(lambda: self._write(rows))

    def _attempt(self, work: Callable[[], None]) -> bool:
        """Run `work`, again on a new file after damage; if it fails, store no more and return False."""
        while True:
            try:
                work()
            except sqlite3.ProgrammingError:  # a mistake of ours, not the file's
                raise
            except (sqlite3.DatabaseError, OSError, DataError) as error:
                self._close()
                if _code(error) in _DAMAGE and self._set_aside(error):
                    continue
                first, self._stores = self._stores, False
                if first:
                    _warn(f"{self.path}: {error}; encodings are no longer cached on disk, the run continues")
                return False
            return True

    def _read(self, keys: Sequence[bytes], results: dict[bytes, Array]) -> None:
        base = self._open()
        for start in range(0, len(keys), _AT_ONCE):
            batch = keys[start : start + _AT_ONCE]
            marks = ",".join("?" * len(batch))
            query = f"SELECT id, key, tick, body FROM entries WHERE key IN ({marks})"  # noqa: S608
            rows = base.execute(query, batch).fetchall()
            arrays = [_unpacked(name, body) for _, name, _, body in rows]
            results |= {row[1]: array for row, array in zip(rows, arrays, strict=True) if array is not None}
            damaged = [row[:1] for row, array in zip(rows, arrays, strict=True) if array is None]
            # With half of the room to spare the order is no matter, and reading need not write.
            stale = -1 if self._pages(base) < self._most / 2 else _ask(base, _MIDDLE)
            used = [row[:1] for row in rows if type(row[2]) is int and row[2] < stale]
            if self._stores and (used or damaged):
                with contextlib.suppress(sqlite3.OperationalError), _transaction(base):  # a later one will do
                    base.executemany(f"UPDATE entries SET tick = ({_NEXT}) WHERE id = ?", used)  # noqa: S608
                    base.executemany("DELETE FROM entries WHERE id = ?", damaged)

    def _write(self, rows: list[tuple[bytes, bytes]]) -> None:
        base = self._open()
        insert = f"INSERT OR IGNORE INTO entries (key, tick, body) VALUES (?, {_ask(base, _NEXT)}, ?)"  # noqa: S608
        for _ in range(8):  # more than once if others are quicker to fill the room that was made
            try:
                with _transaction(base):
                    base.executemany(insert, rows)
                break
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_FULL or self._pages(base) < self._most * 0.9 - 8:
                    raise  # it is the disk that is full
                self._evict(base)

    def _evict(self, base: sqlite3.Connection) -> None:
        """Delete the least recently used entries until a tenth of the space is free."""
        count = min(256, max(8, self._most // 32))
        oldest = f"SELECT id FROM entries ORDER BY tick, id LIMIT {count}"  # noqa: S608
        while self._pages(base) > self._most * 0.9:
            with _transaction(base):
                if not base.execute(f"DELETE FROM entries WHERE id IN ({oldest})").rowcount:  # noqa: S608
                    break

    def _pages(self, base: sqlite3.Connection) -> int:
        return _ask(base, "PRAGMA page_count") - _ask(base, "PRAGMA freelist_count")

    def _open(self) -> sqlite3.Connection:
        if self._base is not None and self._file == _identity(self.path):
            return self._base
        self._close()
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._alone():
            base = sqlite3.connect(self.path, _PATIENCE, isolation_level=None, check_same_thread=False)
            self._release = weakref.finalize(self, base.close)
            self._file = _identity(self.path)
            try:
                self._prepare(base)
            except BaseException:
                base.close()
                raise
        self._base = base
        return base

    def _prepare(self, base: sqlite3.Connection) -> None:
        """Create the table in a new file; a file with other tables counts as damaged."""
        base.text_factory = bytes  # there is none; damage may look like some
        tables = base.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid").fetchall()
        if tables and tables != [(statement.encode(),) for statement in _SCHEMA]:
            error = sqlite3.DatabaseError("this database was not written by dialeval")
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error
        base.execute("PRAGMA synchronous = OFF")  # what a pulled plug spoils is found by its checksum
        if not tables:
            base.execute(f"PRAGMA page_size = {_PAGE}")
            with _transaction(base):
                for statement in _SCHEMA:
                    base.execute(statement)
        elif _ask(base, "PRAGMA page_count") > self._most:  # the limit was higher once: give room back
            self._evict(base)
            base.execute("VACUUM")
        base.execute(f"PRAGMA max_page_count = {self._most}")

    def _close(self) -> None:
        if self._base is not None:
            self._base = None
            with contextlib.suppress(sqlite3.Error):
                self._release()

    def _set_aside(self, error: Exception) -> bool:
        """Rename the damaged file, unless another process did; return whether to start a new one."""
        self._starts += 1
        if self._starts > _STARTS:
            return False
        damaged = self._beside(".damaged")
        with contextlib.suppress(OSError, DataError), self._alone():
            if self._file == _identity(self.path):
                self._beside("-journal").unlink(missing_ok=True)  # first: a fresh file must never meet it
                self.path.replace(damaged)
                _warn(f"{self.path}: {error}; set aside as {damaged.name}, which can be deleted")
            return True
        return False

    def _alone(self) -> contextlib.AbstractContextManager[None]:
        """Return a lock that keeps other processes from opening or renaming this file."""
        return locked(self.path.with_suffix(".lock"), "being opened", self.path, wait=lambda: None)

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)


_NEXT = "SELECT CAST(coalesce(max(tick), 0) AS INTEGER) + 1 FROM entries"
_MIDDLE = "SELECT CAST((min(tick) + max(tick)) / 2 AS INTEGER) FROM entries"


def _ask(base: sqlite3.Connection, question: str) -> int:
    """Return the single number that a query selects."""
    return int(base.execute(question).fetchone()[0] or 0)


@contextlib.contextmanager
def _transaction(base: sqlite3.Connection) -> Iterator[None]:
    """Run the body in one exclusive transaction; rolls back on errors."""
    try:
        base.execute("BEGIN IMMEDIATE")
        yield
        base.execute("COMMIT")
    except BaseException:
        if base.in_transaction:  # SQLite ends it by itself after some errors
            base.execute("ROLLBACK")
        raise


def _code(error: Exception) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _identity(path: Path) -> tuple[int, int]:
    """Return device and inode of a file, (0, 0) if it is missing."""
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return status.st_dev, status.st_ino


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=5)


# --- entries ------------------------------------------------------------------------------------------------


def _check_arrays(keys: Sequence[Key], arrays: Sequence[Array] | Array) -> None:
    """Check types, dimensions and the number of keys."""
    if len(keys) != len(arrays):
        raise UsageError(f"{len(keys)} keys for {len(arrays)} arrays")
    for array in arrays:
        if array.dtype not in _KNOWN or not 1 <= array.ndim <= 2:
            raise UsageError(
                f"cannot cache an array of {array.dtype} with {array.ndim} dimensions: "
                "float32 or float16, 1 or 2 dimensions"
            )


def _packed(name: bytes, array: Array) -> bytes:
    """Serialise an array with its type, shape and a checksum over key and content."""
    head = _HEAD.pack(_LAYOUT, array.itemsize, array.ndim, *(*array.shape, 0)[:2])
    body = array.tobytes()
    return b"".join((head, zlib.crc32(body, zlib.crc32(name + head)).to_bytes(4, "little"), body))


def _unpacked(name: Any, body: Any) -> Array | None:
    """Return the array, read-only, or None if its checksum or shape is wrong."""
    if not (type(name) is type(body) is bytes) or len(body) < _START:
        return None
    layout, size, dimensions, rows, columns = _HEAD.unpack_from(body)
    shape = (rows, columns) if dimensions == 2 else (rows,)
    if layout != _LAYOUT or size not in _TYPES or math.prod(shape) * size != len(body) - _START:
        return None
    checksum = zlib.crc32(memoryview(body)[_START:], zlib.crc32(name + body[: _HEAD.size]))
    if checksum != int.from_bytes(body[_HEAD.size : _START], "little"):
        return None
    return np.ndarray(shape, _TYPES[size], body, _START)


# --- forks: no lock is held and no file is open in a cache while the process is copied ----------------------


def _before_fork() -> None:
    _lock.acquire()
    for cache in list(_live):
        if isinstance(cache, DiskCache):
            cache._close()  # SQLite's locks do not survive a fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_lock.release, after_in_child=_lock.release)
