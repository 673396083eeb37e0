"""A metric: does the bot answer, or only say back what it was told?"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from dialeval import Dialogue, Scores, metric
from dialeval.dialogues import scored_turns
from dialeval.metrics import Better, Rows


@metric("echo.v1")
@dataclass(frozen=True)
class Echo:
    """Share of a turn's words that the turn before has too; lower is better."""

    shortest: int = 3
    speaker: str | None = None
    dimensions: ClassVar[tuple[str, ...]] = ("echo",)
    better: ClassVar[Better] = "lower"

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Give one row for each scored turn."""
        rows = Rows(self)
        for dialogue in dialogues:
            for number in scored_turns(dialogue, self.speaker):
                said = _words(dialogue.turns[number].text)
                heard = set(_words(dialogue.turns[number - 1].text))
                if len(said) < self.shortest:
                    rows.add(dialogue, number, "echo", None, f"fewer than {self.shortest} words")
                else:
                    rows.add(dialogue, number, "echo", sum(word in heard for word in said) / len(said))
        return rows.scores()


def _words(text: str) -> list[str]:
    return [word.strip(".,!?") for word in text.lower().split()]
