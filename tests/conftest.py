"""What all tests share: a home of their own, no network, and a way to say that public data is not there."""

import atexit
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "contract"))

if "PYTEST_XDIST_WORKER" not in os.environ:  # workers and child processes have it from here
    os.environ["DIALEVAL_HOME"] = tempfile.mkdtemp(prefix="dialeval-home-")
    atexit.register(shutil.rmtree, os.environ["DIALEVAL_HOME"], ignore_errors=True)
    os.environ.pop("DIALEVAL_CACHE", None)

if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:  # the workers share the cores already
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_connect = socket.socket.connect


def _only_here(self: socket.socket, address: object) -> None:
    """Refuse every connection that leaves the machine (promise R24)."""
    if self.family in (socket.AF_INET, socket.AF_INET6):
        host = str(address[0]) if isinstance(address, tuple) else ""
        if not (host.startswith("127.") or host in ("::1", "localhost")):
            raise RuntimeError(f"a test tried to connect to {address!r}")
    _connect(self, address)


@pytest.fixture(autouse=True, scope="session")
def no_network() -> Iterator[None]:
    socket.socket.connect = _only_here  # type: ignore[method-assign]
    yield
    socket.socket.connect = _connect  # type: ignore[method-assign]


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = Path(os.environ.get("DIALEVAL_DATA") or "../shared/data")
    if not folder.is_dir():
        pytest.skip("public sets are not there; set DIALEVAL_DATA to their folder")
    return folder
