"""Options that several verbs share."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dialeval.dialogues import Dialogue

Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "-m",
        "--metric",
        help="A metric as [alias=]name[:field=value,…]; repeat for more.",
        show_default=False,
    ),
]
Chats = Annotated[
    list[str],
    typer.Argument(
        help="Dialogues: files in any known format, folders, patterns, run folders, public sets by name "
        "(fed, fed/test); - is JSONL on standard input."
    ),
]
Part = Annotated[
    str | None, typer.Option(help="Part of a public set: train, dev or test, or a part by its own name.")
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
Method = Annotated[str, typer.Option(help="Correlation that ranks and tests: pearson, spearman, kendall.")]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map", help="A foreign score column: FILE:id=COLUMN,value=COLUMN[,turn=,source=,rater=,dimension=]"
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of all resampling.")]
Resamples = Annotated[int, typer.Option(min=100, help="Draws of every bootstrap and permutation test.")]
Confidence = Annotated[float, typer.Option(min=0.5, max=0.999, help="Confidence of the intervals.")]


def open_chats(
    chats: Sequence[str],
    format: str | None = None,
    columns: str | None = None,
    part: str | None = None,
    usual: Sequence[str] = ("all",),
) -> "Iterator[Dialogue]":
    """Open dialogues as a command was given them.

    What was guessed is said, once. A record that cannot be read is said to be lost, and the rest is read; on
    standard input, where nobody knows how much follows, it is an error.

    Args:
        chats: Whatever `formats.read` takes.
        format: What was given with --format.
        columns: What was given with --columns.
        part: What was given with --part.
        usual: Without it, the first of these that a public set has.
    """
    from dialeval.cli.output import say
    from dialeval.dialogues import formats
    from dialeval.dialogues.formats.opening import part_of_set
    from dialeval.errors import UsageError

    said: set[str] = set()

    def say_once(message: str) -> None:
        if message not in said:
            said.add(message)
            say(message)

    public = {one: chosen for one in chats if (chosen := formats.public_part(one, say_once))}
    if part and not public:
        raise UsageError("--part goes with a public set")
    named = {
        one: f"set:{name}/{own or part or part_of_set(name, usual)}" for one, (name, own) in public.items()
    }
    sources = [named.get(one, one) for one in chats]
    return formats.read(sources, format, columns, note=say_once, lenient="-" not in chats)


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
