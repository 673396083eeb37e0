"""All verbs of the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dialeval.cli import (
    acts,
    annotation,
    batch,
    blending,
    chat,
    contrast,
    coverage,
    explanations,
    models,
    output,
    responding,
    serving,
    studies,
    tables,
    training,
    tuning,
)
from dialeval.cli.options import (
    Cache,
    Columns,
    Format,
    Json,
    Metrics,
    Overwrite,
    Threads,
)

app = typer.Typer(
    name="dialeval",
    help="How good is your dialogue system, and how far can each automatic number be trusted?",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


app.add_typer(models.app, name="models")


def _version(wanted: bool) -> None:
    if wanted:
        from dialeval import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def dialeval(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """How good is your dialogue system, and how far can each automatic number be trusted?"""


@app.command()
def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder to write.")] = Path("demo"),
) -> None:
    """Score the bundled examples and write a report to look at.

    Example: dialeval demo
    """
    from dialeval.jobs.demo import run_demo

    found = run_demo(out, watch=lambda step: output.say(f"{step} …"))
    tables.show_correlations(found)
    output.say(f"The report: {out / 'report.html'}")


@app.command()
def score(
    chats: Annotated[
        str, typer.Argument(help="Dialogues in any known format; - is JSONL on standard input.")
    ],
    metric: Metrics = None,
    out: Annotated[
        str | None,
        typer.Option(
            "-o", "--out", help="A run folder, or a .parquet, .jsonl or .csv file; - prints JSONL rows."
        ),
    ] = None,
    format: Format = None,
    columns: Columns = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Say why, where a metric can: the first dialogues here, all in a run folder."
        ),
    ] = False,
    overwrite: Overwrite = False,
    threads: Threads = None,
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Score dialogues with one or more metrics.

    Example: dialeval score chats.jsonl -m repetition -m short=length:speaker=user -o run/
    """
    from dialeval.jobs.scoring import score_to

    _say_costs(chats, format, columns, metric or ())
    with output.progress("dialogues scored") as watch:
        summary = score_to(
            _read(chats, format, columns),
            metric or (),
            out,
            name=chats,
            overwrite=overwrite,
            watch=watch,
            explain=explain,
            most=None if json else explanations.FIRST,
            live=chats == "-",
        )
    _say_notes(chats, summary)
    _show(chats, summary, out, explain, json)
    if summary.interrupted:
        raise typer.Exit(130)


def _say_notes(chats: str, summary: Any) -> None:
    for note, count in summary.input_notes.items():
        output.say(f"{output.counted(count, 'turn')}: {note}")
    for note, count in summary.dialogue_notes.items():
        output.say(f"{output.counted(count, 'dialogue')}: {note}")
    for source, remarks in summary.remarks.items():
        for remark in remarks:
            output.say(f"{source}: {remark}")
    if not summary.dialogues:
        output.say(f"{chats}: no dialogue in it")
    for source in summary.signatures if summary.dialogues else ():
        if not any(row["source"] == source and row["n"] for row in summary.rows()):
            output.say(f"{source} scored nothing: {summary.why_silent(source)}")
    for warning in summary.warnings():
        output.say(warning)


def _show(chats: str, summary: Any, out: str | None, explain: bool, json: bool) -> None:
    if out == "-":
        return
    if json:
        output.print_json(
            summary.to_dict(input=chats) | (explanations.as_dict(summary, out) if explain else {})
        )
        return
    tables.show_summary(summary)
    if explain:
        explanations.show_first(summary, out)
    tables.say_signatures(summary.signatures)
    if out:
        output.say(f"written: {out}")


def _say_costs(chats: str, format: str | None, columns: str | None, metrics: Sequence[str]) -> None:
    """Say what metrics that cost something will cost, before anything is sent."""
    from dialeval.jobs.scoring import estimates

    for line in estimates(None if chats == "-" else lambda: _read(chats, format, columns), metrics):
        output.say(line)


def _read(chats: str, format: str | None, columns: str | None) -> Any:
    from dialeval.dialogues import formats
    from dialeval.jobs import runs

    if chats != "-" and runs.is_run(chats):
        return runs.Run(chats).dialogues()
    return formats.read(chats, format, formats.TurnColumns.parse(columns) if columns else None)


app.command()(studies.study)
app.command()(studies.report)
app.command()(studies.benchmark)
app.command()(studies.check)
app.command()(batch.batch)


@app.command()
def convert(
    chats: Annotated[str, typer.Argument(help="Dialogues in any known format, or the name of a public set.")],
    out: Annotated[str, typer.Option("-o", "--out", help="A .jsonl, .parquet or .csv file; - prints JSONL.")],
    format: Format = None,
    columns: Columns = None,
    part: Annotated[str, typer.Option(help="Part of a public set.")] = "all",
    ratings: Annotated[Path | None, typer.Option(help="Write a public set's ratings here too.")] = None,
) -> None:
    """Turn dialogues of any known format, or a public set, into JSONL, Parquet or CSV.

    Example: dialeval convert sharegpt.json -o chats.jsonl
    """
    from dialeval.dialogues import datasets, formats
    from dialeval.errors import UsageError

    if chats in datasets.NAMES and not Path(chats).exists():
        chosen = datasets.public_set(chats)
        count = formats.write(chosen.dialogues(part), out)
        if ratings:
            chosen.ratings().write(ratings)
    elif ratings:
        raise UsageError("--ratings goes with a public set")
    elif Path(chats).is_file() and Path(out).is_file() and Path(out).samefile(chats):
        raise UsageError(f"{out} is what is read: choose another name to write")
    else:
        count = formats.write(_read(chats, format, columns), out)
    output.say(f"{output.counted(count, 'dialogue')} written: {out}")


@app.command()
def index(
    corpus: Annotated[
        str, typer.Argument(help="Dialogues in any known format, or the name of a public set.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Folder of the index; for a public set, where metrics look for it."),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="Folder, shipped or pulled name, or Hub id; by default the shipped one."),
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Vectors and words only: quicker, not for consensus metrics.")
    ] = False,
    layer: Annotated[int | None, typer.Option(help="Layer of the encoder that describes content.")] = None,
    acts_layer: Annotated[int | None, typer.Option(help="Layer of ActBERT that describes acts.")] = None,
    add: Annotated[bool, typer.Option("--add", help="Add to the index that is there.")] = False,
    overwrite: Overwrite = False,
    format: Format = None,
    columns: Columns = None,
    part: Annotated[str, typer.Option(help="Part of a public set.")] = "train",
    threads: Threads = None,
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Index a corpus of good dialogues: what floweval compares with, and a place to search in.

    Example: dialeval index corpus.jsonl -o my-index/
    """
    from dialeval.dialogues import datasets
    from dialeval.errors import UsageError
    from dialeval.jobs.indexing import default_folder, index_to

    public = corpus in datasets.NAMES and not Path(corpus).exists()
    chats = datasets.public_set(corpus).dialogues(part) if public else _read(corpus, format, columns)
    if out is None and not public:
        raise UsageError("say where the index goes: -o my-index/")
    with output.progress("dialogues indexed") as watch:
        made = index_to(
            chats,
            out or default_folder(corpus),
            encoder,
            plain=plain,
            layer=layer,
            acts_layer=acts_layer,
            add=add,
            overwrite=overwrite,
            watch=watch,
        )
    if json:
        output.print_json(made)
    else:
        output.print_table("Index", list(made), [[_cell(value) for value in made.values()]])


def _cell(value: Any) -> Any:
    return ", ".join(f"{key}: {item}" for key, item in value.items()) if isinstance(value, dict) else value


app.command()(training.train)
app.command()(tuning.tune)
app.command()(acts.acts)
app.command()(coverage.coverage)
app.command()(responding.respond)
app.command()(serving.serve)
app.command()(annotation.annotate)
app.command()(chat.chat)
app.command()(contrast.contrast)
app.command()(blending.blend)


@app.command("list")
def list_(
    what: Annotated[str, typer.Argument(help="metrics, sets, formats or schemes.")] = "metrics",
    download: Annotated[str | None, typer.Option(help="Fetch this public set from its home.")] = None,
    json: Json = False,
) -> None:
    """List metrics, public sets, formats or schemes.

    Example: dialeval list sets
    """
    from dialeval.cli import catalogue

    catalogue.show(what, download, json)


@app.command()
def verify(
    accept: Annotated[
        bool, typer.Option("--accept", help="Add golden scores of new metrics (for maintainers).")
    ] = False,
    json: Json = False,
) -> None:
    """Recompute the golden scores of every shipped metric on this machine.

    Example: dialeval verify
    """
    from dialeval.jobs import verify as job

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
