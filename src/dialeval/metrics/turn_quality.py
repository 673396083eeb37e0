"""How good each reply is, by a head over turn vectors: the metrics `turn-quality` and `student`.

`turn-quality` learned from what users said next; nobody has to label a log to train it. What the user's next
turn says of a reply (`user-reaction`) is the target; the scorer sees the reply and what came before it, never
what came after. Where people did label replies, it can learn from that instead.

A `student` learned from a slow metric. A language model takes seconds for a dialogue, and a corpus to compare
with cannot be part of a package; what such a teacher says of unlabelled dialogues can be learned by a head on
turn vectors, which needs neither.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dialeval.dialogues import Dialogue, scored_turns, takes_part
from dialeval.errors import DataError
from dialeval.metrics.registry import (
    Aggregate,
    Language,
    OpensModels,
    Rows,
    encoded_chunks,
    known_language,
    metric,
    model_field,
)
from dialeval.models.artefact import load, opened_once
from dialeval.models.dialogue_scorer import DialogueScorer, TurnScores
from dialeval.models.needs import Need
from dialeval.models.pairs import PairScorer
from dialeval.scores import Scores

DEFAULT, FOLLOWUP = "dialeval-turn-quality", "dialeval-followup-student"
QUALITY = "quality"
_MOST_BEFORE = 60  # turns of context that a cross-encoder is given


class _PairTurns:
    """A cross-encoder as a scorer of turns."""

    def __init__(self, pairs: PairScorer) -> None:
        self._pairs, self.heads, self.sha = pairs, pairs.heads, pairs.sha

    def needs(self) -> list[Need]:
        return []

    def score(self, dialogues: Sequence[Dialogue], speaker: str | None = None) -> Iterator[TurnScores]:
        for dialogue in dialogues:
            turns = scored_turns(dialogue, speaker)
            pairs = [(said_before(dialogue, turn), dialogue.turns[turn].text) for turn in turns]
            scores = self._pairs.score(pairs)
            cut = [any(pair) for pair in zip(scores.history_cut, scores.response_cut, strict=True)]
            yield TurnScores(dialogue, turns, scores.values, cut)


@opened_once
def turn_scorer(folder: str) -> DialogueScorer | _PairTurns:
    """Open a scorer of turns of either kind, a head over turn vectors or a cross-encoder."""
    artefact = load(folder)
    if artefact.kind not in ("dialogue-scorer.v1", "pair-scorer.v1"):
        raise DataError(f"expected a turn scorer, found {artefact.kind}", file=artefact.folder)
    if artefact.kind == "dialogue-scorer.v1":
        scorer: DialogueScorer | _PairTurns = DialogueScorer.load(folder)
    else:
        scorer = _PairTurns(PairScorer.load(folder))
    if QUALITY not in [head.name for head in scorer.heads]:
        raise DataError(f"has no head {QUALITY!r}", file=artefact.folder / "config.json", field="heads")
    return scorer


def said_before(dialogue: Dialogue, turn: int) -> tuple[str, ...]:
    """Return what came before a turn, as much of it as any cross-encoder here can take."""
    return tuple(
        message.text for message in dialogue.turns[max(0, turn - _MOST_BEFORE) : turn] if takes_part(message)
    )


class _ScoresReplies(OpensModels):
    """A metric whose `model` judges replies.

    A dialogue is judged by its replies; without `aggregate`, by a model that judges dialogues, as it is at
    its end.
    """

    model: str
    aggregate: Aggregate | None
    speaker: str | None

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Judge each reply by itself and what came before, and each dialogue."""
        rows, scorer = Rows(self), turn_scorer(self.model)
        for chunk in encoded_chunks(self, dialogues):
            for scored in scorer.score(chunk, self.speaker):
                _add(rows, scored, self.aggregate)
        return rows.scores()


def _add(rows: Rows, scored: TurnScores, method: Aggregate | None) -> None:
    dialogue, values = scored.dialogue, dict[int, float]()
    for turn, value, cut in zip(scored.turns, scored.values[QUALITY], scored.cut, strict=True):
        if not dialogue.turns[turn].text.strip():
            rows.add(dialogue, turn, QUALITY, None, "empty reply")
            continue
        rows.add(dialogue, turn, QUALITY, float(value), "truncated" if cut else None)
        values[turn] = float(value)
    if values and method is None and scored.end:
        rows.add(dialogue, None, QUALITY, scored.end[QUALITY])
    else:
        rows.add_dialogue(dialogue, QUALITY, values, method or "mean", "no reply to score")


@metric("turn-quality.v1")
@dataclass(frozen=True)
class TurnQuality(_ScoresReplies):
    """Quality of a reply, learned from how users react.

    A dialogue's score aggregates its replies by `aggregate`.

    It reads the reply and what came before, never the user's next turn. The unit is that of the target the
    `model` was trained on: compare scores with each other, not with a threshold.

    >>> from dialeval.dialogues import dialogue
    >>> chats = [dialogue([("user", "Do you like jazz?"), ("assistant", reply)], reply)
    ...     for reply in ("Yes, I love jazz, do you play?", "I do not understand the question.")]
    >>> good, bad = (row.value for row in TurnQuality().score(chats) if row.turn)
    >>> good > bad
    True
    """

    model: str = model_field(DEFAULT, turn_scorer)
    aggregate: Aggregate = "mean"
    speaker: str | None = None
    language: Language = known_language()
    dimensions: ClassVar[tuple[str, ...]] = (QUALITY,)
    tuned_on: ClassVar[tuple[str, ...]] = ("dbdc3",)
    left_out: ClassVar[tuple[str, ...]] = ("conture",)


CONSENSUS = "dialeval-consensus-student"


@metric("student.v1")
@dataclass(frozen=True)
class Student(_ScoresReplies):
    """Prediction of a slower metric by a small head (distillation).

    A dialogue's score aggregates its replies by `aggregate`.

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

    model: str = model_field(FOLLOWUP, turn_scorer)
    aggregate: Aggregate | None = None
    speaker: str | None = None
    language: Language = known_language()
    dimensions: ClassVar[tuple[str, ...]] = (QUALITY,)
