"""Where a server listens, what it is called there, and running it."""

import ipaddress
import socket
from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

from dialeval.errors import UsageError

PORT = 8750


def host_name(host: str) -> str:
    """Return the name in a Host header, without its port.

    >>> host_name("Localhost:8750"), host_name("[::1]:80"), host_name("evil@127.0.0.1")
    ('localhost', '::1', '')
    """
    if any(character in host for character in "@/\\ ,"):
        return ""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach a server that listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_host(host: str, hosts: Collection[str]) -> list[str]:
    """Return the names a server goes by; to be reached from outside, it must be told at least one."""
    if is_loopback(host):
        return list(hosts)
    try:
        everywhere = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        everywhere = False
    if everywhere and not hosts:
        raise UsageError(
            f"--host {host} lets others reach this server: say under which name, with --allow-host NAME"
        )
    return [*hosts, *([] if everywhere else [host.lower()])]


def outside(address: str | None) -> tuple[list[str], bool]:
    """Return the name in the address that people use from outside, and whether it is encrypted.

    >>> outside("https://rate.example.org/"), outside(None)
    ((['rate.example.org'], True), ([], False))
    """
    parts = urlsplit(address or "")
    if address and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise UsageError(f"--address {address}: expected https://NAME")
    return [parts.hostname] if parts.hostname else [], parts.scheme == "https"


def listen(host: str, port: int) -> socket.socket:
    """Take a port, before anybody is told about it."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        taken = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise UsageError(f"--host {host}: {error.strerror or error}") from None
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host, port))
    except OSError as error:
        taken.close()
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}; try --port {port + 1}") from None
    taken.listen(256)
    return taken


def address_of(taken: socket.socket, hosts: Collection[str] = ()) -> str:
    """Return the address to tell people: the first name the server was given, or its own."""
    host, port = taken.getsockname()[:2]
    name = next(iter(hosts), host)
    return f"http://{f'[{name}]' if ':' in name else name}:{port}"


def serve(app: Any, taken: socket.socket, grace: int = 3) -> None:
    """Serve until somebody ends it with Ctrl-C; answers under way then have `grace` seconds left."""
    import uvicorn

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=grace,
    )
    uvicorn.Server(config).run(sockets=[taken])
