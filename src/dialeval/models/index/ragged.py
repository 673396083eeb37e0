"""Columns with rows of variable length: words (TF-IDF over hashed terms) and token states.

Words are searched by the cosine of their weights. Token states are only read.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dialeval.errors import DataError, UsageError
from dialeval.models.index.dense import Nearest, best, fixed_list, numbers, unit
from dialeval.models.index.layout import REBUILD, ROWS, Array, TokenKind, WordKind
from dialeval.models.token_states import TokenStates, joined

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_matrix

_WORD = re.compile(r"\w+")
Text = str | Sequence[str]


def ragged(**parts: "pa.DataType") -> "pa.DataType":
    """Return the Arrow type of lists of structs with these fields."""
    import pyarrow as pa

    inner = pa.struct([pa.field(name, part, nullable=False) for name, part in parts.items()])
    return pa.large_list(pa.field("item", inner, nullable=False))


def _lists(parts: "Sequence[pa.Array]", ends: Array, stored: "pa.DataType") -> "pa.Array":
    """Return an array of lists from the fields of all items and the offsets of the lists."""
    import pyarrow as pa

    items = pa.StructArray.from_arrays(parts, fields=list(stored.value_type))
    return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), items, type=stored)


def words(text: str) -> list[str]:
    """Return the lower-cased words of a text, without punctuation.

    >>> words("Oh no, it's late!")
    ['oh', 'no', 'it', 's', 'late']
    """
    return _WORD.findall(text.lower())


@lru_cache(maxsize=1 << 18)
def bucket(term: str, buckets: int) -> int:
    """Return the hash bucket of a term, the same on every machine.

    >>> bucket("hotel", 1 << 20)
    648517
    """
    digest = hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") % buckets


def count(texts: Sequence[Text], buckets: int) -> "csr_matrix":
    """Count the terms of each text: the words of a string, or the items of a list.

    >>> count(["Good, good day", ["inform", "hotel"]], 1 << 20).data.tolist()
    [2.0, 1.0, 1.0, 1.0]
    """
    from scipy.sparse import csr_matrix

    ends, indices, numbers = [0], list[int](), list[int]()
    for text in texts:
        terms = words(text) if isinstance(text, str) else text
        row = Counter(bucket(term, buckets) for term in terms)
        indices.extend(sorted(row))
        numbers.extend(row[index] for index in sorted(row))
        ends.append(len(indices))
    counts = (np.array(numbers, "<f4"), np.array(indices, "<i4"), np.array(ends, "<i4"))
    return csr_matrix(counts, shape=(len(texts), buckets))


def check_texts(column: str, texts: object) -> Sequence[Text]:
    """Return the texts; raises unless they are a list of strings or of lists of terms."""
    if not isinstance(texts, Sequence) or isinstance(texts, str | bytes):
        raise UsageError(f"{column}: a column or query of words is a list of strings, one for each dialogue")
    for text in texts:
        terms = [text] if isinstance(text, str) else text
        if not isinstance(terms, Sequence) or not all(isinstance(term, str) for term in terms):
            raise UsageError(
                f"{column}: {text!r:.80} is neither a string nor a list of terms (vectors: a numpy array)"
            )
    return texts


class WordColumn:
    """A column of words, searched by the cosine of TF-IDF weights.

    The weight of a term with count c in a text and document frequency df among n texts is

        c · (ln((1 + n) / (1 + df)) + 1)

    Terms that are not in the index are ignored in queries; a text without terms has the score 0. Only counts
    are stored, because every addition changes the weights.
    """

    content = "words"

    def __init__(self, batches: "Sequence[pa.Array]", kind: WordKind, name: str, folder: Path) -> None:
        self.name, self.buckets = name, kind.buckets
        self.counts = [_read_words(batch, kind.buckets, name, folder) for batch in batches]
        having = np.zeros(kind.buckets, np.int64)
        for counts in self.counts:
            having += np.bincount(counts.indices, minlength=kind.buckets)
        rows = sum(counts.shape[0] for counts in self.counts)
        self.idf = np.where(having > 0, np.log((1 + rows) / (1 + having)) + 1, 0.0)
        self.lengths = np.concatenate([self._lengths(block) for _, block in self._blocks()])

    @staticmethod
    def stored(_: WordKind) -> "pa.DataType":
        """Return the type of the column in a file."""
        import pyarrow as pa

        return ragged(buckets=pa.int32(), counts=pa.float32())

    @classmethod
    def packed(cls, texts: object, kind: WordKind, name: str, _: Sequence[str]) -> "pa.Array":
        """Return the stored form: counts of terms."""
        import pyarrow as pa

        counts, stored = count(check_texts(name, texts), kind.buckets), cls.stored(kind)
        parts = [pa.array(counts.indices, pa.int32()), pa.array(counts.data, pa.float32())]
        return _lists(parts, counts.indptr, stored)

    def checked_query(self, query: object) -> Sequence[Text]:
        """Validate queries."""
        return check_texts(self.name, query)

    def cosines(self, texts: Sequence[Text]) -> Iterator[tuple[int, Array]]:
        """Yield the cosine of each text (a row) with each dialogue (a column), in blocks of dialogues."""
        query = count(texts, self.buckets)
        length = np.repeat(self._lengths(query), np.diff(query.indptr))
        query.data = query.data * self.idf[query.indices] ** 2 / np.where(length > 0, length, 1)
        terms = query.T.tocsr()
        for start, block in self._blocks():
            length = self.lengths[start : start + block.shape[0]]
            scores: Array = (block @ terms).toarray().T / np.where(length > 0, length, 1)
            yield start, np.minimum(scores, 1.0)

    def nearest(self, texts: Sequence[Text], k: int, _: None = None) -> Iterator[tuple[Array, Array]]:
        """Yield the k nearest rows to each text, nearest first, and their cosines."""
        nearest = Nearest(len(texts), k)
        for start, scores in self.cosines(texts):
            nearest.offer(scores, start)
        for rows, scores in nearest.results():
            yield best(rows, scores, k)

    def _lengths(self, counts: "csr_matrix") -> Array:
        weights = (counts.data * self.idf[counts.indices]) ** 2
        rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        return np.sqrt(np.bincount(rows, weights, minlength=counts.shape[0]))

    def _blocks(self) -> "Iterator[tuple[int, csr_matrix]]":
        before = 0
        for counts in self.counts:
            for start in range(0, counts.shape[0], ROWS):
                yield before + start, counts[start : start + ROWS]
            before += counts.shape[0]


def _read_words(batch: "pa.Array", buckets: int, name: str, folder: Path) -> "csr_matrix":
    """Read counts from a file and validate them, because compiled code relies on them."""
    from scipy.sparse import csr_matrix

    indices, counts = (numbers(batch.values.field(part)) for part in ("buckets", "counts"))
    inside = not len(indices) or (indices.min() >= 0 and indices.max() < buckets and counts.min() > 0)
    if not inside or not np.isfinite(counts).all():
        raise DataError(f"the words of {name!r} are damaged", file=folder, fix=REBUILD)
    return csr_matrix((counts, indices, numbers(batch.offsets).astype("<i4")), shape=(len(batch), buckets))


class TokenColumn:
    """A column of token states."""

    content = "token states"

    def __init__(self, batches: "Sequence[pa.Array]", kind: TokenKind, name: str, folder: Path) -> None:
        self.parts = [_read_states(batch, kind.width) for batch in batches]
        self.ends = [numbers(batch.offsets) for batch in batches]
        self.starts = np.cumsum([0, *map(len, batches)])
        # Any byte is a valid number; token ids and scales are validated.
        if not all(_sound(part.scales) and part.tokens.min(initial=0) >= 0 for part in self.parts):
            raise DataError(f"the token states of {name!r} are damaged", file=folder, fix=REBUILD)

    @staticmethod
    def stored(kind: TokenKind) -> "pa.DataType":
        """Return the type of the column in a file."""
        import pyarrow as pa

        return ragged(tokens=pa.int32(), numbers=fixed_list("int8", kind.width), scales=pa.float32())

    @classmethod
    def packed(cls, column: object, kind: TokenKind, name: str, ids: Sequence[str]) -> "pa.Array":
        """Return the stored form: vectors of length 1 as int8; int8 states are unchanged."""
        import pyarrow as pa

        if not isinstance(column, Sequence) or isinstance(column, str | bytes):
            raise UsageError(f"{name}: a column of token states is a list, one TokenStates for each dialogue")
        rows = [
            _packed(states, kind.width, name, dialogue_id)
            for states, dialogue_id in zip(column, ids, strict=True)
        ]
        all_states, stored = joined(rows, kind.width, np.int8), cls.stored(kind)
        numbers = pa.FixedSizeListArray.from_arrays(
            pa.array(all_states.numbers.reshape(-1)), type=stored.value_type.field("numbers").type
        )
        parts = [pa.array(all_states.tokens, pa.int32()), numbers, pa.array(all_states.scales, pa.float32())]
        return _lists(parts, np.cumsum([0, *map(len, rows)]), stored)

    def take(self, rows: Sequence[int]) -> list[TokenStates]:
        """Return the states of rows as read-only views."""
        states = []
        for number, row in zip(np.searchsorted(self.starts, rows, "right") - 1, rows, strict=True):
            part, inner = self.parts[number], row - self.starts[number]
            here = slice(*self.ends[number][inner : inner + 2].tolist())
            states.append(TokenStates(part.tokens[here], part.numbers[here], part.scales[here]))
        return states


def _read_states(batch: "pa.Array", width: int) -> TokenStates:
    tokens, states, scales = (batch.values.field(part) for part in ("tokens", "numbers", "scales"))
    rows = numbers(states.flatten()).reshape(-1, width)
    return TokenStates(numbers(tokens), rows, numbers(scales))


def width_of(states: TokenStates, column: str) -> int:
    """Return the width of token states."""
    shape = np.shape(states.numbers)
    if len(shape) != 2 or not shape[1]:
        raise UsageError(f"{column}: token states are an array with a row for each token, not {shape}")
    return int(shape[1])


def _packed(item: object, width: int, column: str, name: str) -> TokenStates:
    if not isinstance(item, TokenStates):
        raise UsageError(f"{column}: {item!r:.80} is not a TokenStates")
    actual, size = width_of(item, column), len(item.numbers)
    if actual != width:
        raise UsageError(f"{column}: token states are {actual} wide, those of the index {width}")
    tokens, scales = np.asarray(item.tokens), np.asarray(item.scales)
    if tokens.shape != (size,) or scales.shape != (size,) or (size and tokens.dtype.kind not in "iu"):
        raise UsageError(f"{column}: {name!r} has {size} states, which need as many token numbers and scales")
    if size and (tokens.min() < 0 or tokens.max() >= 1 << 31):
        raise UsageError(f"{column}: {name!r} has token numbers that no vocabulary has")
    if item.numbers.dtype != np.int8:
        states = unit(item.vectors, width, column, [name] * size)
        return TokenStates.of(tokens, states).packed()
    if not _sound(scales):
        raise DataError(f"the scales of {name!r} are not finite", field=column)
    return item


def _sound(scales: Array) -> bool:
    return not len(scales) or bool(scales.min() >= 0 and scales.max() < np.inf)
