"""The labels of a study, aligned with its scores, and the mean ratings estimated from them."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from msgspec.structs import replace

from dialeval import statistics
from dialeval.errors import DataError, UsageError
from dialeval.scores import Scores, is_human, overall_first
from dialeval.scores.signature import better
from dialeval.statistics import Estimate
from dialeval.statistics import prediction_powered as powered
from dialeval.statistics.estimate import Booleans
from dialeval.statistics.prediction_powered import ClusteredFigure
from dialeval.studies.notes import summarise_unscored
from dialeval.studies.trust_findings import MeanDifference, MeanEstimate
from dialeval.studies.units import (
    Column,
    Floats,
    Level,
    Units,
    align,
    human_columns,
    mean_over,
    named_columns,
    with_systems,
)

_FIX = "label dialogues drawn at random: dialeval plan chooses them"


@dataclass(frozen=True, slots=True)
class Labels:
    """The ratings of a study, aligned with its units."""

    units: Units
    raters: Floats  # units x raters
    mean: Floats
    gold: str
    dimension: str

    @property
    def labelled(self) -> Booleans:
        """The mask of units with a label."""
        return ~np.isnan(self.mean)

    @property
    def scale(self) -> tuple[float, float]:
        """The lowest and the highest rating."""
        return float(np.nanmin(self.raters)), float(np.nanmax(self.raters))


def read_labels(
    scores: Scores, gold: str = "human", level: Level | None = None, dimension: str | None = None
) -> Labels:
    """Return the ratings aligned with the scores.

    Raises:
        DataError: If there are fewer than two labels, or all are the same.
    """
    scores = with_systems(scores)
    rated = scores.where(source=is_human if gold == "human" else gold)
    n_rows, unscored = len(rated), summarise_unscored(rated)
    rated = Scores(rated.table.filter(rated.table["value"].is_valid()), rated.signatures)
    if n_rows and not len(rated):
        raise DataError(f"no rating of {gold!r} is a number: {unscored}", fix="give ratings as numbers")
    if not len(rated):
        raise DataError(f"no rating of {gold!r} among: {', '.join(scores.sources) or 'nothing'}", fix=_FIX)
    if level not in (None, "turn", "dialogue"):
        raise UsageError(f"no level {level!r}; a unit is a turn or a dialogue")
    level = level or ("dialogue" if len(rated.where(level="dialogue")) else "turn")
    at_level = rated.where(level=level)
    dimensions = (at_level if len(at_level) else rated).dimensions
    chosen = dimension or overall_first(dimensions)
    if chosen not in dimensions:
        raise UsageError(f"no rating called {chosen!r}; there are: {', '.join(dimensions)}")
    units = align(scores, level)
    columns = human_columns(units, chosen) if gold == "human" else [Column(gold, chosen)]
    raters = np.vstack([units.columns[column] for column in columns]).T
    labels = Labels(units, raters, mean_over(units, columns), gold, chosen)
    n = int(labels.labelled.sum())
    if n < 2:
        raise DataError(f"only {n} label of {chosen!r}: nothing can be estimated", fix=_FIX)
    if labels.scale[0] == labels.scale[1]:
        raise DataError(
            f"all {n} labels of {chosen!r} are {labels.scale[0]:g}: no difference can be estimated", fix=_FIX
        )
    return labels


def judged_columns(scores: Scores, labels: Labels, sources: Sequence[str] = ()) -> list[Column]:
    """Return the columns to judge: those named, or all with a good direction that are not people's."""
    units = labels.units
    columns = [
        column
        for column in units.columns
        if not is_human(column.source)
        and column.source != labels.gold
        and (sources or better(scores.signatures, *column) != "neither")
    ]
    if sources:
        columns = named_columns(units, columns, sources)
    if not columns:
        raise DataError(
            "no scores beside the ratings", fix="score the dialogues, or name a judge's table: --map"
        )
    scored = np.any([~np.isnan(units.columns[column]) for column in columns], axis=0)
    if not (labels.labelled & scored).any():
        raise DataError(
            f"none of the {labels.labelled.sum()} labelled units is among the {scored.sum()} scored ones",
            fix="the ids of ratings and dialogues must be the same",
        )
    return columns


# --- the mean rating of every system and of all, by each estimator, and their differences -------------------

MOST_PAIRS = 45
UNEVEN = 0.001  # p below which labels are not spread over systems as units are
ESTIMATORS = ("labels", "powered", "calibrated", "naive", "corrected")


@dataclass(frozen=True, slots=True)
class MeanFigures:
    """All estimates of one mean; a string is the reason that one is missing."""

    n_units: int
    n_labels: int
    labels: ClusteredFigure | str
    powered: ClusteredFigure | str
    calibrated: ClusteredFigure | str
    naive: ClusteredFigure | str
    corrected: ClusteredFigure | str


def mean_figures(
    labels: Labels, values: Floats, curve: Floats, on_scale: bool
) -> dict[str | None, MeanFigures]:
    """Return the estimates of the mean of every system, and of all systems (None)."""
    units, scored = labels.units, ~np.isnan(values)
    parts: dict[str | None, Booleans] = {
        name: np.isin(np.arange(len(units)), indices) & scored for name, indices in units.by_system().items()
    }
    by_system = {
        name: _mean(labels, values, curve, mask, on_scale) for name, mask in parts.items() if mask.any()
    }
    overall = _mean(labels, values, curve, scored, on_scale)
    if len(by_system) > 1:
        if all(isinstance(figures.powered, ClusteredFigure) for figures in by_system.values()):
            overall = _pool_systems(list(by_system.values()))
        elif uneven := _uneven_labels(labels, scored, parts):
            overall = MeanFigures(overall.n_units, overall.n_labels, *[uneven] * 5)
    return {None: overall} | (by_system if len(by_system) > 1 else {})


def _uneven_labels(labels: Labels, scored: Booleans, parts: Mapping[str | None, Booleans]) -> str | None:
    """Return a message if the labels are not spread over systems as the units are, by a chi-square test."""
    from scipy import stats

    counts = np.array([(mask & labels.labelled).sum() for mask in parts.values()])
    sizes = np.array([mask.sum() for mask in parts.values()])
    if stats.chisquare(counts, counts.sum() * sizes / sizes.sum()).pvalue >= UNEVEN:
        return None
    most = int(np.argmax(counts / np.maximum(sizes, 1)))
    return f"{counts[most]} of {counts.sum()} labels are of {list(parts)[most]}: not a sample of all systems"


def _mean(labels: Labels, values: Floats, curve: Floats, mask: Booleans, on_scale: bool) -> MeanFigures:
    clusters = labels.units.clusters
    ratings, score, fitted = (np.where(mask, values, np.nan) for values in (labels.mean, values, curve))
    n = int((mask & labels.labelled).sum())
    naive: ClusteredFigure | str = "not on the scale of the ratings"
    if on_scale:
        naive = powered.mean_of(score, clusters)
    dialogues = np.unique(clusters[mask & labels.labelled]).size
    if dialogues < powered.FEWEST:
        short = f"{dialogues} labelled dialogues: {powered.FEWEST} are needed" if n else "no label"
        return MeanFigures(int(mask.sum()), n, short, short, short, naive, short)
    if np.ptp(ratings[mask & labels.labelled]) == 0:
        same = f"all {n} labels are {ratings[mask & labels.labelled][0]:g}"
        return MeanFigures(int(mask.sum()), n, same, same, same, naive, same)
    return MeanFigures(
        int(mask.sum()),
        n,
        powered.mean_of(ratings, clusters),
        powered.prediction_powered(ratings, score, clusters),
        powered.prediction_powered(ratings, fitted, clusters, bounds=(0.0, 1.0)),
        naive,
        _corrected(labels, ratings, score),
    )


def _corrected(labels: Labels, ratings: Floats, score: Floats) -> ClusteredFigure | str:
    yes_no = all(np.isin(values[~np.isnan(values)], (0, 1)).all() for values in (labels.raters, score))
    return powered.corrected_rate(ratings, score, labels.units.clusters) if yes_no else "not yes or no"


def _pool_systems(parts: Sequence[MeanFigures]) -> MeanFigures:
    """Weight systems by their numbers of units: labels need not be spread over systems as units are."""
    total = sum(part.n_units for part in parts)

    def of(name: str) -> ClusteredFigure | str:
        figures = [getattr(part, name) for part in parts]
        if reason := next((figure for figure in figures if isinstance(figure, str)), None):
            return str(reason)
        shares = [part.n_units / total for part in parts]
        return ClusteredFigure(
            sum(s * figure.value for s, figure in zip(shares, figures, strict=True)),
            np.sum([s * figure.influence for s, figure in zip(shares, figures, strict=True)], axis=0),
            sum(figure.n for figure in figures),
            sum(figure.df for figure in figures),
            rate=all(figure.rate for figure in figures),
        )

    return MeanFigures(total, sum(part.n_labels for part in parts), *map(of, ESTIMATORS))


def mean_estimate(system: str | None, figures: MeanFigures, confidence: float) -> MeanEstimate:
    """Return the estimates of one mean as a finding."""

    def shown(figure: ClusteredFigure | str) -> Estimate:
        if isinstance(figure, str):
            return Estimate.undefined(figure, figures.n_labels)
        return dataclasses.replace(figure.estimate(confidence), p=None)  # that the mean is 0: no question

    estimates: dict[str, Any] = {name: shown(getattr(figures, name)) for name in ESTIMATORS}
    estimate = MeanEstimate(system, figures.n_units, figures.n_labels, **estimates)
    if isinstance(figures.labels, str) or isinstance(figures.powered, str):
        return estimate
    return replace(
        estimate,
        weight=figures.powered.weight,
        worth=powered.worth_in_labels(figures.labels, figures.powered),
    )


def mean_differences(
    labels: Labels, figures: Mapping[str | None, MeanFigures], confidence: float
) -> tuple[MeanDifference, ...]:
    """Compare all pairs of systems; of many systems, each with the best."""
    estimated = {
        name: figure
        for name, figure in figures.items()
        if name and isinstance(figure.powered, ClusteredFigure)
    }
    pairs = list(combinations(estimated, 2))
    if len(pairs) > MOST_PAIRS:
        best = max(estimated, key=lambda name: estimated[name].powered.value)  # type: ignore[union-attr]
        pairs = [(best, name) for name in estimated if name != best]
    members = {
        name: set(labels.units.clusters[indices].tolist())
        for name, indices in labels.units.by_system().items()
    }
    differences = []
    for pair in pairs:
        a, b = (estimated[name] for name in pair)
        shared = len(members[pair[0]] & members[pair[1]])
        is_paired = 2 * shared >= min(len(members[name]) for name in pair)
        differences.append(
            MeanDifference(
                *pair,
                is_paired,
                labels=(a.labels - b.labels).estimate(confidence),  # type: ignore[operator]
                powered=(a.powered - b.powered).estimate(confidence),  # type: ignore[operator]
            )
        )
    corrected = statistics.holm([difference.powered.p for difference in differences])
    return tuple(replace(difference, p_holm=p) for difference, p in zip(differences, corrected, strict=True))
