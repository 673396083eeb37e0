"""Is A better than B? Paired where the same items were scored, unpaired where not, and it says which."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dialeval import statistics
from dialeval.errors import UsageError
from dialeval.scores import Scores, is_human
from dialeval.scores.signature import better
from dialeval.statistics import Estimate
from dialeval.studies.units import Column, Floats, Key, Units, align, human_columns, mean_over

Item = tuple[str | tuple[str, str | None], int | None]
"""A dialogue (with its system, where several answered the same contexts) and a turn in it."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference of two means on one column, its interval where items are paired, and its p-value.

    The p-value comes from approximate randomisation if items are paired, from a permutation of means if not.
    """

    label: str
    paired: bool
    first: Estimate
    second: Estimate
    difference: Estimate
    p: float | None


def compare(
    label: str,
    first: Mapping[Item, float],
    second: Mapping[Item, float],
    *,
    alternative: str = "two-sided",
    resamples: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare the values two systems got, as mean(first) - mean(second).

    Items are paired by dialogue id and turn if at least half of the smaller side is shared; the bootstrap
    and the randomisation draw whole dialogues.
    """
    a, b = _scored(first), _scored(second)
    shared = [item for item in a if item in b]
    paired = bool(shared) and 2 * len(shared) >= min(len(a), len(b))
    if paired:
        a, b = {item: a[item] for item in shared}, {item: b[item] for item in shared}
    x, y = _array(a), _array(b)
    own, theirs = _clusters(a), _clusters(b)
    draw: dict[str, Any] = {"resamples": resamples, "confidence": confidence, "seed": seed}
    means = [statistics.bootstrap_means(v, c, **draw) for v, c in ((x, own), (y, theirs))]
    if paired:
        difference = statistics.paired_bootstrap(x, y, clusters=own, alternative=alternative, **draw)
        test = statistics.paired_randomisation(
            x, y, clusters=own, permutations=resamples, seed=seed, alternative=alternative
        )
    else:
        difference = test = statistics.permute_means(
            x,
            y,
            clusters_a=own,
            clusters_b=theirs,
            permutations=resamples,
            seed=seed,
            alternative=alternative,
        )
    return Comparison(label, paired, means[0], means[1], difference, test.p)


def _scored(values: Mapping[Item, float]) -> dict[Item, float]:
    return {item: value for item, value in values.items() if not np.isnan(value)}


def _array(values: Mapping[Item, float]) -> Floats:
    return np.array(list(values.values()), dtype=float)


def _clusters(values: Mapping[Item, float]) -> Any:
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name, _ in values], dtype=np.intp)


def items(keys: tuple[Key, ...], values: Floats) -> dict[Item, float]:
    """Label a column's values by dialogue and turn.

    A new run may call its system otherwise, so the system is no part of the label unless it has to be.
    """
    unique = len({(key.dialogue_id, key.turn) for key in keys}) == len(keys)
    names = [key.dialogue_id if unique else key[:2] for key in keys]
    return {(name, key.turn): float(value) for name, key, value in zip(names, keys, values, strict=True)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a new run is significantly worse than an old one, on each column that both have."""

    comparisons: tuple[Comparison, ...]
    alpha: float
    worse: tuple[str, ...]
    level: str
    adjusted: tuple[float | None, ...] = ()
    """The p-value of each comparison after Holm's correction: what `alpha` is compared with."""

    @property
    def passed(self) -> bool:
        """True when nothing dropped significantly."""
        return not self.worse


def check(
    new: Scores,
    old: Scores,
    *,
    source: str | None = None,
    dimension: str | None = None,
    level: Literal["turn", "dialogue"] = "dialogue",
    alpha: float = 0.05,
    resamples: int = 10_000,
    seed: int = 0,
) -> Verdict:
    """Ask for a significant drop from `old` to `new`: one-sided tests, Holm-corrected over the columns.

    A column of which the signature says `lower` drops when it rises; one with `neither` is not a gate.
    """
    sides = [_columns(align(scores, level), source, dimension) for scores in (new, old)]
    shared = [column for column in sides[0] if column in sides[1]]
    if not shared:
        there = ", ".join(sorted({f"{c.source}/{c.dimension}" for side in sides for c in side})) or "nothing"
        raise UsageError(
            f"nothing to compare at {level} level: both sides need the same source; there are: {there}"
        )
    differing = [c.source for c in shared if _differs(new, old, c.source)]
    if differing:
        raise UsageError(
            f"{differing[0]} was made differently on the two sides: {new.signatures[differing[0]]} and "
            f"{old.signatures[differing[0]]}; score both with the same settings"
        )
    directions = {c: better(new.signatures, *c) for c in shared}
    gates = [c for c in shared if directions[c] != "neither"]
    if not gates:
        names = ", ".join(f"{c.source}/{c.dimension}" for c in shared)
        raise UsageError(f"nothing to compare: neither more nor less is better for {names}")
    made = []
    for column in gates:
        alternative = "greater" if directions[column] == "lower" else "less"
        a, b = sides[0][column], sides[1][column]
        label = f"{column.source}/{column.dimension}"
        made.append(compare(label, a, b, alternative=alternative, resamples=resamples, seed=seed))
    if all(one.p is None for one in made):
        raise UsageError(f"nothing to compare at {level} level: {made[0].label} has no value on one side")
    adjusted = statistics.holm([one.p for one in made])
    worse = tuple(one.label for one, p in zip(made, adjusted, strict=True) if p is not None and p < alpha)
    return Verdict(tuple(made), alpha, worse, level, tuple(adjusted))


def _columns(units: Units, source: str | None, dimension: str | None) -> dict[Column, dict[Item, float]]:
    """Take the columns asked for; raters count together as `human`."""
    found = {c: values for c, values in units.columns.items() if not is_human(c.source)}
    for name in dict.fromkeys(c.dimension for c in units.columns if is_human(c.source)):
        found[Column("human", name)] = mean_over(units, human_columns(units, name))
    return {
        column: items(units.keys, values)
        for column, values in found.items()
        if source in (None, column.source) and dimension in (None, column.dimension)
    }


def _differs(new: Scores, old: Scores, source: str) -> bool:
    if is_human(source) or source not in new.signatures or source not in old.signatures:
        return False
    a, b = new.signatures[source], old.signatures[source]
    return a != b and "column.v1" not in (a.name, b.name)
