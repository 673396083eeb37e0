"""Geometry of features: nearest neighbours and the two axes of a picture, block by block."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]
Rows: TypeAlias = NDArray[np.intp]
_QUERIES, _ROWS = 256, 8_192  # compared at a time


def nearest(stored: Floats, rows: Rows, queries: Floats, own: Rows | None = None) -> tuple[Floats, Rows]:
    """Return the distance (1 - cosine) of each query to the nearest of some rows, and that row.

    Compared block by block: memory depends neither on the number of queries nor on that of rows.

    Args:
        stored: Vectors of length 1.
        rows: Which of them to look at; of equals the first is found.
        queries: Vectors of length 1.
        own: The row that each query is itself, which is not its own neighbour.

    >>> corner = np.array([[1, 0], [0.6, 0.8], [0, 1]])
    >>> [found.tolist() for found in nearest(corner, np.arange(3), corner, own=np.arange(3))]
    [[0.4, 0.2, 0.2], [1, 2, 1]]
    """
    best: NDArray[np.float64] = np.full(len(queries), -np.inf)
    found = np.zeros(len(queries), np.intp)
    for start in range(0, len(rows), _ROWS):
        these = rows[start : start + _ROWS]
        block = stored[these]
        for first in range(0, len(queries), _QUERIES):
            part = slice(first, first + _QUERIES)
            cosines = queries[part] @ block.T
            if own is not None:
                cosines[own[part, None] == these[None]] = -np.inf
            place = cosines.argmax(axis=1)
            top = cosines[np.arange(len(place)), place].astype(np.float64)
            better = top > best[part]
            best[part] = np.where(better, top, best[part])
            found[part] = np.where(better, these[place], found[part])
    return np.maximum(0, np.round(1 - best, 7)), found


def principal_axes(
    stored: Floats, rows: Rows, others: Floats
) -> tuple[Callable[[Floats], Floats], tuple[float, float]]:
    """Fit two principal axes to rows and others together; return how to project, and the share of each axis.

    The singular vectors are those of the scatter matrix, which is summed block by block. They are only
    known up to their sign: the largest weight of each is made positive, so that pictures do not flip.

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
