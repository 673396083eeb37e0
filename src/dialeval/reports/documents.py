"""Documents: a study as HTML, as Markdown for GitHub, GitLab and Pandoc, or as LaTeX; tables as pages."""

import re
from collections.abc import Sequence
from pathlib import Path

from dialeval import files
from dialeval.reports.contents import all_tables
from dialeval.reports.explanations import Why
from dialeval.reports.page import TITLE, render, to_html
from dialeval.reports.summary import ILLUSTRATIVE, as_text, sentences
from dialeval.reports.table import DASH, Table, TableCell, TableColumn
from dialeval.reports.text import escape_latex, escape_markdown, one_line
from dialeval.studies import Inspection, Study
from dialeval.studies.trust_findings import Trust

_FIGURES = (".pdf", ".svg", ".png")
ENDINGS = (".html", ".md", ".tex", *_FIGURES)
_INTERVAL = re.compile(r"\\\[([\d.,e+-]+, [\d.,e+-]+)\\\]")
_LONG = 40
_NUMBER = re.compile(r"-(?=[\d.])")
_MINUS = "\N{MINUS SIGN}"
_SYMBOLS = {DASH: "--", _MINUS: "$-$", "≥": r"$\geq$", "≤": r"$\leq$", "°": r"$^\circ$", "…": r"\dots{}"}
_SYMBOLS |= {
    "\N{GREEK SMALL LETTER RHO}": r"$\rho$",
    "\N{GREEK SMALL LETTER TAU}": r"$\tau$",
    "\N{GREEK SMALL LETTER ALPHA}": r"$\alpha$",
    "\N{GREEK SMALL LETTER KAPPA}": r"$\kappa$",
}
_HEAD = """% Tables of a dialeval study.
% Needs \\usepackage{booktabs}, \\usepackage{longtable} and \\usepackage{textcomp}.
% Compile with LuaLaTeX or XeLaTeX if names contain characters beyond Latin ones.
"""


def write_report(
    study: Study,
    inspection: Inspection | None,
    path: str | Path,
    *,
    title: str = TITLE,
    illustrative: bool = False,
    why: Why | None = None,
    trust: Trust | None = None,
) -> None:
    """Write a report as HTML, Markdown or LaTeX, or its figure, by the ending of the file name.

    Args:
        inspection: The inspection of its dialogues (`dialeval.studies.inspect`).
        path: Ends in `.html`, `.md` or `.tex`; in `.pdf`, `.svg` or `.png` it gets the correlations with
            their intervals (`study.plot()`).
        illustrative: Whether to mark all ratings as invented examples.
        why: Explanations of scores (`dialeval.reports.explain`), for the HTML page.
        trust: How far the scores can be trusted (`dialeval.studies.trust`).

    Raises:
        UsageError: If the name has another ending.
    """
    files.check_endings([Path(path)], ENDINGS, "a report")
    suffix = Path(path).suffix.lower()
    if suffix in _FIGURES:
        with files.replacing(path) as file:
            study.plot().savefig(file, format=suffix[1:], dpi=300, bbox_inches="tight")
        return
    if suffix == ".html":
        text = to_html(study, inspection, title=title, illustrative=illustrative, why=why, trust=trust)
    else:
        write = to_markdown if suffix == ".md" else to_latex
        text = write(study, inspection, title=title, illustrative=illustrative, trust=trust)
    files.write_text(path, text)


def to_markdown(
    study: Study,
    inspection: Inspection | None = None,
    *,
    title: str = TITLE,
    illustrative: bool = False,
    trust: Trust | None = None,
) -> str:
    r"""Return all tables of a study as Markdown; the arguments are those of `write_report`.

    >>> text = to_markdown(Study(notes=("a|b",)), title="*Mine*")
    >>> print(text.splitlines()[0], text.splitlines()[-1], sep="\n")
    # \*Mine\*
    - a\|b
    """
    parts = [f"# {escape_markdown(title)}"]
    if illustrative:
        parts.append(f"> **{ILLUSTRATIVE}**")
    parts.append("\n".join(f"- {escape_markdown(as_text(sentence))}" for sentence in sentences(study)))
    if trust is not None:
        lines = [line for source in trust.sources for line in (source.verdict, *source.reasons)]
        parts.append("\n".join(f"- {escape_markdown(line)}" for line in lines))
    parts += [markdown_table(table, illustrative) for table in all_tables(study, inspection, trust)]
    if study.notes:
        parts.append("## Notes\n\n" + "\n".join(f"- {escape_markdown(note)}" for note in study.notes))
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown_table(table: Table, illustrative: bool = False) -> str:
    """Return one table as Markdown under its title."""
    plain = table.plain()
    heads = [escape_markdown(column.head) or " " for column in plain.columns]
    rules = ["---:" if column.kind == "number" else ":---" for column in plain.columns]
    rows = [[_markdown_cell(cell) for cell in row] for row in plain.rows]
    lines = [f"| {' | '.join(row)} |" for row in (heads, rules, *rows)]
    title = escape_markdown(table.title) + (" (illustrative ratings)" if illustrative and table.rated else "")
    notes = "".join(f"\n\n{escape_markdown(note)}" for note in table.notes)
    return f"## {title}\n\n" + "\n".join(lines) + notes


def tables_markdown(title: str, sentences: Sequence[str], tables: Sequence[Table]) -> str:
    r"""Return tables of no study as one Markdown document.

    >>> print(tables_markdown("A|B", ["One."], []))
    # A\|B
    <BLANKLINE>
    One.
    <BLANKLINE>
    """
    parts = [f"# {escape_markdown(title)}", *map(escape_markdown, sentences)]
    return "\n\n".join([*parts, *map(markdown_table, tables)]) + "\n"


def tables_html(title: str, sentences: Sequence[str], tables: Sequence[Table]) -> str:
    """Return tables of no study as one HTML page without script or network."""
    return render("sheets.html.jinja", {"title": title, "sentences": sentences, "tables": tables})


def _markdown_cell(cell: TableCell) -> str:
    text = escape_markdown(cell.text) + escape_markdown(cell.mark)
    text = f"**{text}**" if cell.strong and text.strip() else text
    small = _INTERVAL.sub(r"[\1]", escape_markdown(cell.small))
    return f"{text} {small}" if small else text


def to_latex(
    study: Study,
    inspection: Inspection | None = None,
    *,
    title: str = TITLE,
    illustrative: bool = False,
    trust: Trust | None = None,
) -> str:
    r"""Return all tables of a study as LaTeX with booktabs rules; the arguments are those of `write_report`.

    >>> text = to_latex(Study(signatures={"a_b": "x.v1|k:50%"}))
    >>> print(*[line for line in text.splitlines() if "k:50" in line])
    \textbf{a\_b} & x.v1\textbar{}k:50\% \\
    """
    parts = [_HEAD + "% " + one_line(title).replace("%", " ")]
    if illustrative:
        parts[0] += f"\n% {ILLUSTRATIVE}"
    parts += [_latex_table(table, illustrative) for table in all_tables(study, inspection, trust)]
    if study.notes:
        items = "\n".join(f"  \\item {_symbols(escape_latex(note))}" for note in study.notes)
        parts.append(f"\\begin{{itemize}}\n{items}\n\\end{{itemize}}")
    return "\n\n".join(parts) + "\n"


def _latex_table(table: Table, illustrative: bool) -> str:
    plain = table.plain()
    spec = "".join("r" if column.kind == "number" else "l" for column in plain.columns)
    head = " & ".join(_symbols(escape_latex(column.head)) for column in plain.columns) + r" \\"
    rows = [
        " & ".join(_latex_cell(cell, column) for cell, column in zip(row, plain.columns, strict=True))
        + r" \\"
        for row in plain.rows
    ]
    note = ["Ratings are illustrative."] if illustrative and table.rated else []
    caption = _symbols(escape_latex(" ".join([f"{table.title}.", *table.notes, *note])))
    label = f"\\label{{tab:{table.name}}}"
    if len(rows) > _LONG:
        return "\n".join(
            [
                f"\\begin{{longtable}}{{{spec}}}",
                f"\\caption{{{caption}}}{label} \\\\",
                *("\\toprule", head, "\\midrule", "\\endfirsthead", "\\toprule", head, "\\midrule"),
                *("\\endhead", *rows, "\\bottomrule", "\\end{longtable}"),
            ]
        )
    return "\n".join(
        [
            *("\\begin{table}[t]", "\\centering", "\\small", f"\\caption{{{caption}}}", label),
            *(f"\\begin{{tabular}}{{{spec}}}", "\\toprule", head, "\\midrule", *rows),
            *("\\bottomrule", "\\end{tabular}", "\\end{table}"),
        ]
    )


def _latex_cell(cell: TableCell, column: TableColumn) -> str:
    text = _number(cell.text) if column.kind == "number" else _symbols(escape_latex(cell.text))
    text += f"$^{{{cell.mark}}}$" if cell.mark else ""
    text = f"\\textbf{{{text}}}" if cell.strong else text
    return f"{text} {{\\scriptsize {_number(cell.small)}}}" if cell.small else text


def _number(text: str) -> str:
    """Escape a number, with a minus sign if it is negative."""
    return _symbols(escape_latex(_NUMBER.sub(_MINUS, text)))


def _symbols(text: str) -> str:
    for character, command in _SYMBOLS.items():
        text = text.replace(character, command)
    return text
