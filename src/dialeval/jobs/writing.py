"""Writing scores as they are computed: to a run folder, a table, or standard output."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dialeval import files
from dialeval.dialogues import Dialogue
from dialeval.dialogues.formats.writing import to_json
from dialeval.errors import UsageError
from dialeval.jobs import runs
from dialeval.manifests import write_sums
from dialeval.metrics import signature_of
from dialeval.metrics.explanation import Explains, Explanation, explaining_names
from dialeval.metrics.explanation import to_json as explanation_json
from dialeval.scores import SCHEMA, Scores, columns
from dialeval.scores.table import metadata

if TYPE_CHECKING:
    from dialeval.jobs.scoring import Summary

_TABLES = (".parquet", ".jsonl", ".csv")
_ROW_GROUP = 1 << 15  # rows of scores written together
_NOT_FOLDERS = (".txt", ".json", ".tsv", ".gz", ".html", ".md", ".xlsx")
Stream = Iterator[tuple[list[Dialogue], Scores]]


def explain_stream(
    stream: Stream, metrics: dict[str, Any], keep: Callable[[Explanation], object], most: int | None = None
) -> Stream:
    """Yield a stream, and pass the explanations of its scores to `keep`, in the order of dialogues.

    Args:
        stream: The result of `score_stream`.
        metrics: By the name of their source; those that cannot explain are skipped.
        keep: Called with each explanation.
        most: The number of dialogues to explain; None for all.
    """
    left = most
    for chunk, scores in stream:
        asked = chunk if left is None else chunk[:left]
        left = None if left is None else left - len(asked)
        explanations = [
            replace(explanation, source=source)
            for source, metric in metrics.items()
            if asked and isinstance(metric, Explains)
            for explanation in metric.explain(asked)
        ]
        places = {dialogue.id: place for place, dialogue in enumerate(asked)}
        for explanation in sorted(explanations, key=lambda explanation: places[explanation.dialogue_id]):
            keep(explanation)
        yield chunk, scores


def write(
    stream: Stream,
    metrics: dict[str, Any],
    summary: "Summary",
    out: str | Path | None,
    name: str,
    overwrite: bool,
    explain: bool,
    most: int | None,
) -> None:
    """Write a stream while it is scored: see `score_to`."""
    ending = Path(out).suffix.lower() if out is not None else ""
    if out is None:
        if explain:
            stream = explain_stream(stream, metrics, summary.explanations.append, most)
        for _ in stream:
            pass
    elif str(out) == "-":
        for chunk, scores in stream:
            _by_dialogue(chunk, scores).write("-")
    elif ending in (".jsonl", ".csv"):
        with files.replacing(out) as file:
            columns.write_tables(file, ending, (scores for _, scores in stream))
    elif ending == ".parquet":
        with files.replacing(out) as file:
            _write_parquet(file, stream, metrics, None)
    else:
        _write_run(Path(out), stream, metrics, summary, name, overwrite, explain)


def _by_dialogue(chunk: Sequence[Dialogue], scores: Scores) -> Scores:
    """Group rows by dialogue, so that their order does not depend on the chunks."""
    places = pc.index_in(
        scores.table["dialogue_id"], pa.array([dialogue.id for dialogue in chunk], pa.string())
    )
    return Scores(scores.table.take(np.argsort(places.to_numpy(), kind="stable")), scores.signatures)


def check_place(out: str | Path | None, name: str) -> None:
    """Raise before scoring if the output cannot be written."""
    if out is not None and name and Path(out).is_file() and Path(name).exists() and Path(out).samefile(name):
        raise UsageError(f"{out} is also the input: choose another output")
    if out is not None and Path(out).suffix.lower() in _NOT_FOLDERS:
        raise UsageError(f"cannot write {out}: use a folder, .parquet, .jsonl or .csv")


def check_explaining(metrics: dict[str, Any], out: str | Path | None) -> None:
    """Raise before scoring if nothing can be explained, or explanations cannot be stored."""
    if not any(isinstance(metric, Explains) for metric in metrics.values()):
        able = ", ".join(explaining_names()) or "none"
        raise UsageError(f"{', '.join(metrics)} cannot explain scores; metrics that can: {able}")
    if out is not None and (str(out) == "-" or Path(out).suffix.lower() in _TABLES):
        raise UsageError(f"explanations do not fit into a table ({out}): write a run folder, or leave -o out")


def _write_parquet(file: BinaryIO, stream: Stream, metrics: dict[str, Any], copy: BinaryIO | None) -> str:
    """Write scores in row groups and, with `copy`, the dialogues; return the hash of the dialogues."""
    signatures = {source: signature_of(metric) for source, metric in metrics.items()}
    digest = hashlib.sha256()
    tables: list[pa.Table] = []
    with pq.ParquetWriter(file, SCHEMA.with_metadata(metadata(signatures)), compression="zstd") as writer:
        for chunk, scores in stream:
            tables.append(scores.table.cast(SCHEMA))
            if sum(map(len, tables)) >= _ROW_GROUP:
                writer.write_table(pa.concat_tables(tables))
                tables = []
            for dialogue in chunk:
                line = to_json(dialogue) + b"\n"
                digest.update(line)
                if copy is not None:
                    copy.write(line)
        if tables:
            writer.write_table(pa.concat_tables(tables))
    return digest.hexdigest()


def _write_run(
    out: Path,
    stream: Stream,
    metrics: dict[str, Any],
    summary: "Summary",
    name: str,
    overwrite: bool,
    explain: bool,
) -> None:
    _check_free(out, overwrite)
    with files.replacing_folder(out, replace=overwrite) as folder:
        with (
            (folder / runs.SCORES).open("wb") as file,
            (folder / runs.DIALOGUES).open("wb") as copy,
            (folder / runs.EXPLANATIONS).open("wb") if explain else nullcontext() as reasons,
        ):
            if reasons is not None:
                write = reasons.write
                stream = explain_stream(
                    stream, metrics, lambda reason: write(explanation_json(reason) + b"\n")
                )
            digest = _write_parquet(file, stream, metrics, copy)
        info = summary.to_dict(input=name, dialogues_sha256=digest)
        (folder / runs.RUN).write_text(files.json_text(info), encoding="utf-8")
        write_sums(folder, {runs.DIALOGUES: digest})
        _check_free(out, overwrite)  # it may have appeared meanwhile


def _check_free(out: Path, overwrite: bool) -> None:
    if out.exists() and not (overwrite and runs.is_run(out)):
        fix = "--overwrite replaces it" if runs.is_run(out) else "it is not a run folder; choose another name"
        raise UsageError(f"{out} exists: {fix}")
