"""The folder of an index: what `config.json` says, who may write, and how the old gives way to the new.

Everything but `config.json` lies in `parts/`, in folders that are never changed once they are there. A writer
puts new parts beside the old, then replaces `config.json` in one step, then removes what nobody names any
more. So a reader, and whoever comes after a pulled plug, sees the old index or the new one.
"""

import contextlib
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from dialeval import __version__
from dialeval.errors import DataError
from dialeval.files import write_text
from dialeval.models.untrusted import hash_regular, open_regular, parse_object, read_small

CLASS: Literal["index.v1"] = "index.v1"
CONFIG, PARTS = "config.json", "parts"
REBUILD = "build the index afresh"
_TEXTS = ("ids.txt", "documents.txt")

Size = Annotated[int, msgspec.Meta(ge=0, lt=1 << 48)]
Hex = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
PartName = Annotated[str, msgspec.Meta(pattern=r"\A(rows|graph)-[0-9a-f]{16}\Z")]
FileName = Annotated[str, msgspec.Meta(pattern=r"\A[a-z][a-z0-9_-]{0,40}\.[a-z0-9]{1,10}\Z")]
ColumnName = Annotated[str, msgspec.Meta(pattern=r"\A[a-z][a-z0-9_-]{0,40}\Z")]


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of `config.json`: nothing more and nothing less than its fields."""


class Stored(_Record, frozen=True):
    """One file, as it was when it was written."""

    size: Size
    sha256: Hex


class Dense(_Record, frozen=True, tag_field="kind", tag="dense"):
    """A column of vectors, stored with length 1."""

    width: Annotated[int, msgspec.Meta(ge=1, le=1 << 16)]


class Sparse(_Record, frozen=True, tag_field="kind", tag="sparse"):
    """A column of words, counted in buckets."""

    buckets: Annotated[int, msgspec.Meta(ge=1, le=1 << 28)] = 1 << 20


class Tokens(_Record, frozen=True, tag_field="kind", tag="tokens"):
    """A column of token states, a row of bytes and a scale for each token."""

    width: Annotated[int, msgspec.Meta(ge=1, le=1 << 16)]


Kind = Dense | Sparse | Tokens


class Origin(_Record, frozen=True):
    """The encoder that the vectors came from."""

    name: str
    sha: Hex


class Part(_Record, frozen=True):
    """A folder below `parts/` and its files."""

    name: PartName
    rows: Annotated[int, msgspec.Meta(ge=1, lt=1 << 40)]
    files: dict[FileName, Stored]


class Approximate(_Record, frozen=True):
    """How a large column is searched, and how well that finds what exact search finds."""

    method: Literal["hnsw", "ivf", "exact"]
    rows: Size
    """The first so many rows are in the part; the others are searched exactly."""
    recall_at_50: float | None = None
    queries: Size = 0
    effort: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)] = 0
    """`efSearch` of a graph, `nprobe` of inverted lists."""
    part: Part | None = None
    note: str | None = None


class Config(_Record, frozen=True, rename={"kind": "class"}):
    """All of `config.json`."""

    kind: Literal["index.v1"]
    dialeval: str
    encoder: Origin | None
    columns: Annotated[dict[ColumnName, Kind], msgspec.Meta(min_length=1)]
    documents: bool
    exact_up_to: Size
    segments: Annotated[list[Part], msgspec.Meta(min_length=1)]
    approximate: dict[ColumnName, Approximate]
    sha: Hex

    @property
    def rows(self) -> int:
        """How many dialogues there are."""
        return sum(segment.rows for segment in self.segments)

    @property
    def parts(self) -> list[Part]:
        """Every part that is in use."""
        return [*self.segments, *(one.part for one in self.approximate.values() if one.part)]

    def signed(self) -> "Config":
        """Return this with the `sha` of its content, which is the same whatever parts are called."""
        return msgspec.structs.replace(self, sha=_digest(self._plain()))

    @property
    def identity(self) -> str:
        """What is searched, by 64 hex digits that are the same on every machine.

        The last bits of a vector are the processor's own. Where the texts and their encoder are known, all
        else follows from them, so they stand for it; where they are not, every file counts.
        """
        if self.encoder is None or not self.documents:
            return self.sha
        plain = self._plain()
        for segment in plain["segments"]:
            segment["files"] = {name: file for name, file in segment["files"].items() if name in _TEXTS}
        for entry in plain["approximate"].values():
            for key in ("part", "recall_at_50"):
                del entry[key]
        return _digest(plain)

    def _plain(self) -> dict[str, Any]:
        """What is in this, without the names that are made up for it."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        for key in ("sha", "dialeval"):
            del plain[key]
        for part in (*plain["segments"], *(one["part"] or {} for one in plain["approximate"].values())):
            part.pop("name", None)
        return plain


def _digest(plain: dict[str, Any]) -> str:
    text = json.dumps(plain, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def empty_config(
    encoder: Origin | None, columns: dict[str, Kind], documents: bool, exact_up_to: int
) -> Config:
    """Return the settings of an index that has no rows yet."""
    return Config(CLASS, __version__, encoder, columns, documents, exact_up_to, [], {}, "0" * 64)


def read_config(folder: Path) -> Config:
    """Read `config.json` and believe none of it that is not as a writer leaves it."""
    path = folder / CONFIG
    if folder.is_dir() and not os.path.lexists(path):
        text = f"has no {CONFIG}: this is no index, or its first build was broken off"
        raise DataError(text, file=folder, fix=REBUILD)
    found = parse_object(read_small(path), path)
    if found.get("class") != CLASS:
        what = ascii(str(found.get("class"))[:40])
        raise DataError(f"this is {what}, not {CLASS}", file=path, field="class")
    try:
        config = msgspec.convert(found, Config)
    except msgspec.ValidationError as error:
        raise DataError(f"not as an index has it: {error}", file=path, fix=REBUILD) from None
    if config.signed().sha != config.sha:
        raise DataError(
            "does not match its own hash: changed or damaged", file=path, field="sha", fix=REBUILD
        )
    for name, entry in config.approximate.items():
        fits = isinstance(config.columns.get(name), Dense) and entry.rows <= config.rows
        if not fits or (entry.part is None) != (entry.method == "exact"):
            raise DataError("does not fit the columns", file=path, field=f"approximate.{name}", fix=REBUILD)
    return config


def write_config(folder: Path, config: Config) -> Config:
    """Let a new `config.json` take the place of the old: from here on the new index is there."""
    signed = msgspec.structs.replace(config, dialeval=__version__).signed()
    text = json.dumps(msgspec.to_builtins(signed), indent=1, sort_keys=True, ensure_ascii=False)
    write_text(folder / CONFIG, text + "\n")
    return signed


def place_of(folder: Path, part: Part) -> Path:
    """Return the folder of a part; a link in its place is refused, wherever it leads."""
    for place in (folder / PARTS, folder / PARTS / part.name):
        try:
            mode = place.lstat().st_mode
        except OSError:
            raise DataError(f"is missing, though {CONFIG} names it", file=place, fix=REBUILD) from None
        if not stat.S_ISDIR(mode):
            raise DataError("this is a link or a file; a plain folder belongs here", file=place)
    return folder / PARTS / part.name


def check_sizes(folder: Path, part: Part) -> None:
    """Refuse a part with a file that is missing, cut off, or no plain file."""
    for name, stored in part.files.items():
        path = place_of(folder, part) / name
        with open_regular(path) as file:
            if (found := file.seek(0, 2)) != stored.size:
                text = f"{found} bytes, where {CONFIG} says {stored.size}: cut off or damaged"
                raise DataError(text, file=path, fix=REBUILD)


def check_hashes(folder: Path, part: Part) -> None:
    """Refuse a part with a file that is not, byte for byte, as it was written."""
    for name, stored in part.files.items():
        path = place_of(folder, part) / name
        if hash_regular(path) != stored.sha256:
            raise DataError("changed or damaged", file=path, fix=REBUILD)


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Hold the folder as its only writer; a second one is told so at once. Readers are not kept out.

    The lock is on the folder itself and ends with the process, so that a kill leaves nothing to clean up.
    What a build that failed leaves empty is removed.
    """
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if os.name == "posix":
                handle = os.open(folder, os.O_RDONLY)
                stack.callback(os.close, handle)
                _lock(handle, folder)
            (folder / PARTS).mkdir(exist_ok=True)
        except OSError as error:
            fix = "choose another folder"
            raise DataError(error.strerror or "cannot be written", file=folder, fix=fix) from None
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                (folder / PARTS).rmdir()
                folder.rmdir()


def _lock(handle: int, folder: Path) -> None:
    import fcntl

    fix = "wait until it is done"
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DataError("another process is writing to this index", file=folder, fix=fix) from None
    except OSError:  # a file system without locks
        return
    if not os.path.samestat(os.fstat(handle), folder.stat()):  # one that failed has removed it meanwhile
        raise DataError("another process is writing to this index", file=folder, fix=fix)


def check_replaceable(folder: Path) -> None:
    """Refuse to build over anything but an index, whole or damaged."""
    if not folder.is_dir():
        if os.path.lexists(folder):
            raise DataError("this is a file, not a folder", file=folder, fix="choose another name")
        return
    held = {
        entry.name for entry in folder.iterdir() if not entry.name.startswith(".") or entry.name == ".git"
    }
    others = held - {CONFIG, PARTS}
    if CONFIG in held and not others:
        with contextlib.suppress(DataError):
            found = parse_object(read_small(folder / CONFIG), folder / CONFIG)
            others |= set() if str(found.get("class")).startswith("index.") else {CONFIG}
        others |= set() if PARTS in held else {CONFIG}
    if others:
        raise DataError(
            f"this folder holds {min(others)!a}, which is no part of an index",
            file=folder,
            fix="choose another folder, or remove what is there",
        )


def sweep(folder: Path) -> None:
    """Remove what no reader can come to any more: parts that a kill left, or that gave way to newer ones.

    Only for writers. Where there is a `config.json` that cannot be read, nothing is touched.
    """
    kept = set()
    if os.path.lexists(folder / CONFIG):
        try:
            kept = {part.name for part in read_config(folder).parts}
        except DataError:
            return
    for entry in (folder / PARTS).iterdir():
        if entry.name not in kept:
            shutil.rmtree(entry, ignore_errors=True)
    for entry in folder.glob(f".{CONFIG}.*.part"):
        entry.unlink(missing_ok=True)
