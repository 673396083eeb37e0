"""The SQLite file below a disk cache: made, locked and asked so that several processes can share it."""

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

PAGE = 8192
PATIENCE = 30.0  # seconds to wait for another process
_SCHEMA = (
    "CREATE TABLE entries (id INTEGER PRIMARY KEY, key BLOB UNIQUE, tick INTEGER, body BLOB)",
    "CREATE INDEX by_tick ON entries (tick)",
)


class FullError(Exception):
    """The file would grow beyond its limit."""


def prepare(base: sqlite3.Connection, journal: int) -> None:
    """Make the tables in a new file; a file with other tables is not ours, and counts as damaged."""
    base.text_factory = bytes  # there is none; damage may look like some
    tables = base.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid").fetchall()
    if tables and tables != [(statement.encode(),) for statement in _SCHEMA]:
        raise damage("this database holds something else")
    base.execute("PRAGMA secure_delete = OFF")
    base.execute("PRAGMA synchronous = NORMAL")
    base.execute("PRAGMA cache_size = -16384")
    base.execute(f"PRAGMA wal_autocheckpoint = {journal // 2 // PAGE}")
    base.execute(f"PRAGMA journal_size_limit = {journal // 2}")
    if not tables:
        base.execute(f"PRAGMA page_size = {PAGE}")
        base.execute("PRAGMA auto_vacuum = INCREMENTAL")
        base.execute("PRAGMA journal_mode = WAL")
        with transaction(base):
            for statement in _SCHEMA:
                base.execute(statement)


def next_tick(base: sqlite3.Connection) -> tuple[int, int, int]:
    """Return the pages in use, the oldest tick and the newest; a transaction that uses entries is a tick."""
    asked = "SELECT (SELECT min(tick) FROM entries), (SELECT max(tick) FROM entries)"
    oldest, newest = (tick or 0 for tick in base.execute(asked).fetchone())
    if not (type(oldest) is type(newest) is int and 0 <= oldest <= newest < 1 << 62):
        raise damage("its order is damaged")
    return ask_number(base, "PRAGMA page_count") - ask_number(base, "PRAGMA freelist_count"), oldest, newest


def ask_number(base: sqlite3.Connection, question: str) -> int:
    """Return the one number that answers a question."""
    return int(base.execute(question).fetchone()[0])


def damage(message: str) -> sqlite3.DatabaseError:
    """Return the error that SQLite raises for a damaged file."""
    error = sqlite3.DatabaseError(message)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


@contextlib.contextmanager
def transaction(base: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Write all of it or nothing, alone among the processes."""
    try:
        base.execute("BEGIN IMMEDIATE")
        yield base
        base.execute("COMMIT")
    except BaseException:
        if base.in_transaction:  # SQLite ends it by itself after some errors
            base.execute("ROLLBACK")
        raise


def identity(path: Path) -> tuple[int, int]:
    """Tell a file from another one that has taken its place."""
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return found.st_dev, found.st_ino


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep other processes from opening or setting aside this file meanwhile, where the system has locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.with_suffix(".lock").open("a") as file:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.01)
                continue
            except OSError:  # a file system without locks
                pass
            break
        yield
