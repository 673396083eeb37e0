"""Tables that belong to no study, as one page: the same look as a report, in HTML and in Markdown."""

from collections.abc import Sequence

from dialeval.reports.documents import markdown_table
from dialeval.reports.page import render
from dialeval.reports.table import Table
from dialeval.reports.text import escape_markdown


def tables_html(title: str, sentences: Sequence[str], tables: Sequence[Table]) -> str:
    """Render tables as one HTML file without script or network."""
    return render("sheets.html.jinja", {"title": title, "sentences": sentences, "tables": tables})


def tables_markdown(title: str, sentences: Sequence[str], tables: Sequence[Table]) -> str:
    r"""Write tables as Markdown.

    >>> print(tables_markdown("A|B", ["One."], []))
    # A\|B
    <BLANKLINE>
    One.
    <BLANKLINE>
    """
    parts = [f"# {escape_markdown(title)}", *map(escape_markdown, sentences)]
    return "\n\n".join([*parts, *(markdown_table(table) for table in tables)]) + "\n"
