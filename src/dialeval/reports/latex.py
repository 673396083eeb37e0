"""A study as LaTeX: booktabs tables to paste into a paper."""

import re

from dialeval.reports.contents import ILLUSTRATIVE, all_tables
from dialeval.reports.table import DASH, Cell, Column, Table
from dialeval.reports.text import escape_latex, one_line
from dialeval.reports.triage import Triage
from dialeval.studies import Study

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


def to_latex(
    study: Study,
    *,
    title: str = "Dialogue evaluation report",
    illustrative: bool = False,
    triage: Triage | None = None,
) -> str:
    r"""Write all tables of a study as LaTeX with booktabs rules.

    Args:
        study: What was found.
        title: Named in a comment at the top.
        illustrative: Say in every caption that the ratings only show what the tools do.
        triage: Which turns fail.

    >>> text = to_latex(Study({"level": "dialogue"}, None, 0, 0, signatures={"a_b": "x.v1|k:50%"}))
    >>> print(*[line for line in text.splitlines() if "k:50" in line])
    \textbf{a\_b} & x.v1\textbar{}k:50\% \\
    """
    parts = [_HEAD + "% " + one_line(title).replace("%", " ")]
    if illustrative:
        parts[0] += f"\n% {ILLUSTRATIVE}"
    parts += [_table(table, illustrative) for table in all_tables(study, triage)]
    if study.notes:
        items = "\n".join(f"  \\item {_symbols(escape_latex(note))}" for note in study.notes)
        parts.append(f"\\begin{{itemize}}\n{items}\n\\end{{itemize}}")
    return "\n\n".join(parts) + "\n"


def _table(table: Table, illustrative: bool) -> str:
    plain = table.plain()
    spec = "".join("r" if column.kind == "number" else "l" for column in plain.columns)
    head = " & ".join(_symbols(escape_latex(column.head)) for column in plain.columns) + r" \\"
    rows = [
        " & ".join(_cell(cell, column) for cell, column in zip(row, plain.columns, strict=True)) + r" \\"
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


def _cell(cell: Cell, column: Column) -> str:
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
