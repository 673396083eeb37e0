"""A bounded cache on disk that any number of processes share; a run never fails because of it."""

import contextlib
import functools
import sqlite3
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

from dialeval.errors import UsageError
from dialeval.models.cache.database import (
    PAGE,
    PATIENCE,
    FullError,
    alone,
    ask_number,
    identity,
    next_tick,
    prepare,
    transaction,
)
from dialeval.models.cache.entries import Array, check_arrays, packed, unpacked
from dialeval.models.cache.forks import watch

_MEGABYTE = 1 << 20
_AT_ONCE = 900  # keys in one query; SQLite before 3.32 takes 999 at most
_STARTS = 3  # times that damage is answered with a fresh file
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class DiskCache:
    """Arrays in a folder, shared by processes, in at most `limit` bytes; those not used for long go first.

    The limit covers the file and, but for moments when readers hold it open, the journal beside it. An array
    of more than a 64th of it, or of 4 MiB, is not kept. Every array has a checksum; one that fails it counts
    as missing. A file that is no database any more is renamed to `*.damaged`, and a fresh one is begun.

    >>> import tempfile
    >>> import numpy as np
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
        self._journal = min(32 * _MEGABYTE, limit // 8)  # bytes; a journal beyond that is emptied by force
        self._most = (limit - 2 * self._journal) // PAGE  # pages
        self._base: sqlite3.Connection | None = None
        self._file = (0, 0)  # device and inode of what is open: another process may have set it aside
        self._starts = 0
        self._fetches = self._stores = True
        self._lock = threading.Lock()
        watch(self)

    def fetch(self, keys: Sequence[bytes]) -> list[Array | None]:
        """Return the array of each key, or None; one query for some hundreds of keys."""
        found: dict[bytes, Array] = {}
        with self._lock:
            if self._fetches:
                self._fetches = self._attempt(lambda: self._read(keys, found))
        return [found.get(one) for one in keys]

    def store(self, keys: Sequence[bytes], arrays: Sequence[Array] | Array) -> None:
        """Write each array under its key, in transactions of a few megabytes; what is there already stays."""
        check_arrays(keys, arrays)
        if not self._stores:
            return
        rows: list[tuple[bytes, bytes]] = []
        room = most = self._journal // 8
        for one, array in zip(keys, arrays, strict=True):
            if array.nbytes <= most:
                rows.append((one, packed(one, array)))
                room -= array.nbytes + 64
            if room <= 0:
                self._store(rows)
                rows, room = [], most
        self._store(rows)

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._lock:
            self._close()

    def __enter__(self) -> "DiskCache":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _store(self, rows: list[tuple[bytes, bytes]]) -> None:
        with self._lock:
            if rows and self._stores:
                self._attempt(lambda: self._write(rows))

    def _attempt(self, work: Callable[[], None]) -> bool:
        """Do the work, again on a fresh file if this one is damaged; failing that, store no more."""
        while True:
            try:
                work()
            except sqlite3.ProgrammingError:  # a mistake of ours, not the file's
                raise
            except (sqlite3.DatabaseError, OSError) as error:
                self._close()
                code = getattr(error, "sqlite_errorcode", None)
                if code is not None and code & 0xFF in _DAMAGE and self._set_aside(error):
                    continue
                first, self._stores = self._stores, False
                if first:
                    _warn(f"{self.path}: {error}; encodings are no longer kept on disk, the run goes on")
                return False
            return True

    def _read(self, keys: Sequence[bytes], found: dict[bytes, Array]) -> None:
        pages, oldest, newest = next_tick(self._open())
        # With half of the room to spare the order is no matter, and reading need not write.
        stale = (oldest + newest) / 2 if pages > self._most / 2 else -1
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            marks = ",".join("?" * len(some))
            asked = f"SELECT id, key, tick, body FROM entries WHERE key IN ({marks})"  # noqa: S608
            used: list[tuple[int]] = []
            damaged: list[tuple[int]] = []
            for number, one, tick, body in self._open().execute(asked, some).fetchall():
                array = unpacked(one, body)
                if array is None:
                    damaged.append((number,))
                    continue
                found[one] = array
                if type(tick) is int and tick < stale:
                    used.append((number,))
            if self._stores and (used or damaged):
                self._attempt(functools.partial(self._note, used, damaged))

    def _note(self, used: list[tuple[int]], damaged: list[tuple[int]]) -> None:
        """Make what was used young again, and room for what must be stored anew."""
        with transaction(self._open()) as base:
            tick = next_tick(base)[2] + 1
            base.executemany(f"UPDATE entries SET tick = {tick} WHERE id = ?", used)  # noqa: S608
            base.executemany("DELETE FROM entries WHERE id = ?", damaged)

    def _write(self, rows: list[tuple[bytes, bytes]]) -> None:
        base = self._open()
        for _ in range(8):  # more than once if others are quicker to fill the room that was made
            if self._insert(base, rows):
                break
            self._evict(base)
        with contextlib.suppress(FileNotFoundError):
            if self._beside("-wal").stat().st_size > self._journal:  # readers were always in the way
                base.execute("PRAGMA busy_timeout = 1000")
                base.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                base.execute(f"PRAGMA busy_timeout = {PATIENCE * 1000:.0f}")

    def _insert(self, base: sqlite3.Connection, rows: list[tuple[bytes, bytes]]) -> bool:
        """Add the rows and say so, or, if the file would grow beyond its limit, add none."""
        with contextlib.suppress(FullError), transaction(base):
            tick = next_tick(base)[2] + 1
            insert = f"INSERT OR IGNORE INTO entries (key, tick, body) VALUES (?, {tick}, ?)"  # noqa: S608
            base.executemany(insert, rows)
            if ask_number(base, "PRAGMA page_count") > self._most:
                raise FullError
            return True
        return False

    def _evict(self, base: sqlite3.Connection) -> None:
        """Delete what was not used for longest, in short transactions, until a tenth of the room is free."""
        some = min(256, max(8, self._most // 8))
        oldest = f"SELECT id FROM entries ORDER BY tick, id LIMIT {some}"  # noqa: S608
        progress = True
        while progress:
            with transaction(base):
                pages, free = ask_number(base, "PRAGMA page_count"), ask_number(base, "PRAGMA freelist_count")
                progress = False
                if pages - free > self._most * 0.9:
                    gone = base.execute(f"DELETE FROM entries WHERE id IN ({oldest})")  # noqa: S608
                    progress = gone.rowcount > 0
                elif pages > self._most:  # the limit was higher once: give room back
                    base.execute("PRAGMA incremental_vacuum(1024)").fetchall()
                    progress = ask_number(base, "PRAGMA page_count") < pages

    def _open(self) -> sqlite3.Connection:
        if self._base is not None and self._file == identity(self.path):
            return self._base
        self._close()
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with alone(self.path):
            base = sqlite3.connect(self.path, PATIENCE, isolation_level=None, check_same_thread=False)
            self._release = weakref.finalize(self, base.close)
            self._file = identity(self.path)
            try:
                prepare(base, self._journal)
            except BaseException:
                base.close()
                raise
        self._base = base
        return base

    def _close(self) -> None:
        if self._base is not None:
            self._base = None
            with contextlib.suppress(sqlite3.Error):
                self._release()

    def _set_aside(self, error: Exception) -> bool:
        """Rename the damaged file, unless another process has done so; say whether to begin afresh."""
        self._starts += 1
        if self._starts > _STARTS:
            return False
        aside = self._beside(".damaged")
        with contextlib.suppress(OSError), alone(self.path):
            if self._file == identity(self.path):
                # The journal goes first: a fresh file must never meet it.
                for ending in ("-wal", "-shm"):
                    self._beside(ending).unlink(missing_ok=True)
                self.path.replace(aside)
                _warn(f"{self.path}: {error}; set aside as {aside.name}, which may be deleted; begun afresh")
            return True
        return False

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    def _before_fork(self) -> None:
        self._lock.acquire()
        self._close()  # SQLite's locks do not survive a fork: nothing open may cross it

    def _after_fork(self) -> None:
        self._lock.release()


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=5)
