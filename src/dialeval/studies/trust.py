"""How far can a number be trusted? Few ratings and many scores in, a verdict for each source out.

Four questions: what is the true mean (`labels`), may the source replace a rater (`_replacement`), where
does it fail (`biases`), how sure is it of one dialogue (conformal). Words: `trust_findings`.
Labels must be a random sample of the units; whether they look like one is tested and said.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from dialeval import statistics
from dialeval.scores import Score, Scores, Signature, is_human
from dialeval.scores.signature import better
from dialeval.statistics import Estimate
from dialeval.statistics import alternative_annotator as annotators
from dialeval.statistics import prediction_powered as powered
from dialeval.statistics.prediction_powered import conformal_intervals
from dialeval.statistics.resampling import Draws
from dialeval.studies.biases import Traits, find_biases, find_disagreements
from dialeval.studies.labels import (
    Labels,
    judged_columns,
    mean_differences,
    mean_estimate,
    mean_figures,
    read_labels,
)
from dialeval.studies.trust_findings import JudgeAgreement, RaterReplacement, SourceTrust, Trust, words
from dialeval.studies.units import Column, Floats, Level

MOST_LABELS = 12  # of a scale whose values are categories


def trust(
    scores: Scores,
    gold: str = "human",
    level: Level | None = None,
    *,
    dimension: str | None = None,
    sources: Sequence[str] = (),
    traits: Traits | None = None,
    epsilon: float = annotators.EPSILONS["expert"],
    confidence: float = 0.95,
    seed: int = 0,
) -> Trust:
    """Say of every source how far it can be trusted.

    Args:
        scores: Scores of all units and ratings of some, in one table.
        gold: What to believe: `human` (mean over raters), or the name of a source (a verified outcome).
        level: `turn` or `dialogue`; by default the one that was rated.
        dimension: Which rating.
        sources: Only these.
        traits: What a score might follow beside quality.
        epsilon: What a rater costs, for the alternative annotator test.
        confidence: Of all intervals.
        seed: Of folds and draws.

    Raises:
        DataError: If the labels say nothing: none, one, or all the same.
    """
    labels = read_labels(scores, gold, level, dimension)
    columns = judged_columns(scores, labels, sources)
    named = labels.units.labels(columns)
    ceiling = _ceiling(labels, confidence, seed)
    found = tuple(
        _source(labels, column, named[column], scores.signatures, traits or {}, epsilon, confidence, seed)
        for column in columns
    )
    return Trust(
        gold=gold,
        dimension=labels.dimension,
        level=labels.units.level,
        confidence=confidence,
        n_units=len(labels.units),
        n_labels=int(labels.known.sum()),
        raters=labels.raters.shape[1],
        lowest=labels.scale[0],
        highest=labels.scale[1],
        ceiling=ceiling,
        sources=tuple(replace(one, **words(one, labels.dimension)) for one in found),
        signatures={name: str(made) for name, made in scores.signatures.items() if not is_human(name)},
        notes=tuple(_notes(labels, columns)),
    )


def predict_ratings(
    scores: Scores, gold: str = "human", level: Level | None = None, **options: Any
) -> Scores:
    """Predict the rating of every unlabelled unit, with a conformal interval: `rating`, `low` and `high`.

    Rows of a source are called `<label>:calibrated`. What scores beyond the labelled ones is unscored.
    """
    confidence, seed = options.pop("confidence", 0.95), options.pop("seed", 0)
    labels = read_labels(scores, gold, level, options.pop("dimension", None))
    columns = judged_columns(scores, labels, options.pop("sources", ()))
    rows: list[Score] = []
    for column, name in labels.units.labels(columns).items():
        values = labels.units.columns[column]
        if (labels.known & ~np.isnan(values)).sum() < 2:
            continue
        clusters = labels.units.clusters
        low, high, half = conformal_intervals(labels.mean, values, clusters, confidence=confidence, seed=seed)
        note = "too few labels" if half is None else "unscored, or beyond the labelled scores"
        for place in np.flatnonzero(~labels.known).tolist():
            key = labels.units.keys[place]
            ends = {"rating": (low[place] + high[place]) / 2, "low": low[place], "high": high[place]}
            for dimension, value in ends.items():
                told = (None, note) if np.isnan(value) else (float(value), None)
                rows.append(
                    Score(key.dialogue_id, key.turn, key.system, f"{name}:calibrated", dimension, *told)
                )
    fields = {"gold": gold, "dimension": labels.dimension, "confidence": confidence}
    signature = Signature("calibrated.v1", tuple((name, str(value)) for name, value in fields.items()))
    return Scores.of(rows, dict.fromkeys({row.source for row in rows}, signature))


def _notes(labels: Labels, columns: Sequence[Column]) -> list[str]:
    units = labels.units
    scored = np.any([~np.isnan(units.columns[column]) for column in columns], axis=0)
    lost = np.flatnonzero(labels.known & ~scored)
    said = []
    if lost.size:
        name = units.keys[int(lost[0])].dialogue_id
        said.append(
            f"{lost.size} labels, such as that of {name!r}, are of units that no source scored: left out"
        )
    if bare := [name for name, own in units.by_system().items() if not labels.known[own].any()]:
        said.append(f"no label of {', '.join(bare)}: nothing is said of it")
    return said


def _ceiling(labels: Labels, confidence: float, seed: int) -> Estimate:
    if labels.raters.shape[1] < 2:
        return Estimate.undefined("one rater")
    draws: Draws = {"resamples": 1_000, "confidence": confidence, "seed": seed}
    return statistics.human_ceiling(labels.raters, "pearson", labels.units.clusters, **draws)


def _source(
    labels: Labels,
    column: Column,
    label: str,
    signatures: Mapping[str, Signature],
    traits: Traits,
    epsilon: float,
    confidence: float,
    seed: int,
) -> SourceTrust:
    """Find everything about one source."""
    values = labels.units.columns[column]
    scored = ~np.isnan(values)
    both = labels.known & scored
    made = SourceTrust(
        *column,
        label,
        "",
        n_labels=int(both.sum()),
        n_scored=int(scored.sum()),
        n_unscored=int((~scored).sum()),
    )
    clusters = labels.units.clusters
    n = np.unique(clusters[both]).size
    if n < powered.FEWEST:
        what = "scores none of the labelled units" if n == 0 else f"shares only {n} dialogues with the labels"
        return replace(made, usable=False, verdict=f"{label} {what}: nothing can be said (10 are needed)")
    if np.ptp(values[both]) == 0:
        same = f"gives every labelled unit {values[both][0]:g}"
        return replace(made, usable=False, verdict=f"{label} {same}: nothing can be said")
    sign = -1.0 if better(signatures, *column) == "lower" else 1.0
    beyond, excluded = powered.outside(labels.mean, values)
    used = np.where(beyond & excluded, np.nan, values)
    curve = powered.calibrated(labels.mean, sign * used, clusters, seed=seed)
    on_scale = sign > 0 and _on_scale(labels, values, signatures.get(column.source))
    figures = mean_figures(labels, used, curve, on_scale)
    draws: Draws = {"resamples": 1_000, "confidence": confidence, "seed": seed}
    correlation = statistics.bootstrap_correlations(
        [values], labels.mean, clusters, methods=["pearson"], **draws
    )["pearson"][0]
    return replace(
        made,
        correlation=correlation,
        estimates=tuple(mean_estimate(name, one, confidence) for name, one in figures.items()),
        differences=mean_differences(labels, figures, confidence),
        replacement=_replacement(labels, values if on_scale else curve, epsilon),
        agreement=_agreement(labels, values, confidence, seed),
        calibration=tuple(statistics.calibration(values, labels.mean, 5, confidence)),
        biases=find_biases(labels, values if on_scale else _alike(sign * values, labels), traits, confidence),
        disagreements=find_disagreements(labels, values, curve),
        outside=int(beyond.sum()),
        excluded=excluded,
        typical=_typical(labels, values),
        half_width=conformal_intervals(labels.mean, values, clusters, confidence=confidence, seed=seed)[2],
    )


# --- the rater ----------------------------------------------------------------------------------------------


def _replacement(labels: Labels, said: Floats, epsilon: float) -> RaterReplacement | None:
    if labels.raters.shape[1] < 2:
        return None
    values = np.unique(labels.raters[~np.isnan(labels.raters)])
    is_label = values.size == 2 and np.isin(said[~np.isnan(said)], values).all()
    options: dict[str, Any] = {"alignment": "accuracy" if is_label else "distance", "epsilon": epsilon}
    clusters, raters = labels.units.clusters, np.where(np.isnan(said)[:, None], np.nan, labels.raters)
    found = annotators.alternative_annotator(said, raters, clusters, **options)
    constant = annotators.floor(raters, clusters, **options)
    ours, theirs = ((one.winning_rate, one.advantage) for one in (found, constant))
    return RaterReplacement(*ours, epsilon, found.alignment, len(found.raters), *theirs, found.reason)


def _agreement(labels: Labels, values: Floats, confidence: float, seed: int) -> JudgeAgreement | None:
    """Return how far the judge agrees with each rater, where both use the same labels."""
    people = labels.raters[~np.isnan(labels.raters)]
    if np.unique(people).size > MOST_LABELS or not np.isin(values[~np.isnan(values)], people).all():
        return None
    shared = [np.column_stack([values, rater])[~np.isnan(values + rater)] for rater in labels.raters.T]
    pairs = np.concatenate(shared)
    places = [labels.units.clusters[~np.isnan(values + rater)] for rater in labels.raters.T]
    options: Draws = {"resamples": 1_000, "confidence": confidence, "seed": seed}
    ac1, alpha, raw = (
        statistics.agreement_interval(pairs, name, np.concatenate(places), **options)
        for name in ("gwet_ac", "krippendorff_alpha", "raw_agreement")
    )
    shares = [
        {f"{label:g}": float(np.mean(side == label)) for label in np.unique(pairs)} for side in pairs.T[::-1]
    ]
    return JudgeAgreement(len(pairs), ac1, alpha, raw, *shares)


def _on_scale(labels: Labels, values: Floats, made: Signature | None) -> bool:
    """Whether a score is meant as a rating: a judge's or somebody's column, on the range of the ratings."""
    low, high = labels.scale
    lowest, highest = float(np.nanmin(values)), float(np.nanmax(values))
    is_judge = made is None or made.name.startswith(("column.", "judge."))
    return is_judge and low <= lowest and highest <= high and 2 * (highest - lowest) >= high - low


def _alike(values: Floats, labels: Labels) -> Floats:
    """Give scores the mean and spread of the ratings; a regression would pull systems together."""
    both = labels.known & ~np.isnan(values)
    own, given = values[both], labels.mean[both]
    return np.asarray(given.mean() + (values - own.mean()) * np.std(given) / np.std(own))


def _typical(labels: Labels, values: Floats) -> float | None:
    """Return the p-value of labelled and unlabelled units having the same mean score."""
    sides = [np.where(own, values, np.nan) for own in (labels.known, ~labels.known)]
    if any((~np.isnan(side)).sum() < 2 for side in sides):
        return None
    a, b = (powered.mean_of(side, labels.units.clusters) for side in sides)
    return (a - b).estimate().p
