"""Tables about sources: how they agree with the gold, how they differ, how they go together."""

from dataclasses import replace
from typing import Any

from dialeval.reports.table import (
    MARKS_EXPLAINED,
    Axis,
    Cell,
    Column,
    Table,
    axis_over,
    bar_cell,
    count,
    decimal,
    ends,
    estimate_cell,
    figure,
    name,
    p_cell,
    undefined,
)
from dialeval.scores.signature import better
from dialeval.statistics import METHODS
from dialeval.studies import Study

SYMBOLS = {
    "pearson": "Pearson r",
    "spearman": "Spearman \N{GREEK SMALL LETTER RHO}",
    "kendall": "Kendall \N{GREEK SMALL LETTER TAU}",
}
CEILING = "one rater against the others"


def percent(study: Study) -> str:
    """Write the confidence of the intervals."""
    return f"{100 * study.settings.get('confidence', 0.95):g} %"


def gold_name(study: Study) -> str:
    """Name what everything is compared with."""
    if study.gold is None:
        return "no gold"
    return f"{study.gold['source']} / {study.gold['dimension']}"


def method_of(study: Study) -> str:
    """Name the correlation that the study goes by."""
    return str(study.settings.get("method", "spearman"))


def ceiling_of(study: Study, method: str) -> dict[str, Any] | None:
    """Find what a person would reach as a metric."""
    return next((row["ceiling"] for row in study.ceiling if row["method"] == method), None)


def direction(study: Study, row: dict[str, Any]) -> str:
    """Say if the column of a correlation is meant to be low."""
    lower = better(study.signatures, row["source"], row["dimension"]) == "lower"
    return "lower is better" if lower else ""


def correlation_table(study: Study) -> Table | None:
    """Every source against the gold, best first, the human ceiling among them."""
    if not study.correlations:
        return None
    method = method_of(study)
    rows = [_source_row(study, row, method) for row in study.correlations]
    ceiling = ceiling_of(study, method)
    if ceiling is not None and ceiling["value"] is not None:
        above = [row for row in study.correlations if _worth(study, row, method) > ceiling["value"]]
        rows.insert(len(above), _ceiling_row(study, ceiling))
    return Table(
        "correlations",
        f"Correlation of each source with {gold_name(study)}, {study.settings.get('level')} level",
        (
            Column("Cluster"),
            Column("Source", "name"),
            Column(SYMBOLS[method], "bar"),
            *(Column(SYMBOLS[one]) for one in METHODS),
            Column("n"),
            Column("Unscored"),
        ),
        tuple(rows),
        (
            f"Ordered by {SYMBOLS[method]}, its sign turned where lower is better. Brackets: "
            f"{percent(study)} interval, bootstrap over whole dialogues. "
            f"{MARKS_EXPLAINED} (correlation differs from 0).",
            "Cluster: sources with the same number are not told apart by the data "
            "(permutation test of each pair, Holm-corrected).",
            "Unscored: rated units that the source gave no score.",
        ),
        _correlation_axis([row[method] for row in study.correlations], ceiling),
        rated=True,
    )


def _worth(study: Study, row: dict[str, Any], method: str) -> float:
    """How well a source agrees with people in the direction it is meant to; the study ranks by this."""
    value = row[method]["value"]
    sign = -1 if direction(study, row) else 1
    return -2.0 if value is None else sign * float(value)


def _source_row(study: Study, row: dict[str, Any], method: str) -> tuple[Cell, ...]:
    cluster = study.clusters.get(row["label"])
    return (
        undefined("undefined") if cluster is None else count(cluster),
        Cell(row["label"], small=direction(study, row), strong=True),
        bar_cell(row[method]),
        *(estimate_cell(row[one], marked=True) for one in METHODS),
        count(row["n"]),
        count(row["n_unscored"]),
    )


def _ceiling_row(study: Study, ceiling: dict[str, Any]) -> tuple[Cell, ...]:
    cells = [ceiling_of(study, method) for method in METHODS]
    return (
        Cell("people"),
        Cell(CEILING),
        bar_cell(ceiling),
        *(undefined(None) if one is None else estimate_cell(one) for one in cells),
        count(ceiling["n"]),
        count(study.gold["n_unrated"] if study.gold else 0),
    )


def _correlation_axis(estimates: list[dict[str, Any]], ceiling: dict[str, Any] | None) -> Axis | None:
    found = [*estimates, *([ceiling] if ceiling else [])]
    axis = axis_over([0.0, 1.0, *ends(found)])
    if axis is None or ceiling is None or ceiling["value"] is None:
        return axis
    band = (ceiling["low"], ceiling["high"]) if ceiling["low"] is not None else None
    return replace(axis, marker=ceiling["value"], band=band)


def difference_table(study: Study) -> Table | None:
    """Every pair of sources: does one agree better with the gold than the other?"""
    if not study.differences:
        return None
    rows = []
    for row in study.differences:
        williams, permuted = row["williams"], row["permutation"]
        rows.append(
            (
                name(row["first"]),
                name(row["second"]),
                estimate_cell(row["difference"]),
                estimate_cell(williams, lambda value: decimal(value, 2)),
                p_cell(williams["p"], williams["reason"]),
                p_cell(williams.get("p_holm"), williams["reason"]),
                p_cell(permuted["p"], permuted["reason"]),
                p_cell(permuted.get("p_holm"), permuted["reason"]),
                count(row["n"]),
            )
        )
    heads = ("Difference", "Williams t", "p", "p (Holm)", "Permutation p", "p (Holm)", "n")
    return Table(
        "differences",
        f"Differences between sources in their {SYMBOLS[method_of(study)]} with {gold_name(study)}",
        (Column("First", "name"), Column("Second", "name"), *map(Column, heads)),
        tuple(rows),
        (
            "Difference: first minus second, over the n units that both scored, with a paired interval. "
            f"Holm: corrected for all {len(rows)} pairs. {MARKS_EXPLAINED}.",
        ),
        rated=True,
    )


def subset_table(study: Study) -> Table | None:
    """The correlations inside each system, or with each dimension; the fewer go into the columns."""
    if not study.subsets:
        return None
    method, by = method_of(study), str(study.subsets[0]["by"])
    parts = {part["subset"]: {row["label"]: row for row in part["correlations"]} for part in study.subsets}
    labels = list(dict.fromkeys(label for rows in parts.values() for label in rows))
    across = len(parts) <= len(labels)
    heads, sides = (list(parts), labels) if across else (labels, list(parts))
    cells = {
        (part, label): _subset_cell(rows.get(label), method)
        for part, rows in parts.items()
        for label in labels
    }
    return Table(
        "subsets",
        f"{SYMBOLS[method]} with {gold_name(study)} by {by}",
        (Column("Source" if across else by, "name"), *map(Column, heads)),
        tuple(
            (
                name(side, strong=True),
                *(cells[(head, side) if across else (side, head)] for head in heads),
            )
            for side in sides
        ),
        (f"Brackets: {percent(study)} interval. {MARKS_EXPLAINED}.",),
        rated=True,
    )


def _subset_cell(row: dict[str, Any] | None, method: str) -> Cell:
    if row is None:
        return undefined("not scored")
    cell = estimate_cell(row[method], marked=True, tone=True)
    numbers = f"n {row['n']:,}, unscored {row['n_unscored']:,}"
    return replace(cell, small=f"{cell.small}\n{numbers}".strip())


def calibration_table(study: Study) -> Table | None:
    """The mean rating in bins of equally many units."""
    rows = [
        (name(row["label"]), Cell(figure(one["x"])), estimate_cell(one["y"], figure), count(one["y"]["n"]))
        for row in study.calibration
        for one in row["bins"]
    ]
    if not rows:
        return None
    return Table(
        "calibration",
        f"What a score means: mean {gold_name(study)} in bins of equally many units",
        (Column("Source", "name"), Column("Mean score"), Column("Mean rating"), Column("n")),
        tuple(rows),
        ("Brackets: 95 % interval by Student's t. Equal scores never fall into different bins.",),
        rated=True,
    )
