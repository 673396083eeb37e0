"""Replies with a bad score, each in its surroundings, and the list of the worst so far."""

from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from dialeval.dialogues import Dialogue, takes_part
from dialeval.reports.failures import Rule

MOST = 20  # turns shown
EACH = 2  # of one dialogue
AROUND = 2  # turns shown before a bad one
MOST_CHARACTERS = 600


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """A turn as a report shows it; its role is `before`, `reply` (the bad one) or `next`."""

    number: int
    speaker: str
    text: str
    left_out: int
    role: str


@dataclass(frozen=True, slots=True)
class BadTurn:
    """A reply with a bad score, what was said around it, and what the rules found."""

    dialogue_id: str
    system: str | None
    number: int
    value: float
    turns: tuple[ShownTurn, ...]
    failures: tuple[Rule, ...] = ()

    @property
    def speaker(self) -> str:
        """Who gave the reply."""
        return next(turn.speaker for turn in self.turns if turn.role == "reply")


@dataclass(slots=True)
class WorstTurns:
    """The replies that may yet be shown: the lower the first number the worse; then come more failures."""

    most: int
    ranked: list[tuple[float, int, int, int, BadTurn]] = field(default_factory=list)
    seen: int = 0
    limit: float = np.inf

    def take(self, badness: float, failures: int, row: int, turn: BadTurn) -> None:
        """Take one more, and forget the better ones now and then."""
        self.seen += 1
        self.ranked.append((badness, -failures, self.seen, row, turn))
        if len(self.ranked) >= 4 * self.most:
            self.cut()

    def cut(self) -> None:
        """Keep the worst, in order."""
        self.ranked = sorted(self.ranked, key=lambda one: one[:3])[: self.most]
        if len(self.ranked) == self.most:
            self.limit = self.ranked[-1][0] if self.most else -np.inf


def surroundings(dialogue: Dialogue, number: int, answer: int | None) -> tuple[ShownTurn, ...]:
    """Take the turns before a reply, the reply, and what was said next, each cut to a length."""
    earlier = (place for place in range(number - 1, -1, -1) if takes_part(dialogue.turns[place]))
    before = [(place, "before") for place in islice(earlier, AROUND)][::-1]
    after = [] if answer is None else [(answer, "next")]
    return tuple(
        ShownTurn(
            place,
            dialogue.turns[place].speaker,
            dialogue.turns[place].text[:MOST_CHARACTERS],
            max(0, len(dialogue.turns[place].text) - MOST_CHARACTERS),
            role,
        )
        for place, role in [*before, (number, "reply"), *after]
    )
