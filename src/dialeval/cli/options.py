"""Options that several verbs share."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

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
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the folder that is there.")]
Level = Annotated[
    str | None, typer.Option(help="turn, dialogue or system; by default where the ratings are.")
]
Format = Annotated[
    str | None, typer.Option("--format", help="Read as this format (see: dialeval list formats).")
]
Columns = Annotated[
    str | None, typer.Option(help="Columns of a turn table: id=…,speaker=…,text=…,turn=…,system=…")
]
Seed = Annotated[int, typer.Option(help="Seed of all resampling.")]
Resamples = Annotated[int, typer.Option(min=100, help="Draws of every bootstrap and permutation test.")]
Confidence = Annotated[float, typer.Option(min=0.5, max=0.999, help="Confidence of the intervals.")]


def _keep(name: str) -> Callable[[Any], Any]:
    """Hand a choice about how to run, not what to compute, to the room that runs models."""

    def keep(value: Any) -> Any:
        if value is not None:
            os.environ[name] = str(value)
        return value

    return keep


Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Cores for models; by default all.", callback=_keep("DIALEVAL_THREADS")),
]
Cache = Annotated[
    Path | None,
    typer.Option(help="Keep vectors of texts in this folder.", callback=_keep("DIALEVAL_CACHE")),
]
