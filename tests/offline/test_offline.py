"""R24: no test and no import opens a socket to the outside, and who does is seen."""

import ast
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import outside
import pytest

import dialeval

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


CONNECTING = re.compile(
    r"(socket|ssl|socketserver|http\.(client|server)|urllib\.request|ftplib|smtplib|poplib|imaplib|xmlrpc|webbrowser"
    r"|pyarrow\.fs|huggingface_hub|transformers|ray|uvicorn|requests|httpx2?|aiohttp|urllib3|boto3|pip|mlflow|wandb)(\.|$)"
)
"""What can open a connection, or can be told to: modules, and names that are imported or run as strings."""


def connecting(tree: ast.AST) -> bool:
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "_library")):
            names += [one.value for one in node.args if isinstance(one, ast.Constant)]
        elif isinstance(node, ast.Constant) and "run_module(" in str(node.value):  # code for another process
            names += re.findall(r'run_module\("(.+?)"', str(node.value))
    return any(CONNECTING.match(name) for name in names)


def test_every_module_that_can_connect_is_in_the_list() -> None:
    package = Path(dialeval.__file__).parent
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if connecting(ast.parse(path.read_text("utf-8")))
    }
    text = (Path(__file__).parents[2] / "SECURITY.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.+?`) \|", text.partition("## Connections")[2], re.MULTILINE)
    assert found == {module for row in rows for module in re.findall(r"`(.+?)`", row)}
    assert all(
        connecting(ast.parse(code))
        for code in ("import ssl", "from http import client", "import requests.api")
    )
    assert not connecting(ast.parse("import socks, httpxx, typing"))
