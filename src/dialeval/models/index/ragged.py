"""Ragged columns: rows of any length, one after the other, and where each of them ends."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Ragged:
    """Rows that end where the next one begins; the other fields are what they are made of, in files each."""

    FILES: ClassVar[dict[str, str]] = {}
    """The ending of each file beside `ends`, and the kind of its numbers: the first takes four bytes."""

    ends: Array

    def slice(self, start: int, stop: int) -> Self:
        """Return some of the rows."""
        first, last = int(self.ends[start]), int(self.ends[stop])
        parts = [getattr(self, field.name)[first:last] for field in fields(self)[1:]]
        return type(self)(self.ends[start : stop + 1] - first, *parts)

    def holds(self) -> bool:
        """Say whether the ends are those of rows: in order, and as far as the numbers go."""
        filled = len(getattr(self, fields(self)[1].name))
        ends = self.ends
        return bool(ends[0] == 0 and ends[-1] == filled and np.all(ends[1:] >= ends[:-1]))


@dataclass(frozen=True)
class Counts(Ragged):
    """How often each bucket is filled in each text."""

    FILES: ClassVar[dict[str, str]] = {"buckets": "<i4", "counts": "<f4"}

    buckets: Array
    counts: Array


@dataclass(frozen=True)
class TokenRows(Ragged):
    """The tokens of each text and their states: the numbers of a token times its scale have length one."""

    FILES: ClassVar[dict[str, str]] = {"tokens": "<i4", "numbers": "i1", "scales": "<f4"}

    tokens: Array
    numbers: Array
    scales: Array
