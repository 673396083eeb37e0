"""Lessons: what a teacher is asked about, made of dialogues that nobody rated.

Who shall learn what a teacher thinks must see bad dialogues too, and what is freely at hand are people's. So
one of the two people is made a bot with a habit (`HABITS`), which answers in their place now and then or
always, and the other one may say what they think of it, in words from the bundled reactions: an annoyed
user is what a teacher hears first. What a system said is taken as it is. What is done to a dialogue depends
on nothing but the dialogues given together, and their ids.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files

import numpy as np
import numpy.typing as npt

from dialeval.dialogues import Dialogue, Turn, takes_part
from dialeval.dialogues.negatives import Chance, draws_of
from dialeval.models.encoder import Encoder

LONGEST = 16  # turns of a dialogue that are read
_ASKED = 4  # replies of a dialogue that are asked about
_UNTOUCHED = 0.3  # of people's dialogues
_ALWAYS = 0.5  # of the bots: the others have their habit at every second reply
_OUTSPOKEN = 0.6  # of the users
_COMPLAINS, _PRAISES, _UNFAIR = 0.5, 0.15, 0.15  # after a reply of the bot; after one of the person it was
_CURT = 3  # words
_NEAREST = 3  # replies that a finder chooses from


@dataclass(frozen=True)
class _Pool:
    """What was said to what, in all dialogues: a row for each reply."""

    replies: list[str]
    owners: npt.NDArray[np.object_]
    curt: list[str]
    heard: npt.NDArray[np.float32]
    """The vector of the turn that each reply answers."""
    vectors: Mapping[str, npt.NDArray[np.float32]]

    @classmethod
    def of(cls, said: Mapping[str, Sequence[Turn]]) -> "_Pool":
        pairs = [
            (turns[place - 1].text, turns[place].text, owner)
            for owner, turns in said.items()
            for place in range(1, len(turns))
            if turns[place].speaker != turns[place - 1].speaker
        ]
        texts = list(dict.fromkeys(heard for heard, _, _ in pairs))
        vectors = Encoder.load().vectors(texts)
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        known = dict(zip(texts, vectors, strict=True))
        replies = [reply for _, reply, _ in pairs]
        curt = [reply for reply in replies if len(reply.split()) <= _CURT]
        owners = np.array([owner for _, _, owner in pairs], object)
        rows = [known[heard] for heard, _, _ in pairs]
        return cls(replies, owners, curt or replies, np.array(rows, np.float32), known)


@dataclass
class _Talk:
    """A dialogue while it is spoiled: its texts, and the places where the bot-to-be replies."""

    id: str
    texts: list[str]
    replies: list[int]
    pool: _Pool
    chance: Chance

    def one(self, texts: Sequence[str]) -> str:
        return texts[int(self.chance.integers(len(texts)))]


def _stranger(talk: _Talk, _: int) -> str:
    return talk.one(talk.pool.replies)


def _finder(talk: _Talk, place: int) -> str:
    heard = talk.pool.vectors.get(talk.texts[place - 1])
    others = np.flatnonzero(talk.pool.owners != talk.id)
    if heard is None or not len(others):
        return talk.texts[place]
    alike = (talk.pool.heard[others] @ heard).round(4)
    nearest = others[np.argsort(-alike, kind="stable")[:_NEAREST]]
    return talk.one([talk.pool.replies[row] for row in nearest])


def _parrot(talk: _Talk, place: int) -> str:
    own = [talk.texts[earlier] for earlier in talk.replies if earlier < place]
    return talk.one(own) if own else talk.texts[place]


def _echo(talk: _Talk, place: int) -> str:
    return talk.texts[place - 1]


def _curt(talk: _Talk, _: int) -> str:
    return talk.one(talk.pool.curt)


def _babbler(talk: _Talk, place: int) -> str:
    words = f"{talk.texts[place]} {talk.one(talk.pool.replies)}".split()
    talk.chance.shuffle(words)
    return " ".join(words[: max(_CURT, len(words) // 2)])


HABITS: Mapping[str, Callable[[_Talk, int], str]] = {
    "stranger": _stranger,
    "finder": _finder,
    "parrot": _parrot,
    "echo": _echo,
    "curt": _curt,
    "babbler": _babbler,
}
"""What a bot says in place of a reply: one of another dialogue, one that was given there to a turn most like
the one it answers, one of its own again, the user's words, very few words, or words of two replies, mixed."""
_SHARES = (2, 2, 1, 1, 1, 1)  # how often each of them is met


def lessons(dialogues: Sequence[Dialogue], longest: int = LONGEST) -> list[Dialogue]:
    """Make of dialogues what a teacher is asked about, each with the turns to learn from as its `scored`.

    Args:
        dialogues: Of two speakers; others are passed over.
        longest: How many turns of each are read.

    >>> from dialeval.dialogues import dialogue
    >>> said = [("ann", "Hi!"), ("bob", "Hello, how are you?"), ("ann", "Well?"), ("bob", "I am fine.")]
    >>> found = lessons([dialogue(said, f"d{number}") for number in range(9)])
    >>> [turn.text for turn in found[0].turns], found[0].meta["scored"]
    (['Hi!', 'Hello, how are you?', 'Well?', 'Hello, how are you?'], [1, 3])
    """
    every = {one.id: _said(one) for one in dialogues}
    said = {name: turns for name, turns in every.items() if len({turn.speaker for turn in turns}) == 2}
    if not said:
        return []
    pool = _Pool.of(said)
    made = (_lesson(name, turns[:longest], pool) for name, turns in said.items())
    return [one for one in made if one is not None]


def _said(dialogue: Dialogue) -> list[Turn]:
    return [turn for turn in dialogue.turns if takes_part(turn) and turn.text.strip()]


def _lesson(name: str, turns: Sequence[Turn], pool: _Pool) -> Dialogue | None:
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
    talk = _Talk(name, [turn.text for turn in turns], replies, pool, chance)
    asked = sorted(chance.choice(replies, min(_ASKED, len(replies)), replace=False).tolist())
    if not is_system and chance.random() >= _UNTOUCHED:
        _spoil(talk, asked[-1])
    texts = talk.texts[: asked[-1] + 1]
    sides = ("assistant" if turn.speaker == bot else "user" for turn in turns)
    spoken = tuple(Turn(side, text) for side, text in zip(sides, texts, strict=False))
    return Dialogue(name, spoken, meta={"scored": asked})


def _spoil(talk: _Talk, last: int) -> None:
    """Let a bot with a habit answer, the last time in any case, and the user say what they think of it."""
    chances = np.array(_SHARES) / sum(_SHARES)
    habit = HABITS[str(talk.chance.choice(list(HABITS), p=chances))]
    rate = 1.0 if talk.chance.random() < _ALWAYS else 0.5
    outspoken = talk.chance.random() < _OUTSPOKEN
    for place in talk.replies:
        theirs = talk.chance.random() < rate or place == last
        if theirs:
            talk.texts[place] = habit(talk, place)
        answer, drawn = place + 1, talk.chance.random()
        if outspoken and answer < len(talk.texts) and answer not in talk.replies:
            if drawn < (_COMPLAINS if theirs else _UNFAIR):
                talk.texts[answer] = talk.one(_reactions()["displeased"])
            elif not theirs and drawn < _UNFAIR + _PRAISES:
                talk.texts[answer] = talk.one(_reactions()["pleased"])


@cache
def _reactions() -> dict[str, list[str]]:
    """Read what users say when they are pleased or not, by us."""
    from dialeval.dialogues.formats import read

    found: dict[str, list[str]] = {}
    with as_file(files("dialeval.dialogues") / "examples" / "reactions.jsonl") as path:
        for one in read(path):
            for turn in one.turns:
                if reaction := turn.meta.get("reaction"):
                    found.setdefault(reaction, []).append(turn.text)
    return found
