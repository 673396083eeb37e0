"""Versions of a system compared with the first of them, column by column.

Tests are paired where the same items were scored. `dialeval compare` uses two-sided tests (better or worse),
the gate `dialeval check` one-sided ones (worse).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from dialeval import statistics
from dialeval.errors import UsageError
from dialeval.scores import Scores, is_fault, is_human
from dialeval.scores.signature import better
from dialeval.statistics import Estimate
from dialeval.statistics.power import Precision
from dialeval.studies import systems
from dialeval.studies.comparison import ComparedColumn, ComparedVersion, Comparison
from dialeval.studies.systems import Item
from dialeval.studies.units import Column, Key, Units, align, distinct_faults, human_columns, mean_over

Partners = Mapping[str, Mapping[str, str]]
"""For each new version, the ids of its dialogues' partners in the first version where ids differ."""


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
    """Compare every version with the first, on every column that both have.

    Args:
        versions: The scores of each version by name; the others are compared with the first.
        source: Only this source; raters together are `human`.
        alpha: Significance level of the verdicts, Holm-corrected over the main columns of a version (the
            overall figure of each source), and separately over its other columns.
        alternative: `two-sided`, or `worse`: one-sided tests for a change in the bad direction.
        partners: The ids of partners in the first version; by default the same ids.

    A column whose signature says `lower` is worse when it rises; one with `neither` is more or less, never
    worse. Because means leave out unscored rows, the share of unscored rows of every column is tested for a
    rise. A fault that neither version has is not tested, and so does not count in Holm's correction.

    >>> from dialeval.scores import Score
    >>> old, new = (
    ...     Scores.of([Score(f"d{n}", None, None, "m", "x", n + gain) for n in range(8)])
    ...     for gain in (0.0, 1.0)
    ... )
    >>> result = compare({"old": old, "new": new}, resamples=999)
    >>> result.summary, result.columns[0].difference.value
    ('By m/x, new is better than old.', 1.0)
    """
    (first, old), *newer = versions.items()
    test = _Test(first, level, alternative, resamples, seed, partners or {})
    columns, unscored = [], []
    for name, new in newer:
        sides = [_columns(align(scores, level), source, dimension) for scores in (old, new)]
        compared = test.compare_columns(name, old, new, sides)
        columns += add_verdicts(compared, alpha)
        unscored += add_verdicts(test.compare_unscored(name, old, new, compared), alpha)
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
    """Test for a significant drop from `old` to `new`: `compare` and its options, with one-sided tests."""
    return compare({"old": old, "new": new}, alternative="worse", **options)


class _Test(msgspec.Struct, frozen=True):
    """The settings of a test of two versions."""

    first: str
    level: str
    alternative: str
    resamples: int
    seed: int
    partners: Partners

    def compare_columns(
        self, name: str, old: Scores, new: Scores, sides: Sequence[Mapping[Column, tuple[Units, Any]]]
    ) -> list[ComparedColumn]:
        """Compare all columns that both sides have, the default metric first."""
        shared = distinct_faults(column for column in sides[0] if column in sides[1])
        _check_comparable(shared, sides, old, new, self.level)
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
        compared = []
        for column in shared:
            a, b = self.items(sides[0][column], self.first), self.items(sides[1][column], name)
            result = self.compare_column(name, column, ways[column], a, b)
            if column not in main:
                tested = len({*a.values(), *b.values()}) > 1
                result = msgspec.structs.replace(result, main=False, p=result.p if tested else None)
            compared.append(result)
        if all(result.difference.value is None for result in compared):
            raise UsageError(
                f"nothing to compare at {self.level} level: {compared[0].label} has no value on one side"
            )
        return compared

    def items(self, column: tuple[Units, Any], version: str) -> dict[Item, float]:
        """Return the items of a version under the ids of their partners."""
        units, values = column
        names = self.partners.get(version, {})
        keys = (key._replace(dialogue_id=names.get(key.dialogue_id, key.dialogue_id)) for key in units.keys)
        return systems.items(tuple(keys), values)

    def compare_unscored(
        self, name: str, old: Scores, new: Scores, columns: Sequence[ComparedColumn]
    ) -> list[ComparedColumn]:
        """Compare the shares of unscored rows, for columns that have any in the new version."""
        compared = []
        for column in (Column(c.source, c.dimension) for c in columns if not is_human(c.source)):
            a, b = self._unscored(old, column, self.first), self._unscored(new, column, name)
            if any(b.values()):
                compared.append(self.compare_column(name, column, "lower", a, b, "greater"))
        return compared

    def _unscored(self, scores: Scores, column: Column, version: str) -> dict[Item, float]:
        """Return 1 for each row of a column without a value, 0 for each with one."""
        rows = list(scores.where(source=column.source, dimension=column.dimension))
        keys = tuple(Key(row.dialogue_id, row.system, row.turn) for row in rows)
        values = np.array([row.value is None for row in rows], dtype=float)
        return self.items((Units("turn", keys, {}), values), version)

    def compare_column(
        self,
        name: str,
        column: Column,
        direction: Any,
        old: Mapping[Item, float],
        new: Mapping[Item, float],
        alternative: str | None = None,
    ) -> ComparedColumn:
        """Test one column."""
        if alternative is None:
            drop = {"higher": "less", "lower": "greater"}.get(direction, "two-sided")
            alternative = drop if self.alternative == "worse" else "two-sided"
        b, a, paired = systems.match_items(new, old)
        draw: dict[str, Any] = {"resamples": self.resamples, "confidence": 0.95, "seed": self.seed}
        before, after = (
            statistics.bootstrap_means(systems.array(side), systems.clusters(side), **draw) for side in (a, b)
        )
        gap, p = systems.difference(b, a, paired, alternative, **draw)
        needed = dialogues_for_half(a, b, gap, paired)
        return ComparedColumn(
            name, *column, direction, paired, before, after, gap, p, dialogues_for_half=needed
        )


def add_verdicts(columns: Sequence[ComparedColumn], alpha: float) -> list[ComparedColumn]:
    """Return the columns with Holm-corrected p-values and verdicts.

    Main columns and other columns are separate families, and so are those without a good direction: thirty
    named faults must not hide whether a version is better.
    """
    adjusted: dict[int, float | None] = {}
    for family in {(column.main, column.better == "neither") for column in columns}:
        indices = [
            n for n, column in enumerate(columns) if (column.main, column.better == "neither") == family
        ]
        adjusted |= zip(indices, statistics.holm([columns[n].p for n in indices]), strict=True)
    judged_columns = []
    for index, column in enumerate(columns):
        p = adjusted[index]
        gap, verdict = column.difference.value, "not told apart"
        if p is not None and gap is not None and p < alpha:
            words = {"higher": ("better", "worse"), "lower": ("worse", "better")}.get(
                column.better, ("more", "less")
            )
            verdict = words[gap < 0]
        judged_columns.append(msgspec.structs.replace(column, p_holm=p, verdict=verdict))
    return judged_columns


def _main_columns(ways: Mapping[Column, str]) -> set[Column]:
    """Return the overall figure of each source: the column of its name, or the first.

    All dimensions of ratings are main columns; a metric that only counts faults has none.
    """
    main: dict[str, Column] = {}
    for column, direction in ways.items():
        if column.source == column.dimension:
            main[column.source] = column
        elif direction != "neither" and not is_fault(*column):
            main.setdefault(column.source, column)
    return {*main.values(), *(column for column in ways if column.source == "human")}


def dialogues_for_half(
    old: Mapping[Item, float], new: Mapping[Item, float], difference: Estimate, paired: bool
) -> int | None:
    """Return how many dialogues per version would show half of a difference with a power of .8.

    None if undefined, or more than a million.
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
    values_of: dict[object, list[float]] = {}
    for (name, _), value in values.items():
        values_of.setdefault(name, []).append(value)
    return {name: float(np.mean(scores)) for name, scores in values_of.items()}


def _check_comparable(
    shared: list[Column], sides: Sequence[Mapping[Column, Any]], old: Scores, new: Scores, level: str
) -> None:
    """Refuse two versions without a common column, or whose signatures differ."""
    if not shared:
        there = ", ".join(sorted({f"{c.source}/{c.dimension}" for side in sides for c in side})) or "nothing"
        raise UsageError(
            f"nothing to compare at {level} level: both sides need the same source; there are: {there}"
        )
    for source in dict.fromkeys(column.source for column in shared if not is_human(column.source)):
        signatures = [scores.signatures.get(source) for scores in (new, old)]
        if (
            None not in signatures
            and signatures[0] != signatures[1]
            and "column.v1" not in (signature.name for signature in signatures if signature)
        ):
            raise UsageError(
                f"{source} was made differently on the two sides: {signatures[0]} and {signatures[1]}; "
                "score both with the same settings"
            )


def _columns(units: Units, source: str | None, dimension: str | None) -> dict[Column, tuple[Units, Any]]:
    """Return the requested columns; raters are averaged as `human`."""
    columns = {c: values for c, values in units.columns.items() if not is_human(c.source)}
    for name in dict.fromkeys(c.dimension for c in units.columns if is_human(c.source)):
        columns[Column("human", name)] = mean_over(units, human_columns(units, name))
    return {
        column: (units, values)
        for column, values in columns.items()
        if source in (None, column.source) and dimension in (None, column.dimension)
    }


def _dialogues(scores: Scores) -> int:
    return int(scores.table.group_by(["dialogue_id", "system"]).aggregate([]).num_rows)
