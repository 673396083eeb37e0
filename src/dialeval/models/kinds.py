"""The kind of a dialogue: small talk, information, support, a task, a recommendation or tutoring.

Different things matter in each: the user's last turn nearly decides a support case, and says little about a
quiz. A dialogue is of the kind whose example sentences (`kinds.toml`, sixteen each) are most similar to its
user turns; nothing is trained. Tool calls are evidence for a task, retrieved passages for information. The
result is a share of each kind.
"""

import functools
import tomllib
from collections.abc import Sequence
from importlib.resources import files as resources
from typing import Literal, get_args

import numpy as np

from dialeval.dialogues import Dialogue, says_something
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.models.needs import Need, spoken_turns
from dialeval.models.network import Floats, multiply

Kind = Literal["chat", "information", "support", "task", "recommendation", "tutoring"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_NEAREST = 3  # examples that a turn is compared with
_TURNS = 8  # user turns that are looked at
_SHARPNESS = 25.0  # by which likeness is multiplied before the softmax
_CUE = 0.1  # likeness that tool calls and passages are worth


def kind_shares(dialogues: Sequence[Dialogue], encoder: Encoder | None = None) -> Floats:
    """Return the shares of `KINDS` for each dialogue, a row each that adds up to 1.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "My parcel is lost, I want my money back."), ("assistant", "Sorry!")], "d")
    >>> KINDS[int(kind_shares([chat])[0].argmax())]
    'support'
    """
    encoder = encoder or Encoder.load(DEFAULT)
    texts_of = [_user_turns(examples) for examples in dialogues]
    vectors = encoder.vectors([text for texts in texts_of for text in texts])
    shares, start = np.full((len(dialogues), len(KINDS)), 1.0 / len(KINDS), np.float32), 0
    for row, (dialogue, texts) in enumerate(zip(dialogues, texts_of, strict=True)):
        own = vectors[start : start + len(texts)]
        start += len(texts)
        if texts:
            likeness = np.array([_likeness(own, rows) for rows in _examples(encoder)]) + _cues(dialogue)
            powers = np.exp(_SHARPNESS * (likeness - likeness.max()))
            shares[row] = powers / powers.sum()
    return shares


def kind_needs() -> list[Need]:
    """Return the encoder outputs that are read."""
    encoder = Encoder.load(DEFAULT)
    return [Need(encoder, spoken_turns, (encoder.reading(),))]


def _user_turns(dialogue: Dialogue) -> list[str]:
    """Return the first user turns; of all speakers if none is called user."""
    spoken = list(filter(says_something, dialogue.turns))
    users = [turn.text for turn in spoken if turn.speaker == "user"]
    return (users or [turn.text for turn in spoken])[:_TURNS]


def _likeness(turns: Floats, examples: Floats) -> float:
    return float(np.sort(multiply(turns, examples), axis=1)[:, -_NEAREST:].mean())


def _cues(dialogue: Dialogue) -> Floats:
    cues = np.zeros(len(KINDS), np.float32)
    if any(turn.tool_calls or turn.speaker == "tool" for turn in dialogue.turns):
        cues[KINDS.index("task")] = _CUE
    if dialogue.evidence or any(turn.evidence for turn in dialogue.turns):
        cues[KINDS.index("information")] = _CUE
    return cues


@functools.lru_cache(maxsize=4)
def _examples(encoder: Encoder) -> tuple[Floats, ...]:
    table = tomllib.loads((resources("dialeval.models") / "kinds.toml").read_text(encoding="utf-8"))
    return tuple(encoder.vectors(table[kind]) for kind in KINDS)
