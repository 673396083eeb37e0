"""Greedy matching of tokens: how BERTScore compares two texts.

Every token of a text looks for the token of the other text whose state in an encoder is most like its own.
*Precision* is the mean cosine over the tokens of the text that is judged, *recall* over those of the
reference, *F1* their harmonic mean. A token that finds only negative cosines counts as 0. Marks that the
encoder puts around a text have no weight in the means, but a token may match one. A mean may be weighted by
inverse document frequency (`Idf`), so that rare tokens count more.

A text is compared with many others in one product of matrices per block of theirs, and a corpus that is
compared with again and again is encoded once and kept in two bytes a number.
"""

import functools
import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dialeval.dialogues.formats import read
from dialeval.errors import DataError, UsageError
from dialeval.files import sha256
from dialeval.models.batching import default_threads, side_by_side
from dialeval.models.encoder import Encoder
from dialeval.models.network import open_session
from dialeval.models.onnx_bytes import FLOAT, Graph
from dialeval.models.tokens import Tokenizer

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
BLOCK_TOKENS = 2048  # tokens of the others in one product: what a core's cache holds
_ROOM = 1 << 18  # characters encoded and held at a time, none counted that an encoder would cut off
_SOME = 16  # candidates that a core takes at a time
_FINEST = 32767  # the largest whole number in two bytes


@dataclass(frozen=True)
class States:
    """The tokens of one text, ready to be matched; of an empty text there are none.

    `rows` times `scale` are vectors of length one, (tokens, width); `weights` add up to 1, or are all 0.
    """

    rows: npt.NDArray[Any]
    weights: Floats
    scale: float = 1.0

    @classmethod
    def of(cls, rows: npt.NDArray[Any], weights: Sequence[float] | Floats) -> "States":
        """Bring the states of tokens to length one and their weights to a sum of 1.

        >>> States.of(np.array([[3.0, 4.0]]), [5])
        States(rows=array([[0.6, 0.8]], dtype=float32), weights=array([1.], dtype=float32), scale=1.0)
        """
        rows = rows.astype(np.float32)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
        shares = np.asarray(weights, np.float64)
        return cls(rows, (shares / (shares.sum() or 1.0)).astype(np.float32))

    def packed(self) -> "States":
        """Keep the vectors in two bytes a number, which moves a score by about 1e-5."""
        largest = float(np.abs(self.rows).max(initial=0.0)) or 1.0
        rows = np.rint(self.rows * (_FINEST / largest)).astype(np.int16)
        return States(rows, self.weights, self.scale * largest / _FINEST)


def greedy_match(one: States, others: Sequence[States]) -> Doubles:
    """Compare one text with each of many: precision, recall and F1 of `one`, (others, 3), from 0 to 1.

    A side on which no token has weight scores 0. Against an empty text, or of one, all three are 0.

    >>> cat, dog, car = np.eye(3)
    >>> said, wanted = States.of(np.array([cat, dog]), [1, 1]), States.of(np.array([cat]), [1])
    >>> greedy_match(said, [wanted, States.of(np.array([car]), [1])]).round(3)
    array([[0.5  , 1.   , 0.667],
           [0.   , 0.   , 0.   ]])
    """
    found = np.zeros((len(others), 3))
    if not len(one.rows):
        return found
    mine = one.rows.astype(np.float32, copy=False)
    places = [place for place, other in enumerate(others) if len(other.rows)]
    for group in _blocks(places, lambda place: (place,), lambda place: len(others[place].rows), BLOCK_TOKENS):
        some = [others[place] for place in group]
        starts = np.cumsum([0, *(len(other.rows) for other in some)])
        theirs = np.empty((starts[-1], mine.shape[1]), np.float32)
        for start, other in zip(starts, some, strict=False):
            theirs[start : start + len(other.rows)] = other.rows
        table = _product()(mine, theirs)
        scales = one.scale * np.array([other.scale for other in some])
        closest = np.maximum(np.maximum.reduceat(table, starts[:-1], axis=1), 0)
        found[group, 0] = scales * np.einsum("t,to->o", one.weights, closest)
        weights = np.concatenate([other.weights for other in some])
        found[group, 1] = scales * np.add.reduceat(table.max(axis=0, initial=0) * weights, starts[:-1])
    both, total = found[:, 0] * found[:, 1], found[:, 0] + found[:, 1]
    np.divide(2 * both, total, out=found[:, 2], where=total > 0)
    return found


@functools.cache
def _product() -> Callable[[Floats, Floats], Floats]:
    """Return a function that multiplies a matrix by another, turned, on the core that calls it.

    numpy's own spreads over all cores and lets them wait for each other: where others work, too, it was
    measured five times slower than this.
    """
    graph = Graph()
    graph.input("one", FLOAT, ["mine", "width"])
    graph.input("other", FLOAT, ["theirs", "width"])
    graph.node("Gemm", ["one", "other"], output="table", transB=1)
    graph.output("table", FLOAT, ["mine", "theirs"])
    session = open_session(graph.model(), {})

    def multiply(one: Floats, other: Floats) -> Floats:
        found: Any = session.run(["table"], {"one": one, "other": other})[0]
        return np.asarray(found, np.float32)

    return multiply


if hasattr(os, "register_at_fork"):  # as for encoders: the child loads its own
    os.register_at_fork(after_in_child=_product.cache_clear)


@dataclass(frozen=True)
class Idf:
    """How telling each token is: the logarithm of (texts + 1) / (texts with this token + 1).

    >>> idf = Idf(9, {7: 9, 8: 4})
    >>> [round(float(weight), 3) for weight in idf.weights([7, 8, 9])]
    [0.0, 0.693, 2.303]
    """

    texts: int
    counts: Mapping[int, int]
    """In how many texts a token occurs, by its number."""

    @classmethod
    def of(cls, texts: Iterable[str], tokenizer: Tokenizer) -> "Idf":
        """Count tokens over texts, cut where the encoder would cut them."""
        counts: Counter[int] = Counter()
        total = 0
        for block in _blocks(texts, _itself, len, _ROOM):
            total += len(block)
            for tokens in tokenizer.encode([_plain(text) for text in block]):
                counts.update(set(tokens.ids))
        return cls(total, dict(counts))

    def weights(self, tokens: Sequence[int]) -> Floats:
        """Give the weight of each token."""
        seen = np.array([self.counts.get(token, 0) for token in tokens], np.float64)
        return np.log((self.texts + 1) / (seen + 1)).astype(np.float32)


def idf_of_file(path: str, encoder: Encoder) -> Idf:
    """Count over a file of dialogues, in any format that is read; a turn that is not blank is a text."""
    return _counted(path, sha256(path), encoder)


@functools.lru_cache(maxsize=4)
def _counted(path: str, _sha: str, encoder: Encoder) -> Idf:
    texts = (turn.text for dialogue in read(path) for turn in dialogue.turns if turn.text.strip())
    idf = Idf.of(texts, encoder.tokenizer)
    if not idf.texts:
        raise DataError("no turn with text in it to count tokens over", file=path)
    return idf


class Matcher:
    """Compares texts by the states of one layer of an encoder.

    >>> matcher = Matcher(Encoder.load(), 6)
    >>> matcher.score(["A table for two, please."], [["We need a table.", "Good night!"]]).round(2)
    array([[0.66, 0.71, 0.69]])
    """

    def __init__(self, encoder: Encoder, layer: int | None = None, idf: Idf | None = None) -> None:
        self.encoder, self.layer, self.idf = encoder, layer, idf
        self._threads = default_threads()
        self._marks = encoder.tokenizer.special()[0]
        self._kept: dict[str, States] = {}

    def prepare(self, texts: Iterable[str]) -> None:
        """Encode a corpus once and keep it: 768 bytes a token at a width of 384."""
        fresh = (text for text in dict.fromkeys(texts) if text not in self._kept)
        for block in _blocks(fresh, _itself, self._size, _ROOM):
            for text, states in zip(block, self._encode(block, half=True), strict=True):
                self._kept[text] = states.packed()

    def compare(self, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> Iterator[Doubles]:
        """Yield precision, recall and F1 of each candidate against each of its references, (references, 3).

        One call for many candidates is much faster than many calls.
        """
        if len(candidates) != len(references):
            raise UsageError(f"{len(candidates)} candidates, but {len(references)} lists of references")
        for block in _blocks(zip(candidates, references, strict=True), _texts, self._size, _ROOM):
            states = self._states(text for pair in block for text in _texts(pair))
            match = functools.partial(_match, states)
            parts = [block[start : start + _SOME] for start in range(0, len(block), _SOME)]
            for _, found in side_by_side(match, parts, self._threads):
                yield from found

    def score(self, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> Doubles:
        """Give precision, recall and F1 of each candidate, (candidates, 3).

        Of several references the best counts, for each of the three by itself; without any, all are 0.
        """
        found = np.zeros((len(candidates), 3))
        for row, each in zip(found, self.compare(candidates, references), strict=True):
            if len(each):
                row[:] = each.max(axis=0)
        return found

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Say of each text whether it is longer than the encoder can take, so that its end is not seen."""
        return self.encoder.truncated([_plain(text) for text in texts])

    def _size(self, text: str) -> int:
        return 0 if text in self._kept else min(len(text), self.encoder.limit) + len(self._marks)

    def _states(self, texts: Iterable[str]) -> dict[str, States]:
        distinct = dict.fromkeys(texts)
        fresh = [text for text in distinct if text not in self._kept]
        found = {text: self._kept[text] for text in distinct if text in self._kept}
        return found | dict(zip(fresh, self._encode(fresh), strict=True))

    def _encode(self, texts: Sequence[str], *, half: bool = False) -> list[States]:
        plain = [_plain(text) for text in texts]
        found = []
        for tokens, rows in zip(
            self.encoder.tokenizer.encode(plain),
            self.encoder.tokens(plain, layer=self.layer, half=half),
            strict=True,
        ):
            empty = len(tokens.ids) <= len(self._marks)
            found.append(States.of(rows[:0] if empty else rows, self._weights([] if empty else tokens.ids)))
        return found

    def _weights(self, tokens: Sequence[int]) -> Floats:
        if self.idf is not None:
            return self.idf.weights(tokens)
        return np.array([token not in self._marks for token in tokens], np.float32)


def _match(states: Mapping[str, States], pairs: Iterable[tuple[str, Sequence[str]]]) -> list[Doubles]:
    nothing = np.zeros((0, 3))
    return [
        greedy_match(states[one], [states[other] for other in others]) if others else nothing
        for one, others in pairs
    ]


def _plain(text: str) -> str:
    """Take blanks off the ends and put one in front: byte-level tokens know the start of a word by it."""
    text = text.strip()
    return f" {text}" if text else ""


def _blocks(
    items: Iterable[T], parts: Callable[[T], Iterable[K]], size: Callable[[K], int], room: int
) -> Iterator[list[T]]:
    """Cut a stream into lists whose parts, each counted once, add up to at most `room`.

    An item that is larger than that is a list of its own.
    """
    block: list[T] = []
    seen: set[K] = set()
    held = 0
    for item in items:
        fresh = set(parts(item)) - seen
        needed = sum(map(size, fresh))
        if block and held + needed > room:
            yield block
            block, seen, held = [], set(), 0
            fresh = set(parts(item))
            needed = sum(map(size, fresh))
        block.append(item)
        seen |= fresh
        held += needed
    if block:
        yield block


def _texts(pair: tuple[str, Sequence[str]]) -> tuple[str, ...]:
    """Name what must be encoded to compare one text with others: nothing, if there are none."""
    one, others = pair
    return (one, *others) if others else ()


def _itself(text: str) -> tuple[str]:
    return (text,)
