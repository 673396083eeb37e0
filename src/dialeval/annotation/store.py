"""The SQLite file of a project, in which every acknowledged answer is durable.

Journal in WAL mode, `synchronous` FULL: a commit returns when the answer has been synced. Readers see one
consistent state while others write. A full disk raises `DiskFullError` and changes nothing.

SQLite detects damage to its pages, but not to the content of rows. So each table has a sum of the hashes of
its rows (`sums`), updated by triggers in the transaction of every change, and compared when the file is
opened: a flipped bit in an answer is found.
"""

import contextlib
import functools
import hashlib
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dialeval.errors import DataError, DialevalError

VERSION = 2
_TABLES = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE dialogues (number INTEGER PRIMARY KEY, id TEXT NOT NULL, system TEXT, body BLOB NOT NULL) STRICT;
CREATE TABLE candidates (number INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;
CREATE TABLE people (
    name TEXT PRIMARY KEY, role TEXT NOT NULL, token TEXT NOT NULL UNIQUE, added REAL NOT NULL
) STRICT;
CREATE TABLE items (
    number INTEGER PRIMARY KEY, places TEXT NOT NULL, other TEXT, gold TEXT,
    wanted INTEGER NOT NULL, round INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE TABLE seats (
    item INTEGER NOT NULL REFERENCES items, rater TEXT NOT NULL REFERENCES people, place INTEGER NOT NULL,
    round INTEGER NOT NULL, state TEXT NOT NULL DEFAULT 'open', day TEXT, PRIMARY KEY (item, rater)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX seat_of_rater ON seats (rater, place);
CREATE INDEX open_seats ON seats (rater, state, place);
CREATE TABLE answers (
    item INTEGER NOT NULL, rater TEXT NOT NULL, body TEXT NOT NULL, at REAL NOT NULL, seconds REAL,
    PRIMARY KEY (item, rater)
) STRICT, WITHOUT ROWID;
CREATE TABLE drafts (
    item INTEGER NOT NULL, rater TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (item, rater)
) STRICT, WITHOUT ROWID;
CREATE TABLE verdicts (item INTEGER PRIMARY KEY, body TEXT NOT NULL, at REAL NOT NULL) STRICT;
CREATE TABLE earlier (
    rater TEXT NOT NULL, role TEXT NOT NULL, study TEXT NOT NULL, dialogue TEXT NOT NULL, turn INTEGER,
    at REAL
) STRICT;
CREATE TABLE log (
    number INTEGER PRIMARY KEY, at REAL NOT NULL, who TEXT NOT NULL, item INTEGER, action TEXT NOT NULL,
    ticket TEXT NOT NULL, body TEXT, UNIQUE (who, item, ticket)
) STRICT;
"""
_SUMS = "CREATE TABLE sums (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;"
_DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)  # the second where a message quotes damaged text
_FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}


class DiskFullError(DialevalError):
    """The disk is full; nothing was changed."""


@dataclass(slots=True)
class _SharedCommit:
    """Changes that are committed together, and the error if that failed."""

    is_settled: bool = False
    error: BaseException | None = None


def _readable(error: BaseException) -> BaseException:
    """Return a `DiskFullError` for SQLite's error of a full disk, and any other error as it is."""
    code = getattr(error, "sqlite_errorcode", 0)  # Python's own complaint, about text, has none
    if isinstance(error, sqlite3.OperationalError) and code & 0xFF in _FULL:
        return DiskFullError("the disk is full; nothing was changed")
    return error


def _check_tables(db: sqlite3.Connection) -> None:
    """Refuse a file with damaged pages, indexes or references, or with a missing column."""
    result = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if result != "ok":
        raise sqlite3.DatabaseError(result.splitlines()[-1])
    if broken := db.execute("PRAGMA foreign_key_check").fetchone():
        raise sqlite3.DatabaseError(f"a row of {broken[0]} refers to a missing row of {broken[2]}")
    present = _columns(db)
    for table, columns in _known_columns().items():
        if missing := set(columns) - set(present.get(table, ())):
            raise sqlite3.DatabaseError(f"there is no {table}.{min(missing)}")


def _columns(db: sqlite3.Connection) -> dict[str, list[str]]:
    """Return the columns of every table."""
    columns: dict[str, list[str]] = {}
    query = (
        "SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c WHERE t.type = 'table'"
    )
    for table, column in db.execute(query):
        columns.setdefault(table, []).append(column)
    return columns


@functools.cache
def _known_columns() -> dict[str, list[str]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(_TABLES)
        return _columns(fresh)


def _row_sum(*row: object) -> str:
    return hashlib.sha256(repr(row).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _updated_sum(total: str, old: str | None, new: str | None) -> str:
    """Return the sum of a table after a row was inserted, deleted or changed."""
    return f"{(int(total, 16) - int(old or '0', 16) + int(new or '0', 16)) % (1 << 128):032x}"


def _create_triggers(db: sqlite3.Connection) -> None:
    """Create triggers that update the sum of a table with every change over this connection."""
    db.create_function("row_sum", -1, _row_sum, deterministic=True)
    db.create_function("moved", 3, _updated_sum, deterministic=True)
    for table, columns in _known_columns().items():
        old, new = (
            f"row_sum({', '.join(f'{row}.{column}' for column in columns)})" for row in ("OLD", "NEW")
        )
        for event, rows in (
            ("INSERT", f"NULL, {new}"),
            ("DELETE", f"{old}, NULL"),
            ("UPDATE", f"{old}, {new}"),
        ):
            change = f"UPDATE sums SET value = moved(value, {rows}) WHERE name = '{table}'"  # noqa: S608
            db.execute(
                f"CREATE TEMP TRIGGER {table}_{event} AFTER {event} ON main.{table} BEGIN {change}; END"
            )


def _table_sums(db: sqlite3.Connection) -> dict[str, str]:
    """Return the sum of every table, computed from its rows."""
    sums = {}
    for table, columns in _known_columns().items():
        rows = db.execute(f"SELECT {', '.join(columns)} FROM {table}")  # noqa: S608  # our own names
        sums[table] = f"{sum(int(_row_sum(*row), 16) for row in rows) % (1 << 128):032x}"
    return sums


def _check_sums(db: sqlite3.Connection) -> None:
    """Refuse a file whose rows do not match their sums."""
    stored = {row[0]: row[1] for row in db.execute("SELECT name, value FROM sums")}
    for table, value in _table_sums(db).items():
        if stored.get(table) != value:
            raise sqlite3.DatabaseError(f"the rows of {table} are not those that were written")


def _create_sums(db: sqlite3.Connection) -> None:
    """Write the sums of a new file, or of one of version 1, which had none."""
    db.execute("BEGIN IMMEDIATE")
    db.execute(_SUMS)
    db.executemany("INSERT INTO sums VALUES (?, ?)", _table_sums(db).items())
    db.execute(f"PRAGMA user_version={VERSION}")
    db.execute("COMMIT")


class Store:
    """Connections to one project file: one shared by all writers, and one for each concurrent reader."""

    def __init__(self, path: str | Path, *, create: bool = False) -> None:
        self.path = Path(path)
        if not create and not self.path.is_file():
            raise DataError("no annotation project here", file=self.path)
        self._open: list[sqlite3.Connection] = []
        self._idle: list[sqlite3.Connection] = []
        self._writer: sqlite3.Connection | None = None
        self._batch: _SharedCommit | None = None
        self._turn, self._committing = threading.Lock(), threading.Lock()
        try:
            self._prepare(create)
        except _DAMAGE as error:
            self.close()
            if create and isinstance(readable := _readable(error), DiskFullError):
                raise readable from None
            raise self._damage("damaged, or not an annotation project", error) from None
        except DataError:
            self.close()
            raise

    def _damage(self, problem: str, error: Exception) -> DataError:
        why = str(error).partition("\n")[0]  # a message may quote a schema of many lines
        return DataError(f"{problem}: {why}", file=self.path, fix="restore a copy")

    def _prepare(self, create: bool) -> None:
        if create:
            self.path.touch(mode=0o600)
        db = self._connect()
        if create:
            db.executescript(f"BEGIN;{_TABLES}COMMIT;")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if create or version == 1:
            _create_sums(db)
            version = VERSION
        if version != VERSION:
            raise DataError(
                f"a project of version {version}; this dialeval reads version {VERSION}", file=self.path
            )
        if not create:
            db.execute("BEGIN")  # others may write meanwhile
            _check_tables(db)
            _check_sums(db)
            db.execute("ROLLBACK")
        self._idle.append(db)

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10)
        db.row_factory = sqlite3.Row
        self._open.append(db)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            db.execute(f"PRAGMA {pragma}")
        return db

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that reads one consistent state."""
        try:
            db = self._idle.pop()
        except IndexError:
            db = self._connect()
        db.execute("BEGIN")
        try:
            yield db
        except _DAMAGE as error:
            raise self._damage("damaged", error) from None
        finally:
            db.execute("ROLLBACK")
            self._idle.append(db)

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that writes: all changes are on disk after the block, or none.

        Concurrent writers share one commit, because one sync serves them all. Each has its own savepoint, so
        a failure does not affect the others.
        """
        failure: BaseException | None = None
        with self._turn:
            batch, db = self._joined()
            try:
                db.execute("SAVEPOINT one")
                yield db
                db.execute("RELEASE one")
            except BaseException as error:
                failure = error
                self._withdraw(db, batch, error)
        self._settle(batch)
        if failure is not None:
            raise _readable(failure)

    def _joined(self) -> tuple["_SharedCommit", sqlite3.Connection]:
        if self._writer is None:
            self._writer = self._connect()
            _create_triggers(self._writer)
        if self._batch is None:
            self._writer.execute("BEGIN IMMEDIATE")
            self._batch = _SharedCommit()
        return self._batch, self._writer

    def _withdraw(self, db: sqlite3.Connection, batch: "_SharedCommit", error: BaseException) -> None:
        if db.in_transaction:
            db.execute("ROLLBACK TO one")
            db.execute("RELEASE one")
        else:  # a full disk ends the whole transaction, whoever was in it
            batch.error, batch.is_settled, self._batch = error, True, None

    def _settle(self, batch: "_SharedCommit") -> None:
        """Commit once for all writers of a batch; the first to arrive commits."""
        with self._committing:
            if not batch.is_settled:
                with self._turn:
                    self._commit(batch)
        if batch.error is not None:
            raise _readable(batch.error)

    def _commit(self, batch: "_SharedCommit") -> None:
        if batch.is_settled or self._writer is None:
            return
        try:
            self._writer.execute("COMMIT")
        except sqlite3.Error as error:
            batch.error = error
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        batch.is_settled, self._batch = True, None

    def close(self) -> None:
        """Close all connections; the last one merges the journal into the file."""
        while self._open:
            self._open.pop().close()
        self._idle, self._writer = [], None
