"""The folder of an index: `config.json`, the lock of writers, and atomic replacement.

All other files are in `parts/` and never change. A writer adds new parts, replaces `config.json` in one step,
and then removes unused parts. So a reader, also after a crash, sees the old index or the new one.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy.typing as npt

from dialeval import __version__
from dialeval.errors import DataError, UsageError
from dialeval.files import locked, write_text
from dialeval.manifests import FileRecord, check_file
from dialeval.models.artefact import Model
from dialeval.models.untrusted import parse_object, read_small

CLASS: Literal["index.v3"] = "index.v3"
_IDENTITY = "index.v1"  # the layout of files is not part of the identity
CONFIG, PARTS, LOCK = "config.json", "parts", ".lock"
REBUILD = "rebuild the index"
ROWS = 8192  # rows that are copied or counted at a time
QUERIES = 256  # queries that are compared at a time
Array = npt.NDArray[Any]

Size = Annotated[int, msgspec.Meta(ge=0, lt=1 << 48)]
Hex = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
PartName = Annotated[str, msgspec.Meta(pattern=r"\A(rows-[0-9a-f]{16}\.arrow|lists-[0-9a-f]{16}\.faiss)\Z")]
ColumnName = Annotated[str, msgspec.Meta(pattern=r"\A[a-z][a-z0-9_-]{0,40}\Z")]


class ConfigRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of `config.json`; unknown fields are refused."""


class DenseKind(ConfigRecord, frozen=True, tag_field="kind", tag="dense"):
    """A column of vectors of length 1."""

    width: Annotated[int, msgspec.Meta(ge=1, le=1 << 16)]


class WordKind(ConfigRecord, frozen=True, tag_field="kind", tag="sparse"):
    """A column of word counts in hash buckets."""

    buckets: Annotated[int, msgspec.Meta(ge=1, le=1 << 28)] = 1 << 20


class TokenKind(ConfigRecord, frozen=True, tag_field="kind", tag="tokens"):
    """A column of token states: int8 numbers and a scale for each token."""

    width: Annotated[int, msgspec.Meta(ge=1, le=1 << 16)]


Kind = DenseKind | WordKind | TokenKind


class Origin(ConfigRecord, frozen=True):
    """The encoder of the vectors."""

    name: str
    sha: Hex


class IndexPart(ConfigRecord, frozen=True):
    """A file in `parts/`."""

    name: PartName
    rows: Annotated[int, msgspec.Meta(ge=1, lt=1 << 40)]
    file: FileRecord
    texts: dict[str, FileRecord] = {}
    """Of rows: size and hash of ids and documents as text lines, independent of their storage."""


class Approximate(ConfigRecord, frozen=True):
    """How a large column is searched, and the recall compared with exact search."""

    method: Literal["ivf", "exact"]
    rows: Size
    """The first rows, this many, are in the part; the others are searched exactly."""
    recall_at_50: float | None = None
    queries: Size = 0
    effort: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)] = 0
    """The number of inverted lists that are searched (`nprobe`)."""
    part: IndexPart | None = None
    note: str | None = None


class IndexConfig(ConfigRecord, frozen=True, rename={"kind": "class"}):
    """All of `config.json`."""

    kind: Literal["index.v3"]
    dialeval: str
    encoder: Origin | None
    columns: Annotated[dict[ColumnName, Kind], msgspec.Meta(min_length=1)]
    documents: bool
    exact_up_to: Size
    segments: Annotated[list[IndexPart], msgspec.Meta(min_length=1)]
    approximate: dict[ColumnName, Approximate]
    sha: Hex

    @property
    def rows(self) -> int:
        """The number of dialogues."""
        return sum(segment.rows for segment in self.segments)

    @property
    def parts(self) -> list[IndexPart]:
        """All parts in use."""
        return [*self.segments, *(entry.part for entry in self.approximate.values() if entry.part)]

    def signed(self) -> "IndexConfig":
        """Return a copy with the `sha` of its content, which does not depend on the names of parts."""
        return msgspec.structs.replace(self, sha=_digest(self._plain()))

    @property
    def identity(self) -> str:
        """The identity of the content: 64 hex digits that are the same on every machine.

        The last bits of vectors differ between processors. So if texts and encoder are known, the identity is
        computed from these, otherwise from all files.
        """
        if self.encoder is None or not self.documents:
            return self.sha
        plain = self._plain() | {"class": _IDENTITY}
        for segment in plain["segments"]:
            del segment["file"]
            segment["files"] = segment.pop("texts")
        for entry in plain["approximate"].values():
            for key in ("part", "recall_at_50"):
                del entry[key]
        return _digest(plain)

    def _plain(self) -> dict[str, Any]:
        """Return the content without generated names."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        for key in ("sha", "dialeval"):
            del plain[key]
        for part in (*plain["segments"], *(entry["part"] or {} for entry in plain["approximate"].values())):
            part.pop("name", None)
        return plain


def _digest(plain: dict[str, Any]) -> str:
    text = json.dumps(plain, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def empty_config(
    encoder: Origin | None, columns: dict[str, Kind], documents: bool, exact_up_to: int
) -> IndexConfig:
    """Return the configuration of an index without rows."""
    return IndexConfig(CLASS, __version__, encoder, columns, documents, exact_up_to, [], {}, "0" * 64)


def read_config(folder: Path) -> IndexConfig:
    """Read and validate `config.json`."""
    path = folder / CONFIG
    if folder.is_dir() and not os.path.lexists(path):
        text = f"has no {CONFIG}: this is not an index, or its first build was interrupted"
        raise DataError(text, file=folder, fix=REBUILD)
    content = parse_object(read_small(path), path)
    if content.get("class") != CLASS:
        actual = ascii(str(content.get("class"))[:40])
        raise DataError(f"this is {actual}, not {CLASS}", file=path, field="class")
    try:
        config = msgspec.convert(content, IndexConfig)
    except msgspec.ValidationError as error:
        raise DataError(f"not a valid index configuration: {error}", file=path, fix=REBUILD) from None
    if config.signed().sha != config.sha:
        raise DataError(
            "does not match its own hash: changed or damaged", file=path, field="sha", fix=REBUILD
        )
    for name, entry in config.approximate.items():
        fits = isinstance(config.columns.get(name), DenseKind) and entry.rows <= config.rows
        if not fits or (entry.part is None) != (entry.method == "exact"):
            raise DataError("does not fit the columns", file=path, field=f"approximate.{name}", fix=REBUILD)
    return config


def write_config(folder: Path, config: IndexConfig) -> IndexConfig:
    """Replace `config.json`, which makes the new state visible."""
    signed = msgspec.structs.replace(config, dialeval=__version__).signed()
    text = json.dumps(msgspec.to_builtins(signed), indent=1, sort_keys=True, ensure_ascii=False)
    write_text(folder / CONFIG, text + "\n")
    return signed


def checked_part(folder: Path, part: IndexPart, *, trust: bool = False) -> Path:
    """Return the path of a part after checking its hash (with `trust`: its size)."""
    place = folder / PARTS
    if place.is_symlink() or not place.is_dir():
        raise DataError("is missing, a link or a file; expected a plain folder", file=place, fix=REBUILD)
    check_file(place / part.name, part.file, fix=REBUILD, trust=trust)
    return place / part.name


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Hold the writer's lock of a folder; a second writer is refused at once, readers are not.

    Empty leftovers of a failed build are removed.
    """
    with locked(folder / LOCK, "another process is writing to this index"):
        try:
            (folder / PARTS).mkdir(exist_ok=True)
            yield
        finally:
            with contextlib.suppress(OSError):
                (folder / PARTS).rmdir()
                (folder / LOCK).unlink()
                folder.rmdir()


def check_replaceable(folder: Path) -> None:
    """Refuse a folder that is neither empty nor an index, intact or damaged."""
    if not folder.is_dir():
        if os.path.lexists(folder):
            raise DataError("this is a file, not a folder", file=folder, fix="choose another name")
        return
    entries = {
        entry.name for entry in folder.iterdir() if not entry.name.startswith(".") or entry.name == ".git"
    }
    unexpected = entries - {CONFIG, PARTS}
    if CONFIG in entries and not unexpected:
        with contextlib.suppress(DataError):
            content = parse_object(read_small(folder / CONFIG), folder / CONFIG)
            unexpected |= set() if str(content.get("class")).startswith("index.") else {CONFIG}
        unexpected |= set() if PARTS in entries else {CONFIG}
    if unexpected:
        raise DataError(
            f"this folder holds {min(unexpected)!a}, which is not part of an index",
            file=folder,
            fix="choose another folder, or remove what is there",
        )


def sweep(folder: Path) -> None:
    """Remove parts that are no longer in use, and leftovers of killed writers.

    Only for writers. If `config.json` cannot be read, nothing is removed.
    """
    used = set()
    if os.path.lexists(folder / CONFIG):
        try:
            used = {part.name for part in read_config(folder).parts}
        except DataError:
            return
    for entry in [*(folder / PARTS).iterdir(), *folder.glob(f".{CONFIG}.*.part")]:
        if entry.name not in used:
            entry.unlink(missing_ok=True)


# --- the encoder --------------------------------------------------------------------------------------------


def origin_of(encoder: Model | None) -> Origin | None:
    """Return the record of an encoder for `config.json`."""
    if encoder is None:
        return None
    if not re.fullmatch("[0-9a-f]{64}", encoder.sha):
        raise UsageError(f"the sha of an encoder has 64 hex digits, not {encoder.sha!r:.80}")
    return Origin(encoder.name, encoder.sha)


def check_encoder(folder: Path, origin: Origin | None, encoder: Model) -> None:
    """Raise if an encoder is not the one that an index was built with."""
    if origin is None or origin.sha != encoder.sha:
        built = "without an encoder" if origin is None else f"with {origin.name!a} ({origin.sha[:12]})"
        raise DataError(
            f"was built {built}, not with {encoder.name!a} ({encoder.sha[:12]}), whose vectors differ",
            file=folder,
            fix="use the encoder it was built with, or rebuild it",
        )
