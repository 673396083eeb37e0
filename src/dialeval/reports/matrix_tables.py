"""Tables of sources against each other: what goes together measures the same thing."""

from collections.abc import Iterator
from typing import Any

from dialeval.reports.correlation_tables import SYMBOLS, gold_name, method_of
from dialeval.reports.table import (
    MARKS_EXPLAINED,
    Cell,
    Column,
    Table,
    correlation_tone,
    count,
    decimal,
    name,
    stars,
    undefined,
)
from dialeval.statistics import METHODS
from dialeval.studies import Study


def matrix_labels(study: Study) -> list[str]:
    """Name the rows of the matrix; its last is the gold, if there is one."""
    labels = [str(label) for label in study.matrix.get("labels", [])]
    if labels and study.gold is not None:
        labels[-1] = gold_name(study)
    return labels


def matrix_table(study: Study, method: str | None = None) -> Table | None:
    """Every source against every other: what goes together measures the same thing."""
    labels = matrix_labels(study)
    if len(labels) < 2:
        return None
    method = method or method_of(study)
    cells = study.matrix["correlations"][method]
    rows = []
    for place, label in enumerate(labels):
        values = (
            Cell("1") if other == place else _matrix_cell(cells[place][other]) for other in range(len(labels))
        )
        rows.append((name(label, strong=True), *values))
    ns = sorted({cells[a][b]["n"] for a in range(len(labels)) for b in range(a)})
    return Table(
        f"matrix-{method}",
        f"{SYMBOLS[method]} between sources",
        (Column("", "name"), *(Column(label) for label in labels)),
        tuple(rows),
        (f"n = {_span(ns)} units. {MARKS_EXPLAINED}.",),
        rated=study.gold is not None,
    )


def _span(numbers: list[int]) -> str:
    return f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"


def _matrix_cell(estimate: dict[str, Any]) -> Cell:
    if estimate["value"] is None:
        return undefined(estimate["reason"])
    value = estimate["value"]
    return Cell(decimal(value, 2), mark=stars(estimate["p"]), tone=correlation_tone(value))


def pair_table(study: Study) -> Table | None:
    """The same, pair by pair, by all three methods and as an angle."""
    labels = matrix_labels(study)
    if len(labels) < 2:
        return None
    rows = []
    for a, b in _pairs(study, labels):
        found = [study.matrix["correlations"][method][a][b] for method in METHODS]
        angle = study.matrix["angles"][a][b]
        shown = (
            undefined(found[0]["reason"])
            if one["value"] is None
            else Cell(decimal(one["value"]), mark=stars(one["p"]))
            for one in found
        )
        degrees = undefined(found[0]["reason"]) if angle is None else Cell(f"{angle:.0f}°")
        rows.append((name(labels[a]), name(labels[b]), *shown, degrees, count(found[0]["n"])))
    return Table(
        "pairs",
        "Correlation of each pair",
        (
            Column("First", "name"),
            Column("Second", "name"),
            *(Column(SYMBOLS[method]) for method in METHODS),
            Column("Angle"),
            Column("n"),
        ),
        tuple(rows),
        (f"Angle: arccos of {SYMBOLS[method_of(study)]}; 90° is unrelated. {MARKS_EXPLAINED}.",),
        rated=study.gold is not None,
    )


def _pairs(study: Study, labels: list[str]) -> Iterator[tuple[int, int]]:
    """Go through the pairs with the gold first, then those between sources."""
    last = len(labels) - 1
    if study.gold is not None:
        yield from ((place, last) for place in range(last))
    stop = last if study.gold is not None else last + 1
    yield from ((a, b) for a in range(stop) for b in range(a + 1, stop))
