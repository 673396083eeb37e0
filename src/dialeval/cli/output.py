"""How results are shown: tables and JSON on standard output, progress on standard error for people only."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dialeval import files


def say(message: str) -> None:
    """Tell a person something beside the data."""
    print(message, file=sys.stderr)


def print_json(value: Any) -> None:
    """Print a value as JSON that never holds NaN."""
    print(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False))


def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[object]], *, further: bool = False
) -> None:
    """Print a table: drawn on a terminal, tab-separated in a pipe, where a further one has its title."""
    if not files.is_terminal(sys.stdout):
        if further:
            print(f"\n# {title}")
        print("\t".join(header))
        for row in rows:
            print("\t".join(cell(item) for item in row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", header_style="bold")
    for number, name in enumerate(header):
        table.add_column(Text(name), justify="right" if rows and _is_number(rows[0][number]) else "left")
    for row in rows:
        table.add_row(*(Text(cell(item)) for item in row))
    Console().print(table)


def counted(count: int, noun: str) -> str:
    """Say how many.

    >>> counted(1, "turn"), counted(2, "turn")
    ('1 turn', '2 turns')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def cell(item: object) -> str:
    """Write one cell: numbers to three decimals, nothing as a dash, no line breaks."""
    if item is None:
        return "-"
    if isinstance(item, float):
        return f"{item:.3f}"
    return " ".join(str(item).split()) or "-"


def interval(estimate: dict[str, Any]) -> str:
    """Write an estimate with its interval, or why there is none.

    >>> interval({"value": 0.30571, "low": 0.14, "high": 0.4512, "reason": None})
    '.306 [.140, .451]'
    """
    if estimate["value"] is None:
        return f"- ({estimate['reason']})"
    if estimate["low"] is None:
        return short(estimate["value"])
    return f"{short(estimate['value'])} [{short(estimate['low'])}, {short(estimate['high'])}]"


def short(value: float) -> str:
    """Write a correlation the way papers do: three decimals, no leading zero."""
    text = f"{value:.3f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def _is_number(item: object) -> bool:
    return isinstance(item, int | float) or (isinstance(item, str) and item.lstrip("-.")[:1].isdigit())


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[int], None]]:
    """Show a counter with its speed on a terminal's standard error, and nothing elsewhere."""
    if not files.is_terminal(sys.stderr):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.completed:,.0f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda count: bar.advance(task, count)
