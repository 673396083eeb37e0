"""What kind of evaluation ratings come from: the taxonomy of Gandhe and Traum (2014) as a small record.

What is measured, who judges, how the contexts came about, whether the judge took part, and what one judgement
is about. Whoever collects ratings knows; the record travels with them in their signature, as far as the rows
do not show it, so that a study and its report can say it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from dialeval.scores.signature import Signature

Setting = Literal["static", "dynamic", "static and dynamic", "not said"]
Participation = Literal["participant", "bystander", "participant and bystander", "none"]
PARTICIPANT = "human:user"


@dataclass(frozen=True, slots=True)
class Schema:
    """The five decisions behind an evaluation.

    Attributes:
        metric: What is measured: the dimension that counts as gold, or what is asked or computed.
        evaluator: Who judges: people, programs, or both of them on the same units.
        context: Whether the system's own replies became the context (`dynamic`) or not (`static`).
        participation: Whether those who judge took part in the dialogues or looked on.
        level: What one judgement is about.
    """

    metric: str
    evaluator: Literal["human", "automatic", "human and automatic"]
    context: Setting
    participation: Participation
    level: Literal["turn", "dialogue", "system"]

    def sign(self, name: str, scheme: str) -> Signature:
        """Return the signature of ratings collected in this way; metric and level show in their rows.

        >>> schema = Schema("coherence", "human", "static", "bystander", "turn")
        >>> str(schema.sign("annotation.v1", "coherence"))
        'annotation.v1|scheme:coherence|context:static|participation:bystander'
        """
        given = {"scheme": scheme, "context": self.context, "participation": self.participation}
        return Signature.of(name, given)


def setting_in(signatures: Iterable[Signature]) -> Setting:
    """Return how the contexts of some ratings came about, as their signatures say.

    >>> made = Schema("coherence", "human", "dynamic", "bystander", "dialogue").sign("annotation.v1", "x")
    >>> setting_in([made]), setting_in([Signature("judge.v1")])
    ('dynamic', 'not said')
    """
    said = {part for one in signatures for part in dict(one.fields).get("context", "").split(",")}
    known = said & {"static", "dynamic"}
    if len(known) > 1 or "static and dynamic" in said:
        return "static and dynamic"
    return "static" if "static" in known else "dynamic" if known else "not said"
