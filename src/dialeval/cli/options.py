"""Options that several commands share, and groups of them.

A group is a dataclass. A command with a parameter of that type gets all its fields as options (`grouped`).
"""

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dialeval.dialogues import Dialogue
    from dialeval.systems import System

Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "-m",
        "--metric",
        help="Metric as [alias=]name[:field=value,…] (see: dialeval list); repeatable.",
        show_default=False,
    ),
]
Chats = Annotated[
    list[str],
    typer.Argument(
        help="Dialogues: files in any known format, folders, patterns, run folders, public sets "
        "(fed, fed/test); - reads JSONL from standard input."
    ),
]
Part = Annotated[
    str | None, typer.Option(help="Part of a public set: train, dev or test, or a part by its own name.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing folder.")]
Level = Annotated[
    str | None, typer.Option(help="Unit: turn, dialogue or system; default: that of the ratings.")
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
        "--map", help="External score column: FILE:id=COLUMN,value=COLUMN[,turn=,source=,rater=,dimension=]"
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of all resampling.")]
Resamples = Annotated[int, typer.Option(min=100, help="Resamples of each bootstrap and permutation test.")]
Confidence = Annotated[float, typer.Option(min=0.5, max=0.999, help="Confidence level of the intervals.")]


def split_names(text: str) -> list[str]:
    """Split comma-separated names."""
    return [name for name in (part.strip() for part in text.split(",")) if name]


def open_chats(
    chats: Sequence[str],
    format: str | None = None,
    columns: str | None = None,
    part: str | None = None,
    usual: Sequence[str] = ("all",),
    told: list[str] | None = None,
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
        told: Gets what is said while they are read.
    """
    from dialeval.cli.output import say
    from dialeval.dialogues import formats
    from dialeval.dialogues.formats.opening import part_of_set
    from dialeval.errors import UsageError

    said = [] if told is None else told

    def say_once(message: str) -> None:
        if message not in said:
            said.append(message)
            say(message)

    public = {one: chosen for one in chats if (chosen := formats.public_part(one, say_once))}
    if part and not public:
        raise UsageError("--part needs a public set")
    named = {
        one: f"set:{name}/{own or part or part_of_set(name, usual)}" for one, (name, own) in public.items()
    }
    sources = [named.get(one, one) for one in chats]
    return formats.read(sources, format, columns, note=say_once, lenient="-" not in chats)


def _keep(name: str) -> Callable[[Any], Any]:
    """Return a callback that stores an option in an environment variable for the package `models`."""

    def keep(value: Any) -> Any:
        if value is not None:
            os.environ[name] = str(value)
        return value

    return keep


Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Cores for models; default: all.", callback=_keep("DIALEVAL_THREADS")),
]
Cache = Annotated[
    Path | None,
    typer.Option(help="Folder to cache text vectors in.", callback=_keep("DIALEVAL_CACHE"), file_okay=False),
]


# --- groups -------------------------------------------------------------------------------------------------


def grouped(verb: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter that is a group by its options, after the command's own."""
    hints = get_type_hints(verb, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    own, shared = list[inspect.Parameter](), list[inspect.Parameter]()
    for one in inspect.signature(verb).parameters.values():
        if one.name in groups:
            shared += inspect.signature(groups[one.name]).parameters.values()
        else:
            own.append(one.replace(annotation=hints[one.name]))

    @functools.wraps(verb)
    def run(**given: Any) -> None:
        made = {
            name: kind(**{field.name: given.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        verb(**given, **made)

    taken = sorted(own + shared, key=lambda one: one.default is not one.empty)
    run.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in taken}
    return run


@dataclass(frozen=True)
class ChatSource:
    """Where dialogues are read from."""

    chats: Chats
    format: Format = None
    columns: Columns = None
    part: Part = None

    @property
    def name(self) -> str:
        """What was given, for the record."""
        return ", ".join(self.chats)

    def open(self, *usual: str, told: list[str] | None = None) -> "Iterator[Dialogue]":
        """Open the dialogues; of a public set without --part, the first of these that it has, or all.

        What is said while they are read, such as what was lost, is added to `told`.
        """
        return open_chats(self.chats, self.format, self.columns, self.part, usual or ("all",), told)


@dataclass(frozen=True)
class Running:
    """How models run; passed on by environment variables."""

    threads: Threads = None
    cache: Cache = None


@dataclass(frozen=True)
class Drawing:
    """Resampling of intervals and tests."""

    resamples: Resamples = 10_000
    confidence: Confidence = 0.95
    seed: Seed = 0

    def study_settings(self) -> dict[str, Any]:
        """Return them as a study takes them; its bootstraps use every core."""
        from dialeval.models.tokenization import default_threads

        return {**vars(self), "permutations": self.resamples, "workers": default_threads()}


@dataclass(frozen=True)
class Asking:
    """How a system under test is asked."""

    system: Annotated[
        str,
        typer.Option(
            "--system",
            help="Address of an OpenAI-compatible endpoint; module:function; or "
            "retrieval[:corpus=FILE], wizard-max-voted:votes=FILE, wizard-random:votes=FILE[,seed=0].",
        ),
    ]
    name: Annotated[str | None, typer.Option(help="Name of the system; default: the model or --system.")] = (
        None
    )
    model: Annotated[str | None, typer.Option(help="Model name at the endpoint.")] = None
    instructions: Annotated[str | None, typer.Option(help="System prompt to send first.")] = None
    temperature: Annotated[
        float | None, typer.Option(min=0, help="Temperature; default: 0.", show_default=False)
    ] = None
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Maximum tokens per answer; default: 256.", show_default=False)
    ] = None
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            help="Seconds per request or function call; default: 60.",
            show_default=False,
        ),
    ] = None
    tries: Annotated[
        int | None, typer.Option(min=1, help="Attempts per answer; default: 3.", show_default=False)
    ] = None

    def build(self, **more: Any) -> "System":
        """Make the system."""
        from dialeval.systems import build

        given = dict(vars(self))
        return build(given.pop("system"), **given, **more)
