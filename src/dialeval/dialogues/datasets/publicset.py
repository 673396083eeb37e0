"""A public data set known by name: where it lives, how it is read, what people rated in it."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from dialeval import files
from dialeval.dialogues.datasets.rawfiles import load_lines
from dialeval.dialogues.dialogue import Dialogue
from dialeval.errors import DataError, UsageError
from dialeval.scores import Score, Scores, Signature

Part = str  # "train", "dev", "test", or "all"


class MissingPartError(DataError):
    """A part of a set whose file is not there, though the set is; `all` passes it over."""


class _Peer(msgspec.Struct):
    """A line of `peers.jsonl`; only the lines about a turn have a `turn`, and a file may mix both."""

    id: str
    source: str
    value: float | None
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class Gold:
    """What a study of a set compares with when nothing else is asked for."""

    dimension: str
    level: Literal["turn", "dialogue"]


@dataclass(frozen=True, slots=True)
class Download:
    """One file of a set at its public home, pinned by its hash."""

    address: str
    sha256: str
    path: str


@dataclass(frozen=True, slots=True)
class PublicSet:
    """A data set read from its original files.

    `read` gives the dialogues of one part, `rate` the ratings of people as Scores (None where nobody
    rated). Both are handed the set's folder. Use the methods, which check that it is there.
    """

    name: str
    title: str
    folder: str
    licence: str
    home: str
    read: Callable[[Path, Part], Iterable[Dialogue]]
    parts: tuple[Part, ...] = ("test",)
    rate: Callable[[Path], Scores] | None = None
    golds: tuple[Gold, ...] = ()
    downloads: tuple[Download, ...] = ()
    peers: str | None = None

    def path(self) -> Path:
        """Return the set's folder, or say in one line where it should be put."""
        path = data_folder() / self.folder
        if not path.is_dir():
            how = (
                f"dialeval list sets --download {self.name}" if self.downloads else f"get it from {self.home}"
            )
            raise DataError(
                f"the set {self.name!r} is not there", file=path, fix=f"{how}, or set DIALEVAL_DATA"
            )
        return path

    def dialogues(self, part: Part = "all") -> Iterator[Dialogue]:
        """Yield the dialogues of one part, or of all parts that are there."""
        if part not in (*self.parts, "all"):
            raise UsageError(f"{self.name} has no part {part!r}; it has: {', '.join((*self.parts, 'all'))}")
        folder, missing = self.path(), []
        for one in self.parts if part == "all" else (part,):
            try:
                yield from self.read(folder, one)
            except MissingPartError as error:
                missing.append(error)
        if missing and len(missing) == (len(self.parts) if part == "all" else 1):
            raise missing[0]

    def ratings(self) -> Scores:
        """Return what people said about the dialogues, one source per rater where raters are known."""
        if self.rate is None:
            raise UsageError(f"nobody rated the dialogues of {self.name}")
        return self.rate(self.path())

    def peer_scores(self) -> Scores:
        """Return other metrics' published scores for these dialogues, where they are at hand."""
        path = self.path() / (self.peers or "peers.jsonl")
        if not path.is_file():
            raise DataError("no peers' scores for this set", file=path)
        fields = {"set": self.name, "file": path.name, "sha256": files.sha256(path)[:12]}
        signature = Signature.of("peers.v1", fields)
        peers = load_lines(path, _Peer)
        table = Scores.of(Score(p.id, p.turn, None, p.source, "peer", p.value) for _, p in peers)
        return Scores(table.table, dict.fromkeys(table.sources, signature))

    def download(self) -> list[Path]:
        """Fetch the files that are missing from the set's public home, each checked by its hash."""
        folder = data_folder() / self.folder
        present = (".gz", "")  # a file that was packed to save room counts
        missing = [
            d for d in self.downloads if not any((folder / f"{d.path}{end}").is_file() for end in present)
        ]
        return [files.fetch(item.address, folder / item.path, item.sha256) for item in missing]


def data_folder() -> Path:
    """Return where public sets live: `$DIALEVAL_DATA`, by default `../shared/data`."""
    return Path(os.environ.get("DIALEVAL_DATA") or "../shared/data")
