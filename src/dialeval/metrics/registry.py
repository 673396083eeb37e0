"""The metric protocol and the one place where names become metrics.

A metric is a frozen dataclass. Its fields are at once its Python arguments, its options on the command
line and its signature, so the three cannot drift apart.
"""

import contextlib
import dataclasses
import functools
import importlib
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar, runtime_checkable

from dialeval import __version__
from dialeval.dialogues import Dialogue, says_something, scored_turns, takes_part
from dialeval.dialogues.languages import unknown_language
from dialeval.errors import DialevalError, UsageError
from dialeval.plugins import load_plugin, plugins
from dialeval.scores import Score, Scores, Signature

if TYPE_CHECKING:
    from dialeval.models.needs import Need

Better = Literal["higher", "lower", "neither"]
Language = Literal["known", "any"]
_KNOWN = ("en",)  # the languages of the shipped models
CHUNK_DIALOGUES = 64  # scored together
_CHUNK_TURNS = 2048


@runtime_checkable
class Metric(Protocol):
    """The protocol of every metric: a name with a version, its dimensions, and `score`."""

    name: ClassVar[str]
    dimensions: ClassVar[tuple[str, ...]]

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Return one row per scorable unit and dimension; null with a note where that cannot be done."""
        ...


# Built-in metrics by module, so that asking for one does not import the others.
_MODULES = {
    "agent": "agent",
    "bert-ruber": "learned_baselines",
    "bertscore": "similarity",
    "bleu": "overlap",
    "chrf": "overlap",
    "coherence": "dialoguescore",
    "consensus": "consensus",
    "consensus-bertscore": "floweval",
    "dialoguescore": "dialoguescore",
    "dynaeval": "learned_baselines",
    "faults": "faults",
    "fed": "followup",
    "flow-score": "learned_baselines",
    "floweval": "floweval",
    "floweval-seg": "floweval",
    "followup": "followup",
    "goal": "agent",
    "judge": "judge",
    "length": "baselines",
    "multiwoz": "multiwoz",
    "outcome": "outcome",
    "pone": "learned_baselines",
    "predictive-engagement": "learned_baselines",
    "quality": "quality",
    "repetition": "baselines",
    "ruber": "learned_baselines",
    "rules": "rules",
    "similarity": "similarity",
    "student": "turn_quality",
    "turn-quality": "turn_quality",
    "turns": "baselines",
    "user-reaction": "user_reaction",
    "voted-appropriateness": "votes",
    "weak-agreement": "votes",
}
DEFAULT_METRICS = ("quality",)
_REGISTERED: dict[str, type[Any]] = {}
M = TypeVar("M")


def known_language() -> Any:
    """Return the field of metrics whose models know some languages only; see `metric`.

    It stands in a signature where it is not the default.
    """
    return dataclasses.field(default="known", repr=False, kw_only=True, metadata={"quiet": True})


def model_field(default: str | None, load: Callable[[str], Any]) -> Any:
    """Return a field that names what `load` opens, a model or anything with a `sha`; see `OpensModels`."""
    return dataclasses.field(default=default, metadata={"load": load})


class OpensModels:
    """A metric with fields that name models: their contents are in its signature, not where they lie."""

    def needs(self) -> "list[Need]":
        """Open the models; return what they read of encoders."""
        opened = [load(name) for _, name, load in _named_models(self)]
        return [need for model in opened if hasattr(model, "needs") for need in model.needs()]

    def provenance(self) -> dict[str, str]:
        """Name the models by their contents; one that is not there keeps its name: nothing is scored."""
        shas = {}
        for field, name, load in _named_models(self):
            with contextlib.suppress(DialevalError):
                shas[field] = str(load(name).sha)[:12]
        return shas


def _named_models(metric: Any) -> list[tuple[str, str, Callable[[str], Any]]]:
    named = [(item.name, getattr(metric, item.name), item.metadata) for item in dataclasses.fields(metric)]
    return [
        (field, name, metadata["load"])
        for field, name, metadata in named
        if "load" in metadata and name is not None
    ]


def metric(name: str) -> Callable[[type[M]], type[M]]:
    """Register a frozen dataclass as a metric under a versioned name such as `length.v1`.

    A class with a field `language` (`known_language`) has models that know English alone, or what its class
    variable `languages` says. Rows of a dialogue that is in another language have no value and a note that
    says why; with `language=any` they are scored all the same.
    """
    short, dot, version = name.rpartition(".v")
    if not dot or not version.isdigit() or not short:
        raise UsageError(f"metric name {name!r}: expected a version, such as {name}.v1")

    def register(cls: type[M]) -> type[M]:
        if not dataclasses.is_dataclass(cls):
            raise UsageError(
                f"metric {name}: {cls.__name__} is not a dataclass; put @metric above @dataclass"
            )
        _check_directions(name, cls)
        existing = _REGISTERED.get(name)
        same = existing is None or (existing.__module__, existing.__qualname__) == (
            cls.__module__,
            cls.__qualname__,
        )
        if not same or (short in _MODULES and cls.__module__ != f"dialeval.metrics.{_MODULES[short]}"):
            raise UsageError(f"there is a metric called {name} already; choose another name")
        cls.name = name  # type: ignore[attr-defined]
        fields = {item.name for item in dataclasses.fields(cls)}
        if "language" in fields and not hasattr(cls.score, "__wrapped__"):  # type: ignore[attr-defined]
            _keep_to_languages(cls)
        _REGISTERED[name] = cls
        return cls

    return register


def _keep_to_languages(cls: type[Any]) -> None:
    """Make `score` leave dialogues unscored whose language the models of a metric do not know."""
    score_all = cls.score

    @functools.wraps(score_all)
    def score_known(self: Any, dialogues: Iterable[Dialogue]) -> Scores:
        foreign: dict[str, str] = {}
        scores: Scores = score_all(self, _watched(dialogues, getattr(self, "languages", _KNOWN), foreign))
        if self.language == "any" or not foreign:
            return scores
        rows = (
            row._replace(value=None, note=foreign[row.dialogue_id]) if row.dialogue_id in foreign else row
            for row in scores
        )
        return Scores.of(rows, scores.signatures)

    cls.score = score_known


def _watched(
    dialogues: Iterable[Dialogue], languages: tuple[str, ...], foreign: dict[str, str]
) -> Iterator[Dialogue]:
    for dialogue in dialogues:
        if code := unknown_language(dialogue, languages):
            foreign[dialogue.id] = (
                f"language {code}: its models know {', '.join(languages)} (language=any scores it)"
            )
        yield dialogue


def _check_directions(name: str, cls: type[Any]) -> None:
    """Refuse a direction for a dimension that is not there: it would be lost silently."""
    better = getattr(cls, "better", "higher")
    for dimension in better if isinstance(better, Mapping) else ():
        if dimension not in cls.dimensions:
            raise UsageError(
                f"metric {name}: better names {dimension!r}; its dimensions are: {', '.join(cls.dimensions)}"
            )


def metric_names() -> list[str]:
    """Names of all metrics that can be asked for, those of other packages too."""
    return sorted({*_MODULES, *(name.rpartition(".v")[0] for name in _REGISTERED), *plugins("metrics")})


def metric_class(name: str) -> type[Any]:
    """Find a metric by name; without a version, the newest."""
    short = name.rpartition(".v")[0] or name
    if short in _MODULES:
        importlib.import_module(f"dialeval.metrics.{_MODULES[short]}")
    elif short in (external := plugins("metrics")):
        load_plugin(external[short], object)
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
    names = {item.name for item in dataclasses.fields(cls) if item.init}
    for key in options:
        if key not in names:
            raise UsageError(f"{name} has no field {key!r}; it has: {', '.join(sorted(names)) or 'none'}")
    return cls(**{key: read_option(f"{name}:{key}", value, hints[key]) for key, value in options.items()})


_WANTED = {int: "a whole number", float: "a number", bool: "true or false"}


def read_option(name: str, text: str, hint: Any) -> Any:
    """Read an option's text as the type that its field is declared with.

    >>> read_option("idf", "no", bool), read_option("dropout", "none", float | None)
    (False, None)
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    or_none = ""
    if origin in (types.UnionType, typing.Union):
        if type(None) in arguments:
            or_none = " or none"
            if text.lower() in ("none", "null", ""):
                return None
        hint = next(item for item in arguments if item is not type(None))
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return tuple(read_option(name, part, arguments[0]) for part in text.split("+"))
    try:
        if origin is Literal:
            return next(item for item in arguments if str(item) == text)
        if hint is bool:
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[
                text.lower()
            ]
        return hint(text)
    except (ValueError, KeyError, StopIteration):
        expected = " or ".join(map(str, arguments)) if origin is Literal else _WANTED.get(hint, str(hint))
        raise UsageError(f"{name}={text}: expected {expected}{or_none}") from None


def signature_of(metric: Any) -> Signature:
    """Write down how a metric's numbers are made: every field, and the version of dialeval."""
    fields = {
        item.name: getattr(metric, item.name)
        for item in dataclasses.fields(metric)
        if not item.metadata.get("quiet") or getattr(metric, item.name) != item.default
    }
    better = getattr(metric, "better", "higher")
    marks = {} if better in ("higher", {}) else {"better": better}
    return Signature.of(
        metric.name, {**fields, **getattr(metric, "provenance", dict)(), **marks, "dialeval": __version__}
    )


class Rows:
    """Collects the rows of one metric; `scores()` puts source and signature to them.

    >>> from dialeval.dialogues import dialogue
    >>> rows = Rows(build("length"))
    >>> rows.add(dialogue([("user", "Hi"), ("assistant", "Hello you")], "d1"), 1, "words", 2)
    >>> rows.scores().sources
    ['length']
    """

    def __init__(self, metric: Any) -> None:
        self.source, self.signature = metric.name.rpartition(".v")[0], signature_of(metric)
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

    def add_dialogue(
        self,
        dialogue: Dialogue,
        dimension: str,
        values: Mapping[int, float],
        method: "Aggregate",
        missing: str,
    ) -> None:
        """Add the row of a whole dialogue, from the values of its turns; `missing` is why there are none."""
        lengths = [len(dialogue.turns[turn].text.split()) for turn in values]
        figure = aggregate(list(values.values()), lengths, method) if values else None
        self.add(dialogue, None, dimension, figure, None if values else missing)

    def scores(self) -> Scores:
        """Return the table."""
        return Scores.of(self._rows, {self.source: self.signature})


def score(
    dialogues: Any, metrics: Any = DEFAULT_METRICS, *, watch: Callable[[int], None] | None = None
) -> Scores:
    """Score dialogues with one or more metrics.

    Args:
        dialogues: Dialogues, or whatever `dialeval.read` takes: a path, messages, a data frame, a public set.
        metrics: Specs (`"repetition:n=3"`) or objects; one alone needs no list. By default `quality`.
        watch: Called with the number of dialogues of each chunk once it is scored, as in a progress bar.

    >>> chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello you"}]
    >>> score(chat, "length").summary()[0]["mean"]
    2.0
    >>> from dialeval.dialogues import dialogue
    >>> table = score([dialogue([("user", "Hi"), ("assistant", "Hello you")], "d1")], ["length", "turns"])
    >>> [(row.source, row.turn, row.value) for row in table]
    [('length', 1, 2.0), ('turns', None, 2.0)]
    >>> many, done = [dialogue([("user", "Hi")], f"d{number}") for number in range(70)], []
    >>> table = score(many, "turns", watch=done.append)
    >>> done
    [64, 6]
    """
    from dialeval.dialogues.formats import read
    from dialeval.models.needs import encode_ahead

    built = _built(metrics)
    needs = needs_of(metric for metric, _ in built)
    parts: list[list[Scores]] = [[metric.score([])] for metric, _ in built]
    for chunk in chunks(read(dialogues)):
        encode_ahead(chunk, needs)
        for (metric, _), part in zip(built, parts, strict=True):
            part.append(metric.score(chunk))
        if watch:
            watch(len(chunk))
    tables = [Scores.concat(part) for part in parts]
    named = zip(tables, built, strict=True)
    return Scores.concat([table.renamed(name) if name else table for table, (_, name) in named])


def _built(metrics: Any) -> list[tuple[Any, str | None]]:
    """Return metrics by specs or as objects, each with the name it was given.

    >>> _built(None)
    Traceback (most recent call last):
    dialeval.errors.UsageError: None is no metric: give a name or an object with a method score
    """
    asked = metrics if isinstance(metrics, Iterable) and not isinstance(metrics, str) else (metrics,)
    built: list[tuple[Any, str | None]] = [
        (build(spec), parse_spec(spec)[0]) if isinstance(spec, str) else (spec, None) for spec in asked
    ]
    for wrong in (m for m, _ in built if isinstance(m, type) or not callable(getattr(m, "score", None))):
        raise UsageError(f"{wrong!r} is no metric: give a name or an object with a method score")
    return built


def chunks(dialogues: Iterable[Dialogue], first: int | None = None) -> Iterator[list[Dialogue]]:
    """Cut a stream into what is scored together: 64 dialogues at most, and no more after 2,048 turns.

    Args:
        first: How many dialogues the first chunk has at most, by default 64; each further one may have twice
            as many as the one before. A run begins with few, so that somebody who watches sees it move.

    >>> [len(chunk) for chunk in chunks(Dialogue(str(number), ()) for number in range(150))]
    [64, 64, 22]
    """
    chunk, turns, most = list[Dialogue](), 0, min(first or CHUNK_DIALOGUES, CHUNK_DIALOGUES)
    for dialogue in dialogues:
        chunk.append(dialogue)
        turns += len(dialogue.turns)
        if len(chunk) >= most or turns >= _CHUNK_TURNS:
            yield chunk
            chunk, turns, most = [], 0, min(2 * most, CHUNK_DIALOGUES)
    if chunk:
        yield chunk


def needs_of(metrics: Iterable[Any]) -> "list[Need]":
    """Open what metrics need, and return what they read of encoders.

    A metric that needs a model or an index has a method `needs`. It opens them, so that one that is not there
    is an error before the first dialogue, and returns a list, which may be empty.
    """
    return [need for metric in metrics if hasattr(metric, "needs") for need in metric.needs()]


def encoded_chunks(metric: Any, dialogues: Iterable[Dialogue]) -> Iterator[list[Dialogue]]:
    """Cut a stream into chunks, and encode what a metric needs of each before it is handed out.

    Where a run has encoded it for all of its metrics already, this costs a look into the cache.
    """
    from dialeval.models.needs import encode_ahead

    needs = needs_of([metric])
    for chunk in chunks(dialogues):
        encode_ahead(chunk, needs)
        yield chunk


def asked_turns(
    dialogue: Dialogue, speaker: str | None, level: Literal["both", "turn", "dialogue"]
) -> list[int | None]:
    """Return what is asked about at a level: the scored turns, the dialogue (None), or both."""
    turns: list[int | None] = [] if level == "dialogue" else [*scored_turns(dialogue, speaker)]
    return turns if level == "turn" else [*turns, None]


def unspoken(dialogue: Dialogue, turn: int | None) -> str | None:
    """Return why nothing can be asked about a turn, or about a whole dialogue; None where something can."""
    if turn is None:
        spoken = any(map(says_something, dialogue.turns))
        return None if spoken else "nobody says anything"
    if not dialogue.turns[turn].text.strip():
        return "empty reply"
    return None if takes_part(dialogue.turns[turn]) else "no part of the conversation"


def describe(name: str) -> dict[str, Any]:
    """Describe a metric: first line of its documentation, dimensions, fields with defaults."""
    cls = metric_class(name)
    fields = {item.name: item.default for item in dataclasses.fields(cls)}
    summary = (cls.__doc__ or "").strip().partition("\n")[0]
    better = getattr(cls, "better", "higher")
    better = dict(better) if isinstance(better, Mapping) else better
    return {
        "name": cls.name,
        "what": summary,
        "dimensions": cls.dimensions,
        "better": better,
        "fields": fields,
    }


Aggregate = Literal["mean", "min", "last", "length"]


def aggregate(values: Sequence[float], lengths: Sequence[int], method: Aggregate) -> float:
    """Aggregate the scores of turns; `length` weighs each turn by its words.

    >>> [aggregate([1.0, 4.0], [3, 1], how) for how in ("mean", "min", "last", "length")]
    [2.5, 1.0, 4.0, 1.75]
    """
    if method == "mean":
        return sum(values) / len(values)
    if method == "min":
        return min(values)
    if method == "last":
        return values[-1]
    weights = [max(1, length) for length in lengths]
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)
