"""Turns to show to a reader: cut to a length, with the score of each and what it is there for."""

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
    """A turn as it was said, cut to a length, with its score.

    Its role is `reply` (the one in question), `before` or `next` to it, `other` (what another version said in
    its place), or nothing.
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
        """Take a turn of a dialogue, at most so many characters of it."""
        turn = dialogue.turns[number]
        return cls(number, turn.speaker, turn.text[:most], max(0, len(turn.text) - most), role, score)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Turns of one dialogue, and why they are shown.

    Attributes:
        turns: Those that are shown, in order.
        left_out: How many of the dialogue's turns are not, where that is worth saying.
        reasons: Why it is here.
        faults: What was found in the reply in question.
        values: What the gold and the sources say of it.
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
        """The turn in question; of several the first."""
        return next(turn for turn in self.turns if turn.role == "reply")


def turns_around(
    dialogue: Dialogue, number: int, before: Iterable[int], after: int | None, most: int, score: TurnValue
) -> tuple[ShownTurn, ...]:
    """Take the turns before a reply, the reply with its score, and what was said next."""
    return (
        *(ShownTurn.of(dialogue, place, most, "before") for place in before),
        ShownTurn.of(dialogue, number, most, "reply", score),
        *(() if after is None else (ShownTurn.of(dialogue, after, most, "next"),)),
    )
