"""Options that several commands share, and groups of them.

A group is a dataclass. A command with a parameter of that type gets all its fields as options (`grouped`).
"""

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

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
Dimension = Annotated[str | None, typer.Option(help="Dimension of the ratings.")]
Sources = Annotated[list[str] | None, typer.Option(help="Only these sources; repeat for more.")]
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
    preferred: Sequence[str] = ("all",),
    notes: list[str] | None = None,
) -> "Iterator[Dialogue]":
    """Open the dialogues of a command; print each note of the reader (a guess, a lost record) once.

    A record that cannot be read is skipped with a note; on standard input it is an error, because what
    follows may be of any length.

    Args:
        chats: Anything that `formats.read` takes.
        format: The value of --format.
        columns: The value of --columns.
        part: The value of --part.
        preferred: Without it, the first of these parts that a public set has.
        notes: Gets the notes while the dialogues are read.
    """
    from dialeval.cli.output import say
    from dialeval.dialogues import formats
    from dialeval.dialogues.formats.opening import part_of_set
    from dialeval.errors import UsageError

    seen = [] if notes is None else notes

    def say_once(message: str) -> None:
        if message not in seen:
            seen.append(message)
            say(message)

    public = {source: chosen for source in chats if (chosen := formats.public_part(source, say_once))}
    if part and not public:
        raise UsageError("--part needs a public set")
    sources = [
        f"set:{public[source][0]}/{public[source][1] or part or part_of_set(public[source][0], preferred)}"
        if source in public
        else source
        for source in chats
    ]
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
    for parameter in inspect.signature(verb).parameters.values():
        if parameter.name in groups:
            shared += inspect.signature(groups[parameter.name]).parameters.values()
        else:
            own.append(parameter.replace(annotation=hints[parameter.name]))

    @functools.wraps(verb)
    def run(**values: Any) -> None:
        by_group = {
            name: kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        verb(**values, **by_group)

    parameters = sorted(own + shared, key=lambda parameter: parameter.default is not parameter.empty)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


@dataclass(frozen=True)
class ChatSource:
    """The dialogues to read."""

    chats: Chats
    format: Format = None
    columns: Columns = None
    part: Part = None

    @property
    def name(self) -> str:
        """The source as text, for the record."""
        return ", ".join(self.chats)

    @property
    def public(self) -> tuple[str, str | None] | None:
        """The name and part of the public set, if there is nothing else to read."""
        from dialeval.dialogues.formats import public_part

        return public_part(self.chats[0]) if len(self.chats) == 1 else None

    def open(self, *preferred: str, notes: list[str] | None = None) -> "Iterator[Dialogue]":
        """Open the dialogues; of a public set without --part, the first of these parts, or all.

        The reader's notes, such as lost records, are added to `notes`.
        """
        return open_chats(self.chats, self.format, self.columns, self.part, preferred or ("all",), notes)


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


@dataclass(frozen=True)
class StudyOptions(Drawing):
    """The settings of a study, and what is printed of it."""

    level: Level = None
    dimension: Dimension = None
    source: Sources = None
    where: Annotated[str | None, typer.Option(help='Only units such as "bleu<1 and system=mybot".')] = None
    by: Annotated[
        str | None, typer.Option(help="Also correlate within each system, or with each dimension.")
    ] = None
    classes: Annotated[
        bool,
        typer.Option(
            "--classes", help="Also print scores per class of the ratings, AUC and the best threshold."
        ),
    ] = False
    combine: Annotated[
        list[str] | None,
        typer.Option(help="A new source: name=mean|zmean|fit|line:part+part[,folds=10|dialogue|system]"),
    ] = None
    method: Annotated[
        str, typer.Option(help="Correlation that ranks and tests: pearson, spearman, kendall.")
    ] = "spearman"
    against: Annotated[
        str | None,
        typer.Option(help="Also print the difference of each source to this one, with an interval."),
    ] = None

    def settings(self) -> dict[str, Any]:
        """Return the keyword arguments of `study`; its bootstraps use every core."""
        from dialeval.models.tokenization import default_threads

        names = ("resamples", "confidence", "seed", "level", "dimension", "where", "by", "method")
        lists = {"sources": tuple(self.source or ()), "combine": tuple(self.combine or ())}
        workers = {"permutations": self.resamples, "workers": default_threads()}
        return {name: getattr(self, name) for name in names} | lists | workers


@dataclass(frozen=True)
class LabelOptions:
    """The ratings to estimate from, and the sources to judge."""

    map: Map = None
    gold: Annotated[str, typer.Option(help="Ground truth: human, or the name of a source (an outcome).")] = (
        "human"
    )
    level: Annotated[
        Literal["turn", "dialogue"] | None, typer.Option(help="Unit; default: that of the ratings.")
    ] = None
    dimension: Dimension = None
    source: Sources = None

    def settings(self) -> dict[str, Any]:
        """Return the keyword arguments of `studies.trust` and `studies.planning`."""
        names = ("gold", "level", "dimension")
        return {name: getattr(self, name) for name in names} | {"sources": tuple(self.source or ())}


@dataclass(frozen=True)
class VersionOptions:
    """The test of versions; the fields are the keyword arguments of `studies.compare`."""

    source: Annotated[str | None, typer.Option(help="Only this source (raters together are 'human').")] = None
    dimension: Annotated[str | None, typer.Option(help="Only this dimension.")] = None
    level: Annotated[Literal["turn", "dialogue"], typer.Option(help="Unit of comparison.")] = "dialogue"
    alpha: Annotated[float, typer.Option(min=1e-6, max=0.5, help="Significance level, Holm-corrected.")] = (
        0.05
    )
    resamples: Resamples = 10_000
    seed: Seed = 0


@dataclass(frozen=True)
class Asking:
    """The system under test, and how it is asked."""

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
        typer.Option(min=0.01, help="Seconds per request or function call; default: 60.", show_default=False),
    ] = None
    tries: Annotated[
        int | None, typer.Option(min=1, help="Attempts per answer; default: 3.", show_default=False)
    ] = None

    def build(self, **more: Any) -> "System":
        """Return the system."""
        from dialeval.systems import build

        options = dict(vars(self))
        return build(options.pop("system"), **options, **more)
