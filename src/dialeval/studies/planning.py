"""Before labelling: how many labels settle it, which dialogues to label, does the gate cry wolf?

What a label tells (`statistics.power.Precision`) is read from a pilot, the labels there are, or assumed.
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
from dialeval.studies.units import (
    Floats,
    Key,
    Units,
    align,
    mean_over,
    with_systems,
)
from dialeval.studies.versions import check

SIZES = (25, 50, 100, 200, 400, 800)
SPLITS = 200


class LabelsNeeded(Finding, frozen=True):
    """The labels of each system that a plan needs, with one judge or without.

    Attributes:
        label: The judge; None for labels alone.
        correlation: Of the judge with the labels, inside systems.
        labels: So many show the difference with the power asked for; None if no number does.
        enough: Whether there are so many dialogues.
        reach: By number of labels, half the width of the interval of one system's mean.
    """

    label: str | None
    correlation: float
    labels: int | None
    enough: bool
    reach: dict[int, float]


class Plan(Finding, frozen=True, kw_only=True):
    """What to expect of labels that are not there yet.

    Attributes:
        difference, power, alpha: What shall be seen, how surely, at which level.
        sd: Standard deviation of a label inside systems.
        design: Design effect of dialogues with several units.
        pairing: Correlation of two systems' labels on the same items; 0 where items differ.
        scored: Units of a system, at least.
        pilot: Labels that this was read from; 0 if it was assumed.
        needs: Labels alone, then with each judge.
        sentences: The same in words.
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
    """Say how many labels show a difference between two systems, with each judge and without.

    >>> found = plan({None: Precision(1.0, scored=500), "judge": Precision(1.0, 0.7, 500)}, 0.3)
    >>> [(need.label, need.labels) for need in found.needs]
    [(None, 176), ('judge', 109)]
    """
    z = NormalDist().inv_cdf(1 - alpha / 2)
    needs = []
    for label, one in precisions.items():
        needed = one.labels_for(difference, power, alpha)
        sizes = [n for n in SIZES if one.scored is None or n <= one.scored] or [one.scored or SIZES[0]]
        reach = {n: float(z * one.error(n)) for n in sizes}
        enough = needed is not None and (one.scored is None or needed <= one.scored)
        needs.append(LabelsNeeded(label, one.correlation, needed, enough, reach))
    first = next(iter(precisions.values()))
    made = Plan(
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
    return msgspec.structs.replace(made, sentences=tuple(_sentences(made, unit)))


def _sentences(made: Plan, unit: str) -> list[str]:
    alone, *judges = made.needs
    aim = f"To see a difference of {made.difference:g} with {made.power:.0%} power"
    if alone.labels is None:
        return [f"{aim}, no number of labels is enough"]
    said = [f"{aim} you need {alone.labels:,} labelled {unit}s a system."]
    said += [
        f"With {one.label} (r = {one.correlation:.2f}) you need {one.labels:,}, without it {alone.labels:,}."
        for one in judges
        if one.labels is not None
    ]
    if made.scored is not None and not any(one.enough for one in made.needs):
        error = Precision(made.sd, design=made.design).error(made.scored) * np.sqrt(2)
        least = error * (NormalDist().inv_cdf(1 - made.alpha / 2) + NormalDist().inv_cdf(made.power))
        said.append(
            f"There are only {made.scored:,} {unit}s a system: all of them labelled show a difference of "
            f"{least:.2g} or more."
        )
    if 0 < made.pilot < 50:
        said.append(f"This was read from {made.pilot} labels: take it for a rough guess.")
    return said


def precisions_of(
    scores: Scores,
    gold: str = "human",
    level: Literal["turn", "dialogue"] | None = None,
    *,
    dimension: str | None = None,
    sources: Sequence[str] = (),
) -> tuple[dict[str | None, Precision], int]:
    """Read from a pilot what a label tells, alone and with each judge; also return how many labels it has."""
    if not any(is_human(name) if gold == "human" else name == gold for name in scores.sources):
        raise DataError(
            "no pilot labels", fix="give some ratings, or say --sd, --correlation and --dialogues"
        )
    given = read_labels(scores, gold, level, dimension)
    units, labels, n = given.units, given.mean, int(given.known.sum())
    if np.unique(units.clusters[given.known]).size < FEWEST:
        raise DataError(f"{n} pilot labels say nothing of their spread", fix=f"label {FEWEST} or more")
    parts = list(units.by_system().values()) or [np.arange(len(units))]
    inside = _inside(labels, parts)
    sd = float(np.nanstd(inside) * np.sqrt(n / max(n - len(parts), 1)))
    judges = units.labels(judged_columns(scores, given, sources))
    scored = min(part.size for part in parts)
    alone = Precision(sd, 0.0, scored, _design(inside, units, parts), _pairing(inside, units, parts))
    found: dict[str | None, Precision] = {None: alone}
    for column, label in judges.items():
        r = statistics.pearson(inside, _inside(units.columns[column], parts)).value
        if r is not None:
            found[label] = dataclasses.replace(alone, correlation=abs(r))
    return found, n


def _inside(values: Floats, parts: Sequence[Any]) -> Floats:
    """Take the mean of each system out."""
    made = np.full(values.size, np.nan)
    for part in parts:
        known = part[~np.isnan(values[part])]
        if known.size:
            made[known] = values[known] - values[known].mean()
    return made


def _design(values: Floats, units: Units, parts: Sequence[Any]) -> float:
    """Return by how much clusters widen the mean of one system, over systems."""
    ratios = []
    for part in parts:
        if (~np.isnan(values[part])).sum() > 1:
            alone, together = mean_of(values[part]).error, mean_of(values[part], units.clusters[part]).error
            ratios.append((together / alone) ** 2 if alone > 0 else 1.0)
    return max(1.0, float(np.mean(ratios)))


def _pairing(values: Floats, units: Units, parts: Sequence[Any]) -> float:
    """Return the correlation of two systems' labels on the items that both answered; 0 if these are few."""
    count = int(units.clusters.max()) + 1
    known = [part[~np.isnan(values[part])] for part in parts]
    sums = [np.bincount(units.clusters[part], values[part], count) for part in known]
    sizes = [np.bincount(units.clusters[part], minlength=count) for part in known]
    found = []
    for a, b in combinations(range(len(parts)), 2):
        both = (sizes[a] > 0) & (sizes[b] > 0)
        if both.sum() >= FEWEST:
            found.append(
                statistics.pearson(*((sums[one] / np.maximum(sizes[one], 1))[both] for one in (a, b))).value
            )
    return float(np.clip(np.mean([one or 0.0 for one in found]), 0.0, 0.95)) if found else 0.0


def false_alarms(scores: Scores, *, alpha: float = 0.05, splits: int = SPLITS, seed: int = 0) -> Estimate:
    """How often does `check` find a drop where there is none: random halves of the same dialogues.

    Returns:
        The share of splits with an alarm, with its interval; `n` counts splits.
    """
    rows = scores.where(source=lambda name: not is_human(name))
    names = np.array(rows.table["dialogue_id"].to_pylist())
    known = np.unique(names)
    if known.size < 2 * FEWEST:
        raise UsageError(f"{known.size} dialogues are too few to split: {2 * FEWEST} are needed")
    rng, alarms = np.random.default_rng(seed), 0
    for _ in range(splits):
        first = np.isin(names, rng.permutation(known)[: known.size // 2])
        new, old = (Scores(rows.table.filter(own), rows.signatures) for own in (first, ~first))
        found = check(new, old, alpha=alpha, resamples=999, seed=int(rng.integers(2**31)))
        alarms += not found.passed
    return statistics.share(alarms, splits)


def choose(scores: Scores, n: int, source: str | None = None, *, seed: int = 0) -> list[Key]:
    """Choose dialogues to label next: as many of each system, spread evenly over its scores.

    Every dialogue of a system without a label is as likely as any other, so that all estimates stay unbiased;
    evenly spaced in the order of the scores, so that both ends are seen and a calibration reaches everywhere.

    Args:
        scores: Scores, and ratings of what is labelled already.
        n: How many, over all systems.
        source: Whose scores; by default the first source's.
        seed: Of the starting points.
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
        places = ((np.arange(size) + rng.random()) * part.size / max(size, 1)).astype(int)
        chosen += [units.keys[place] for place in part[places].tolist()]
        left -= size
    return chosen
