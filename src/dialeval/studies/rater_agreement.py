"""Agreement between raters, and the ceiling that it sets for any metric."""

from collections import Counter
from itertools import combinations
from typing import Any, Literal

import numpy as np

from dialeval import statistics
from dialeval.scores import Scores, is_human
from dialeval.statistics import METHODS, Estimate
from dialeval.studies.findings import RaterAgreement, StudySettings
from dialeval.studies.units import Floats, Key, Units, align, human_columns

_RESAMPLES = 2_000
_MOST_PAIRS = 200
_MOST_LABELS = 12
_MOST_VALUES = 200  # a slider has 101; beyond that a table of units and values grows too large


def ceiling(raters: list[Floats], units: Units, settings: StudySettings) -> dict[str, Estimate]:
    """Return by each method the correlation of one rater with the mean of the others."""
    if len(raters) < 2:
        return {}
    ratings, draws = np.vstack(raters).T, settings.resampling
    draws |= {"resamples": min(_RESAMPLES, settings.resamples), "workers": 1}
    return {method: statistics.human_ceiling(ratings, method, units.clusters, **draws) for method in METHODS}


def agreement(scores: Scores, only: Units | None, settings: StudySettings) -> tuple[RaterAgreement, ...]:
    """Return the agreement between raters for every level and dimension with at least two of them.

    Args:
        only: The units of the study, if they are a subset; other ratings are left out.
    """
    human = scores.where(source=is_human)
    rows = []
    levels: tuple[Literal["dialogue", "turn"], ...] = ("dialogue", "turn")
    for level in levels:
        rated = human.where(level=level)
        if not len(rated):
            continue
        units = align(rated, level)
        if only is not None:
            units = _shared(units, only)
        for dimension in rated.dimensions:
            columns = human_columns(units, dimension)
            if len(columns) > 1:
                ratings = np.vstack([units.columns[column] for column in columns]).T
                rows.append(_agreement_of(level, dimension, ratings, units, settings))
    return tuple(rows)


def _shared(units: Units, only: Units) -> Units:
    """Return the units that match `only` by turn, or else by dialogue or system."""

    def part(key: Key) -> object:
        if only.level == "system":
            return key.system
        return key if units.level == only.level else key[:2]

    studied = {part(key) for key in only.keys}
    return units.keep(np.array([part(key) in studied for key in units.keys], dtype=bool))


def _agreement_of(
    level: str, dimension: str, ratings: Floats, units: Units, settings: StudySettings
) -> RaterAgreement:
    present = ~np.isnan(ratings)
    counts = Counter(ratings[present].tolist())
    dominant = counts.most_common(1)[0][0] if counts else None
    interval: dict[str, Any] = {
        "clusters": units.clusters,
        "resamples": min(_RESAMPLES, settings.resamples),
        "seed": settings.seed,
    }
    few_labels = len(counts) <= _MOST_LABELS
    nothing = Estimate.undefined(f"more than {_MOST_LABELS} labels: not categories")
    fine = Estimate.undefined(f"more than {_MOST_VALUES} values: see the ceiling")
    scales: tuple[Literal["nominal", "ordinal", "interval"], ...] = ("nominal", "ordinal", "interval")
    alpha = {
        scale: statistics.agreement_interval(ratings, "krippendorff_alpha", level=scale, **interval)
        if len(counts) <= _MOST_VALUES
        else fine
        for scale in scales
    }
    return RaterAgreement(
        level,
        dimension,
        int((present.sum(axis=1) > 0).sum()),
        int(present.sum()),
        ratings.shape[1],
        {f"{label:.12g}": count for label, count in sorted(counts.items())} if few_labels else {},
        dominant,
        statistics.agreement_interval(ratings, "fleiss_kappa", **interval) if few_labels else nothing,
        statistics.fleiss_kappa(ratings, exclude=dominant) if few_labels else nothing,
        alpha,
        _mean_cohen(ratings) if few_labels else nothing,
        statistics.raw_agreement(ratings),
    )


def _mean_cohen(ratings: Floats) -> Estimate:
    """Average Cohen's kappa over the pairs of raters who share units."""
    pairs = list(combinations(ratings.T, 2))
    if len(pairs) > _MOST_PAIRS:
        return Estimate.undefined(f"more than {_MOST_PAIRS} pairs of raters")
    kappas = [statistics.cohen_kappa(*pair) for pair in pairs]
    values = [kappa.value for kappa in kappas if kappa.value is not None]
    if not values:
        return Estimate.undefined(
            next((kappa.reason for kappa in kappas if kappa.reason), None) or "no overlap"
        )
    return Estimate(float(np.mean(values)), n=len(values))
