"""The systems of a study: their means, and pairwise comparisons.

Two sets of scored items are compared, paired if they share at least half of the smaller one. Bootstrap and
randomisation draw whole dialogues. The key of an item does not contain the system if it need not, so that a
new run is paired with an old one.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from msgspec.structs import replace

from dialeval import statistics
from dialeval.scores import is_human
from dialeval.statistics import Estimate
from dialeval.statistics.resampling import Draws
from dialeval.studies.against_gold import AlignedStudy
from dialeval.studies.findings import Correlation, GoldRatings, StudySettings, SystemComparison, SystemMean
from dialeval.studies.turn_scores import clustered_difference
from dialeval.studies.units import Column, Floats, Key, Places, Units, human_columns, mean_over

_MOST_TESTS = 200
MOST_PAIRED = 50  # systems of which all pairs are compared; of more, each is compared with the best


def system_findings(data: AlignedStudy, units: Units) -> dict[str, Any]:
    """Return the means per system and column over units, and comparisons of systems, by field of `Study`."""
    settings, gold_columns = data.settings, data.gold_columns
    shown = {column: units.columns[column] for column in data.columns if column in units.columns}
    gold = _gold_name(gold_columns, settings)
    for name in dict.fromkeys(c.dimension for c in units.columns if is_human(c.source)):
        shown[Column("human", name)] = mean_over(units, human_columns(units, name))
    if gold is not None and gold not in shown:
        shown[gold] = mean_over(units, gold_columns)
    by_system = units.by_system()
    means = tuple(
        _mean(units, name, indices, column, values, settings)
        for column, values in shown.items()
        for name, indices in by_system.items()
    )
    pairs = (
        list(combinations(by_system, 2))
        if len(by_system) <= MOST_PAIRED
        else _with_best(means, gold, data.lower)
    )
    columns = [gold] if gold is not None else []
    columns += [c for c in shown if c != gold and comb(len(by_system), 2) * len(shown) <= _MOST_TESTS]
    compared = (_comparisons(units, by_system, column, shown[column], pairs, settings) for column in columns)
    return {"systems": means, "comparisons": tuple(row for rows in compared for row in rows)}


def _with_best(
    means: Sequence[SystemMean], gold: Column | None, lower: frozenset[Column]
) -> list[tuple[str, str]]:
    """Pair the system with the best mean of the gold with each of the others."""
    by_system = {mean.system: mean.mean.value for mean in means if (mean.source, mean.dimension) == gold}
    defined = {name: value for name, value in by_system.items() if value is not None}
    if not defined:
        return []
    best = (min if gold in lower else max)(defined, key=lambda name: defined[name])
    return [(best, name) for name in by_system if name != best]


def _gold_name(gold_columns: list[Column], settings: StudySettings) -> Column | None:
    if not gold_columns:
        return None
    return Column("human", gold_columns[0].dimension) if settings.gold == "human" else gold_columns[0]


def _mean(
    units: Units, system: str, indices: Places, column: Column, values: Floats, settings: StudySettings
) -> SystemMean:
    part, clusters = values[indices], units.clusters[indices]
    n = int((~np.isnan(part)).sum())
    draws: Draws = {**settings.resampling, "resamples": min(2_000, settings.resamples), "workers": 1}
    mean = statistics.bootstrap_means(part, clusters, **draws) if n else Estimate.undefined("nothing scored")
    return SystemMean(system, *column, n, int(part.size - n), mean)


def _comparisons(
    units: Units,
    by_system: Mapping[str, Places],
    column: Column,
    values: Floats,
    pairs: Sequence[tuple[str, str]],
    settings: StudySettings,
) -> list[SystemComparison]:
    """Test pairs of systems on one column, Holm-corrected over the pairs."""
    values_of = {
        name: items(tuple(units.keys[index] for index in indices.tolist()), values[indices])
        for name, indices in by_system.items()
    }
    draw: dict[str, Any] = {"confidence": settings.confidence, "seed": settings.seed}
    tests = []
    for first, second in pairs:
        a, b, paired = match_items(values_of[first], values_of[second])
        resamples = most_permutations(settings)
        tests.append((paired, *difference(a, b, paired, "two-sided", resamples=resamples, **draw)))
    adjusted = statistics.holm([p for *_, p in tests])
    return [
        SystemComparison(*column, *pair, paired, difference, p, corrected)
        for pair, (paired, difference, p), corrected in zip(pairs, tests, adjusted, strict=True)
    ]


def most_permutations(settings: StudySettings) -> int:
    """Return the number of permutations (or draws) for a comparison of two systems."""
    return min(5_000, settings.permutations)


def over_systems(
    rows: tuple[Correlation, ...], means: tuple[SystemMean, ...], gold: GoldRatings | None
) -> tuple[Correlation, ...]:
    """Add to each correlation that between the means of systems, if there are at least three."""
    if gold is None:
        return rows
    by_column: dict[tuple[str, str], dict[str, float]] = {}
    for mean in means:
        if mean.mean.value is not None:
            by_column.setdefault((mean.source, mean.dimension), {})[mean.system] = mean.mean.value
    people = by_column.get((gold.source, gold.dimension), {})
    result = []
    for row in rows:
        scores = by_column.get((row.source, row.dimension), {})
        pairs = [(scores[name], people[name]) for name in people if name in scores]
        r = statistics.pearson(*zip(*pairs, strict=True)) if len(pairs) > 2 else None
        result.append(replace(row, over_systems=r))
    return tuple(result)


Item = tuple[str | tuple[str, str | None], int | None]
"""A dialogue (with its system, if several answered the same contexts) and a turn in it."""


def match_items(
    first: Mapping[Item, float], second: Mapping[Item, float]
) -> tuple[dict[Item, float], dict[Item, float], bool]:
    """Return the scored items of both sides, and whether they are paired: only shared items then."""
    a, b = _scored(first), _scored(second)
    shared = [item for item in a if item in b]
    paired = bool(shared) and 2 * len(shared) >= min(len(a), len(b))
    if paired:
        a, b = {item: a[item] for item in shared}, {item: b[item] for item in shared}
    return a, b, paired


def difference(
    a: Mapping[Item, float],
    b: Mapping[Item, float],
    paired: bool,
    alternative: str,
    *,
    resamples: int,
    confidence: float,
    seed: int,
) -> tuple[Estimate, float | None]:
    """Return mean(a) - mean(b) with its interval, and the p-value of its test."""
    x, y, clusters_a = array(a), array(b), clusters(a)
    draw: dict[str, Any] = {"permutations": resamples, "seed": seed, "alternative": alternative}
    if not paired:
        test = statistics.permute_means(x, y, clusters_a=clusters_a, clusters_b=clusters(b), **draw)
        if test.value is None:
            return test, test.p
        apart = np.concatenate([clusters_a, clusters(b) + clusters_a.max() + 1])
        gap = clustered_difference(np.concatenate([x, y]), np.arange(apart.size) < x.size, apart, confidence)
        return dataclasses.replace(test, low=gap.low, high=gap.high), test.p
    interval = statistics.paired_bootstrap(
        x,
        y,
        clusters=clusters_a,
        resamples=resamples,
        confidence=confidence,
        seed=seed,
        alternative=alternative,
    )
    return interval, statistics.paired_randomisation(x, y, clusters=clusters_a, **draw).p


def _scored(values: Mapping[Item, float]) -> dict[Item, float]:
    return {item: value for item, value in values.items() if not np.isnan(value)}


def array(values: Mapping[Item, float]) -> Floats:
    """Return the values of items as an array."""
    return np.array(list(values.values()), dtype=float)


def clusters(values: Mapping[Item, float]) -> Any:
    """Return a number for the dialogue of each item."""
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name, _ in values], dtype=np.intp)


def items(keys: tuple[Key, ...], values: Floats) -> dict[Item, float]:
    """Return a column's values by dialogue and turn, and by system only where those are not unique."""
    unique = len({(key.dialogue_id, key.turn) for key in keys}) == len(keys)
    names = [key.dialogue_id if unique else key[:2] for key in keys]
    return {(name, key.turn): float(value) for name, key, value in zip(names, keys, values, strict=True)}
