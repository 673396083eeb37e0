"""Markdown and LaTeX: the same numbers, nothing of the data taken for markup."""

import re

import pytest
from markdown_it import MarkdownIt
from payloads import PAYLOADS
from report_cases import QUICK, hostile, ordinary

from dialeval.reports import to_latex, to_markdown
from dialeval.reports.text import escape_latex, escape_markdown, one_line
from dialeval.studies import Study, study

MARKUP = {"html_inline", "html_block", "link_open", "image", "code_inline", "em_open", "s_open"}
TABLES = re.compile(
    r"\\begin\{(?:tabular|longtable)\}\{([lr]+)\}(.*?)\\end\{(?:tabular|longtable)\}", re.DOTALL
)


@pytest.fixture(scope="module")
def found() -> Study:
    return study(ordinary(40), by="system", **QUICK)


@pytest.fixture(scope="module")
def attacked() -> Study:
    return hostile(PAYLOADS[:8] + PAYLOADS[27:])[0]


def parse(text: str) -> list:  # type: ignore[type-arg]
    return MarkdownIt("commonmark").enable("table").enable("strikethrough").parse(text)


def test_markdown_has_the_numbers(found: Study) -> None:
    text = to_markdown(found, title="Mine")
    best = found.correlations[0]
    assert text.startswith("# Mine\n")
    row = next(line for line in text.splitlines() if f"**{best.label}**" in line)
    for method in ("pearson", "spearman", "kendall"):
        one = best.of(method)
        assert f"{one.value:.3f}" in row
        assert f"[{one.low:.3f}, {one.high:.3f}]" in row
    assert f"| {best.n} | {best.n_unscored} |" in row


@pytest.mark.parametrize(
    "title",
    ["Differences", "between sources", "by system", "Means per system", "Agreement", "Units to look at"],
)
def test_both_have_every_table(found: Study, title: str) -> None:
    assert title in to_markdown(found)
    assert title in to_latex(found)


def test_every_markdown_table_is_one(found: Study) -> None:
    text = to_markdown(found)
    tokens = parse(text)
    tables = sum(token.type == "table_open" for token in tokens)
    assert tables == len(re.findall(r"^\| [:-]", text, re.MULTILINE)) > 8


@pytest.mark.parametrize("payload", PAYLOADS)
def test_markdown_shows_a_payload_as_text(payload: str) -> None:
    text = f"| a |\n| :--- |\n| {escape_markdown(payload)} |\n\n- {escape_markdown(payload)}\n"
    tokens = parse(text)
    kinds = {child.type for token in tokens for child in token.children or []} | {t.type for t in tokens}
    assert not kinds & (MARKUP | {"strong_open"})
    inline = [token for token in tokens if token.type == "inline"][1:]
    shown = ["".join(child.content for child in token.children or []) for token in inline]
    expected = one_line(payload)
    assert [" ".join(one.split()) for one in shown] == [" ".join(expected.split())] * 2


def test_hostile_study_as_markdown_keeps_its_tables(attacked: Study) -> None:
    tokens = parse(to_markdown(attacked, title=PAYLOADS[0]))
    kinds = {child.type for token in tokens for child in token.children or []} | {t.type for t in tokens}
    assert not kinds & MARKUP
    cells = {
        "".join(child.content for child in token.children or []) for token in tokens if token.type == "inline"
    }
    assert "<script>alert(1)</script>" in cells


@pytest.mark.parametrize("payload", PAYLOADS)
def test_latex_specials_are_escaped(payload: str) -> None:
    escaped = escape_latex(payload)
    known = re.compile(r"\\(text[a-z]+\{\}|[{}$&#%_])")
    rest = known.sub("", escaped)
    rest = re.sub(r"\{[-\[\]*]\}", "", rest)
    assert not re.search(r'[\\{}$&#%_^~<>|"\'`]', rest), rest
    assert "\n" not in escaped and "\r" not in escaped


def test_hostile_study_as_latex_balances(attacked: Study) -> None:
    text = to_latex(attacked, title="a\n\\input{x}")
    bare = re.sub(r"\\[{}\\]", "", text)
    assert bare.count("{") == bare.count("}")
    assert r"\input" not in "".join(line for line in text.splitlines() if not line.startswith("%"))
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}")
    for line in text.splitlines():
        assert not line.startswith("%") or "\\input" not in line or line.startswith("% a")


def test_latex_rows_have_as_many_cells_as_columns(found: Study, attacked: Study) -> None:
    for one in (found, attacked):
        for spec, body in TABLES.findall(to_latex(one)):
            rows = [line for line in body.splitlines() if line.endswith(r"\\") and "caption" not in line]
            assert rows
            for row in rows:
                assert len(re.findall(r"(?<!\\)&", row)) == len(spec) - 1, row


def test_booktabs_and_long_tables(found: Study) -> None:
    text = to_latex(found)
    assert text.count(r"\toprule") >= text.count(r"\bottomrule") > 8
    many = study(ordinary(30, sources=11), **QUICK)
    assert r"\begin{longtable}" in to_latex(many)


def test_negative_numbers_get_a_minus() -> None:
    scores = ordinary(30, sources=6, seed=3)
    text = to_latex(study(scores, **QUICK))
    assert "$-$0." in text
    assert not re.search(r"& -\d", text)


def test_illustrative_is_said(found: Study) -> None:
    for write in (to_markdown, to_latex):
        assert "illustrative" in write(found, illustrative=True)
        assert "illustrative" not in write(found)
    assert to_latex(found, illustrative=True).count("Ratings are illustrative.") > 5
