"""Triage on the page and in tables: complete, escaped, small."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from outlines import Outline, check_outline
from payloads import PAYLOADS
from report_cases import QUICK, chat, ordinary, quality, rendered, talks

from dialeval.dialogues import Dialogue, Turn
from dialeval.jobs.reporting import write_report
from dialeval.metrics.rules import Rules
from dialeval.reports import to_latex, to_markdown
from dialeval.reports.contents import all_tables
from dialeval.reports.pictures import triage_picture
from dialeval.scores import Score, Scores
from dialeval.studies import Inspection, study
from dialeval.studies.triage import MOST, triage


def looked_at(scores: Scores, talked: Iterable[Dialogue]) -> Inspection:
    return Inspection(triage=triage(scores, talked, find_faults=Rules().score))


def test_the_figure_says_in_words_what_it_shows_and_is_the_same_every_time() -> None:
    result = triage(quality({("a", 1): 0.25, ("b", 1): 0.75, ("a", 3): 1.0, ("b", 3): None}), [])
    assert result is not None
    drawn, again = triage_picture(result), triage_picture(result)
    assert drawn is not None and drawn == again
    picture = ET.fromstring(drawn.svg)
    assert picture.attrib["role"] == "img"
    assert picture.attrib["aria-label"].endswith(
        "mine / quality for each reply of a dialogue. 1: 0.50, 2: 1.00"
    )
    assert {"reply of the dialogue", "mean score", "1", "2"} <= {text.text for text in picture.iter("text")}
    assert "n = 2, 1; unscored 1." in drawn.caption


@pytest.mark.parametrize("suffix", [".md", ".tex"])
def test_written_reports_hold_the_tables(suffix: str, tmp_path: Path) -> None:
    scores = ordinary(20)
    write_report(study(scores, **QUICK), scores, talks(20), tmp_path / f"tables{suffix}")
    text = (tmp_path / f"tables{suffix}").read_text(encoding="utf-8")
    for words in ("Recurring failures", "The worst turns by metric", "over the replies of a dialogue"):
        assert words in text


@pytest.mark.parametrize("payload", PAYLOADS)
def test_text_from_logs_is_no_markup_in_tables(payload: str) -> None:
    talked = chat("d", f"{payload}?", payload, payload, payload)
    scores = quality({("d", 1): 0.0, ("d", 3): 1.0})
    made, result = (
        study(scores, **QUICK),
        Inspection(triage=triage(scores, [talked], find_faults=Rules().score)),
    )
    tokens = MarkdownIt("commonmark").enable("table").parse(to_markdown(made, result))
    kinds = {child.type for token in tokens for child in token.children or []} | {t.type for t in tokens}
    assert not kinds & {"html_inline", "html_block", "link_open", "image", "code_inline", "em_open"}
    bare = re.sub(r"\\[{}\\]", "", to_latex(made, result))
    assert bare.count("{") == bare.count("}")
    assert "\\input" not in bare


def page_of(scores: Scores, talked: Sequence[Dialogue]) -> str:
    return rendered(study(scores, **QUICK), scores, talked)


def test_the_page_has_the_section_only_if_turns_were_scored() -> None:
    scores = ordinary(20)
    page = page_of(scores, list(talks(20)))
    assert 'id="triage"' in page and 'href="#triage"' in page
    assert 'class="t-failures"' in page and 'class="t-over-turns"' in page
    assert page.count('aria-labelledby="bad-') == MOST
    assert "at most two of one dialogue" in page and "<b>said next</b>" in page
    assert all(name.replace("-", " ") in page for name in Rules.dimensions)
    check_outline(page)
    without = page_of(scores.where(level="dialogue"), list(talks(20)))
    assert "triage" not in without and Outline(without).open == []


def test_the_page_without_text_shows_the_score_over_the_dialogue() -> None:
    scores = ordinary(20)
    page = page_of(scores, [])
    assert 'id="triage"' in page and "The score over a dialogue" in page
    assert 'class="t-failures"' not in page and "The worst turns" not in page


@pytest.mark.parametrize("start", range(0, 40, 8))
def test_hostile_text_stays_text(start: int) -> None:
    payloads = PAYLOADS[start : start + 8]
    talked = [
        Dialogue(text, tuple(Turn(text if n % 2 else "user", f"{text} {n}") for n in range(4)), text)
        for text in payloads
    ]
    source = payloads[0]
    rows = [Score(one.id, n, one.system, source, source, float(n)) for one in talked for n in (1, 3)]
    page = page_of(Scores.of(rows), talked)
    check_outline(page)
    assert page.count('aria-labelledby="bad-') == 16


def test_the_section_stays_small_however_long_the_turns() -> None:
    names = [f"d{n}" for n in range(40)]
    talked = [chat(name, *["<&'\"> " * 20_000] * 6) for name in names]
    scores = quality({(name, turn): float(turn) for name in names for turn in (1, 3, 5)})
    page = page_of(scores, talked)
    section = page[page.index('<section id="triage"') : page.index('<section id="dialogues"')]
    assert len(section) < 400_000
    assert "more characters are not shown" in section


def test_tables_for_markdown_and_latex() -> None:
    scores = ordinary(20)
    made = study(scores, **QUICK)
    names = [table.name for table in all_tables(made, looked_at(scores, talks(20)))]
    of_triage = ["faults", "failures", "worst-turns", "over-turns"]
    assert [name for name in names if name in of_triage] == of_triage
    assert len(all_tables(made)) == len(names) - 4
    for table in all_tables(made, looked_at(scores, talks(20))):
        assert all(len(row) == len(table.columns) for row in table.rows)
