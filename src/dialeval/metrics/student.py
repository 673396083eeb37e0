"""Quick students of slow metrics: the metric `student` and its recipe.

A language model takes seconds for a dialogue, and a corpus to compare with cannot be part of a package. What
such a teacher says of unlabelled dialogues can be learned by a head on turn vectors, which needs neither.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.errors import UsageError
from dialeval.metrics.aggregation import Aggregate
from dialeval.metrics.lessons import lessons
from dialeval.metrics.registry import build, metric
from dialeval.metrics.turn_quality import model_mark, score_replies
from dialeval.metrics.turn_targets import QUALITY
from dialeval.models.heads import Head
from dialeval.models.training.settings import Settings
from dialeval.scores import Scores

FOLLOWUP = "dialeval-followup-student"
FEATURES = ("reply", "user", "context", "own", "owns", "others", "similarities", "lengths", "place")
SOLVED = Settings(epochs=0, weight_decay=3.0)
_AT_ONCE = 128  # dialogues read, spoiled and shown to the teacher together


@metric("student.v1")
@dataclass(frozen=True)
class Student:
    """What a slow metric would say of each reply, and of the dialogue by `aggregate`, without that metric.

    `model` is what `dialeval train student:teacher=METRIC` made; the shipped one learned from `followup`. The
    unit is the teacher's.

    >>> from dialeval.dialogues import dialogue
    >>> chats = [dialogue([("user", "Do you like jazz?"), ("assistant", reply)], reply)
    ...     for reply in ("Yes, I love jazz, do you play?", "I do not understand the question.")]
    >>> good, bad = (row.value for row in Student().score(chats) if row.turn)
    >>> good > bad
    True
    """

    model: str = FOLLOWUP
    aggregate: Aggregate = "mean"
    speaker: str | None = None
    dimensions: ClassVar[tuple[str, ...]] = (QUALITY,)
    trained_on: ClassVar[tuple[str, ...]] = ("blended-skill-talk", "dailydialog", "dbdc3", "topicalchat")

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Judge each reply by itself and what came before."""
        return score_replies(self, dialogues, self.model, self.aggregate, self.speaker)

    def provenance(self) -> dict[str, str]:
        """Name the model by its content, not by where it lies."""
        return model_mark(self.model)


def recipe(encoder: str | None = None, teacher: str = "followup") -> Any:
    """A quick student of a slow metric, which is asked about the dialogues and some that are spoiled.

    Args:
        encoder: A student reads the vectors of the shipped encoder; any other is refused.
        teacher: A metric, its fields after semicolons: `followup;template=prefixes`. What it says of turns is
            learned by those turns, what it says of a whole dialogue by every reply of it.
    """
    from dialeval.models.training import VectorExample, turn_recipe

    if encoder is not None:
        raise UsageError("a student reads the vectors of the shipped encoder: leave --encoder out")
    name, _, fields = teacher.partition(";")
    asked = build(f"{name}:{fields.replace(';', ',')}" if fields else name)
    targets = dict[tuple[str, int], float]()

    def target(dialogue: Dialogue, turn: int) -> dict[str, float] | None:
        value = targets.get((dialogue.id, turn))
        return None if value is None else {QUALITY: value}

    made = turn_recipe(
        "student",
        (Head(QUALITY, "regression"),),
        target,
        FEATURES,
        "spearman",
        settings=SOLVED,
        hidden=(),
        about=f"Says what `{teacher}` would say of a reply; learned from its scores of other dialogues.",
        emphasis={"similarities": 3.0, "lengths": 3.0, "place": 3.0},
        solved=True,
    )

    def examples(dialogues: Iterable[Dialogue]) -> Iterator[VectorExample]:
        stream = iter(dialogues)
        while some := list(islice(stream, _AT_ONCE)):
            targets.clear()
            shown = lessons(some)
            targets.update(taught(asked, shown))
            yield from made.examples([Dialogue(one.id, one.turns) for one in shown])

    return replace(made, examples=examples)


def taught(teacher: Any, lessons: Sequence[Dialogue]) -> dict[tuple[str, int], float]:
    """Ask a teacher: what it says of turns counts, and where it says nothing of them, of the dialogue."""
    whole, turns = dict[str, float](), dict[tuple[str, int], float]()
    for row in teacher.score(lessons):
        if row.dimension != teacher.dimensions[0] or row.value is None:
            continue
        if row.turn is None:
            whole[row.dialogue_id] = row.value
        else:
            turns[row.dialogue_id, row.turn] = row.value
    return turns or {
        (one.id, turn): whole[one.id]
        for one in lessons
        if one.id in whole
        for turn in scored_turns(Dialogue(one.id, one.turns))
    }
