"""Sources against the gold: correlations with intervals, tests of differences, calibration, units to look at.

Columns of which less is better (`lower`) are ranked and tested with their sign turned; the correlations
themselves are shown as they are.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from msgspec.structs import replace

from dialeval import statistics
from dialeval.scores.signature import better
from dialeval.statistics import METHODS, Estimate
from dialeval.studies.findings import (
    MOST_UNITS,
    MOST_VALUES,
    CalibrationCurve,
    Correlation,
    CorrelationMatrix,
    Difference,
    LeastSquares,
    NotableUnit,
    StudySettings,
    StudyUnits,
    Values,
)
from dialeval.studies.units import Column, Floats, Places, Units

_WORST = 12
MOST_SYSTEMS = 6  # of which the lowest units are named


def findings(
    units: Units, columns: list[Column], gold: Floats, settings: StudySettings, lower: frozenset[Column]
) -> dict[str, Any]:
    """Make all findings that need a gold column."""
    rows = correlations(units, columns, gold, settings, lower)
    fitted = (replace(row, fit=_fit(units.columns[Column(row.source, row.dimension)], gold)) for row in rows)
    tests = differences(units, columns, gold, settings, lower)
    return {
        "correlations": tuple(fitted),
        "differences": tests,
        "letters": letters(rows, tests, settings),
        "calibration": calibration(units, columns, gold),
        "worst": worst(units, columns, gold, lower),
    }


def correlations(
    units: Units, columns: list[Column], gold: Floats, settings: StudySettings, lower: frozenset[Column]
) -> tuple[Correlation, ...]:
    """Correlate each source with the gold, intervals by a bootstrap over dialogues; best first."""
    if not columns:
        return ()
    labels = units.labels(columns)
    data = np.vstack([units.columns[column] for column in columns])
    found = statistics.bootstrap_correlations(data, gold, units.clusters, **settings.resampling)
    rated = ~np.isnan(gold)
    rows = []
    for number, column in enumerate(columns):
        n = int((rated & ~np.isnan(units.columns[column])).sum())
        pearson, spearman, kendall = (found[method][number] for method in METHODS)
        unscored = int(rated.sum()) - n
        rows.append(Correlation(*column, labels[column], n, unscored, pearson, spearman, kendall))
    return tuple(sorted(rows, key=lambda row: _rank(row, settings.method, lower)))


def _rank(row: Correlation, method: str, lower: frozenset[Column]) -> tuple[bool, float]:
    value = row.of(method).value
    sign = 1 if (row.source, row.dimension) in lower else -1
    return (value is None, (value or 0.0) * sign)


def _fit(values: Floats, gold: Floats) -> LeastSquares | None:
    intercept, slope = (one.value for one in statistics.ols(values, gold).coefficients)
    return None if intercept is None or slope is None else LeastSquares(intercept, slope)


def turned(units: Units, column: Column, lower: frozenset[Column]) -> Floats:
    """Return a column so that more of it is better."""
    values = units.columns[column]
    return -values if column in lower else values


def differences(
    units: Units, columns: list[Column], gold: Floats, settings: StudySettings, lower: frozenset[Column]
) -> tuple[Difference, ...]:
    """Compare every pair of sources: how far one is above the other, Williams' test, a paired permutation.

    Intervals are by a paired bootstrap over dialogues; the tests are Holm-corrected over all pairs.
    """
    if len(columns) < 2:
        return ()
    names = list(units.labels(columns).values())
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
    gaps = statistics.bootstrap_differences(
        data, gold, pairs, settings.method, clusters=units.clusters, **settings.resampling
    )
    tests = [_williams(data[one], data[other], gold, units, settings.method) for one, other in pairs]
    adjusted = [statistics.holm([test.p for test in found]) for found in (tests, permuted)]
    return tuple(
        Difference(names[one], names[other], settings.method, random.n, gap, exact, random, *p_values)
        for (one, other), gap, exact, random, *p_values in zip(
            pairs, gaps, tests, permuted, *adjusted, strict=True
        )
    )


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


def letters(
    rows: Sequence[Correlation], tests: Sequence[Difference], settings: StudySettings
) -> dict[str, tuple[str, ...]]:
    """Return the compact letter display of the ranking, by the permutation tests."""
    order = [row.label for row in rows if row.of(settings.method).value is not None]
    adjusted = {(test.first, test.second): test.permutation_holm for test in tests}
    found = statistics.compact_letters(order, adjusted, 1 - settings.confidence)
    return dict(zip(order, found, strict=True))


def matrix(units: Units, columns: list[Column], gold: Floats | None, method: str) -> CorrelationMatrix:
    """Correlate all sources with each other and the gold, as correlations and as angles between them."""
    if not columns:
        return CorrelationMatrix()
    names = [*units.labels(columns).values(), *(["gold"] if gold is not None else [])]
    data = np.vstack([*(units.columns[column] for column in columns), *([gold] if gold is not None else [])])
    cells = {one: tuple(tuple(row) for row in statistics.correlation_matrix(data, one)) for one in METHODS}
    angles = tuple(tuple(statistics.angle(cell.value) for cell in row) for row in cells[method])
    return CorrelationMatrix(tuple(names), cells, angles)


def calibration(units: Units, columns: list[Column], gold: Floats) -> tuple[CalibrationCurve, ...]:
    """Return what a score means: the mean rating in ten bins of equally many units."""
    return tuple(
        CalibrationCurve(label, tuple(statistics.calibration(units.columns[column], gold)))
        for column, label in units.labels(columns).items()
    )


def worst(
    units: Units, columns: list[Column], gold: Floats, lower: frozenset[Column]
) -> tuple[NotableUnit, ...]:
    """List the units that people liked least, and where each source is most wrong about one."""
    labels = units.labels(columns)
    rated = np.flatnonzero(~np.isnan(gold))
    lowest = rated[np.argsort(gold[rated], kind="stable")][:_WORST]
    rows = [_notable(units, labels, gold, int(place), "lowest rated") for place in lowest]
    centred = statistics.zscore(gold)
    for column in columns:
        gap = statistics.zscore(turned(units, column, lower)) - centred
        known = np.flatnonzero(~np.isnan(gap))
        extremes = known[np.argsort(-np.abs(gap[known]), kind="stable")][:3]
        for place in extremes:
            word = "too kind" if gap[place] > 0 else "too strict"
            rows.append(_notable(units, labels, gold, int(place), f"{labels[column]} {word}"))
    return tuple(rows)


def lowest_of_systems(
    units: Units, columns: Sequence[Column], gold: Floats | None, name: str, signatures: Any, each: int
) -> tuple[NotableUnit, ...]:
    """Find the units of each system that the gold, or else the first source with a direction, puts lowest."""
    labels = {column: label for column, label in units.labels(columns).items() if column in units.columns}
    values, sign, shown = gold, 1, dict[Column, str]()
    for column in () if gold is not None else labels:
        way = better(signatures, *column)
        if way != "neither":
            values, sign, name = units.columns[column], -1 if way == "lower" else 1, labels[column]
            shown = {column: name}
            break
    if values is None:
        return ()
    rows: list[NotableUnit] = []
    for system in list(dict.fromkeys(key.system for key in units.keys))[:MOST_SYSTEMS]:
        own = np.array([key.system == system for key in units.keys]) & ~np.isnan(values)
        places = np.flatnonzero(own)
        rank = f"{'among the worst' if each > 1 else 'the worst'}{'' if system is None else ' of its system'}"
        chosen = places[np.argsort(sign * values[places], kind="stable")][:each].tolist()
        rows += [_notable(units, shown, gold, place, f"{rank} by {name}") for place in chosen]
    return tuple(rows)


def _notable(
    units: Units, labels: dict[Column, str], gold: Floats | None, place: int, why: str
) -> NotableUnit:
    key = units.keys[place]
    values = {label: _number(units.columns[column][place]) for column, label in labels.items()}
    rating = None if gold is None else _number(gold[place])
    return NotableUnit(key.dialogue_id, key.system, key.turn, why, rating, values)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def carried(units: Units, columns: Sequence[Column], gold: Floats | None, order: Sequence[str]) -> StudyUnits:
    """Return the units that a study carries, or an evenly spaced sample of them, rated ones first."""
    labels = {label: column for column, label in units.labels(columns).items()}
    names = [*order, *(label for label in labels if label not in order)]
    most = min(MOST_UNITS, MOST_VALUES // (len(names) + 1))
    places = np.arange(len(units))
    if places.size > most:
        rated = places if gold is None else places[~np.isnan(gold)]
        others = np.setdiff1d(places, rated)
        kept = _spaced(rated, most)
        places = np.sort(np.concatenate([kept, _spaced(others, most - kept.size)]))
    keys = [units.keys[place] for place in places.tolist()]
    return StudyUnits(
        len(units),
        tuple(key.dialogue_id for key in keys),
        tuple(key.system for key in keys),
        tuple(key.turn for key in keys),
        None if gold is None else _plain(gold[places]),
        {name: _plain(units.columns[labels[name]][places]) for name in names},
        {name: int((~np.isnan(units.columns[labels[name]])).sum()) for name in names},
    )


def _spaced(places: Places, most: int) -> Places:
    return (
        places if places.size <= most else places[np.linspace(0, places.size - 1, most).round().astype(int)]
    )


def _plain(values: Floats) -> Values:
    return tuple(None if np.isnan(value) else value for value in values.tolist())
