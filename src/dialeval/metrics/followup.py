"""Would a user be pleased or annoyed now? `followup` and `fed` ask a language model; nothing is trained.

What people say next tells how it went. So does what a language model expects them to say: where it finds
"You're really boring." likelier than elsewhere, and "Great, tell me more!" less so, it has seen a dialogue
that goes badly (Mehri and Eskenazi, SIGDIAL 2020). What is asked for are *sets* of follow-ups: what users say
after something good and after something bad, by dimension, as TOML.

Their FED takes eighteen qualities to be there where fitting follow-ups are likely and unfitting ones are not.
The follow-ups here are our own, in that spirit, and part of the signature. The faithful setting is
`model=hub:microsoft/DialoGPT-large,template=eos` (extra `[train]`).
"""

import functools
import hashlib
import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files as resources
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from dialeval import files
from dialeval.dialogues import Dialogue, scored_turns
from dialeval.dialogues.dialogue import takes_part
from dialeval.errors import DataError, DialevalError, UsageError
from dialeval.metrics.registry import Language, Rows, known_language, metric
from dialeval.models.language_model import DEFAULT, MISSING, is_here, mark, open_model
from dialeval.models.likelihood import LanguageModel, Position, Template, spoken, templates
from dialeval.models.needs import Need
from dialeval.models.untrusted import read_setting
from dialeval.scores import Scores

_SHIPPED = ("followups", "fed_followups")
_MOST = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class ReactionSet:
    """Friendly and annoyed follow-ups for one dimension, and where they are asked for."""

    dimension: str
    positive: tuple[str, ...]
    negative: tuple[str, ...]
    level: Literal["turn", "dialogue"] | None = None

    def counts_at(self, turn: int | None) -> bool:
        """Return whether the dimension is one of turns, or of whole dialogues, as asked."""
        return self.level is None or self.level == ("dialogue" if turn is None else "turn")


def load_sets(name: str) -> tuple[ReactionSet, ...]:
    """Read sets by shipped name or from a TOML file.

    >>> [len(load_sets("followups")[0].positive), len(load_sets("followups")[0].negative)]
    [11, 17]

    Raises:
        DataError: The file is none, or not as it should be; names the place.
    """
    if name in _SHIPPED:
        return _shipped(name)
    with files.open_binary(Path(name).absolute()) as file:
        text = file.read(_MOST + 1)
    if len(text) > _MOST:
        raise DataError(f"more than {_MOST} bytes", file=name)
    try:
        entries = tomllib.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"not TOML: {error}", file=name) from None
    if not entries:
        raise DataError("no dimension in it", file=name, fix="[quality] with positive and negative")
    return tuple(_checked(name, dimension, entries) for dimension in entries)


def sets_mark(name: str) -> str:
    """Name sets in signatures by their content; what cannot be read keeps its name."""
    try:
        found = [[one.dimension, one.positive, one.negative, one.level] for one in load_sets(name)]
    except DataError:
        return name
    digest = hashlib.sha256(json.dumps(found, ensure_ascii=True).encode()).hexdigest()[:12]
    return f"{name}@{digest}" if name in _SHIPPED else digest


@functools.cache
def _shipped(name: str) -> tuple[ReactionSet, ...]:
    text = (resources("dialeval.metrics") / f"{name}.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)
    return tuple(_checked(name, dimension, entries) for dimension in entries)


_Text = Annotated[str, msgspec.Meta(pattern=r"\S")]


class _SetFields(msgspec.Struct, forbid_unknown_fields=True):
    positive: tuple[_Text, ...] = ()
    negative: tuple[_Text, ...] = ()
    level: Literal["turn", "dialogue"] | None = None


def _checked(file: str, dimension: str, entries: dict[str, Any]) -> ReactionSet:
    found: _SetFields = read_setting(entries, dimension, _SetFields, file)
    if not (found.positive or found.negative):
        raise DataError("neither positive nor negative follow-ups", file=file, field=dimension)
    return ReactionSet(dimension, found.positive, found.negative, found.level)


Level = Literal["both", "turn", "dialogue"]
Values = dict[str, tuple[float | None, str | None]]  # value and note by dimension
Normalisation = Literal["token", "none"]
TemplateName = Literal["chatml", "chatml-bare", "prefixes", "eos"]


class _SetDimensions:
    """The dimensions of the shipped sets; of a metric with sets of its own, those."""

    def __get__(self, made: Any, cls: type) -> tuple[str, ...]:
        try:
            return tuple(one.dimension for one in load_sets(made.sets if made else "followups"))
        except DialevalError:
            return ("quality",)


class _AsksModel:
    """A metric that contrasts follow-ups by a language model, with the fields of `Followup`."""

    model: str
    sets: str
    template: TemplateName
    normalisation: Normalisation
    level: Level
    window: int
    speaker: str | None
    overall: ClassVar[str | None] = None

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Ask the model what would be said next."""
        if self.window < 32:
            raise UsageError(f"window={self.window}: at least 32 tokens are needed")
        rows, model = Rows(self), open_model(self.model) if is_here(self.model) else None
        sets, template = load_sets(self.sets), templates()[self.template]
        contrast = FollowupContrast(model, sets, template, self.normalisation, self.window, self.overall)
        for dialogue in dialogues:
            contrast.add(rows, dialogue, self.level, self.speaker)
        return rows.scores()

    def needs(self) -> list[Need]:
        """Refuse to begin without a language model, which reads no encoder; an address is asked later."""
        if not is_here(self.model):
            raise UsageError(MISSING)
        return []

    def provenance(self) -> dict[str, str]:
        """Name model and follow-ups by their contents."""
        return {"model": mark(self.model), "sets": sets_mark(self.sets)}


@metric("followup.v1")
@dataclass(frozen=True)
class Followup(_AsksModel):
    """How much likelier friendly follow-ups are than annoyed ones, after each reply and after the dialogue.

    The value is the mean log-likelihood (per token) of the positive follow-ups minus that of the negative
    ones, per dimension of the `sets`. Needs a language model: `dialeval models pull smollm2-135m-instruct`.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hi"), ("assistant", "Hello!")], "d1")
    >>> [(row.turn, row.dimension) for row in Followup(level="turn").score([chat])]
    [(1, 'quality')]
    """

    model: str = DEFAULT
    sets: str = "followups"
    template: TemplateName = "chatml"
    normalisation: Normalisation = "token"
    level: Level = "both"
    window: int = 1024
    speaker: str | None = None
    language: Language = known_language()
    dimensions: ClassVar[Any] = _SetDimensions()


@dataclass(frozen=True)
class FollowupContrast:
    """Friendly against annoyed follow-ups, as `followup` and `fed` have it."""

    model: LanguageModel | None
    sets: Sequence[ReactionSet]
    template: Template
    normalisation: Normalisation
    window: int
    overall: str | None = None
    """The name of the mean of all dimensions of a level, if it is wanted."""

    def add(self, rows: Rows, dialogue: Dialogue, level: Level, speaker: str | None) -> None:
        """Add one row per dimension for every scored turn, and for the dialogue."""
        turns: list[int | None] = [] if level == "dialogue" else [*scored_turns(dialogue, speaker)]
        turns += [] if level == "turn" else [None]
        reasons = {turn: self._reason(dialogue, turn) for turn in turns}
        found = self.values(dialogue, [turn for turn in turns if reasons[turn] is None])
        names = [*((self.overall,) if self.overall else ()), *(one.dimension for one in self.sets)]
        for turn in turns:
            for name in names:
                value, note = found[turn][name] if turn in found else (None, reasons[turn])
                rows.add(dialogue, turn, name, value, note)

    def values(self, dialogue: Dialogue, turns: Sequence[int | None]) -> dict[int | None, Values]:
        """Return value and note of every dimension for turns that can be scored."""
        sides = {one.number: one.side for one in spoken(dialogue)}
        found: dict[int | None, Values] = {}
        for said, some in self._groups(turns).items():
            if self.model is None:
                break
            asked = [
                Position(turn, "user" if turn is None or sides[turn] == "assistant" else "assistant")
                for turn in some
            ]
            answers = self.model.answer(dialogue, asked, said, self.template, self.window)
            for turn, answer in zip(some, answers, strict=True):
                each = answer.means if self.normalisation == "token" else map(float, answer.totals)
                note = "truncated" if answer.cut else None
                found[turn] = self._contrasts(dict(zip(said, each, strict=True)), turn, note)
        return found

    def _groups(self, turns: Sequence[int | None]) -> dict[tuple[str, ...], list[int | None]]:
        """Bring together what is asked the same: the dialogue is then read once for all of it."""
        found: dict[tuple[str, ...], list[int | None]] = {}
        for turn in turns:
            sets = [one for one in self.sets if one.counts_at(turn)]
            said = dict.fromkeys(text for one in sets for text in one.positive + one.negative)
            found.setdefault(tuple(said), []).append(turn)
        return found

    def _contrasts(self, said: dict[str, float], turn: int | None, note: str | None) -> Values:
        found: Values = {}
        for one in self.sets:
            if not one.counts_at(turn):
                found[one.dimension] = (None, _elsewhere(one))
                continue
            good, bad = (
                sum(said[text] for text in side) / len(side) if side else 0.0
                for side in (one.positive, one.negative)
            )
            found[one.dimension] = (good - bad, note)
        if self.overall:
            values = [value for value, _ in found.values() if value is not None]
            found[self.overall] = (sum(values) / len(values), note)
        return found

    def _reason(self, dialogue: Dialogue, turn: int | None) -> str | None:
        """Return why nothing can be asked, or nothing."""
        if turn is None:
            if not any(takes_part(one) and one.text.strip() for one in dialogue.turns):
                return "nobody says anything"
        elif not dialogue.turns[turn].text.strip():
            return "empty reply"
        elif not takes_part(dialogue.turns[turn]):
            return "no part of the conversation"
        if self.model is None:
            return MISSING
        fitting = [one for one in self.sets if one.counts_at(turn)]
        return None if fitting else _elsewhere(self.sets[0])


def _elsewhere(one: ReactionSet) -> str:
    return f"asked of {'whole dialogues' if one.level == 'dialogue' else 'turns'} only"


TURN = (
    "interesting",
    "engaging",
    "specific",
    "relevant",
    "correct",
    "semantically appropriate",
    "understandable",
    "fluent",
)
DIALOGUE = (
    "coherent",
    "error recovery",
    "consistent",
    "diverse",
    "depth",
    "likeable",
    "understanding",
    "flexible",
    "informative",
    "inquisitive",
)


@metric("fed.v1")
@dataclass(frozen=True)
class Fed(_AsksModel):
    """FED's eight qualities of turns and ten of dialogues, each with its follow-ups; `overall` is their mean.

    Needs a language model: `dialeval models pull smollm2-135m-instruct`, or one of the Hub.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hi"), ("assistant", "Hello!")], "d1")
    >>> len({row.dimension for row in Fed().score([chat])})
    19
    """

    model: str = DEFAULT
    template: TemplateName = "chatml"
    normalisation: Normalisation = "token"
    level: Level = "both"
    window: int = 1024
    speaker: str | None = None
    language: Language = known_language()
    sets: ClassVar[str] = "fed_followups"  # type: ignore[misc]  # no field of its own
    overall: ClassVar[str | None] = "overall"
    dimensions: ClassVar[tuple[str, ...]] = ("overall", *TURN, *DIALOGUE)
