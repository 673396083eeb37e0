"""Sources compared with the gold: correlations, tests of their differences, calibration, units to look at.

Columns of which less is better (`lower`) are negated for ranking and testing; the correlations themselves
are reported with their own sign.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from msgspec.structs import replace

from dialeval import statistics
from dialeval.scores.signature import better
from dialeval.statistics import METHODS, Estimate
from dialeval.statistics.estimate import number
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


@dataclass(frozen=True, slots=True)
class AlignedStudy:
    """The input of a study after alignment.

    Attributes:
        units: The units with all columns.
        columns: The columns of the sources to compare with the gold.
        gold_columns: The columns of the gold; empty if there is none.
        settings: The settings of the study.
        lower: The columns of which less is better.
    """

    units: Units
    columns: list[Column]
    gold_columns: list[Column]
    settings: StudySettings
    lower: frozenset[Column]

    def oriented(self, column: Column) -> Floats:
        """Return the values of a column, negated if less is better."""
        values = self.units.columns[column]
        return -values if column in self.lower else values


def findings(data: AlignedStudy, gold: Floats) -> dict[str, Any]:
    """Return all findings that need a gold column, by field of `Study`."""
    rows, columns = correlations(data, gold), data.units.columns
    tests = differences(data, gold)
    return {
        "correlations": tuple(
            replace(row, fit=_fit(columns[Column(row.source, row.dimension)], gold)) for row in rows
        ),
        "differences": tests,
        "letters": letters(rows, tests, data.settings),
        "calibration": calibration(data.units, data.columns, gold),
        "worst": worst(data, gold),
    }


def correlations(data: AlignedStudy, gold: Floats) -> tuple[Correlation, ...]:
    """Return each source's correlation with the gold, with bootstrap intervals over dialogues; best first."""
    units, columns, settings = data.units, data.columns, data.settings
    if not columns:
        return ()
    labels = units.labels(columns)
    stacked = np.vstack([units.columns[column] for column in columns])
    estimates = statistics.bootstrap_correlations(stacked, gold, units.clusters, **settings.resampling)
    rated = ~np.isnan(gold)
    rows = []
    for index, column in enumerate(columns):
        n = int((rated & ~np.isnan(units.columns[column])).sum())
        pearson, spearman, kendall = (estimates[method][index] for method in METHODS)
        unscored = int(rated.sum()) - n
        rows.append(Correlation(*column, labels[column], n, unscored, pearson, spearman, kendall))
    return tuple(sorted(rows, key=lambda row: _rank(row, settings.method, data.lower)))


def _rank(row: Correlation, method: str, lower: frozenset[Column]) -> tuple[bool, float]:
    value = row.of(method).value
    sign = 1 if (row.source, row.dimension) in lower else -1
    return (value is None, (value or 0.0) * sign)


def _fit(values: Floats, gold: Floats) -> LeastSquares | None:
    intercept, slope = (coefficient.value for coefficient in statistics.ols(values, gold).coefficients)
    return None if intercept is None or slope is None else LeastSquares(intercept, slope)


def differences(data: AlignedStudy, gold: Floats) -> tuple[Difference, ...]:
    """Compare the correlations of every pair of sources by Williams' test and a paired permutation test.

    Intervals are by a paired bootstrap over dialogues; the tests are Holm-corrected over all pairs.
    """
    units, settings, method = data.units, data.settings, data.settings.method
    if len(data.columns) < 2:
        return ()
    names = list(units.labels(data.columns).values())
    values = np.vstack([data.oriented(column) for column in data.columns])
    pairs, clusters = list(combinations(range(len(names)), 2)), units.clusters
    permuted = statistics.permute_differences(
        values, gold, pairs, method, settings.permutations, seed=settings.seed, clusters=clusters
    )
    gaps = statistics.bootstrap_differences(
        values, gold, pairs, method, clusters=clusters, **settings.resampling
    )
    tests = [_williams(values[i], values[j], gold, units, method) for i, j in pairs]
    adjusted = [statistics.holm([test.p for test in results]) for results in (tests, permuted)]
    return tuple(
        Difference(names[i], names[j], method, random.n, gap, exact, random, *p_values)
        for (i, j), gap, exact, random, *p_values in zip(pairs, gaps, tests, permuted, *adjusted, strict=True)
    )


def _williams(x: Floats, z: Floats, gold: Floats, units: Units, method: str) -> Estimate:
    """Run Williams' test; undefined for several turns of a dialogue, because it assumes independent items."""
    both = ~(np.isnan(x) | np.isnan(z) | np.isnan(gold))
    n = int(both.sum())
    if np.unique(units.clusters[both]).size < n:
        return Estimate.undefined("turns of a dialogue depend on each other", n)
    x, z, y = x[both], z[both], gold[both]
    estimates = [statistics.correlate(*pair, method) for pair in ((x, y), (z, y), (x, z))]
    r12, r13, r23 = (estimate.value for estimate in estimates)
    if r12 is None or r13 is None or r23 is None:
        return Estimate.undefined(
            next(estimate.reason for estimate in estimates if estimate.value is None) or "undefined", n
        )
    return statistics.williams(r12, r13, r23, n)


def letters(
    rows: Sequence[Correlation], tests: Sequence[Difference], settings: StudySettings
) -> dict[str, tuple[str, ...]]:
    """Return the compact letter display of the ranking, by the permutation tests."""
    order = [row.label for row in rows if row.of(settings.method).value is not None]
    adjusted = {(test.first, test.second): test.permutation_holm for test in tests}
    groups = statistics.compact_letters(order, adjusted, 1 - settings.confidence)
    return dict(zip(order, groups, strict=True))


def matrix(units: Units, columns: list[Column], gold: Floats | None, method: str) -> CorrelationMatrix:
    """Return the correlations between all sources and the gold, and the angles that they correspond to."""
    if not columns:
        return CorrelationMatrix()
    names = [*units.labels(columns).values(), *(["gold"] if gold is not None else [])]
    data = np.vstack([*(units.columns[column] for column in columns), *([gold] if gold is not None else [])])
    cells = {name: tuple(tuple(row) for row in statistics.correlation_matrix(data, name)) for name in METHODS}
    angles = tuple(tuple(statistics.angle(cell.value) for cell in row) for row in cells[method])
    return CorrelationMatrix(tuple(names), cells, angles)


def calibration(units: Units, columns: list[Column], gold: Floats) -> tuple[CalibrationCurve, ...]:
    """Return the mean rating in ten equally large bins of each source's scores."""
    return tuple(
        CalibrationCurve(label, tuple(statistics.calibration(units.columns[column], gold)))
        for column, label in units.labels(columns).items()
    )


def worst(data: AlignedStudy, gold: Floats) -> tuple[NotableUnit, ...]:
    """Return the units with the lowest ratings, and those where each source is furthest from the rating."""
    units, labels = data.units, data.units.labels(data.columns)
    rated = np.flatnonzero(~np.isnan(gold))
    lowest = rated[np.argsort(gold[rated], kind="stable")][:_WORST]
    rows = [_notable(units, labels, gold, int(index), "lowest rated") for index in lowest]
    centred = statistics.zscore(gold)
    for column in data.columns:
        gap = statistics.zscore(data.oriented(column)) - centred
        scored = np.flatnonzero(~np.isnan(gap))
        extremes = scored[np.argsort(-np.abs(gap[scored]), kind="stable")][:3]
        for index in extremes:
            word = "too kind" if gap[index] > 0 else "too strict"
            rows.append(_notable(units, labels, gold, int(index), f"{labels[column]} {word}"))
    return tuple(rows)


def lowest_of_systems(
    units: Units, columns: Sequence[Column], gold: Floats | None, name: str, signatures: Any, per_system: int
) -> tuple[NotableUnit, ...]:
    """Return the worst units of each system by the gold, or else by the first source with a direction."""
    labels = {column: label for column, label in units.labels(columns).items() if column in units.columns}
    values, sign, shown = gold, 1, dict[Column, str]()
    for column in () if gold is not None else labels:
        direction = better(signatures, *column)
        if direction != "neither":
            values, sign, name = units.columns[column], -1 if direction == "lower" else 1, labels[column]
            shown = {column: name}
            break
    if values is None:
        return ()
    rows: list[NotableUnit] = []
    for system in list(dict.fromkeys(key.system for key in units.keys))[:MOST_SYSTEMS]:
        mask = np.array([key.system == system for key in units.keys]) & ~np.isnan(values)
        indices = np.flatnonzero(mask)
        rank = "among the worst" if per_system > 1 else "the worst"
        rank += "" if system is None else " of its system"
        chosen = indices[np.argsort(sign * values[indices], kind="stable")][:per_system].tolist()
        rows += [_notable(units, shown, gold, index, f"{rank} by {name}") for index in chosen]
    return tuple(rows)


def _notable(
    units: Units, labels: dict[Column, str], gold: Floats | None, index: int, why: str
) -> NotableUnit:
    key = units.keys[index]
    values = {label: number(units.columns[column][index]) for column, label in labels.items()}
    rating = None if gold is None else number(gold[index])
    return NotableUnit(*key, why, rating, values)


def sample_units(
    units: Units, columns: Sequence[Column], gold: Floats | None, order: Sequence[str]
) -> StudyUnits:
    """Return the units that a study stores: all, or an evenly spaced sample with rated ones first."""
    labels = {label: column for column, label in units.labels(columns).items()}
    names = [*order, *(label for label in labels if label not in order)]
    most = min(MOST_UNITS, MOST_VALUES // (len(names) + 1))
    indices = np.arange(len(units))
    if indices.size > most:
        rated = indices if gold is None else indices[~np.isnan(gold)]
        unrated = np.setdiff1d(indices, rated)
        sample = _spaced(rated, most)
        indices = np.sort(np.concatenate([sample, _spaced(unrated, most - sample.size)]))
    keys = [units.keys[index] for index in indices.tolist()]
    return StudyUnits(
        len(units),
        tuple(key.dialogue_id for key in keys),
        tuple(key.system for key in keys),
        tuple(key.turn for key in keys),
        None if gold is None else _plain(gold[indices]),
        {name: _plain(units.columns[labels[name]][indices]) for name in names},
        {name: int((~np.isnan(units.columns[labels[name]])).sum()) for name in names},
    )


def _spaced(indices: Places, most: int) -> Places:
    return (
        indices
        if indices.size <= most
        else indices[np.linspace(0, indices.size - 1, most).round().astype(int)]
    )


def _plain(values: Floats) -> Values:
    return tuple(map(number, values.tolist()))
