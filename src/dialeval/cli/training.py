"""`dialeval train`: from dialogues to a scorer of one's own."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dialeval.cli import output
from dialeval.cli.models import Storage
from dialeval.cli.options import Cache, Json, Threads
from dialeval.errors import UsageError


def _list(wanted: bool) -> None:
    if wanted:
        from dialeval.metrics.recipes import describe_recipe, recipe_names

        rows = [describe_recipe(name) for name in recipe_names()]
        output.print_table("Recipes", ["name", "what"], [list(row.values()) for row in rows])
        raise typer.Exit


def train(
    recipe: Annotated[
        str, typer.Argument(help="What to train, as name[:option=value,…] (see: dialeval train --list).")
    ],
    data: Annotated[
        list[str],
        typer.Argument(
            help="Dialogues: files in any known format, run folders, a folder of ActDial, set:NAME "
            "(the training part of a public set), set:NAME/dev or set:NAME/text."
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the artefact.")],
    dev: Annotated[
        list[str] | None,
        typer.Option(
            help="Dialogues to choose the best weights by; repeat for more. By default what the data set "
            "aside for that, else one dialogue in ten."
        ),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Folder, name or Hub id; by default the recipe's own.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting in place of the recipe's: field=value; repeat for more."),
    ] = None,
    share: Annotated[
        float,
        typer.Option(min=0.001, max=1.0, help="Learn from this share of the dialogues only, for a curve."),
    ] = 1.0,
    storage: Storage = "fp32",
    device: Annotated[
        str | None, typer.Option(help="A device that torch knows; by default a GPU if there is one.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin afresh; else the same command goes on after a stop.")
    ] = False,
    licence: Annotated[
        str | None, typer.Option(help="Licence of the artefact, for its card, such as cc-by-4.0.")
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(help="Keep out what shares text with this too, given as the data are; repeat for more."),
    ] = None,
    threads: Threads = None,
    cache: Cache = None,
    json: Json = False,
    _: Annotated[
        bool, typer.Option("--list", callback=_list, is_eager=True, help="List the recipes.")
    ] = False,
) -> None:
    """Train a model by a recipe; the same command again resumes. Needs the extra [train].

    Example: dialeval train segment-act actdial/ --encoder roberta-large -o acts
    """
    from dialeval.jobs.training import train_to

    with _stages() as watch:
        made = train_to(
            recipe,
            data,
            out,
            dev=dev or (),
            encoder=encoder,
            settings=_pairs(settings or ()),
            share=share,
            storage=storage,
            device=device,
            fresh=fresh,
            licence=licence,
            without=without or (),
            watch=watch,
        )
    if json:
        output.print_json(made)
    else:
        _show(made)


def _pairs(given: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for text, (key, equals, _) in zip(given, pairs, strict=True):
        if not (key and equals):
            raise UsageError(f"--set {text}: expected field=value")
    return {key: value for key, _, value in pairs}


@contextlib.contextmanager
def _stages() -> Iterator[Callable[[str, int], None]]:
    """Show one counter after the other; none while the training loop draws its bar."""
    with contextlib.ExitStack() as stack:
        stage, count = "", None

        def watch(now: str, number: int) -> None:
            nonlocal stage, count
            if now != stage:
                stack.close()
                stage, count = now, stack.enter_context(output.progress(now)) if now else None
            if count:
                count(number)

        yield watch


def _show(made: dict[str, Any]) -> None:
    if made["in_dev_too"]:
        told = output.counted(made["in_dev_too"], "dialogue")
        output.say(f"{told} not learned from: the text is among what is chosen by")
    guarded = f"test data here ({', '.join(made['guarded']) or 'none'})"
    told = output.counted(made["dropped"], "dialogue")
    output.say(
        f"{told} left out: the text is in {guarded}" if made["dropped"] else f"nothing is in {guarded}"
    )
    if made["not_here"]:
        output.say(f"test data not here, so not looked for: {', '.join(made['not_here'])}")
    if made["resumed_at"] is not None:
        output.say(f"resumed after step {made['resumed_at']}")
    header = ("recipe", "examples", "dev examples", "dropped", made["figure"], "steps", "folder", "sha")
    cells = ("recipe", "examples", "dev_examples", "dropped", "dev", "steps", "folder")
    output.print_table("Trained", header, [[*(made[cell] for cell in cells), made["sha"][:12]]])
    output.say(f"checkpoints: {made['folder'].rstrip('/')}.training; delete them when you are content")
