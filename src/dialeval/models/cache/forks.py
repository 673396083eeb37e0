"""Forks: no lock is held and no file is open in a cache while the process is copied."""

import os
import threading
import weakref
from typing import Protocol


class Forkable(Protocol):
    """A cache that can let go of everything for a moment."""

    def _before_fork(self) -> None: ...

    def _after_fork(self) -> None: ...


_WATCHED: "weakref.WeakSet[Forkable]" = weakref.WeakSet()
_FORKING = threading.Lock()
_waiting: list[Forkable] = []


def watch(cache: Forkable) -> None:
    """Have a cache let go before each fork from now on."""
    with _FORKING:
        _WATCHED.add(cache)


def _before_fork() -> None:
    _FORKING.acquire()
    _waiting.extend(_WATCHED)
    for cache in _waiting:
        cache._before_fork()


def _after_fork() -> None:
    while _waiting:
        _waiting.pop()._after_fork()
    _FORKING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
