"""Trials of a metric's fields: their correlation with ratings, and which are equal up to noise.

Noise is measured on the difference, not on the two figures: two settings of one metric score the same
dialogues, so most of the uncertainty of either figure is common to both. The largest of many uncertain
figures is partly chance, and at the edge of a good region a small error of measurement costs most. So for
numbers the middle of the flat region around the best trial is chosen, and for words that tie the first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any, Literal

import numpy as np

from dialeval import statistics
from dialeval.errors import DataError
from dialeval.scores import Scores
from dialeval.scores.signature import better
from dialeval.statistics import Estimate
from dialeval.statistics.resampling import FEWEST_CLUSTERS
from dialeval.studies.units import Column, Floats, Places, align, human_columns, mean_over

Level = Literal["turn", "dialogue"]
ONE_STANDARD_ERROR = 0.68


@dataclass(frozen=True, slots=True)
class TuningSettings:
    """How trials are compared.

    `flat` is the confidence of the interval of a difference: where it includes zero, two trials are equal but
    for noise. The default is one standard error.
    """

    method: str = "spearman"
    flat: float = ONE_STANDARD_ERROR
    resamples: int = 10_000
    confidence: float = 0.95
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """One combination of fields, its correlation with ratings, and its difference to the best one."""

    fields: dict[str, Any]
    spec: str
    signature: str
    figure: Estimate
    below: Estimate
    n_unscored: int
    flat: bool
    """True if it is the best, or worse by no more than noise."""


@dataclass(frozen=True)
class Trials:
    """All trials on the same units, which are those that every trial scored."""

    rows: list[Trial]
    n_units: int
    n_dialogues: int
    n_lost: int
    """Rated units that some trials scored and others did not."""


def compare_trials(
    scored: Mapping[str, Scores],
    fields: Mapping[str, dict[str, Any]],
    of: str,
    gold: Scores,
    level: Level,
    settings: TuningSettings,
) -> Trials:
    """Return the correlation of every trial with the gold, on the units that all of them scored.

    Args:
        scored: The scores of each trial, by its spec: one dimension, rows of one level.
        fields: The values of the tried fields, by spec.
        of: The dimension that was scored.
        gold: Ratings in one dimension.

    Raises:
        DataError: If fewer than five dialogues are left, or no trial has a correlation.
    """
    units = align(Scores.concat([*scored.values(), gold]), level)
    target = mean_over(units, human_columns(units, gold.dimensions[0]))
    nothing = np.full(len(units), np.nan)
    data = np.vstack([units.columns.get(Column(spec, of), nothing) for spec in scored])
    alive = ~np.isnan(data).all(axis=1)  # trials that scored nothing are ignored
    partial, complete = ~np.isnan(data).all(axis=0), ~np.isnan(data[alive]).any(axis=0) & alive.any()
    compared, lost = ~np.isnan(target) & complete, int((~np.isnan(target) & partial & ~complete).sum())
    dialogues = np.unique(units.clusters[compared]).size
    if dialogues < FEWEST_CLUSTERS:
        raise DataError(
            f"only {dialogues} dialogues are rated and scored in every trial",
            fix=f"rate at least {FEWEST_CLUSTERS}, or try other values; do the ids of the ratings match?",
        )
    signatures = {spec: str(scores.signatures[spec]) for spec, scores in scored.items()}
    sign = -1 if better(signatures, next(iter(scored)), of) == "lower" else 1
    figures, below = _figures(sign * data[:, compared], target[compared], units.clusters[compared], settings)
    rows = [
        Trial(
            fields[spec],
            spec,
            signatures[spec],
            figure if sign > 0 else figure.negated(),
            gap,
            sum(row.value is None for row in scored[spec]),
            gap.value is not None and (gap.value <= 1e-9 or (gap.low is not None and gap.low <= 1e-9)),
        )
        for spec, figure, gap in zip(scored, figures, below, strict=True)
    ]
    return Trials(rows, int(compared.sum()), int(dialogues), lost)


def _figures(
    data: Floats, target: Floats, clusters: Places, settings: TuningSettings
) -> tuple[list[Estimate], list[Estimate]]:
    draw: dict[str, Any] = {"resamples": settings.resamples, "seed": settings.seed}
    figures = statistics.bootstrap_correlations(
        data, target, clusters, methods=[settings.method], confidence=settings.confidence, **draw
    )[settings.method]
    defined = [place for place, figure in enumerate(figures) if figure.value is not None]
    if not defined:
        raise DataError(f"no trial has a correlation with the ratings: {figures[0].reason}")
    best = max(defined, key=lambda place: figures[place].value or 0.0)
    pairs = [(best, place) for place in range(len(data))]
    below = statistics.bootstrap_differences(
        data, target, pairs, settings.method, clusters=clusters, confidence=settings.flat, **draw
    )
    return figures, below


@dataclass(frozen=True, slots=True)
class Region:
    """The tried values of one field, those in the flat region around the best, and the chosen one."""

    field: str
    tried: tuple[Any, ...]
    flat: tuple[Any, ...]
    chosen: Any
    note: str | None = None


def flat_regions(trials: Sequence[Trial]) -> tuple[list[Region], Trial]:
    """Return a region for each field, and the best trial, which is in all of them.

    Fields with words come first: of the values whose best trial is flat, the one listed first is chosen. Then
    each number varies with the others as in the best remaining trial; its region is the values that are flat
    on either side of that trial without a gap, and the middle between the ends is chosen: it need not be a
    tried value.
    """
    left, regions = list(trials), {}
    fields = list(trials[0].fields)
    numbers = [field for field in fields if all(is_number(trial.fields[field]) for trial in trials)]
    for field in fields:
        if field not in numbers:
            regions[field] = _among_words(field, left)
            left = [trial for trial in left if trial.fields[field] == regions[field].chosen]
    best = _best(left)
    for field in numbers:
        regions[field] = _among_numbers(field, best, left)
    return [regions[field] for field in fields], best


def is_number(value: object) -> bool:
    """Return whether a value is a number and not a boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def middle(low: float, high: float) -> float:
    """Return the middle of two numbers; an integer between integers.

    >>> middle(0.05, 0.3), middle(10, 45), middle(0.1, 0.1)
    (0.175, 28, 0.1)
    """
    if isinstance(low, int) and isinstance(high, int):
        return floor((low + high) / 2 + 0.5)
    return float(f"{(low + high) / 2:.6g}")


def _best(trials: Sequence[Trial]) -> Trial:
    """Return the trial closest to the best of all; the first of equal ones."""
    return min(trials, key=lambda trial: float("inf") if trial.below.value is None else trial.below.value)


def _among_words(field: str, trials: Sequence[Trial]) -> Region:
    tried = tuple(dict.fromkeys(trial.fields[field] for trial in trials))
    flat = tuple(
        value for value in tried if _best([trial for trial in trials if trial.fields[field] == value]).flat
    )
    note = "ties: the one listed first" if len(flat) > 1 else None
    return Region(field, tried, flat, flat[0], note)


def _among_numbers(field: str, best: Trial, trials: Sequence[Trial]) -> Region:
    other_fields = [name for name in best.fields if name != field]
    line = [
        trial for trial in trials if all(trial.fields[name] == best.fields[name] for name in other_fields)
    ]
    line.sort(key=lambda trial: trial.fields[field])
    low = high = line.index(best)
    while low > 0 and line[low - 1].flat:
        low -= 1
    while high < len(line) - 1 and line[high + 1].flat:
        high += 1
    tried = tuple(trial.fields[field] for trial in line)
    return Region(
        field, tried, tried[low : high + 1], middle(tried[low], tried[high]), _ends(low, high, len(line))
    )


def _ends(low: int, high: int, count: int) -> str | None:
    """Return a note if a region reaches an end of the tried values."""
    if count == 1:
        return None
    if low == 0 and high == count - 1:
        return "everything tried is flat: the middle is that of the values given"
    ends = [name for name, there in (("lowest", low == 0), ("highest", high == count - 1)) if there]
    return f"reaches the {ends[0]} value tried" if ends else None
