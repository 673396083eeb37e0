"""Trials of a metric's settings: how well each agrees with people, and which of them are equal but for noise.

Noise is asked of the difference, not of the two figures: two settings of one metric score the same dialogues,
so that most of what makes either figure uncertain is common to both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
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
class Settings:
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
    """One combination of fields, its correlation with people, and how far below the best one that is."""

    fields: dict[str, Any]
    spec: str
    signature: str
    figure: Estimate
    below: Estimate
    n_unscored: int
    flat: bool
    """Whether it is the best, or worse by no more than noise."""


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
    settings: Settings,
) -> Trials:
    """Correlate every trial with the gold, on the units that all of them scored.

    Args:
        scored: The scores of each trial, by its spec: one dimension, rows of one level.
        fields: The values of the tried fields, by spec.
        of: The dimension that was scored.
        gold: Ratings in one dimension.
        level: What is compared: turns or dialogues.
        settings: Statistic, intervals and seed.

    Raises:
        DataError: If fewer than five dialogues are left, or no trial has a correlation.
    """
    units = align(Scores.concat([*scored.values(), gold]), level)
    target = mean_over(units, human_columns(units, gold.dimensions[0]))
    nothing = np.full(len(units), np.nan)
    data = np.vstack([units.columns.get(Column(spec, of), nothing) for spec in scored])
    alive = ~np.isnan(data).all(axis=1)  # a trial that scored nothing has no say
    some, every = ~np.isnan(data).all(axis=0), ~np.isnan(data[alive]).any(axis=0) & alive.any()
    kept, lost = ~np.isnan(target) & every, int((~np.isnan(target) & some & ~every).sum())
    dialogues = np.unique(units.clusters[kept]).size
    if dialogues < FEWEST_CLUSTERS:
        raise DataError(
            f"{dialogues} dialogues are rated and scored in every trial, too few to choose by",
            fix=f"rate at least {FEWEST_CLUSTERS}, or try other values; do the ids of the ratings match?",
        )
    signatures = {spec: str(scores.signatures[spec]) for spec, scores in scored.items()}
    sign = -1 if better(signatures, next(iter(scored)), of) == "lower" else 1
    figures, below = _figures(sign * data[:, kept], target[kept], units.clusters[kept], settings)
    rows = [
        Trial(
            fields[spec],
            spec,
            signatures[spec],
            _turned(figure, sign),
            gap,
            sum(row.value is None for row in scored[spec]),
            gap.value is not None and (gap.value <= 1e-9 or (gap.low is not None and gap.low <= 1e-9)),
        )
        for spec, figure, gap in zip(scored, figures, below, strict=True)
    ]
    return Trials(rows, int(kept.sum()), int(dialogues), lost)


def _figures(
    data: Floats, target: Floats, clusters: Places, settings: Settings
) -> tuple[list[Estimate], list[Estimate]]:
    draw: dict[str, Any] = {"resamples": settings.resamples, "seed": settings.seed}
    figures = statistics.bootstrap_correlations(
        data, target, clusters, methods=[settings.method], confidence=settings.confidence, **draw
    )[settings.method]
    defined = [place for place, one in enumerate(figures) if one.value is not None]
    if not defined:
        raise DataError(f"no trial has a correlation with the ratings: {figures[0].reason}")
    best = max(defined, key=lambda place: figures[place].value or 0.0)
    pairs = [(best, place) for place in range(len(data))]
    below = statistics.bootstrap_differences(
        data, target, pairs, settings.method, clusters=clusters, confidence=settings.flat, **draw
    )
    return figures, below


def _turned(estimate: Estimate, sign: int) -> Estimate:
    """Give a figure back the sign it has without `better`."""
    if sign > 0 or estimate.value is None:
        return estimate
    low, high = (None if end is None else -end for end in (estimate.high, estimate.low))
    return Estimate(-estimate.value, estimate.n, low, high, estimate.p, estimate.reason)
