"""How good each reply is, learned from what users said next: the metric `turn-quality` and its recipe.

Nobody has to label a log to train it. What the user's next turn says of a reply (`user-reaction`) is the
target; the scorer sees the reply and what came before it, never what came after. Where people did label
replies, it can learn from that instead.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.errors import DataError, DialevalError, UsageError
from dialeval.metrics.aggregation import Aggregate, aggregate
from dialeval.metrics.registry import Rows, metric
from dialeval.metrics.turn_targets import QUALITY, TARGETS, TurnTargets, said_before
from dialeval.models.artefact import load, resolve
from dialeval.models.dialogue_scorer import DialogueScorer, TurnScores
from dialeval.models.heads import Head
from dialeval.models.pairs import PairScorer
from dialeval.models.training.settings import Settings
from dialeval.scores import Scores

DEFAULT = "dialeval-turn-quality"
FEATURES = ("reply", "user", "context", "reply*user", "similarities", "lengths")
EMPHASIS = {"similarities": 3.0}  # three numbers that a strong penalty would drown among two thousand
SMALL = Settings(epochs=0, weight_decay=100.0)
PAPER = Settings(batch=8, learning_rate=1e-5, epochs=10, max_length=512)
_AT_ONCE = 256  # dialogues read together


@metric("turn-quality.v1")
@dataclass(frozen=True)
class TurnQuality:
    """How good each reply is, and the dialogue by `aggregate`: what its user is likely to make of it.

    It reads the reply and what came before, never the user's next turn. The unit is that of the target the
    `model` was trained on: compare scores with each other, not with a threshold.

    >>> from dialeval.dialogues import dialogue
    >>> chats = [dialogue([("user", "Do you like jazz?"), ("assistant", reply)], reply)
    ...     for reply in ("Yes, I love jazz, do you play?", "I do not understand the question.")]
    >>> good, bad = (row.value for row in TurnQuality().score(chats) if row.turn)
    >>> good > bad
    True
    """

    model: str = DEFAULT
    aggregate: Aggregate = "mean"
    speaker: str | None = None
    dimensions: ClassVar[tuple[str, ...]] = (QUALITY,)
    trained_on: ClassVar[tuple[str, ...]] = ("convai2-wild", "dstc9")
    tuned_on: ClassVar[tuple[str, ...]] = ("dbdc3",)
    left_out: ClassVar[tuple[str, ...]] = ("conture",)

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Judge each reply by itself and what came before."""
        return score_replies(self, dialogues, self.model, self.aggregate, self.speaker)

    def provenance(self) -> dict[str, str]:
        """Name the model by its content, not by where it lies."""
        return model_mark(self.model)


def model_mark(name: str) -> dict[str, str]:
    """Name the model of a scorer of replies for its signature."""
    try:
        return {"model": load(resolve(name)).sha[:12]}
    except DialevalError:  # what is not there keeps its name: nothing is scored
        return {}


def score_replies(
    made: Any, dialogues: Iterable[Dialogue], model: str, how: Aggregate | None, speaker: str | None
) -> Scores:
    """Score each reply with a trained model, and each dialogue, for the metric `made`.

    A dialogue is scored by its replies; without `how`, by a model that judges dialogues, as it is at its end.
    """
    rows, stream, scorer = Rows(made), iter(dialogues), _scorer(model)
    while some := list(islice(stream, _AT_ONCE)):
        for found in scorer(some, speaker):
            _add(rows, found, how)
    return rows.scores()


def _add(rows: Rows, found: TurnScores, how: Aggregate | None) -> None:
    dialogue, values, lengths = found.dialogue, list[float](), list[int]()
    for turn, value, cut in zip(found.turns, found.values[QUALITY], found.cut, strict=True):
        text = dialogue.turns[turn].text
        if not text.strip():
            rows.add(dialogue, turn, QUALITY, None, "empty reply")
            continue
        rows.add(dialogue, turn, QUALITY, float(value), "truncated" if cut else None)
        values.append(float(value))
        lengths.append(len(text.split()))
    figure = aggregate(values, lengths, how or "mean") if values else None
    if values and how is None and found.end:
        figure = found.end[QUALITY]
    rows.add(dialogue, None, QUALITY, figure, None if values else "no reply to score")


Scorer = Callable[[list[Dialogue], str | None], Iterable[TurnScores]]


def _scorer(name: str) -> Scorer:
    """Open a model of either kind: a head over turn vectors, or a cross-encoder; once in a process."""
    return _opened(str(resolve(name)))


@functools.lru_cache(maxsize=32)
def _opened(folder: str) -> Scorer:
    artefact = load(folder)
    heads: tuple[Head, ...]
    scorer: Scorer
    if artefact.kind == "dialogue-scorer.v1":
        small = DialogueScorer.load(folder)
        heads, scorer = small.heads, small.score
    elif artefact.kind == "pair-scorer.v1":
        pairs = PairScorer.load(folder)
        heads, scorer = pairs.heads, functools.partial(_by_pairs, pairs)
    else:
        raise DataError(f"this is {artefact.kind}, no scorer of turns", file=artefact.folder)
    if QUALITY not in [head.name for head in heads]:
        raise DataError(f"has no head {QUALITY!r}", file=artefact.folder / "config.json", field="heads")
    return scorer


def _by_pairs(scorer: PairScorer, dialogues: list[Dialogue], speaker: str | None) -> Iterator[TurnScores]:
    for dialogue in dialogues:
        turns = scored_turns(dialogue, speaker)
        found = scorer.score([(said_before(dialogue, turn), dialogue.turns[turn].text) for turn in turns])
        cut = [any(pair) for pair in zip(found.history_cut, found.response_cut, strict=True)]
        yield TurnScores(dialogue, turns, found.values, cut)


def recipe(encoder: str | None = None, target: str = "stop+uptake") -> Any:
    """Quality of a reply, learned from what the user says next, or from labels.

    Args:
        encoder: None: a small head on the vectors of the shipped encoder. A folder or Hub id, such as
            `bert-base-uncased`, is fine-tuned as a whole, with the paper's settings.
        target: `sentiment` of the next user turn; `sentiment+stop`, and whether the user went on;
            `sentiment+stop+uptake`, and whether the user took up what was said; `stop+uptake`, the last two;
            `label`, the number under that name in the meta of a reply.
    """
    from dialeval.models.training import PairRecipe, turn_recipe

    if target not in TARGETS:
        raise UsageError(f"turn-quality: no target {target!r}; known: {', '.join(TARGETS)}")
    head, given = Head(QUALITY, "regression"), TurnTargets(target)
    about = f"Says how good a reply is; learned from {target}."
    if encoder is None:
        made = turn_recipe(
            "turn-quality",
            (head,),
            given,
            FEATURES,
            "spearman",
            settings=SMALL,
            hidden=(),
            about=about,
            emphasis=EMPHASIS,
            solved=True,
        )
        return replace(made, examples=lambda dialogues: given.reading(dialogues, made.examples))
    return PairRecipe(
        "turn-quality",
        (head,),
        lambda dialogues: given.reading(dialogues, given.pairs),
        "spearman",
        PAPER,
        encoder,
        about,
    )
