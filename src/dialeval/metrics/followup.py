"""Would a user be pleased or annoyed now? The metric `followup` asks a language model; nothing is trained.

What people say next tells how it went. So does what a language model expects them to say: where it finds
"You're really boring." likelier than elsewhere, and "Great, tell me more!" less so, it has seen a dialogue
that goes badly (Mehri and Eskenazi, SIGDIAL 2020).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.dialogues.dialogue import takes_part
from dialeval.errors import DialevalError, UsageError
from dialeval.metrics.reaction_sets import ReactionSet, load_sets, sets_mark
from dialeval.metrics.registry import Rows, metric
from dialeval.models.language_model import DEFAULT, MISSING, is_here, mark, open_model
from dialeval.models.likelihood import LanguageModel, Question
from dialeval.models.templates import Template, spoken, templates
from dialeval.scores import Scores

Level = Literal["both", "turn", "dialogue"]
Values = dict[str, tuple[float | None, str | None]]  # value and note by dimension
Normalisation = Literal["token", "none"]
TemplateName = Literal["chatml", "chatml-bare", "prefixes", "eos"]


class _Dimensions:
    """The dimensions of the shipped sets; of a metric with sets of its own, those."""

    def __get__(self, made: Any, cls: type) -> tuple[str, ...]:
        try:
            return tuple(one.dimension for one in load_sets(made.sets if made else "followups"))
        except DialevalError:
            return ("quality",)


@metric("followup.v1")
@dataclass(frozen=True)
class Followup:
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
    dimensions: ClassVar[Any] = _Dimensions()

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Ask the model what would be said next."""
        rows, model = Rows(self), opened(self.model, self.window)
        contrast = Contrast(
            model, load_sets(self.sets), templates()[self.template], self.normalisation, self.window
        )
        for dialogue in dialogues:
            contrast.add(rows, dialogue, self.level, self.speaker)
        return rows.scores()

    def provenance(self) -> dict[str, str]:
        """Name model and follow-ups by their contents."""
        return {"model": mark(self.model), "sets": sets_mark(self.sets)}


def opened(name: str, window: int) -> LanguageModel | None:
    """Open a language model; none if it is the default, which has to be pulled, and is not there."""
    if window < 32:
        raise UsageError(f"window={window}: at least 32 tokens are needed")
    return open_model(name) if is_here(name) else None


@dataclass(frozen=True)
class Contrast:
    """Friendly against annoyed follow-ups, as `followup` and `fed` have it."""

    model: LanguageModel | None
    sets: Sequence[ReactionSet]
    template: Template
    normalisation: Normalisation
    window: int
    overall: str | None = None
    """What the mean of all dimensions of a level is called, if it is wanted."""

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
        """Give value and note of every dimension for turns that can be scored."""
        sides = {one.number: one.side for one in spoken(dialogue)}
        found: dict[int | None, Values] = {}
        for said, some in self._groups(turns).items():
            if self.model is None:
                break
            asked = [
                Question(turn, "user" if turn is None or sides[turn] == "assistant" else "assistant")
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
        """Say why nothing can be asked, or nothing."""
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
