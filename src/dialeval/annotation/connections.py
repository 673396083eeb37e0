"""Limits on connections, so that slow or many clients cannot take a server away from the others.

- The headers of a request must arrive within `HEADERS` seconds of the first byte, and the first byte within
  as many of the connection; what follows a request that was answered before its end is limited likewise.
  (The time of a body is limited by `web.RequestGuard`, that of a kept connection by uvicorn.)
- At most half of the process's file descriptors are connections. A further one replaces the connection that
  has kept the server waiting longest; if there is none, it is refused.
- A client that does not read its response for `ANSWER` seconds is disconnected.
- The same message is logged at most once in `SELDOM` seconds.
"""

import asyncio
import logging
import time
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS, ANSWER, SELDOM = 10.0, 60.0, 10.0
_MOST = 1_000
_LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def most_connections() -> int:
    """Return how many connections may be open at once."""
    try:
        import resource
    except ModuleNotFoundError:  # not a POSIX system
        return _MOST
    return max(8, min(_MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))


class LimitedConnection(H11Protocol):
    """One connection, which is closed when it keeps the server waiting for too long."""

    waiting: ClassVar[dict["LimitedConnection", None]] = {}  # those that owe data, the longest first
    most: ClassVar[int] = most_connections()
    _late: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request; if there are too many connections, close one."""
        super().connection_made(transport)
        self._look()
        if len(self.connections) > self.most:
            oldest = next(iter(self.waiting))
            self.connections.discard(oldest)
            del self.waiting[oldest]
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.waiting.pop(self, None)
        self._set_late(False)
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; the time runs from the first byte of a request to the end of its headers."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Keep the connection for the next request, unless its place is needed."""
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.waiting[self] = None

    def pause_writing(self) -> None:
        """Wait for the client to read, for a while."""
        super().pause_writing()
        self._stuck = self._stuck or self.loop.call_later(ANSWER, self.transport.abort)

    def resume_writing(self) -> None:
        """Write on."""
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _look(self) -> None:
        """Update whether the server waits for data, and the timer for the end of headers."""
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self.waiting.setdefault(self)
        else:
            self.waiting.pop(self, None)
        self._set_late(self.conn.their_state is h11.IDLE or self.conn.our_state is h11.DONE)

    def _set_late(self, is_running: bool) -> None:
        if not is_running and self._late is not None:
            self._late.cancel()
            self._late = None
        elif is_running and self._late is None:
            self._late = self.loop.call_later(HEADERS, self._hang_up)

    def _hang_up(self) -> None:
        if self.conn.our_state is h11.IDLE:
            self.transport.write(_LATE)
        self.transport.close()


class SeldomFilter(logging.Filter):
    """Lets each message of a logger pass once in a while, so that no client can fill the disk."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the message was not logged recently."""
        now, message = time.monotonic(), str(record.msg)[:100]
        if now - self._last.get(message, -SELDOM) < SELDOM:
            return False
        self._last = {text: at for text, at in self._last.items() if now - at < SELDOM} | {message: now}
        return True
