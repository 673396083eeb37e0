"""The flow of a dialogue up to a turn, in numbers: which acts there were, what followed what, and how much.

A comparison of flows, such as FlowEval's, rewards those that are usual among people. Most of what makes a
flow usual is in the shares of its acts and of its pairs of acts, and in its length.
"""

from collections.abc import Sequence

import numpy as np

from dialeval.dialogues import Dialogue
from dialeval.dialogues.acts import ACTS
from dialeval.dialogues.segments import Segment, segments_of
from dialeval.models.network import Floats

NAMES = ("acts", "transitions", "sizes")
"""Blocks of features: shares of acts, of both sides and of either; shares of pairs of acts; amounts."""


def flow_features(dialogue: Dialogue, turns: Sequence[int]) -> dict[str, Floats]:
    """Describe a dialogue, whose segments have acts, up to each of some turns: a row for each, by block.

    >>> from dialeval.dialogues import dialogue
    >>> from dialeval.models.segment_acts import SegmentActs
    >>> chat = dialogue([("user", "Hi, where is the station?"), ("assistant", "Behind the church.")])
    >>> found = flow_features(SegmentActs.load().label([chat])[0], [0, 1])
    >>> found["acts"][:, [ACTS.index("greeting"), ACTS.index("inform")]].round(2)
    array([[0.5 , 0.  ],
           [0.33, 0.33]], dtype=float32)
    >>> [found[name].shape for name in NAMES]
    [(2, 33), (2, 121), (2, 9)]
    """
    known = [one for one in segments_of(dialogue) if one.act is not None]
    rows = [_described([one for one in known if one.turn <= turn]) for turn in turns]
    sizes = (3 * len(ACTS), len(ACTS) ** 2, 9)
    return {
        name: np.array([row[number] for row in rows], np.float32).reshape(len(rows), size)
        for number, (name, size) in enumerate(zip(NAMES, sizes, strict=True))
    }


def _described(segments: Sequence[Segment]) -> tuple[Floats, Floats, Floats]:
    acts = np.array([ACTS.index(one.act or "") for one in segments], np.int64)
    first = np.array([one.speaker == segments[0].speaker for one in segments], bool)
    shares = [_shares(some, len(ACTS)) for some in (acts, acts[first], acts[~first])]
    pairs = _shares(acts[:-1] * len(ACTS) + acts[1:], len(ACTS) ** 2)
    return np.concatenate(shares), pairs, _sizes(segments)


def _shares(numbers: np.ndarray, size: int) -> Floats:
    return np.asarray(np.bincount(numbers, minlength=size) / max(1, len(numbers)), np.float32)


def _sizes(segments: Sequence[Segment]) -> Floats:
    """Segments, turns and words, as logarithms; their squares; segments a turn; how long turns are."""
    words: dict[int, int] = {}
    for one in segments:
        words[one.turn] = words.get(one.turn, 0) + len(one.text.split())
    long = np.log1p(list(words.values()) or [0])
    each = np.log1p([len(one.text.split()) for one in segments] or [0])
    many, turns = np.log1p(len(segments)), np.log1p(len(words))
    amounts = [many, turns, np.log1p(sum(words.values())), many**2, turns**2]
    amounts += [len(segments) / max(1, len(words)), long.mean(), long.std(), each.mean()]
    return np.array(amounts, np.float32)
