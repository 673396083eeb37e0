"""What a server of the tests counts: how often each way was asked, and how many at the same time."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class Tally:
    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.most = 0
        self._under_way = 0
        self._lock = Lock()

    def count(self, way: str) -> int:
        with self._lock:
            self.counts[way] = self.counts.get(way, 0) + 1
            return self.counts[way]

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Be left before the answer goes out, which lets the next request come."""
        with self._lock:
            self._under_way += 1
            self.most = max(self.most, self._under_way)
        yield
        with self._lock:
            self._under_way -= 1
