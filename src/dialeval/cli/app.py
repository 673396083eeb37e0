"""All verbs of the command line."""

from typing import Annotated, Any

import typer

from dialeval.cli import (
    annotation,
    batch,
    catalogue,
    contrast,
    corpora,
    models,
    output,
    serving,
    studies,
    systems,
    tables,
    training,
    trust,
)
from dialeval.cli.options import (
    Cache,
    Chats,
    Columns,
    Format,
    Json,
    Metrics,
    Overwrite,
    Part,
    Threads,
    open_chats,
)
from dialeval.cli.places import Verb

app = typer.Typer(
    name="dialeval",
    help="How good is your dialogue system, and how far can each automatic number be trusted?",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_EXPLAINED = 5  # dialogues explained on a terminal
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


app.command(cls=Verb)(catalogue.demo)


@app.command(cls=Verb)
def score(
    chats: Chats,
    metric: Metrics = None,
    out: Annotated[
        str | None,
        typer.Option(
            "-o", "--out", help="A run folder, or a .parquet, .jsonl or .csv file; - prints JSONL rows."
        ),
    ] = None,
    format: Format = None,
    columns: Columns = None,
    part: Part = None,
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
    from dialeval.jobs.scoring import build_all, count_dialogues, estimates, score_to

    again = None if "-" in chats else lambda: open_chats(chats, format, columns, part)
    metrics = build_all(metric or ())
    for line in estimates(again, metrics):
        output.say(line)
    total = count_dialogues(chats) if columns is None and output.is_watched() else None
    with output.progress("dialogues scored", total) as watch:
        summary = score_to(
            open_chats(chats, format, columns, part),
            metrics,
            out,
            name=", ".join(chats),
            overwrite=overwrite,
            watch=watch,
            explain=explain,
            most=None if json else _EXPLAINED,
            live="-" in chats,
        )
    _say_notes(chats, summary)
    _show(chats, summary, out, explain, json)
    if summary.interrupted:
        raise typer.Exit(130)


def _say_notes(chats: list[str], summary: Any) -> None:
    for note, count in summary.input_notes.items():
        output.say(f"{output.counted(count, 'turn')}: {note}")
    for note, count in summary.dialogue_notes.items():
        output.say(f"{output.counted(count, 'dialogue')}: {note}")
    for source, remarks in summary.remarks.items():
        for remark in remarks:
            output.say(f"{source}: {remark}")
    if not summary.dialogues:
        output.say(f"{', '.join(chats)}: no dialogue in it")
    for source in summary.signatures if summary.dialogues else ():
        if not any(row["source"] == source and row["n"] for row in summary.rows()):
            output.say(f"{source} scored nothing: {summary.why_silent(source)}")
    for warning in summary.warnings():
        output.say(warning)
    if summary.licences and output.is_watched():
        output.say(
            f"{', '.join(summary.licences)}: weights for non-commercial use, because of their training data: "
            f"{', '.join(sorted({name for some in summary.licences.values() for name in some}))} (WEIGHTS.md)"
        )


def _show(chats: list[str], summary: Any, out: str | None, explain: bool, json: bool) -> None:
    if out == "-":
        return
    if explain:
        from dialeval.cli import dialogues
    if json:
        why = dialogues.as_dict(summary, out) if explain else {}
        output.print_json(summary.to_dict(input=", ".join(chats)) | why)
        return
    tables.show_summary(summary)
    if explain:
        dialogues.show_first(summary, out, _EXPLAINED)
    tables.say_signatures(summary.signatures)
    if out:
        output.say(f"written: {out}")


app.command(cls=Verb)(studies.study)
app.command(cls=Verb)(studies.report)
app.command(cls=Verb)(studies.benchmark)
app.command(cls=Verb)(studies.compare)
app.command(cls=Verb)(studies.check)
app.command(cls=Verb)(catalogue.export)
app.command(cls=Verb)(trust.trust)
app.command(cls=Verb)(trust.plan)
app.command(cls=Verb)(trust.pairs)
app.command(cls=Verb)(trust.repeats)
app.command(cls=Verb)(batch.batch)


app.command(cls=Verb)(corpora.inspect)
app.command(cls=Verb)(corpora.convert)
app.command(cls=Verb)(corpora.index)
app.command(cls=Verb)(training.train)
app.command(cls=Verb)(training.tune)
app.command(cls=Verb)(corpora.acts)
app.command(cls=Verb)(corpora.coverage)
app.command(cls=Verb)(systems.respond)
app.command(cls=Verb)(systems.simulate)
app.command(cls=Verb)(serving.serve)
app.command(cls=Verb)(annotation.annotate)
app.command(cls=Verb)(systems.chat)
app.command(cls=Verb)(contrast.contrast)
app.command(cls=Verb)(catalogue.reproduce)
app.command(cls=Verb)(training.blend)
app.command("list", cls=Verb)(catalogue.list_)
app.command(cls=Verb)(catalogue.verify)
