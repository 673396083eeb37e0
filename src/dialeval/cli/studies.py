"""The verbs that hold scores against what people said: study, report, benchmark, check."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from dialeval.cli import output, tables, task_tables
from dialeval.cli.options import (
    Cache,
    Confidence,
    Json,
    Level,
    Metrics,
    Overwrite,
    Resamples,
    Seed,
    Threads,
)

Against = Annotated[
    str | None, typer.Option(help="Also print how far each source is above this one, with an interval.")
]
By = Annotated[str | None, typer.Option(help="Also correlate inside each system, or with each dimension.")]
Source = Annotated[list[str] | None, typer.Option(help="Only these sources; repeat for more.")]
Classes = Annotated[
    bool,
    typer.Option(
        "--classes", help="Also print how each class of the ratings scores, AUC, and where to draw the line."
    ),
]


def study(
    inputs: Annotated[list[Path], typer.Argument(help="Run folders and tables of scores or ratings.")],
    map: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help="A foreign score column: FILE:id=COLUMN,value=COLUMN[,turn=,source=,rater=,dimension=]",
        ),
    ] = None,
    gold: Annotated[
        str, typer.Option(help="What to compare with: human, or the name of a source.")
    ] = "human",
    level: Level = None,
    dimension: Annotated[str | None, typer.Option(help="Which gold dimension.")] = None,
    source: Source = None,
    aggregate: Annotated[
        str, typer.Option(help="How turns become a dialogue: mean, min, max, last, median.")
    ] = "mean",
    consensus: Annotated[str, typer.Option(help="How several raters become one: mean or majority.")] = "mean",
    tie: Annotated[
        str, typer.Option(help="A vote without a majority: null, lowest, highest, first.")
    ] = "null",
    where: Annotated[str | None, typer.Option(help='Only units such as "bleu<1 and system=mybot".')] = None,
    by: By = None,
    classes: Classes = False,
    combine: Annotated[
        list[str] | None,
        typer.Option(help="A new source: name=mean|zmean|fit|line:part+part[,folds=10|dialogue|system]"),
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="How contexts came about, for the record: static or dynamic.")
    ] = None,
    method: Annotated[
        str, typer.Option(help="Correlation that ranks and tests: pearson, spearman, kendall.")
    ] = "spearman",
    against: Against = None,
    resamples: Resamples = 10_000,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Leave out what was joined to the run earlier.")
    ] = False,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write the study as JSON here too.")] = None,
    json: Json = False,
) -> None:
    """Compare scores with ratings: correlations with intervals, tests, agreement, systems.

    Example: dialeval study run/ ratings.csv --map judge.csv:id=conversation,value=score,source=gpt-4
    """
    from dialeval.jobs import runs
    from dialeval.scores import Scores
    from dialeval.studies import study as make_study

    run = next((runs.Run(path) for path in inputs if path.is_dir()), None)
    rest = [path for path in inputs if run is None or path != run.path]
    joined = runs.load_scores(rest, map or ())
    if run is not None and not fresh:
        given, joined = joined.sources, run.joined_with(joined)
        if earlier := [name for name in joined.sources if name not in given]:
            output.say(
                f"also used, joined to {run.path} earlier (--fresh leaves it out): {', '.join(earlier)}"
            )
    scores = Scores.concat([run.own_scores(), joined]) if run is not None else joined
    found = make_study(
        scores,
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
        resamples=resamples,
        permutations=resamples,
        confidence=confidence,
        seed=seed,
        workers=2,
    )
    if out:
        found.save(out)
    if run is not None:
        run.add(found, joined)
        output.say(f"written: {run.path / runs.STUDY}")
    if json:
        print(found.to_json(), end="")
    else:
        tables.show_study(found, against, classes=classes)


def report(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--out",
            help="report.html, tables.md or tables.tex; repeat for more. Default: RUN/report.html",
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the report.")] = None,
) -> None:
    """Write a report of a run: one HTML file without script, or its tables as Markdown or LaTeX.

    Example: dialeval report run/ -o report.html -o tables.tex
    """
    from dialeval.errors import UsageError
    from dialeval.jobs import runs
    from dialeval.reports import ENDINGS, write_report
    from dialeval.studies import study as make_study

    wrong = [path for path in out or () if path.suffix.lower() not in ENDINGS]
    if wrong:
        raise UsageError(f"cannot write a report to {wrong[0]}: the name must end in {', '.join(ENDINGS)}")
    folder = runs.Run(run)
    scores = folder.scores()
    found = folder.study() or make_study(scores)
    for path in out or [run / runs.REPORT]:
        shown = title or f"dialeval report: {folder.info().get('input') or run.name}"
        with folder.showing_study():
            write_report(
                found,
                scores,
                folder.dialogues(),
                path,
                title=shown,
                illustrative=found.illustrative,
                explanations=folder.explanations(),
            )
        output.say(f"written: {path}")


def benchmark(
    set: Annotated[
        str, typer.Argument(help="A public set with ratings (see: dialeval list sets), or multiwoz.")
    ],
    metric: Metrics = None,
    peers: Annotated[
        bool, typer.Option("--peers", help="Beside them, other metrics' published scores.")
    ] = False,
    turn_ratings: Annotated[
        bool,
        typer.Option(
            "--turn-ratings", help="Beside them, people's ratings of the turns, against those of dialogues."
        ),
    ] = False,
    level: Level = None,
    dimension: Annotated[str | None, typer.Option(help="Which ratings; by default the set's gold.")] = None,
    part: Annotated[
        str | None, typer.Option(help="train, dev or test of the split manifest, or all; by default test.")
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
    method: Annotated[
        str, typer.Option(help="Correlation that ranks and tests: pearson, spearman, kendall.")
    ] = "spearman",
    against: Against = None,
    resamples: Resamples = 10_000,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write a run folder with report.")] = None,
    overwrite: Overwrite = False,
    threads: Threads = None,
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Measure metrics on a public set against human ratings, beside peers and published figures.

    With multiwoz: Inform, Success, BLEU and Combined of ten systems, and of yours (--predictions FILE).

    Example: dialeval benchmark fed -m repetition --peers
    """
    from dialeval.errors import UsageError
    from dialeval.jobs.benchmark import benchmark as run_benchmark

    if set == "multiwoz":
        if peers or level or dimension or part or where or combine or against or out:
            raise UsageError(
                "benchmark multiwoz takes -m multiwoz:…, --predictions and --json: nobody rated it"
            )
        return task_tables.show(metric or (), predictions or (), json)
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
            resamples=resamples,
            permutations=resamples,
            confidence=confidence,
            seed=seed,
            workers=2,
        )
    if out:
        report(out, None, f"{set}: metrics against human ratings")
    if json:
        study = found.study.to_dict()
        output.print_json({"study": study, "published": found.published, "seen": found.seen})
        return
    tables.show_correlations(found.study, found.published)
    if against:
        tables.show_against(found.study, against)
    if classes:
        tables.show_classes(found.study)
    tables.show_subsets(found.study)
    for note in found.study.notes:
        output.say(note)
    for name, seen in found.seen.items():
        output.say(f"{name}, training and tuning data: {seen}")
    tables.say_signatures(found.study.signatures)


def check(
    new: Annotated[Path, typer.Argument(help="The new run folder or table of scores.")],
    against: Annotated[Path, typer.Option(help="The old one.")],
    source: Annotated[
        str | None, typer.Option(help="Only this source (raters together are 'human').")
    ] = None,
    dimension: Annotated[str | None, typer.Option(help="Only this dimension.")] = None,
    level: Annotated[Literal["turn", "dialogue"], typer.Option(help="What is compared.")] = "dialogue",
    alpha: Annotated[
        float, typer.Option(min=1e-6, max=0.5, help="Significance level, Holm-corrected.")
    ] = 0.05,
    resamples: Resamples = 10_000,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Exit 1 if the new scores are significantly worse than the old ones; for CI.

    Example: dialeval check runs/new --against runs/released --source repetition
    """
    from dialeval.jobs.gate import check_runs, describe

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
    if json:
        import dataclasses

        output.print_json({"passed": verdict.passed, **dataclasses.asdict(verdict)})
    else:
        print("\n".join(describe(verdict)))
    if not verdict.passed:
        raise typer.Exit(1)
