"""Options that several verbs share."""

from typing import Annotated

import typer

Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "-m",
        "--metric",
        help="A metric as [alias=]name[:field=value,…]; repeat for more.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing run folder.")]
Level = Annotated[
    str | None, typer.Option(help="turn, dialogue or system; by default where the ratings are.")
]
Seed = Annotated[int, typer.Option(help="Seed of all resampling.")]
Resamples = Annotated[int, typer.Option(min=100, help="Draws of every bootstrap and permutation test.")]
Confidence = Annotated[float, typer.Option(min=0.5, max=0.999, help="Confidence of the intervals.")]
