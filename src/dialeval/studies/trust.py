"""How far each source can be trusted, from few ratings and many scores.

Four questions: what is the true mean (`labels`), may the source replace a rater (`_replacement`), where
does it fail (`biases`), how precise is it for one dialogue (conformal intervals). The sentences are in
`trust_findings`. Labels must be a random sample of the units; that is tested and reported.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
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
from dialeval.studies.trust_findings import JudgeAgreement, RaterReplacement, SourceTrust, Trust, with_verdict
from dialeval.studies.units import Column, Floats, Level, score_rows

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
    """Return for every source how far it can be trusted.

    Args:
        scores: Scores of all units and ratings of some, in one table.
        gold: The labels: `human` (mean over raters), or the name of a source (a verified outcome).
        level: `turn` or `dialogue`; by default the level of the labels.
        traits: Traits that a score might depend on besides quality.
        epsilon: The cost of a rater, for the alternative annotator test.

    Raises:
        DataError: If there are fewer than two labels, or all are the same.
    """
    labels = read_labels(scores, gold, level, dimension)
    columns = judged_columns(scores, labels, sources)
    named = labels.units.labels(columns)
    ceiling = _ceiling(labels, confidence, seed)
    results = tuple(
        _source(labels, column, named[column], scores.signatures, traits or {}, epsilon, confidence, seed)
        for column in columns
    )
    return Trust(
        gold=gold,
        dimension=labels.dimension,
        level=labels.units.level,
        confidence=confidence,
        n_units=len(labels.units),
        n_labels=int(labels.labelled.sum()),
        raters=labels.raters.shape[1],
        lowest=labels.scale[0],
        highest=labels.scale[1],
        ceiling=ceiling,
        sources=tuple(with_verdict(source, labels.dimension) for source in results),
        signatures={
            name: str(signature) for name, signature in scores.signatures.items() if not is_human(name)
        },
        notes=tuple(_notes(labels, columns)),
    )


def predict_ratings(
    scores: Scores, gold: str = "human", level: Level | None = None, **options: Any
) -> Scores:
    """Predict the rating of every unlabelled unit, with a conformal interval: `rating`, `low` and `high`.

    The new sources are called `<label>:calibrated`. Units outside the range of labelled scores are unscored.
    """
    confidence, seed = options.pop("confidence", 0.95), options.pop("seed", 0)
    labels = read_labels(scores, gold, level, options.pop("dimension", None))
    columns = judged_columns(scores, labels, options.pop("sources", ()))
    rows: list[Score] = []
    for column, name in labels.units.labels(columns).items():
        values = labels.units.columns[column]
        if (labels.labelled & ~np.isnan(values)).sum() < 2:
            continue
        clusters = labels.units.clusters
        low, high, half = conformal_intervals(labels.mean, values, clusters, confidence=confidence, seed=seed)
        note = "too few labels" if half is None else "unscored, or outside the range of labelled scores"
        unlabelled = ~labels.labelled
        keys = labels.units.keep(unlabelled).keys
        ends = {"rating": (low + high) / 2, "low": low, "high": high}
        parts = (score_rows(keys, e[unlabelled], f"{name}:calibrated", d, note) for d, e in ends.items())
        rows += chain.from_iterable(zip(*parts, strict=True))
    fields = {"gold": gold, "dimension": labels.dimension, "confidence": confidence}
    signature = Signature("calibrated.v1", tuple((name, str(value)) for name, value in fields.items()))
    return Scores.of(rows, dict.fromkeys({row.source for row in rows}, signature))


def _notes(labels: Labels, columns: Sequence[Column]) -> list[str]:
    units = labels.units
    scored = np.any([~np.isnan(units.columns[column]) for column in columns], axis=0)
    lost = np.flatnonzero(labels.labelled & ~scored)
    notes = []
    if lost.size:
        name = units.keys[int(lost[0])].dialogue_id
        notes.append(
            f"{lost.size} labels (for example of {name!r}) are left out: no source scored those units"
        )
    if unlabelled := [
        name for name, indices in units.by_system().items() if not labels.labelled[indices].any()
    ]:
        notes.append(f"no labels of {', '.join(unlabelled)}: no estimate")
    return notes


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
    """Return the findings about one source."""
    values = labels.units.columns[column]
    scored = ~np.isnan(values)
    both = labels.labelled & scored
    result = SourceTrust(
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
        problem = f"shares only {n} dialogues with the labels" if n else "scores none of the labelled units"
        return replace(result, usable=False, verdict=f"{label} {problem}: no estimate (10 are needed)")
    if np.ptp(values[both]) == 0:
        same = f"gives every labelled unit {values[both][0]:g}"
        return replace(result, usable=False, verdict=f"{label} {same}: no estimate")
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
        result,
        correlation=correlation,
        estimates=tuple(mean_estimate(name, figure, confidence) for name, figure in figures.items()),
        differences=mean_differences(labels, figures, confidence),
        replacement=_replacement(labels, values if on_scale else curve, epsilon),
        agreement=_agreement(labels, values, confidence, seed),
        calibration=tuple(statistics.calibration(values, labels.mean, 5, confidence)),
        biases=find_biases(
            labels, values if on_scale else _match_mean_and_sd(sign * values, labels), traits, confidence
        ),
        disagreements=find_disagreements(labels, values, curve),
        outside=int(beyond.sum()),
        excluded=excluded,
        typical=_typical(labels, values),
        half_width=conformal_intervals(labels.mean, values, clusters, confidence=confidence, seed=seed)[2],
    )


def _replacement(labels: Labels, predictions: Floats, epsilon: float) -> RaterReplacement | None:
    if labels.raters.shape[1] < 2:
        return None
    values = np.unique(labels.raters[~np.isnan(labels.raters)])
    is_label = values.size == 2 and np.isin(predictions[~np.isnan(predictions)], values).all()
    options: dict[str, Any] = {"alignment": "accuracy" if is_label else "distance", "epsilon": epsilon}
    clusters, raters = labels.units.clusters, np.where(np.isnan(predictions)[:, None], np.nan, labels.raters)
    result = annotators.alternative_annotator(predictions, raters, clusters, **options)
    constant = annotators.floor(raters, clusters, **options)
    ours, theirs = ((test.winning_rate, test.advantage) for test in (result, constant))
    return RaterReplacement(*ours, epsilon, result.alignment, len(result.raters), *theirs, result.reason)


def _agreement(labels: Labels, values: Floats, confidence: float, seed: int) -> JudgeAgreement | None:
    """Return the agreement of the judge with each rater, if both use the same labels."""
    people = labels.raters[~np.isnan(labels.raters)]
    if np.unique(people).size > MOST_LABELS or not np.isin(values[~np.isnan(values)], people).all():
        return None
    shared = [np.column_stack([values, rater])[~np.isnan(values + rater)] for rater in labels.raters.T]
    pairs = np.concatenate(shared)
    clusters = [labels.units.clusters[~np.isnan(values + rater)] for rater in labels.raters.T]
    options: Draws = {"resamples": 1_000, "confidence": confidence, "seed": seed}
    ac1, alpha, raw = (
        statistics.agreement_interval(pairs, name, np.concatenate(clusters), **options)
        for name in ("gwet_ac", "krippendorff_alpha", "raw_agreement")
    )
    shares = [
        {f"{label:g}": float(np.mean(side == label)) for label in np.unique(pairs)} for side in pairs.T[::-1]
    ]
    return JudgeAgreement(len(pairs), ac1, alpha, raw, *shares)


def _on_scale(labels: Labels, values: Floats, signature: Signature | None) -> bool:
    """Return whether a judge's or foreign column is on the scale of the ratings."""
    low, high = labels.scale
    lowest, highest = float(np.nanmin(values)), float(np.nanmax(values))
    is_judge = signature is None or signature.name.startswith(("column.", "judge."))
    return is_judge and low <= lowest and highest <= high and 2 * (highest - lowest) >= high - low


def _match_mean_and_sd(values: Floats, labels: Labels) -> Floats:
    """Rescale scores to mean and sd of the ratings; regression would shrink differences between systems."""
    both = labels.labelled & ~np.isnan(values)
    scores, ratings = values[both], labels.mean[both]
    return np.asarray(ratings.mean() + (values - scores.mean()) * np.std(ratings) / np.std(scores))


def _typical(labels: Labels, values: Floats) -> float | None:
    """Return the p-value of the difference in mean score between labelled and unlabelled units."""
    sides = [np.where(mask, values, np.nan) for mask in (labels.labelled, ~labels.labelled)]
    if any((~np.isnan(side)).sum() < 2 for side in sides):
        return None
    a, b = (powered.mean_of(side, labels.units.clusters) for side in sides)
    return (a - b).estimate().p
