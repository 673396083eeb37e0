"""Approximate search among many vectors by inverted lists (IVF). The only module that uses faiss.

Recall is measured on held-out rows, and the effort is raised until it is sufficient. Results are scored again
exactly, so that a neighbour can be missed but not misranked.
"""

import math
import secrets
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from dialeval.errors import DataError
from dialeval.files import replacing_path
from dialeval.manifests import FileRecord
from dialeval.models.index.dense import VectorColumn
from dialeval.models.index.layout import PARTS, QUERIES, REBUILD, Approximate, Array, IndexPart, checked_part

DEPTH = 50  # neighbours that recall is measured over
ENOUGH = 0.95  # recall that is promised
AIM = 0.97  # recall that is aimed at, so that other queries reach the promised one
MOST = 2 * DEPTH  # searches for more neighbours are exact, because their recall is unknown

_HELD_BACK = 300
_FEWEST = 1_000  # rows for approximate search
_EFFORTS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
_FEW = 16  # queries at a time; from 20 on faiss selects lists differently, with other rounding
_CHUNK = 1 << 16


def is_due(entry: Approximate | None, rows: int, exact_up_to: int) -> bool:
    """Return whether approximate search of a column must be built or built again."""
    if entry is None:
        return rows > max(exact_up_to, _FEWEST)
    return rows > 2 * entry.rows if entry.method == "exact" else rows - entry.rows > exact_up_to


def build(folder: Path, vectors: VectorColumn) -> Approximate:
    """Build inverted lists of all vectors and measure their recall.

    Returns:
        The entry of `config.json`. If recall is too low, or faiss is not installed, it has a note, and search
        stays exact.
    """
    rows = len(vectors)
    try:
        _faiss()
    except ImportError:
        return Approximate(
            "exact", rows, note="faiss was not installed when this was built: pip install 'dialeval[index]'"
        )
    held_out = np.sort(np.random.default_rng(0).choice(rows, min(_HELD_BACK, rows // 4), replace=False))
    rest = np.setdiff1d(np.arange(rows), held_out, assume_unique=True)
    index: Any = _trained(vectors, rest)
    _fill(index, vectors, rest)
    effort, recall = _enough_effort(index, vectors, held_out)
    if recall < ENOUGH:
        note = f"ivf found only {recall:.3f} of the {DEPTH} nearest: search stays exact"
        return Approximate("exact", rows, round(recall, 4), len(held_out), note=note)
    _fill(index, vectors, held_out)
    name = f"lists-{secrets.token_hex(8)}.faiss"
    with replacing_path(folder / PARTS / name) as path:
        try:
            _faiss().write_index(index, str(path))
        except RuntimeError as error:
            raise DataError(f"cannot be written: {error}; nothing was changed", file=folder) from None
        part = IndexPart(name, rows, FileRecord.of(path))
    return Approximate("ivf", rows, round(recall, 4), len(held_out), effort, part)


class Searcher:
    """The memory-mapped index written by `build`; its hash is checked first."""

    def __init__(self, folder: Path, entry: Approximate, part: IndexPart, width: int) -> None:
        self.rows, self.effort = entry.rows, entry.effort
        self.index = _read(checked_part(folder, part), entry, width)

    def candidates(self, query: Array, k: int) -> list[Array]:
        """Return the nearest rows to each query by faiss."""
        nearest = _ask(self.index, query, k, self.effort)
        return [rows[(rows >= 0) & (rows < self.rows)] for rows in nearest]


def _faiss() -> Any:
    if "faiss" not in sys.modules:
        with warnings.catch_warnings(action="ignore"):  # before 1.14 it crashes where warnings are errors
            import faiss
    import faiss

    return faiss  # its own types are incomplete


def _trained(vectors: VectorColumn, rows: Array) -> Any:
    faiss = _faiss()
    lists = max(1, min(round(4 * math.sqrt(len(rows))), len(rows) // 40))
    coarse = faiss.IndexFlatIP(vectors.width)
    index: Any = faiss.IndexIVFFlat(coarse, vectors.width, lists, faiss.METRIC_INNER_PRODUCT)
    chosen = np.random.default_rng(1).choice(rows, min(len(rows), 64 * lists), replace=False)
    index.train(vectors.take(np.sort(chosen)))
    return index


def _fill(index: Any, vectors: VectorColumn, rows: Array) -> None:
    for start in range(0, len(rows), _CHUNK):
        batch = rows[start : start + _CHUNK]
        index.add_with_ids(vectors.take(batch), batch)


def _enough_effort(index: Any, vectors: VectorColumn, held_out: Array) -> tuple[int, float]:
    """Return the least effort that reaches the aim, or the largest, and its recall."""
    queries = vectors.take(held_out).astype(np.float64)
    depth = min(DEPTH, len(vectors) - len(held_out))
    exact = _exact_scores(vectors, queries, held_out, depth)
    most = max(8, index.nlist // 4)  # with more lists, exact search is faster
    effort, recall = 0, 0.0
    for effort in (candidate for candidate in _EFFORTS if candidate <= most):
        hits = 0.0
        for query, scores, rows in zip(queries, exact, _ask(index, queries, depth, effort), strict=True):
            near = vectors.rank(query, rows[rows >= 0], depth)[1]
            hits += np.count_nonzero(near >= scores[-1] - 1e-6) / depth  # any of equal rows counts
        recall = float(hits) / len(held_out)
        if recall >= AIM:
            break
    return effort, recall


def _exact_scores(vectors: VectorColumn, queries: Array, held_out: Array, depth: int) -> list[Array]:
    """Return the scores of the nearest rows that are not held out."""
    scores = []
    for start in range(0, len(queries), QUERIES):
        batch = queries[start : start + QUERIES]
        for query, rows in zip(batch, vectors.candidates(batch, depth + len(held_out)), strict=True):
            scores.append(vectors.rank(query, np.setdiff1d(rows, held_out), depth)[1])
    return scores


def _ask(index: Any, queries: Array, k: int, effort: int) -> list[Array]:
    settings: Any = _faiss().SearchParametersIVF(nprobe=effort)
    nearest: list[Array] = []
    for start in range(0, len(queries), _FEW):
        batch = queries[start : start + _FEW].astype(np.float32)
        nearest.extend(index.search(batch, k, params=settings)[1])
    return nearest


def _read(path: Path, entry: Approximate, width: int) -> Any:
    faiss = _faiss()
    try:
        index: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
    except RuntimeError as error:
        raise DataError(f"faiss cannot read it: {str(error)[:200]}", file=path, fix=REBUILD) from None
    actual = (index.ntotal, index.d, index.metric_type)
    if not isinstance(index, faiss.IndexIVFFlat) or actual != (entry.rows, width, faiss.METRIC_INNER_PRODUCT):
        raise DataError(f"does not hold {entry.rows} vectors of width {width}", file=path, fix=REBUILD)
    lists: Any = faiss.downcast_InvertedLists(index.invlists)
    if hasattr(lists, "prefetch_nthread"):
        lists.prefetch_nthread = 0  # 32 threads per query cost more than they save
    return index
