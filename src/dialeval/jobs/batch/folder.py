"""The folder of a batch, on disk or in an object store: its files appear whole or not at all.

out/
  run.json           the plan: metrics with their signatures, inputs with their hashes, shards
  scores/            part-00000.parquet, …: the scores of each shard; any Parquet reader takes the folder
  done/              part-00000.json, …: size, hash and counts of each, written after it
  log.jsonl          what was begun, done and failed, and when; on disk only, and the lock of the folder
  summary.json       counts, means, what was not scored and why
  _SUCCESS           all shards are there
"""

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dialeval import files, stores
from dialeval.jobs import runs

SUMMARY, LOG = "summary.json", "log.jsonl"
_STALE = 600.0  # seconds; what is younger may be a task of an array at work
Note = Callable[[dict[str, Any]], None]


def part_name(number: int) -> str:
    """Name the scores of a shard.

    >>> part_name(17)
    'scores/part-00017.parquet'
    """
    return f"{runs.PARTS}/part-{number:05d}.parquet"


def done_name(number: int) -> str:
    """Name what is known of a finished shard."""
    return f"{runs.DONE}/part-{number:05d}.json"


class BatchFolder:
    """Reads and writes small files by name, below a path or an address."""

    def __init__(self, place: str) -> None:
        self.place, self.stored = place, stores.is_address(place)

    def __str__(self) -> str:
        return self.place

    def path(self, name: str) -> str:
        """Return the path or address of a file."""
        return stores.joined(self.place, name) if self.stored else str(Path(self.place) / name)

    def read(self, name: str) -> bytes | None:
        """Return all of a file, or None if there is none."""
        if self.stored:
            return stores.read_bytes(self.path(name))
        path = Path(self.path(name))
        if not path.is_file():
            return None
        with files.open_packed(path) as file:
            return file.read()

    def write(self, name: str, data: bytes) -> None:
        """Write a file: beside its place, synced and renamed, or sent to the store as a whole."""
        if self.stored:
            stores.write_bytes(self.path(name), data)
            return
        with files.replacing(self.path(name)) as file:
            file.write(data)

    def write_json(self, name: str, value: Any) -> None:
        """Write a value as JSON for people."""
        self.write(name, (json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode())

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        if self.stored:
            stores.remove(self.path(name))
        else:
            Path(self.path(name)).unlink(missing_ok=True)

    def names(self) -> set[str]:
        """Return the names of all files."""
        if self.stored:
            return set(stores.sizes_below(self.place))
        root = Path(self.place)
        return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}

    def finished(self, number: int) -> dict[str, Any] | None:
        """Return what is known of a shard if its scores are there, to the byte, and None if not."""
        try:
            done: dict[str, Any] = json.loads(self.read(done_name(number)) or b"")
            data = self.read(part_name(number)) or b""
            whole = (done["bytes"], done["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        return done if whole else None

    def clean(self) -> None:
        """Remove what kills left behind: weights that workers shared, files that were never renamed."""
        if self.stored:
            return
        for old in Path(self.place).glob(".models-*"):
            shutil.rmtree(old, ignore_errors=True)
        for one in Path(self.place).rglob(".*.part"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - one.stat().st_mtime > _STALE:
                    one.unlink()

    @contextlib.contextmanager
    def alone(self) -> Iterator[Note]:
        """Keep other drivers out, where the folder is on a disk; gives a function that writes to the log."""
        if self.stored:
            yield lambda event: None
            return
        with files.appending(self.path(LOG)) as log:

            def note(event: dict[str, Any]) -> None:
                with contextlib.suppress(OSError):  # a full disk is for the scores to complain of
                    line = json.dumps({"at": round(time.time(), 3), **event})
                    os.write(log.fileno(), line.encode() + b"\n")

            yield note
