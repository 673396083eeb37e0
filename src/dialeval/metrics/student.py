"""Quick students of slow metrics: the metric `student` and its recipe.

A language model takes seconds for a dialogue, and a corpus to compare with cannot be part of a package. What
such a teacher says of unlabelled dialogues can be learned by a head on turn vectors, which needs neither.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar

from dialeval.dialogues import Dialogue, Turn
from dialeval.errors import UsageError
from dialeval.metrics.aggregation import Aggregate
from dialeval.metrics.lessons import LONGEST, lessons
from dialeval.metrics.registry import build, metric
from dialeval.metrics.turn_quality import model_mark, score_replies
from dialeval.metrics.turn_targets import QUALITY
from dialeval.models.heads import Head
from dialeval.models.training.settings import Settings
from dialeval.scores import Scores

FOLLOWUP = "dialeval-followup-student"
CONSENSUS = "dialeval-consensus-student"
_FEW = ("similarities", "lengths", "place", "fit", "moods")  # numbers that vectors would drown
REPLY = ("reply", "user", "context", "own", "owns", "others", *_FEW)
"""What is read to learn from a teacher of replies."""
WHOLE = ("acts", "transitions", "sizes")
"""What is read to learn from a teacher of whole dialogues."""
SOLVED = Settings(epochs=0, weight_decay=1.0)
_AT_ONCE = 128  # dialogues read, spoiled and shown to the teacher together
_MOST_TURNS = 1000


@metric("student.v1")
@dataclass(frozen=True)
class Student:
    """What a slow metric would say of each reply, and of the dialogue by `aggregate`, without that metric.

    `model` is what `dialeval train student:teacher=METRIC` made; `dialeval-followup-student` learned from
    `followup`, `dialeval-consensus-student` from `floweval`. The unit is the teacher's. A teacher that judges
    whole dialogues has a student that judges them as a whole, and each reply by the dialogue up to it, unless
    `aggregate` says otherwise; other students judge dialogues by the mean of their replies.

    >>> from dialeval.dialogues import dialogue
    >>> chats = [dialogue([("user", "Do you like jazz?"), ("assistant", reply)], reply)
    ...     for reply in ("Yes, I love jazz, do you play?", "I do not understand the question.")]
    >>> good, bad = (row.value for row in Student().score(chats) if row.turn)
    >>> good > bad
    True
    """

    model: str = FOLLOWUP
    aggregate: Aggregate | None = None
    speaker: str | None = None
    dimensions: ClassVar[tuple[str, ...]] = (QUALITY,)
    trained_on: ClassVar[tuple[str, ...]] = (
        *("blended-skill-talk", "controllable", "dailydialog", "dbdc3", "empathetic", "sgd", "swda"),
        "topicalchat",
    )

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Judge each reply by itself and what came before, and each dialogue."""
        return score_replies(self, dialogues, self.model, self.aggregate, self.speaker)

    def provenance(self) -> dict[str, str]:
        """Name the model by its content, not by where it lies."""
        return model_mark(self.model)


def recipe(encoder: str | None = None, teacher: str = "followup", longest: str = str(LONGEST)) -> Any:
    """A quick student of a slow metric, which is asked about the dialogues and some that are spoiled.

    Args:
        encoder: A student reads the vectors of the shipped encoder; any other is refused.
        teacher: A metric, its fields after semicolons: `followup;template=prefixes`. What it says of turns is
            learned by those turns; one that judges dialogues only is asked about each up to some replies.
        longest: Turns of a dialogue that the teacher is shown at most.
    """
    from dialeval.models.training import VectorExample, turn_recipe

    if encoder is not None:
        raise UsageError("a student reads the vectors of the shipped encoder: leave --encoder out")
    if not longest.isascii() or not longest.isdecimal() or not 2 <= int(longest) <= _MOST_TURNS:
        raise UsageError(f"longest={longest}: expected a number of turns, 2 to {_MOST_TURNS}")
    name, _, fields = teacher.partition(";")
    asked = build(f"{name}:{fields.replace(';', ',')}" if fields else name)
    of_turns = judges_turns(asked)
    targets = dict[tuple[str, int], float]()

    def target(dialogue: Dialogue, turn: int) -> dict[str, float] | None:
        value = targets.get((dialogue.id, turn))
        return None if value is None else {QUALITY: value}

    what = "a reply" if of_turns else "a dialogue, up to a reply,"
    made = turn_recipe(
        "student",
        (Head(QUALITY, "regression"),),
        target,
        REPLY if of_turns else WHOLE,
        "spearman",
        settings=SOLVED if of_turns else replace(SOLVED, weight_decay=0.1),
        hidden=(),
        about=f"Says what `{teacher}` would say of {what} as it learned from its scores of other dialogues.",
        emphasis=dict.fromkeys(_FEW, 3.0) if of_turns else None,
        solved=True,
        judges="turns" if of_turns else "dialogues",
    )

    def examples(dialogues: Iterable[Dialogue]) -> Iterator[VectorExample]:
        stream = iter(dialogues)
        while some := list(islice(stream, _AT_ONCE)):
            targets.clear()
            shown = lessons(some, int(longest))
            targets.update(taught(asked, shown, of_turns))
            yield from made.examples([Dialogue(one.id, one.turns) for one in shown])

    return replace(made, examples=examples)


def judges_turns(teacher: Any) -> bool:
    """Say whether a metric has something to say of turns, by what it says of a small dialogue.

    >>> judges_turns(build("length")), judges_turns(build("turns"))
    (True, False)
    """
    said = (Turn("user", "Hello, how are you?"), Turn("assistant", "Fine, and how are you today?"))
    first = teacher.dimensions[0]
    return any(
        row.turn is not None for row in teacher.score([Dialogue("chat", said)]) if row.dimension == first
    )


def taught(teacher: Any, lessons: Sequence[Dialogue], of_turns: bool) -> dict[tuple[str, int], float]:
    """Ask a teacher about the scored turns of lessons, or about each lesson up to them."""
    places = [(one, place) for one in lessons for place in one.meta["scored"]]
    if of_turns:
        shown, found = list(lessons), {f"{one.id}/{place}": (one.id, place) for one, place in places}
    else:
        shown = [Dialogue(f"{one.id}/{place}", one.turns[: place + 1]) for one, place in places]
        found = {made.id: (one.id, place) for made, (one, place) in zip(shown, places, strict=True)}
    answers = dict[tuple[str, int], float]()
    for row in teacher.score(shown):
        place = found.get(f"{row.dialogue_id}/{row.turn}" if of_turns else row.dialogue_id)
        told = (row.turn is not None) == of_turns and row.dimension == teacher.dimensions[0]
        if place is not None and told and row.value is not None:
            answers[place] = row.value
    return answers
