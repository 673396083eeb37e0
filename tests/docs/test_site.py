"""The site is built strictly, loads nothing from outside, and fits a phone."""

import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("index.html", "map.html", "compare.html", "metrics/quality.html", "formats.html", "api.html")
_CUT_OFF = """() => [...document.querySelectorAll("article pre > code, article .md-typeset__scrollwrap")]
    .filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.innerText.slice(0, 80))"""
_LOADED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(\S+?)[\" >]|<link\b([^>]*)>")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="pip install --group docs")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "-q", "--strict", "-d", str(folder)],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there_and_in_the_navigation(site: Path) -> None:
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    built = {str(path.relative_to(site)) for path in site.rglob("*.html")}
    assert {page.removesuffix(".md") + ".html" for page in pages} <= built
    assert len({name.lower() for name in built}) == len(built), "names that differ in case alone"
    front = (site / "index.html").read_text(encoding="utf-8")
    navigation = front.partition("md-nav--primary")[2].partition("md-sidebar--secondary")[0]
    linked = set(re.findall(r'href="?([\w./-]+\.html)', navigation))
    assert {page for page in built if page != "404.html"} <= linked | {"index.html"}
    assert "images/report.png" in front and "GPT-4 as a judge" in front


def test_nothing_is_loaded_from_outside(site: Path) -> None:
    for page in site.rglob("*.html"):
        for found in _LOADED.finditer(page.read_text(encoding="utf-8")):
            asked = found[1] or found[2]
            if found[1] or re.search(r"stylesheet|preload|icon|preconnect", asked):
                assert "://" not in asked and "//" not in asked[:8], f"{page.name}: {asked}"


def test_public_names_are_described(site: Path) -> None:
    import dialeval

    text = (site / "api.html").read_text(encoding="utf-8")
    ids = set(re.findall(r'id="?(dialeval[\w.]+)', text))
    assert {name for name in dialeval.__all__ if not any(one.endswith(f".{name}") for one in ids)} == set()
    for struct in (dialeval.Dialogue, dialeval.Turn):
        own = text.partition(f'id="{struct.__module__}.{struct.__name__}"')[2].partition("<h2")[0]
        assert {name for name in struct.__struct_fields__ if f">{name}</span></code>" not in own} == set()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.browser
def test_pages_fit_and_search_finds(address: str, tmp_path: Path) -> None:
    chromium = shutil.which("chromium")
    if not chromium:
        pytest.skip("no chromium executable")
    from playwright.sync_api import sync_playwright

    pictures = Path(os.environ.get("SITE_PICTURES") or tmp_path)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for width in (1280, 390):
            page = browser.new_page(viewport={"width": width, "height": 900})
            asked, wrong = list[str](), list[str]()
            page.on("request", lambda one, asked=asked: asked.append(one.url))
            page.on("pageerror", lambda one, wrong=wrong: wrong.append(str(one)))
            for name in PAGES:
                page.goto(f"{address}/{name}", wait_until="networkidle")
                page.screenshot(path=pictures / f"{Path(name).stem}-{width}.png")
                assert page.evaluate("document.documentElement.scrollWidth") <= width, name
                assert width < 1280 or page.evaluate(_CUT_OFF) == [], name
            assert wrong == [] and [one for one in asked if not one.startswith((address, "data:"))] == []
            page.close()
        page = browser.new_page(color_scheme="dark")
        page.goto(f"{address}/index.html?q=prediction", wait_until="networkidle")
        assert page.get_attribute("body", "data-md-color-scheme") == "slate"
        page.wait_for_selector(".md-search-result__item", state="attached")
        browser.close()
