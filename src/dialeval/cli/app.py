"""All commands of the command line."""

from pathlib import Path
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
from dialeval.cli.options import ChatSource, Json, Metrics, Overwrite, Running, grouped
from dialeval.cli.places import Verb

app = typer.Typer(
    name="dialeval",
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
    """Measure how good a dialogue system is and how far each score can be trusted.

    Example: dialeval score chats.jsonl -o run/   (or first: dialeval demo)
    """


def score(
    source: ChatSource,
    _: Running,
    metric: Metrics = None,
    out: Annotated[
        str | None,
        typer.Option(
            "-o", "--out", help="Run folder, or .parquet, .jsonl or .csv file; - prints JSONL rows."
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Explain scores, if the metric can: the first dialogues here, all in a run folder.",
        ),
    ] = False,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Score dialogues with one or more metrics, by default with quality.

    Example: dialeval score chats.jsonl -m quality -m repetition:n=4 -o run/
    """
    from dialeval.jobs.scoring import build_all, count_dialogues, estimates, score_to

    chats = source.chats
    metrics = build_all(metric or ())
    for line in estimates(None if "-" in chats else source.open, metrics):
        output.say(line)
    total = count_dialogues(chats) if source.columns is None and output.is_watched() else None
    notes: list[str] = []
    with output.progress("dialogues scored", total) as watch:
        summary = score_to(
            source.open(notes=notes),
            metrics,
            out,
            name=source.name,
            overwrite=overwrite,
            watch=watch,
            explain=explain,
            most=None if json else _EXPLAINED,
            live="-" in chats,
            reading_notes=notes,
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
        output.say(f"{', '.join(chats)}: no dialogues")
    for source in summary.signatures if summary.dialogues else ():
        if not any(row["source"] == source and row["n"] for row in summary.rows()):
            output.say(f"{source} scored nothing: {summary.why_silent(source)}")
    output.say(*summary.warnings())
    if summary.licences and output.is_watched():
        models = sorted({name for licences in summary.licences.values() for name in licences})
        output.say(
            f"{', '.join(summary.licences)}: weights for non-commercial use, by their training data: "
            f"{', '.join(models)} (WEIGHTS.md)"
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
    if output.is_watched():
        tables.say_units(summary.signatures)
    tables.say_signatures(summary.signatures)
    if out:
        output.say(f"written: {out}")
        if output.is_watched() and not Path(out).suffix:
            output.say(f"next: dialeval report {out} shows the worst turns, and faults in a hundred replies")


_VERBS = (
    catalogue.demo,
    score,
    studies.study,
    studies.report,
    studies.benchmark,
    studies.compare,
    studies.check,
    catalogue.export,
    trust.trust,
    trust.plan,
    trust.pairs,
    trust.repeats,
    batch.batch,
    corpora.inspect,
    corpora.convert,
    corpora.index,
    training.train,
    training.tune,
    corpora.acts,
    corpora.coverage,
    systems.respond,
    systems.simulate,
    serving.serve,
    annotation.annotate,
    systems.chat,
    contrast.contrast,
    catalogue.reproduce,
    training.blend,
    catalogue.list_,
    catalogue.verify,
)
for _verb in _VERBS:
    app.command("list" if _verb is catalogue.list_ else None, cls=Verb)(grouped(_verb))
