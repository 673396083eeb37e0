"""The report as a reader meets it: opened from disk in Chromium, on a desk and on a phone, light and dark."""

from pathlib import Path
from typing import Any

import pytest
from browsing import SCREENS, Visit
from msgspec.structs import replace
from payloads import PAYLOADS
from report_cases import QUICK, hostile, ordinary, talks

from dialeval.dialogues import Dialogue, Turn
from dialeval.jobs.reporting import write_report
from dialeval.reports import write_comparison
from dialeval.reports.text import visible
from dialeval.scores import Score, Scores
from dialeval.studies import Study, StudySettings, compare, rereading, study

pytestmark = pytest.mark.browser


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


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.soak)])
def test_payload_as_title_and_note(browser: Any, tmp_path: Path, every: int) -> None:
    payloads = PAYLOADS[::every]
    assert any("</title>" in payload for payload in payloads)
    with Visit(browser) as visit:
        for number, payload in enumerate(payloads):
            path = tmp_path / f"{number}.html"
            study = Study(settings=StudySettings(where=payload), notes=(payload,))
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
def test_accessible_nothing_overflows_and_figures_are_legible(
    browser: Any, report: Path, width: int, scheme: str
) -> None:
    with Visit(browser, report, width, scheme) as visit:
        assert visit.events == []
        visit.page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true })")
        assert visit.serious() == []
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


def test_no_table_is_clipped_on_a_desk_and_no_number_wraps(browser: Any, tmp_path: Path) -> None:
    """Fifteen sources, long names, three systems: everything fits into 1280 px."""
    scores, path = ordinary(60, sources=15, systems=3), tmp_path / "report.html"
    write_report(study(scores, by="system", **QUICK), scores, talks(60, 3), path, illustrative=True)
    with Visit(browser, path) as visit:
        visit.page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true })")
        clipped = visit.page.eval_on_selector_all(
            ".scroll",
            "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.ariaLabel)",
        )
        assert clipped == []
        wrapped = visit.page.eval_on_selector_all(
            "td.number", "all => all.filter(one => getComputedStyle(one).whiteSpace != 'nowrap').length"
        )
        assert wrapped == 0
        folds = visit.page.eval_on_selector_all("section", "all => all.map(one => one.id)")
        assert folds.index("triage") < folds.index("record") < folds.index("correlations")


@pytest.mark.parametrize("start", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in range(8, 40, 8))])
def test_a_comparison_of_hostile_versions_is_text(browser: Any, tmp_path: Path, start: int) -> None:
    payloads, versions = PAYLOADS[start : start + 8], []
    for k in range(2):
        rows = [Score(t, n, None, "quality", "quality", float(-n * k)) for t in payloads for n in (1, 3)]
        chats = [
            Dialogue(t, tuple(Turn(t if n % 2 else "user", f"{t} {n} {k}") for n in range(4)))
            for t in payloads
        ]
        versions.append(rereading.ScoredVersion(payloads[k], Scores.of(rows), chats, {}))
    found = compare({one.name: one.scores for one in versions}, resamples=99)
    scale, turns = rereading.turns_to_read(versions)
    path = tmp_path / "comparison.html"
    write_comparison(replace(found, turns=turns, scale=scale, notes=tuple(payloads)), path)
    with Visit(browser, path) as visit:
        said, names = visit.texts(".said"), visit.texts("bdi")
        assert len(turns) == 10 and {visible(turn.text) for one in turns for turn in one.turns} <= said
        assert {visible(payload) for payload in payloads} <= names
        assert visit.events == []
        assert visit.serious() == []


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
