"""Features of a window of turns, as a head of coherence reads them.

A vector of meaning is vague about which words and numbers a turn has, how long it is and what it asks. A
reply that belongs elsewhere often names what was not spoken of yet, or what was settled long ago. So beside
its vector a turn has a *sketch*: a few plain facts, and its words, hashed into a vector of length one, whose
product with that of another turn says how many words the two share.
"""

import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dialeval.models.network import Floats

WORDS = 256
_TOKENS = re.compile(r"\[value\]|\d+(?:[:.]\d+)*|[^\W\d_]+(?:'[^\W\d_]+)?")
_COMMON = frozenset(
    re.findall(
        r"\S+",
        """
a about all also am an and any anything are as at be been book booked booking but by can could did
do does else find for from get give go good great had has have help hello hi how i i'd i'll i'm if
in is it it's its just know let like looking me my need no not of ok okay on one or our out please
sure thank thanks that that's the their them then there they this to today up us want was we welcome
well what when where which will with would yes you your you're
""",
    )
)
_CUES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\?",
        r"\?\s*$",
        r"^\W*(yes|yeah|yep|sure|ok(ay)?|certainly|of course|absolutely)\b",
        r"^\W*(no|nope|not)\b",
        r"\b(thanks?|thank you|cheers)\b",
        r"\b(bye|goodbye|good day|great day|nice day|enjoy|welcome)\b",
        r"\b(sorry|unfortunately|unable|cannot|can't|no \w+ (available|match))",
        r"\b(anything else|assist you further|what else)\b",
        r"\b(booked|reserved|reference|confirmation|successful(ly)?|confirmed)\b",
        r"\b(would you like|do you (want|need|have)|shall i|should i|can you (tell|please))\b",
        r"\b(confirm|correct|right\?)",
        r"\b(there (are|is)|i (have|found)|how about)\b",
        r"\b(i need|i want|i'd like|i would like|looking for|can you|could you|please)\b",
        r"^\W*(what|when|where|which|who|how|why)\b",
    )
)
FACTS = len(_CUES) + 3
SKETCH = FACTS + WORDS


def sketches(texts: Sequence[str]) -> Floats:
    """Sketch texts, a row each: facts, then hashed words, of length one where there are any.

    >>> one, other, third = sketches(["A room for 3 nights?", "3 nights, of course.", "Goodbye."])[:, FACTS:]
    >>> round(float(one @ other), 2), float(one @ third)
    (0.9, 0.0)
    """
    rows = np.zeros((len(texts), SKETCH), np.float32)
    for row, text in zip(rows, texts, strict=True):
        words = _TOKENS.findall(text.lower())
        numbers = sum(word[0].isdigit() or word[0] == "[" for word in words)
        row[: len(_CUES)] = [cue.search(text) is not None for cue in _CUES]
        row[len(_CUES) : FACTS] = np.log1p([len(words), numbers, len(set(words) - _COMMON)])
        for word in words:
            if word not in _COMMON and word[0] != "[":
                row[FACTS + zlib.crc32(word.encode("utf-8", "replace")) % WORDS] += (
                    2.0 if word[0].isdigit() else 1.0
                )
        row[FACTS:] /= max(float(np.linalg.norm(row[FACTS:])), 1e-12)
    return rows


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
    """Return how alike each of the newest three turns is to those before it, and at most to history."""
    found = np.matmul(seen[:, :3], seen.transpose(0, 2, 1))
    yield from (found[:, slot, slot + 1 :] for slot in range(3))
    yield from (found[:, slot, 3:].max(axis=1, keepdims=True) for slot in range(2))


def _asked(direction: Places, history: Places) -> Floats:
    """Write down which question is asked."""
    asked = np.zeros((len(history), 1 + len(HISTORIES)), np.float32)
    asked[:, 0] = direction
    asked[np.arange(len(history)), 1 + history] = 1.0
    return asked


def described(vectors: Floats, texts: Sequence[str]) -> Floats:
    """Put the sketches of turns beside their vectors, which are of length one, or zero in silence."""
    return np.concatenate([vectors, sketches(texts)], axis=1)


def padded(turns: Sequence[int]) -> list[int]:
    """Fill the turns of a window up to its full size."""
    return [*turns, *[-1] * (PLACES - len(turns))]
