"""What kind of evaluation a study is: the taxonomy of Gandhe and Traum (2014) as a small record.

What is measured, who judges, how the contexts came about, whether the judge took part, and what one judgement
is about. Most of it shows in the scores: a first-party rating (`human:user`) is a participant's, who can only
have talked to the system itself; a reply to a fixed context bears the name of that context.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dialeval.dialogues.contexts import conversation_of
from dialeval.scores import Scores, is_human
from dialeval.studies.units import Column, Level

if TYPE_CHECKING:
    from dialeval.studies.meta_evaluation import Settings

PARTICIPANT = "human:user"


@dataclass(frozen=True, slots=True)
class Schema:
    """The five decisions behind an evaluation.

    Attributes:
        metric: What is measured: the dimension that counts as gold, or what the sources measure.
        evaluator: Who judges: people, programs, or both of them on the same units.
        context: Whether the system's own replies became the context (`dynamic`) or not (`static`).
        participation: Whether those who judge took part in the dialogues or looked on.
        level: What one judgement is about.
    """

    metric: str
    evaluator: Literal["human", "automatic", "human and automatic"]
    context: Literal["static", "dynamic", "not said"]
    participation: Literal["participant", "bystander", "participant and bystander", "none"]
    level: Level


def schema_of(
    scores: Scores, gold: Sequence[Column], columns: Sequence[Column], settings: "Settings"
) -> Schema:
    """Read the taxonomy off a study's columns; `settings.context` goes before what the scores show."""
    people = [source for source in scores.sources if is_human(source)]
    took_part, looked_on = PARTICIPANT in people, any(source != PARTICIPANT for source in people)
    measured = [gold[0].dimension] if gold else list(dict.fromkeys(one.dimension for one in columns))
    names = scores.table["dialogue_id"].unique().to_pylist()
    static = bool(names) and all(conversation_of(name) != name for name in names)
    context: Literal["static", "dynamic", "not said"] = "not said"
    if static:
        context = "static"
    elif took_part:
        context = "dynamic"
    return Schema(
        metric=", ".join(measured) or "nothing",
        evaluator="human and automatic" if people and columns else "human" if people else "automatic",
        context=settings.context or context,
        participation="participant and bystander"
        if took_part and looked_on
        else "participant"
        if took_part
        else "bystander"
        if looked_on
        else "none",
        level=settings.level or "dialogue",
    )
