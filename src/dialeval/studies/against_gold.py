"""Sources against the gold: correlations with intervals, tests of differences, calibration, worst cases."""

import dataclasses
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from dialeval import statistics
from dialeval.statistics import METHODS, Estimate
from dialeval.studies.units import Column, Floats, Units

if TYPE_CHECKING:
    from dialeval.studies.meta_evaluation import Settings

Table = list[dict[str, Any]]
_WORST = 12


def plain(estimate: Estimate) -> dict[str, Any]:
    """Write an estimate as a dictionary for JSON."""
    return dataclasses.asdict(estimate)


def findings(
    units: Units, columns: list[Column], gold: Floats, settings: "Settings", lower: frozenset[Column]
) -> dict[str, Any]:
    """Make all tables that need a gold column.

    Columns of which less is better (`lower`) are ranked and tested with their sign turned; the correlations
    themselves are shown as they are.
    """
    rows = correlations(units, columns, gold, settings, lower)
    tests = differences(units, columns, gold, settings, lower)
    return {
        "correlations": rows,
        "differences": tests,
        "clusters": clusters(rows, tests, settings),
        "calibration": calibration(units, columns, gold),
        "worst": worst(units, columns, gold, lower),
    }


def correlations(
    units: Units, columns: list[Column], gold: Floats, settings: "Settings", lower: frozenset[Column]
) -> Table:
    """Correlate each source with the gold, intervals by a bootstrap over dialogues; best first."""
    if not columns:
        return []
    labels = units.labels(columns)
    found = statistics.bootstrap_correlations(
        np.vstack([units.columns[column] for column in columns]),
        gold,
        units.clusters,
        resamples=settings.resamples,
        confidence=settings.confidence,
        seed=settings.seed,
        workers=settings.workers,
    )
    rated = ~np.isnan(gold)
    rows = []
    for number, column in enumerate(columns):
        n = int((rated & ~np.isnan(units.columns[column])).sum())
        row: dict[str, Any] = {
            "source": column.source,
            "dimension": column.dimension,
            "label": labels[column],
            "n": n,
        }
        row["n_unscored"] = int(rated.sum()) - n
        rows.append(row | {method: plain(found[method][number]) for method in METHODS})
    return sorted(rows, key=lambda row: _rank(row, settings.method, lower))


def _rank(row: dict[str, Any], method: str, lower: frozenset[Column]) -> tuple[bool, float]:
    value = row[method]["value"]
    sign = 1 if (row["source"], row["dimension"]) in lower else -1
    return (value is None, (value or 0.0) * sign)


def turned(units: Units, column: Column, lower: frozenset[Column]) -> Floats:
    """Return a column so that more of it is better."""
    values = units.columns[column]
    return -values if column in lower else values


def differences(
    units: Units, columns: list[Column], gold: Floats, settings: "Settings", lower: frozenset[Column]
) -> Table:
    """Compare every pair of sources: how far one is above the other, Williams' test, a paired permutation.

    Intervals are by a paired bootstrap over dialogues; the tests are Holm-corrected over all pairs.
    """
    labels = units.labels(columns)
    if len(columns) < 2:
        return []
    data = np.vstack([turned(units, column, lower) for column in columns])
    pairs = list(combinations(range(len(columns)), 2))
    permuted = statistics.permute_differences(
        data,
        gold,
        pairs,
        settings.method,
        settings.permutations,
        seed=settings.seed,
        clusters=units.clusters,
    )
    intervals = statistics.bootstrap_differences(
        data,
        gold,
        pairs,
        settings.method,
        settings.resamples,
        confidence=settings.confidence,
        seed=settings.seed,
        clusters=units.clusters,
        workers=settings.workers,
    )
    rows: Table = [
        {
            "first": labels[columns[one]],
            "second": labels[columns[other]],
            "method": settings.method,
            "n": found.n,
            "difference": plain(gap),
            "williams": plain(_williams(data[one], data[other], gold, units, settings.method)),
            "permutation": plain(found),
        }
        for (one, other), found, gap in zip(pairs, permuted, intervals, strict=True)
    ]
    for test in ("williams", "permutation"):
        for row, adjusted in zip(rows, statistics.holm([row[test]["p"] for row in rows]), strict=True):
            row[test]["p_holm"] = adjusted
    return rows


def _williams(x: Floats, z: Floats, gold: Floats, units: Units, method: str) -> Estimate:
    """Williams' test, which takes items for independent: not for turns of the same dialogue."""
    both = ~(np.isnan(x) | np.isnan(z) | np.isnan(gold))
    n = int(both.sum())
    if np.unique(units.clusters[both]).size < n:
        return Estimate.undefined("turns of a dialogue depend on each other", n)
    x, z, y = x[both], z[both], gold[both]
    found = [statistics.correlate(*pair, method) for pair in ((x, y), (z, y), (x, z))]
    r12, r13, r23 = (one.value for one in found)
    if r12 is None or r13 is None or r23 is None:
        return Estimate.undefined(next(one.reason for one in found if one.value is None) or "undefined", n)
    return statistics.williams(r12, r13, r23, n)


def clusters(rows: Table, tests: Table, settings: "Settings") -> dict[str, int]:
    """Group the ranking: a new cluster starts where everything above is significantly better."""
    order = [row["label"] for row in rows if row[settings.method]["value"] is not None]
    adjusted: dict[tuple[str, str], float | None] = {}
    for test in tests:
        p = test["permutation"]["p_holm"]
        adjusted[test["first"], test["second"]] = adjusted[test["second"], test["first"]] = p
    numbers = statistics.significance_clusters(order, adjusted, 1 - settings.confidence)
    return dict(zip(order, numbers, strict=True))


def matrix(units: Units, columns: list[Column], gold: Floats | None, settings: "Settings") -> dict[str, Any]:
    """Correlate all sources with each other and the gold, as correlations and as angles between them."""
    if not columns:
        return {}
    labels = units.labels(columns)
    names = [labels[column] for column in columns] + (["gold"] if gold is not None else [])
    data = np.vstack([*(units.columns[column] for column in columns), *([gold] if gold is not None else [])])
    values = {method: statistics.correlation_matrix(data, method) for method in METHODS}
    degrees = [[statistics.angle(cell.value) for cell in row] for row in values[settings.method]]
    cells = {method: [[plain(cell) for cell in row] for row in values[method]] for method in METHODS}
    return {"labels": names, "correlations": cells, "angles": degrees, "method": settings.method}


def calibration(units: Units, columns: list[Column], gold: Floats) -> Table:
    """What a score means: the mean rating in ten bins of equally many units."""
    labels = units.labels(columns)
    return [
        {
            "label": labels[column],
            "bins": [
                {"x": one.x, "y": plain(one.y)} for one in statistics.calibration(units.columns[column], gold)
            ],
        }
        for column in columns
    ]


def worst(units: Units, columns: list[Column], gold: Floats, lower: frozenset[Column]) -> Table:
    """List the units that people liked least, and where each source is most wrong about one."""
    labels = units.labels(columns)
    rated = np.flatnonzero(~np.isnan(gold))
    lowest = rated[np.argsort(gold[rated], kind="stable")][:_WORST]
    rows = [_case(units, columns, labels, gold, int(place), "lowest rated") for place in lowest]
    centred = statistics.zscore(gold)
    for column in columns:
        gap = statistics.zscore(turned(units, column, lower)) - centred
        known = np.flatnonzero(~np.isnan(gap))
        extremes = known[np.argsort(-np.abs(gap[known]), kind="stable")][:3]
        for place in extremes:
            word = "too kind" if gap[place] > 0 else "too strict"
            rows.append(_case(units, columns, labels, gold, int(place), f"{labels[column]} {word}"))
    return rows


def _case(
    units: Units, columns: list[Column], labels: dict[Column, str], gold: Floats, place: int, why: str
) -> dict[str, Any]:
    key = units.keys[place]
    values = {labels[column]: _number(units.columns[column][place]) for column in columns}
    return {
        "dialogue_id": key.dialogue_id,
        "turn": key.turn,
        "system": key.system,
        "why": why,
        "gold": _number(gold[place]),
        "values": values,
    }


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
