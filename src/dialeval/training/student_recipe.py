"""The recipe `student`: a head on turn vectors is trained to predict a slow metric, its teacher.

The teacher is asked about dialogues that nobody rated. A student must see bad dialogues too, and most open
data are conversations between people. So they are augmented: one of the two speakers becomes a bot with a
fault (`FAULTS`), which replaces some or all of their replies, and the other may react to it with a sentence
from the bundled reactions. Replies of a system are taken as they are. The result depends on nothing but the
dialogues that are given together, and their ids.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import as_file, files
from typing import Any

import numpy as np
import numpy.typing as npt

from dialeval.dialogues import Dialogue, Turn, says_something
from dialeval.errors import UsageError
from dialeval.metrics.registry import build
from dialeval.metrics.training_data import teacher_sets
from dialeval.metrics.turn_quality import QUALITY
from dialeval.models.encoder import Encoder
from dialeval.models.heads import Head
from dialeval.models.network import unit
from dialeval.training.negatives import Chance, draws_of
from dialeval.training.recipe import Recipe, Signals, signal_recipe
from dialeval.training.settings import TrainingSettings

_FEW = ("similarities", "lengths", "place", "fit", "moods")  # each a few numbers beside long vectors
REPLY = ("reply", "user", "context", "own", "owns", "others", *_FEW)
"""Features of a student whose teacher scores replies."""
WHOLE = ("acts", "transitions", "sizes")
"""Features of a student whose teacher scores whole dialogues."""
RIDGE = TrainingSettings(epochs=0, weight_decay=1.0)
_AT_ONCE = 128  # dialogues augmented and scored together
_MOST_TURNS = 1000
LONGEST = 16  # turns of a dialogue that are shown to the teacher
_ASKED = 4  # replies of a dialogue that are scored
_UNTOUCHED = 0.3  # share of people's dialogues that are not augmented
_ALWAYS = 0.5  # share of bots whose fault is in every reply; of the others in every second
_REACTING = 0.6  # share of users who may react
_COMPLAINT, _PRAISE, _UNFAIR = 0.5, 0.15, 0.15  # after a faulty reply; after an original one, both
_CURT = 3  # words
_NEAREST = 3  # replies that retrieval chooses from


@dataclass(frozen=True)
class _Pool:
    """All replies of the dialogues, each with its dialogue and the vector of the turn it answers."""

    replies: list[str]
    owners: npt.NDArray[np.object_]
    curt: list[str]
    answered: npt.NDArray[np.float32]
    vectors: Mapping[str, npt.NDArray[np.float32]]

    @classmethod
    def of(cls, dialogues: Mapping[str, Sequence[Turn]]) -> "_Pool":
        pairs = [
            (turns[place - 1].text, turns[place].text, owner)
            for owner, turns in dialogues.items()
            for place in range(1, len(turns))
            if turns[place].speaker != turns[place - 1].speaker
        ]
        texts = list(dict.fromkeys(turn for turn, _, _ in pairs))
        vectors = dict(zip(texts, unit(Encoder.load().vectors(texts)), strict=True))
        replies = [reply for _, reply, _ in pairs]
        curt = [reply for reply in replies if len(reply.split()) <= _CURT]
        owners = np.array([owner for _, _, owner in pairs], object)
        rows = [vectors[turn] for turn, _, _ in pairs]
        return cls(replies, owners, curt or replies, np.array(rows, np.float32), vectors)


@dataclass
class _Draft:
    """A dialogue that is being augmented: its texts, and the places of the bot's replies."""

    id: str
    texts: list[str]
    replies: list[int]
    pool: _Pool
    chance: Chance

    def one(self, texts: Sequence[str]) -> str:
        return texts[int(self.chance.integers(len(texts)))]


def _retrieved_reply(draft: _Draft, place: int) -> str:
    vector = draft.pool.vectors.get(draft.texts[place - 1])
    candidates = np.flatnonzero(draft.pool.owners != draft.id)
    if vector is None or not len(candidates):
        return draft.texts[place]
    similarities = (draft.pool.answered[candidates] @ vector).round(4)
    nearest = candidates[np.argsort(-similarities, kind="stable")[:_NEAREST]]
    return draft.one([draft.pool.replies[row] for row in nearest])


def _repeated_reply(draft: _Draft, place: int) -> str:
    own = [draft.texts[earlier] for earlier in draft.replies if earlier < place]
    return draft.one(own) if own else draft.texts[place]


def _shuffled_words(draft: _Draft, place: int) -> str:
    words = f"{draft.texts[place]} {draft.one(draft.pool.replies)}".split()
    draft.chance.shuffle(words)
    return " ".join(words[: max(_CURT, len(words) // 2)])


FAULTS: Mapping[str, Callable[[_Draft, int], str]] = {
    "random": lambda draft, _: draft.one(draft.pool.replies),
    "retrieved": _retrieved_reply,
    "repeated": _repeated_reply,
    "echo": lambda draft, place: draft.texts[place - 1],
    "short": lambda draft, _: draft.one(draft.pool.curt),
    "shuffled": _shuffled_words,
}
"""Replacements of a reply: a random reply of another dialogue; one that was given there to a similar turn; an
earlier one of its own; the user's words; very few words; words of two replies in random order."""
_SHARES = (2, 2, 1, 1, 1, 1)  # their relative frequencies


def augment(dialogues: Sequence[Dialogue], longest: int = LONGEST) -> list[Dialogue]:
    """Return augmented dialogues for a teacher to score; `scored` in their meta are the turns to score.

    Args:
        dialogues: Of two speakers; others are passed over.
        longest: The number of turns of each that are used.

    >>> from dialeval.dialogues import dialogue
    >>> turns = [("ann", "Hi!"), ("bob", "Hello, how are you?"), ("ann", "Well?"), ("bob", "I am fine.")]
    >>> copies = augment([dialogue(turns, f"d{number}") for number in range(9)])
    >>> [turn.text for turn in copies[0].turns], copies[0].meta["scored"]
    (['Hi!', 'Hello, how are you?', 'Well?', 'Hello, how are you?'], [1, 3])
    """
    spoken = {dialogue.id: _said(dialogue) for dialogue in dialogues}
    two_sided = {name: turns for name, turns in spoken.items() if len({turn.speaker for turn in turns}) == 2}
    if not two_sided:
        return []
    pool = _Pool.of(two_sided)
    drafts = (_augmented(name, turns[:longest], pool) for name, turns in two_sided.items())
    return [dialogue for dialogue in drafts if dialogue is not None]


def _said(dialogue: Dialogue) -> list[Turn]:
    return [turn for turn in dialogue.turns if says_something(turn)]


def _augmented(name: str, turns: Sequence[Turn], pool: _Pool) -> Dialogue | None:
    chance = draws_of(f"lesson|{name}")
    is_system = any(turn.speaker == "assistant" for turn in turns)
    bot = "assistant" if is_system else turns[int(chance.integers(2))].speaker
    replies = [
        place
        for place, turn in enumerate(turns)
        if place and turn.speaker == bot and turns[place - 1].speaker != bot
    ]
    if not replies:
        return None
    draft = _Draft(name, [turn.text for turn in turns], replies, pool, chance)
    scored = sorted(chance.choice(replies, min(_ASKED, len(replies)), replace=False).tolist())
    if not is_system and chance.random() >= _UNTOUCHED:
        _add_faults(draft, scored[-1])
    texts = draft.texts[: scored[-1] + 1]
    sides = ("assistant" if turn.speaker == bot else "user" for turn in turns)
    spoken = tuple(Turn(side, text) for side, text in zip(sides, texts, strict=False))
    return Dialogue(name, spoken, meta={"scored": scored})


def _add_faults(draft: _Draft, last: int) -> None:
    """Replace replies by faulty ones, the last in any case, and some user turns by reactions to them."""
    chances = np.array(_SHARES) / sum(_SHARES)
    fault = FAULTS[str(draft.chance.choice(list(FAULTS), p=chances))]
    rate = 1.0 if draft.chance.random() < _ALWAYS else 0.5
    reacting = draft.chance.random() < _REACTING
    for place in draft.replies:
        faulty = draft.chance.random() < rate or place == last
        if faulty:
            draft.texts[place] = fault(draft, place)
        answer, drawn = place + 1, draft.chance.random()
        if reacting and answer < len(draft.texts) and answer not in draft.replies:
            if drawn < (_COMPLAINT if faulty else _UNFAIR):
                draft.texts[answer] = draft.one(_reactions()["displeased"])
            elif not faulty and drawn < _UNFAIR + _PRAISE:
                draft.texts[answer] = draft.one(_reactions()["pleased"])


@cache
def _reactions() -> dict[str, list[str]]:
    """Read the bundled sentences of pleased and displeased users."""
    from dialeval.dialogues.formats import read

    by_reaction: dict[str, list[str]] = {}
    with as_file(files("dialeval.dialogues") / "examples" / "reactions.jsonl") as path:
        for dialogue in read(path):
            for turn in dialogue.turns:
                if reaction := turn.meta.get("reaction"):
                    by_reaction.setdefault(reaction, []).append(turn.text)
    return by_reaction


def recipe(encoder: str | None = None, teacher: str = "followup", longest: str = str(LONGEST)) -> Recipe:
    """Student of a slower metric, trained on its scores of augmented dialogues.

    Args:
        encoder: A student reads the vectors of the shipped encoder; any other is refused.
        teacher: A metric, its fields after semicolons: `followup;template=prefixes`. Its scores of turns
            are the targets; one that scores dialogues only is given each dialogue up to some of its replies.
        longest: Turns of a dialogue that the teacher is shown at most.
    """
    if encoder is not None:
        raise UsageError("a student reads the vectors of the shipped encoder: leave --encoder out")
    if not longest.isascii() or not longest.isdecimal() or not 2 <= int(longest) <= _MOST_TURNS:
        raise UsageError(f"longest={longest}: expected a number of turns, 2 to {_MOST_TURNS}")
    name, _, fields = teacher.partition(";")
    metric = build(f"{name}:{fields.replace(';', ',')}" if fields else name)
    of_turns = judges_turns(metric)

    def signals(dialogues: list[Dialogue]) -> tuple[list[Dialogue], Signals]:
        augmented = augment(dialogues, int(longest))
        inputs = [Dialogue(dialogue.id, dialogue.turns) for dialogue in augmented]
        return inputs, teacher_scores(metric, augmented, of_turns)

    scored = "a reply" if of_turns else "a dialogue, up to a reply,"
    return signal_recipe(
        "student",
        Head(QUALITY, "regression"),
        signals,
        REPLY if of_turns else WHOLE,
        RIDGE if of_turns else replace(RIDGE, weight_decay=0.1),
        at_once=_AT_ONCE,
        about=f"Predicts the score that `{teacher}` would give {scored} from its scores of other dialogues.",
        emphasis=dict.fromkeys(_FEW, 3.0) if of_turns else None,
        judges="turns" if of_turns else "dialogues",
        sets=tuple(teacher_sets(teacher)),
    )


def judges_turns(teacher: Any) -> bool:
    """Return whether a metric scores turns, found by scoring a small dialogue.

    >>> judges_turns(build("length")), judges_turns(build("turns"))
    (True, False)
    """
    turns = (Turn("user", "Hello, how are you?"), Turn("assistant", "Fine, and how are you today?"))
    first = teacher.dimensions[0]
    return any(
        row.turn is not None for row in teacher.score([Dialogue("chat", turns)]) if row.dimension == first
    )


def teacher_scores(teacher: Any, augmented: Sequence[Dialogue], of_turns: bool) -> Signals:
    """Return a teacher's scores of the turns in `scored`, or of each dialogue up to them."""
    places = [(dialogue, place) for dialogue in augmented for place in dialogue.meta["scored"]]
    if of_turns:
        inputs, targets = (
            list(augmented),
            {f"{dialogue.id}/{place}": (dialogue.id, place) for dialogue, place in places},
        )
    else:
        inputs = [
            Dialogue(f"{dialogue.id}/{place}", dialogue.turns[: place + 1]) for dialogue, place in places
        ]
        targets = {
            part.id: (dialogue.id, place) for part, (dialogue, place) in zip(inputs, places, strict=True)
        }
    answers = Signals()
    for row in teacher.score(inputs):
        place = targets.get(f"{row.dialogue_id}/{row.turn}" if of_turns else row.dialogue_id)
        relevant = (row.turn is not None) == of_turns and row.dimension == teacher.dimensions[0]
        if place is not None and relevant and row.value is not None:
            answers[place] = row.value
    return answers
