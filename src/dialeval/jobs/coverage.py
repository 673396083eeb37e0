"""Coverage: how well a corpus covers the dialogues that are scored with it.

A metric that compares a dialogue with its nearest neighbours in a corpus needs neighbours that are near. A
test dialogue is *covered* if its distance to the nearest dialogue of the corpus is at most the median
distance between dialogues of the corpus and their nearest neighbours.

Distances are 1 - cosine in all dimensions; the picture shows two principal components.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dialeval import __version__
from dialeval.dialogues import Dialogue, in_blocks
from dialeval.dialogues.splits import fingerprint
from dialeval.errors import DataError, UsageError
from dialeval.models.index import Index
from dialeval.models.index.dense import unit
from dialeval.statistics import Estimate, share

Floats: TypeAlias = NDArray[np.floating[Any]]
RowNumbers: TypeAlias = NDArray[np.intp]
Features: TypeAlias = Callable[[Sequence[Dialogue]], Floats]
Maker: TypeAlias = Callable[[Index, str | None], tuple[str, Features]]
SAMPLE = 2_000  # dialogues of the corpus for the median distance
SHOWN = 3_000  # points of the corpus in a picture
_DIALOGUES = 500  # read and described at a time
_LAYERS = 49  # more than any encoder has
_QUERIES, _ROWS = 256, 8_192  # compared at a time
_ROUNDING = 1e-6  # two equal vectors are this far apart in single precision


def _text(index: Index, encoder: str | None) -> tuple[str, Features]:
    """Return the maker of the column `text` of `Index.of_dialogues`."""
    from dialeval.models.encoder import DEFAULT, Encoder
    from dialeval.models.index import features
    from dialeval.models.index.layout import check_encoder

    chosen = Encoder.load(encoder or (index.encoder.name if index.encoder else DEFAULT))
    check_encoder(index.folder, index.encoder, chosen)
    return "text", lambda dialogues: np.asarray(features(dialogues, chosen)["text"])


def _described(part: str, layer: str) -> Maker:
    """Return the maker of a column of a consensus corpus, at the layer of the index."""

    def make(index: Index, encoder: str | None) -> tuple[str, Features]:
        from dialeval.models.consensus import Description
        from dialeval.models.encoder import DEFAULT

        described = (Description(**{"encoder": encoder or DEFAULT, layer: n}) for n in range(_LAYERS))  # type: ignore[arg-type]
        chosen = next((each for each in described if each.names[part] in index.columns), None)
        if chosen is None:
            raise UsageError(f"{index.folder}: its column {part!r} was made by other models; build it again")
        return chosen.names[part], lambda dialogues: np.asarray(getattr(chosen.describe(dialogues), part))

    return make


MAKERS: dict[str, Maker] = {
    "acts": _described("acts", "h"),
    "content": _described("content", "l"),
    "text": _text,
}
"""The makers of columns for new dialogues, by the name in an index (`acts`, or `acts-` and a mark).

The first one that an index has is the default.
"""


@dataclass(frozen=True, slots=True)
class CoveragePoint:
    """A test dialogue: its nearest dialogue in the corpus, and its place in the picture."""

    id: str
    nearest: str
    distance: float
    covered: bool
    x: float
    y: float


@dataclass(frozen=True)
class Coverage:
    """The coverage of test dialogues by a corpus.

    `limit` is the median distance of dialogues of the corpus (`n_sampled` of them) to their nearest
    neighbour, `median` that of the test dialogues; `n_without` test dialogues have no features. `explained`
    is the share of variance of each axis of the picture; `corpus` are points of the corpus.
    """

    column: str
    index: str
    n_corpus: int
    n_left_out: int
    n_sampled: int
    n_test: int
    n_without: int
    limit: float
    median: float
    share: Estimate
    confidence: float
    explained: tuple[float, float]
    places: list[CoveragePoint]
    corpus: list[tuple[float, float]]
    notes: list[str]

    def to_dict(self, **more: Any) -> dict[str, Any]:
        """Return everything as plain dictionaries and lists, for JSON."""
        return {"version": "coverage.v1", "dialeval": __version__, **more, **dataclasses.asdict(self)}


def cover(
    dialogues: Iterable[Dialogue],
    corpus: str | Path,
    column: str | None = None,
    *,
    encoder: str | None = None,
    features: Features | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Coverage:
    """Compute the coverage of dialogues by a corpus.

    Args:
        dialogues: The test dialogues; dialogues of the corpus with the same text are left out.
        corpus: The folder of an index, or the name of one in the folder of corpora.
        column: A column of vectors; by default the first that can be computed for new dialogues.
        encoder: The encoder of the index; by default the one of the same name, or the shipped one.
        features: Computes the vectors of any other column: a row for each dialogue.
        confidence: Confidence level of the interval (Wilson's).
    """
    from dialeval.models.consensus import corpus_folder

    named = corpus_folder(str(corpus))
    index = Index.open(named if not Path(corpus).exists() and named.is_dir() else corpus)
    column, make = _column(index, column, encoder, features)
    stored = index.vectors(column)
    ids, fingerprints, vectors = _placed(dialogues, make, column, stored.shape[1])
    corpus_rows, equal, notes = _corpus_rows(index, stored, fingerprints)
    with_features = np.flatnonzero(vectors.any(axis=1))
    if len(corpus_rows) < 2 or not len(with_features):
        reason = (
            "no test dialogue has" if len(corpus_rows) > 1 else "fewer than two dialogues of the corpus have"
        )
        left = f"{equal} of {len(index)} dialogues say the same as a test dialogue and were left out"
        raise DataError(
            f"{reason} features in the column {column!r}", file=corpus, fix=left if equal else None
        )
    drawn, queries = _sample(corpus_rows, SAMPLE, seed), vectors[with_features]
    limit = float(np.median(nearest(stored, corpus_rows, stored[drawn], own=drawn)[0]))
    distances, rows = nearest(stored, corpus_rows, queries)
    near = distances <= limit + _ROUNDING
    project, explained = principal_axes(stored, corpus_rows, queries)
    covered = share(int(near.sum()), len(with_features), confidence)
    spots, names = project(queries), index.ids
    places = [
        CoveragePoint(ids[at], names[int(row)], float(gap), bool(is_near), float(x), float(y))
        for at, row, gap, is_near, (x, y) in zip(with_features, rows, distances, near, spots, strict=True)
    ]
    shown = [(float(x), float(y)) for x, y in project(stored[_sample(corpus_rows, SHOWN, seed)])]
    counts = (len(corpus_rows), equal, len(drawn), len(ids), len(ids) - len(with_features))
    median = float(np.median(distances))
    return Coverage(
        column, index.sha, *counts, limit, median, covered, confidence, explained, places, shown, notes
    )


def _column(
    index: Index, requested: str | None, encoder: str | None, features: Features | None
) -> tuple[str, Features]:
    """Return the name of a column in the index, and the function that computes it for new dialogues."""
    dense = [name for name, kind in index.columns.items() if kind == "dense"]
    available = f"this index has: {', '.join(dense) or 'none'}"
    supported = [name for name in MAKERS if any(_is_kind(column, name) for column in dense)]
    if requested is None and (features or not supported):
        raise UsageError(f"name a column of vectors; {available}")
    asked = requested or supported[0]
    if asked not in (*dense, *supported):
        raise UsageError(f"no column of vectors called {asked!r}; {available}")
    if features is not None:
        return asked, features
    kind = next((name for name in supported if _is_kind(asked, name)), None)
    if kind is None:
        choices = ", ".join(MAKERS)
        raise UsageError(
            f"the column {asked!r} cannot be computed for new dialogues; supported: {choices}. "
            "From Python, pass cover() a function that computes it"
        )
    return MAKERS[kind](index, encoder)


def _is_kind(column: str, kind: str) -> bool:
    return column == kind or column.startswith(f"{kind}-")


def _placed(
    dialogues: Iterable[Dialogue], make: Features, column: str, width: int
) -> tuple[list[str], set[str], Floats]:
    """Return ids, text fingerprints and vectors of test dialogues; vectors have length 1 or 0."""
    ids, parts = list[str](), [np.empty((0, width))]
    fingerprints: set[str] = set()
    for chunk in in_blocks(dialogues, _DIALOGUES):
        ids += [dialogue.id for dialogue in chunk]
        fingerprints |= {fingerprint(dialogue) for dialogue in chunk}
        parts.append(unit(make(chunk), width, column))
    return ids, fingerprints, np.concatenate(parts).astype(np.float32)


def _corpus_rows(index: Index, stored: Floats, fingerprints: set[str]) -> tuple[RowNumbers, int, list[str]]:
    """Return the rows of a corpus to compare with, how many equal a test dialogue, and notes.

    Dialogues without features are left out.
    """
    ids = index.ids
    parts, equal, notes, readable = [np.empty(0, np.intp)], 0, [], True
    for start in range(0, len(index), _DIALOGUES):
        keep = np.asarray(stored[start : start + _DIALOGUES]).any(axis=1)
        if readable:
            try:
                chats = index.dialogues(ids[start : start + _DIALOGUES])
                same = np.array([fingerprint(dialogue) in fingerprints for dialogue in chats], bool)
                keep, equal = keep & ~same, equal + int(same.sum())
            except UsageError:
                readable = False
                notes.append("the index holds no dialogues: equal ones could not be left out")
        parts.append(np.flatnonzero(keep) + start)
    return np.concatenate(parts), equal, notes


def _sample(rows: RowNumbers, most: int, seed: int) -> RowNumbers:
    """Return a random sample of rows in their order."""
    if len(rows) <= most:
        return rows
    chosen: RowNumbers = np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))
    return chosen


# --- nearest neighbours and the two axes of the picture, block by block -------------------------------------


def nearest(
    stored: Floats, rows: RowNumbers, queries: Floats, own: RowNumbers | None = None
) -> tuple[Floats, RowNumbers]:
    """Return the distance (1 - cosine) of each query to the nearest row, and that row, block by block.

    Args:
        stored: Vectors of length 1.
        rows: The rows to compare with; of equal ones the first is returned.
        queries: Vectors of length 1.
        own: The row of each query itself, which is excluded.

    >>> corner = np.array([[1, 0], [0.6, 0.8], [0, 1]])
    >>> [rows.tolist() for rows in nearest(corner, np.arange(3), corner, own=np.arange(3))]
    [[0.4, 0.2, 0.2], [1, 2, 1]]
    """
    best: NDArray[np.float64] = np.full(len(queries), -np.inf)
    neighbours = np.zeros(len(queries), np.intp)
    for start in range(0, len(rows), _ROWS):
        block_rows = rows[start : start + _ROWS]
        block = stored[block_rows]
        for first in range(0, len(queries), _QUERIES):
            part = slice(first, first + _QUERIES)
            cosines = queries[part] @ block.T
            if own is not None:
                cosines[own[part, None] == block_rows[None]] = -np.inf
            place = cosines.argmax(axis=1)
            top = cosines[np.arange(len(place)), place].astype(np.float64)
            better = top > best[part]
            best[part] = np.where(better, top, best[part])
            neighbours[part] = np.where(better, block_rows[place], neighbours[part])
    return np.maximum(0, np.round(1 - best, 7)), neighbours


def principal_axes(
    stored: Floats, rows: RowNumbers, others: Floats
) -> tuple[Callable[[Floats], Floats], tuple[float, float]]:
    """Fit two principal axes; return the projection, and the share of variance of each axis.

    The scatter matrix is summed block by block. The largest weight of each axis is made positive, because
    axes are defined up to their sign.

    >>> line = np.array([[0, 0], [3, 4], [6, 8]])
    >>> project, explained = principal_axes(line, np.arange(3), line[:0])
    >>> project(line)[:, 0].round(6).tolist(), explained
    ([-5.0, 0.0, 5.0], (1.0, 0.0))
    """

    def parts() -> Iterator[Floats]:
        yield others
        for start in range(0, len(rows), _ROWS):
            yield stored[rows[start : start + _ROWS]]

    middle = sum(part.sum(axis=0, dtype=np.float64) for part in parts()) / (len(rows) + len(others))
    scatter = np.zeros((stored.shape[1], stored.shape[1]))
    for part in parts():
        offset = part.astype(np.float64) - middle
        scatter += offset.T @ offset
    axes, sizes, _ = np.linalg.svd(scatter)
    axes = axes[:, :2]
    if axes.shape[1] < 2:
        axes, sizes = np.column_stack([axes, 0 * axes]), np.append(sizes, 0)
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
    axes = axes * np.where(largest < 0, -1, 1)
    shares = np.round(sizes[:2] / (sizes.sum() or 1), 12)
    return (lambda vectors: (vectors - middle) @ axes), (float(shares[0]), float(shares[1]))
