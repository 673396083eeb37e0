"""Search among very many vectors without looking at all of them. The only home of faiss.

Inverted lists (IVF) up to a million rows: built in seconds, the same each time, and read from disk in long
stretches. Above that a graph (HNSW), which takes ten times as long to build but hardly longer to search as it
grows. How much of what exact search finds is found is measured on rows that were held back, and the effort
is raised until it is enough. What faiss finds is scored again exactly, so that it can only miss a neighbour,
never misjudge one.
"""

import hashlib
import math
import secrets
import sys
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dialeval.errors import DataError
from dialeval.files import replacing_folder
from dialeval.models.index.dense import QUERIES, Vectors
from dialeval.models.index.layout import PARTS, REBUILD, Approximate, Part, Stored, check_hashes, place_of
from dialeval.models.index.ragged import Array
from dialeval.models.index.segments import mapped

IVF_UP_TO = 1_000_000
DEPTH = 50  # neighbours that recall is measured over
ENOUGH = 0.95  # recall that is promised
AIM = 0.97  # recall that is sought, so that other queries than the measured ones have what is promised
MOST = 2 * DEPTH  # larger questions are answered exactly: nobody has measured them

_HELD_BACK = 300
_FEWEST = 1_000  # rows that are worth any of this
_LINKS, _CARE = 16, 80  # links of a node of the graph; candidates looked at when it is put there
_EFFORTS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
_FEW = 16  # lists are chosen by other means, and rounded differently, from 20 queries on
_CHUNK = 1 << 16


def is_due(entry: Approximate | None, rows: int, exact_up_to: int) -> bool:
    """Say whether a column has outgrown the way it is searched; exact search never sees more than allowed."""
    if entry is None:
        return rows > max(exact_up_to, _FEWEST)
    return rows > 2 * entry.rows if entry.method == "exact" else rows - entry.rows > exact_up_to


def build(folder: Path, vectors: Vectors) -> Approximate:
    """Put all vectors into a graph or into lists, and measure how well they are found again.

    Returns:
        What goes into `config.json`. Where recall is not enough, or faiss is not installed, it says so
        and search stays exact.
    """
    rows = len(vectors)
    try:
        _faiss()
    except ImportError:
        return Approximate(
            "exact", rows, note="faiss was not installed when this was built: pip install 'dialeval[index]'"
        )
    method: Literal["ivf", "hnsw"] = "ivf" if rows <= IVF_UP_TO else "hnsw"
    held = np.sort(np.random.default_rng(0).choice(rows, min(_HELD_BACK, rows // 4), replace=False))
    order = np.concatenate([np.setdiff1d(np.arange(rows), held, assume_unique=True), held])
    index: Any = _trained(method, vectors, order[: -len(held)])
    _fill(index, vectors, order[: -len(held)])
    effort, recall = _enough_effort(method, index, vectors, order, len(held))
    if recall < ENOUGH:
        note = f"{method} found only {recall:.3f} of the {DEPTH} nearest: search stays exact"
        return Approximate("exact", rows, round(recall, 4), len(held), note=note)
    _fill(index, vectors, held)
    part = _write(folder, index, order)
    return Approximate(method, rows, round(recall, 4), len(held), effort, part)


class Searcher:
    """What `build` has written, memory-mapped. Its bytes are checked before faiss sees them."""

    def __init__(self, folder: Path, entry: Approximate, part: Part, width: int) -> None:
        files, place = part.files, place_of(folder, part)
        if files.keys() != {"faiss.bin", "rows.order"}:
            raise DataError("not the files that a search needs", file=place, fix=REBUILD)
        check_hashes(folder, part)
        self.order = mapped(place / "rows.order", files["rows.order"].size, "<i8", (entry.rows,))
        if not (self.order.min() >= 0 and self.order.max() < entry.rows):
            raise DataError("names rows that are not there", file=place / "rows.order", fix=REBUILD)
        self.method, self.effort = entry.method, entry.effort
        self.index = _read(place / "faiss.bin", entry, width)

    def candidates(self, query: Array, k: int) -> list[Array]:
        """Return for each query the rows that faiss takes for the nearest."""
        return [
            self.order[found[found >= 0]] for found in _ask(self.method, self.index, query, k, self.effort)
        ]


def _faiss() -> Any:
    if "faiss" not in sys.modules:
        with warnings.catch_warnings(action="ignore"):  # before 1.14 it crashes where warnings are errors
            import faiss
    import faiss

    return faiss  # its own types leave out what is asked of it here


def _trained(method: str, vectors: Vectors, rows: Array) -> Any:
    faiss = _faiss()
    if method == "hnsw":
        graph: Any = faiss.IndexHNSWFlat(vectors.width, _LINKS, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = _CARE
        return graph
    lists = max(1, min(round(4 * math.sqrt(len(rows))), len(rows) // 40))
    coarse = faiss.IndexFlatIP(vectors.width)
    index: Any = faiss.IndexIVFFlat(coarse, vectors.width, lists, faiss.METRIC_INNER_PRODUCT)
    chosen = np.random.default_rng(1).choice(rows, min(len(rows), 64 * lists), replace=False)
    index.train(vectors.take(np.sort(chosen)))
    return index


def _fill(index: Any, vectors: Vectors, rows: Array) -> None:
    for start in range(0, len(rows), _CHUNK):
        index.add(vectors.take(rows[start : start + _CHUNK]))


def _enough_effort(method: str, index: Any, vectors: Vectors, order: Array, held: int) -> tuple[int, float]:
    """Return the least effort that reaches the aim, or the most, and the recall it has."""
    queries = vectors.take(order[-held:]).astype(np.float64)
    depth = min(DEPTH, len(order) - held)
    exact = _exact_scores(vectors, queries, order[-held:], depth)
    # A graph looks at no less than it returns; beyond a quarter of the lists exact search is the faster one.
    least, most = (depth, max(_EFFORTS)) if method == "hnsw" else (1, max(8, index.nlist // 4))
    effort, recall = 0, 0.0
    for effort in (one for one in _EFFORTS if least <= one <= most):
        hits = 0.0
        for query, scores, found in zip(
            queries, exact, _ask(method, index, queries, depth, effort), strict=True
        ):
            near = vectors.rank(query, order[found[found >= 0]], depth)[1]
            hits += np.count_nonzero(near >= scores[-1] - 1e-6) / depth  # of equals, any will do
        recall = float(hits) / held
        if recall >= AIM:
            break
    return effort, recall


def _exact_scores(vectors: Vectors, queries: Array, held: Array, depth: int) -> list[Array]:
    """Return the scores of the nearest of all rows that are not held back."""
    found = []
    for start in range(0, len(queries), QUERIES):
        some = queries[start : start + QUERIES]
        for query, rows in zip(some, vectors.candidates(some, depth + len(held)), strict=True):
            found.append(vectors.rank(query, np.setdiff1d(rows, held), depth)[1])
    return found


def _ask(method: str, index: Any, queries: Array, k: int, effort: int) -> list[Array]:
    faiss = _faiss()
    if method == "hnsw":
        settings: Any = faiss.SearchParametersHNSW(efSearch=max(effort, k))
    else:
        settings = faiss.SearchParametersIVF(nprobe=effort)
    found: list[Array] = []
    step = _FEW if method == "ivf" else QUERIES
    for start in range(0, len(queries), step):
        some = queries[start : start + step].astype(np.float32)
        found.extend(index.search(some, k, params=settings)[1])
    return found


def _write(folder: Path, index: Any, order: Array) -> Part:
    faiss = _faiss()
    name = f"graph-{secrets.token_hex(8)}"
    with replacing_folder(folder / PARTS / name) as place:
        try:
            faiss.write_index(index, str(place / "faiss.bin"))
            (place / "rows.order").write_bytes(order.astype("<i8").tobytes())
        except (OSError, RuntimeError) as error:
            raise DataError(f"cannot be written: {error}; nothing was changed", file=folder) from None
        files = {path.name: Stored(path.stat().st_size, _sha256(path)) for path in sorted(place.iterdir())}
    return Part(name, len(order), files)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(path: Path, entry: Approximate, width: int) -> Any:
    faiss = _faiss()
    flags = faiss.IO_FLAG_MMAP_IFC if entry.method == "hnsw" else faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY
    try:
        index: Any = faiss.read_index(str(path), flags)
    except RuntimeError as error:
        raise DataError(f"faiss cannot read it: {str(error)[:200]}", file=path, fix=REBUILD) from None
    kind = faiss.IndexHNSWFlat if entry.method == "hnsw" else faiss.IndexIVFFlat
    found = (index.ntotal, index.d, index.metric_type)
    if not isinstance(index, kind) or found != (entry.rows, width, faiss.METRIC_INNER_PRODUCT):
        raise DataError(f"holds something else than {entry.rows} vectors of {width}", file=path, fix=REBUILD)
    lists: Any = faiss.downcast_InvertedLists(index.invlists) if entry.method == "ivf" else None
    if hasattr(lists, "prefetch_nthread"):
        lists.prefetch_nthread = 0  # 32 threads for each question cost more than they bring
    return index
