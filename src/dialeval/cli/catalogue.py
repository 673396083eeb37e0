"""`dialeval list`, `demo`, `verify`, `reproduce` and `export`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dialeval.cli import output, tables
from dialeval.cli.options import Json, Running
from dialeval.cli.places import check_places
from dialeval.errors import UsageError


def demo(out: Annotated[Path, typer.Option("-o", "--out", help="Folder to write.")] = Path("demo")) -> None:
    """Score the bundled examples and write a report.

    Example: dialeval demo
    """
    from dialeval.jobs.demo import run_demo

    findings = run_demo(out, watch=lambda step: output.say(f"{step} …"))
    tables.show_report_tables(findings, "systems", "verdicts")
    output.say("The ratings are illustrative: made up, they measure nothing.")
    output.say(f"Correlations, faults and the turns to read are in the report: {out / 'report.html'}")


def verify(
    accept: Annotated[
        bool, typer.Option("--accept", help="Add golden scores of new metrics (for maintainers).")
    ] = False,
    json: Json = False,
) -> None:
    """Recompute the golden scores of all shipped metrics.

    Example: dialeval verify
    """
    from dialeval.jobs import demo as job

    if accept:
        output.say(f"added: {', '.join(job.accept()) or 'nothing new'}")
    rows = job.verify()
    if json:
        output.print_json(rows)
    else:
        header = ("metric", "scores", "differing", "largest difference")
        shown = [(row["metric"], row["n"], row["differing"], row["largest_difference"]) for row in rows]
        output.print_table("Golden scores", header, shown)
    if any(row["differing"] for row in rows):
        raise typer.Exit(1)


def list_(
    what: Annotated[
        str | None, typer.Argument(help="metrics, sets, formats, schemes or systems; default: metrics.")
    ] = None,
    download: Annotated[str | None, typer.Option(help="Download this public set, then list sets.")] = None,
    json: Json = False,
) -> None:
    """List metrics, public sets, formats, schemes or systems.

    Example: dialeval list sets
    """
    known = {
        "metrics": _metrics,
        "sets": _sets,
        "formats": _formats,
        "schemes": _schemes,
        "systems": _systems,
    }
    what = what or ("sets" if download else "metrics")
    if what not in known:
        raise UsageError(f"list {what}: expected {', '.join(known)}")
    if download:
        if what != "sets":
            raise UsageError(f"list {what} --download {download}: only sets can be downloaded")
        _download(download)
    rows = known[what]()
    shown = rows if json else [{name: _text(cell) for name, cell in row.items()} for row in rows]
    output.print_records(what.capitalize(), shown, json)


def _text(value: Any) -> Any:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _metrics() -> list[dict[str, Any]]:
    from dialeval.metrics import describe, metric_names

    return [describe(name) for name in metric_names()]


def _sets() -> list[dict[str, Any]]:
    from dialeval.dialogues.datasets import data_folder, public_set, set_names

    rows = []
    for name in set_names():
        chosen = public_set(name)
        rows.append(
            {
                "name": name,
                "here": "yes" if (data_folder() / chosen.folder).is_dir() else "no",
                "parts": chosen.parts,
                "gold": [f"{gold.dimension} ({gold.level})" for gold in chosen.golds],
                "title": chosen.title,
                "licence": chosen.licence,
                "home": chosen.home,
            }
        )
    return rows


def _formats() -> list[dict[str, Any]]:
    from dialeval.dialogues.formats import known_formats

    return [{"name": name, "what": description} for name, description in known_formats().items()]


def _schemes() -> list[dict[str, Any]]:
    from dialeval.annotation import read_scheme, scheme_names

    schemes = [read_scheme(name) for name in scheme_names()]
    return [
        {
            "name": scheme.name,
            "unit": f"pair of {scheme.of}s" if scheme.unit == "pair" else scheme.unit,
            "raters": scheme.raters_per_item,
            "questions": [question.name for question in scheme.questions],
            "title": scheme.title,
        }
        for scheme in schemes
    ]


def _systems() -> list[dict[str, Any]]:
    from dialeval.plugins import plugins
    from dialeval.systems import system_names

    others = plugins("systems")
    own = ["http://… or https://…", "module:function"]
    return [{"name": name, "from": "dialeval"} for name in own] + [
        {"name": name, "from": others[name].value if name in others else "dialeval"}
        for name in system_names()
    ]


def _download(name: str) -> None:
    from dialeval.dialogues.datasets import data_folder, public_set, set_names

    chosen = public_set(name)
    if not chosen.downloads:
        able = ", ".join(other for other in set_names() if public_set(other).downloads)
        raise UsageError(
            f"{name} has no fixed address to download from: get it from {chosen.home} and put its files into "
            f"{data_folder() / chosen.folder} (sets that are downloaded by name: {able})"
        )
    paths = chosen.download()
    for path in paths:
        output.say(f"downloaded: {path}")
    if not paths:
        output.say(f"{name} is already present: {data_folder() / chosen.folder}")


def export(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    to: Annotated[str, typer.Option(help="mlflow, wandb, langfuse, otel or hub.")],
    name: Annotated[
        str | None,
        typer.Option(help="Experiment, project, service, or repository on the Hub (organisation/name)."),
    ] = None,
) -> None:
    """Send the scores of a run to another tool.

    The text of dialogues is not sent.

    Example: dialeval export run/ --to mlflow --name my-bot
    """
    from dialeval.jobs.exporting import export as send

    output.print_lines([send(run, to, name)])


def reproduce(
    _: Running,
    paper: Annotated[
        str,
        typer.Argument(
            help="floweval, voted-appropriateness, next-user-sentiment or dialoguescore.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Output folder; default: the name of the paper.")
    ] = None,
    json: Json = False,
) -> None:
    """Reproduce the tables and figures of a paper.

    Writes page.html, page.md and rows.jsonl. Repeat the command to resume.

    Example: dialeval reproduce voted-appropriateness -o voted/
    """
    from collections import Counter
    from dataclasses import asdict

    from dialeval.jobs.reproduction import MARKS
    from dialeval.jobs.reproduction import reproduce as job

    folder = out or Path(paper)
    check_places("reproduce", {"out": folder})
    with output.progress("rows") as watch:
        done = job(paper, folder, watch=watch)
    marks = Counter(result.mark for result in done)
    if json:
        rows = [{**asdict(result.row), "ours": asdict(result.ours), "mark": result.mark} for result in done]
        output.print_json({"rows": rows, "marks": dict(marks)})
        return
    output.print_table("Marks", ("mark", "rows"), [(mark, marks[mark]) for mark in MARKS if marks[mark]])
    output.say(f"written: {folder / 'page.html'}, {folder / 'page.md'}")
