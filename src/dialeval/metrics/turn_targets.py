"""What a scorer of replies learns from: the user's next turn, or what people said of the reply.

Three signals come from a user's next turn. Its `sentiment`, -3 to 3, beside the reply; the `stop` signal, 1
where the user goes on and 0 where the dialogue ends; and its `uptake`, the similarity of what the user says
next to what was replied: people take up what made sense to them. The paper adds the first two as they are.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from dialeval.dialogues import Dialogue, scored_turns, takes_part
from dialeval.dialogues.signals import next_turns
from dialeval.metrics.user_reaction import UserReaction
from dialeval.models.encoder import Encoder
from dialeval.models.turn_vectors import turn_vectors

if TYPE_CHECKING:
    from dialeval.models.training import PairExample

QUALITY = "quality"
TARGETS = ("sentiment", "sentiment+stop", "sentiment+stop+uptake", "stop+uptake", "label")
GOING_ON, TAKING_UP = 4.0, 8.0
"""Weights that make the three signals vary about alike in human-bot logs (deviations of .85, .37 and .2)."""
T = TypeVar("T")
Signals = dict[tuple[str, int], float]
_AT_ONCE = 256  # dialogues read together
_MOST_BEFORE = 60  # turns of context that a cross-encoder is given


class TurnTargets:
    """The target of each reply of the dialogues that are being read.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Is it far?"), ("assistant", "I like dogs."),
    ...     ("user", "That is not what I asked."), ("assistant", "Two miles."), ("user", "Thanks!")])
    >>> given = TurnTargets("sentiment+stop")
    >>> list(given.reading([chat], lambda some: [round(given(chat, turn)["quality"], 1) for turn in (1, 3)]))
    [-1.2, 2.8]
    """

    def __init__(self, target: str) -> None:
        self.target, self._known = target, Signals()

    def reading(
        self, dialogues: Iterable[Dialogue], made: Callable[[list[Dialogue]], Iterable[T]]
    ) -> Iterator[T]:
        """Make examples, some dialogues at a time: what their users said next is read in one go."""
        stream = iter(dialogues)
        while some := list(islice(stream, _AT_ONCE)):
            self._known = _labels(some) if self.target == "label" else self._signals(some)
            yield from made(some)

    def __call__(self, dialogue: Dialogue, turn: int) -> dict[str, float] | None:
        """Give the target of a reply of the dialogues that are being read, if it has one."""
        found = self._known.get((dialogue.id, turn))
        return None if found is None or not dialogue.turns[turn].text.strip() else {QUALITY: found}

    def pairs(self, dialogues: list[Dialogue]) -> "Iterator[PairExample]":
        """Make examples for a cross-encoder."""
        from dialeval.models.training import PairExample

        for dialogue in dialogues:
            for turn in scored_turns(dialogue):
                targets = self(dialogue, turn)
                if targets is not None:
                    yield PairExample(said_before(dialogue, turn), dialogue.turns[turn].text, targets)

    def _signals(self, dialogues: list[Dialogue]) -> Signals:
        """Read the next user turns; a sentiment in the log, `sentiment` in a turn's meta, comes first."""
        taken_up = _uptake(dialogues) if "uptake" in self.target else {}
        going_on = {"sentiment": 0.0, "sentiment+stop": 1.0}.get(self.target, GOING_ON)
        moved = 1.0 if "sentiment" in self.target else 0.0
        found = UserReaction(field="sentiment").signals(dialogues)
        return {
            (dialogue.id, turn): moved * sentiment
            + going_on * goes_on
            + TAKING_UP * taken_up.get((dialogue.id, turn), 0.0)
            for dialogue, signals in zip(dialogues, found, strict=True)
            for turn, (sentiment, goes_on) in signals.items()
            if sentiment is not None
        }


def said_before(dialogue: Dialogue, turn: int) -> tuple[str, ...]:
    """Return what came before a turn, as much of it as any cross-encoder here can take."""
    return tuple(one.text for one in dialogue.turns[max(0, turn - _MOST_BEFORE) : turn] if takes_part(one))


def _labels(dialogues: list[Dialogue]) -> Signals:
    return {
        (dialogue.id, number): float(turn.meta["label"])
        for dialogue in dialogues
        for number, turn in enumerate(dialogue.turns)
        if isinstance(turn.meta.get("label"), int | float)
    }


def _uptake(dialogues: list[Dialogue]) -> Signals:
    """Compare every turn with what somebody else said next."""
    found: Signals = {}
    for seen in turn_vectors(Encoder.load(), dialogues):
        for turn, following in enumerate(next_turns(seen.dialogue)):
            if following.turn is not None:
                cosine = float(seen.vectors[turn] @ seen.vectors[following.turn])
                found[seen.dialogue.id, turn] = cosine
    return found
