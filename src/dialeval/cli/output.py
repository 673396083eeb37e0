"""How results are shown: tables and JSON on standard output, progress on standard error for people only."""

import contextlib
import dataclasses
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dialeval import files

if TYPE_CHECKING:
    from dialeval.statistics import Estimate

_HIDDEN = (
    "\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069"  # escapes of eight bits, and what turns a line round
)
_OBEYED = re.compile(f"[{_HIDDEN}]")
_BREAK = re.compile(r"[\t\n\r\x0b\x0c\x85\u2028\u2029]+")


def plain(text: object) -> str:
    r"""Write a text on one line, in characters that a terminal shows and does not obey.

    >>> plain("bot\x1b[2J\nwritten: run")
    'bot␛[2J written: run'
    """
    from dialeval.dialogues.visibility import visible

    return _OBEYED.sub("\ufffd", visible(_BREAK.sub(" ", str(text))))


def say(*messages: object) -> None:
    """Print messages on standard error, a line each."""
    for message in messages:
        print(plain(message), file=sys.stderr)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines for people on standard output."""
    for line in lines:
        print(plain(line))


def print_json(value: Any) -> None:
    """Print a value as JSON that never holds NaN."""
    print_json_text(files.json_text(value))


def print_json_text(text: str) -> None:
    """Print JSON with escapes in place of the control characters that JSON lets through."""
    print(_OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", text).rstrip("\n"))


def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[object]], *, further: bool = False
) -> None:
    """Print a table: drawn on a terminal, tab-separated in a pipe, where a further one has its title."""
    if not files.is_terminal(sys.stdout):
        if further:
            print(f"\n# {plain(title)}")
        print("\t".join(map(plain, header)))
        for row in rows:
            print("\t".join(cell(item) for item in row))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(plain(title)), title_justify="left", header_style="bold", box=box.SIMPLE_HEAD)
    table.padding, table.pad_edge = (0, 1, 0, 0), False
    console, texts = Console(), [list(map(plain, header)), *(list(map(cell, row)) for row in rows)]
    widths = fitting_widths(list(zip(*texts, strict=True)), console.width - 2 * len(header) - 1)
    for number, (name, width) in enumerate(zip(texts[0], widths, strict=True)):
        table.add_column(
            Text(name),
            justify="right" if rows and _is_number(rows[0][number]) else "left",
            overflow="fold",  # the end of a name tells versions apart
            width=width,
        )
    for row in texts[1:]:
        table.add_row(*map(Text, row))
    console.print(table)


def fitting_widths(columns: Sequence[Sequence[str]], available: int) -> list[int]:
    """Return column widths that break no word if that can be, and else only the longest words.

    >>> columns = [["score", "rules/asks-again"], ["verdict", "not told apart"], ["difference", "0.2"]]
    >>> [fitting_widths(columns, available) for available in (50, 36, 33, 30)]
    [[16, 14, 10], [16, 10, 10], [16, 7, 10], [13, 7, 10]]
    """
    words = [max((len(word) for text in column for word in text.split()), default=0) for column in columns]
    texts = [max(map(len, column)) for column in columns]
    room = [
        [max(word, min(text, limit)) for word, text in zip(words, texts, strict=True)]
        for limit in range(min(max(texts), available), 0, -1)
    ]
    tight = [[min(word, limit) for word in words] for limit in range(min(max(words), available), 1, -1)]
    return next((widths for widths in (*room, *tight) if sum(widths) <= available), [1] * len(words))


def print_records(title: str, records: "dict[str, Any] | list[dict[str, Any]]", json: bool) -> None:
    """Print a record, or several with the same fields: as JSON, or as a table with a row for each."""
    rows = [records] if isinstance(records, dict) else records
    if json:
        print_json(records)
    elif rows:
        print_table(title, list(rows[0]), [list(row.values()) for row in rows])


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one.

    >>> counted(1, "turn"), counted(2, "turn")
    ('1 turn', '2 turns')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def cell(item: object) -> str:
    """Write one cell: numbers to three decimals, nothing as a dash, no line breaks or control characters."""
    if item is None:
        return "-"
    if isinstance(item, float):
        return f"{item:.3f}"
    return plain(" ".join(str(item).split())) or "-"


def interval(estimate: "Estimate | Mapping[str, Any]") -> str:
    """Write an estimate with its interval, or why there is none.

    >>> interval({"value": 0.30571, "low": 0.14, "high": 0.4512, "reason": None})
    '.306 [.140, .451]'
    """
    fields = estimate if isinstance(estimate, Mapping) else dataclasses.asdict(estimate)
    if fields["value"] is None:
        return f"- ({fields['reason']})"
    if fields["low"] is None:
        return short(fields["value"])
    return f"{short(fields['value'])} [{short(fields['low'])}, {short(fields['high'])}]"


def short(value: float) -> str:
    """Write a correlation the way papers do: three decimals, no leading zero."""
    text = f"{value:.3f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def _is_number(item: object) -> bool:
    return isinstance(item, int | float) or (isinstance(item, str) and item.lstrip("-.")[:1].isdigit())


def is_watched() -> bool:
    """Return whether progress is visible: standard error is a terminal."""
    return files.is_terminal(sys.stderr)


@contextlib.contextmanager
def progress(
    description: str, total: int | None = None, *, quiet: bool = False
) -> Iterator[Callable[[int], None]]:
    """Show a counter on a terminal's standard error, with the time left if a total is known, else nothing."""
    if quiet or not is_watched():
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
        task = bar.add_task(description, total=total)
        yield lambda count: bar.advance(task, count)
