"""Is the new version better? Versions of a system against the first of them, column by column.

Paired where the same items were scored, unpaired where not, and it says which. The same comparison is the
report of `dialeval compare` (two-sided: better or worse) and the gate of `dialeval check` (one-sided: worse).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from dialeval import statistics
from dialeval.errors import UsageError
from dialeval.scores import FAULT_SOURCES, Scores, is_fault, is_human
from dialeval.scores.signature import better
from dialeval.statistics import Estimate
from dialeval.statistics.power import Precision
from dialeval.studies import systems
from dialeval.studies.comparison import ComparedColumn, ComparedVersion, Comparison
from dialeval.studies.systems import Item
from dialeval.studies.units import Column, Key, Units, align, human_columns, mean_over

Partners = Mapping[str, Mapping[str, str]]
"""For each new version the ids of its dialogues' partners in the first, where they are not their own."""


def compare(
    versions: Mapping[str, Scores],
    *,
    source: str | None = None,
    dimension: str | None = None,
    level: Literal["turn", "dialogue"] = "dialogue",
    alpha: float = 0.05,
    alternative: Literal["two-sided", "worse"] = "two-sided",
    partners: Partners | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Hold every version against the first, on every column that both have.

    Args:
        versions: The scores of each, by name; the first is what the others are held against.
        source: Only this source; raters together are `human`.
        dimension: Only this dimension.
        level: What an item is.
        alpha: Significance level of the verdicts, Holm-corrected over the columns of a version: over the
            main ones (of each source its overall figure), and over the others by themselves.
        alternative: `two-sided`, or `worse`: one-sided tests for a drop in the direction that is good.
        partners: The ids of partners in the first version; the same ids if nothing is said.
        resamples: Draws of bootstraps and tests.
        seed: Of the draws.

    A column of which the signature says `lower` drops when it rises; one with `neither` is more or less, and
    never worse. A mean says nothing about the rows that are left out of it, so the share of unscored rows of
    every column is tested for a rise, dialogue by dialogue. A named fault that neither side has is
    not tested, and costs the others nothing.

    >>> from dialeval.scores import Score
    >>> old, new = (
    ...     Scores.of([Score(f"d{n}", None, None, "m", "x", n + gain) for n in range(8)])
    ...     for gain in (0.0, 1.0)
    ... )
    >>> found = compare({"old": old, "new": new}, resamples=999)
    >>> found.summary, found.columns[0].difference.value
    ('By m/x, new is better than old.', 1.0)
    """
    (first, old), *others = versions.items()
    test = _Test(first, level, alternative, resamples, seed, partners or {})
    columns, unscored = [], []
    for name, new in others:
        sides = [_columns(align(scores, level), source, dimension) for scores in (old, new)]
        found = test.columns(name, old, new, sides)
        columns += judged(found, alpha)
        unscored += judged(
            test.unscored(name, old, new, [Column(c.source, c.dimension) for c in found]), alpha
        )
    return Comparison(
        versions=tuple(ComparedVersion(name, _dialogues(scores)) for name, scores in versions.items()),
        level=level,
        alpha=alpha,
        alternative=alternative,
        columns=tuple(columns),
        unscored=tuple(unscored),
        signatures={k: str(v) for scores in versions.values() for k, v in scores.signatures.items()},
    )


def check(new: Scores, old: Scores, **options: Any) -> Comparison:
    """Ask for a significant drop from `old` to `new`: `compare` with one-sided tests.

    Options are those of `compare`.
    """
    return compare({"old": old, "new": new}, alternative="worse", **options)


class _Test(msgspec.Struct, frozen=True):
    """How two sides are tested against each other."""

    first: str
    level: str
    alternative: str
    resamples: int
    seed: int
    partners: Partners

    def columns(
        self, name: str, old: Scores, new: Scores, sides: Sequence[Mapping[Column, tuple[Units, Any]]]
    ) -> list[ComparedColumn]:
        """Compare all columns that both sides have, the default metric first."""
        shared = _without_doubles([column for column in sides[0] if column in sides[1]])
        _refuse_strangers(shared, sides, old, new, self.level)
        ways = {column: better(new.signatures, *column) for column in shared}
        if self.alternative == "worse":
            gates = [column for column in shared if ways[column] != "neither"]
            if not gates:
                names = ", ".join(f"{c.source}/{c.dimension}" for c in shared)
                raise UsageError(f"nothing to compare: neither more nor less is better for {names}")
            shared = gates
        main = _main_columns(ways)
        shared.sort(key=lambda column: (column not in main, ways[column] == "neither"))
        shared.sort(key=lambda column: column.source != "quality" or column not in main)
        made = []
        for column in shared:
            a, b = self.items(sides[0][column], self.first), self.items(sides[1][column], name)
            found = self.one(name, column, ways[column], a, b)
            if column not in main:
                tested = len({*a.values(), *b.values()}) > 1
                found = msgspec.structs.replace(found, main=False, p=found.p if tested else None)
            made.append(found)
        if all(one.difference.value is None for one in made):
            raise UsageError(
                f"nothing to compare at {self.level} level: {made[0].label} has no value on one side"
            )
        return made

    def items(self, given: tuple[Units, Any], version: str) -> dict[Item, float]:
        """Name the items of a side so that they find their partners."""
        units, values = given
        names = self.partners.get(version, {})
        return systems.items(
            tuple(
                key._replace(dialogue_id=names.get(key.dialogue_id, key.dialogue_id)) for key in units.keys
            ),
            values,
        )

    def unscored(self, name: str, old: Scores, new: Scores, columns: list[Column]) -> list[ComparedColumn]:
        """Compare the shares of unscored rows, for columns that have any in the new version."""
        found = []
        for column in columns:
            if is_human(column.source):
                continue
            a, b = (self._gaps(scores, column, who) for scores, who in ((old, self.first), (new, name)))
            if any(b.values()):
                found.append(self.one(name, column, "lower", a, b, "greater"))
        return found

    def _gaps(self, scores: Scores, column: Column, version: str) -> dict[Item, float]:
        """Return 1 for each row of a column that has no value, 0 for each that has one."""
        rows = list(scores.where(source=column.source, dimension=column.dimension))
        keys = tuple(Key(row.dialogue_id, row.system, row.turn) for row in rows)
        values = np.array([row.value is None for row in rows], dtype=float)
        return self.items((Units("turn", keys, {}), values), version)

    def one(
        self,
        name: str,
        column: Column,
        way: Any,
        old: Mapping[Item, float],
        new: Mapping[Item, float],
        alternative: str | None = None,
    ) -> ComparedColumn:
        """Test one column."""
        if alternative is None:
            drop = {"higher": "less", "lower": "greater"}.get(way, "two-sided")
            alternative = drop if self.alternative == "worse" else "two-sided"
        b, a, paired = systems.matched(new, old)
        draw: dict[str, Any] = {"resamples": self.resamples, "confidence": 0.95, "seed": self.seed}
        before, after = (
            statistics.bootstrap_means(systems.array(side), systems.clusters(side), **draw) for side in (a, b)
        )
        gap, p = systems.difference(b, a, paired, alternative, **draw)
        needed = dialogues_for_half(a, b, gap, paired)
        return ComparedColumn(name, *column, way, paired, before, after, gap, p, dialogues_for_half=needed)


def judged(found: Sequence[ComparedColumn], alpha: float) -> list[ComparedColumn]:
    """Correct the p-values of columns for their number, and give each its verdict.

    Main columns are one family, those that say how another differs a second one, and those of which neither
    way is good a third: thirty named faults do not hide whether the version is better.
    """
    adjusted: dict[int, float | None] = {}
    for family in {(one.main, one.better == "neither") for one in found}:
        places = [n for n, one in enumerate(found) if (one.main, one.better == "neither") == family]
        adjusted |= zip(places, statistics.holm([found[n].p for n in places]), strict=True)
    made = []
    for place, one in enumerate(found):
        p = adjusted[place]
        gap, verdict = one.difference.value, "not told apart"
        if p is not None and gap is not None and p < alpha:
            words = {"higher": ("better", "worse"), "lower": ("worse", "better")}.get(
                one.better, ("more", "less")
            )
            verdict = words[gap < 0]
        made.append(msgspec.structs.replace(one, p_holm=p, verdict=verdict))
    return made


def _without_doubles(columns: list[Column]) -> list[Column]:
    """Leave out a rule that another source of faults counts under the same name."""
    first, *others = FAULT_SOURCES
    return [
        column
        for column in columns
        if column.source != first or not any(Column(one, column.dimension) in columns for one in others)
    ]


def _main_columns(ways: Mapping[Column, str]) -> set[Column]:
    """Return of each source the column that is its overall figure: the one of its name, or the first.

    Of ratings every dimension; of a metric that only counts faults none.
    """
    found: dict[str, Column] = {}
    for column, way in ways.items():
        if column.source == column.dimension:
            found[column.source] = column
        elif way != "neither" and not is_fault(*column):
            found.setdefault(column.source, column)
    return {*found.values(), *(column for column in ways if column.source == "human")}


def dialogues_for_half(
    old: Mapping[Item, float], new: Mapping[Item, float], difference: Estimate, paired: bool
) -> int | None:
    """Return how many dialogues of each side would show half of a difference with a power of .8.

    None where that is not defined, or a million would not do.
    """
    sides = [_dialogue_means(side) for side in (old, new)]
    if not difference.value or min(map(len, sides)) < 3:
        return None
    shared = [name for name in sides[0] if name in sides[1]] if paired else []
    a, b = (np.array([side[n] for n in shared] if shared else list(side.values())) for side in sides)
    sd = float(np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2))
    if sd == 0:
        return None
    pairing_r = float(np.corrcoef(a, b)[0, 1]) if shared and a.std() and b.std() else 0.0
    return Precision(sd, pairing=min(pairing_r, 0.999)).labels_for(difference.value / 2)


def _dialogue_means(values: Mapping[Item, float]) -> dict[object, float]:
    found: dict[object, list[float]] = {}
    for (name, _), value in values.items():
        found.setdefault(name, []).append(value)
    return {name: float(np.mean(own)) for name, own in found.items()}


def _refuse_strangers(
    shared: list[Column], sides: Sequence[Mapping[Column, Any]], old: Scores, new: Scores, level: str
) -> None:
    """Refuse two sides that have nothing in common, or whose scores were made differently."""
    if not shared:
        there = ", ".join(sorted({f"{c.source}/{c.dimension}" for side in sides for c in side})) or "nothing"
        raise UsageError(
            f"nothing to compare at {level} level: both sides need the same source; there are: {there}"
        )
    for source in dict.fromkeys(column.source for column in shared if not is_human(column.source)):
        made = [scores.signatures.get(source) for scores in (new, old)]
        if None not in made and made[0] != made[1] and "column.v1" not in (one.name for one in made if one):
            raise UsageError(
                f"{source} was made differently on the two sides: {made[0]} and {made[1]}; "
                "score both with the same settings"
            )


def _columns(units: Units, source: str | None, dimension: str | None) -> dict[Column, tuple[Units, Any]]:
    """Take the columns asked for; raters count together as `human`."""
    found = {c: values for c, values in units.columns.items() if not is_human(c.source)}
    for name in dict.fromkeys(c.dimension for c in units.columns if is_human(c.source)):
        found[Column("human", name)] = mean_over(units, human_columns(units, name))
    return {
        column: (units, values)
        for column, values in found.items()
        if source in (None, column.source) and dimension in (None, column.dimension)
    }


def _dialogues(scores: Scores) -> int:
    return len(
        {
            (row["dialogue_id"], row["system"])
            for row in scores.table.select(["dialogue_id", "system"]).to_pylist()
        }
    )
