"""`dialeval contrast`: compare scores of true replies and negatives, without ratings."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dialeval.cli import output, tables
from dialeval.cli.options import ChatSource, Confidence, Json, Metrics, Overwrite, Resamples, Running, Seed

if TYPE_CHECKING:
    from dialeval.jobs.contrast import ContrastResult
    from dialeval.statistics.resampling import Draws


def contrast(
    source: ChatSource,
    _: Running,
    metric: Metrics = None,
    negatives: Annotated[
        list[str] | None,
        typer.Option(
            help="Source of negatives: session, domain, state, topic, random; repeatable. Default: session."
        ),
    ] = None,
    systems: Annotated[
        list[Path] | None,
        typer.Option(
            help="Compare logged replies with those in this file of predictions, or in all files of this "
            "folder; repeatable."
        ),
    ] = None,
    sample: Annotated[
        int, typer.Option(min=0, help="Number of replies to sample for negatives; 0: all.")
    ] = 2000,
    resamples: Resamples = 1000,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="With --systems: run folder with all dialogues, for a study."),
    ] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Test whether metrics prefer true replies, without ratings.

    Compares scores of logged replies with those of negatives, or of systems' replies at the same place.

    Example: dialeval contrast chats.jsonl -m similarity --negatives session
    """
    from dialeval.errors import UsageError
    from dialeval.jobs import contrast as job

    if systems and negatives:
        raise UsageError("give either --negatives or --systems")
    if out and not systems:
        raise UsageError("-o needs --systems")
    logged = list(source.open("test", "all"))
    draws: Draws = {"resamples": resamples, "confidence": confidence, "seed": seed}
    with output.progress("dialogues scored") as watch:
        if systems:
            paths = [path for place in systems for path in _files(place)]
            result = job.contrast_systems(
                logged, paths, metric or (), out=out, overwrite=overwrite, watch=watch, **draws
            )
        else:
            kinds = tuple(dict.fromkeys(negatives or ("session",)))
            result = job.contrast_negatives(
                logged, metric or (), kinds, sample=sample or None, watch=watch, **draws
            )
    ranked = job.combined(result.rows) if systems else {}
    if json:
        signatures = {name: str(signature) for name, signature in result.signatures.items()}
        output.print_json({"rows": result.rows, **ranked, "notes": result.notes, "signatures": signatures})
        return
    (_show_systems if systems else _show_negatives)(result, ranked)
    output.say(*result.notes)
    if out:
        output.say(f"written: {out}")
    tables.say_signatures(result.signatures)


def _files(path: Path) -> list[Path]:
    """Return the files of predictions that a path stands for."""
    from dialeval.errors import DataError

    paths = sorted(path.glob("*.json*")) if path.is_dir() else [path]
    if not paths:
        raise DataError("no file of predictions in this folder", file=path, fix="expected SYSTEM.json")
    return paths


def _show_negatives(result: "ContrastResult", _: dict[str, Any]) -> None:
    rows = [
        (
            row["negatives"],
            row["source"],
            row["dimension"],
            row["n"],
            output.interval(row["pairs"]),
            output.interval(row["accuracy"]) if row["accuracy"]["n"] else None,
            row["auc"],
        )
        for row in result.rows
    ]
    header = ("negatives", "source", "dimension", "n", "true above false", "accuracy at .5", "AUC")
    output.print_table("True replies against negatives (chance is .5)", header, rows)


_GAPS = {
    "gap": "above the reference",
    "gap_alike": "where both ask or neither",
    "gap_unlike": "where one asks",
}


def _show_systems(result: "ContrastResult", ranked: dict[str, Any]) -> None:
    """Print a row for each system and dimension, the best systems first."""
    columns = list(dict.fromkeys((row["source"], row["dimension"]) for row in result.rows))
    rows: list[tuple[object, ...]] = []
    for column in columns:
        group = [row for row in result.rows if (row["source"], row["dimension"]) == column]
        group.sort(key=lambda row: -(row["mean"]["value"] or 0.0))
        rows += [
            (
                *column,
                row["system"],
                row["n"],
                output.interval(row["mean"]),
                *(output.interval(row[name]) if row[name] else None for name in _GAPS),
                ranked["combined"].get(row["system"]),
            )
            for row in group
        ]
    header = ("source", "dimension", "system", "n", "mean", *_GAPS.values(), "Combined")
    output.print_table("Systems beside the logged replies", header, rows)
    if ranked["spearman"]:
        cells = [
            (row["source"], row["dimension"], row["spearman"]["n"], output.interval(row["spearman"]))
            for row in ranked["spearman"]
        ]
        names = ("source", "dimension", "systems", "Spearman")
        output.print_table("Order of systems beside published Combined", names, cells, further=True)
