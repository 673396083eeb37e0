"""`dialeval export`: scores go to the tools that people watch."""

from pathlib import Path
from typing import Annotated

import typer

from dialeval.cli import output


def export(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    to: Annotated[str, typer.Option(help="mlflow, wandb, langfuse, otel or hub.")],
    name: Annotated[
        str | None,
        typer.Option(help="Experiment, project, service, or repository on the Hub (organisation/name)."),
    ] = None,
) -> None:
    """Send the scores of a run to another tool; the text of dialogues stays here.

    Example: dialeval export run/ --to mlflow --name my-bot
    """
    from dialeval.jobs.exporting import export as send

    output.print_lines([send(run, to, name)])
