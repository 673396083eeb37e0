"""The four papers, table by table: what they report, beside what comes out here.

A paper is a TOML file in `jobs/papers`: its tables and figures in their order, and for every row the
published number, how ours is computed, and what stands in where data are not public. A row that can be
computed is *reproduced* if the published number lies in our interval and less than `far` from our value, or
within the row's own `near` (.03 where there is no interval); else it *differs*. A row that names its own mark
has that. What was computed is kept in the folder, row by row and the scores of each metric and set, so that
the same command goes on where it stopped.
"""

import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from dialeval import __version__, files
from dialeval.errors import DataError, DialevalError, UsageError
from dialeval.jobs.paper_figures import WAYS, PaperFigures
from dialeval.reports.documents import tables_html, tables_markdown
from dialeval.reports.table import Table, TableCell, decimal, interval, named, number, tabulate
from dialeval.statistics import Estimate

PAPERS = ("floweval", "voted-appropriateness", "next-user-sentiment", "dialoguescore")
REPRODUCED, DIFFERS, NOT_PUBLIC, NOT_HERE = "reproduced", "differs", "data not public", "not at hand"
ILLUSTRATION, OURS = "illustration", "not in the paper"
MARKS = (REPRODUCED, DIFFERS, NOT_PUBLIC, NOT_HERE, OURS, ILLUSTRATION)
_NEAR = 0.03  # a published figure this near to ours is reproduced, where there is no interval
_FAR = 0.10  # one this far from ours is not, however wide the interval
_OPTIONAL = ("note", "near", "far", "mark")


@dataclass(frozen=True)
class PaperRow:
    """One row of a table: its name, the published figure, and how ours is made."""

    table: str
    what: str
    published: float | None
    how: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    near: float | None = None
    far: float = _FAR
    mark: str | None = None

    @property
    def key(self) -> str:
        """Name the row by all that its figure depends on."""
        identity = json.dumps([self.what, self.published, dict(self.how), __version__], sort_keys=True)
        return hashlib.sha256(identity.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class PaperTable:
    """A table or figure of a paper."""

    name: str
    title: str
    rows: tuple[PaperRow, ...]
    note: str = ""


@dataclass(frozen=True)
class Reproduced:
    """A row with our figure and its mark."""

    row: PaperRow
    ours: Estimate
    mark: str
    signature: str = ""


def paper_tables(paper: str) -> tuple[str, list[PaperTable]]:
    """Read a paper: its title, and its tables in their order.

    >>> title, tables = paper_tables("floweval")
    >>> title.partition(":")[0], tables[0].name
    ('FlowEval', 'Table 1')
    """
    if paper not in PAPERS:
        raise UsageError(f"no paper called {paper!r}; known: {', '.join(PAPERS)}")
    text = (resources("dialeval.jobs") / "papers" / f"{paper}.toml").read_text(encoding="utf-8")
    content = tomllib.loads(text)
    tables = [
        PaperTable(
            table["name"],
            table["title"],
            (*_rows(table), *(row for grid in table.get("grid", ()) for row in _grid(table["name"], grid))),
            table.get("note", ""),
        )
        for table in content["table"]
    ]
    return str(content["title"]), tables


def _rows(table: Mapping[str, Any]) -> Iterator[PaperRow]:
    for row in table.get("row", ()):
        fields = {key: value for key, value in row.items() if key not in ("what", "published", *_OPTIONAL)}
        yield PaperRow(table["name"], row["what"], row.get("published"), fields, **_optional(row))


def _optional(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key in _OPTIONAL if key in entry}


def _grid(table: str, grid: Mapping[str, Any]) -> Iterator[PaperRow]:
    """Expand a row with figures for several sets and statistics; those of ours alone name `sets`.

    `axes` names other fields that differ from row to row, in place of the set and the method. Without `what`
    a row is called by these two.
    """
    row_field, column_field = grid.get("axes", ("set", "method"))
    columns = grid[f"{column_field}s"]
    published_by_row = grid.get("published") or {
        name: [None] * len(columns) for name in grid[f"{row_field}s"]
    }
    for name, figures in published_by_row.items():
        for column, published in zip(columns, figures, strict=True):
            fields = {**grid.get("how", {}), row_field: name, column_field: column}
            label = f"{grid['what']}: {name}, {column}" if "what" in grid else f"{name}: {column}"
            yield PaperRow(table, label, published, fields, **_optional(grid))


def reproduce(
    paper: str,
    out: str | Path,
    *,
    watch: Callable[[int], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> list[Reproduced]:
    """Compute every row of a paper that can be computed, and write `rows.jsonl`, `page.html` and `page.md`.

    Args:
        paper: One of `PAPERS`.
        out: A folder; rows that are there already are not computed again.
        watch: Called with 1 after each row.
        say: Called with the name of a row before it is computed.
    """
    title, tables = paper_tables(paper)
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file; name a folder")
    out.mkdir(parents=True, exist_ok=True)
    computed, figures = _read_rows(out / "rows.jsonl"), PaperFigures(out / "scores")
    done: list[Reproduced] = []
    for table in tables:
        for row in table.rows:
            figure = computed.get(row.key)
            if figure is None:
                if say and "way" in row.how:
                    say(f"{row.table}: {row.what}")
                figure = _computed(row, figures)
                computed[row.key] = figure
                _write_rows(out / "rows.jsonl", computed)
            done.append(_marked(row, *figure))
            if watch:
                watch(1)
    _write_pages(out, title, tables, done)
    return done


def _computed(row: PaperRow, figures: PaperFigures) -> tuple[Estimate, str]:
    way = row.how.get("way")
    if way is None:
        return Estimate.undefined(""), ""
    if way not in WAYS:
        raise DataError(f"{row.what}: no way {way!r} to compute a figure")
    try:
        return figures.compute(row.how)
    except DialevalError as error:
        return Estimate.undefined(str(error).partition("\n")[0]), ""


def _marked(row: PaperRow, ours: Estimate, signature: str) -> Reproduced:
    """Return a row with the mark that compares our figure with the published one."""
    if row.mark is not None:
        mark = row.mark
    elif ours.value is None:
        mark = NOT_HERE if "way" in row.how else NOT_PUBLIC
    elif row.published is None:
        mark = OURS
    else:
        mark = REPRODUCED if _agrees(row, row.published, ours, ours.value) else DIFFERS
    return Reproduced(row, ours, mark, signature)


def _agrees(row: PaperRow, published: float, ours: Estimate, value: float) -> bool:
    away = abs(value - published)
    if ours.low is None or ours.high is None:
        return away <= (_NEAR if row.near is None else row.near)
    return away <= (row.near or 0.0) or (ours.low <= published <= ours.high and away < row.far)


def _read_rows(path: Path) -> dict[str, tuple[Estimate, str]]:
    """Return the rows that were computed before; a file that breaks off loses its last line."""
    computed: dict[str, tuple[Estimate, str]] = {}
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
                computed[record["key"]] = Estimate(**record["ours"]), record["signature"]
            except (ValueError, TypeError, KeyError, RecursionError):
                continue
    return computed


def _write_rows(path: Path, computed: Mapping[str, tuple[Estimate, str]]) -> None:
    lines = [
        json.dumps({"key": key, "ours": asdict(ours), "signature": signature}, ensure_ascii=False)
        for key, (ours, signature) in computed.items()
    ]
    files.write_text(path, "".join(f"{line}\n" for line in lines))


def _write_pages(out: Path, title: str, tables: Sequence[PaperTable], done: Sequence[Reproduced]) -> None:
    marks = Counter(result.mark for result in done)
    counts = ", ".join(f"{marks[mark]} {mark}" for mark in MARKS if marks[mark])
    sentences = [f"{len(done)} rows: {counts}. dialeval {__version__}."]
    page_tables = [
        page_table(table, [result for result in done if result.row in table.rows]) for table in tables
    ]
    drawn = [table for table in (*page_tables, _signatures(done)) if table is not None]
    files.write_text(out / "page.html", tables_html(title, sentences, drawn))
    files.write_text(out / "page.md", tables_markdown(title, sentences, drawn))


def page_table(table: PaperTable, done: Sequence[Reproduced]) -> Table | None:
    """Draw a table of a paper: published, ours with interval and n, mark, and why."""
    key = "".join(letter if letter.isalnum() else "-" for letter in table.name.lower())
    return tabulate(
        key,
        f"{table.name}. {table.title}",
        done,
        named("row", "row.what"),
        number("published", lambda result: _figure(result.row.published)),
        number("ours", lambda result: _ours(result.ours)),
        number("n", lambda result: result.ours.n or None),
        named("mark", lambda result: TableCell(result.mark, strong=result.mark == DIFFERS)),
        named(
            "note",
            lambda result: TableCell(
                result.row.note, small="" if result.ours.value is not None else result.ours.reason or ""
            ),
        ),
        notes=[table.note] if table.note else [],
    )


def _ours(ours: Estimate) -> TableCell:
    return TableCell(_figure(ours.value), small="" if ours.low is None else interval(ours))


def _figure(value: float | None) -> str:
    """Format a figure; a size, which is a whole number of 10 or more, without decimals.

    >>> _figure(6215), _figure(17.075), _figure(5.0)
    ('6,215', '17.075', '5.000')
    """
    return (
        f"{value:,.0f}" if value is not None and value >= 10 and float(value).is_integer() else decimal(value)
    )


def _signatures(done: Sequence[Reproduced]) -> Table | None:
    signatures = sorted({result.signature for result in done if result.signature})
    return tabulate("signatures", "How our figures were made", signatures, named("signature", str))
