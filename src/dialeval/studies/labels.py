"""The labels of a study, aligned with all that was scored, and the mean ratings estimated from them."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from msgspec.structs import replace

from dialeval import statistics
from dialeval.errors import DataError, UsageError
from dialeval.scores import Scores, is_human
from dialeval.scores.signature import better
from dialeval.statistics import Estimate
from dialeval.statistics import prediction_powered as powered
from dialeval.statistics.estimate import Booleans
from dialeval.statistics.prediction_powered import ClusteredFigure
from dialeval.studies.notes import said_instead
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
    def known(self) -> Booleans:
        """Which units have a label."""
        return ~np.isnan(self.mean)

    @property
    def scale(self) -> tuple[float, float]:
        """The lowest and the highest rating."""
        return float(np.nanmin(self.raters)), float(np.nanmax(self.raters))


def read_labels(
    scores: Scores, gold: str = "human", level: Level | None = None, dimension: str | None = None
) -> Labels:
    """Read the ratings, and refuse those that say nothing."""
    scores = with_systems(scores)
    rated = scores.where(source=is_human if gold == "human" else gold)
    given, said = len(rated), said_instead(rated)
    rated = Scores(rated.table.filter(rated.table["value"].is_valid()), rated.signatures)
    if given and not len(rated):
        raise DataError(f"no rating of {gold!r} is a number: {said}", fix="give ratings as numbers")
    if not len(rated):
        raise DataError(f"no rating of {gold!r} among: {', '.join(scores.sources) or 'nothing'}", fix=_FIX)
    if level not in (None, "turn", "dialogue"):
        raise UsageError(f"no level {level!r}; a unit is a turn or a dialogue")
    level = level or ("dialogue" if len(rated.where(level="dialogue")) else "turn")
    own = rated.where(level=level)
    known = (own if len(own) else rated).dimensions
    chosen = dimension or next(name for name in ("overall", "quality", *known) if name in known)
    if chosen not in known:
        raise UsageError(f"no rating called {chosen!r}; there are: {', '.join(known)}")
    units = align(scores, level)
    columns = human_columns(units, chosen) if gold == "human" else [Column(gold, chosen)]
    raters = np.vstack([units.columns[column] for column in columns]).T
    labels = Labels(units, raters, mean_over(units, columns), gold, chosen)
    n = int(labels.known.sum())
    if n < 2:
        raise DataError(f"{n} label of {chosen!r}: nothing can be said from it", fix=_FIX)
    if labels.scale[0] == labels.scale[1]:
        raise DataError(
            f"all {n} labels of {chosen!r} are {labels.scale[0]:g}: nothing can be said of what differs",
            fix=_FIX,
        )
    return labels


def judged_columns(scores: Scores, labels: Labels, sources: Sequence[str] = ()) -> list[Column]:
    """Return what is judged: all columns but people's, those that are neither good nor bad, and spreads."""
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
    if not (labels.known & scored).any():
        raise DataError(
            f"none of the {labels.known.sum()} labelled units is among the {scored.sum()} scored ones",
            fix="the ids of ratings and dialogues must be the same",
        )
    return columns


# --- the mean rating of every system and of all, each way it can be estimated, and their differences --------

MOST_PAIRS = 45
UNEVEN = 0.001  # p below which labels are not spread over systems as units are


@dataclass(frozen=True, slots=True)
class MeanFigures:
    """All estimates of one mean; text is the reason that one is missing."""

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
    """Estimate the mean of every system, and of all."""
    units, scored = labels.units, ~np.isnan(values)
    parts: dict[str | None, Booleans] = {}
    for name, own in units.by_system().items():
        parts[name] = np.isin(np.arange(len(units)), own) & scored
    made = {name: _mean(labels, values, curve, own, on_scale) for name, own in parts.items() if own.any()}
    every = _mean(labels, values, curve, scored, on_scale)
    if len(made) > 1:
        if all(isinstance(one.powered, ClusteredFigure) for one in made.values()):
            every = _together(list(made.values()))
        elif uneven := _uneven(labels, scored, parts):
            every = MeanFigures(every.n_units, every.n_labels, *[uneven] * 5)
    return {None: every} | (made if len(made) > 1 else {})


def _uneven(labels: Labels, scored: Booleans, parts: Mapping[str | None, Booleans]) -> str | None:
    """Say so if labels are not spread over systems as the units are: their mean is that of other systems."""
    from scipy import stats

    counts = np.array([(own & labels.known).sum() for own in parts.values()])
    sizes = np.array([own.sum() for own in parts.values()])
    if stats.chisquare(counts, counts.sum() * sizes / sizes.sum()).pvalue >= UNEVEN:
        return None
    most = int(np.argmax(counts / np.maximum(sizes, 1)))
    return f"{counts[most]} of {counts.sum()} labels are of {list(parts)[most]}: no sample of all systems"


def _mean(labels: Labels, values: Floats, curve: Floats, own: Booleans, on_scale: bool) -> MeanFigures:
    clusters = labels.units.clusters
    given, score, fitted = (np.where(own, each, np.nan) for each in (labels.mean, values, curve))
    n = int((own & labels.known).sum())
    naive: ClusteredFigure | str = "not on the scale of the ratings"
    if on_scale:
        naive = powered.mean_of(score, clusters)
    dialogues = np.unique(clusters[own & labels.known]).size
    if dialogues < powered.FEWEST:
        short = f"{dialogues} labelled dialogues: {powered.FEWEST} are needed" if n else "no label"
        return MeanFigures(int(own.sum()), n, short, short, short, naive, short)
    if np.ptp(given[own & labels.known]) == 0:
        same = f"all {n} labels are {given[own & labels.known][0]:g}"
        return MeanFigures(int(own.sum()), n, same, same, same, naive, same)
    return MeanFigures(
        int(own.sum()),
        n,
        powered.mean_of(given, clusters),
        powered.prediction_powered(given, score, clusters),
        powered.prediction_powered(given, fitted, clusters, bounds=(0.0, 1.0)),
        naive,
        _corrected(labels, given, score),
    )


def _corrected(labels: Labels, given: Floats, score: Floats) -> ClusteredFigure | str:
    yes_no = all(np.isin(each[~np.isnan(each)], (0, 1)).all() for each in (labels.raters, score))
    return powered.corrected_rate(given, score, labels.units.clusters) if yes_no else "not yes or no"


def _together(parts: Sequence[MeanFigures]) -> MeanFigures:
    """Put systems together by their numbers of units: labels need not be spread as they are."""
    total = sum(one.n_units for one in parts)

    def of(name: str) -> ClusteredFigure | str:
        each = [getattr(one, name) for one in parts]
        if reason := next((one for one in each if isinstance(one, str)), None):
            return str(reason)
        shares = [one.n_units / total for one in parts]
        return ClusteredFigure(
            sum(s * one.value for s, one in zip(shares, each, strict=True)),
            np.sum([s * one.pulls for s, one in zip(shares, each, strict=True)], axis=0),
            sum(one.n for one in each),
            sum(one.df for one in each),
            rate=all(one.rate for one in each),
        )

    names = ("labels", "powered", "calibrated", "naive", "corrected")
    return MeanFigures(total, sum(one.n_labels for one in parts), *(of(name) for name in names))


def mean_estimate(system: str | None, one: MeanFigures, confidence: float) -> MeanEstimate:
    """Write the figures of one mean as a finding."""

    def shown(each: ClusteredFigure | str) -> Estimate:
        if isinstance(each, str):
            return Estimate.undefined(each, one.n_labels)
        return dataclasses.replace(each.estimate(confidence), p=None)  # nobody asks whether a mean is 0

    made = MeanEstimate(
        system,
        one.n_units,
        one.n_labels,
        labels=shown(one.labels),
        powered=shown(one.powered),
        calibrated=shown(one.calibrated),
        naive=shown(one.naive),
        corrected=shown(one.corrected),
    )
    if isinstance(one.labels, str) or isinstance(one.powered, str):
        return made
    return replace(made, weight=one.powered.weight, worth=powered.worth_in_labels(one.labels, one.powered))


def mean_differences(
    labels: Labels, figures: Mapping[str | None, MeanFigures], confidence: float
) -> tuple[MeanDifference, ...]:
    """Compare all pairs of systems, or of many each with the best."""
    known = {name: one for name, one in figures.items() if name and isinstance(one.powered, ClusteredFigure)}
    pairs = list(combinations(known, 2))
    if len(pairs) > MOST_PAIRS:
        best = max(known, key=lambda name: known[name].powered.value)  # type: ignore[union-attr]
        pairs = [(best, name) for name in known if name != best]
    members = {
        name: set(labels.units.clusters[own].tolist()) for name, own in labels.units.by_system().items()
    }
    made = []
    for pair in pairs:
        a, b = (known[name] for name in pair)
        shared = len(members[pair[0]] & members[pair[1]])
        is_paired = 2 * shared >= min(len(members[name]) for name in pair)
        made.append(
            MeanDifference(
                *pair,
                is_paired,
                labels=(a.labels - b.labels).estimate(confidence),  # type: ignore[operator]
                powered=(a.powered - b.powered).estimate(confidence),  # type: ignore[operator]
            )
        )
    corrected = statistics.holm([one.powered.p for one in made])
    return tuple(replace(one, p_holm=p) for one, p in zip(made, corrected, strict=True))
