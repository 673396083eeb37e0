"""How far people agree: the agreement panel, and the ceiling that sets for any metric."""

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dialeval import statistics
from dialeval.scores import Scores, is_human
from dialeval.statistics import METHODS, Estimate
from dialeval.studies.against_gold import plain
from dialeval.studies.units import Floats, Key, Units, align, human_columns

if TYPE_CHECKING:
    from dialeval.studies.meta_evaluation import Settings

Table = list[dict[str, Any]]
_RESAMPLES = 2_000
_MOST_PAIRS = 200
_MOST_LABELS = 12
_MOST_VALUES = 200  # a slider has 101; beyond that a table of units and values grows too large


def ceiling(raters: list[Floats], units: Units, settings: "Settings") -> Table:
    """One rater against the mean of the others, by each method: what a person would get as a metric."""
    if len(raters) < 2:
        return []
    ratings = np.vstack(raters).T
    return [
        {
            "method": method,
            "ceiling": plain(
                statistics.human_ceiling(
                    ratings,
                    method,
                    clusters=units.clusters,
                    resamples=min(_RESAMPLES, settings.resamples),
                    confidence=settings.confidence,
                    seed=settings.seed,
                )
            ),
        }
        for method in METHODS
    ]


def agreement(scores: Scores, only: Units | None, settings: "Settings") -> Table:
    """Agreement between raters, for every level and dimension that at least two of them rated.

    Args:
        scores: All scores.
        only: The units of the study, if they are a part of all; ratings of other ones do not count.
        settings: Those of the study.
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
                rows.append({"level": level, "dimension": dimension, **_panel(ratings, units, settings)})
    return rows


def _shared(units: Units, only: Units) -> Units:
    """Keep what belongs to the other units too: the same turn, or else the same dialogue or system."""

    def part(key: Key) -> object:
        if only.level == "system":
            return key.system
        return key if units.level == only.level else key[:2]

    known = {part(key) for key in only.keys}
    return units.keep(np.array([part(key) in known for key in units.keys], dtype=bool))


def _panel(ratings: Floats, units: Units, settings: "Settings") -> dict[str, Any]:
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
    fine = Estimate.undefined(f"more than {_MOST_VALUES} values: look at the ceiling")
    return {
        "n_units": int((present.sum(axis=1) > 0).sum()),
        "n_ratings": int(present.sum()),
        "raters": ratings.shape[1],
        "labels": {f"{label:.12g}": count for label, count in sorted(counts.items())} if few_labels else {},
        "dominant": dominant,
        "fleiss": plain(
            statistics.agreement_interval(ratings, "fleiss_kappa", **interval) if few_labels else nothing
        ),
        "fleiss_without_dominant": plain(
            statistics.fleiss_kappa(ratings, exclude=dominant) if few_labels else nothing
        ),
        "alpha": {
            level: plain(
                statistics.agreement_interval(ratings, "krippendorff_alpha", level=level, **interval)
                if len(counts) <= _MOST_VALUES
                else fine
            )
            for level in ("nominal", "ordinal", "interval")
        },
        "cohen": plain(_mean_cohen(ratings) if few_labels else nothing),
        "raw": plain(statistics.raw_agreement(ratings)),
    }


def _mean_cohen(ratings: Floats) -> Estimate:
    """Average Cohen's kappa over the pairs of raters who share units."""
    raters = range(ratings.shape[1])
    pairs = [(a, b) for a in raters for b in raters if a < b]
    if len(pairs) > _MOST_PAIRS:
        return Estimate.undefined(f"more than {_MOST_PAIRS} pairs of raters")
    found = [statistics.cohen_kappa(ratings[:, a], ratings[:, b]) for a, b in pairs]
    values = [one.value for one in found if one.value is not None]
    if not values:
        return Estimate.undefined(next((one.reason for one in found if one.reason), None) or "no overlap")
    return Estimate(float(np.mean(values)), n=len(values))
