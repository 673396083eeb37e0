"""Quick students of slow metrics: the metric `student` and its recipe.

A language model takes seconds for a dialogue, and a corpus to compare with cannot be part of a package. What
such a teacher says of unlabelled dialogues can be learned by a head on turn vectors, which needs neither.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar

from dialeval.dialogues import Dialogue, Turn, scored_turns, takes_part
from dialeval.dialogues.negatives import Chance, draws_of
from dialeval.errors import UsageError
from dialeval.metrics.aggregation import Aggregate
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
_LONGEST = 10  # turns that a teacher is shown
_SPOILED = 0.5  # of the dialogues of people: nothing else teaches what a bad reply is
_CURT = 3  # words


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


def lessons(dialogues: Sequence[Dialogue]) -> list[Dialogue]:
    """Make of dialogues what a teacher is asked about, each with the turns to learn from as its `scored`.

    Replies of a system are taken as they are. A dialogue between two people is cut after some reply of the
    one who did not begin, and half of them are spoiled: a reply is another dialogue's, or what was said
    before, or curt. What is done depends on nothing but the dialogues given together, and their ids.

    >>> from dialeval.dialogues import dialogue
    >>> said = [("ann", "Hi!"), ("bob", "Hello, how are you?"), ("ann", "Well?"), ("bob", "I am fine.")]
    >>> found = lessons([dialogue(said, f"d{number}") for number in range(9)])
    >>> [turn.text for turn in found[2].turns], found[2].meta["scored"]
    (['Hi!', 'Well?'], [1])
    """
    pool = [turn.text for one in dialogues for turn in _said(one)]
    curt = [text for text in pool if len(text.split()) <= _CURT] or pool
    found = []
    for one in dialogues:
        said = _said(one)
        if len({turn.speaker for turn in said}) != 2:
            continue
        replying = "assistant" if any(turn.speaker == "assistant" for turn in said) else _other(said)
        replies = [n for n, turn in enumerate(said) if 0 < n < _LONGEST and turn.speaker == replying]
        if not replies:
            continue
        texts, chance = [turn.text for turn in said], draws_of(f"lesson|{one.id}")
        if replying != "assistant":
            last = replies[int(chance.integers(len(replies)))]
            replies = [n for n in replies if n <= last]
            if chance.random() < _SPOILED:
                _spoil(texts, replies, pool, curt, chance)
            replies = [last]
        turns = tuple(
            Turn("assistant" if turn.speaker == replying else "user", text)
            for turn, text in zip(said[: replies[-1] + 1], texts, strict=False)
        )
        found.append(Dialogue(one.id, turns, meta={"scored": replies}))
    return found


def _said(dialogue: Dialogue) -> list[Turn]:
    return [turn for turn in dialogue.turns if takes_part(turn) and turn.text.strip()]


def _other(said: Sequence[Turn]) -> str:
    return next(turn.speaker for turn in said if turn.speaker != said[0].speaker)


def _spoil(
    texts: list[str], replies: Sequence[int], pool: list[str], curt: list[str], chance: Chance
) -> None:
    """Put something else in the place of the last reply, or of all of the second half."""
    kind = ("other", "others", "again", "curt")[int(chance.integers(4))]
    places = replies[len(replies) // 2 :] if kind == "others" else replies[-1:]
    for place in places:
        if kind == "again":
            texts[place] = texts[int(chance.integers(place))]
        else:
            some = curt if kind == "curt" else pool
            texts[place] = some[int(chance.integers(len(some)))]
