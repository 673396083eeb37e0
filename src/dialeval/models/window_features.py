"""What a head of coherence reads of a window of turns: its features, by the class of the artefact.

An artefact is read with the features it was trained on. New ones are trained on `window_features`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dialeval.models.network import Floats
from dialeval.models.sketches import SKETCH, WORDS, sketches

Direction: TypeAlias = Literal["ur", "ru"]
DIRECTIONS: tuple[Direction, ...] = ("ur", "ru")
MOST = 4  # exchanges of history
HISTORIES = range(MOST + 1)
PLACES = 1 + 2 + 2 * MOST  # turns of a window: the one that follows, and the most that may come before it
KIND = "coherence.v2"
Places: TypeAlias = npt.NDArray[np.int64]


def window_features(vectors: Floats, places: Places, direction: Places, history: Places) -> Floats:
    """Describe windows, a row each.

    The reply that is judged has the same features whichever question is asked of it. Those of the turn after
    it are zero where `ur` does not see it. So what one question teaches about a reply serves the other.

    Args:
        vectors: Of turns with their sketches, see `described`.
        places: Rows of `vectors`, (windows, PLACES): the turn, then what came before it; -1 where nothing is.
        direction: The place in `DIRECTIONS` of the question that is asked.
        history: How many exchanges of history belong to it.
    """
    ahead = np.concatenate([np.full_like(places[:, :1], -1), places[:, :-1]], axis=1)
    slots = np.where(direction[:, None] == DIRECTIONS.index("ru"), places, ahead)
    there = (slots >= 0).astype(np.float32)
    whole = vectors[np.maximum(slots, 0)] * there[:, :, None]
    seen, facts, words = np.split(whole, [-SKETCH, -WORDS], axis=2)
    after, reply, last, second = (seen[:, slot] for slot in range(4))
    earlier = seen[:, 3:].sum(axis=1) / np.maximum(there[:, 3:].sum(axis=1, keepdims=True), 1.0)
    blocks = [
        *(after, reply, last, second, earlier),
        *(reply * last, reply * second, reply * earlier, after * reply, after * last),
        *(*_alike(seen), *_alike(words), *(facts[:, slot] for slot in range(4))),
        *(there[:, 3:], _asked(direction, history)),
    ]
    return np.concatenate(blocks, axis=1, dtype=np.float32)


def _alike(seen: Floats) -> Iterator[Floats]:
    """Say how alike each of the newest three turns is to those before it, and the most it is to history."""
    found = np.matmul(seen[:, :3], seen.transpose(0, 2, 1))
    yield from (found[:, slot, slot + 1 :] for slot in range(3))
    yield from (found[:, slot, 3:].max(axis=1, keepdims=True) for slot in range(2))


def first_features(vectors: Floats, places: Places, direction: Places, history: Places) -> Floats:
    """Describe windows as `coherence.v1` did: by place from the newest turn on, whichever turn is judged."""
    there = (places >= 0).astype(np.float32)
    whole = vectors[np.maximum(places, 0)] * there[:, :, None]
    seen, facts, words = np.split(whole, [-SKETCH, -WORDS], axis=2)
    after, last, second = seen[:, 0], seen[:, 1], seen[:, 2]
    count = np.maximum(there[:, 2:].sum(axis=1, keepdims=True), 1.0)
    earlier = seen[:, 2:].sum(axis=1) / count
    alike = [np.matmul(some[:, :2], some.transpose(0, 2, 1)) for some in (seen, words)]
    cosines = [part for one in alike for part in (one[:, 0, 1:], one[:, 1, 2:])]
    blocks = [
        *(after, last, second, earlier),
        *(after * last, after * second, last * second, after * earlier, last * earlier),
        *(*cosines, facts[:, 0], facts[:, 1], facts[:, 2], there[:, 2:], _asked(direction, history)),
    ]
    return np.concatenate(blocks, axis=1, dtype=np.float32)


def _asked(direction: Places, history: Places) -> Floats:
    """Write down which question is asked."""
    asked = np.zeros((len(history), 1 + len(HISTORIES)), np.float32)
    asked[:, 0] = direction
    asked[np.arange(len(history)), 1 + history] = 1.0
    return asked


FEATURES: Mapping[str, Callable[[Floats, Places, Places, Places], Floats]] = {
    "coherence.v1": first_features,
    KIND: window_features,
}


def described(vectors: Floats, texts: Sequence[str]) -> Floats:
    """Put the sketches of turns beside their vectors, which are of length one, or zero in silence."""
    return np.concatenate([vectors, sketches(texts)], axis=1)


def padded(turns: Sequence[int]) -> list[int]:
    """Fill the turns of a window up to its full size."""
    return [*turns, *[-1] * (PLACES - len(turns))]
