"""Sources beside the classes of the gold: who is in each, how each scores, and where to draw a line.

What a class is:

- If the ratings take at most ten values, the values are the classes. Of several raters the majority decides;
  a vote without a majority is settled by the setting `tie`.
- Else (sliders, means over turns) the gold is split into a lower and an upper half at its median.

The upper classes are those at or above the middle of the range: 1 of 0/1, 1 and 2 of 0/1/2, 3 to 5 of 1 to 5.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dialeval import statistics
from dialeval.studies.against_gold import plain, turned
from dialeval.studies.units import Column, Floats, Units

if TYPE_CHECKING:
    from dialeval.studies.meta_evaluation import Settings

Table = list[dict[str, Any]]
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
    settings: "Settings",
    lower: frozenset[Column],
) -> dict[str, Any]:
    """Make the tables of classes: the classes themselves, and each source beside them.

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
    table = {
        "rule": "values" if labels is not None else "halves",
        "median": None if labels is not None else _median(gold),
        "cut": cut,
        "reason": None if cut is not None else "one class" if np.isfinite(given).any() else "no ratings",
        "n_unlabelled": int((~np.isnan(gold) & np.isnan(given)).sum()),
        "classes": _members(units, given, cut, settings, named=labels is not None),
    }
    rows = [] if cut is None else _sources(units, columns, given, cut, settings, lower)
    return {"labels": table, "classes": rows}


def _median(gold: Floats) -> float | None:
    known = gold[~np.isnan(gold)]
    return float(np.median(known)) if known.size else None


def _members(units: Units, labels: Floats, cut: float | None, settings: "Settings", *, named: bool) -> Table:
    """Count the units of each class; the share of a class has an interval over dialogues."""
    known = ~np.isnan(labels)
    options = _options(settings)
    return [
        {
            "label": float(label),
            "name": f"{label:g}" if named else _HALVES[int(label)],
            "upper": None if cut is None else bool(label >= cut),
            "n": int((labels == label).sum()),
            "share": plain(
                statistics.bootstrap_means(labels[known] == label, units.clusters[known], **options)
            ),
        }
        for label in np.unique(labels[known])
    ]


def _sources(
    units: Units,
    columns: list[Column],
    labels: Floats,
    cut: float,
    settings: "Settings",
    lower: frozenset[Column],
) -> Table:
    """For each source: AUC at every cut (the chosen one with an interval), its scores per class, a line."""
    if not columns:
        return []
    names, options = units.labels(columns), _options(settings)
    upper = np.where(np.isnan(labels), np.nan, labels >= cut)
    data = np.vstack([units.columns[column] for column in columns])
    aucs = statistics.bootstrap_aucs(data, upper, units.clusters, **options)
    cuts = np.unique(labels[~np.isnan(labels)])[1:]
    rows = []
    for column, values, found in zip(columns, data, aucs, strict=True):
        line = statistics.held_out_threshold(turned(units, column, lower), upper, units.clusters, **options)
        rows.append(
            {
                "label": names[column],
                "cuts": [
                    {"at": float(at), "auc": plain(found if at == cut else _auc(values, labels, at))}
                    for at in cuts
                ],
                "distributions": [
                    {**dataclasses.asdict(one), "quantiles": list(one.quantiles)}
                    for one in statistics.class_distributions(values, labels)
                ],
                "threshold": _written(line, column in lower),
            }
        )
    return rows


def _auc(values: Floats, labels: Floats, at: float) -> statistics.Estimate:
    """The AUC at another cut, without the p-value that would take turns for independent."""
    found = statistics.auc(values, np.where(np.isnan(labels), np.nan, labels >= at))
    return dataclasses.replace(found, p=None)


def _written(line: statistics.Threshold, lower: bool) -> dict[str, Any]:
    """Write a line on the source's own scale; where less is better, upper is at or below it."""
    sign = -1 if lower else 1
    ends = [one if one is None else sign * one for one in (line.lowest, line.highest)][::sign]
    return {
        "value": None if line.value is None else sign * line.value,
        "upper": "below" if lower else "above",
        "fitted": line.fitted,
        "accuracy": plain(line.accuracy),
        "lowest": ends[0],
        "highest": ends[1],
        "folds": line.folds,
    }


def _options(settings: "Settings") -> dict[str, Any]:
    return {
        "resamples": settings.resamples,
        "confidence": settings.confidence,
        "seed": settings.seed,
        "workers": settings.workers,
    }
