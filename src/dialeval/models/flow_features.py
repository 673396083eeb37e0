"""The flow of a dialogue up to a turn, in numbers: which acts there were, what followed what, and how much.

A comparison of flows, such as FlowEval's, rewards those that are usual among people. Most of what makes a
flow usual is in the shares of its acts and of its pairs of acts, and in its length.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dialeval.dialogues import Dialogue
from dialeval.dialogues.acts import ACTS
from dialeval.dialogues.segments import Segment, segments_of
from dialeval.models.network import Floats

Places = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
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
    upto = np.searchsorted([one.turn for one in known], np.asarray(turns, np.int64), side="right")
    rows = zip(NAMES, (_acts(known, upto), _transitions(known, upto), _sizes(known, upto)), strict=True)
    return {name: np.asarray(block, np.float32) for name, block in rows}


def _acts(segments: Sequence[Segment], upto: Places) -> Doubles:
    """Give the shares of acts among the first segments, of all, of who began and of the others."""
    acts, ours = _numbers(segments), np.array([one.speaker == segments[0].speaker for one in segments], bool)
    return np.concatenate([_shares(acts, some, len(ACTS), upto) for some in (ours | ~ours, ours, ~ours)], 1)


def _transitions(segments: Sequence[Segment], upto: Places) -> Doubles:
    acts = _numbers(segments)
    pairs = acts[:-1] * len(ACTS) + acts[1:]
    return _shares(pairs, np.ones(len(pairs), bool), len(ACTS) ** 2, np.maximum(upto - 1, 0))


def _numbers(segments: Sequence[Segment]) -> Places:
    return np.array([ACTS.index(one.act or "") for one in segments], np.int64)


def _shares(numbers: Places, counted: npt.NDArray[np.bool_], size: int, upto: Places) -> Doubles:
    """Give the share of each number among those that count of the first `upto`, a row each."""
    seen = np.zeros((len(numbers) + 1, size))
    seen[1:][np.flatnonzero(counted), numbers[counted]] = 1.0
    found = np.cumsum(seen, axis=0)[upto]
    return np.asarray(found / np.maximum(found.sum(axis=1, keepdims=True), 1.0))


def _sizes(segments: Sequence[Segment], upto: Places) -> Doubles:
    """Segments, turns and words, as logarithms; squares; segments a turn; how long turns and segments are."""
    words = np.array([len(one.text.split()) for one in segments], np.float64)
    turn = np.array([one.turn for one in segments], np.int64)
    starts = np.flatnonzero(np.diff(turn, prepend=-1))
    spoken = np.searchsorted(starts, upto, side="left")  # turns among the first segments
    long = np.log1p(np.add.reduceat(words, starts)) if len(starts) else words
    many, turns = np.log1p(upto), np.log1p(spoken)
    mean, square = _mean(long, spoken), _mean(long**2, spoken)
    spread = np.sqrt(np.maximum(square - mean**2, 0.0))
    said = np.log1p(_mean(words, upto) * upto)
    amounts = [many, turns, said, many**2, turns**2, upto / np.maximum(spoken, 1)]
    return np.stack([*amounts, mean, spread, _mean(np.log1p(words), upto)], axis=1)


def _mean(values: Doubles, upto: Places) -> Doubles:
    """Give the mean of the first `upto` values, of none 0."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(sums[upto] / np.maximum(upto, 1))
