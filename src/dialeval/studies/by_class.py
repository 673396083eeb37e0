"""Sources beside the classes of the gold: who is in each, how each scores, and where to draw a line.

What a class is:

- If the ratings take at most ten values, the values are the classes. Of several raters the majority decides;
  a vote without a majority is settled by the setting `tie`.
- Else (sliders, means over turns) the gold is split into a lower and an upper half at its median.

The upper classes are those at or above the middle of the range: 1 of 0/1, 1 and 2 of 0/1/2, 3 to 5 of 1 to 5.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from dialeval import statistics
from dialeval.studies.against_gold import turned
from dialeval.studies.findings import (
    ClassCut,
    ClassFinding,
    ClassThreshold,
    GoldClass,
    GoldClasses,
    ScoreSpread,
    StudySettings,
)
from dialeval.studies.units import Column, Floats, Units

_MOST_CLASSES = 10
_HALVES = ("lower half", "upper half")


def few_values(ratings: Sequence[Floats]) -> bool:
    """Whether ratings are labels: at most ten values, and not a value for every other unit.

    >>> few_values([np.array([0.0, 1, 2, 1, 0, 2])]), few_values([np.array([0.1, 0.2, 0.3])])
    (True, False)
    """
    known = np.concatenate([values[~np.isnan(values)] for values in ratings])
    rated = max((int((~np.isnan(values)).sum()) for values in ratings), default=0)
    return 0 < np.unique(known).size <= min(_MOST_CLASSES, rated / 2)


def findings(
    units: Units,
    columns: list[Column],
    labels: Floats | None,
    gold: Floats,
    settings: StudySettings,
    lower: frozenset[Column],
) -> dict[str, Any]:
    """Return the classes of the gold, and each source beside them.

    Args:
        units: What was scored.
        columns: The sources.
        labels: A class for each unit, if the ratings take few values.
        gold: What is split into halves otherwise.
        settings: Those of the study.
        lower: Sources of which less is better.
    """
    given = statistics.upper_half(gold) if labels is None else labels
    cut = statistics.middle_cut(given)
    table = GoldClasses(
        "values" if labels is not None else "halves",
        None if labels is not None else _median(gold),
        cut,
        None if cut is not None else "one class" if np.isfinite(given).any() else "no ratings",
        int((~np.isnan(gold) & np.isnan(given)).sum()),
        _members(units, given, cut, settings, named=labels is not None),
    )
    names = {one.label: one.name for one in table.classes}
    rows = () if cut is None else _sources(units, columns, given, cut, names, settings, lower)
    return {"labels": table, "classes": rows}


def _median(gold: Floats) -> float | None:
    known = gold[~np.isnan(gold)]
    return float(np.median(known)) if known.size else None


def _members(
    units: Units, labels: Floats, cut: float | None, settings: StudySettings, *, named: bool
) -> tuple[GoldClass, ...]:
    """Count the units of each class; the share of a class has an interval over dialogues."""
    known = ~np.isnan(labels)
    clusters, options = units.clusters[known], settings.resampling
    return tuple(
        GoldClass(
            float(label),
            f"{label:g}" if named else _HALVES[int(label)],
            None if cut is None else bool(label >= cut),
            int((labels == label).sum()),
            statistics.bootstrap_means(labels[known] == label, clusters, **options),
        )
        for label in np.unique(labels[known])
    )


def _sources(
    units: Units,
    columns: list[Column],
    labels: Floats,
    cut: float,
    names: dict[float, str],
    settings: StudySettings,
    lower: frozenset[Column],
) -> tuple[ClassFinding, ...]:
    """Return for each source the AUC at every cut, its scores per class, and its best threshold."""
    if not columns:
        return ()
    options = settings.resampling
    upper = np.where(np.isnan(labels), np.nan, labels >= cut)
    data = np.vstack([units.columns[column] for column in columns])
    aucs = statistics.bootstrap_aucs(data, upper, units.clusters, **options)
    cuts = np.unique(labels[~np.isnan(labels)])[1:]
    rows = []
    for (column, name), values, found in zip(units.labels(columns).items(), data, aucs, strict=True):
        line = statistics.held_out_threshold(turned(units, column, lower), upper, units.clusters, **options)
        rows.append(
            ClassFinding(
                name,
                tuple(ClassCut(float(at), found if at == cut else _auc(values, labels, at)) for at in cuts),
                spreads(values, labels, names),
                _threshold(line, column in lower),
            )
        )
    return tuple(rows)


def spreads(values: Floats, labels: Floats, names: dict[float, str]) -> tuple[ScoreSpread, ...]:
    """Return how the units of each label score, by the name of the label."""
    return tuple(
        ScoreSpread(names[one.label], one.n, one.mean, one.sd, one.quantiles)  # type: ignore[arg-type]
        for one in statistics.class_distributions(values, labels)
    )


def _auc(values: Floats, labels: Floats, at: float) -> statistics.Estimate:
    """Return the AUC at another cut, without the p-value that would take turns for independent."""
    found = statistics.auc(values, np.where(np.isnan(labels), np.nan, labels >= at))
    return dataclasses.replace(found, p=None)


def _threshold(line: statistics.Threshold, lower: bool) -> ClassThreshold:
    """Put a threshold on the source's own scale; where less is better, upper is at or below it."""
    sign = -1 if lower else 1
    value, *ends = (one if one is None else sign * one for one in (line.value, line.lowest, line.highest))
    low, high = ends[::sign]
    side: Literal["above", "below"] = "below" if lower else "above"
    return ClassThreshold(value, side, line.fitted, line.accuracy, low, high, line.folds)
