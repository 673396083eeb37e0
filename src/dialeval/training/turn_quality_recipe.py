"""The recipes `user-reaction` and `turn-quality`: what users say next, and replies judged by it or by labels.

Three signals come from a user's next turn: its `sentiment`, -3 to 3, read beside the reply; the `stop`
signal, 1 where the user goes on and 0 where the dialogue ends; and its `uptake`, the cosine similarity of the
next user turn to the reply: people take up what made sense to them. The paper adds the first two.
"""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import replace

from dialeval.dialogues import Dialogue, in_blocks, scored_turns
from dialeval.dialogues.signals import next_turns
from dialeval.errors import UsageError
from dialeval.metrics.turn_quality import QUALITY, said_before
from dialeval.metrics.user_reaction import UserReaction
from dialeval.models.encoder import Encoder
from dialeval.models.heads import Head
from dialeval.models.reactions import HEAD as REACTION
from dialeval.models.reactions import REACTIONS, Exchange, exchanges, reaction_features
from dialeval.models.turn_vectors import turn_vectors
from dialeval.training.examples import PairExample, VectorExample
from dialeval.training.recipe import AT_ONCE, Recipe, Signals, encoder_recipe, pair_recipe, signal_recipe
from dialeval.training.settings import TrainingSettings

TARGETS = ("sentiment", "sentiment+stop", "sentiment+stop+uptake", "stop+uptake", "label", "appropriate")
GOING_ON, TAKING_UP = 4.0, 8.0
"""Weights that make the three signals vary about alike in human-bot logs (deviations of .85, .37 and .2)."""
FEATURES = ("reply", "user", "context", "reply*user", "similarities", "lengths")
EMPHASIS = {"similarities": 3.0}  # three numbers that a strong penalty would drown among two thousand
SMALL = TrainingSettings(epochs=0, weight_decay=100.0)
PAPER = TrainingSettings(batch=8, learning_rate=1e-5, epochs=10, schedule="constant", max_length=512)
CLASSIFIER = TrainingSettings(batch=64, learning_rate=5e-4, epochs=8, warmup=0.1, weight_decay=1.0)


def turn_targets(dialogues: list[Dialogue], target: str) -> Signals:
    """Return the target of each reply that has one, by dialogue and turn.

    A sentiment in the log, `sentiment` in the meta of the next user turn, comes before what is read from it.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Is it far?"), ("assistant", "I like dogs."),
    ...     ("user", "That is not what I asked."), ("assistant", "Two miles."), ("user", "Thanks!")], "d")
    >>> {turn: round(value, 1) for (_, turn), value in turn_targets([chat], "sentiment+stop").items()}
    {1: -1.2, 3: 2.8}
    """
    if target == "label":
        return _labels(dialogues)
    if target == "appropriate":
        return {place: float(label >= 0.5) for place, label in _labels(dialogues).items()}
    taken_up = _uptake(dialogues) if "uptake" in target else {}
    going_on = {"sentiment": 0.0, "sentiment+stop": 1.0}.get(target, GOING_ON)
    moved = 1.0 if "sentiment" in target else 0.0
    reactions = UserReaction(field="sentiment").signals(dialogues)
    return {
        (dialogue.id, turn): moved * sentiment
        + going_on * goes_on
        + TAKING_UP * taken_up.get((dialogue.id, turn), 0.0)
        for dialogue, signals in zip(dialogues, reactions, strict=True)
        for turn, (sentiment, goes_on) in signals.items()
        if sentiment is not None and dialogue.turns[turn].text.strip()
    }


def _labels(dialogues: list[Dialogue]) -> Signals:
    return {
        (dialogue.id, number): float(turn.meta["label"])
        for dialogue in dialogues
        for number, turn in enumerate(dialogue.turns)
        if isinstance(turn.meta.get("label"), int | float) and turn.text.strip()
    }


def _uptake(dialogues: list[Dialogue]) -> Signals:
    """Return the cosine similarity of every turn and the other speaker's next one."""
    similarities: Signals = {}
    for encoded in turn_vectors(Encoder.load(), dialogues):
        for turn, following in enumerate(next_turns(encoded.dialogue)):
            if following.turn is not None:
                cosine = float(encoded.vectors[turn] @ encoded.vectors[following.turn])
                similarities[encoded.dialogue.id, turn] = cosine
    return similarities


def _pairs(dialogues: Iterable[Dialogue], target: str) -> Iterator[PairExample]:
    """Make examples for a cross-encoder."""
    for block in in_blocks(dialogues, AT_ONCE):
        targets = turn_targets(block, target)
        for dialogue in block:
            for turn in scored_turns(dialogue):
                if (value := targets.get((dialogue.id, turn))) is not None:
                    text = dialogue.turns[turn].text
                    yield PairExample(said_before(dialogue, turn), text, {QUALITY: value})


def recipe(encoder: str | None = None, target: str = "stop+uptake", dev: str = "target") -> Recipe:
    """Quality of a reply, trained on the next user turn or on labels.

    Args:
        encoder: None: a small head on the vectors of the shipped encoder. A folder or Hub id, such as
            `bert-base-uncased`, is fine-tuned as a whole, with the paper's settings.
        target: `sentiment` of the next user turn; `sentiment+stop`, and whether the user went on;
            `sentiment+stop+uptake`, and whether the user took up what was said; `stop+uptake`, the last two;
            `label`, the number under that name in the meta of a reply; `appropriate`, a classifier of whether
            that number is .5 or more, the paper's Classification (3P).
        dev: What the best weights are chosen by: the `target`, or people's `label`s in the dev set.
    """
    if target not in TARGETS:
        raise UsageError(f"turn-quality: no target {target!r}; known: {', '.join(TARGETS)}")
    if dev not in ("target", "label"):
        raise UsageError(f"turn-quality: dev={dev} is neither target nor label")
    about = f"Says how good a reply is; learned from {target}."
    result = _made(encoder, target, about)
    if dev == "target" or target == "appropriate":
        return result
    return replace(result, dev_examples=_made(encoder, "label", about).examples)


def _made(encoder: str | None, target: str, about: str) -> Recipe:
    binary = target == "appropriate"
    head, figure = Head(QUALITY, "binary" if binary else "regression"), "accuracy" if binary else "spearman"
    if encoder is not None:
        pairs = functools.partial(_pairs, target=target)
        return pair_recipe("turn-quality", (head,), pairs, figure, PAPER, encoder, about=about)
    return signal_recipe(
        "turn-quality",
        head,
        lambda block: (block, turn_targets(block, target)),
        FEATURES,
        CLASSIFIER if binary else SMALL,
        about=about,
        emphasis=EMPHASIS,
    )


def user_reaction(encoder: str | None = None) -> Recipe:
    """Classifier of the user's next turn: displeased, neutral or pleased.

    Args:
        encoder: Only the shipped one: the head reads its vectors.
    """
    if encoder is not None:
        raise UsageError("user-reaction is a head on the shipped encoder: it has no other to choose")
    settings = TrainingSettings(
        batch=32, learning_rate=5e-4, epochs=15, warmup=0.1, weight_decay=0.05, dropout=0.4
    )
    about = "Says from a user's next turn whether the reply before it pleased."
    return encoder_recipe(
        "user-reaction",
        REACTION,
        _reactions,
        "macro_f1",
        settings,
        kind="reactions.v1",
        hidden=32,
        about=about,
    )


def _reactions(dialogues: Iterable[Dialogue], encoder: Encoder) -> Iterator[VectorExample]:
    """Take every turn whose meta has a `reaction`, with what it answers."""
    chosen: list[tuple[Exchange, str]] = []
    for dialogue in dialogues:
        by_reply = exchanges(dialogue, range(len(dialogue.turns)))
        labels = {
            following.turn: number
            for number, following in enumerate(next_turns(dialogue))
            if following.turn is not None
        }
        for answer, reply in labels.items():
            label = dialogue.turns[answer].meta.get("reaction")
            if label is not None:
                if label not in REACTIONS:
                    raise UsageError(f"{dialogue.id}: no reaction {label!r}; known: {', '.join(REACTIONS)}")
                chosen.append((by_reply[reply], str(label)))
    rows = reaction_features([exchange for exchange, _ in chosen], encoder) if chosen else ()
    for row, (_, label) in zip(rows, chosen, strict=True):
        yield VectorExample(row, {REACTION.name: REACTIONS.index(label)})
