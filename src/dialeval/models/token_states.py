"""Token states: the encoder's vector of each token of a text.

Each turn of a dialogue is encoded by itself, and the states of all turns are concatenated without special
tokens. So a repeated turn costs nothing, and only a turn can exceed the encoder's limit, not a dialogue.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from dialeval.models.encoder import Encoder

Floats = npt.NDArray[np.float32]
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
ROOM = 1 << 18  # characters encoded at a time, without those that an encoder truncates


@dataclass(frozen=True, eq=False)
class TokenStates:
    """The tokens of a text, and a vector of length one for each: its row of `numbers` times its scale.

    From the encoder, `numbers` are its float states. An index stores int8, which changes the F1 of two
    dialogues by less than 1e-3.
    """

    tokens: npt.NDArray[Any]
    """Token ids, (tokens,)."""
    numbers: npt.NDArray[Any]
    """int8, int16 or float32, (tokens, width)."""
    scales: Floats

    @classmethod
    def of(cls, tokens: Sequence[int] | npt.NDArray[Any], states: npt.NDArray[Any]) -> "TokenStates":
        """Return states with the scales that make them unit vectors; zeros stay zeros.

        >>> states = TokenStates.of([7], np.array([[3.0, 4.0]]))
        >>> states.numbers.tolist(), states.scales.round(3).tolist()
        ([[3.0, 4.0]], [0.20000000298023224])
        """
        rows = states.astype(np.float32)
        lengths = np.linalg.norm(rows, axis=1)
        return cls(
            np.asarray(tokens, np.int32), rows, np.where(lengths > 0, 1 / np.maximum(lengths, 1e-30), 0)
        )

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def vectors(self) -> Floats:
        """The vectors of length one, (tokens, width)."""
        return np.asarray(self.numbers * self.scales[:, None], np.float32)

    def packed(self, kind: type[np.int8] | type[np.int16] = np.int8) -> "TokenStates":
        """Return the states with each row quantised to integers with its own scale.

        >>> TokenStates.of([7], np.array([[3.0, -4.0]])).packed().numbers.tolist()
        [[95, -127]]
        """
        rows = self.vectors
        scales = np.abs(rows).max(axis=1, initial=0) / np.float32(np.iinfo(kind).max)
        numbers = np.rint(rows / np.where(scales > 0, scales, 1)[:, None])
        return TokenStates(self.tokens, numbers.astype(kind), scales.astype(np.float32))


def text_states(
    texts: Sequence[str], encoder: "Encoder", layer: int | None = None, *, half: bool = False
) -> list[TokenStates]:
    """Return the states of texts with special tokens; a text without other tokens has none.

    `half` is for half precision, for large corpora.
    """
    texts = [plain(text) for text in texts]
    marks = len(encoder.tokenizer.special()[0])
    tokens = [
        encoding.ids if len(encoding.ids) > marks else [] for encoding in encoder.tokenizer.encode(texts)
    ]
    states = encoder.tokens(texts, layer=layer, half=half)
    return [TokenStates.of(ids, rows[: len(ids)]) for ids, rows in zip(tokens, states, strict=True)]


def dialogue_states(
    dialogues: Iterable[Sequence[str]], encoder: "Encoder", layer: int | None = None
) -> Iterator[TokenStates]:
    """Yield the states of dialogues, each given as the texts of its turns, in bounded memory.

    Repeated turns of neighbouring dialogues are encoded once. A dialogue without text has no tokens.

    >>> from dialeval.models.encoder import Encoder
    >>> chats = [["Good morning!", "Good morning!"], ["", " "]]
    >>> [states.tokens.tolist() for states in dialogue_states(chats, Encoder.load())]
    [[2204, 2851, 999, 2204, 2851, 999], []]
    """
    marks = len(encoder.tokenizer.special()[0])
    spoken = ([text for text in turns if text.strip()] for turns in dialogues)
    for block in blocks(spoken, iter, lambda text: taken(text, encoder), ROOM):
        distinct = list(dict.fromkeys(text for turns in block for text in turns))
        states = zip(distinct, text_states(distinct, encoder, layer), strict=True)
        by_text = {text: _without(marked, marks) for text, marked in states}
        for turns in block:
            yield joined([by_text[text] for text in turns], encoder.width)


def plain(text: str) -> str:
    """Return a stripped text with a leading blank, which marks the start of a word in byte-level tokens."""
    text = text.strip()
    return f" {text}" if text else ""


def taken(text: str, encoder: "Encoder") -> int:
    """Return the cost of a text, of `ROOM`."""
    return min(len(text), encoder.limit) + 2


def blocks(
    items: Iterable[T], parts: Callable[[T], Iterable[K]], size: Callable[[K], int], room: int
) -> Iterator[list[T]]:
    """Yield lists of items whose distinct parts add up to at most `room`; a larger item is a list of its own.

    >>> list(blocks(["aab", "aba", "cd", "b"], set, lambda letter: 1, room=3))
    [['aab', 'aba'], ['cd', 'b']]
    """
    block: list[T] = []
    seen: set[K] = set()
    total = 0
    for item in items:
        fresh = set(parts(item)) - seen
        needed = sum(map(size, fresh))
        if block and total + needed > room:
            yield block
            block, seen, total = [], set(), 0
            fresh = set(parts(item))
            needed = sum(map(size, fresh))
        block.append(item)
        seen |= fresh
        total += needed
    if block:
        yield block


def _without(states: TokenStates, marks: int) -> TokenStates:
    """Return states without the special tokens, half of which are in front."""
    inner = slice(marks // 2, len(states) - (marks - marks // 2))
    return TokenStates(states.tokens[inner], states.numbers[inner], states.scales[inner])


def joined(parts: Sequence[TokenStates], width: int, kind: type[np.generic] = np.float32) -> TokenStates:
    """Concatenate the states of texts; `width` and `kind` are for an empty result."""
    return TokenStates(
        np.concatenate([np.empty(0, np.int32), *(part.tokens for part in parts)]),
        np.concatenate([np.empty((0, width), kind), *(part.numbers for part in parts)]),
        np.concatenate([np.empty(0, np.float32), *(part.scales for part in parts)]),
    )
