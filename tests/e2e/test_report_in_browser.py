"""The report as a reader meets it: opened from disk in Chromium, on a desk and on a phone, light and dark."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "reports"))
from payloads import PAYLOADS
from report_cases import QUICK, hostile, ordinary, talks

from dialeval.reports import write_report
from dialeval.reports.text import visible
from dialeval.scores import Scores
from dialeval.studies import Study, study

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCREENS = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield running
        running.close()


class Visit:
    """A page, and everything that happened on it that should not."""

    def __init__(
        self, browser: Any, path: Path | None = None, width: int = 1280, scheme: str = "light"
    ) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.address = ""
        self.events: list[str] = []
        self.page.on("dialog", self._dialog)
        self.page.on("console", lambda message: self.events.append(f"console {message.text}"))
        self.page.on("pageerror", lambda error: self.events.append(f"error {error}"))
        self.page.on("request", self._request)
        if path is not None:
            self.open(path)

    def _dialog(self, dialog: Any) -> None:
        self.events.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        if request.url != self.address:
            self.events.append(f"request {request.url}")

    def open(self, path: Path) -> None:
        self.address = path.as_uri()
        self.page.goto(self.address)

    def __enter__(self) -> "Visit":
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def texts(self, selector: str) -> set[str]:
        return set(self.page.eval_on_selector_all(selector, "all => all.map(one => one.textContent)"))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scores = ordinary(60, systems=3)
    path = tmp_path_factory.mktemp("report") / "report.html"
    found = study(scores, combine=("both=zmean:metric-1+metric-2",), by="system", **QUICK)
    write_report(found, scores, talks(60, 3), path, illustrative=True)
    return path


@pytest.mark.parametrize("start", range(0, 40, 8))
def test_payloads_are_shown_as_given_and_nothing_runs(browser: Any, tmp_path: Path, start: int) -> None:
    payloads = PAYLOADS[start : start + 8]
    found, scores, dialogues = hostile(payloads)
    path = tmp_path / "hostile.html"
    write_report(found, scores, dialogues, path, title=payloads[0])
    with Visit(browser, path) as visit:
        names, said = visit.texts("bdi"), visit.texts(".said")
        for payload in payloads:
            shown = visible(payload)
            assert shown in names
            assert {visible(f"{payload} {number}") for number in range(4)} <= said
            assert visible(f"human:{payload}") in names
            assert visible(f"foreign.v1|file:{payload}") in names
        for field, selector in {
            "dialogue": ".case h3 bdi",
            "system": ".case .of bdi",
            "speaker": ".who > bdi:first-child",
            "source": ".source h3 bdi",
            "dimension": ".t-coverage td:nth-of-type(1) bdi",
            "note": ".t-notes td:nth-of-type(2) bdi",
            "rater": ".t-coverage th bdi",
        }.items():
            prefix = "human:" if field == "rater" else ""
            expected = {visible(prefix + payload) for payload in payloads}
            assert expected <= visit.texts(selector), field
        visit.page.mouse.move(400, 400)
        assert visit.events == []


def test_payload_as_title_and_note(browser: Any, tmp_path: Path) -> None:
    with Visit(browser) as visit:
        for number, payload in enumerate(PAYLOADS):
            path = tmp_path / f"{number}.html"
            study = Study({"level": "dialogue", "where": payload}, None, 0, 0, notes=[payload])
            write_report(study, Scores.of([]), [], path, title=payload)
            visit.open(path)
            assert visit.texts("h1 bdi") == {visible(payload)}
            assert visit.texts(".note bdi") == {visible(payload)}
            assert visible(payload) in visit.texts("td.code bdi")
            assert visit.page.evaluate("document.querySelector('title').textContent") == visible(payload)
            assert visit.events == []


def test_a_page_that_does_run_something_would_be_noticed(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "bad.html"
    path.write_text("<script>alert(1)</script><img src=missing.png>", encoding="utf-8")
    with Visit(browser, path) as visit:
        assert {event.split()[0] for event in visit.events} >= {"dialog", "request"}


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_no_serious_accessibility_violation(browser: Any, report: Path, width: int, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with Visit(browser, report, width, scheme) as visit:
        assert visit.events == []
        visit.page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true })")
        found = Axe().run(visit.page).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert not serious, [(one["id"], one["nodes"][0]["html"][:200]) for one in serious]


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_nothing_overflows_and_figures_are_legible(
    browser: Any, report: Path, width: int, scheme: str
) -> None:
    with Visit(browser, report, width, scheme) as visit:
        visit.page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true })")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        sizes = visit.page.eval_on_selector_all(
            "figure svg text", "all => all.map(one => one.getBoundingClientRect().height)"
        )
        assert sizes and min(sizes) >= 8
        outside = visit.page.eval_on_selector_all(
            "figure svg",
            """all => all.flatMap(svg => {
                const box = svg.closest('.card').getBoundingClientRect();
                return [...svg.querySelectorAll('text')].filter(text => {
                    const own = text.getBoundingClientRect();
                    return own.left < box.left || own.right > box.right;
                }).map(text => text.textContent);
            })""",
        )
        assert outside == []


def test_colours_follow_the_scheme(browser: Any, report: Path) -> None:
    seen = []
    for scheme in ("light", "dark"):
        with Visit(browser, report, 1280, scheme) as visit:
            ask = "selector => getComputedStyle(document.querySelector(selector))"
            paper = visit.page.evaluate(f"({ask})('body').backgroundColor")
            ink = visit.page.evaluate(f"({ask})('figure svg text').fill")
            seen.append((paper, ink))
    assert seen[0][0] != seen[1][0]
    assert seen[0][1] != seen[1][1]


def test_navigation_reaches_every_section(browser: Any, report: Path) -> None:
    with Visit(browser, report) as visit:
        for link in visit.page.eval_on_selector_all("nav a", "all => all.map(one => one.hash.slice(1))"):
            assert visit.page.query_selector(f"#{link}") is not None
