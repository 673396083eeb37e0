"""`dialeval blend`: weigh the parts of `quality` by what people said."""

from pathlib import Path
from typing import Annotated

import typer

from dialeval.cli import output
from dialeval.cli.options import Cache, Json, Threads


def blend(
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the weights.")],
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            help="Public sets by name, and run folders whose study has ratings; by default those that the "
            "shipped weights come from."
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            help="Leave this set out, with all that share its text, to measure on it; repeat for more."
        ),
    ] = None,
    turn_quality: Annotated[
        str | None, typer.Option(help="Model for this part, in place of the shipped one.")
    ] = None,
    coherence: Annotated[
        str | None, typer.Option(help="Model for this part, in place of the shipped one.")
    ] = None,
    reactions: Annotated[
        str | None, typer.Option(help="Model for mood and tone, in place of the shipped one.")
    ] = None,
    followup: Annotated[
        str | None, typer.Option(help="Model for this part, in place of the shipped one.")
    ] = None,
    licence: Annotated[str | None, typer.Option(help="Of the weights, for their card.")] = None,
    threads: Threads = None,
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Weigh the parts of the metric quality by ratings of public sets, or of your own dialogues.

    Example: dialeval blend conture fed my-run/ -o my-quality/
    """
    from dialeval.jobs.blending import blend_to
    from dialeval.metrics.quality_parts import PartReader

    shipped = PartReader()
    reader = PartReader(
        turn_quality or shipped.turn_quality,
        coherence or shipped.coherence,
        reactions or shipped.reactions,
        followup or shipped.followup,
    )
    with output.progress("dialogues read") as watch:
        found = blend_to(
            sources or (), out, without=without or (), reader=reader, licence=licence, watch=watch
        )
    if json:
        output.print_json(found)
        return
    rows = [
        (level, term["part"], term["mean"], term["scale"], term["weight"])
        for level, terms in found["levels"].items()
        for term in terms
    ]
    output.print_table("Weights", ("level", "part", "mean", "scale", "weight"), rows)
    for level, counts in found["rated"].items():
        told = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
        output.say(f"{level}s rated: {told or 'none, so the shipped weights stay'}")
    output.say(f"quality:blend={out} uses them; sha {found['sha'][:12]}")
