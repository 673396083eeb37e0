"""A comparison of versions as a file: an HTML page, Markdown for a pull request, or JSON."""

from pathlib import Path

from dialeval import files
from dialeval.reports.documents import tables_markdown
from dialeval.reports.page import render
from dialeval.reports.table import (
    Palette,
    Table,
    TableCell,
    estimate_cell,
    figure,
    named,
    number,
    p_cell,
    tabulate,
)
from dialeval.studies import Comparison
from dialeval.studies.comparison import ComparedColumn

ENDINGS = (".html", ".md", ".json")
_TONES = {"better": 3, "worse": -3, "not told apart": 0, "more": None, "less": None}


def write_comparison(comparison: Comparison, path: str | Path) -> None:
    """Write a comparison as HTML, Markdown or JSON, by the ending of the file name.

    Raises:
        UsageError: If the name has another ending.
    """
    files.check_endings([Path(path)], ENDINGS, "a comparison")
    suffix = Path(path).suffix.lower()
    if suffix == ".json":
        comparison.save(path)
    else:
        files.write_text(path, (to_html if suffix == ".html" else to_markdown)(comparison))


def to_html(comparison: Comparison) -> str:
    """Return the HTML page: verdicts, differences, and the turns to read."""
    context = {
        "title": _title(comparison),
        "comparison": comparison,
        "tables": compared_tables(comparison),
        "gaps": unscored_table(comparison),
        "score": None if comparison.scale is None else Palette(comparison.scale),
    }
    return render("comparison.html.jinja", context)


def to_markdown(comparison: Comparison) -> str:
    """Return the tables as Markdown."""
    tables = [*compared_tables(comparison), unscored_table(comparison)]
    return tables_markdown(_title(comparison), [comparison.summary], [t for t in tables if t])


def _title(comparison: Comparison) -> str:
    first, *newer = (version.name for version in comparison.versions)
    return f"{', '.join(newer)} against {first}"


def compared_tables(comparison: Comparison) -> list[Table]:
    """Return a table for each new version: the default metric first, then all other columns."""
    tables = []
    for version in comparison.versions[1:]:
        rows = [column for column in comparison.shown() if column.version == version.name]
        absent = f" In no version: {', '.join(comparison.not_found)}." if comparison.not_found else ""
        title = f"{version.name} against {comparison.versions[0].name}"
        paired = f"Partners found: {version.partners}. " if version.partners else ""
        table = tabulate(
            "compared",
            title,
            rows,
            named("Score", lambda column: TableCell(column.short, small=_direction(column)), strong=True),
            named("Verdict", lambda column: TableCell(column.verdict, tone=_TONES[column.verdict])),
            number("Difference", lambda column: estimate_cell(column.difference, figure)),
            number("p (Holm)", lambda column: p_cell(column.p_holm, column.difference.reason)),
            number("Old", lambda column: estimate_cell(column.old, figure)),
            number("New", lambda column: estimate_cell(column.new, figure)),
            number("Dialogues for half of it", lambda column: column.dialogues_for_half),
            notes=(f"{paired}{comparison.legend}{absent}",),
        )
        tables += [table] if table else []
    return tables


def _direction(column: ComparedColumn) -> str:
    ways = {"lower": "lower is better", "neither": "neither way is better", "higher": ""}
    items = "paired" if column.paired else "unpaired"
    n = f"{column.new.n:,}" if column.new.n == column.old.n else f"{column.old.n:,} and {column.new.n:,}"
    return "\n".join(filter(None, (ways[column.better], f"n {n}, {items}")))


def unscored_table(comparison: Comparison) -> Table | None:
    """Return the table of shares of unscored rows, if there are any."""
    return tabulate(
        "unscored",
        "Left out of the means: unscored rows in a hundred",
        comparison.unscored,
        named("Score", lambda column: column.short, strong=True),
        named("Version", "version"),
        named("Verdict", lambda column: TableCell("more" if column.verdict == "worse" else column.verdict)),
        number("Old", lambda column: f"{100 * (column.old.value or 0):.1f}"),
        number("New", lambda column: f"{100 * (column.new.value or 0):.1f}"),
        number("p (Holm)", lambda column: p_cell(column.p_holm, column.difference.reason)),
    )
