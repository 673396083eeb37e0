"""A comparison of versions as a file: one HTML page to read, Markdown for a pull request, or its JSON."""

from collections.abc import Iterable
from pathlib import Path

from dialeval import files
from dialeval.errors import UsageError
from dialeval.reports.documents import markdown_table
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
from dialeval.reports.text import escape_markdown
from dialeval.studies import Comparison
from dialeval.studies.comparison import ComparedColumn

ENDINGS = (".html", ".md", ".json")
_TONES = {"better": 3, "worse": -3, "not told apart": 0, "more": None, "less": None}


def write_comparison(comparison: Comparison, path: str | Path, *, title: str | None = None) -> None:
    """Write a comparison: HTML, Markdown or JSON, by the ending of the name.

    Raises:
        UsageError: If the name has another ending.
    """
    refuse_endings([Path(path)])
    suffix = Path(path).suffix.lower()
    if suffix == ".json":
        comparison.save(path)
    else:
        files.write_text(path, (to_html if suffix == ".html" else to_markdown)(comparison, title=title))


def refuse_endings(paths: Iterable[Path]) -> None:
    """Refuse a name that says no format, before any work is done."""
    for path in paths:
        if path.suffix.lower() not in ENDINGS:
            known = ", ".join(ENDINGS)
            raise UsageError(f"cannot write a comparison to {path}: the name must end in {known}")


def to_html(comparison: Comparison, *, title: str | None = None) -> str:
    """Draw the page: what is better, by how much, and the turns to read."""
    context = {
        "title": title or _title(comparison),
        "comparison": comparison,
        "tables": compared_tables(comparison),
        "gaps": unscored_table(comparison),
        "score": None if comparison.scale is None else Palette(comparison.scale),
    }
    return render("comparison.html.jinja", context)


def to_markdown(comparison: Comparison, *, title: str | None = None) -> str:
    """Write the tables as Markdown."""
    tables = [*compared_tables(comparison), unscored_table(comparison)]
    parts = [f"# {escape_markdown(title or _title(comparison))}", escape_markdown(comparison.summary)]
    return "\n\n".join([*parts, *(markdown_table(table) for table in tables if table)]) + "\n"


def _title(comparison: Comparison) -> str:
    first, *others = (version.name for version in comparison.versions)
    return f"{', '.join(others)} against {first}"


def compared_tables(comparison: Comparison) -> list[Table]:
    """Make a table for each new version: the default metric first, then everything else."""
    made = []
    for version in comparison.versions[1:]:
        rows = [one for one in comparison.shown() if one.version == version.name]
        silent = f" On neither side: {', '.join(comparison.not_found)}." if comparison.not_found else ""
        title = f"{version.name} against {comparison.versions[0].name}"
        paired = f"Partners found: {version.partners}. " if version.partners else ""
        table = tabulate(
            "compared",
            title,
            rows,
            named("Score", lambda one: TableCell(one.short, small=_direction(one)), strong=True),
            named("Verdict", lambda one: TableCell(one.verdict, tone=_TONES[one.verdict])),
            number("Difference", lambda one: estimate_cell(one.difference, figure)),
            number("p (Holm)", lambda one: p_cell(one.p_holm, one.difference.reason)),
            number("Old", lambda one: estimate_cell(one.old, figure)),
            number("New", lambda one: estimate_cell(one.new, figure)),
            number("Dialogues to see half", lambda one: one.dialogues_for_half),
            notes=(
                f"{paired}Items are {comparison.level}s. Difference: new minus old, with a 95 % interval. p: "
                "corrected for the number of scores (Holm), overall figures by themselves. Dialogues to see "
                f"half: of each version, that would show half of this difference with a power of .8.{silent}",
            ),
        )
        made += [table] if table else []
    return made


def _direction(one: ComparedColumn) -> str:
    ways = {"lower": "lower is better", "neither": "neither way is better", "higher": ""}
    items = "paired" if one.paired else "unpaired"
    n = f"{one.new.n:,}" if one.new.n == one.old.n else f"{one.old.n:,} and {one.new.n:,}"
    return "\n".join(filter(None, (ways[one.better], f"n {n}, {items}")))


def unscored_table(comparison: Comparison) -> Table | None:
    """Make a table of the scores that say nothing of some items, if there are any."""
    return tabulate(
        "unscored",
        "Left out of the means: unscored rows in a hundred",
        comparison.unscored,
        named("Score", lambda one: one.short, strong=True),
        named("Version", "version"),
        named("Verdict", lambda one: TableCell("more" if one.verdict == "worse" else one.verdict)),
        number("Old", lambda one: f"{100 * (one.old.value or 0):.1f}"),
        number("New", lambda one: f"{100 * (one.new.value or 0):.1f}"),
        number("p (Holm)", lambda one: p_cell(one.p_holm, one.difference.reason)),
    )
