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
def progress(what: str, total: int | None = None, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Show a counter on a terminal's standard error, with the time left if a total is known, else nothing."""
    if quiet or not files.is_terminal(sys.stderr):
        yield lambda _: None
        return
    from rich import progress as rich
    from rich.console import Console

    columns: list[rich.ProgressColumn] = [
        rich.SpinnerColumn(),
        rich.TextColumn("{task.description}"),
        rich.TextColumn("{task.completed:,.0f}"),
    ]
    if total is not None:
        left = rich.TimeRemainingColumn(), rich.TextColumn("left, after")
        columns += [rich.TextColumn("of {task.total:,.0f}"), rich.BarColumn(), *left]
    columns.append(rich.TimeElapsedColumn())
    console = Console(stderr=True)
    with rich.Progress(*columns, console=console, transient=True, speed_estimate_period=3600) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)
