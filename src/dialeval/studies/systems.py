"""The systems of a study: their means, and which of them is better."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from msgspec.structs import replace

from dialeval import statistics
from dialeval.scores import is_human
from dialeval.statistics import Estimate
from dialeval.studies import pairing
from dialeval.studies.findings import Correlation, GoldRatings, StudySettings, SystemComparison, SystemMean
from dialeval.studies.units import Column, Floats, Places, Units, human_columns, mean_over

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
    mean = (
        Estimate.undefined("nothing scored")
        if n == 0
        else statistics.bootstrap_means(
            part,
            clusters,
            resamples=min(2_000, settings.resamples),
            confidence=settings.confidence,
            seed=settings.seed,
        )
    )
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
        name: pairing.items(tuple(units.keys[place] for place in own.tolist()), values[own])
        for name, own in places.items()
    }
    draw: dict[str, Any] = {"confidence": settings.confidence, "seed": settings.seed}
    tests = []
    for first, second in pairs:
        a, b, paired = pairing.matched(given[first], given[second])
        resamples = most_permutations(settings)
        tests.append((paired, *pairing.difference(a, b, paired, "two-sided", resamples=resamples, **draw)))
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
