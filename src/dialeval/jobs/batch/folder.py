"""The folder of a batch, on disk or in an object store: its files appear whole or not at all.

out/
  run.json           the plan: metrics with their signatures, inputs with their hashes, shards
  SHA256SUMS         the hash of the plan; on disk only
  scores/            part-00000.parquet, …: the scores of each shard; any Parquet reader takes the folder
  done/              part-00000.json, …: size, hash and counts of each, written after it
  log.jsonl          what was begun, done and failed, and when; on disk only, and the lock of the folder
  summary.json       counts, means, what was not scored and why
  _SUCCESS           all shards are there
"""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dialeval import files, stores
from dialeval.dialogues.formats import public_part, source_files
from dialeval.errors import DataError, UsageError
from dialeval.jobs import runs
from dialeval.manifests import SUMS, FileRecord, check_file

SUMMARY, LOG = "summary.json", "log.jsonl"
_STALE = 600.0  # seconds; what is younger may be a task of an array at work
_RESUME = "give the same dialeval batch command again"
Note = Callable[[dict[str, Any]], None]


def part_name(number: int) -> str:
    """Name the scores of a shard.

    >>> part_name(17)
    'scores/part-00017.parquet'
    """
    return f"{runs.PARTS}/part-{number:05d}.parquet"


def done_name(number: int) -> str:
    """Name the record of a finished shard."""
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
        self.write(name, files.json_text(value).encode())

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
        """Return the record of a shard whose scores are intact, else None."""
        try:
            return self.check(number)
        except DataError:
            return None

    def check(self, number: int) -> dict[str, Any]:
        """Return the record of a finished shard after checking its scores against it.

        Raises:
            DataError: The shard is not finished, or its scores are missing or damaged; names the file.
        """
        note, part = done_name(number), part_name(number)
        try:
            done: dict[str, Any] = json.loads(self.read(note) or b"")
            record = msgspec.convert({"size": done["bytes"], "sha256": done["sha256"]}, FileRecord)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise DataError("is missing or damaged", file=self.path(note), fix=_RESUME) from None
        if not self.stored:
            check_file(Path(self.path(part)), record, fix=_RESUME)
        elif FileRecord.of(self.read(part) or b"") != record:
            raise DataError("missing, changed or damaged", file=self.path(part), fix=_RESUME)
        return done

    def clean(self) -> None:
        """Remove leftovers of killed processes: weights shared by workers, temporary files."""
        if self.stored:
            return
        for old in Path(self.place).glob(".models-*"):
            shutil.rmtree(old, ignore_errors=True)
        files.sweep(Path(self.place), older=_STALE, below=True)

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

            try:
                yield note
            finally:
                if not (os.fstat(log.fileno()).st_size or Path(self.path(runs.RUN)).exists()):
                    for name in (LOG, SUMS):  # nothing was planned: nothing stays
                        Path(self.path(name)).unlink(missing_ok=True)


# --- what it is filled from ---------------------------------------------------------------------------------


def input_files(inputs: Sequence[str], without: str = "") -> list[str]:
    """List the files that inputs stand for, each once: absolute paths and addresses.

    Args:
        inputs: Files, folders, patterns, run folders, or addresses (`s3://…`) of any of these.
        without: A folder whose files are not meant: where the scores go.
    """
    for source in inputs:
        if source == "-" or public_part(source):
            raise UsageError(
                f"{source}: a batch reads files; make one, dialeval convert {source} -o chats.jsonl"
            )
    paths = [absolute(source) for source in source_files(inputs)]
    place = without.partition("?")[0].rstrip("/") + "/"
    remaining = [path for path in dict.fromkeys(paths) if not without or not path.startswith(place)]
    if not remaining:
        raise DataError(f"no dialogues in {', '.join(inputs)}", fix="only the folder of the scores is there")
    return remaining


def absolute(place: str) -> str:
    """Name a place so that every process means the same; an address is one already."""
    return place if stores.is_address(place) else str(Path(place).absolute())
