"""A public data set known by name: where it lives, how it is read, what people rated in it."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from dialeval import __version__, files
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
class GoldDimension:
    """The ratings that a study of a set compares with by default: their dimension and level."""

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

    `read` gives the dialogues of one part, `rate` the ratings of people, row by row (None where nobody
    rated). Both are handed the set's folder. Use the methods, which check that it is there.
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
    """Other metrics' scores that the set's own files hold; by default those of `peers.jsonl` beside them."""

    def path(self) -> Path:
        """Return the set's folder, or say in one line where it should be put."""
        path = data_folder() / self.folder
        if not path.is_dir():
            how = f"dialeval list --download {self.name}" if self.downloads else f"get it from {self.home}"
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
        rows = list(self.rate(self.path()))
        signature = Signature.of("ratings.v1", {"set": self.name, "dialeval": __version__})
        return Scores.of(rows, dict.fromkeys((row.source for row in rows), signature))

    def peer_scores(self) -> Scores:
        """Return other metrics' published scores for these dialogues, where they are at hand."""
        if self.peers is not None:
            rows = list(self.peers(self.path()))
            signature = Signature.of("peers.v1", {"set": self.name})
            return Scores.of(rows, dict.fromkeys((row.source for row in rows), signature))
        path = self.path() / "peers.jsonl"
        if not path.is_file():
            raise DataError("no peers' scores for this set", file=path)
        fields = {"set": self.name, "file": path.name, "sha256": files.sha256(path)[:12]}
        peers = load_lines(path, _Peer)
        table = Scores.of(Score(p.id, p.turn, None, p.source, "peer", p.value) for _, p in peers)
        return Scores(table.table, dict.fromkeys(table.sources, Signature.of("peers.v1", fields)))

    def download(self) -> list[Path]:
        """Fetch the files that are missing from the set's public home, each checked by its hash."""
        folder = data_folder() / self.folder
        present = (".gz", "")  # a file that was packed to save room counts
        missing = [
            d for d in self.downloads if not any((folder / f"{d.path}{end}").is_file() for end in present)
        ]
        return [files.fetch(item.address, folder / item.path, item.sha256) for item in missing]


def data_folder() -> Path:
    """Return where public sets live: `$DIALEVAL_DATA`, by default `dialeval/data` among the user's data.

    That is `$XDG_DATA_HOME/dialeval/data`, or `~/.local/share/dialeval/data` where the variable is not set.
    """
    try:
        if chosen := os.environ.get("DIALEVAL_DATA"):
            return Path(chosen).expanduser()
        shared = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
        return (shared if shared.is_absolute() else Path("~/.local/share").expanduser()) / "dialeval" / "data"
    except RuntimeError:
        raise UsageError("this user has no home folder: set DIALEVAL_DATA to a folder") from None
