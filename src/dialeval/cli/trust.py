"""`dialeval trust`, `plan`, `pairs` and `repeats`: estimates from labels, votes and repeated runs."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dialeval.cli import output
from dialeval.cli.options import Confidence, Json, Map, Metrics, Seed, open_chats, split_names
from dialeval.cli.tables import print_report_tables

if TYPE_CHECKING:
    from dialeval.jobs.runs import StudyInput
    from dialeval.studies.planning import Plan
    from dialeval.studies.trust_findings import Trust

Gold = Annotated[str, typer.Option(help="Ground truth: human, or the name of a source (an outcome).")]
UnitLevel = Annotated[
    Literal["turn", "dialogue"] | None, typer.Option(help="Unit; default: that of the ratings.")
]
Dimension = Annotated[str | None, typer.Option(help="Dimension of the ratings.")]


def trust(
    inputs: Annotated[list[Path], typer.Argument(help="Run folder, and tables of ratings or scores.")],
    map: Map = None,
    gold: Gold = "human",
    level: UnitLevel = None,
    dimension: Dimension = None,
    source: Annotated[list[str] | None, typer.Option(help="Only these sources; repeat for more.")] = None,
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
    from dialeval.errors import UsageError
    from dialeval.jobs.runs import TRUST
    from dialeval.jobs.trusting import trust_run
    from dialeval.statistics.alternative_annotator import EPSILONS

    if stress != bool(metric):
        raise UsageError("--stress and -m METRIC must be given together: -m scores the changed copies")
    with output.progress("dialogues scored", quiet=not stress) as watch:
        found, run = trust_run(
            inputs,
            map or (),
            kind=kind,
            against=against,
            repeats=split_names(repeats),
            stress=metric or (),
            most=most,
            intervals=intervals,
            watch=watch,
            gold=gold,
            level=level,
            dimension=dimension,
            sources=tuple(source or ()),
            epsilon=EPSILONS[raters],
            confidence=confidence,
            seed=seed,
        )
    if run is not None:
        output.say(f"written: {run.path / TRUST}")
    if json:
        output.print_json(found.to_dict())
    else:
        show_trust(found)


def show_trust(found: "Trust") -> None:
    """Print the verdict of each source with its reasons, then the figures."""
    from dialeval.reports.trust_tables import trust_tables

    for one in found.sources:
        output.print_lines([one.verdict, *(f"  {reason}" for reason in one.reasons), ""])
    print_report_tables(trust_tables(found).values())
    output.say(*found.notes)


def plan(
    inputs: Annotated[
        list[Path] | None, typer.Argument(help="Pilot: a run folder and tables of ratings.")
    ] = None,
    difference: Annotated[
        float, typer.Option(help="Difference of two systems to detect, in points of the rating.")
    ] = 0.2,
    power: Annotated[float, typer.Option(min=0.05, max=0.99, help="Power.")] = 0.8,
    alpha: Annotated[float, typer.Option(min=1e-4, max=0.5, help="Significance level.")] = 0.05,
    map: Map = None,
    gold: Gold = "human",
    level: UnitLevel = None,
    dimension: Dimension = None,
    source: Annotated[list[str] | None, typer.Option(help="Only these judges; repeat for more.")] = None,
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

    from dialeval.errors import UsageError
    from dialeval.jobs.runs import study_input
    from dialeval.statistics.power import Precision
    from dialeval.studies import planning

    if (label is None) != (out is None):
        raise UsageError("--label N and -o FOLDER must be given together")
    given = study_input(inputs, map or ()) if inputs else None
    if sd is not None:
        plain = Precision(sd, scored=dialogues)
        precisions: dict[str | None, Precision] = {None: plain}
        if correlation:
            precisions["a judge"] = dataclasses.replace(plain, correlation=correlation)
        pilot = 0
    elif given is not None:
        precisions, pilot = planning.precisions_of(
            given.scores, gold, level, dimension=dimension, sources=tuple(source or ())
        )
    else:
        raise UsageError("give a run folder with some ratings, or --sd (and --correlation, --dialogues)")
    found = planning.plan(
        precisions, difference, power=power, alpha=alpha, pilot=pilot, unit=level or "dialogue"
    )
    if gate or out:
        if given is None:
            raise UsageError("--gate and --label need a run folder")
        if gate:
            alarms = planning.false_alarms(given.scores, alpha=alpha, splits=splits, seed=seed)
            found = replace(found, false_alarms=alarms)
    if out is not None and given is not None:
        _make_project(given, label or 0, source, out, scheme, raters, seed)
    if json:
        output.print_json(found.to_dict())
    else:
        _show_plan(found)


def _make_project(
    given: "StudyInput", n: int, source: list[str] | None, out: Path, scheme: str, raters: str, seed: int
) -> None:
    from dialeval.annotation import create
    from dialeval.annotation.scheme import parse_scheme, scheme_text
    from dialeval.errors import UsageError
    from dialeval.studies.planning import choose

    if given.run is None:
        raise UsageError("--label needs a run folder")
    chosen = {key[:2] for key in choose(given.scores, n, source[0] if source else None, seed=seed)}
    chats = [one for one in given.run.dialogues() if (one.id, one.system) in chosen]
    text, name = scheme_text(scheme)
    create(out, parse_scheme(text, name), chats, split_names(raters), text=text, seed=seed).close()
    output.say(f"written: {out} ({output.counted(len(chats), 'dialogue')}); open it: dialeval annotate {out}")


def _show_plan(found: "Plan") -> None:
    output.print_lines(found.sentences)
    if found.false_alarms is not None:
        share, n = output.interval(found.false_alarms), found.false_alarms.n
        output.print_lines(
            [f"check at {found.alpha:g} has a false-positive rate of {share} on {n} random halves."]
        )
    sizes = sorted({n for need in found.needs for n in need.reach})
    rows = [
        (
            need.label or "labels alone",
            need.correlation if need.label else None,
            need.labels,
            *(f"± {need.reach[n]:.3f}" if n in need.reach else None for n in sizes),
        )
        for need in found.needs
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

    found, notes = rank_pairs(
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
        output.print_json({**dataclasses.asdict(found), "notes": notes})
        return
    rows = [
        (
            one.system,
            output.interval(one.strength),
            output.interval(one.win_rate),
            one.wins,
            one.ties,
            one.losses,
        )
        for one in found.standings
    ]
    header = ("system", "strength", "win rate", "wins", "ties", "losses")
    output.print_table(f"{output.counted(found.n, 'vote')}", header, rows)
    effects = [(name, output.interval(one)) for name, one in found.covariates.items()]
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

    ks = [int(one) for one in k.split(",") if one.strip().isdigit()]
    found = repeated_runs(
        inputs,
        map or (),
        ks,
        source=source,
        dimension=dimension,
        passes=passes,
        task=task,
        confidence=confidence,
    )
    if json:
        output.print_json({name: [dataclasses.asdict(one) for one in rates] for name, rates in found.items()})
        return
    rows = [
        (name, one.k, output.interval(one.any), output.interval(one.all), one.any.n, one.too_few)
        for name, rates in found.items()
        for one in rates
    ]
    header = ("system", "k", "pass@k", "pass^k", "tasks", "left out")
    output.print_table("Repeated runs", header, rows)
