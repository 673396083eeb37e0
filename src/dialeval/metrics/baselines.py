"""Honest trivial baselines: a learned metric that does not beat these has learned nothing."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.metrics.registry import Better, Rows, metric
from dialeval.scores import Scores

_WORD = re.compile(r"\w+|[^\w\s]")


def words(text: str) -> list[str]:
    """Split text into lower-cased words and punctuation marks.

    >>> words("Oh no, it's late!")
    ['oh', 'no', ',', 'it', "'", 's', 'late', '!']
    """
    return _WORD.findall(text.lower())


@metric("turns.v1")
@dataclass(frozen=True)
class Turns:
    """Number of turns of a dialogue: a baseline.

    Long dialogues are often, and wrongly, taken for good ones.

    >>> from dialeval.dialogues import dialogue
    >>> [row.value for row in Turns().score([dialogue([("user", "Hi"), ("assistant", "Hello")], "d1")])]
    [2.0]
    """

    dimensions: ClassVar[tuple[str, ...]] = ("turns",)
    better: ClassVar[Better] = "neither"

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Count the turns of each dialogue."""
        rows = Rows(self)
        for dialogue in dialogues:
            rows.add(dialogue, None, "turns", len(dialogue.turns))
        return rows.scores()


@metric("length.v1")
@dataclass(frozen=True)
class Length:
    """Number of words of a turn: a baseline.

    Words are separated by whitespace.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hi"), ("assistant", "Hello to you!")], "d1")
    >>> [row.value for row in Length().score([chat])]
    [3.0]
    """

    speaker: str | None = None
    dimensions: ClassVar[tuple[str, ...]] = ("words",)
    better: ClassVar[Better] = "neither"

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Count the words of each scored turn."""
        rows = Rows(self)
        for dialogue in dialogues:
            for number in scored_turns(dialogue, self.speaker):
                rows.add(dialogue, number, "words", len(dialogue.turns[number].text.split()))
        return rows.scores()


@metric("repetition.v1")
@dataclass(frozen=True)
class Repetition:
    """Share of n-grams that the same speaker said before; lower is better.

    At turn level, against everything this speaker said up to there; at dialogue level, over all scored turns.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hi"), ("assistant", "I am old, old, old, old, old, old.")], "d1")
    >>> round(next(iter(Repetition().score([chat]))).value, 3)
    0.583
    """

    n: int = 3
    speaker: str | None = None
    dimensions: ClassVar[tuple[str, ...]] = ("repetition",)
    better: ClassVar[Better] = "lower"

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Return one row for each scored turn and one for the dialogue."""
        rows = Rows(self)
        for dialogue in dialogues:
            self._add(rows, dialogue)
        return rows.scores()

    def _add(self, rows: Rows, dialogue: Dialogue) -> None:
        seen_by_speaker: dict[str, Counter[tuple[str, ...]]] = {}
        scored, all_grams, all_repeated = set(scored_turns(dialogue, self.speaker)), 0, 0
        for number, turn in enumerate(dialogue.turns):
            seen = seen_by_speaker.setdefault(turn.speaker, Counter())
            tokens = words(turn.text)
            grams = list(zip(*(tokens[shift:] for shift in range(self.n)), strict=False))
            before = len(seen)
            seen.update(grams)
            if number not in scored:
                continue
            repeated = len(grams) - (len(seen) - before)
            all_grams, all_repeated = all_grams + len(grams), all_repeated + repeated
            too_short = None if grams else f"fewer than {self.n} words"
            rows.add(dialogue, number, "repetition", repeated / len(grams) if grams else None, too_short)
        none = None if all_grams else f"no turn of {self.n} words or more"
        rows.add(dialogue, None, "repetition", all_repeated / all_grams if all_grams else None, none)
