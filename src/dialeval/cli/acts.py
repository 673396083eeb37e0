"""`dialeval acts`: what the segments of dialogues do, how often, and how far people agree on it."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dialeval.cli import output
from dialeval.cli.options import Cache, Columns, Json, Threads

if TYPE_CHECKING:
    from dialeval.dialogues.act_votes import Agreement
    from dialeval.jobs.acts import ActReport
    from dialeval.statistics import Estimate


def acts(
    chats: Annotated[
        str,
        typer.Argument(help="Dialogues in any known format, ActDial segments, or the name of a public set."),
    ],
    out: Annotated[
        str | None,
        typer.Option(
            "-o", "--out", help="A .json file of ActDial segments, or .jsonl, .parquet, .csv; - prints JSONL."
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option("--format", help="Read as this format: actdial, or see dialeval list formats."),
    ] = None,
    columns: Columns = None,
    part: Annotated[str, typer.Option(help="Part of a public set.")] = "all",
    splitter: Annotated[
        Literal["punkt", "punkt+comma"], typer.Option(help="How turns are cut that come without segments.")
    ] = "punkt+comma",
    model: Annotated[
        str | None, typer.Option(help="Classifier of segments; by default the shipped one.")
    ] = None,
    expert: Annotated[
        Path | None, typer.Option(help="Segments with an expert's acts, to measure accuracy.")
    ] = None,
    threads: Threads = None,
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Label segments with what they do, and count: acts, agreement of raters, accuracy.

    Example: dialeval acts chats.jsonl -o chats-with-acts.jsonl
    """
    from dialeval.jobs.acts import annotate_acts

    with output.progress("dialogues read") as watch:
        found = annotate_acts(
            chats,
            out,
            format=format,
            columns=columns,
            part=part,
            splitter=splitter,
            model=model,
            expert=expert,
            watch=watch,
        )
    for note in found.notes:
        output.say(note)
    if out == "-":
        return
    if json:
        output.print_json({"input": chats, **found.to_dict()})
    else:
        _show(found)
    if out:
        output.say(f"written: {out}")


def _show(found: "ActReport") -> None:
    whole = found.whole
    output.print_table(
        "Segment acts",
        ("dimension", "act", "n", "share"),
        [(row["dimension"], row["act"], row["n"], _percent(row["share"])) for row in whole.by_act()],
    )
    output.print_table(
        "Dimensions",
        ("dimension", "n", "share"),
        [(row["dimension"], row["n"], _percent(row["share"])) for row in whole.by_dimension()],
        further=True,
    )
    parts = dict(found.parts) if len(found.parts) == 1 else {**found.parts, "together": whole}
    header = ("part", "dialogues", "turns", "segments", "segments per turn", "unlabelled", "uncut turns")
    output.print_table(
        "Corpus", header, [(name, *one.size().values()) for name, one in parts.items()], further=True
    )
    if found.agreement is not None:
        _show_votes(found.agreement, found.undecided)
    if found.expert:
        rows = [(who, _cell(one), one.n) for who, one in found.expert.items()]
        output.print_table("Accuracy by the expert's sample", ("who", "accuracy", "n"), rows, further=True)
    if found.model:
        output.say(f"{output.counted(found.by_model, 'segment')} labelled by {found.model}")


def _show_votes(votes: "Agreement", undecided: list[str]) -> None:
    count = len(undecided)
    kappas = _cell(votes.kappa), _cell(votes.kappa_without_dominant)
    output.print_table(
        "Votes",
        ("segments", "decided", "another round", "kappa", f"kappa without {votes.dominant}"),
        [(votes.segments, votes.segments - count, count, *kappas)],
        further=True,
    )
    if undecided:
        output.say(f"another round: {', '.join(undecided[:5])}{', …' if count > 5 else ''}")


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.3f} %"


def _cell(estimate: "Estimate") -> str:
    return output.interval(asdict(estimate))
