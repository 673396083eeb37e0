"""The `Estimate`: a value with n, interval and p, or the reason that it is undefined.

Arrays that go *into* this package mark a missing value with NaN (or any value that is not finite, or `None`
in a list). Nothing that comes *out* of it is NaN: what cannot be computed is `None` with a short reason.
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
    """A value, its number of observations, its interval and its p-value.

    `low`, `high` and `p` are `None` if not requested or undefined. The `reason` says why the value, or only
    its interval, is missing ("one cluster").

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
        """Refuse an interval with one end, as in a damaged file."""
        if (self.low is None) != (self.high is None):
            raise ValueError("an interval needs two ends")

    @property
    def defined(self) -> bool:
        """Return whether there is a value."""
        return self.value is not None

    def scaled(self, factor: float) -> "Estimate":
        """Return value and interval multiplied by a factor."""
        value, *ends = (None if end is None else factor * end for end in (self.value, self.low, self.high))
        low, high = ends if factor > 0 else ends[::-1]
        return replace(self, value=value, low=low, high=high)

    def negated(self) -> "Estimate":
        """Return the negated value and interval: of a difference, the opposite one."""
        return self.scaled(-1.0)

    @classmethod
    def undefined(cls, reason: str, n: int = 0) -> "Estimate":
        """Return an estimate without a value, and the reason."""
        return cls(None, n, reason=reason)


def vector(values: Vector) -> Floats:
    """Return a one-dimensional float array in which all values that are not finite are NaN, for missing."""
    return _finite_or_nan(values, dimensions=1)


def matrix(values: Matrix) -> Floats:
    """Return a two-dimensional float array in which all values that are not finite are NaN, for missing."""
    return _finite_or_nan(values, dimensions=2)


def _finite_or_nan(values: object, dimensions: int) -> Floats:
    array = np.array(values, dtype=np.float64)
    if array.ndim != dimensions:
        raise UsageError(f"expected {dimensions} dimension(s), got an array of shape {array.shape}")
    array[~np.isfinite(array)] = np.nan
    return array


def complete(*vectors: Vector) -> tuple[Floats, ...]:
    """Return the vectors at the indices where all of them have a value.

    >>> complete([1, None, 3], [4, 5, 6])
    (array([1., 3.]), array([4., 6.]))
    """
    arrays = [vector(v) for v in vectors]
    if len({a.size for a in arrays}) > 1:
        raise UsageError(f"vectors of different length: {', '.join(str(a.size) for a in arrays)}")
    present = np.logical_and.reduce([~np.isnan(a) for a in arrays])
    return tuple(a[present] for a in arrays)


def constant(values: Floats) -> bool:
    """Return whether all values are the same."""
    return values.size == 0 or bool(np.all(values == values[0]))


def number(value: object) -> float | None:
    """Return a plain float, or `None` if it is not finite."""
    result = float(value)  # type: ignore[arg-type]
    return result if np.isfinite(result) else None


def clusters_of(clusters: Vector | None, n: int, mask: Booleans | None = None) -> tuple[Places, int]:
    """Return the cluster labels as consecutive numbers, and how many there are, for all rows or a mask.

    Without labels each row is its own cluster.
    """
    labels = np.arange(n) if clusters is None else np.asarray(clusters)
    if labels.shape != (n,):
        raise UsageError(f"{n} rows but cluster labels of shape {labels.shape}")
    labels = labels if mask is None else labels[mask]
    if clusters is None:
        return np.arange(labels.size), labels.size
    names, codes = np.unique(labels, return_inverse=True)
    return codes.astype(np.intp), int(names.size)


def share(hits: int, n: int, confidence: float = 0.95) -> Estimate:
    """Return a share with Wilson's interval, which has a width even if all or none are hits.

    >>> all_hits = share(28, 28)
    >>> all_hits.value, round(all_hits.low, 3), all_hits.high
    (1.0, 0.879, 1.0)
    """
    if not n:
        return Estimate.undefined("n = 0")
    z, value = NormalDist().inv_cdf((1 + confidence) / 2), hits / n
    middle, scale = value + z * z / (2 * n), 1 + z * z / n
    half = z * (value * (1 - value) / n + z * z / (4 * n * n)) ** 0.5
    return Estimate(value, n, max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale))
