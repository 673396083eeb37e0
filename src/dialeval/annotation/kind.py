"""What kind of evaluation a study of people is: known when it is made, kept with it, and exported with it.

What is asked says what is measured and at which level; the dialogues say how their contexts came about:
replies to fixed contexts name the context they answer, and conversations held with a system say so.
"""

from collections.abc import Iterable

from dialeval.annotation.scheme import Scheme
from dialeval.dialogues import Dialogue
from dialeval.dialogues.contexts import conversation_of
from dialeval.scores.taxonomy import Schema, Setting


def schema_of(scheme: Scheme, dialogues: Iterable[Dialogue] = (), *, took_part: bool = False) -> Schema:
    """Return the five decisions behind a study; those who took part held the conversations themselves.

    >>> from dialeval.annotation.scheme import read_scheme
    >>> from dialeval.dialogues import dialogue
    >>> said = [("user", "Hi"), ("assistant", "Oh")]
    >>> kind = schema_of(read_scheme("coherence"), [dialogue(said, "d1@turn-1")])
    >>> kind.metric, kind.context, kind.participation, kind.level
    ('coherence', 'static', 'bystander', 'turn')
    """
    unit = scheme.of if scheme.unit == "pair" else scheme.unit
    return Schema(
        metric=", ".join(one.name for one in scheme.questions if one.type != "text") or "nothing",
        evaluator="human",
        context="dynamic" if took_part else _setting({_of(one) for one in dialogues}),
        participation="participant" if took_part else "bystander",
        level="dialogue" if unit == "dialogue" else "turn",
    )


def _of(dialogue: Dialogue) -> str:
    if "context" in dialogue.meta or conversation_of(dialogue.id) != dialogue.id:
        return "static"
    return "dynamic" if dialogue.meta.get("setting") == "dynamic" else "not said"


def _setting(found: set[str]) -> Setting:
    """Say it of all dialogues, or of none."""
    if found == {"static", "dynamic"}:
        return "static and dynamic"
    return "static" if found == {"static"} else "dynamic" if found == {"dynamic"} else "not said"
