"""The section "Why this score" in Chromium: legible, accessible, inside the screen, and text stays text."""

from pathlib import Path
from typing import Any

import pytest
from browsing import SCREENS, Visit
from explaining_metric import explanation
from payloads import PAYLOADS
from report_cases import QUICK, ordinary

from dialeval.jobs.demo import example_dialogues
from dialeval.jobs.reporting import write_report
from dialeval.metrics.explanation import ExplainedTurn, Explanation, Piece, Side
from dialeval.reports.text import visible
from dialeval.studies import study

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scores = ordinary(20)
    path = tmp_path_factory.mktemp("why") / "report.html"
    found = [explanation(said) for said in example_dialogues()]
    label = Side("x", (ExplainedTurn("a" * 60, (Piece("b" * 500, "c" * 90), Piece("d", "e")), 0),))
    found.append(
        Explanation("long", "words", 1.0, {"f" * 90: 1.0}, label, label, ((0, 0), (1, 1)), "g" * 300)
    )
    write_report(study(scores, **QUICK), scores, (), path, explanations=found)
    return path


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_accessible_and_inside_the_screen(browser: Any, explained: Path, width: int, scheme: str) -> None:
    with Visit(browser, explained, width, scheme) as visit:
        visit.page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true })")
        assert visit.events == []
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.serious("#why") == []


def test_aligned_pieces_begin_on_one_line(browser: Any, explained: Path) -> None:
    with Visit(browser, explained) as visit:
        tops = visit.page.eval_on_selector_all(
            ".sides tr",
            """all => all.map(row => [...row.querySelectorAll('.chip')])
                .map(chips => chips.map(one => one.getBoundingClientRect().top))
                .filter(tops => tops.length == 2 && tops[0] > 0)""",
        )
        assert len(tops) > 5
        assert all(abs(left - right) < 1 for left, right in tops)


def test_hostile_text_stays_text(browser: Any, tmp_path: Path) -> None:
    scores = ordinary(4)
    found = []
    for number, text in enumerate(PAYLOADS):
        side = Side(text, (ExplainedTurn(text, (Piece(text, text),), 0),))
        found.append(Explanation(text, f"s{number % 6}", 0.5, {text: 0.5}, side, side, ((0, 0),), text, text))
    path = tmp_path / "hostile.html"
    write_report(study(scores, **QUICK), scores, (), path, explanations=found[:36])
    with Visit(browser, path) as visit:
        shown = visit.texts(".chip bdi")
        assert {visible(text) for text in PAYLOADS[:36]} <= shown
        visit.page.mouse.move(400, 400)
        assert visit.events == []
