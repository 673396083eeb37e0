"""Biases of a judge: what moves its score besides the rating, its largest errors, its stability over runs."""

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from dialeval import statistics
from dialeval.errors import UsageError
from dialeval.scores import Scores, is_human
from dialeval.statistics import Estimate, share
from dialeval.statistics import prediction_powered as powered
from dialeval.statistics.estimate import Booleans
from dialeval.statistics.prediction_powered import ClusteredFigure, mean_of
from dialeval.studies.labels import Labels
from dialeval.studies.trust_findings import Bias, Change, Disagreement
from dialeval.studies.units import Column, Floats, Key, Units, align

MOST_CASES = 5
Traits = Mapping[str, Mapping[Key, float | str]]
"""By name, a number or a category of each unit that a score might depend on besides quality."""


def find_biases(labels: Labels, scores: Floats, traits: Traits, confidence: float) -> tuple[Bias, ...]:
    """Test whether a score depends on numeric traits, or differs between groups, at equal ratings."""
    units = labels.units
    both = labels.labelled & ~np.isnan(scores)
    parts: dict[str, Booleans] = {}
    numbers: dict[str, Floats] = {}
    if len(units.by_system()) > 1:
        parts |= {
            f"system {n}": np.isin(np.arange(len(units)), indices) for n, indices in units.by_system().items()
        }
    if units.level == "turn":
        numbers["turn"] = np.array([key.turn for key in units.keys], dtype=np.float64)
    for name, by_key in traits.items():
        values = [by_key.get(key) for key in units.keys]
        if any(isinstance(value, str) for value in values):
            kinds = sorted({value for value in values if isinstance(value, str)})
            parts |= {f"{name} {kind}": np.array([value == kind for value in values]) for kind in kinds}
        else:
            numbers[name] = np.array(values, dtype=np.float64)
    biases = [_trait_bias(labels, scores, name, trait, confidence) for name, trait in numbers.items()]
    biases += [
        _group_bias(labels, scores, name, mask & both, both, confidence) for name, mask in parts.items()
    ]
    corrected = statistics.holm([bias.estimate.p for bias in biases])
    return tuple(replace(bias, p_holm=p) for bias, p in zip(biases, corrected, strict=True))


def _trait_bias(labels: Labels, scores: Floats, name: str, trait: Floats, confidence: float) -> Bias:
    """Return the partial rank correlation of score and trait given the rating, clustered by dialogue."""
    from scipy import stats

    both = ~np.isnan(labels.mean + scores + trait)
    if both.sum() < powered.FEWEST or np.ptp(trait[both]) == 0 or np.ptp(scores[both]) == 0:
        return Bias("correlation", name, Estimate.undefined("constant, or too few", int(both.sum())))
    ratings, *ranked = (stats.rankdata(values[both]) for values in (labels.mean, scores, trait))
    design = np.column_stack([np.ones(ratings.size), ratings])
    a, b = (ranks - design @ np.linalg.lstsq(design, ranks, rcond=None)[0] for ranks in ranked)
    if min(np.std(a), np.std(b)) < 1e-9:
        return Bias("correlation", name, Estimate.undefined("explained by the rating", int(both.sum())))
    a, b = a / np.std(a), b / np.std(b)
    r = float(np.clip(np.mean(a * b), -0.999, 0.999))
    pull = powered.mean_of(a * b - r * (a**2 + b**2) / 2, labels.units.clusters[both])
    # Fisher's transformation keeps the ends between -1 and 1.
    z = ClusteredFigure(np.arctanh(r), pull.influence / (1 - r**2), ratings.size, pull.df).estimate(
        confidence
    )
    low, high = (None if end is None else float(np.tanh(end)) for end in (z.low, z.high))
    return Bias("correlation", name, Estimate(r, ratings.size, low, high, z.p, z.reason))


def _group_bias(
    labels: Labels, scores: Floats, name: str, group: Booleans, both: Booleans, confidence: float
) -> Bias:
    """Compare the mean of score minus rating in one group with that of all other units."""
    clusters, gap, rest = labels.units.clusters, scores - labels.mean, both & ~group
    fewest = min(np.unique(clusters[mask]).size for mask in (group, rest))
    if fewest < powered.FEWEST:
        return Bias("difference", name, Estimate.undefined(f"{fewest} labelled dialogues", int(group.sum())))
    a, b = (powered.mean_of(np.where(mask, gap, np.nan), clusters) for mask in (group, rest))
    return Bias("difference", name, (a - b).estimate(confidence))


def find_disagreements(labels: Labels, values: Floats, curve: Floats) -> tuple[Disagreement, ...]:
    """Return the most overrated units, then the most underrated ones, worst first."""
    gap = np.where(np.isnan(curve - labels.mean), 0.0, curve - labels.mean)
    order = np.argsort(-gap, kind="stable").tolist()
    chosen = [index for index in order[:MOST_CASES] if gap[index] > 0]
    chosen += [index for index in order[: -MOST_CASES - 1 : -1] if gap[index] < 0]
    keys = labels.units.keys
    return tuple(
        Disagreement(*key, *map(float, (values[index], curve[index], labels.mean[index])))
        for index, key in ((index, keys[index]) for index in chosen)
    )


# --- the same units scored twice: run again, on another date, or in another form ----------------------------


def changes(before: Scores, after: Scores, name: str, confidence: float = 0.95) -> tuple[Change, ...]:
    """Compare two tables of scores column by column, on the units that both scored.

    Args:
        before: Scores of the original dialogues.
        after: Scores of the same dialogues after a change that should not matter.
    """
    found_changes: list[Change] = []
    for level in ("dialogue", "turn"):
        sides = [align(side.where(level=level), level) for side in (before, after)]
        labels = sides[0].labels()
        for column, label in labels.items():
            is_new = label not in {change.label for change in found_changes}
            if column in sides[1].columns and not is_human(column.source) and is_new:
                found_changes.append(_change(sides[0], sides[1], column, label, name, confidence))
    return tuple(found_changes)


def drift(new: Scores, old: Scores, confidence: float = 0.95) -> tuple[Change, ...]:
    """Compare scores of the same sources from two dates; their signatures must be equal.

    Raises:
        UsageError: If a source has another signature, or nothing is shared.
    """
    shared = [name for name in new.sources if name in old.sources and not is_human(name)]
    if not shared:
        raise UsageError(f"no source in common: {', '.join(new.sources)} and {', '.join(old.sources)}")
    for name in shared:
        a, b = new.signatures.get(name), old.signatures.get(name)
        if a is not None and b is not None and a != b:
            raise UsageError(
                f"{name} has different signatures on the two dates, so this is no drift: {a}; {b}"
            )
    shared_rows = [scores.where(source=shared.__contains__) for scores in (old, new)]
    return changes(shared_rows[0], shared_rows[1], "another date", confidence)


def repeated(scores: Scores, sources: list[str], confidence: float = 0.95) -> tuple[Change, ...]:
    """Compare repeated runs of one judge, exported under several source names, with the first run."""
    if missing := [name for name in sources if name not in scores.sources]:
        raise UsageError(f"no source {missing[0]!r}; there are: {', '.join(scores.sources)}")
    first, *repeats = (scores.where(source=name) for name in sources)
    shifts: list[Change] = []
    for name, repeat in zip(sources[1:], repeats, strict=True):
        same = Scores(repeat.table.set_column(3, "source", [[sources[0]] * len(repeat)]), {})
        shifts += changes(Scores(first.table, {}), same, f"run again: {name}", confidence)
    return tuple(shifts)


def _change(before: Units, after: Units, column: Column, label: str, name: str, confidence: float) -> Change:
    new_values: dict[Key, float] = dict(zip(after.keys, after.columns[column].tolist(), strict=True))
    old: Floats = before.columns[column]
    new = np.array([new_values.get(key, np.nan) for key in before.keys], dtype=np.float64)
    both = ~np.isnan(old + new)
    n = int(both.sum())
    if n < 2:
        return Change(label, name, n, Estimate.undefined(f"{n} units were scored both times", n))
    gap, middle = (new - old)[both], float(np.median(old[both]))
    flipped = int(np.sum((old[both] >= middle) != (new[both] >= middle)))
    if np.isin(old[both], (0, 1)).all():
        flipped = int(np.sum(old[both] != new[both]))
    return Change(
        label,
        name,
        n,
        mean_of(gap, before.clusters[both]).estimate(confidence),
        float(np.sqrt(np.mean(gap**2) / 2)),
        share(flipped, n, confidence),
        float(np.mean(gap == 0)),
        float(np.max(np.abs(gap))),
    )
