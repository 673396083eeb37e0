"""A small table for a notebook or a terminal: what `print(…)` and `_repr_html_` of results show."""

from collections.abc import Iterable, Sequence

from markupsafe import Markup


def to_html(title: str, header: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """Write an HTML table in the notebook's own style; every word is escaped.

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
    """Write columns that line up: names to the left, what looks like a number to the right.

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
