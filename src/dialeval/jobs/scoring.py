"""Score a stream of dialogues with several metrics, in flat memory, into a table or a run folder."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from dialeval import __version__
from dialeval.dialogues import Dialogue
from dialeval.dialogues.feedback import feedback_scores
from dialeval.errors import UsageError
from dialeval.jobs import writing
from dialeval.jobs.arrivals import Interruption, arrivals
from dialeval.jobs.writing import Stream
from dialeval.metrics import DEFAULT_METRICS, build, chunks, needs_of, parse_spec, signature_of
from dialeval.metrics.explanation import Explanation
from dialeval.metrics.registry import CHUNK_DIALOGUES
from dialeval.metrics.training_data import non_commercial
from dialeval.models.needs import encode_ahead
from dialeval.scores import Score, Scores, Signature

_FIRST = 8  # dialogues of the first chunk
Watch = Callable[[int], None]


@dataclass
class Summary:
    """Counts and means that grow while a stream is scored."""

    dialogues: int = 0
    turns: int = 0
    interrupted: bool = False
    signatures: dict[str, Signature] = field(default_factory=dict)
    input_notes: Counter[str] = field(default_factory=Counter)
    dialogue_notes: Counter[str] = field(default_factory=Counter)
    reading_notes: list[str] = field(default_factory=list)
    """Notes on what readers guessed or left out."""
    remarks: dict[str, list[str]] = field(default_factory=dict)
    licences: dict[str, dict[str, str]] = field(default_factory=dict)
    """By source, the models whose licence is non-commercial."""
    explanations: list[Explanation] = field(default_factory=list)
    score_notes: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    unscored_notes: Counter[tuple[str, str]] = field(default_factory=Counter)
    _sums: dict[tuple[Any, ...], list[float]] = field(
        default_factory=lambda: defaultdict(lambda: [0.0, 0, 0])
    )

    def add(self, dialogues: Sequence[Dialogue], scores: Scores) -> None:
        """Add one chunk."""
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
        self.add_means(scores.summary())

    def add_means(self, rows: Iterable[dict[str, Any]]) -> None:
        """Add means of other dialogues, as `Scores.summary` and `rows` give them."""
        for row in rows:
            total = self._sums[row["source"], row["dimension"], row["level"], row["system"]]
            total[0] += (row["mean"] or 0.0) * row["n"]
            total[1] += row["n"]
            total[2] += row["n_unscored"]

    def warnings(self) -> list[str]:
        """Return where most scores of a source carry the same note, such as `truncated`."""
        totals: Counter[tuple[str, str]] = Counter()
        for row in self.rows():
            totals[row["source"], row["dimension"]] += row["n"]
        warnings = {
            (source, note): f"{source}: {count} of {totals[source, dimension]} scores: {note}"
            for (source, dimension, note), count in self.score_notes.items()
            if count > totals[source, dimension] / 2
        }
        return list(warnings.values())

    def why_silent(self, source: str) -> str:
        """Return why a source scored nothing, if there is one reason."""
        notes = [note for name, note in self.unscored_notes if name == source]
        return notes[0] if len(notes) == 1 else "see the notes of its rows, or its fields"

    def rows(self) -> list[dict[str, Any]]:
        """Means per source, dimension, level and system; null where nothing was scored."""
        places = {source: place for place, source in enumerate(self.signatures)}
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
            for (source, dimension, level, system), (total, n, unscored) in sorted(
                self._sums.items(), key=lambda item: places.get(item[0][0], len(places))
            )
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
            **({"reading_notes": self.reading_notes} if self.reading_notes else {}),
            "remarks": self.remarks,
            **({"non_commercial_models": self.licences} if self.licences else {}),
            "warnings": self.warnings(),
            "signatures": {source: str(signature) for source, signature in self.signatures.items()},
            "scores": self.rows(),
        }


def build_all(specs: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Build the metrics asked for, by the name of their source; built ones stay as they are."""
    if isinstance(specs, Mapping):
        return dict(specs)
    metrics: dict[str, Any] = {}
    for spec in specs or DEFAULT_METRICS:
        source = parse_spec(spec)[0]
        if source in metrics:
            raise UsageError(f"two metrics called {source!r}: give one another name, -m other={spec}")
        metrics[source] = build(spec)
    return metrics


def estimates(
    read: Callable[[], Iterable[Dialogue]] | None, specs: Sequence[str] | Mapping[str, Any]
) -> list[str]:
    """Return what metrics that cost something will cost, before they start: those with a method `estimate`.

    Args:
        read: Opens the dialogues; None where they can be read only once.
        specs: Metrics in command-line notation, or built.
    """
    costly = {source: metric for source, metric in build_all(specs).items() if hasattr(metric, "estimate")}
    if read is None:
        return [f"{source}: its cost is unknown until the input is read" for source in costly]
    return [str(metric.estimate(read())) for metric in costly.values()]


def count_dialogues(sources: Sequence[str]) -> int | None:
    """Count the dialogues of JSONL files by their lines, for a progress bar; None where that cannot be done.

    >>> from dialeval import dialogues
    >>> examples = Path(dialogues.__file__).parent / "examples"
    >>> count_dialogues([str(examples / "dialogues.jsonl")]), count_dialogues(["-"])
    (60, None)
    """
    total = 0
    for source in sources:
        path = Path(source)
        if path.suffix != ".jsonl" or not path.is_file():
            return None
        with path.open("rb") as file:
            total += sum(not line.isspace() for line in file)
    return total


def score_stream(
    dialogues: Iterable[Dialogue],
    metrics: dict[str, Any],
    summary: Summary,
    watch: Watch | None = None,
    arriving: Iterable[list[Dialogue]] | None = None,
) -> Stream:
    """Score chunk by chunk; a chunk is whole dialogues, all metrics together.

    Chunks are full, unless the stream is given in chunks of its own, as they arrive.

    A metric that has something to say about the whole input has a method `tally`: what that returns is handed
    every chunk with its scores (`add`) and asked at the end (`remarks`).
    """
    summary.signatures = {source: signature_of(metric) for source, metric in metrics.items()}
    tallies = {source: metric.tally() for source, metric in metrics.items() if hasattr(metric, "tally")}
    needs = needs_of(metrics.values())
    for chunk in chunks(dialogues, _FIRST) if arriving is None else arriving:
        encode_ahead(chunk, needs)
        parts = {source: metric.score(chunk).renamed(source) for source, metric in metrics.items()}
        scores = Scores.concat([*parts.values(), *([rated] if len(rated := feedback_scores(chunk)) else [])])
        summary.add(chunk, scores)
        for source, tally in tallies.items():
            tally.add(chunk, parts[source])
            summary.remarks[source] = tally.remarks()
        yield chunk, scores
        if watch:
            watch(len(chunk))


def score_each(
    source: str, metric: Any, dialogues: Sequence[Dialogue], note: Callable[[Exception], str]
) -> list[Scores]:
    """Score dialogues with one metric; one that it fails on is unscored with a note, and the others are not.

    Where all of them together fail, halves are tried, so that a thousand dialogues with one bad one among
    them cost about twenty passes.
    """
    try:
        return [metric.score(dialogues).renamed(source)] if dialogues else []
    except MemoryError:
        raise
    except Exception as error:
        half = len(dialogues) // 2
        if half:
            parts = dialogues[:half], dialogues[half:]
            return [table for part in parts for table in score_each(source, metric, part, note)]
        dialogue, reason = dialogues[0], note(error)
        return [
            Scores.of(
                Score(dialogue.id, None, dialogue.system, source, dimension, None, reason)
                for dimension in metric.dimensions
            )
        ]


def score_to(
    dialogues: Iterable[Dialogue],
    specs: Sequence[str] | Mapping[str, Any],
    out: str | Path | None = None,
    *,
    name: str = "",
    overwrite: bool = False,
    watch: Watch | None = None,
    explain: bool = False,
    most: int | None = None,
    live: bool = False,
    reading_notes: list[str] | None = None,
) -> Summary:
    """Score a stream and write a run folder, a table (`.parquet`, `.jsonl`, `.csv`), or nothing.

    Whatever is written appears when all of it is there; on standard output, when it is scored.

    Args:
        specs: Metrics in command-line notation, or built (`build_all`).
        out: Where to write; None for the summary alone, `-` for JSONL on standard output.
        name: Where the dialogues came from, for the record.
        explain: Whether to explain scores: in a run folder for every dialogue, else in the summary.
        most: How many dialogues, the first ones, to explain in the summary; None for all.
        live: Whether the stream may have no end: then Ctrl-C ends it and what was scored is written, and with
            `-` no dialogue waits for the next one.
        reading_notes: The list that the reader adds its notes to, for the record.
    """
    metrics, interruption = build_all(specs), Interruption()
    summary = Summary(reading_notes=[] if reading_notes is None else reading_notes)
    licences = {source: non_commercial(metric) for source, metric in metrics.items()}
    summary.licences = {source: models for source, models in licences.items() if models}
    writing.check_place(out, name)
    if explain:
        writing.check_explaining(metrics, out)
    patient = str(out) != "-"  # nobody sees a file before its end
    arriving = arrivals(iter(dialogues), CHUNK_DIALOGUES, interruption, patient=patient) if live else None
    stream = score_stream(dialogues, metrics, summary, watch, arriving)
    with interruption.awaited() if live else nullcontext():
        writing.write(stream, metrics, summary, out, name, overwrite, explain, most)
    summary.interrupted = interruption.came.is_set()
    return summary
