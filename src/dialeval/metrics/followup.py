"""The metrics `followup` and `fed`: likelihoods of pleased and annoyed follow-ups by a language model.

What people say next tells how it went. So does what a language model expects them to say: where it finds
"You're really boring." likelier than elsewhere, and "Great, tell me more!" less so, it has seen a dialogue
that goes badly (Mehri and Eskenazi, SIGDIAL 2020). What is asked for are *sets* of follow-ups: what users say
after something good and after something bad, by dimension, as TOML.

Their FED takes eighteen qualities to be there where fitting follow-ups are likely and unfitting ones are not.
The follow-ups here are our own, in that spirit, and part of the signature. The faithful setting is
`model=hub:microsoft/DialoGPT-large,template=eos` (extra `[train]`).
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from dialeval.dialogues import Dialogue
from dialeval.errors import DataError, DialevalError, UsageError
from dialeval.metrics.registry import Language, Rows, asked_turns, known_language, metric, unspoken
from dialeval.models.language_model import DEFAULT, MISSING, is_here, mark, open_model
from dialeval.models.likelihood import LanguageModel, Position, spoken, templates
from dialeval.models.needs import Need
from dialeval.models.untrusted import content_mark, read_setting, read_tables
from dialeval.scores import Scores

_SHIPPED = ("followups", "fed_followups")


_Text = Annotated[str, msgspec.Meta(pattern=r"\S")]


class ReactionSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Friendly and annoyed follow-ups for one dimension, and where they are asked for."""

    positive: tuple[_Text, ...] = ()
    negative: tuple[_Text, ...] = ()
    level: Literal["turn", "dialogue"] | None = None

    def counts_at(self, turn: int | None) -> bool:
        """Return whether the dimension is one of turns, or of whole dialogues, as asked."""
        return self.level is None or self.level == ("dialogue" if turn is None else "turn")

    @property
    def elsewhere(self) -> str:
        """The note of what it is not asked about."""
        return f"asked of {'whole dialogues' if self.level == 'dialogue' else 'turns'} only"


@functools.lru_cache(maxsize=8)
def _shipped(name: str) -> dict[str, ReactionSet]:
    return _read(name)


def load_sets(name: str) -> dict[str, ReactionSet]:
    """Read sets by shipped name or from a TOML file, by their dimensions.

    >>> [len(load_sets("followups")["quality"].positive), len(load_sets("followups")["quality"].negative)]
    [11, 17]

    Raises:
        DataError: The file is none, or not as it should be; names the place.
    """
    return _shipped(name) if name in _SHIPPED else _read(name)


def _read(name: str) -> dict[str, ReactionSet]:
    entries = read_tables(name, _SHIPPED, "dialeval.metrics")
    if not entries:
        raise DataError("no dimension in it", file=name, fix="[quality] with positive and negative")
    sets: dict[str, ReactionSet] = {key: read_setting(entries, key, ReactionSet, name) for key in entries}
    if empty := [key for key, reactions in sets.items() if not (reactions.positive or reactions.negative)]:
        raise DataError("neither positive nor negative follow-ups", file=name, field=empty[0])
    return sets


def sets_mark(name: str) -> str:
    """Name sets in signatures by their content; what cannot be read keeps its name."""
    try:
        sets = load_sets(name)
    except DataError:
        return name
    content = [
        [key, reactions.positive, reactions.negative, reactions.level] for key, reactions in sets.items()
    ]
    return content_mark(name, _SHIPPED, content)


Sets = Mapping[str, ReactionSet]
Level = Literal["both", "turn", "dialogue"]
Values = dict[str, tuple[float | None, str | None]]  # value and note by dimension
Normalisation = Literal["token", "none"]
TemplateName = Literal["chatml", "chatml-bare", "prefixes", "eos"]


class _SetDimensions:
    """The dimensions of the shipped sets; of a metric with sets of its own, those."""

    def __get__(self, instance: Any, cls: type) -> tuple[str, ...]:
        try:
            return tuple(load_sets(instance.sets if instance else "followups"))
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
    """The name of the mean of all dimensions of a level, if it is wanted."""

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Ask the model what would be said next."""
        if self.window < 32:
            raise UsageError(f"window={self.window}: at least 32 tokens are needed")
        rows, model = Rows(self), open_model(self.model) if is_here(self.model) else None
        for dialogue in dialogues:
            self._add(rows, dialogue, model)
        return rows.scores()

    def needs(self) -> list[Need]:
        """Refuse to begin without a language model, which reads no encoder; an address is asked later."""
        if not is_here(self.model):
            raise UsageError(MISSING)
        return []

    def provenance(self) -> dict[str, str]:
        """Name model and follow-ups by their contents."""
        return {"model": mark(self.model), "sets": sets_mark(self.sets)}

    def _add(self, rows: Rows, dialogue: Dialogue, model: LanguageModel | None) -> None:
        """Add one row per dimension for every scored turn, and for the dialogue."""
        sets = load_sets(self.sets)
        turns = asked_turns(dialogue, self.speaker, self.level)
        missing = MISSING if model is None else None
        reasons = {turn: unspoken(dialogue, turn) or missing or _unasked(sets, turn) for turn in turns}
        asked = [turn for turn in turns if reasons[turn] is None]
        values = self._values(dialogue, asked, sets, model) if model else {}
        names = [*((self.overall,) if self.overall else ()), *sets]
        for turn in turns:
            for name in names:
                value, note = values[turn][name] if turn in values else (None, reasons[turn])
                rows.add(dialogue, turn, name, value, note)

    def _values(
        self, dialogue: Dialogue, turns: Sequence[int | None], sets: Sets, model: LanguageModel
    ) -> dict[int | None, Values]:
        """Return value and note of every dimension for turns that can be scored."""
        sides = {turn.number: turn.side for turn in spoken(dialogue)}
        values: dict[int | None, Values] = {}
        for texts, group in _groups(turns, sets).items():
            asked = [
                Position(turn, "user" if turn is None or sides[turn] == "assistant" else "assistant")
                for turn in group
            ]
            answers = model.answer(dialogue, asked, texts, templates()[self.template], self.window)
            for turn, answer in zip(group, answers, strict=True):
                likelihoods = answer.means if self.normalisation == "token" else map(float, answer.totals)
                note = "truncated" if answer.cut else None
                values[turn] = self._contrasts(dict(zip(texts, likelihoods, strict=True)), turn, sets, note)
        return values

    def _contrasts(
        self, likelihoods: dict[str, float], turn: int | None, sets: Sets, note: str | None
    ) -> Values:
        contrasts: Values = {}
        for name, reactions in sets.items():
            if not reactions.counts_at(turn):
                contrasts[name] = (None, reactions.elsewhere)
                continue
            good, bad = (
                sum(likelihoods[text] for text in side) / len(side) if side else 0.0
                for side in (reactions.positive, reactions.negative)
            )
            contrasts[name] = (good - bad, note)
        if self.overall:
            values = [value for value, _ in contrasts.values() if value is not None]
            contrasts[self.overall] = (sum(values) / len(values), note)
        return contrasts


def _groups(turns: Sequence[int | None], sets: Sets) -> dict[tuple[str, ...], list[int | None]]:
    """Group turns that are asked the same texts, so that the dialogue is read once for each group."""
    groups: dict[tuple[str, ...], list[int | None]] = {}
    for turn in turns:
        asked = [reactions for reactions in sets.values() if reactions.counts_at(turn)]
        texts = dict.fromkeys(text for reactions in asked for text in reactions.positive + reactions.negative)
        groups.setdefault(tuple(texts), []).append(turn)
    return groups


def _unasked(sets: Sets, turn: int | None) -> str | None:
    is_asked = any(reactions.counts_at(turn) for reactions in sets.values())
    return None if is_asked else next(iter(sets.values())).elsewhere


@metric("followup.v1")
@dataclass(frozen=True)
class Followup(_AsksModel):
    """Log-likelihood of friendly minus annoyed follow-ups by a language model.

    Computed after each reply and after the dialogue.

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
    """FED: eight qualities of turns and ten of dialogues, and their mean.

    Each quality has its own follow-ups; `overall` is their mean.

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
