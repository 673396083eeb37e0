"""The systems of a study: their means, and which of them is better.

Two sets of scored items are held against each other: paired where enough items are shared, unpaired where
not. The bootstrap and the randomisation draw whole dialogues, and an item keeps its name whatever the system
is called, so that a new run finds its partner in an old one.
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
from dialeval.studies.findings import Correlation, GoldRatings, StudySettings, SystemComparison, SystemMean
from dialeval.studies.turn_scores import clustered_difference
from dialeval.studies.units import Column, Floats, Key, Places, Units, human_columns, mean_over

_MOST_TESTS = 200
MOST_PAIRED = 50  # systems of which all pairs are compared; of more, each is compared with the best


def system_findings(
    units: Units,
    columns: list[Column],
    gold_columns: list[Column],
    settings: StudySettings,
    lower: frozenset[Column],
) -> dict[str, Any]:
    """Return means per system and column over turns or dialogues, and comparisons of systems on them."""
    shown = {column: units.columns[column] for column in columns if column in units.columns}
    gold = _gold_name(gold_columns, settings)
    for name in dict.fromkeys(c.dimension for c in units.columns if is_human(c.source)):
        shown[Column("human", name)] = mean_over(units, human_columns(units, name))
    if gold is not None and gold not in shown:
        shown[gold] = mean_over(units, gold_columns)
    places = units.by_system()
    means = tuple(
        _mean(units, name, own, column, values, settings)
        for column, values in shown.items()
        for name, own in places.items()
    )
    pairs = list(combinations(places, 2)) if len(places) <= MOST_PAIRED else _with_best(means, gold, lower)
    columns = [gold] if gold is not None else []
    columns += [c for c in shown if c != gold and comb(len(places), 2) * len(shown) <= _MOST_TESTS]
    compared = (_comparisons(units, places, column, shown[column], pairs, settings) for column in columns)
    return {"systems": means, "comparisons": tuple(row for rows in compared for row in rows)}


def _with_best(
    means: Sequence[SystemMean], gold: Column | None, lower: frozenset[Column]
) -> list[tuple[str, str]]:
    """Pair the system that has the best mean of the gold with each of the others."""
    found = {one.system: one.mean.value for one in means if (one.source, one.dimension) == gold}
    known = {name: value for name, value in found.items() if value is not None}
    if not known:
        return []
    best = (min if gold in lower else max)(known, key=lambda name: known[name])
    return [(best, name) for name in found if name != best]


def _gold_name(gold_columns: list[Column], settings: StudySettings) -> Column | None:
    if not gold_columns:
        return None
    return Column("human", gold_columns[0].dimension) if settings.gold == "human" else gold_columns[0]


def _mean(
    units: Units, system: str, own: Places, column: Column, values: Floats, settings: StudySettings
) -> SystemMean:
    part, clusters = values[own], units.clusters[own]
    n = int((~np.isnan(part)).sum())
    draws: Draws = {**settings.resampling, "resamples": min(2_000, settings.resamples), "workers": 1}
    mean = statistics.bootstrap_means(part, clusters, **draws) if n else Estimate.undefined("nothing scored")
    return SystemMean(system, *column, n, int(part.size - n), mean)


def _comparisons(
    units: Units,
    places: Mapping[str, Places],
    column: Column,
    values: Floats,
    pairs: Sequence[tuple[str, str]],
    settings: StudySettings,
) -> list[SystemComparison]:
    """Test pairs of systems on one column, Holm-corrected over the pairs."""
    given = {
        name: items(tuple(units.keys[place] for place in own.tolist()), values[own])
        for name, own in places.items()
    }
    draw: dict[str, Any] = {"confidence": settings.confidence, "seed": settings.seed}
    tests = []
    for first, second in pairs:
        a, b, paired = matched(given[first], given[second])
        resamples = most_permutations(settings)
        tests.append((paired, *difference(a, b, paired, "two-sided", resamples=resamples, **draw)))
    adjusted = statistics.holm([p for *_, p in tests])
    return [
        SystemComparison(*column, *pair, paired, difference, p, corrected)
        for pair, (paired, difference, p), corrected in zip(pairs, tests, adjusted, strict=True)
    ]


def most_permutations(settings: StudySettings) -> int:
    """Return how many permutations (or draws) a comparison of two systems takes at most."""
    return min(5_000, settings.permutations)


def over_systems(
    rows: tuple[Correlation, ...], means: tuple[SystemMean, ...], gold: GoldRatings | None
) -> tuple[Correlation, ...]:
    """Add to each correlation the one between the means of systems, of at least three: two lie on a line."""
    if gold is None:
        return rows
    found: dict[tuple[str, str], dict[str, float]] = {}
    for one in means:
        if one.mean.value is not None:
            found.setdefault((one.source, one.dimension), {})[one.system] = one.mean.value
    people = found.get((gold.source, gold.dimension), {})
    made = []
    for row in rows:
        own = found.get((row.source, row.dimension), {})
        pairs = [(own[name], people[name]) for name in people if name in own]
        r = statistics.pearson(*zip(*pairs, strict=True)) if len(pairs) > 2 else None
        made.append(replace(row, over_systems=r))
    return tuple(made)


Item = tuple[str | tuple[str, str | None], int | None]
"""A dialogue (with its system, where several answered the same contexts) and a turn in it."""


def matched(
    first: Mapping[Item, float], second: Mapping[Item, float]
) -> tuple[dict[Item, float], dict[Item, float], bool]:
    """Return what is scored of both sides, only the shared items if that is enough of them, and whether."""
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
    x, y, own = array(a), array(b), clusters(a)
    draw: dict[str, Any] = {"permutations": resamples, "seed": seed, "alternative": alternative}
    if not paired:
        test = statistics.permute_means(x, y, clusters_a=own, clusters_b=clusters(b), **draw)
        if test.value is None:
            return test, test.p
        apart = np.concatenate([own, clusters(b) + own.max() + 1])
        gap = clustered_difference(np.concatenate([x, y]), np.arange(apart.size) < x.size, apart, confidence)
        return dataclasses.replace(test, low=gap.low, high=gap.high), test.p
    found = statistics.paired_bootstrap(
        x, y, clusters=own, resamples=resamples, confidence=confidence, seed=seed, alternative=alternative
    )
    return found, statistics.paired_randomisation(x, y, clusters=own, **draw).p


def _scored(values: Mapping[Item, float]) -> dict[Item, float]:
    return {item: value for item, value in values.items() if not np.isnan(value)}


def array(values: Mapping[Item, float]) -> Floats:
    """Return the values of items."""
    return np.array(list(values.values()), dtype=float)


def clusters(values: Mapping[Item, float]) -> Any:
    """Return a number for the dialogue of each item."""
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name, _ in values], dtype=np.intp)


def items(keys: tuple[Key, ...], values: Floats) -> dict[Item, float]:
    """Label a column's values by dialogue and turn.

    A new run may call its system otherwise, so the system is no part of the label unless it has to be.
    """
    unique = len({(key.dialogue_id, key.turn) for key in keys}) == len(keys)
    names = [key.dialogue_id if unique else key[:2] for key in keys]
    return {(name, key.turn): float(value) for name, key, value in zip(names, keys, values, strict=True)}
