"""What all tests share: a home of their own, no network, and a way to say that public data is not there."""

import atexit
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from serving import Server

hypothesis.settings.register_profile("any machine", deadline=None)  # a busy one is slow now and then
hypothesis.settings.load_profile("any machine")
_SHARED = ("annotation", "cli", "contract", "jobs", "models", "reports", "systems")  # have more than tests
sys.path[:0] = [str(Path(__file__).parent / name) for name in _SHARED]

if "PYTEST_XDIST_WORKER" not in os.environ:  # workers and child processes have it from here
    os.environ["DIALEVAL_HOME"] = tempfile.mkdtemp(prefix="dialeval-home-")
    atexit.register(shutil.rmtree, os.environ["DIALEVAL_HOME"], ignore_errors=True)
    os.environ.pop("DIALEVAL_CACHE", None)

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # run in the background: children would be deaf too
    signal.signal(signal.SIGINT, signal.default_int_handler)

if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:  # the workers share the cores already
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Child processes are watched as well: Python runs the `sitecustomize` of this folder before anything else.
_OFFLINE = str(Path(__file__).parent / "offline")
sys.path.insert(0, _OFFLINE)
if _OFFLINE not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_OFFLINE, os.environ.get("PYTHONPATH", "")]))
import outside  # noqa: E402

_handle, _log = tempfile.mkstemp(prefix="dialeval-outside-")
os.close(_handle)
os.environ[outside.LOG] = _log
atexit.register(Path(_log).unlink, missing_ok=True)
outside.watch()


@pytest.fixture(autouse=True)
def no_network() -> Iterator[None]:
    """Fail the test during which anything, here or in a child, tried to leave the machine (R24)."""
    yield
    if tried := Path(_log).read_text(encoding="utf-8"):
        Path(_log).write_text("", encoding="utf-8")
        pytest.fail(f"went out: {tried}", pytrace=False)


_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
if not os.environ.get("DIALEVAL_DATA"):  # never the sets of whoever runs the tests, unless they say so
    os.environ["DIALEVAL_DATA"] = str(
        _BESIDE if _BESIDE.is_dir() else Path(os.environ["DIALEVAL_HOME"]) / "data"
    )


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = Path(os.environ["DIALEVAL_DATA"])
    if not folder.is_dir():
        pytest.skip("public sets are not there; set DIALEVAL_DATA to their folder")
    return folder


@pytest.fixture(scope="module")
def server() -> Iterator["Server"]:
    """A chat server whose kinds of answers are paths."""
    from serving import serving

    with serving() as one:
        yield one


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Skip a test of public data if a set that it reads is missing."""
    try:
        return (yield)
    except Exception as error:
        missing = getattr(error, "file", None) or getattr(error, "filename", None)
        folder = Path(os.environ["DIALEVAL_DATA"])
        if "data_folder" not in pyfuncitem.fixturenames or missing is None:
            raise
        if folder not in Path(str(missing)).parents or Path(str(missing)).exists():
            raise
        pytest.skip(f"{missing} is not there (set DIALEVAL_DATA)")
