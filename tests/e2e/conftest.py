"""One browser for all tests of a worker; every visit is a window of its own, with its own cookies.

Playwright's event loop runs as long as the browser, in the thread that started it. That is a thread of its
own, so that `asyncio.run` works in later tests; tests that use the browser run in that thread.
"""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


_THREAD = ThreadPoolExecutor(1, "browser")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("no chromium on this machine")
    from playwright.sync_api import sync_playwright

    playwright = _THREAD.submit(lambda: sync_playwright().start()).result()
    launch = playwright.chromium.launch
    running = _THREAD.submit(launch, executable_path=path, args=ARGUMENTS).result()
    yield running
    _THREAD.submit(running.close).result()
    _THREAD.submit(playwright.stop).result()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run the tests of the browser in its thread."""
    if "browser" not in pyfuncitem.funcargs:
        return None
    wanted = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    _THREAD.submit(pyfuncitem.obj, **wanted).result()
    return True
