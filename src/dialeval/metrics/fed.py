"""The FED metric: eighteen qualities of a dialogue, by what a language model expects the user to say next.

Mehri and Eskenazi (SIGDIAL 2020) take a quality to be there where fitting follow-ups are likely and unfitting
ones are not. The follow-ups here are our own, in that spirit, and part of the signature. The faithful setting
is `model=hub:microsoft/DialoGPT-large,template=eos` (extra `[train]`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from dialeval.dialogues import Dialogue
from dialeval.metrics.followup import Contrast, Level, Normalisation, TemplateName, opened
from dialeval.metrics.reaction_sets import load_sets, sets_mark
from dialeval.metrics.registry import Rows, metric
from dialeval.models.language_model import DEFAULT, mark
from dialeval.models.templates import templates
from dialeval.scores import Scores

SETS = "fed_followups"
OVERALL = "overall"
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
class Fed:
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
    dimensions: ClassVar[tuple[str, ...]] = (OVERALL, *TURN, *DIALOGUE)

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Ask the model what would be said next."""
        rows, model = Rows(self), opened(self.model, self.window)
        contrast = Contrast(
            model, load_sets(SETS), templates()[self.template], self.normalisation, self.window, OVERALL
        )
        for dialogue in dialogues:
            contrast.add(rows, dialogue, self.level, self.speaker)
        return rows.scores()

    def provenance(self) -> dict[str, str]:
        """Name model and follow-ups by their contents."""
        return {"model": mark(self.model), "sets": sets_mark(SETS)}
