"""All verbs of the command line."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dialeval.cli import acts, coverage, explanations, models, output, tables, training, tuning
from dialeval.cli.options import (
    Cache,
    Columns,
    Confidence,
    Format,
    Json,
    Level,
    Metrics,
    Overwrite,
    Resamples,
    Seed,
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
app.command()(acts.acts)
app.command()(tuning.tune)
app.command()(coverage.coverage)


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
        )
    for note, count in summary.input_notes.items():
        output.say(f"{output.counted(count, 'turn')}: {note}")
    if not summary.dialogues:
        output.say(f"{chats}: no dialogue in it")
    for source in summary.signatures if summary.dialogues else ():
        if not any(row["source"] == source and row["n"] for row in summary.rows()):
            output.say(f"{source} scored nothing: see the notes of its rows, or its fields")
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


def _read(chats: str, format: str | None, columns: str | None) -> Any:
    from dialeval.dialogues import formats
    from dialeval.jobs import runs

    if chats != "-" and runs.is_run(chats):
        return runs.Run(chats).dialogues()
    return formats.read(chats, format, formats.TurnColumns.parse(columns) if columns else None)


@app.command()
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
    source: Annotated[list[str] | None, typer.Option(help="Only these sources; repeat for more.")] = None,
    aggregate: Annotated[
        str, typer.Option(help="How turns become a dialogue: mean, min, max, last, median.")
    ] = "mean",
    consensus: Annotated[str, typer.Option(help="How several raters become one: mean or majority.")] = "mean",
    tie: Annotated[
        str, typer.Option(help="A vote without a majority: null, lowest, highest, first.")
    ] = "null",
    where: Annotated[str | None, typer.Option(help='Only units such as "bleu<1 and system=mybot".')] = None,
    by: Annotated[
        str | None, typer.Option(help="Also correlate inside each system, or with each dimension.")
    ] = None,
    combine: Annotated[
        list[str] | None,
        typer.Option(help="A new source: name=mean|zmean|fit:part+part[,folds=10|dialogue|system]"),
    ] = None,
    method: Annotated[
        str, typer.Option(help="Correlation that ranks and tests: pearson, spearman, kendall.")
    ] = "spearman",
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
        tables.show_study(found)


@app.command()
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


@app.command()
def benchmark(
    set: Annotated[str, typer.Argument(help="A public set with ratings (see: dialeval list sets).")],
    metric: Metrics = None,
    peers: Annotated[
        bool, typer.Option("--peers", help="Beside them, other metrics' published scores.")
    ] = False,
    level: Level = None,
    dimension: Annotated[str | None, typer.Option(help="Which ratings; by default the set's gold.")] = None,
    part: Annotated[
        str | None, typer.Option(help="train, dev or test of the split manifest, or all; by default test.")
    ] = None,
    where: Annotated[str | None, typer.Option(help='Only units such as "system=Meena".')] = None,
    combine: Annotated[
        list[str] | None, typer.Option(help="A new source: name=mean|zmean|fit:part+part")
    ] = None,
    method: Annotated[
        str, typer.Option(help="Correlation that ranks and tests: pearson, spearman, kendall.")
    ] = "spearman",
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

    Example: dialeval benchmark fed -m repetition --peers
    """
    from dialeval.jobs.benchmark import benchmark as run_benchmark

    with output.progress("dialogues scored") as watch:
        found = run_benchmark(
            set,
            metric or (),
            peers=peers,
            level=level,  # type: ignore[arg-type]
            dimension=dimension,
            part=part,
            out=out,
            overwrite=overwrite,
            watch=watch,
            where=where,
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
    for note in found.study.notes:
        output.say(note)
    for source, seen in found.seen.items():
        output.say(f"{source}, training and tuning data: {seen}")
    tables.say_signatures(found.study.signatures)


@app.command()
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


@app.command("list")
def list_(
    what: Annotated[str, typer.Argument(help="metrics, sets or formats.")] = "metrics",
    download: Annotated[str | None, typer.Option(help="Fetch this public set from its home.")] = None,
    json: Json = False,
) -> None:
    """List metrics, public sets or formats.

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
