"""`dialeval study`, `report`, `benchmark`, `compare` and `check`: scores against human ratings."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from dialeval.cli import output, tables
from dialeval.cli.options import (
    Cache,
    Drawing,
    Json,
    Level,
    Map,
    Method,
    Metrics,
    Overwrite,
    Resamples,
    Running,
    Seed,
    Threads,
)

Against = Annotated[
    str | None, typer.Option(help="Also print the difference of each source to this one, with an interval.")
]
By = Annotated[str | None, typer.Option(help="Also correlate within each system, or with each dimension.")]
Source = Annotated[list[str] | None, typer.Option(help="Only these sources; repeat for more.")]
Classes = Annotated[
    bool,
    typer.Option("--classes", help="Also print scores per class of the ratings, AUC and the best threshold."),
]


def study(
    drawing: Drawing,
    inputs: Annotated[list[Path], typer.Argument(help="Run folders and tables of scores or ratings.")],
    map: Map = None,
    gold: Annotated[str, typer.Option(help="Ground truth: human, or the name of a source.")] = "human",
    level: Level = None,
    dimension: Annotated[str | None, typer.Option(help="Dimension of the ratings.")] = None,
    source: Source = None,
    aggregate: Annotated[
        str, typer.Option(help="Aggregation of turns to dialogues: mean, min, max, last, median.")
    ] = "mean",
    consensus: Annotated[str, typer.Option(help="Aggregation of raters: mean or majority.")] = "mean",
    tie: Annotated[
        str, typer.Option(help="Value of a vote without a majority: null, lowest, highest, first.")
    ] = "null",
    where: Annotated[str | None, typer.Option(help='Only units such as "bleu<1 and system=mybot".')] = None,
    by: By = None,
    classes: Classes = False,
    combine: Annotated[
        list[str] | None,
        typer.Option(help="A new source: name=mean|zmean|fit|line:part+part[,folds=10|dialogue|system]"),
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="Kind of contexts, for the record: static or dynamic.")
    ] = None,
    method: Method = "spearman",
    against: Against = None,
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
    from dialeval.studies import study as make_study

    given = runs.study_input(inputs, map or (), fresh=fresh)
    run = given.run
    if run is not None and given.earlier:
        names = ", ".join(given.earlier)
        output.say(f"also used, joined to {run.path} earlier (--fresh leaves it out): {names}")
    found = make_study(
        given.scores,
        gold,
        level,  # type: ignore[arg-type]  # checked by the study, with a message of its own
        dimension=dimension,
        sources=tuple(source or ()),
        aggregate=aggregate,
        consensus=consensus,
        tie=tie,
        where=where,
        by=by,
        combine=tuple(combine or ()),
        context=context,
        method=method,
        **drawing.study_settings(),
        replies=run.replies(given.runs) if run and any("=line:" in one for one in combine or ()) else None,
    )
    found = replace(found, runs=given.runs)
    if run is not None:
        found = run.add(found, given.joined)
        output.say(f"written: {run.path / runs.STUDY}")
    if out:
        found.save(out)  # last: it may be the same file
    if json:
        output.print_json_text(found.to_json())
    else:
        tables.show_study(found, against, classes=classes)


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
    drawing: Drawing,
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
    level: Level = None,
    dimension: Annotated[
        str | None, typer.Option(help="Dimension of the ratings; default: the gold of the set.")
    ] = None,
    part: Annotated[
        str | None, typer.Option(help="train, dev or test of the split manifest, or all; default: test.")
    ] = None,
    source: Source = None,
    predictions: Annotated[
        list[str] | None,
        typer.Option(help="With multiwoz: a system's replies, [name=]FILE; repeat for more."),
    ] = None,
    where: Annotated[str | None, typer.Option(help='Only units such as "system=Meena".')] = None,
    by: By = None,
    classes: Classes = False,
    combine: Annotated[
        list[str] | None, typer.Option(help="A new source: name=mean|zmean|fit|line:part+part")
    ] = None,
    method: Method = "spearman",
    against: Against = None,
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
        if peers or level or dimension or part or where or combine or against or out:
            raise UsageError(
                "benchmark multiwoz takes -m multiwoz:…, --predictions and --json: nobody rated it"
            )
        return tables.show_task_table(metric or (), predictions or (), json)
    if predictions:
        raise UsageError("--predictions goes with multiwoz")
    with output.progress("dialogues scored") as watch:
        found = run_benchmark(
            set,
            metric or (),
            peers=peers,
            turn_ratings=turn_ratings,
            level=level,  # type: ignore[arg-type]
            dimension=dimension,
            part=part,
            out=out,
            overwrite=overwrite,
            watch=watch,
            say=output.say,
            sources=tuple(source or ()),
            where=where,
            by=by,
            combine=tuple(combine or ()),
            method=method,
            **drawing.study_settings(),
        )
    if out:
        report(out, None, f"{set}: metrics against human ratings")
    if json:
        study = found.study.to_dict()
        told = [[*one, *map(asdict, both)] for *one, both in found.agreement()]
        more = {"published": found.published, "seen": found.seen, "agreement": told}
        output.print_json({"study": study, **more})
        return
    tables.show_correlations(found.study, found.published)
    if agreement := found.agreement():
        rows = [(*one, both[0].n, *map(output.interval, both)) for *one, both in agreement]
        output.print_table(
            "With the authors' scores", ("metric", "authors' scores", "n", "Pearson", "Spearman"), rows
        )
    if against:
        tables.show_against(found.study, against)
    if classes:
        tables.show_classes(found.study)
    tables.show_subsets(found.study)
    output.say(*found.study.notes)
    for name, seen in found.seen.items():
        output.say(f"{name}, training and tuning data: {seen}")
    tables.say_signatures(found.study.signatures)


def compare(
    versions: Annotated[
        list[str],
        typer.Argument(
            help="Dialogues, run folders or scores as [name=]FILE, the old one first. One file: its systems."
        ),
    ],
    metric: Metrics = None,
    source: Annotated[str | None, typer.Option(help="Compare only this source.")] = None,
    dimension: Annotated[str | None, typer.Option(help="Compare only this dimension.")] = None,
    level: Annotated[Literal["turn", "dialogue"], typer.Option(help="Unit of comparison.")] = "dialogue",
    alpha: Annotated[
        float, typer.Option(min=1e-6, max=0.5, help="Significance level, Holm-corrected.")
    ] = 0.05,
    resamples: Resamples = 10_000,
    seed: Seed = 0,
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
    from dialeval.jobs.comparing import compare as compare_versions
    from dialeval.jobs.comparing import is_table
    from dialeval.jobs.scoring import count_dialogues
    from dialeval.reports import write_comparison
    from dialeval.reports.comparison_page import refuse_endings

    refuse_endings(out or ())
    given = [("", "", one) if Path(one).exists() else one.rpartition("=") for one in versions]
    places = [place for _, _, place in given]
    known = output.is_watched() and not any(map(is_table, places))
    with output.progress("dialogues scored", count_dialogues(places) if known else None) as watch:
        found = compare_versions(
            *places,
            names=[name for name, _, _ in given],
            metrics=tuple(metric or ()),
            source=source,
            dimension=dimension,
            level=level,
            alpha=alpha,
            resamples=resamples,
            seed=seed,
            watch=watch,
        )
    for path in out or ():
        write_comparison(found, path)
        output.say(f"written: {path}")
    if json:
        output.print_json(found.to_dict())
    else:
        tables.show_comparison(found)


def check(
    new: Annotated[Path, typer.Argument(help="New run folder or score table.")],
    against: Annotated[Path, typer.Option(help="Old run folder or score table.")],
    source: Annotated[
        str | None, typer.Option(help="Only this source (raters together are 'human').")
    ] = None,
    dimension: Annotated[str | None, typer.Option(help="Only this dimension.")] = None,
    level: Annotated[Literal["turn", "dialogue"], typer.Option(help="Unit of comparison.")] = "dialogue",
    alpha: Annotated[
        float, typer.Option(min=1e-6, max=0.5, help="Significance level, Holm-corrected.")
    ] = 0.05,
    fail_on_unscored: Annotated[
        bool,
        typer.Option(
            "--fail-on-unscored", help="Also exit 1 if the share of unscored rows rose significantly."
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only what got worse.")] = False,
    resamples: Resamples = 10_000,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Exit 1 if new scores are significantly worse; for CI.

    Example: dialeval check runs/new --against runs/released --source repetition
    """
    from dialeval.jobs.gate import check_runs, describe, passes

    verdict = check_runs(
        new,
        against,
        source=source,
        dimension=dimension,
        level=level,
        alpha=alpha,
        resamples=resamples,
        seed=seed,
    )
    passed = passes(verdict, fail_on_unscored=fail_on_unscored)
    if json:
        output.print_json({**verdict.to_dict(), "passed": passed})
    else:
        lines = describe(verdict)
        output.print_lines([one for one in lines if not (quiet and one.startswith("ok "))])
    if not passed:
        raise typer.Exit(1)
