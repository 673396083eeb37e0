"""Searching the columns of an index that is open."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dialeval.errors import DataError, UsageError
from dialeval.models.index import approximate, layout
from dialeval.models.index.dense import QUERIES, Nearest, Vectors, best, unit
from dialeval.models.index.ragged import Array
from dialeval.models.index.segments import Segment
from dialeval.models.index.sparse import TfIdf, check_texts
from dialeval.models.index.tokens import Tokens

_HELD: dict[type, str] = {layout.Dense: "vectors", layout.Sparse: "words", layout.Tokens: "token states"}


class Searches:
    """One way to search for each column, made when it is first asked for."""

    def __init__(self, folder: Path, config: layout.Config, segments: Sequence[Segment]) -> None:
        self.folder, self.config, self.segments = folder, config, segments
        for entry in config.approximate.values():
            if entry.part is not None:
                layout.check_sizes(folder, entry.part)
        self._weights: dict[str, TfIdf] = {}
        self._tokens: dict[str, Tokens] = {}
        self._searchers: dict[str, approximate.Searcher | None] = {}

    def nearest(self, query: object, k: int, column: str, exact: bool) -> Iterator[tuple[Array, Array]]:
        """Give the nearest rows to each query, nearest first, and their cosines."""
        compared = self._compared(column)
        for some in self._parts(query, column):
            if isinstance(compared, Vectors):
                yield from self._nearest_vectors(compared, some, k, column, exact)
                continue
            nearest = Nearest(len(some), k)
            for start, scores in compared.cosines(some):
                nearest.offer(scores, start)
            for rows, scores in nearest.found():
                yield best(rows, scores, k)

    def cosines(self, query: object, column: str) -> Iterator[Array]:
        """Give the cosines of some queries (rows) with every dialogue (columns)."""
        compared = self._compared(column)
        for some in self._parts(query, column):
            yield np.concatenate([block for _, block in compared.cosines(some)], axis=1)

    def vectors(self, column: str) -> Vectors:
        """Return the vectors of a dense column."""
        kind = self._kind(column)
        if not isinstance(kind, layout.Dense):
            raise UsageError(f"the column {column!r} has {_HELD[type(kind)]}, not vectors")
        arrays: list[Any] = [segment.columns[column] for segment in self.segments]
        return Vectors(arrays, kind.width, self.folder)

    def tokens(self, column: str) -> Tokens:
        """Return the token states of a column, which are looked through when they are first asked for."""
        kind = self._kind(column)
        if not isinstance(kind, layout.Tokens):
            raise UsageError(f"the column {column!r} has {_HELD[type(kind)]}, not token states")
        if column not in self._tokens:
            self._tokens[column] = Tokens(self.segments, column)
        return self._tokens[column]

    def _nearest_vectors(
        self, vectors: Vectors, query: Array, k: int, column: str, exact: bool
    ) -> Iterator[tuple[Array, Array]]:
        searcher = None
        if not exact and k <= approximate.MOST:
            searcher = self._searcher(column, vectors.width)
        every = vectors.candidates(query, k, 0 if searcher is None else len(searcher.order))
        if searcher is not None:
            pairs = zip(searcher.candidates(query, k), every, strict=True)
            every = [np.concatenate(pair) for pair in pairs]
        for one, rows in zip(query, every, strict=True):
            yield vectors.rank(one, rows, k)

    def _kind(self, column: str) -> layout.Kind:
        if column not in self.config.columns:
            raise UsageError(f"no column {column!r} in this index; it has {', '.join(self.config.columns)}")
        return self.config.columns[column]

    def _parts(self, query: Any, column: str) -> Iterator[Any]:
        kind, whole = self._kind(column), query
        if isinstance(kind, layout.Dense):
            whole = unit(query, kind.width, column)
        else:
            whole = check_texts(column, query)
        return (whole[start : start + QUERIES] for start in range(0, len(whole), QUERIES))

    def _compared(self, column: str) -> Vectors | TfIdf:
        kind = self._kind(column)
        if isinstance(kind, layout.Dense):
            return self.vectors(column)
        if isinstance(kind, layout.Tokens):
            raise UsageError(f"the column {column!r} has token states, which are not searched")
        if column not in self._weights:
            self._weights[column] = TfIdf(self.segments, column, kind.buckets)
        return self._weights[column]

    def _searcher(self, column: str, width: int) -> approximate.Searcher | None:
        """Return what faiss knows; None without faiss, or if a writer has removed the part meanwhile."""
        entry = self.config.approximate.get(column)
        if entry is None or entry.part is None:
            return None
        if column not in self._searchers:
            self._searchers[column] = None
            with contextlib.suppress(ImportError):
                try:
                    self._searchers[column] = approximate.Searcher(self.folder, entry, entry.part, width)
                except DataError:
                    if layout.read_config(self.folder) == self.config:
                        del self._searchers[column]
                        raise
        return self._searchers[column]
