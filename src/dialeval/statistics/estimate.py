"""One number with everything a reader needs to trust it, or the reason there is none.

Arrays that go *into* this room mark a missing value with NaN (or any value that is not finite, or `None` in
a list). Nothing that comes *out* of it is NaN: what cannot be computed is `None` with a short reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dialeval.errors import UsageError

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int32]
Places: TypeAlias = NDArray[np.intp]
Booleans: TypeAlias = NDArray[np.bool_]
Vector: TypeAlias = Sequence[float | None] | Sequence[float] | Sequence[int] | NDArray[Any]
Matrix: TypeAlias = Sequence[Vector] | NDArray[Any]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure, how many observations it stands on, its interval and its p-value.

    `low`, `high` and `p` are `None` where they were not asked for or do not exist. A defined value may still
    carry a `reason`: it then says why the interval is missing ("one cluster").

    >>> Estimate(0.5, n=10, low=0.1, high=0.8)
    Estimate(value=0.5, n=10, low=0.1, high=0.8, p=None, reason=None)
    >>> Estimate.undefined("constant", n=4).value is None
    True
    """

    value: float | None
    n: int
    low: float | None = None
    high: float | None = None
    p: float | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        """Refuse an interval with one end, such as a damaged file may hold."""
        if (self.low is None) != (self.high is None):
            raise ValueError("an interval needs two ends")

    @property
    def defined(self) -> bool:
        """Whether there is a value at all."""
        return self.value is not None

    def scaled(self, factor: float) -> "Estimate":
        """Return the figure and its interval in another unit."""
        value, *ends = (None if end is None else factor * end for end in (self.value, self.low, self.high))
        low, high = ends if factor > 0 else ends[::-1]
        return replace(self, value=value, low=low, high=high)

    def turned(self) -> "Estimate":
        """Return the figure with its sign turned: of a difference, the other way round."""
        return self.scaled(-1.0)

    @classmethod
    def undefined(cls, reason: str, n: int = 0) -> "Estimate":
        """No value, and why."""
        return cls(None, n, reason=reason)


def vector(values: Vector) -> Floats:
    """A one-dimensional float array in which every value that is not finite is NaN, the mark for missing."""
    return _finite_or_nan(values, dimensions=1)


def matrix(values: Matrix) -> Floats:
    """The same for two dimensions."""
    return _finite_or_nan(values, dimensions=2)


def _finite_or_nan(values: object, dimensions: int) -> Floats:
    array = np.array(values, dtype=np.float64)
    if array.ndim != dimensions:
        raise UsageError(f"expected {dimensions} dimension(s), got an array of shape {array.shape}")
    array[~np.isfinite(array)] = np.nan
    return array


def complete(*vectors: Vector) -> tuple[Floats, ...]:
    """The places at which every vector has a value.

    >>> complete([1, None, 3], [4, 5, 6])
    (array([1., 3.]), array([4., 6.]))
    """
    arrays = [vector(v) for v in vectors]
    if len({a.size for a in arrays}) > 1:
        raise UsageError(f"vectors of different length: {', '.join(str(a.size) for a in arrays)}")
    present = np.logical_and.reduce([~np.isnan(a) for a in arrays])
    return tuple(a[present] for a in arrays)


def constant(values: Floats) -> bool:
    """Whether all values are the same, so that nothing can vary with them."""
    return values.size == 0 or bool(np.all(values == values[0]))


def number(value: object) -> float | None:
    """A plain float, or `None` for what is not finite."""
    result = float(value)  # type: ignore[arg-type]
    return result if np.isfinite(result) else None


def clusters_of(clusters: Vector | None, n: int, kept: Booleans | None = None) -> tuple[Places, int]:
    """Cluster labels as consecutive numbers, and how many there are; without labels each row stands alone.

    With `kept` (a mask of the n rows), of those rows alone.
    """
    labels = np.arange(n) if clusters is None else np.asarray(clusters)
    if labels.shape != (n,):
        raise UsageError(f"{n} rows but cluster labels of shape {labels.shape}")
    labels = labels if kept is None else labels[kept]
    if clusters is None:
        return np.arange(labels.size), labels.size
    names, places = np.unique(labels, return_inverse=True)
    return places.astype(np.intp), int(names.size)


def share(hits: int, n: int, confidence: float = 0.95) -> Estimate:
    """Return a share with Wilson's interval, which has a width even where all or none are hits.

    >>> found = share(28, 28)
    >>> found.value, round(found.low, 3), found.high
    (1.0, 0.879, 1.0)
    """
    if not n:
        return Estimate.undefined("n = 0")
    z, value = NormalDist().inv_cdf((1 + confidence) / 2), hits / n
    middle, scale = value + z * z / (2 * n), 1 + z * z / n
    half = z * (value * (1 - value) / n + z * z / (4 * n * n)) ** 0.5
    return Estimate(value, n, max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale))
