"""Two sets of scored items against each other: paired where enough items are shared, unpaired where not.

The bootstrap and the randomisation draw whole dialogues, and an item keeps its name whatever the system is
called, so that a new run finds its partner in an old one.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dialeval import statistics
from dialeval.statistics import Estimate
from dialeval.studies.turn_scores import clustered_difference
from dialeval.studies.units import Floats, Key

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
        return replace(test, low=gap.low, high=gap.high), test.p
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
