"""Small tables for notebooks and terminals, and a plot of estimates."""

from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup


def to_html(title: str, header: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """Return an HTML table in the notebook's own style; all text is escaped.

    >>> print(to_html("Means", ["system", "mean"], [["<bot>", "0.5"]]))
    <table><caption>Means</caption><thead><tr><th>system</th><th>mean</th></tr></thead><tbody><tr><td>&lt;bot&gt;</td><td>0.5</td></tr></tbody></table>
    """

    def cells(tag: str, items: Sequence[str]) -> Markup:
        return Markup("").join(Markup(f"<{tag}>{{}}</{tag}>").format(item) for item in items)  # noqa: S704

    body = Markup("").join(Markup("<tr>{}</tr>").format(cells("td", row)) for row in rows)
    table = Markup("<table><caption>{}</caption><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(
        title, cells("th", header), body
    )
    return str(table + (Markup("<p>{}</p>").format(note) if note else ""))


def to_text(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return aligned columns: names to the left, numbers to the right.

    >>> print(to_text(["system", "mean"], [["bot", "0.5"], ["other", "-12"]]))
    system  mean
    bot      0.5
    other    -12
    """
    lines = [list(header), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    right = [
        all(cell[:1] in "-\u2212\u2013+.0123456789<" for cell in column if cell)
        for column in zip(*lines[1:], strict=True)
    ] or [False] * len(widths)
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def plot(rows: Sequence[tuple[str, Any]], xlabel: str) -> Any:
    """Return a matplotlib figure of named estimates, the first on top; undefined ones are left out."""
    from matplotlib.figure import Figure

    defined = [(label, estimate) for label, estimate in rows if estimate.value is not None][::-1]
    figure = Figure(figsize=(6, 1 + 0.3 * len(defined)), layout="constrained")
    axes: Any = figure.add_subplot()
    for place, (_, estimate) in enumerate(defined):
        if estimate.low is not None:
            axes.plot([estimate.low, estimate.high], [place, place], color="C0", alpha=0.5, linewidth=3)
        axes.plot([estimate.value], [place], "o", color="C0")
    axes.set_yticks(range(len(defined)), [label for label, _ in defined], parse_math=False)
    axes.set_xlabel(xlabel, parse_math=False)
    axes.axvline(0, color="0.7", linewidth=1, zorder=0)
    return figure
