"""Score a stream of dialogues with several metrics, in flat memory, into a table or a run folder."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow.parquet as pq

from dialeval import __version__, files
from dialeval.dialogues import Dialogue
from dialeval.dialogues.formats.writing import to_json
from dialeval.errors import UsageError
from dialeval.jobs import runs
from dialeval.metrics import build, parse_spec, signature_of
from dialeval.scores import SCHEMA, Scores, Signature
from dialeval.scores.table import metadata

_CHUNK = 512  # dialogues scored together
_NOT_FOLDERS = (".txt", ".json", ".tsv", ".gz", ".html", ".md", ".xlsx")
DEFAULT_METRICS = ("repetition", "length", "turns")
Watch = Callable[[int], None]


@dataclass
class Summary:
    """Counts and means that grow while a stream is scored."""

    dialogues: int = 0
    turns: int = 0
    signatures: dict[str, Signature] = field(default_factory=dict)
    input_notes: Counter[str] = field(default_factory=Counter)
    _sums: dict[tuple[Any, ...], list[float]] = field(
        default_factory=lambda: defaultdict(lambda: [0.0, 0, 0])
    )

    def add(self, dialogues: Sequence[Dialogue], scores: Scores) -> None:
        """Take in one more chunk."""
        self.dialogues += len(dialogues)
        for dialogue in dialogues:
            self.turns += len(dialogue.turns)
            self.input_notes.update(turn.meta["note"] for turn in dialogue.turns if "note" in turn.meta)
        for row in scores.summary():
            total = self._sums[row["source"], row["dimension"], row["level"], row["system"]]
            total[0] += (row["mean"] or 0.0) * row["n"]
            total[1] += row["n"]
            total[2] += row["n_unscored"]

    def rows(self) -> list[dict[str, Any]]:
        """Means per source, dimension, level and system; null where nothing was scored."""
        return [
            {
                "source": source,
                "dimension": dimension,
                "level": level,
                "system": system,
                "mean": total / n if n else None,
                "n": int(n),
                "n_unscored": int(unscored),
            }
            for (source, dimension, level, system), (total, n, unscored) in self._sums.items()
        ]

    def to_dict(self, **more: Any) -> dict[str, Any]:
        """Return the summary for `run.json` and `--json`."""
        return {
            "dialeval": __version__,
            **more,
            "dialogues": self.dialogues,
            "turns": self.turns,
            "input_notes": dict(self.input_notes),
            "signatures": {source: str(signature) for source, signature in self.signatures.items()},
            "scores": self.rows(),
        }


def build_all(specs: Sequence[str]) -> dict[str, Any]:
    """Make the metrics asked for, by the name of their source."""
    metrics: dict[str, Any] = {}
    for spec in specs or DEFAULT_METRICS:
        source = parse_spec(spec)[0]
        if source in metrics:
            raise UsageError(f"two metrics called {source!r}: give one another name, -m other={spec}")
        metrics[source] = build(spec)
    return metrics


def score_stream(
    dialogues: Iterable[Dialogue], metrics: dict[str, Any], summary: Summary, watch: Watch | None = None
) -> Iterator[tuple[list[Dialogue], Scores]]:
    """Score chunk by chunk; a chunk is whole dialogues, all metrics together."""
    summary.signatures = {source: signature_of(made) for source, made in metrics.items()}
    stream = iter(dialogues)
    while chunk := list(islice(stream, _CHUNK)):
        scores = Scores.concat(made.score(chunk).renamed(source) for source, made in metrics.items())
        summary.add(chunk, scores)
        yield chunk, scores
        if watch:
            watch(len(chunk))


def score_to(
    dialogues: Iterable[Dialogue],
    specs: Sequence[str],
    out: str | Path | None = None,
    *,
    name: str = "",
    overwrite: bool = False,
    watch: Watch | None = None,
) -> Summary:
    """Score a stream and write a run folder, a table (`.parquet`, `.jsonl`, `.csv`), or nothing.

    Whatever is written appears when all of it is there.

    Args:
        dialogues: Any stream of dialogues.
        specs: Metrics in command-line notation.
        out: Where to write; None for the summary alone, `-` for JSONL on standard output.
        name: Where the dialogues came from, for the record.
        overwrite: Whether an existing run folder may be replaced.
        watch: Called with the number of dialogues after each chunk.
    """
    metrics, summary = build_all(specs), Summary()
    if out is not None and name and Path(out).is_file() and Path(name).exists() and Path(out).samefile(name):
        raise UsageError(f"{out} is what is read: choose another name to write")
    if out is not None and Path(out).suffix.lower() in _NOT_FOLDERS:
        raise UsageError(f"cannot write {out}: use a folder, .parquet, .jsonl or .csv")
    stream = score_stream(dialogues, metrics, summary, watch)
    ending = Path(out).suffix.lower() if out is not None else ""
    if out is None:
        for _ in stream:
            pass
    elif str(out) == "-":
        for _, scores in stream:
            scores.write("-")
    elif ending in (".jsonl", ".csv"):
        Scores.concat([Scores.of([], summary.signatures), *(scores for _, scores in stream)]).write(out)
    elif ending == ".parquet":
        with files.replacing(out) as file:
            _write_parquet(file, stream, metrics, None)
    else:
        _write_run(Path(out), stream, metrics, summary, name, overwrite)
    return summary


def _write_parquet(
    file: BinaryIO,
    stream: Iterator[tuple[list[Dialogue], Scores]],
    metrics: dict[str, Any],
    copy: BinaryIO | None,
) -> str:
    """Write scores row group by row group, and the dialogues beside; return the hash of the dialogues."""
    signatures = {source: signature_of(made) for source, made in metrics.items()}
    digest = hashlib.sha256()
    with pq.ParquetWriter(file, SCHEMA.with_metadata(metadata(signatures)), compression="zstd") as writer:
        for chunk, scores in stream:
            writer.write_table(scores.table.cast(SCHEMA))
            for dialogue in chunk:
                line = to_json(dialogue) + b"\n"
                digest.update(line)
                if copy is not None:
                    copy.write(line)
    return digest.hexdigest()


def _write_run(
    out: Path,
    stream: Iterator[tuple[list[Dialogue], Scores]],
    metrics: dict[str, Any],
    summary: Summary,
    name: str,
    overwrite: bool,
) -> None:
    if out.exists() and not (overwrite and runs.is_run(out)):
        fix = "--overwrite replaces it" if runs.is_run(out) else "it is not a run folder; choose another name"
        raise UsageError(f"{out} exists: {fix}")
    with files.replacing_folder(out) as folder:
        with (folder / runs.SCORES).open("wb") as file, (folder / runs.DIALOGUES).open("wb") as copy:
            digest = _write_parquet(file, stream, metrics, copy)
        info = summary.to_dict(input=name, dialogues_sha256=digest)
        text = json.dumps(info, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
        (folder / runs.RUN).write_text(text, encoding="utf-8")
