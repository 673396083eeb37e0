"""A public data set: its folder, its reader, and its human ratings."""

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from dialeval import __version__, files
from dialeval.dialogues.datasets.rawfiles import load_lines
from dialeval.dialogues.dialogue import Dialogue
from dialeval.errors import DataError, UsageError
from dialeval.scores import Score, Scores, Signature

T = TypeVar("T")
Part = str  # "train", "dev", "test", or "all"


class MissingPartError(DataError):
    """A part of a set whose file is missing, though the set is there; `all` leaves it out."""


class _Peer(msgspec.Struct):
    """A line of `peers.jsonl`: a score of a turn, or of a dialogue where `turn` is None."""

    id: str
    source: str
    value: float | None
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class GoldDimension:
    """The default gold ratings of a set: their dimension and level."""

    dimension: str
    level: Literal["turn", "dialogue"]


@dataclass(frozen=True, slots=True)
class Download:
    """The public address of a file of a set, with its hash."""

    address: str
    sha256: str
    path: str


@dataclass(frozen=True, slots=True)
class PublicSet:
    """A data set read from its original files.

    `read` yields the dialogues of one part, `rate` the human ratings (None: the set has none); both take the
    set's folder. Use the methods, which check that it is there.
    """

    name: str
    title: str
    folder: str
    licence: str
    home: str
    read: Callable[[Path, Part], Iterable[Dialogue]]
    parts: tuple[Part, ...] = ("test",)
    rate: Callable[[Path], Iterable[Score]] | None = None
    golds: tuple[GoldDimension, ...] = ()
    downloads: tuple[Download, ...] = ()
    peers: Callable[[Path], Iterable[Score]] | None = None
    """Published scores of other metrics in the set's own files; by default those of `peers.jsonl`."""

    def path(self) -> Path:
        """Return the set's folder; if it is missing, the error says where to get it."""
        path = data_folder() / self.folder
        if not path.is_dir():
            hint = f"dialeval list --download {self.name}" if self.downloads else f"get it from {self.home}"
            raise DataError(
                f"the public set {self.name!r} was not found", file=path, fix=f"{hint}, or set DIALEVAL_DATA"
            )
        return path

    def dialogues(self, part: Part = "all") -> Iterator[Dialogue]:
        """Yield the dialogues of one part, or of all parts whose files are there."""
        if part not in (*self.parts, "all"):
            raise UsageError(f"{self.name} has no part {part!r}; it has: {', '.join((*self.parts, 'all'))}")
        parts = self.parts if part == "all" else (part,)
        yield from from_parts(parts, functools.partial(self.read, self.path()))

    def ratings(self) -> Scores:
        """Return the human ratings of the dialogues, one source per rater where raters are known."""
        if self.rate is None:
            raise UsageError(f"{self.name} has no human ratings")
        rows = list(self.rate(self.path()))
        signature = Signature.of("ratings.v1", {"set": self.name, "dialeval": __version__})
        return Scores.of(rows, dict.fromkeys((row.source for row in rows), signature))

    def peer_scores(self) -> Scores:
        """Return published scores of other metrics for these dialogues."""
        if self.peers is not None:
            rows = list(self.peers(self.path()))
            signature = Signature.of("peers.v1", {"set": self.name})
            return Scores.of(rows, dict.fromkeys((row.source for row in rows), signature))
        path = self.path() / "peers.jsonl"
        if not path.is_file():
            raise DataError("this set has no published scores of other metrics", file=path)
        fields = {"set": self.name, "file": path.name, "sha256": files.sha256(path)[:12]}
        peers = load_lines(path, _Peer)
        table = Scores.of(Score(p.id, p.turn, None, p.source, "peer", p.value) for _, p in peers)
        return Scores(table.table, dict.fromkeys(table.sources, Signature.of("peers.v1", fields)))

    def download(self) -> list[Path]:
        """Download the missing files of the set, each checked by its hash, and return their paths."""
        folder = data_folder() / self.folder
        present = (".gz", "")  # a gzipped copy counts
        missing = [
            d for d in self.downloads if not any((folder / f"{d.path}{end}").is_file() for end in present)
        ]
        return [files.fetch(item.address, folder / item.path, item.sha256) for item in missing]


def from_parts(parts: Sequence[Part], read: Callable[[Part], Iterable[T]]) -> Iterator[T]:
    """Yield the content of several parts; those whose files are missing are left out, unless all are."""
    missing = []
    for part in parts:
        try:
            yield from read(part)
        except MissingPartError as error:
            missing.append(error)
    if missing and len(missing) == len(parts):
        raise missing[0]


def part_files(folder: Path, pattern: str, expected: str) -> list[Path]:
    """Return the files of a part, by name; a MissingPartError if there are none."""
    paths = sorted(folder.glob(pattern))
    if not paths:
        raise MissingPartError("no file of this part", file=folder, fix=f"expected {expected}")
    return paths


def data_folder() -> Path:
    """Return the folder of all public sets: `$DIALEVAL_DATA`, by default among the user's data.

    That is `$XDG_DATA_HOME/dialeval/data`, or `~/.local/share/dialeval/data` where the variable is not set.
    """
    try:
        if chosen := os.environ.get("DIALEVAL_DATA"):
            return Path(chosen).expanduser()
        shared = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
        return (shared if shared.is_absolute() else Path("~/.local/share").expanduser()) / "dialeval" / "data"
    except RuntimeError:
        raise UsageError("no home folder: set DIALEVAL_DATA to a folder") from None
