"""Slow clients: whoever keeps a server waiting is hung up on, and the others are served meanwhile."""

import logging
import socket
import time
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")

import contextlib

from annotation_server import Server, make_study

from dialeval.annotation.connections import SeldomFilter

HEAD = b"POST /rate/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
KINDS = (HEAD[:30], HEAD + b"X-Slow: ", HEAD + b"\r\nabc")


def is_open(line: socket.socket) -> bool:
    try:
        while line.recv(1000):
            pass
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def send(lines: list[socket.socket], data: bytes) -> None:
    for line in lines:
        with contextlib.suppress(OSError):
            line.send(data)


def test_slow_clients_are_hung_up_on_and_others_served(tmp_path: Path) -> None:
    """60 that trickle headers or a body, 10 that say nothing, and one that is honest."""
    with Server(make_study(tmp_path / "study")) as server:
        honest, lines = server.client("ann"), list[socket.socket]()
        for number in range(70):
            lines.append(socket.create_connection(("127.0.0.1", server.port)))
            lines[-1].sendall(KINDS[number % 3] if number < 60 else b"")
            lines[-1].setblocking(False)
        served = 0
        while any(map(is_open, lines)):
            send(lines[:60], b"x")
            assert honest.get("/rate").status == 303
            served += sum(map(is_open, lines)) > 0
            time.sleep(0.5)
        assert served  # while others kept it waiting
        for line in lines:
            line.close()


def test_the_log_is_bounded() -> None:
    seldom = SeldomFilter()
    record = [logging.LogRecord("x", logging.ERROR, "", 0, text, None, None) for text in ("one", "two")]
    assert [seldom.filter(record[0]) for _ in range(1000)].count(True) == 1
    assert seldom.filter(record[1])
