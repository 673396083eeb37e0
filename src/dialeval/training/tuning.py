"""Tuning of a metric's fields on a few rated dialogues.

With 28 dialogues a correlation has an interval of more than half a unit: the best of a dozen combinations is
the best by chance as much as by merit. `trials` finds those that are equal but for noise and chooses the
middle of them.

Nothing is tuned on test data: a test set is refused, and dialogues that are found in one are left out of all
others.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import isfinite, prod
from typing import Any

from dialeval import __version__
from dialeval.dialogues import Dialogue
from dialeval.dialogues.datasets import public_set
from dialeval.dialogues.datasets.publicset import MissingPartError
from dialeval.dialogues.splits import leave_out, portion, split_of, test_sets
from dialeval.errors import DataError, UsageError
from dialeval.metrics.registry import build, metric_class, parse_spec, signature_of
from dialeval.scores import Scores, is_human, overall_first
from dialeval.statistics.correlation import check_method
from dialeval.training.data import read_tests
from dialeval.training.trials import (
    Level,
    Region,
    Trial,
    Trials,
    TuningSettings,
    compare_trials,
    flat_regions,
)

MOST = 500  # combinations: with more, the best is mostly chance


@dataclass(frozen=True)
class Tuning:
    """The trials of a tuning, their agreement with ratings, the flat regions and the chosen trial.

    The last trial may be an additional one: the middle of the regions, if it was not tried.
    """

    metric: str
    dimension: str
    gold: dict[str, Any]
    settings: dict[str, Any]
    n_dialogues: int
    n_units: int
    n_dropped: int
    trials: list[Trial]
    regions: list[Region]
    chosen: Trial
    notes: list[str]

    def to_dict(self, **more: Any) -> dict[str, Any]:
        """Return the record as plain dictionaries and lists, for JSON."""
        return {"version": "tuning.v1", "dialeval": __version__, **more, **dataclasses.asdict(self)}


def tuning_part(
    name: str, level: Level | None = None, dimension: str | None = None
) -> tuple[list[Dialogue], Scores, Level, str]:
    """Return a public set's part for tuning, its ratings, and level and dimension of its gold.

    Raises:
        UsageError: If the manifest names no such part, or the set has no ratings.
    """
    chosen = public_set(name)
    if chosen.rate is None:
        raise UsageError(f"{name} has no human ratings to tune on")
    if not split_of(name).dev:
        tunable = ", ".join(set_name for set_name in _rated_sets() if split_of(set_name).dev)
        raise UsageError(
            f"{name} is a test set and cannot be tuned on. Sets with a part for tuning: {tunable}"
        )
    gold = next((gold for gold in chosen.golds if level in (None, gold.level)), chosen.golds[0])
    return list(portion(name, "dev")), chosen.ratings(), level or gold.level, dimension or gold.dimension


def parse_fields(texts: Iterable[str], option: str) -> dict[str, tuple[str, ...]]:
    """Return the fields and values of `field=value,value`, as given to `--try` and `--fix`.

    >>> parse_fields(["w=0,0.1", "idf=none"], "--try")
    {'w': ('0', '0.1'), 'idf': ('none',)}
    """
    fields: dict[str, tuple[str, ...]] = {}
    for text in texts:
        field, _, values = text.partition("=")
        field, parts = field.strip(), tuple(part.strip() for part in values.split(","))
        if not field or not all(parts):
            raise UsageError(f"{option} {text!r}: expected field=value[,value…]")
        if field in fields:
            raise UsageError(f"{option}: {field} is given twice; list all of its values at once")
        fields[field] = parts
    return fields


def tune(
    metric: str,
    dialogues: Iterable[Dialogue],
    ratings: Scores,
    tried: Mapping[str, Sequence[str]],
    fixed: Mapping[str, str] | None = None,
    *,
    of: str | None = None,
    level: Level | None = None,
    dimension: str | None = None,
    settings: TuningSettings | None = None,
    watch: Callable[[int], None] | None = None,
) -> Tuning:
    """Score dialogues with every combination of the tried values, and choose one.

    Args:
        metric: A metric in command-line notation; the fields it names are fixed.
        dialogues: The dialogues to tune on; those in a public test set on this machine are left out.
        tried: For each field the values to try, written as on the command line.
        fixed: Fields with the same value in all combinations.
        of: The dimension of the metric; by default its first.
        level: The level of ratings; by default dialogues if any are rated, else turns.
        dimension: The dimension of ratings; by default as in a study.
    """
    settings = settings or TuningSettings()
    check_method(settings.method)
    grid = _Grid(metric, fixed or {}, tried, of)
    specs, scored = grid.specs(), {}
    disjoint, dropped = _without_tests(list(dialogues))
    gold, level = _gold(ratings, {dialogue.id for dialogue in disjoint}, level, dimension)

    def compare(specs: Iterable[str]) -> Trials:
        for spec in specs:
            scored[spec] = grid.score(spec, disjoint, level)
            if watch:
                watch(len(disjoint))
        fields = {spec: grid.values(spec) for spec in scored}
        return compare_trials(scored, fields, grid.of, gold, level, settings)

    compared = compare(specs)
    regions, best = flat_regions(compared.rows)
    middle = {region.field: region.chosen for region in regions}
    if all(trial.fields != middle for trial in compared.rows):
        compared = compare([grid.spec_of(middle)])
    chosen = next(trial for trial in compared.rows if trial.fields == middle)
    lost = f"{compared.n_lost} rated {level}s are not compared: some combinations leave them unscored"
    notes = [lost] if compared.n_lost else []
    if not chosen.flat:
        chosen = next(trial for trial in compared.rows if trial.spec == best.spec)
        notes.append("the middle is worse than the best by more than noise: the best is taken")
    gold_record = {"dimension": gold.dimensions[0], "level": level, "raters": len(gold.sources)}
    record = {**dataclasses.asdict(settings), "fixed": grid.fixed}
    counts = (compared.n_dialogues, compared.n_units, dropped)
    return Tuning(grid.name, grid.of, gold_record, record, *counts, compared.rows, regions, chosen, notes)


class _Grid:
    """All combinations of some fields of a metric, the other fields fixed."""

    def __init__(
        self, metric: str, fixed: Mapping[str, str], tried: Mapping[str, Sequence[str]], of: str | None
    ) -> None:
        _, self.name, own = parse_spec(metric)
        self.fixed, self.tried = {**own, **fixed}, tried
        self._texts: dict[tuple[str, str], str] = {}
        if not tried:
            raise UsageError("nothing to try: give a field and its values, --try field=value,value")
        if twice := [field for field in tried if field in self.fixed]:
            raise UsageError(f"{twice[0]} is both fixed and tried")
        dimensions = metric_class(self.name).dimensions
        self.of = of or dimensions[0]
        if self.of not in dimensions:
            raise UsageError(f"{self.name} has no dimension {self.of!r}; it has: {', '.join(dimensions)}")

    def spec(self, values: Mapping[str, object]) -> str:
        """Return a combination in command-line notation."""
        pairs = (f"{field}={value}" for field, value in {**self.fixed, **values}.items())
        return f"{self.name}:{','.join(pairs)}"

    def specs(self) -> list[str]:
        """Return all combinations, each of which can be built and differs from the others."""
        count = prod(map(len, self.tried.values()))
        if not 2 <= count <= MOST:
            raise UsageError(f"{count} combinations: there must be 2 to {MOST} to choose from")
        by_values: dict[str, str] = {}
        for texts in product(*self.tried.values()):
            combination = dict(zip(self.tried, texts, strict=True))
            spec, values = self.spec(combination), self.values(self.spec(combination))
            if (key := repr(values)) in by_values:
                raise UsageError(f"{by_values[key]} and {spec} are the same")
            by_values[key] = spec
            self._texts |= {(field, repr(value)): combination[field] for field, value in values.items()}
        return list(by_values.values())

    def spec_of(self, values: Mapping[str, Any]) -> str:
        """Return a combination of values in command-line notation; given values keep their spelling."""
        texts = self._texts
        return self.spec({field: texts.get((field, repr(value)), value) for field, value in values.items()})

    def values(self, spec: str) -> dict[str, Any]:
        """Return the values of the tried fields in the metric."""
        metric = build(spec)
        values = {field: getattr(metric, field) for field in self.tried}
        for field, value in values.items():
            if isinstance(value, float) and not isfinite(value):
                raise UsageError(f"{self.name}:{field}={value}: expected a finite number")
        return values

    def score(self, spec: str, dialogues: Sequence[Dialogue], level: Level) -> Scores:
        """Return the scores of one combination; dialogues have their own rows or those of their turns."""
        metric = build(spec)
        scores: Scores = metric.score(dialogues).where(dimension=self.of)
        of_dialogues, of_turns = scores.where(level="dialogue"), scores.where(level="turn")
        if level == "turn" and len(scores) and not len(of_turns):
            raise UsageError(f"{self.name} has no {self.of!r} of turns, and turns were rated")
        rows = of_dialogues if level == "dialogue" and len(of_dialogues) else of_turns
        return Scores(rows.renamed(spec).table, {spec: signature_of(metric)})


def _rated_sets() -> Iterator[str]:
    return (name for name in test_sets() if public_set(name).rate is not None)


def _without_tests(dialogues: Sequence[Dialogue]) -> tuple[list[Dialogue], int]:
    """Return the dialogues that are in no test portion of a rated public set, and how many were dropped."""

    def tests() -> Iterator[Dialogue]:
        for name in _rated_sets():
            with contextlib.suppress(MissingPartError):
                yield from read_tests(name)

    return leave_out(dialogues, tests())


def _gold(ratings: Scores, ids: set[str], level: Level | None, dimension: str | None) -> tuple[Scores, Level]:
    """Return the ratings to compare with, and their level, chosen as in a study."""
    rows = Scores.of(
        (row for row in ratings if is_human(row.source) and row.dialogue_id in ids), ratings.signatures
    )
    if not len(rows):
        raise DataError("none of the dialogues is rated", fix="do the ids of dialogues and ratings match?")
    of_dialogues, of_turns = rows.where(level="dialogue"), rows.where(level="turn")
    level = level or ("dialogue" if len(of_dialogues) else "turn")
    usable = [of_turns] if level == "turn" else [of_dialogues, of_turns]
    for part in usable:
        chosen = dimension or overall_first(part.dimensions)
        if chosen in part.dimensions:
            return part.where(dimension=chosen), level
    names = ", ".join(sorted({name for part in usable for name in part.dimensions})) or "none"
    raise UsageError(f"no rating called {dimension!r} at {level} level; there are: {names}")
