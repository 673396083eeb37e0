"""`dialeval study`, `report`, `benchmark`, `compare` and `check`: scores against human ratings."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dialeval.cli import output, tables
from dialeval.cli.options import (
    Cache,
    Json,
    Map,
    Metrics,
    Overwrite,
    Running,
    StudyOptions,
    Threads,
    VersionOptions,
)


def study(
    options: StudyOptions,
    inputs: Annotated[list[Path], typer.Argument(help="Run folders and tables of scores or ratings.")],
    map: Map = None,
    gold: Annotated[str, typer.Option(help="Ground truth: human, or the name of a source.")] = "human",
    aggregate: Annotated[
        str, typer.Option(help="Aggregation of turns to dialogues: mean, min, max, last, median.")
    ] = "mean",
    consensus: Annotated[str, typer.Option(help="Aggregation of raters: mean or majority.")] = "mean",
    tie: Annotated[
        str, typer.Option(help="Value of a vote without a majority: null, lowest, highest, first.")
    ] = "null",
    context: Annotated[
        str | None, typer.Option(help="Kind of contexts, for the record: static or dynamic.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Ignore what was joined to the run earlier.")
    ] = False,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write the study as JSON here too.")] = None,
    json: Json = False,
) -> None:
    """Compare scores with human ratings: correlations and tests.

    Prints correlations with confidence intervals; also tests differences, rater agreement and systems.

    Example: dialeval study run/ ratings.csv --map judge.csv:id=chat,value=score
    """
    from msgspec.structs import replace

    from dialeval.jobs import runs
    from dialeval.studies import study as compute_study

    table = runs.study_input(inputs, map or (), fresh=fresh)
    run = table.run
    if run is not None and table.earlier:
        names = ", ".join(table.earlier)
        output.say(f"also used, joined to {run.path} earlier (--fresh leaves it out): {names}")
    has_line = any("=line:" in combination for combination in options.combine or ())
    findings = compute_study(
        table.scores,
        gold,
        aggregate=aggregate,
        consensus=consensus,
        tie=tie,
        context=context,
        replies=run.replies(table.runs) if run and has_line else None,
        **options.settings(),
    )
    findings = replace(findings, runs=table.runs)
    if run is not None:
        findings = run.add(findings, table.joined)
        output.say(f"written: {run.path / runs.STUDY}")
    if out:
        findings.save(out)  # last: it may be the same file
    if json:
        output.print_json_text(findings.to_json())
    else:
        tables.show_study(findings, options.against, classes=options.classes)


def report(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--out",
            help="report.html, tables.md, tables.tex, or figure.pdf (.svg, .png); repeat for more. "
            "Default: RUN/report.html",
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the report.")] = None,
) -> None:
    """Write a report of a run as HTML, Markdown or LaTeX.

    Example: dialeval report run/ -o report.html -o tables.tex
    """
    from dialeval.jobs.reporting import report_run

    for path in report_run(run, out or (), title=title, say=output.say):
        output.say(f"written: {path}")


def benchmark(
    options: StudyOptions,
    _: Running,
    set: Annotated[
        str, typer.Argument(help="A public set with ratings (see: dialeval list sets), or multiwoz.")
    ],
    metric: Metrics = None,
    peers: Annotated[bool, typer.Option("--peers", help="Add published scores of other metrics.")] = False,
    turn_ratings: Annotated[
        bool,
        typer.Option(
            "--turn-ratings",
            help="Add the mean human turn rating as a source, compared with dialogue ratings.",
        ),
    ] = False,
    part: Annotated[
        str | None, typer.Option(help="train, dev or test of the split manifest, or all; default: test.")
    ] = None,
    predictions: Annotated[
        list[str] | None,
        typer.Option(help="With multiwoz: a system's replies, [name=]FILE; repeat for more."),
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write a run folder with report.")] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Evaluate metrics on a public set, beside published figures.

    With multiwoz: Inform, Success, BLEU and Combined of ten systems, and yours (--predictions FILE).

    Example: dialeval benchmark fed -m repetition --peers
    """
    from dialeval.errors import UsageError
    from dialeval.jobs.benchmark import benchmark as run_benchmark

    if set == "multiwoz":
        chosen = (options.level, options.dimension, options.where, options.combine, options.against)
        if peers or part or out or any(chosen):
            raise UsageError(
                "benchmark multiwoz has no ratings: it takes -m multiwoz:…, --predictions and --json"
            )
        return tables.show_task_table(metric or (), predictions or (), json)
    if predictions:
        raise UsageError("--predictions goes with multiwoz")
    with output.progress("dialogues scored") as watch:
        result = run_benchmark(
            set,
            metric or (),
            peers=peers,
            turn_ratings=turn_ratings,
            part=part,
            out=out,
            overwrite=overwrite,
            watch=watch,
            say=output.say,
            **options.settings(),
        )
    if out:
        report(out, None, f"{set}: metrics against human ratings")
    agreement = result.agreement()
    if json:
        pairs = [[*names, *map(asdict, estimates)] for *names, estimates in agreement]
        more = {"published": result.published, "seen": result.seen, "agreement": pairs}
        output.print_json({"study": result.study.to_dict(), **more})
        return
    tables.show_correlations(result.study, result.published)
    if agreement:
        rows = [(*names, both[0].n, *map(output.interval, both)) for *names, both in agreement]
        output.print_table(
            "With the authors' scores", ("metric", "authors' scores", "n", "Pearson", "Spearman"), rows
        )
    if options.against:
        tables.show_against(result.study, options.against)
    if options.classes:
        tables.show_classes(result.study)
    tables.show_subsets(result.study)
    output.say(*result.study.notes)
    for name, seen in result.seen.items():
        output.say(f"{name}, training and tuning data: {seen}")
    tables.say_signatures(result.study.signatures)


def compare(
    options: VersionOptions,
    versions: Annotated[
        list[str],
        typer.Argument(
            help="Dialogues, run folders or scores as [name=]FILE, the old one first. One file: its systems."
        ),
    ],
    metric: Metrics = None,
    out: Annotated[
        list[Path] | None,
        typer.Option("-o", "--out", help="report.html, table.md or comparison.json; repeat for more."),
    ] = None,
    threads: Threads = None,
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Compare versions: differences with tests, and turns to read.

    Example: dialeval compare old.jsonl new.jsonl -o report.html
    """
    from dialeval import files
    from dialeval.jobs.comparing import compare as compare_versions
    from dialeval.jobs.comparing import is_table
    from dialeval.jobs.scoring import count_dialogues
    from dialeval.reports import write_comparison
    from dialeval.reports.comparison_page import ENDINGS

    files.check_endings(out or (), ENDINGS, "a comparison")
    named = [("", "", text) if Path(text).exists() else text.rpartition("=") for text in versions]
    places = [place for _, _, place in named]
    known = output.is_watched() and not any(map(is_table, places))
    with output.progress("dialogues scored", count_dialogues(places) if known else None) as watch:
        comparison = compare_versions(
            *places,
            names=[name for name, _, _ in named],
            metrics=tuple(metric or ()),
            watch=watch,
            **vars(options),
        )
    for path in out or ():
        write_comparison(comparison, path)
        output.say(f"written: {path}")
    if json:
        output.print_json(comparison.to_dict())
    else:
        tables.show_comparison(comparison)


def check(
    options: VersionOptions,
    new: Annotated[Path, typer.Argument(help="New run folder or score table.")],
    against: Annotated[Path, typer.Option(help="Old run folder or score table.")],
    fail_on_unscored: Annotated[
        bool,
        typer.Option(
            "--fail-on-unscored", help="Also exit 1 if the share of unscored rows rose significantly."
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only what got worse.")] = False,
    json: Json = False,
) -> None:
    """Exit 1 if new scores are significantly worse; for CI.

    Example: dialeval check runs/new --against runs/released --source repetition
    """
    from dialeval.jobs.comparing import check_runs, describe, passes

    verdict = check_runs(new, against, **vars(options))
    passed = passes(verdict, fail_on_unscored=fail_on_unscored)
    if json:
        output.print_json({**verdict.to_dict(), "passed": passed})
    else:
        lines = describe(verdict)
        output.print_lines([line for line in lines if not (quiet and line.startswith("ok "))])
    if not passed:
        raise typer.Exit(1)
