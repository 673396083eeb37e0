"""The metric `user-reaction`: how users react to each reply of a finished log."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.dialogues.signals import logged_sentiment, next_turns
from dialeval.errors import UsageError
from dialeval.metrics.registry import (
    Aggregate,
    Language,
    OpensModels,
    Rows,
    encoded_chunks,
    known_language,
    metric,
    model_field,
)
from dialeval.models import reactions
from dialeval.models.reactions import Reactions
from dialeval.scores import Scores

QUALITY, SENTIMENT, CONTINUE = "quality", "sentiment", "continue"


@metric("user-reaction.v1")
@dataclass(frozen=True)
class UserReaction(OpensModels):
    """Quality of a reply, read from the user's next turn.

    `sentiment` (-3 to 3), `continue` (0, 1), and their sum `quality`.

    The sentiment is read from the next turn beside the reply: "no" to a question is no complaint. A log that
    knows better names the `field` of the user turn's meta that holds it, and its `low` and `high`; turns
    without it are read as text. `continue` is 0 where the user ends the dialogue: with a last turn, with
    "stop", or where the log says so. Dialogues have the figure of their turns by `aggregate`.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "where is the station?"), ("assistant", "I like dogs."),
    ...     ("user", "that's not what i asked"), ("assistant", "Down the road."), ("user", "thanks!")], "d1")
    >>> found = UserReaction().score([chat]).where(dimension="quality")
    >>> [(row.turn, round(row.value, 1)) for row in found]
    [(1, -0.8), (3, 2.9), (None, 1.0)]
    """

    field: str | None = None
    low: float = -3.0
    high: float = 3.0
    model: str = model_field(reactions.DEFAULT, Reactions.load)
    aggregate: Aggregate = "mean"
    speaker: str | None = None
    language: Language = known_language()
    dimensions: ClassVar[tuple[str, ...]] = (QUALITY, SENTIMENT, CONTINUE)

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Read what came after each reply."""
        if not self.low < self.high:
            raise UsageError(f"user-reaction: low={self.low} must be below high={self.high}")
        rows = Rows(self)
        for chunk in encoded_chunks(self, dialogues):
            for dialogue, signals in zip(chunk, self.signals(chunk), strict=True):
                self._add(rows, dialogue, signals)
        return rows.scores()

    def signals(self, dialogues: list[Dialogue]) -> list[dict[int, tuple[float | None, bool]]]:
        """Return the sentiment, if somebody answers, and whether the user goes on, for every reply."""
        turns = [scored_turns(dialogue, self.speaker) for dialogue in dialogues]
        asked = [reactions.exchanges(*pair) for pair in zip(dialogues, turns, strict=True)]
        sentiments = [self._logged(*pair) for pair in zip(dialogues, turns, strict=True)]
        open_ones = [
            (place, turn)
            for place, exchanges in enumerate(asked)
            for turn in exchanges.keys() - sentiments[place]
        ]
        values = Reactions.load(self.model).sentiments([asked[place][turn] for place, turn in open_ones])
        for (place, turn), value in zip(open_ones, values, strict=True):
            sentiments[place][turn] = float(value)
        following = [next_turns(dialogue) for dialogue in dialogues]
        return [
            {turn: (sentiments[place].get(turn), following[place][turn].goes_on) for turn in scored}
            for place, scored in enumerate(turns)
        ]

    def _logged(self, dialogue: Dialogue, turns: list[int]) -> dict[int, float]:
        logged: dict[int, float] = {}
        if self.field is None:
            return logged
        following = next_turns(dialogue)
        for turn in turns:
            answer = following[turn].turn
            if answer is not None:
                value = logged_sentiment(dialogue.turns[answer].meta, self.field, self.low, self.high)
                logged |= {} if value is None else {turn: value}
        return logged

    def _add(self, rows: Rows, dialogue: Dialogue, signals: dict[int, tuple[float | None, bool]]) -> None:
        by_name: dict[str, dict[int, float]] = {name: {} for name in self.dimensions}
        for turn, (sentiment, goes_on) in signals.items():
            figures = {
                QUALITY: None if sentiment is None else sentiment + goes_on,
                SENTIMENT: sentiment,
                CONTINUE: float(goes_on),
            }
            for name, value in figures.items():
                rows.add(dialogue, turn, name, value, "no user turn after it" if value is None else None)
                by_name[name] |= {} if value is None else {turn: value}
        for name, values in by_name.items():
            rows.add_dialogue(dialogue, name, values, self.aggregate, "no reply with a user turn after it")
