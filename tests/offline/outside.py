"""Sees whoever tries to leave this machine (promise R24).

Python tells an audit hook of every connection, datagram and question to a name server before it is made,
from whatever library it comes; a hook cannot be taken away again, and a caller that catches every exception
does not hide it: what was tried is written down, and the test fails.
"""

import functools
import ipaddress
import os
import socket
import sys
from pathlib import Path
from typing import Any

LOG = "DIALEVAL_OUTSIDE_LOG"
_NAMES = {"", "localhost", "localhost.localdomain", "ip6-localhost"}


class OutsideError(RuntimeError):
    """Somebody tried to leave this machine."""


def watch() -> None:
    """Refuse and write down from now on, in this process, whatever leaves the machine."""
    sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event.startswith("socket.") and (where := leads_outside(event, arguments)) is not None:
        if place := os.environ.get(LOG):
            with Path(place).open("a", encoding="utf-8") as file:
                file.write(f"{event} {where} by {sys.argv[:1]}\n")
        raise OutsideError(f"{event} {where}: no test and no import goes out")


def leads_outside(event: str, arguments: tuple[Any, ...]) -> str | None:
    """Return where an event leads, if that is not here."""
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        own, address = arguments[0], arguments[1]
        quiet = event == "socket.connect" and own.type == socket.SOCK_DGRAM  # sends nothing: asks for a route
        if own.family in (socket.AF_INET, socket.AF_INET6) and isinstance(address, tuple) and not quiet:
            return None if _is_here(str(address[0])) else repr(address)
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        host = arguments[0].decode() if isinstance(arguments[0], bytes) else arguments[0]
        if host is not None and not _is_number(host) and not _is_here(host):
            return repr(host)
    return None


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_here(host: str) -> bool:
    if host.lower() in _NAMES or host.lower() == socket.gethostname().lower():
        return True
    if not _is_number(host):
        return False
    address = ipaddress.ip_address(host.partition("%")[0])
    return address.is_loopback or address.is_unspecified or str(address) in _own()


@functools.cache
def _own() -> frozenset[str]:
    """Return the addresses of this machine: what is sent there stays here."""
    found = set()
    try:
        found |= {str(one[4][0]) for one in socket.getaddrinfo(socket.gethostname(), None)}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            asked.connect(("192.0.2.1", 9))  # of nobody; nothing is sent
            found.add(asked.getsockname()[0])
    except OSError:  # no name, or no network at all
        pass
    return frozenset(found)
