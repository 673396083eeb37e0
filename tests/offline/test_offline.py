"""R24: no test and no import opens a socket to the outside, and who does is seen."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import outside
import pytest

IMPORT_ALL = """
import importlib, pkgutil, dialeval
from dialeval.errors import DialevalError
count = 0
for found in pkgutil.walk_packages(dialeval.__path__, "dialeval."):
    importlib.import_module(found.name)
    count += 1
print(count)
"""


def run(code: str, log: Path, *before: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {outside.LOG: str(log)}
    command = [*before, sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def alone() -> list[str]:
    """Return what runs a command in a network of its own, with nobody in it, if the system lets us."""
    if shutil.which("unshare") is None:
        return []
    tried = subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False)
    return [] if tried.returncode else ["unshare", "-rn"]


def test_every_module_is_imported_without_a_socket_to_the_outside(tmp_path: Path) -> None:
    done = run(IMPORT_ALL, tmp_path / "log", *alone())
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 200
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    "code",
    [
        "socket.create_connection(('192.0.2.1', 80), 1)",
        "socket.socket().connect_ex(('192.0.2.1', 80))",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
        "socket.getaddrinfo('nobody.invalid', 80)",
        "socket.gethostbyname('nobody.invalid')",
        "urllib.request.urlopen('https://nobody.invalid/')",
        "asyncio.run(asyncio.open_connection('192.0.2.1', 80))",
    ],
)
def test_a_child_that_goes_out_is_seen_though_it_says_nothing(code: str, tmp_path: Path) -> None:
    quiet = f"import asyncio, socket, urllib.request\ntry:\n    {code}\nexcept BaseException:\n    pass"
    assert run(quiet, tmp_path / "log").returncode == 0
    assert "socket." in (tmp_path / "log").read_text()


def test_this_process_is_watched_and_whoever_goes_out_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(outside.LOG, str(tmp_path / "log"))
    with socket.socket() as one, pytest.raises(outside.OutsideError, match=r"192\.0\.2\.1"):
        one.connect(("192.0.2.1", 80))
    with pytest.raises(outside.OutsideError, match="nobody"):
        socket.getaddrinfo("nobody.invalid", 80)
    assert len((tmp_path / "log").read_text().splitlines()) == 2


def test_what_stays_here_is_left_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        for host in ("127.0.0.1", "localhost"):
            socket.create_connection((host, server.getsockname()[1]), 5).close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.connect(("192.0.2.1", 9))
