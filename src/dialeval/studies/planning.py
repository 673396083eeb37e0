"""Plans for labelling: how many labels show a difference, which dialogues to label, false alarms of `check`.

The precision of a label (`statistics.power.Precision`) is estimated from a pilot study, or assumed.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import NormalDist
from typing import Any, Literal

import msgspec
import numpy as np

from dialeval import statistics
from dialeval.errors import DataError, UsageError
from dialeval.scores import Scores, is_human
from dialeval.statistics import Estimate
from dialeval.statistics.power import Precision
from dialeval.statistics.prediction_powered import FEWEST, mean_of
from dialeval.studies.findings import Finding
from dialeval.studies.labels import judged_columns, read_labels
from dialeval.studies.units import Floats, Key, Units, align, mean_over, with_systems
from dialeval.studies.versions import check

SIZES = (25, 50, 100, 200, 400, 800)
SPLITS = 200


class LabelsNeeded(Finding, frozen=True):
    """The number of labels per system that a plan needs, with one judge or without.

    Attributes:
        label: The judge; None for labels alone.
        correlation: The correlation of the judge with the labels, within systems.
        labels: The number that shows the difference with the required power; None if no number does.
        enough: Whether there are that many dialogues.
        reach: By number of labels, half the width of the interval of one system's mean.
    """

    label: str | None
    correlation: float
    labels: int | None
    enough: bool
    reach: dict[int, float]


class Plan(Finding, frozen=True, kw_only=True):
    """The sample sizes for a planned human evaluation.

    Attributes:
        difference, power, alpha: The difference to detect, the power, and the significance level.
        sd: Standard deviation of a label within systems.
        design: Design effect of dialogues with several units.
        pairing: Correlation of two systems' labels on the same items; 0 where items differ.
        scored: The smallest number of units of a system.
        pilot: Number of labels in the pilot; 0 if the precision was assumed.
        needs: With labels alone, then with each judge.
        sentences: The plan in words.
    """

    version: Literal["plan.v1"] = "plan.v1"
    difference: float
    power: float
    alpha: float
    sd: float
    design: float
    pairing: float
    scored: int | None
    pilot: int
    needs: tuple[LabelsNeeded, ...]
    false_alarms: Estimate | None = None
    sentences: tuple[str, ...] = ()


def plan(
    precisions: Mapping[str | None, Precision],
    difference: float,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
    pilot: int = 0,
    unit: str = "dialogue",
) -> Plan:
    """Return how many labels show a difference between two systems, with each judge and without.

    >>> result = plan({None: Precision(1.0, scored=500), "judge": Precision(1.0, 0.7, 500)}, 0.3)
    >>> [(need.label, need.labels) for need in result.needs]
    [(None, 176), ('judge', 109)]
    """
    z = NormalDist().inv_cdf(1 - alpha / 2)
    needs = []
    for label, precision in precisions.items():
        needed = precision.labels_for(difference, power, alpha)
        scored = precision.scored
        sizes = [n for n in SIZES if scored is None or n <= scored] or [scored or SIZES[0]]
        reach = {n: float(z * precision.error(n)) for n in sizes}
        enough = needed is not None and (scored is None or needed <= scored)
        needs.append(LabelsNeeded(label, precision.correlation, needed, enough, reach))
    first = next(iter(precisions.values()))
    result = Plan(
        difference=difference,
        power=power,
        alpha=alpha,
        sd=first.sd,
        design=first.design,
        pairing=first.pairing,
        scored=first.scored,
        pilot=pilot,
        needs=tuple(needs),
    )
    return msgspec.structs.replace(result, sentences=tuple(_sentences(result, unit)))


def _sentences(plan: Plan, unit: str) -> list[str]:
    alone, *judges = plan.needs
    aim = f"To see a difference of {plan.difference:g} with {plan.power:.0%} power"
    if alone.labels is None:
        return [f"{aim}, no number of labels is enough"]
    sentences = [f"{aim} you need {alone.labels:,} labelled {unit}s per system."]
    sentences += [
        f"With {judge.label} (r = {judge.correlation:.2f}) you need {judge.labels:,}, "
        f"without it {alone.labels:,}."
        for judge in judges
        if judge.labels is not None
    ]
    if plan.scored is not None and not any(need.enough for need in plan.needs):
        error = Precision(plan.sd, design=plan.design).error(plan.scored) * np.sqrt(2)
        least = error * (NormalDist().inv_cdf(1 - plan.alpha / 2) + NormalDist().inv_cdf(plan.power))
        sentences.append(
            f"There are only {plan.scored:,} {unit}s per system: labelling all of them shows a difference of "
            f"{least:.2g} or more."
        )
    if 0 < plan.pilot < 50:
        sentences.append(f"This is a rough estimate from a pilot of {plan.pilot} labels.")
    return sentences


def precisions_of(
    scores: Scores,
    gold: str = "human",
    level: Literal["turn", "dialogue"] | None = None,
    *,
    dimension: str | None = None,
    sources: Sequence[str] = (),
) -> tuple[dict[str | None, Precision], int]:
    """Return the precision of a label in a pilot, alone and with each judge, and the number of its labels."""
    if not any(is_human(name) if gold == "human" else name == gold for name in scores.sources):
        raise DataError(
            "no pilot labels", fix="give some ratings, or set --sd, --correlation and --dialogues"
        )
    pilot = read_labels(scores, gold, level, dimension)
    units, labels, n = pilot.units, pilot.mean, int(pilot.labelled.sum())
    if np.unique(units.clusters[pilot.labelled]).size < FEWEST:
        raise DataError(f"{n} pilot labels are too few for an estimate", fix=f"label {FEWEST} or more")
    parts = list(units.by_system().values()) or [np.arange(len(units))]
    inside = _centre(labels, parts)
    sd = float(np.nanstd(inside) * np.sqrt(n / max(n - len(parts), 1)))
    judges = units.labels(judged_columns(scores, pilot, sources))
    scored = min(part.size for part in parts)
    design, pairing = _design_effect(inside, units, parts), _pairing_correlation(inside, units, parts)
    alone = Precision(sd, 0.0, scored, design, pairing)
    precisions: dict[str | None, Precision] = {None: alone}
    for column, label in judges.items():
        r = statistics.pearson(inside, _centre(units.columns[column], parts)).value
        if r is not None:
            precisions[label] = dataclasses.replace(alone, correlation=abs(r))
    return precisions, n


def _centre(values: Floats, parts: Sequence[Any]) -> Floats:
    """Subtract the mean of each system."""
    centred = np.full(values.size, np.nan)
    for part in parts:
        scored = part[~np.isnan(values[part])]
        if scored.size:
            centred[scored] = values[scored] - values[scored].mean()
    return centred


def _design_effect(values: Floats, units: Units, parts: Sequence[Any]) -> float:
    """Return the design effect: the mean ratio of clustered to unclustered variance of a system's mean."""
    ratios = []
    for part in parts:
        if (~np.isnan(values[part])).sum() > 1:
            alone, together = mean_of(values[part]).error, mean_of(values[part], units.clusters[part]).error
            ratios.append((together / alone) ** 2 if alone > 0 else 1.0)
    return max(1.0, float(np.mean(ratios)))


def _pairing_correlation(values: Floats, units: Units, parts: Sequence[Any]) -> float:
    """Return the mean correlation of two systems' labels on shared items; 0 if these are few."""
    count = int(units.clusters.max()) + 1
    scored = [part[~np.isnan(values[part])] for part in parts]
    means = []
    for part in scored:
        sums, sizes = (np.bincount(units.clusters[part], w, count) for w in (values[part], None))
        means.append(np.where(sizes > 0, sums / np.maximum(sizes, 1), np.nan))
    pairs = [pair for pair in combinations(means, 2) if (~np.isnan(sum(pair))).sum() >= FEWEST]
    correlations = [statistics.pearson(*pair).value or 0.0 for pair in pairs]
    return float(np.clip(np.mean(correlations), 0.0, 0.95)) if pairs else 0.0


def false_alarms(scores: Scores, *, alpha: float = 0.05, splits: int = SPLITS, seed: int = 0) -> Estimate:
    """Return how often `check` finds a drop between random halves of the same dialogues.

    Returns:
        The share of splits with an alarm, with its interval; `n` counts splits.
    """
    rows = scores.where(source=lambda name: not is_human(name))
    names = np.array(rows.table["dialogue_id"].to_pylist())
    dialogue_ids = np.unique(names)
    if dialogue_ids.size < 2 * FEWEST:
        raise UsageError(f"{dialogue_ids.size} dialogues are too few to split: {2 * FEWEST} are needed")
    rng, alarms = np.random.default_rng(seed), 0
    for _ in range(splits):
        first = np.isin(names, rng.permutation(dialogue_ids)[: dialogue_ids.size // 2])
        new, old = (Scores(rows.table.filter(half), rows.signatures) for half in (first, ~first))
        result = check(new, old, alpha=alpha, resamples=999, seed=int(rng.integers(2**31)))
        alarms += not result.passed
    return statistics.share(alarms, splits)


def choose(scores: Scores, n: int, source: str | None = None, *, seed: int = 0) -> list[Key]:
    """Return dialogues to label next: equally many of each system, spread evenly over its scores.

    The sampling is systematic: every unlabelled dialogue of a system is equally likely, so that estimates
    stay unbiased, and the whole range of scores is covered, which calibration needs.

    Args:
        scores: Scores, and ratings of what is labelled already.
        n: How many, over all systems.
        source: The source of the scores; by default the first.
    """
    units = align(with_systems(scores), "dialogue")
    judges = {c: label for c, label in units.labels().items() if not is_human(c.source)}
    column = next((c for c, label in judges.items() if source in (None, label, c.source)), None)
    if column is None:
        raise UsageError(f"no source {source!r}; there are: {', '.join(judges.values()) or 'none'}")
    people = [c for c in units.columns if is_human(c.source)]
    labelled = ~np.isnan(mean_over(units, people)) if people else np.zeros(len(units), dtype=bool)
    values, rng = units.columns[column], np.random.default_rng(seed)
    parts = list(units.by_system().values()) or [np.arange(len(units))]
    free = [part[~labelled[part] & ~np.isnan(values[part])] for part in parts]
    free = [part[np.lexsort((rng.random(part.size), values[part]))] for part in free if part.size]
    chosen: list[Key] = []
    left = min(n, sum(part.size for part in free))
    for number, part in enumerate(sorted(free, key=len)):
        size = min(part.size, -(-left // (len(free) - number)))
        indices = ((np.arange(size) + rng.random()) * part.size / max(size, 1)).astype(int)
        chosen += [units.keys[index] for index in part[indices].tolist()]
        left -= size
    return chosen
