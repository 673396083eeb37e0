"""What kind of evaluation a study is, read off its scores: the record of `dialeval.scores.taxonomy`.

Most of it shows in the rows: a first-party rating (`human:user`) is a participant's, who can only have talked
to the system itself; a reply to a fixed context bears the name of that context. How the contexts came about
is also said by the signatures of ratings that were collected here.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dialeval.dialogues.contexts import conversation_of
from dialeval.scores import Scores, is_human
from dialeval.scores.taxonomy import PARTICIPANT, Schema, Setting, setting_in
from dialeval.studies.units import Column

if TYPE_CHECKING:
    from dialeval.studies.meta_evaluation import Settings


def schema_of(
    scores: Scores, gold: Sequence[Column], columns: Sequence[Column], settings: "Settings"
) -> Schema:
    """Read the taxonomy off a study's columns; `settings.context` goes before what the scores show."""
    people = [source for source in scores.sources if is_human(source)]
    took_part, looked_on = PARTICIPANT in people, any(source != PARTICIPANT for source in people)
    measured = [gold[0].dimension] if gold else list(dict.fromkeys(one.dimension for one in columns))
    return Schema(
        metric=", ".join(measured) or "nothing",
        evaluator="human and automatic" if people and columns else "human" if people else "automatic",
        context=settings.context or _setting(scores, people),
        participation="participant and bystander"
        if took_part and looked_on
        else "participant"
        if took_part
        else "bystander"
        if looked_on
        else "none",
        level=settings.level or "dialogue",
    )


def _setting(scores: Scores, people: Sequence[str]) -> Setting:
    """Say how contexts came about: as the ratings' signatures have it, else as names and raters show."""
    said = setting_in(scores.signatures[source] for source in people if source in scores.signatures)
    if said != "not said":
        return said
    names = scores.table["dialogue_id"].unique().to_pylist()
    if names and all(conversation_of(name) != name for name in names):
        return "static"
    return "dynamic" if PARTICIPANT in people else "not said"
