"""The metric protocol and the one place where names become metrics.

A metric is a frozen dataclass. Its fields are at once its Python arguments, its options on the command
line and its signature, so the three cannot drift apart.
"""

import dataclasses
import importlib
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeVar, runtime_checkable

from dialeval import __version__
from dialeval.dialogues import Dialogue
from dialeval.errors import UsageError
from dialeval.scores import Score, Scores, Signature

Better = Literal["higher", "lower", "neither"]


@runtime_checkable
class Metric(Protocol):
    """What every metric is: a name with a version, the dimensions it gives, and `score`."""

    name: ClassVar[str]
    dimensions: ClassVar[tuple[str, ...]]

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Give one row per scorable unit and dimension; null with a note where that cannot be done."""
        ...


# Built-in metrics by module, so that asking for one does not import the others.
_MODULES = {
    "bertscore": "bertscore",
    "bleu": "overlap",
    "chrf": "overlap",
    "coherence": "dialoguescore",
    "consensus": "consensus",
    "consensus-bertscore": "floweval",
    "dialoguescore": "dialoguescore",
    "fed": "fed",
    "floweval": "floweval",
    "floweval-seg": "floweval",
    "followup": "followup",
    "judge": "judge",
    "length": "baselines",
    "multiwoz": "multiwoz",
    "quality": "quality",
    "repetition": "baselines",
    "similarity": "similarity",
    "student": "student",
    "turns": "baselines",
    "turn-quality": "turn_quality",
    "user-reaction": "user_reaction",
    "voted-appropriateness": "votes",
    "weak-agreement": "votes",
}
_REGISTERED: dict[str, type[Any]] = {}
M = TypeVar("M")


def metric(name: str) -> Callable[[type[M]], type[M]]:
    """Register a frozen dataclass as a metric under a versioned name such as `length.v1`."""
    short, dot, version = name.rpartition(".v")
    if not dot or not version.isdigit() or not short:
        raise UsageError(f"metric name {name!r}: expected a version, such as {name}.v1")

    def register(cls: type[M]) -> type[M]:
        if not dataclasses.is_dataclass(cls):
            raise UsageError(
                f"metric {name}: {cls.__name__} is not a dataclass; put @metric above @dataclass"
            )
        _check_directions(name, cls)
        known = _REGISTERED.get(name)
        same = known is None or (known.__module__, known.__qualname__) == (cls.__module__, cls.__qualname__)
        if not same or (short in _MODULES and cls.__module__ != f"dialeval.metrics.{_MODULES[short]}"):
            raise UsageError(f"there is a metric called {name} already; choose another name")
        cls.name = name  # type: ignore[attr-defined]
        _REGISTERED[name] = cls
        return cls

    return register


def _check_directions(name: str, cls: type[Any]) -> None:
    """Refuse a direction for a dimension that is not there: it would be lost without a word."""
    better = getattr(cls, "better", "higher")
    for dimension in better if isinstance(better, Mapping) else ():
        if dimension not in cls.dimensions:
            raise UsageError(
                f"metric {name}: better names {dimension!r}; its dimensions are: {', '.join(cls.dimensions)}"
            )


def metric_names() -> list[str]:
    """Names of all metrics that can be asked for, those of other packages too."""
    return sorted({*_MODULES, *(name.rpartition(".v")[0] for name in _REGISTERED), *_entry_points()})


def _entry_points() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group="dialeval.metrics")}


def metric_class(name: str) -> type[Any]:
    """Find a metric by name; without a version, the newest."""
    short = name.rpartition(".v")[0] or name
    if short in _MODULES:
        importlib.import_module(f"dialeval.metrics.{_MODULES[short]}")
    elif short in (points := _entry_points()):
        points[short].load()
    versions = {key: cls for key, cls in _REGISTERED.items() if name in (key, key.rpartition(".v")[0])}
    if not versions:
        raise UsageError(f"no metric called {name!r}; known: {', '.join(metric_names())}")
    return versions[max(versions, key=lambda key: int(key.rpartition(".v")[2]))]


def parse_spec(spec: str) -> tuple[str, str, dict[str, str]]:
    """Split `[alias=]name[:field=value,…]` into source name, metric name and options.

    >>> parse_spec("wide=floweval:ka=80,w=0.2")
    ('wide', 'floweval', {'ka': '80', 'w': '0.2'})
    """
    head, _, options = spec.partition(":")
    alias, equals, name = head.partition("=")
    pairs = [part.partition("=") for part in options.split(",") if part]
    if not head or (equals and not (alias and name)) or not all(key and sign for key, sign, _ in pairs):
        raise UsageError(f"metric {spec!r}: expected [alias=]name[:field=value,…]")
    return (alias if equals else head), (name if equals else head), {key: value for key, _, value in pairs}


def build(spec: str) -> Any:
    """Make a metric from its command-line notation.

    >>> build("repetition:n=3")
    Repetition(n=3, speaker=None)
    """
    _, name, options = parse_spec(spec)
    cls = metric_class(name)
    hints = typing.get_type_hints(cls)
    known = {item.name for item in dataclasses.fields(cls) if item.init}
    for key in options:
        if key not in known:
            raise UsageError(f"{name} has no field {key!r}; it has: {', '.join(sorted(known)) or 'none'}")
    return cls(**{key: _convert(name, key, value, hints[key]) for key, value in options.items()})


def _convert(name: str, key: str, text: str, hint: Any) -> Any:
    """Read an option's text as the type its field is declared with."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if text.lower() in ("none", "null", "") and type(None) in arguments:
            return None
        hint = next(item for item in arguments if item is not type(None))
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    try:
        if origin is Literal:
            return next(item for item in arguments if str(item) == text)
        if origin is tuple:
            return tuple(_convert(name, key, part, arguments[0]) for part in text.split("+"))
        if hint is bool:
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[
                text.lower()
            ]
        return hint(text)
    except (ValueError, KeyError, StopIteration):
        wanted = (
            " or ".join(map(str, arguments)) if origin is Literal else getattr(hint, "__name__", str(hint))
        )
        raise UsageError(f"{name}:{key}={text}: expected {wanted}") from None


def signature_of(made: Any) -> Signature:
    """Write down how a metric's numbers are made: every field, and the version of dialeval."""
    fields = {item.name: getattr(made, item.name) for item in dataclasses.fields(made)}
    better = getattr(made, "better", "higher")
    marks = {} if better in ("higher", {}) else {"better": better}
    return Signature.of(
        made.name, {**fields, **getattr(made, "provenance", dict)(), **marks, "dialeval": __version__}
    )


class Rows:
    """Collects the rows of one metric; `scores()` puts source and signature to them.

    >>> from dialeval.dialogues import dialogue
    >>> rows = Rows(build("length"))
    >>> rows.add(dialogue([("user", "Hi"), ("assistant", "Hello you")], "d1"), 1, "words", 2)
    >>> rows.scores().sources
    ['length']
    """

    def __init__(self, made: Any) -> None:
        self.source, self.signature = made.name.rpartition(".v")[0], signature_of(made)
        self._rows: list[Score] = []

    def add(
        self,
        dialogue: Dialogue,
        turn: int | None,
        dimension: str,
        value: float | None,
        note: str | None = None,
    ) -> None:
        """Add one row; a value of None needs a note that says why."""
        number = None if value is None else float(value)
        self._rows.append(Score(dialogue.id, turn, dialogue.system, self.source, dimension, number, note))

    def scores(self) -> Scores:
        """Return the table."""
        return Scores.of(self._rows, {self.source: self.signature})


def score(dialogues: Sequence[Dialogue], metrics: Sequence[Any]) -> Scores:
    """Score dialogues with metrics given as specs (`"repetition:n=3"`) or as objects.

    >>> from dialeval.dialogues import dialogue
    >>> table = score([dialogue([("user", "Hi"), ("assistant", "Hello you")], "d1")], ["length", "turns"])
    >>> [(row.source, row.turn, row.value) for row in table]
    [('length', 1, 2.0), ('turns', None, 2.0)]
    """
    parts = []
    for wanted in metrics:
        if isinstance(wanted, str):
            parts.append(build(wanted).score(dialogues).renamed(parse_spec(wanted)[0]))
        else:
            parts.append(wanted.score(dialogues))
    return Scores.concat(parts)


def describe(name: str) -> dict[str, Any]:
    """Say what a metric is: first line of its documentation, dimensions, fields with defaults."""
    cls = metric_class(name)
    fields = {item.name: item.default for item in dataclasses.fields(cls)}
    what = (cls.__doc__ or "").strip().partition("\n")[0]
    better = getattr(cls, "better", "higher")
    better = dict(better) if isinstance(better, Mapping) else better
    return {"name": cls.name, "what": what, "dimensions": cls.dimensions, "better": better, "fields": fields}
