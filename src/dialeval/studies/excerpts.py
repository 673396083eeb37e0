"""Excerpts of dialogues for a reader: turns cut to a length, with their scores and roles."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from dialeval.dialogues import Dialogue

Role = Literal["", "before", "reply", "next", "other"]


@dataclass(frozen=True, slots=True)
class TurnValue:
    """The score of a turn (None: unscored), and the notes beside it."""

    value: float | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """A turn, cut to a length, with its score.

    Its role is `reply` (the turn in question), `before`, `next`, `other` (another version's reply in the same
    place), or empty.
    """

    number: int
    speaker: str
    text: str
    left_out: int
    role: Role = ""
    score: TurnValue | None = None

    @classmethod
    def of(
        cls, dialogue: Dialogue, number: int, most: int, role: Role = "", score: TurnValue | None = None
    ) -> "ShownTurn":
        """Return a turn of a dialogue, cut to `most` characters."""
        turn = dialogue.turns[number]
        return cls(number, turn.speaker, turn.text[:most], max(0, len(turn.text) - most), role, score)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Turns of one dialogue, and why they are shown.

    Attributes:
        turns: The shown turns, in order.
        left_out: How many turns of the dialogue are not shown, where a reader should know.
        reasons: Why the excerpt was chosen.
        faults: The faults of the reply in question.
        values: Its gold rating and scores, by label.
    """

    dialogue_id: str
    system: str | None
    turns: tuple[ShownTurn, ...]
    left_out: int = 0
    reasons: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    values: dict[str, float] = field(default_factory=dict)

    @property
    def reply(self) -> ShownTurn:
        """The turn in question, or the first of several."""
        return next(turn for turn in self.turns if turn.role == "reply")


def turns_around(
    dialogue: Dialogue, number: int, before: Iterable[int], after: int | None, most: int, score: TurnValue
) -> tuple[ShownTurn, ...]:
    """Return the turns before a reply, the reply with its score, and the next turn."""
    return (
        *(ShownTurn.of(dialogue, index, most, "before") for index in before),
        ShownTurn.of(dialogue, number, most, "reply", score),
        *(() if after is None else (ShownTurn.of(dialogue, after, most, "next"),)),
    )
