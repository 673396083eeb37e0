"""Sources by class of the gold: class sizes, AUC, score distributions and thresholds.

The classes:

- If the ratings take at most ten values, these are the classes. Several raters vote; the setting `tie`
  decides votes without a majority.
- Otherwise (sliders, means over turns) the gold is split at its median into a lower and an upper half.

The upper classes are those at or above the middle of the range: 1 of 0/1, 1 and 2 of 0/1/2, 3 to 5 of 1 to 5.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from dialeval import statistics
from dialeval.studies.against_gold import AlignedStudy
from dialeval.studies.findings import (
    ClassCut,
    ClassFinding,
    ClassThreshold,
    GoldClass,
    GoldClasses,
    ScoreSpread,
    StudySettings,
)
from dialeval.studies.units import Floats, Units

_MOST_CLASSES = 10
_HALVES = ("lower half", "upper half")


def few_values(ratings: Sequence[Floats]) -> bool:
    """Return whether ratings are class labels: at most ten values, each for two units or more on average.

    >>> few_values([np.array([0.0, 1, 2, 1, 0, 2])]), few_values([np.array([0.1, 0.2, 0.3])])
    (True, False)
    """
    values = np.concatenate([values[~np.isnan(values)] for values in ratings])
    rated = max((int((~np.isnan(values)).sum()) for values in ratings), default=0)
    return 0 < np.unique(values).size <= min(_MOST_CLASSES, rated / 2)


def findings(data: AlignedStudy, labels: Floats | None, gold: Floats) -> dict[str, Any]:
    """Return the classes of the gold and the figures of each source, by field of `Study`.

    Args:
        labels: A class for each unit, if the ratings take few values.
        gold: The ratings, split into halves if there are no labels.
    """
    classes = statistics.upper_half(gold) if labels is None else labels
    cut = statistics.middle_cut(classes)
    table = GoldClasses(
        "values" if labels is not None else "halves",
        None if labels is not None or np.isnan(gold).all() else float(np.nanmedian(gold)),
        cut,
        None if cut is not None else "one class" if np.isfinite(classes).any() else "no ratings",
        int((~np.isnan(gold) & np.isnan(classes)).sum()),
        _members(data.units, classes, cut, data.settings, named=labels is not None),
    )
    names = {gold_class.label: gold_class.name for gold_class in table.classes}
    rows = () if cut is None else _sources(data, classes, cut, names)
    return {"labels": table, "classes": rows}


def _members(
    units: Units, labels: Floats, cut: float | None, settings: StudySettings, *, named: bool
) -> tuple[GoldClass, ...]:
    """Return size and share of each class; intervals are over dialogues."""
    labelled = ~np.isnan(labels)
    clusters, options = units.clusters[labelled], settings.resampling
    return tuple(
        GoldClass(
            float(label),
            f"{label:g}" if named else _HALVES[int(label)],
            None if cut is None else bool(label >= cut),
            int((labels == label).sum()),
            statistics.bootstrap_means(labels[labelled] == label, clusters, **options),
        )
        for label in np.unique(labels[labelled])
    )


def _sources(
    data: AlignedStudy, labels: Floats, cut: float, names: dict[float, str]
) -> tuple[ClassFinding, ...]:
    """Return for each source the AUC at every cut, its scores per class, and its best threshold."""
    units, columns, options = data.units, data.columns, data.settings.resampling
    if not columns:
        return ()
    upper = np.where(np.isnan(labels), np.nan, labels >= cut)
    stacked = np.vstack([units.columns[column] for column in columns])
    aucs = statistics.bootstrap_aucs(stacked, upper, units.clusters, **options)
    cuts = np.unique(labels[~np.isnan(labels)])[1:]
    rows = []
    for (column, name), values, auc in zip(units.labels(columns).items(), stacked, aucs, strict=True):
        line = statistics.held_out_threshold(data.oriented(column), upper, units.clusters, **options)
        rows.append(
            ClassFinding(
                name,
                tuple(ClassCut(float(at), auc if at == cut else _auc(values, labels, at)) for at in cuts),
                spreads(values, labels, names),
                _threshold(line, column in data.lower),
            )
        )
    return tuple(rows)


def spreads(values: Floats, labels: Floats, names: dict[float, str]) -> tuple[ScoreSpread, ...]:
    """Return the distribution of scores in each class."""
    return tuple(
        ScoreSpread(names[spread.label], spread.n, spread.mean, spread.sd, spread.quantiles)  # type: ignore[arg-type]
        for spread in statistics.class_distributions(values, labels)
    )


def _auc(values: Floats, labels: Floats, at: float) -> statistics.Estimate:
    """Return the AUC at another cut, without its p-value, which would assume independent turns."""
    estimate = statistics.auc(values, np.where(np.isnan(labels), np.nan, labels >= at))
    return dataclasses.replace(estimate, p=None)


def _threshold(line: statistics.Threshold, lower: bool) -> ClassThreshold:
    """Return a threshold on the source's own scale; where less is better, upper is at or below it."""
    sign = -1 if lower else 1
    value, *ends = (end if end is None else sign * end for end in (line.value, line.lowest, line.highest))
    low, high = ends[::sign]
    side: Literal["above", "below"] = "below" if lower else "above"
    return ClassThreshold(value, side, line.fitted, line.accuracy, low, high, line.folds)
