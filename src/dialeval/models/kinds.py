"""What kind of dialogue it is: small talk, information, support, a task, a recommendation or tutoring.

Different things matter in each: what the user says last nearly decides a support case, and says next to
nothing of a quiz. A dialogue is of the kind whose examples (`kinds.toml`, sixteen sentences each) its user
turns are most like, by the vectors that a run has anyway; nothing was trained. Tool calls speak for a task,
passages at hand for information. The answer is a share for each kind, so that a doubtful dialogue is judged
in between.
"""

import functools
import tomllib
from collections.abc import Sequence
from importlib.resources import files as resources
from typing import Literal, get_args

import numpy as np

from dialeval.dialogues import Dialogue, takes_part
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
    """Return how much each dialogue is of each kind: a row of shares that add up to 1, as in `KINDS`.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "My parcel is lost, I want my money back."), ("assistant", "Sorry!")], "d")
    >>> KINDS[int(kind_shares([chat])[0].argmax())]
    'support'
    """
    encoder = encoder or Encoder.load(DEFAULT)
    said = [_user_turns(one) for one in dialogues]
    vectors = encoder.vectors([text for some in said for text in some])
    shares, start = np.full((len(dialogues), len(KINDS)), 1.0 / len(KINDS), np.float32), 0
    for row, (dialogue, some) in enumerate(zip(dialogues, said, strict=True)):
        own = vectors[start : start + len(some)]
        start += len(some)
        if some:
            likeness = np.array([_likeness(own, one) for one in _examples(encoder)]) + _cues(dialogue)
            powers = np.exp(_SHARPNESS * (likeness - likeness.max()))
            shares[row] = powers / powers.sum()
    return shares


def kind_needs() -> list[Need]:
    """Return what is read of the encoder."""
    encoder = Encoder.load(DEFAULT)
    return [Need(encoder, spoken_turns, (encoder.reading(),))]


def _user_turns(dialogue: Dialogue) -> list[str]:
    """Return the first turns of the user; of both, where nobody is called user."""
    said = [turn for turn in dialogue.turns if takes_part(turn) and turn.text.strip()]
    users = [turn.text for turn in said if turn.speaker == "user"]
    return (users or [turn.text for turn in said])[:_TURNS]


def _likeness(turns: Floats, examples: Floats) -> float:
    return float(np.sort(multiply(turns, examples), axis=1)[:, -_NEAREST:].mean())


def _cues(dialogue: Dialogue) -> Floats:
    found = np.zeros(len(KINDS), np.float32)
    if any(turn.tool_calls or turn.speaker == "tool" for turn in dialogue.turns):
        found[KINDS.index("task")] = _CUE
    if dialogue.evidence or any(turn.evidence for turn in dialogue.turns):
        found[KINDS.index("information")] = _CUE
    return found


@functools.lru_cache(maxsize=4)
def _examples(encoder: Encoder) -> tuple[Floats, ...]:
    given = tomllib.loads((resources("dialeval.models") / "kinds.toml").read_text(encoding="utf-8"))
    return tuple(encoder.vectors(given[kind]) for kind in KINDS)
