"""Exact cosine search over vectors, in blocks, with results that do not depend on the batch size.

A product in single precision selects candidates, which are scored again in double precision. So rounding
never decides, and of equal vectors the earlier row comes first.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dialeval.errors import DataError, UsageError
from dialeval.models.index.layout import REBUILD, ROWS, Array, DenseKind

if TYPE_CHECKING:
    import pyarrow as pa

    from dialeval.models.index.approximate import Searcher


class VectorColumn:
    """A column of unit vectors."""

    content = "vectors"

    def __init__(self, batches: "Sequence[pa.Array]", kind: DenseKind, name: str, folder: Path) -> None:
        self.width, self.name, self.folder = kind.width, name, folder
        self.arrays = [numbers(batch.flatten()).reshape(-1, kind.width) for batch in batches]
        self.starts = np.cumsum([0, *(len(array) for array in self.arrays)])

    @staticmethod
    def stored(kind: DenseKind) -> "pa.DataType":
        """Return the type of the column in a file."""
        return fixed_list("float", kind.width)

    @classmethod
    def packed(cls, vectors: object, kind: DenseKind, name: str, ids: Sequence[str]) -> "pa.Array":
        """Return the stored form: vectors of length 1."""
        import pyarrow as pa

        values = unit(vectors, kind.width, name, ids).astype("<f4").reshape(-1)
        return pa.FixedSizeListArray.from_arrays(pa.array(values), type=cls.stored(kind))

    def checked_query(self, query: object) -> Array:
        """Validate queries and scale them to length 1."""
        return unit(query, self.width, self.name)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def blocks(self, first: int = 0) -> Iterator[tuple[int, Array]]:
        """Yield blocks of rows from `first` on, each with the number of its first row."""
        for begin, array in zip(self.starts[:-1].tolist(), self.arrays, strict=True):
            for start in range(max(0, first - begin), len(array), ROWS):
                yield begin + start, array[start : start + ROWS]

    def take(self, rows: Array) -> Array:
        """Return a copy of rows."""
        taken = np.empty((len(rows), self.width), np.float32)
        batches = np.searchsorted(self.starts, rows, "right") - 1
        for number in np.unique(batches).tolist():
            chosen = batches == number
            taken[chosen] = self.arrays[number][rows[chosen] - self.starts[number]]
        return taken

    def cosines(self, query: Array) -> Iterator[tuple[int, Array]]:
        """Yield the cosine of each query (a row) with each dialogue (a column), in blocks of dialogues."""
        for start, block in self.blocks():
            yield start, self._compare(query, block)

    def nearest(
        self, query: Array, k: int, beside: "Searcher | None" = None
    ) -> Iterator[tuple[Array, Array]]:
        """Yield the k nearest rows to each query, nearest first, and their cosines.

        `beside` selects candidates among the first rows; the others are searched exactly.
        """
        candidates = self.candidates(query, k, 0 if beside is None else beside.rows)
        if beside is not None:
            pairs = zip(beside.candidates(query, k), candidates, strict=True)
            candidates = [np.concatenate(pair) for pair in pairs]
        for vector, rows in zip(query, candidates, strict=True):
            yield self.rank(vector, rows, k)

    def candidates(self, query: Array, k: int, first: int = 0) -> list[Array]:
        """Return candidates for each query, among them always the k nearest rows."""
        # The largest error of a dot product of two unit vectors in single precision.
        nearest = Nearest(len(query), k, margin=2 * (self.width + 4) * 2.0**-24)
        single = query.astype(np.float32)
        for start, block in self.blocks(first):
            with np.errstate(all="ignore"):  # a damaged file is detected next
                products = single @ block.T
            if not np.isfinite(products.sum()):
                raise self._damaged()
            nearest.offer(products, start)
        return [rows for rows, _ in nearest.results()]

    def rank(self, query: Array, rows: Array, k: int) -> tuple[Array, Array]:
        """Return the k nearest of the given rows to one query, nearest first, and their cosines."""
        rows = np.unique(rows)
        parts = [rows[start : start + ROWS] for start in range(0, len(rows), ROWS)]
        scores = [self._compare(query[None], self.take(part))[0] for part in parts]
        return best(rows, np.concatenate([np.empty(0), *scores]), k)

    def _compare(self, query: Array, block: Array) -> Array:
        double = block.astype(np.float64)
        with np.errstate(all="ignore"):
            length = np.sqrt(np.vecdot(double, double))
            cosines: Array = np.vecdot(query[:, None], double[None]) / np.where(length > 0, length, 1)
        if not np.isfinite(cosines).all():
            raise self._damaged()
        return np.clip(cosines, -1, 1)

    def _damaged(self) -> DataError:
        return DataError("a vector is not finite: damaged", file=self.folder, fix=REBUILD)


class Nearest:
    """The nearest rows so far of several queries, updated block by block."""

    def __init__(self, queries: int, k: int, margin: float = 0.0) -> None:
        self.k, self.margin = k, margin
        self.floors = np.full(queries, -np.inf)
        self.kept: list[list[tuple[Array, Array]]] = [[] for _ in range(queries)]

    def offer(self, scores: Array, start: int) -> None:
        """Add candidates for the k nearest; all ties with the last one are kept."""
        for query, row in enumerate(scores):
            near = np.flatnonzero(row >= self.floors[query] - self.margin)
            if len(near) > self.k:
                near = self._raise_floor(query, row, near)
            if len(near):
                self.kept[query].append((near + start, row[near]))

    def results(self) -> Iterator[tuple[Array, Array]]:
        """Yield the remaining rows of each query, and their scores."""
        for query, parts in enumerate(self.kept):
            rows = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in parts)])
            scores = np.concatenate([np.empty(0), *(scores for _, scores in parts)])
            near = np.arange(len(rows))
            if len(near) > self.k:
                near = self._raise_floor(query, scores, near)
            yield rows[near], scores[near]

    def _raise_floor(self, query: int, scores: Array, near: Array) -> Array:
        last = np.partition(scores[near], -self.k)[-self.k]
        self.floors[query] = max(self.floors[query], last)
        above: Array = near[scores[near] >= self.floors[query] - self.margin]
        return above


def best(rows: Array, scores: Array, k: int) -> tuple[Array, Array]:
    """Return the k rows with the highest scores, highest first; ties are in row order.

    >>> [array.tolist() for array in best(np.array([4, 1, 7]), np.array([0.5, 0.5, 0.9]), 2)]
    [[7, 1], [0.9, 0.5]]
    """
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]


def unit(vectors: object, width: int | None, column: str, ids: Sequence[str] | None = None) -> Array:
    """Return vectors scaled to length 1 in double precision; zeros stay zeros.

    >>> unit(np.array([[3, 4], [0, 0]]), 2, "text").tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    array = np.asarray(vectors)
    if array.ndim != 2 or array.dtype.kind not in "fiu" or not array.shape[1]:
        raise UsageError(
            f"{column}: vectors are an array of numbers with a row for each, not {array.dtype} {array.shape}"
        )
    if width is not None and array.shape[1] != width:
        raise UsageError(f"{column}: vectors are {array.shape[1]} wide, those of the index {width}")
    double = array.astype(np.float64)
    largest = np.abs(double).max(axis=1, keepdims=True, initial=0)
    if not np.isfinite(largest).all():
        row = int(np.flatnonzero(~np.isfinite(largest[:, 0]))[0])
        whose = f"query {row}" if ids is None else repr(ids[row])
        raise DataError(f"the vector of {whose} is not finite", field=column)
    double /= np.where(largest > 0, largest, 1)  # keeps squares of very large or small numbers finite
    length = np.sqrt(np.vecdot(double, double))[:, None]
    return double / np.where(length > 0, length, 1)


def numbers(stored: "pa.Array") -> Array:
    """Return an Arrow array as a numpy view."""
    return np.asarray(stored.to_numpy(zero_copy_only=True))


def fixed_list(item: str, width: int) -> "pa.DataType":
    """Return the Arrow type of rows of fixed width without nulls."""
    import pyarrow as pa

    return pa.list_(pa.field("item", pa.type_for_alias(item), nullable=False), width)
