"""The one file that holds a study: SQLite, written so that an answer that was acknowledged is on the disk.

Journal in WAL mode, `synchronous` FULL: a commit returns when the answer has been synced. Readers see one
consistent state for as long as they look, also while others write. A full disk is an error of its own
(`FullError`), and leaves everything as it was.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dialeval.errors import DataError, DialevalError

VERSION = 1
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
_FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}


class FullError(DialevalError):
    """The disk takes no more; nothing was changed."""


@dataclass(slots=True)
class _Batch:
    """Changes that are committed together, and how that went."""

    is_settled: bool = False
    error: BaseException | None = None


def _readable(error: BaseException) -> BaseException:
    """Say that the disk is full where that is the matter."""
    if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF in _FULL:
        return FullError("the disk is full; nothing was changed")
    return error


class Store:
    """Connections to one study file: one for all who write, and as many as read at the same time."""

    def __init__(self, path: str | Path, *, create: bool = False) -> None:
        self.path = Path(path)
        if not create and not self.path.is_file():
            raise DataError("no study here", file=self.path)
        self._open: list[sqlite3.Connection] = []
        self._idle: list[sqlite3.Connection] = []
        self._writer: sqlite3.Connection | None = None
        self._batch: _Batch | None = None
        self._turn, self._committing = threading.Lock(), threading.Lock()
        try:
            self._prepare(create)
        except sqlite3.DatabaseError as error:
            self.close()
            raise DataError(f"not a study: {error}", file=self.path) from None
        except DataError:
            self.close()
            raise

    def _prepare(self, create: bool) -> None:
        if create:
            self.path.touch(mode=0o600)
        db = self._connect()
        if create:
            db.executescript(f"PRAGMA user_version={VERSION};BEGIN;{_TABLES}COMMIT;")
        found = db.execute("PRAGMA user_version").fetchone()[0]
        if found != VERSION:
            raise DataError(
                f"a study of version {found}; this is dialeval for version {VERSION}", file=self.path
            )
        self._idle.append(db)

    def _connect(self) -> sqlite3.Connection:
        made = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10)
        made.row_factory = sqlite3.Row
        self._open.append(made)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            made.execute(f"PRAGMA {pragma}")
        return made

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """See one consistent state, whatever others write meanwhile."""
        try:
            db = self._idle.pop()
        except IndexError:
            db = self._connect()
        db.execute("BEGIN")
        try:
            yield db
        finally:
            db.execute("ROLLBACK")
            self._idle.append(db)

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Change something: all of it is on the disk when the block has ended, or nothing is.

        Those who write at the same time share one commit, since a disk syncs once for twenty as quickly as
        for one. Each is a savepoint of its own: one that fails takes nothing of the others with it.
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

    def _joined(self) -> tuple["_Batch", sqlite3.Connection]:
        if self._writer is None:
            self._writer = self._connect()
        if self._batch is None:
            self._writer.execute("BEGIN IMMEDIATE")
            self._batch = _Batch()
        return self._batch, self._writer

    def _withdraw(self, db: sqlite3.Connection, batch: "_Batch", error: BaseException) -> None:
        if db.in_transaction:
            db.execute("ROLLBACK TO one")
            db.execute("RELEASE one")
        else:  # a full disk ends the whole transaction, whoever was in it
            batch.error, batch.is_settled, self._batch = error, True, None

    def _settle(self, batch: "_Batch") -> None:
        """Commit once for all who have joined; the first to come does it, the others find it done."""
        with self._committing:
            if not batch.is_settled:
                with self._turn:
                    self._commit(batch)
        if batch.error is not None:
            raise _readable(batch.error)

    def _commit(self, batch: "_Batch") -> None:
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
        """Close all connections; the last one folds the journal into the file."""
        while self._open:
            self._open.pop().close()
        self._idle, self._writer = [], None
