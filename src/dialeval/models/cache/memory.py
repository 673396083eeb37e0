"""A bounded cache in memory, least recently used out first."""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from dialeval.errors import UsageError
from dialeval.models.cache.entries import Array, check_arrays
from dialeval.models.cache.forks import watch

_ENTRY = 400  # bytes that one entry takes in memory besides its numbers: objects, key, place in the order


class MemoryCache:
    """The arrays used last, as many as fit into `limit` bytes.

    What comes out cannot be written to. What is already there stays: the first value of a key wins.

    >>> cache = MemoryCache()
    >>> cache.store([b"a"], [np.array([0.5, 2], np.float32)])
    >>> cache.fetch([b"a", b"b"])
    [array([0.5, 2. ], dtype=float32), None]
    """

    def __init__(self, limit: int = 256 * (1 << 20)) -> None:
        if limit < 0:
            raise UsageError(f"a cache of {limit} bytes: the limit must be 0 or more")
        self.limit = limit
        self.held = 0  # bytes, an estimate that includes what each entry costs beside its numbers
        self._kept: OrderedDict[bytes, Array] = OrderedDict()
        self._lock = threading.Lock()
        watch(self)
        _EVERY.add(self)

    def clear(self) -> None:
        """Let go of everything."""
        with self._lock:
            self._kept.clear()
            self.held = 0

    def fetch(self, keys: Sequence[bytes]) -> list[Array | None]:
        """Return the array of each key, or None."""
        find, refresh = self._kept.get, self._kept.move_to_end
        with self._lock:
            found = [find(one) for one in keys]
            for one, array in zip(keys, found, strict=True):
                if array is not None:
                    refresh(one)
        return found

    def store(self, keys: Sequence[bytes], arrays: Sequence[Array] | Array) -> None:
        """Keep a copy of each array (the rows of a matrix, for one) under its key."""
        check_arrays(keys, arrays)
        kept = self._kept
        with self._lock:
            for one, array in zip(keys, arrays, strict=True):
                size = array.nbytes + _ENTRY
                if one in kept:
                    kept.move_to_end(one)
                elif size <= self.limit:
                    # Memory of its own, because a row would keep its whole batch; `bytes` cannot be unlocked.
                    kept[one] = np.ndarray(array.shape, array.dtype, array.tobytes())
                    self.held += size
                    while self.held > self.limit:
                        self.held -= kept.popitem(last=False)[1].nbytes + _ENTRY

    def _before_fork(self) -> None:
        self._lock.acquire()

    def _after_fork(self) -> None:
        self._lock.release()


_EVERY: "weakref.WeakSet[MemoryCache]" = weakref.WeakSet()


def forget() -> None:
    """Empty every cache in memory of this process.

    Which texts share a batch changes the last digits of their vectors. Work that must come out the same to
    the byte, whatever was done before it, begins by forgetting.
    """
    for cache in list(_EVERY):
        cache.clear()
