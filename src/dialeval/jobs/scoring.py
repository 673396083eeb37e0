"""Score a stream of dialogues with several metrics, in flat memory, into a table or a run folder."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow.compute as pc
import pyarrow.parquet as pq

from dialeval import __version__, files
from dialeval.dialogues import Dialogue
from dialeval.dialogues.formats.writing import to_json
from dialeval.errors import UsageError
from dialeval.jobs import runs
from dialeval.jobs.arrivals import Interruption, arrivals
from dialeval.metrics import build, parse_spec, signature_of
from dialeval.metrics import explanation as why
from dialeval.scores import SCHEMA, Scores, Signature, text
from dialeval.scores.table import metadata

_CHUNK = 512  # dialogues scored together
_TABLES = (".parquet", ".jsonl", ".csv")
_NOT_FOLDERS = (".txt", ".json", ".tsv", ".gz", ".html", ".md", ".xlsx")
DEFAULT_METRICS = ("quality",)
Watch = Callable[[int], None]
Stream = Iterator[tuple[list[Dialogue], Scores]]


@dataclass
class Summary:
    """Counts and means that grow while a stream is scored."""

    dialogues: int = 0
    turns: int = 0
    interrupted: bool = False
    signatures: dict[str, Signature] = field(default_factory=dict)
    input_notes: Counter[str] = field(default_factory=Counter)
    dialogue_notes: Counter[str] = field(default_factory=Counter)
    remarks: dict[str, list[str]] = field(default_factory=dict)
    explanations: list[why.Explanation] = field(default_factory=list)
    score_notes: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    unscored_notes: Counter[tuple[str, str]] = field(default_factory=Counter)
    _sums: dict[tuple[Any, ...], list[float]] = field(
        default_factory=lambda: defaultdict(lambda: [0.0, 0, 0])
    )

    def add(self, dialogues: Sequence[Dialogue], scores: Scores) -> None:
        """Take in one more chunk."""
        self.dialogues += len(dialogues)
        for dialogue in dialogues:
            self.turns += len(dialogue.turns)
            if "note" in dialogue.meta:
                self.dialogue_notes[str(dialogue.meta["note"])] += 1
            self.input_notes.update(turn.meta["note"] for turn in dialogue.turns if "note" in turn.meta)
        noted = scores.table.filter(
            pc.and_(pc.is_valid(scores.table["note"]), pc.is_valid(scores.table["value"]))
        )
        self.score_notes.update(
            zip(*(noted[name].to_pylist() for name in ("source", "dimension", "note")), strict=True)
        )
        silent = scores.table.filter(pc.is_null(scores.table["value"]))
        self.unscored_notes.update(zip(silent["source"].to_pylist(), silent["note"].to_pylist(), strict=True))
        for row in scores.summary():
            total = self._sums[row["source"], row["dimension"], row["level"], row["system"]]
            total[0] += (row["mean"] or 0.0) * row["n"]
            total[1] += row["n"]
            total[2] += row["n_unscored"]

    def warnings(self) -> list[str]:
        """Say where most scores of a source carry the same note, such as `truncated`."""
        totals: Counter[tuple[str, str]] = Counter()
        for row in self.rows():
            totals[row["source"], row["dimension"]] += row["n"]
        found = {
            (source, note): f"{source}: {count} of {totals[source, dimension]} scores: {note}"
            for (source, dimension, note), count in self.score_notes.items()
            if count > totals[source, dimension] / 2
        }
        return list(found.values())

    def why_silent(self, source: str) -> str:
        """Say why a source scored nothing, if there is one reason."""
        notes = [note for name, note in self.unscored_notes if name == source]
        return notes[0] if len(notes) == 1 else "see the notes of its rows, or its fields"

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
            "dialogue_notes": dict(self.dialogue_notes),
            "remarks": self.remarks,
            "warnings": self.warnings(),
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


def estimates(read: Callable[[], Iterable[Dialogue]] | None, specs: Sequence[str]) -> list[str]:
    """Say what metrics that cost something will cost, before they start: those with a method `estimate`.

    Args:
        read: Opens the dialogues; None where they can be read only once.
        specs: Metrics in command-line notation.
    """
    costly = {source: made for source, made in build_all(specs).items() if hasattr(made, "estimate")}
    if read is None:
        return [f"{source}: what it costs cannot be told before the input is read" for source in costly]
    return [str(made.estimate(read())) for made in costly.values()]


def score_stream(
    dialogues: Iterable[Dialogue],
    metrics: dict[str, Any],
    summary: Summary,
    watch: Watch | None = None,
    interruption: Interruption | None = None,
) -> Stream:
    """Score chunk by chunk; a chunk is whole dialogues, all metrics together.

    With an `interruption` the dialogues are a live stream: no chunk waits for one that is still to come.

    A metric that has something to say about the whole input has a method `tally`: what that returns is handed
    every chunk with its scores (`add`) and asked at the end (`remarks`).
    """
    summary.signatures = {source: signature_of(made) for source, made in metrics.items()}
    tallies = {source: made.tally() for source, made in metrics.items() if hasattr(made, "tally")}
    stream = iter(dialogues)
    whole = iter(lambda: list(islice(stream, _CHUNK)), [])
    for chunk in arrivals(stream, _CHUNK, interruption) if interruption else whole:
        parts = {source: made.score(chunk).renamed(source) for source, made in metrics.items()}
        scores = Scores.concat(parts.values())
        summary.add(chunk, scores)
        for source, tally in tallies.items():
            tally.add(chunk, parts[source])
            summary.remarks[source] = tally.remarks()
        yield chunk, scores
        if watch:
            watch(len(chunk))


def explain_stream(
    stream: Stream,
    metrics: dict[str, Any],
    keep: Callable[[why.Explanation], object],
    most: int | None = None,
) -> Stream:
    """Pass a stream on, handing over why its dialogues got their scores: dialogue by dialogue, in order.

    Args:
        stream: What `score_stream` yields.
        metrics: By the name of their source; those that cannot explain are passed over.
        keep: Takes each explanation.
        most: Explain only this many dialogues, the first ones; None for all.
    """
    left = most
    for chunk, scores in stream:
        asked = chunk if left is None else chunk[:left]
        left = None if left is None else left - len(asked)
        found = [
            replace(one, source=source)
            for source, made in metrics.items()
            if asked and isinstance(made, why.Explains)
            for one in made.explain(asked)
        ]
        places = {dialogue.id: place for place, dialogue in enumerate(asked)}
        for one in sorted(found, key=lambda one: places[one.dialogue_id]):
            keep(one)
        yield chunk, scores


def score_to(
    dialogues: Iterable[Dialogue],
    specs: Sequence[str],
    out: str | Path | None = None,
    *,
    name: str = "",
    overwrite: bool = False,
    watch: Watch | None = None,
    explain: bool = False,
    most: int | None = None,
    live: bool = False,
) -> Summary:
    """Score a stream and write a run folder, a table (`.parquet`, `.jsonl`, `.csv`), or nothing.

    Whatever is written appears when all of it is there; on standard output, when it is scored.

    Args:
        dialogues: Any stream of dialogues.
        specs: Metrics in command-line notation.
        out: Where to write; None for the summary alone, `-` for JSONL on standard output.
        name: Where the dialogues came from, for the record.
        overwrite: Whether an existing run folder may be replaced.
        watch: Called with the number of dialogues after each chunk.
        explain: Whether to say why: in a run folder for every dialogue, else in the summary.
        most: How many dialogues, the first ones, to explain in the summary; None for all.
        live: Whether to score what has come without waiting for more; then Ctrl-C ends the input, and what
            was scored until then is written.
    """
    metrics, summary, interruption = build_all(specs), Summary(), Interruption()
    _check_place(out, name)
    if explain:
        _check_explaining(metrics, out)
    stream = score_stream(dialogues, metrics, summary, watch, interruption if live else None)
    with interruption.awaited() if live else nullcontext():
        _write(stream, metrics, summary, out, name, overwrite, explain, most)
    summary.interrupted = interruption.came.is_set()
    return summary


def _write(
    stream: Stream,
    metrics: dict[str, Any],
    summary: Summary,
    out: str | Path | None,
    name: str,
    overwrite: bool,
    explain: bool,
    most: int | None,
) -> None:
    ending = Path(out).suffix.lower() if out is not None else ""
    if out is None:
        if explain:
            stream = explain_stream(stream, metrics, summary.explanations.append, most)
        for _ in stream:
            pass
    elif str(out) == "-":
        for _, scores in stream:
            scores.write("-")
    elif ending in (".jsonl", ".csv"):
        with files.replacing(out) as file:
            text.write(file, ending, (scores for _, scores in stream))
    elif ending == ".parquet":
        with files.replacing(out) as file:
            _write_parquet(file, stream, metrics, None)
    else:
        _write_run(Path(out), stream, metrics, summary, name, overwrite, explain)


def _check_place(out: str | Path | None, name: str) -> None:
    if out is not None and name and Path(out).is_file() and Path(name).exists() and Path(out).samefile(name):
        raise UsageError(f"{out} is what is read: choose another name to write")
    if out is not None and Path(out).suffix.lower() in _NOT_FOLDERS:
        raise UsageError(f"cannot write {out}: use a folder, .parquet, .jsonl or .csv")


def _check_explaining(metrics: dict[str, Any], out: str | Path | None) -> None:
    """Refuse early what could not be explained, or not be kept."""
    if not any(isinstance(made, why.Explains) for made in metrics.values()):
        able = ", ".join(why.explaining_names()) or "none"
        raise UsageError(f"{', '.join(metrics)} cannot say why; metrics that can: {able}")
    if out is not None and (str(out) == "-" or Path(out).suffix.lower() in _TABLES):
        raise UsageError(f"explanations do not fit into a table ({out}): write a run folder, or leave -o out")


def _write_parquet(file: BinaryIO, stream: Stream, metrics: dict[str, Any], copy: BinaryIO | None) -> str:
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
    stream: Stream,
    metrics: dict[str, Any],
    summary: Summary,
    name: str,
    overwrite: bool,
    explain: bool,
) -> None:
    if out.exists() and not (overwrite and runs.is_run(out)):
        fix = "--overwrite replaces it" if runs.is_run(out) else "it is not a run folder; choose another name"
        raise UsageError(f"{out} exists: {fix}")
    with files.replacing_folder(out) as folder:
        with (
            (folder / runs.SCORES).open("wb") as file,
            (folder / runs.DIALOGUES).open("wb") as copy,
            (folder / runs.EXPLANATIONS).open("wb") if explain else nullcontext() as reasons,
        ):
            if reasons is not None:
                write = reasons.write
                stream = explain_stream(stream, metrics, lambda one: write(why.to_json(one) + b"\n"))
            digest = _write_parquet(file, stream, metrics, copy)
        info = summary.to_dict(input=name, dialogues_sha256=digest)
        packed = json.dumps(info, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
        (folder / runs.RUN).write_text(packed, encoding="utf-8")
