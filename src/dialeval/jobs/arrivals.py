"""Chunks of a stream as it arrives: full ones from a fast input, small ones from a live input.

A thread reads ahead into a bounded queue. A chunk ends when it is full or, for a live input, when nothing has
arrived for a moment; the next chunk gathers while one is scored.
"""

import contextlib
import queue
import signal
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

T = TypeVar("T")
_MOMENT = 0.01  # seconds without a new item that end a chunk
_LOOK = 0.2  # seconds between checks for the end of a waiting thread
_END = object()


class Interruption:
    """State of Ctrl-C: pressed once it ends the input, pressed again the program."""

    def __init__(self) -> None:
        self.came = threading.Event()

    @contextlib.contextmanager
    def awaited(self) -> Iterator[None]:
        """Treat Ctrl-C as the end of the input within this block, in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(*_: object) -> None:
            self.came.set()
            signal.signal(signal.SIGINT, before)

        before = signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def arrivals(
    items: Iterator[T], most: int, interruption: Interruption | None = None, *, patient: bool = False
) -> Iterator[list[T]]:
    """Yield items in chunks of at most `most`, without waiting for items that have not arrived.

    An error of the input is raised after the items before it. With `patient`, all chunks but the last are
    full.

    >>> list(arrivals(iter("abcde"), 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    came = interruption.came if interruption else threading.Event()
    waiting: queue.Queue[Any] = queue.Queue(most)
    gone = threading.Event()
    threading.Thread(target=_read, args=(items, waiting, gone), name="reader", daemon=True).start()
    try:
        item = _first(waiting, came)
        while item is not _END:
            chunk: list[T] = []
            while item is not _END and not isinstance(item, BaseException):
                chunk.append(item)
                if len(chunk) == most:
                    break
                try:
                    item = _first(waiting, came) if patient else waiting.get(timeout=_MOMENT)
                except queue.Empty:
                    break
            if chunk:
                yield chunk
            if isinstance(item, BaseException):
                raise item
            if item is not _END:
                item = _first(waiting, came)
    finally:
        gone.set()


def _first(waiting: "queue.Queue[Any]", came: threading.Event) -> Any:
    """Wait for the next item; an interruption is the end."""
    while not came.is_set():
        with contextlib.suppress(queue.Empty):
            return waiting.get(timeout=_LOOK)
    return _END


def _read(items: Iterator[Any], waiting: "queue.Queue[Any]", gone: threading.Event) -> None:
    try:
        for item in items:
            if not _put(waiting, item, gone):
                return
        _put(waiting, _END, gone)
    except BaseException as error:  # raised in the consumer
        _put(waiting, error, gone)


def _put(waiting: "queue.Queue[Any]", item: Any, gone: threading.Event) -> bool:
    """Put an item into the queue when there is room; return False if the consumer has stopped."""
    while not gone.is_set():
        with contextlib.suppress(queue.Full):
            waiting.put(item, timeout=_LOOK)
            return True
    return False
