"""`dialeval trust`, `plan`, `pairs` and `repeats`: estimates from labels, votes and repeated runs."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dialeval.cli import output
from dialeval.cli.options import Confidence, Json, LabelOptions, Map, Metrics, Seed, open_chats, split_names
from dialeval.cli.tables import print_report_tables
from dialeval.errors import UsageError

if TYPE_CHECKING:
    from dialeval.jobs.runs import StudyInput
    from dialeval.studies.planning import Plan
    from dialeval.studies.trust_findings import Trust


def trust(
    labels: LabelOptions,
    inputs: Annotated[list[Path], typer.Argument(help="Run folder, and tables of ratings or scores.")],
    raters: Annotated[
        Literal["crowd", "skilled", "expert"],
        typer.Option(help="Kind of raters, which sets ε to .1, .15 or .2."),
    ] = "expert",
    kind: Annotated[
        str | None, typer.Option(help="Meta field of the dialogues to test the judge for bias.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Earlier scores of the same dialogues, to test for drift.")
    ] = None,
    repeats: Annotated[
        str, typer.Option(help="Comma-separated sources that are runs of one judge: judge-1,judge-2")
    ] = "",
    stress: Annotated[
        bool,
        typer.Option("--stress", help="Score copies with only the form changed, with the metrics of -m."),
    ] = False,
    metric: Metrics = None,
    most: Annotated[int, typer.Option(min=2, help="Maximum number of dialogues for --stress.")] = 200,
    intervals: Annotated[
        Path | None, typer.Option(help="Write a predicted rating with its interval for each unlabelled unit.")
    ] = None,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Estimate how far each score can be trusted, from few labels.

    Prints the true mean, how many labels a judge saves, and whether it can replace a rater.

    Example: dialeval trust run/ ratings.csv --map judge.csv:id=chat,value=score
    """
    from dialeval.jobs.runs import TRUST
    from dialeval.jobs.trusting import trust_run
    from dialeval.statistics.alternative_annotator import EPSILONS

    if stress != bool(metric):
        raise UsageError("--stress and -m METRIC must be given together: -m scores the changed copies")
    with output.progress("dialogues scored", quiet=not stress) as watch:
        findings, run = trust_run(
            inputs,
            labels.map or (),
            kind=kind,
            against=against,
            repeats=split_names(repeats),
            stress=metric or (),
            most=most,
            intervals=intervals,
            watch=watch,
            epsilon=EPSILONS[raters],
            confidence=confidence,
            seed=seed,
            **labels.settings(),
        )
    if run is not None:
        output.say(f"written: {run.path / TRUST}")
    if json:
        output.print_json(findings.to_dict())
    else:
        show_trust(findings)


def show_trust(findings: "Trust") -> None:
    """Print the verdict of each source with its reasons, then the figures."""
    from dialeval.reports.trust_tables import trust_tables

    for source in findings.sources:
        output.print_lines([source.verdict, *(f"  {reason}" for reason in source.reasons), ""])
    print_report_tables(trust_tables(findings).values())
    output.say(*findings.notes)


def plan(
    labels: LabelOptions,
    inputs: Annotated[
        list[Path] | None, typer.Argument(help="Pilot: a run folder and tables of ratings.")
    ] = None,
    difference: Annotated[
        float, typer.Option(help="Difference of two systems to detect, in points of the rating.")
    ] = 0.2,
    power: Annotated[float, typer.Option(min=0.05, max=0.99, help="Power.")] = 0.8,
    alpha: Annotated[float, typer.Option(min=1e-4, max=0.5, help="Significance level.")] = 0.05,
    sd: Annotated[
        float | None, typer.Option(min=1e-9, help="Without a pilot: standard deviation of a label.")
    ] = None,
    correlation: Annotated[
        float | None,
        typer.Option(min=0, max=0.999, help="Without a pilot: correlation of the judge with labels."),
    ] = None,
    dialogues: Annotated[
        int | None, typer.Option(min=2, help="Without a pilot: scored dialogues per system.")
    ] = None,
    gate: Annotated[
        bool, typer.Option("--gate", help="Also estimate the false-positive rate of check on random halves.")
    ] = False,
    splits: Annotated[int, typer.Option(min=20, help="Number of random splits for --gate.")] = 200,
    label: Annotated[
        int | None, typer.Option(min=1, help="Number of dialogues to label next; needs -o.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder for an annotation project with them.")
    ] = None,
    scheme: Annotated[str, typer.Option(help="Annotation scheme: a name or a .toml file.")] = "dialogue",
    raters: Annotated[str, typer.Option(help="Comma-separated names of the raters.")] = "",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Plan how many labels are needed, and choose what to label.

    Example: dialeval plan run/ pilot.csv --label 100 -o study/ --raters ann,bob
    """
    from msgspec.structs import replace

    from dialeval.jobs.runs import study_input
    from dialeval.statistics.power import Precision
    from dialeval.studies import planning

    if (label is None) != (out is None):
        raise UsageError("--label N and -o FOLDER must be given together")
    table = study_input(inputs, labels.map or ()) if inputs else None
    if sd is not None:
        assumed, pilot = Precision(sd, scored=dialogues), 0
        precisions: dict[str | None, Precision] = {None: assumed}
        if correlation:
            precisions["a judge"] = dataclasses.replace(assumed, correlation=correlation)
    elif table is not None:
        precisions, pilot = planning.precisions_of(table.scores, **labels.settings())
    else:
        raise UsageError("give a run folder with some ratings, or --sd (and --correlation, --dialogues)")
    result = planning.plan(
        precisions, difference, power=power, alpha=alpha, pilot=pilot, unit=labels.level or "dialogue"
    )
    if (gate or out) and table is None:
        raise UsageError("--gate and --label need a run folder")
    if gate and table is not None:
        alarms = planning.false_alarms(table.scores, alpha=alpha, splits=splits, seed=seed)
        result = replace(result, false_alarms=alarms)
    if out is not None and table is not None:
        _create_project(table, label or 0, labels.source, out, scheme, raters, seed)
    if json:
        output.print_json(result.to_dict())
    else:
        _show_plan(result)


def _create_project(
    table: "StudyInput", n: int, source: list[str] | None, out: Path, scheme: str, raters: str, seed: int
) -> None:
    from dialeval.annotation import create
    from dialeval.annotation.scheme import parse_scheme, scheme_text
    from dialeval.studies.planning import choose

    if table.run is None:
        raise UsageError("--label needs a run folder")
    chosen = {key[:2] for key in choose(table.scores, n, source[0] if source else None, seed=seed)}
    chats = [dialogue for dialogue in table.run.dialogues() if (dialogue.id, dialogue.system) in chosen]
    text, name = scheme_text(scheme)
    create(out, parse_scheme(text, name), chats, split_names(raters), text=text, seed=seed).close()
    output.say(f"written: {out} ({output.counted(len(chats), 'dialogue')}); open it: dialeval annotate {out}")


def _show_plan(result: "Plan") -> None:
    output.print_lines(result.sentences)
    if result.false_alarms is not None:
        share, n = output.interval(result.false_alarms), result.false_alarms.n
        output.print_lines(
            [f"check at {result.alpha:g} has a false-positive rate of {share} on {n} random halves."]
        )
    sizes = sorted({n for need in result.needs for n in need.reach})
    rows = [
        (
            need.label or "labels alone",
            need.correlation if need.label else None,
            need.labels,
            *(f"± {need.reach[n]:.3f}" if n in need.reach else None for n in sizes),
        )
        for need in result.needs
    ]
    header = ("with", "r", "labels needed", *(f"{n} labels" for n in sizes))
    output.print_table("Labels of each system", header, rows, further=True)


def pairs(
    votes: Annotated[
        Path, typer.Argument(help="Votes: CSV or JSONL (Arena columns are recognised), or pairwise scores.")
    ],
    columns: Annotated[
        str | None, typer.Option(help="Column names: item=…,first=…,second=…,winner=…")
    ] = None,
    style: Annotated[
        bool, typer.Option("--style", help="Control for length and Markdown of the replies.")
    ] = False,
    position: Annotated[bool, typer.Option("--position", help="Control for the position.")] = False,
    chats: Annotated[
        list[str] | None, typer.Option(help="Dialogues of the systems for --style, if the votes lack them.")
    ] = None,
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap resamples over items.")] = 1_000,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Rank systems by pairwise votes (Bradley-Terry).

    Example: dialeval pairs votes.jsonl --style --position
    """
    from dialeval.jobs.pair_votes import rank_pairs

    ranking, notes = rank_pairs(
        votes,
        columns,
        chats=open_chats(chats) if chats else (),
        style=style,
        position=position,
        resamples=resamples,
        confidence=confidence,
        seed=seed,
    )
    if json:
        output.print_json({**dataclasses.asdict(ranking), "notes": notes})
        return
    rows = [
        (s.system, output.interval(s.strength), output.interval(s.win_rate), s.wins, s.ties, s.losses)
        for s in ranking.standings
    ]
    header = ("system", "strength", "win rate", "wins", "ties", "losses")
    output.print_table(f"{output.counted(ranking.n, 'vote')}", header, rows)
    effects = [(name, output.interval(estimate)) for name, estimate in ranking.covariates.items()]
    if effects:
        output.print_table("Covariates of a vote", ("covariate", "log odds"), effects, further=True)
    output.say(*notes)


def repeats(
    inputs: Annotated[list[Path], typer.Argument(help="Run folder or tables with the outcome of each run.")],
    k: Annotated[str, typer.Option("-k", help="Comma-separated numbers of runs.")] = "1",
    source: Annotated[
        str | None, typer.Option(help="Source of the outcome; required if there are several.")
    ] = None,
    dimension: Annotated[str | None, typer.Option(help="Dimension of the outcome.")] = None,
    passes: Annotated[
        float | None,
        typer.Option(help="Scores from this value on are successes; default: scores are 0 or 1."),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Meta field with the task; default: the id before its last #.")
    ] = None,
    map: Map = None,
    confidence: Confidence = 0.95,
    json: Json = False,
) -> None:
    """Estimate pass@k and pass^k from repeated runs of tasks.

    pass@k: at least one of k runs succeeds. pass^k: all of them do.

    Example: dialeval repeats run/ --source reward -k 1,2,4 --task task_id
    """
    from dialeval.jobs.trusting import repeated_runs

    ks = [int(number) for number in k.split(",") if number.strip().isdigit()]
    options = {"source": source, "dimension": dimension, "task": task}
    rates = repeated_runs(inputs, map or (), ks, passes=passes, confidence=confidence, **options)
    if json:
        output.print_json({name: [dataclasses.asdict(r) for r in by_k] for name, by_k in rates.items()})
        return
    rows = [
        (name, rate.k, output.interval(rate.any), output.interval(rate.all), rate.any.n, rate.too_few)
        for name, by_k in rates.items()
        for rate in by_k
    ]
    header = ("system", "k", "pass@k", "pass^k", "tasks", "left out")
    output.print_table("Repeated runs", header, rows)
