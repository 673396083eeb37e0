"""A study as a file: HTML, Markdown that GitHub, GitLab and Pandoc read, or LaTeX to paste into a paper."""

import re
from pathlib import Path

from dialeval import files
from dialeval.errors import UsageError
from dialeval.reports.contents import all_tables
from dialeval.reports.explanations import Why
from dialeval.reports.page import TITLE, to_html
from dialeval.reports.summary import ILLUSTRATIVE, as_text, sentences
from dialeval.reports.table import DASH, Table, TableCell, TableColumn
from dialeval.reports.text import escape_latex, escape_markdown, one_line
from dialeval.studies import Inspection, Study
from dialeval.studies.trust_findings import Trust

ENDINGS = (".html", ".md", ".tex")
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
    """Write a report: HTML, Markdown or LaTeX, by the ending of the name.

    Args:
        study: What was found.
        inspection: What a pass over its dialogues found (`dialeval.studies.inspect`).
        path: Ends in `.html`, `.md` or `.tex`.
        title: The heading.
        illustrative: Whether to mark all ratings as made up.
        why: Why dialogues got their scores (`dialeval.reports.explain`), for the HTML page.
        trust: How far the scores can be trusted (`dialeval.studies.trust`).

    Raises:
        UsageError: If the name has another ending.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".html":
        text = to_html(study, inspection, title=title, illustrative=illustrative, why=why, trust=trust)
    elif suffix in ENDINGS:
        write = to_markdown if suffix == ".md" else to_latex
        text = write(study, inspection, title=title, illustrative=illustrative, trust=trust)
    else:
        raise UsageError(f"cannot write a report to {str(path)!r}: the name must end in {', '.join(ENDINGS)}")
    files.write_text(path, text)


def to_markdown(
    study: Study,
    inspection: Inspection | None = None,
    *,
    title: str = TITLE,
    illustrative: bool = False,
    trust: Trust | None = None,
) -> str:
    r"""Write all tables of a study as Markdown.

    Args:
        study: What was found.
        title: The heading.
        illustrative: Say that the ratings only show what the tools do.
        inspection: What a pass over the dialogues found: which turns fail.
        trust: How far the scores can be trusted.

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
        said = [line for one in trust.sources for line in (one.verdict, *one.reasons)]
        parts.append("\n".join(f"- {escape_markdown(line)}" for line in said))
    parts += [markdown_table(table, illustrative) for table in all_tables(study, inspection, trust)]
    if study.notes:
        parts.append("## Notes\n\n" + "\n".join(f"- {escape_markdown(note)}" for note in study.notes))
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown_table(table: Table, illustrative: bool = False) -> str:
    """Write one table as Markdown under its title."""
    plain = table.plain()
    heads = [escape_markdown(column.head) or " " for column in plain.columns]
    rules = ["---:" if column.kind == "number" else ":---" for column in plain.columns]
    rows = [[_markdown_cell(cell) for cell in row] for row in plain.rows]
    lines = [f"| {' | '.join(row)} |" for row in (heads, rules, *rows)]
    title = escape_markdown(table.title) + (" (illustrative ratings)" if illustrative and table.rated else "")
    notes = "".join(f"\n\n{escape_markdown(note)}" for note in table.notes)
    return f"## {title}\n\n" + "\n".join(lines) + notes


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
    r"""Write all tables of a study as LaTeX with booktabs rules.

    Args:
        study: What was found.
        title: Named in a comment at the top.
        illustrative: Say in every caption that the ratings only show what the tools do.
        inspection: What a pass over the dialogues found: which turns fail.
        trust: How far the scores can be trusted.

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
    caption = _caption(table, illustrative)
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


def _caption(table: Table, illustrative: bool) -> str:
    words = [f"{table.title}.", *table.notes]
    if illustrative and table.rated:
        words.append("Ratings are illustrative.")
    return _symbols(escape_latex(" ".join(words)))


def _latex_cell(cell: TableCell, column: TableColumn) -> str:
    if column.kind == "number":
        text = _number(cell.text) + (f"$^{{{cell.mark}}}$" if cell.mark else "")
    else:
        text = _symbols(escape_latex(cell.text)) + (f"$^{{{cell.mark}}}$" if cell.mark else "")
    text = f"\\textbf{{{text}}}" if cell.strong else text
    return f"{text} {{\\scriptsize {_number(cell.small)}}}" if cell.small else text


def _number(text: str) -> str:
    """Escape, and give negative numbers a minus."""
    return _symbols(escape_latex(_NUMBER.sub(_MINUS, text)))


def _symbols(text: str) -> str:
    for character, command in _SYMBOLS.items():
        text = text.replace(character, command)
    return text
