"""Encodings kept by the content they were made from, in memory and on disk.

A text is encoded once per encoder. `key` names the result by what went in; nothing is ever updated, so an
entry is right or it is missing. The disk cache is one SQLite file that any number of processes share. It is
a convenience: whatever happens to it (no room, no permission, damage), the run goes on without it, after
one warning.
"""

from collections.abc import Sequence

from dialeval.models.cache.disk import DiskCache
from dialeval.models.cache.entries import Array, key
from dialeval.models.cache.memory import MemoryCache, forget

__all__ = ["DiskCache", "Layered", "MemoryCache", "forget", "key"]


class Layered:
    """Memory first, then disk, if there is one; what the disk has is kept in memory from then on.

    >>> import numpy as np
    >>> cache = Layered(MemoryCache(), None)
    >>> cache.store([b"a"], np.array([[0.5, 2]], np.float32))
    >>> cache.fetch([b"a"])
    [array([0.5, 2. ], dtype=float32)]
    """

    def __init__(self, memory: MemoryCache, disk: DiskCache | None) -> None:
        self.memory, self.disk = memory, disk

    def fetch(self, keys: Sequence[bytes]) -> list[Array | None]:
        """Return the array of each key, or None."""
        found = self.memory.fetch(keys)
        missing = [place for place, array in enumerate(found) if array is None]
        if self.disk is None or not missing:
            return found
        for place, array in zip(missing, self.disk.fetch([keys[place] for place in missing]), strict=True):
            if array is not None:
                found[place] = array
                self.memory.store([keys[place]], [array])
        return found

    def store(self, keys: Sequence[bytes], arrays: Sequence[Array] | Array) -> None:
        """Keep each array in memory and on disk."""
        self.memory.store(keys, arrays)
        if self.disk is not None:
            self.disk.store(keys, arrays)
