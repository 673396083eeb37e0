"""A study as Markdown: pipe tables that GitHub, GitLab and Pandoc read."""

import re

from dialeval.reports.contents import ILLUSTRATIVE, all_tables
from dialeval.reports.summary import as_text, sentences
from dialeval.reports.table import Cell, Table
from dialeval.reports.text import escape_markdown
from dialeval.reports.triage import Triage
from dialeval.studies import Study

_INTERVAL = re.compile(r"\\\[([\d.,e+-]+, [\d.,e+-]+)\\\]")


def to_markdown(
    study: Study,
    *,
    title: str = "Dialogue evaluation report",
    illustrative: bool = False,
    triage: Triage | None = None,
) -> str:
    r"""Write all tables of a study as Markdown.

    Args:
        study: What was found.
        title: The heading.
        illustrative: Say that the ratings only show what the tools do.
        triage: Which turns fail.

    >>> text = to_markdown(Study({"level": "dialogue"}, None, 0, 0, notes=["a|b"]), title="*Mine*")
    >>> print(text.splitlines()[0], text.splitlines()[-1], sep="\n")
    # \*Mine\*
    - a\|b
    """
    parts = [f"# {escape_markdown(title)}"]
    if illustrative:
        parts.append(f"> **{ILLUSTRATIVE}**")
    parts.append("\n".join(f"- {escape_markdown(as_text(sentence))}" for sentence in sentences(study)))
    parts += [_table(table, illustrative) for table in all_tables(study, triage)]
    if study.notes:
        parts.append("## Notes\n\n" + "\n".join(f"- {escape_markdown(note)}" for note in study.notes))
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(table: Table, illustrative: bool) -> str:
    plain = table.plain()
    heads = [escape_markdown(column.head) or " " for column in plain.columns]
    rules = ["---:" if column.kind == "number" else ":---" for column in plain.columns]
    rows = [[_cell(cell) for cell in row] for row in plain.rows]
    lines = [f"| {' | '.join(row)} |" for row in (heads, rules, *rows)]
    title = escape_markdown(table.title) + (" (illustrative ratings)" if illustrative and table.rated else "")
    notes = "".join(f"\n\n{escape_markdown(note)}" for note in table.notes)
    return f"## {title}\n\n" + "\n".join(lines) + notes


def _cell(cell: Cell) -> str:
    text = escape_markdown(cell.text) + escape_markdown(cell.mark)
    text = f"**{text}**" if cell.strong and text.strip() else text
    small = _INTERVAL.sub(r"[\1]", escape_markdown(cell.small))
    return f"{text} {small}" if small else text
