"""Words as vectors: TF-IDF over hashed terms, and the cosine between them."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from dialeval.errors import DataError, UsageError
from dialeval.models.index.layout import REBUILD
from dialeval.models.index.ragged import Array, Counts
from dialeval.models.index.segments import ROWS, Segment

_WORD = re.compile(r"\w+")
Text = str | Sequence[str]


def words(text: str) -> list[str]:
    """Return the words of a text, lower-cased; punctuation is none.

    >>> words("Oh no, it's late!")
    ['oh', 'no', 'it', 's', 'late']
    """
    return _WORD.findall(text.lower())


@lru_cache(maxsize=1 << 18)
def bucket(term: str, buckets: int) -> int:
    """Return the bucket of a term: the same in every process, on every machine.

    >>> bucket("hotel", 1 << 20)
    648517
    """
    digest = hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") % buckets


def count(texts: Sequence[Text], buckets: int) -> Counts:
    """Count the terms of each text: the words of a string, or the items of a list just as they are.

    >>> count(["Good, good day", ["inform", "hotel"]], 1 << 20).counts.tolist()
    [2.0, 1.0, 1.0, 1.0]
    """
    ends, found, numbers = [0], list[int](), list[int]()
    for text in texts:
        terms = words(text) if isinstance(text, str) else text
        row = Counter(bucket(term, buckets) for term in terms)
        found.extend(sorted(row))
        numbers.extend(row[one] for one in sorted(row))
        ends.append(len(found))
    return Counts(np.array(ends, "<i8"), np.array(found, "<i4"), np.array(numbers, "<f4"))


def check_texts(column: str, texts: object) -> Sequence[Text]:
    """Return the texts if they are a list of strings or of lists of terms."""
    if not isinstance(texts, Sequence) or isinstance(texts, str | bytes):
        raise UsageError(f"{column}: a column or query of words is a list of strings, one for each dialogue")
    for text in texts:
        terms = [text] if isinstance(text, str) else text
        if not isinstance(terms, Sequence) or not all(isinstance(term, str) for term in terms):
            raise UsageError(
                f"{column}: {text!r:.80} is neither a string nor a list of terms (vectors: a numpy array)"
            )
    return texts


class TfIdf:
    """The weights of all terms of a column, and the search by them.

    A term that a text has c times, and that df of the n texts in the index have, weighs

        c · (ln((1 + n) / (1 + df)) + 1)

    and the score of two texts is the cosine between their weights. Terms that no text in the index has
    are left out of a query. A text without terms has the score 0 with everything.

    Nothing of this is stored but the counts, so that adding dialogues changes the weights of all, as it must.
    """

    def __init__(self, segments: Sequence[Segment], column: str, buckets: int) -> None:
        self.buckets, self.rows = buckets, sum(segment.rows for segment in segments)
        self.counts = [_checked(segment, column, buckets) for segment in segments]
        having = np.zeros(buckets, np.int64)
        for counts in self.counts:
            having += np.bincount(counts.buckets, minlength=buckets)
        self.idf = np.where(having > 0, np.log((1 + self.rows) / (1 + having)) + 1, 0.0)
        self.lengths = np.concatenate([self._lengths(block) for _, block in _blocks(self.counts)])

    def cosines(self, texts: Sequence[Text]) -> Iterator[tuple[int, Array]]:
        """Give the cosine of each text (a row) with each dialogue (a column), some dialogues at a time."""
        from scipy.sparse import csr_matrix

        query = count(texts, self.buckets)
        length = np.repeat(self._lengths(query), np.diff(query.ends))
        weights = query.counts * self.idf[query.buckets] ** 2 / np.where(length > 0, length, 1)
        terms = csr_matrix((weights, query.buckets, query.ends), shape=(len(texts), self.buckets)).T.tocsr()
        for start, block in _blocks(self.counts):
            shape = (len(block.ends) - 1, self.buckets)
            rows = csr_matrix((block.counts, block.buckets, block.ends.astype(np.int32)), shape=shape)
            length = self.lengths[start : start + shape[0]]
            found: Array = (rows @ terms).toarray().T / np.where(length > 0, length, 1)
            yield start, np.minimum(found, 1.0)

    def _lengths(self, counts: Counts) -> Array:
        weights = (counts.counts * self.idf[counts.buckets]) ** 2
        rows = np.repeat(np.arange(len(counts.ends) - 1), np.diff(counts.ends))
        return np.sqrt(np.bincount(rows, weights, minlength=len(counts.ends) - 1))


def _blocks(every: Sequence[Counts]) -> Iterator[tuple[int, Counts]]:
    before = 0
    for counts in every:
        rows = len(counts.ends) - 1
        for start in range(0, rows, ROWS):
            yield before + start, counts.slice(start, min(start + ROWS, rows))
        before += rows


def _checked(segment: Segment, column: str, buckets: int) -> Counts:
    """Look through the numbers before compiled code walks along them."""
    counts: Any = segment.columns[column]
    filled = len(counts.buckets)
    if not counts.holds():
        wrong = "ends"
    elif filled and (counts.buckets.min() < 0 or counts.buckets.max() >= buckets):
        wrong = "buckets"
    elif filled and not (np.isfinite(counts.counts).all() and counts.counts.min() > 0):
        wrong = "counts"
    else:
        return counts  # type: ignore[no-any-return]
    raise DataError("damaged", file=segment.place / f"{column}.{wrong}", fix=REBUILD)
