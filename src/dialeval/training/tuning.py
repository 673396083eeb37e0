"""Choose a metric's fields on a few rated dialogues, without believing the luckiest number.

With 28 dialogues a correlation has an interval of more than half a unit: the best of a dozen combinations is
the best by chance as much as by merit. `trials` says which of them are equal but for noise, `regions` takes
the middle of those.

Nothing is tuned on what is for testing: a test set is refused, and dialogues that are found in one are left
out of all others.
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
from dialeval.scores import Scores, is_human
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

MOST = 500  # combinations: more of them find more luck, not more merit


@dataclass(frozen=True)
class Tuning:
    """The trials of a tuning, their agreement with ratings, the flat regions and the chosen trial.

    The last trial may be one that was not asked for: the middle of the regions, if nobody had tried it.
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
    """Return the part of a public set that is for tuning, its ratings, and the level and name of its gold.

    Raises:
        UsageError: If the manifest names no such part, or nobody rated the set.
    """
    chosen = public_set(name)
    if chosen.rate is None:
        raise UsageError(f"nobody rated the dialogues of {name}, so there is nothing to tune on")
    if not split_of(name).dev:
        known = ", ".join(other for other in _rated_sets() if split_of(other).dev)
        raise UsageError(
            f"{name} is a test set: nothing is tuned on it. Sets with a part for tuning: {known}"
        )
    gold = next((one for one in chosen.golds if level in (None, one.level)), chosen.golds[0])
    return list(portion(name, "dev")), chosen.ratings(), level or gold.level, dimension or gold.dimension


def parse_fields(texts: Iterable[str], option: str) -> dict[str, tuple[str, ...]]:
    """Read `field=value,value` as it is given to `--try` and `--fix`.

    >>> parse_fields(["w=0,0.1", "idf=none"], "--try")
    {'w': ('0', '0.1'), 'idf': ('none',)}
    """
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        field, _, values = text.partition("=")
        field, parts = field.strip(), tuple(part.strip() for part in values.split(","))
        if not field or not all(parts):
            raise UsageError(f"{option} {text!r}: expected field=value[,value…]")
        if field in found:
            raise UsageError(f"{option}: {field} comes twice; name all of its values at once")
        found[field] = parts
    return found


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
        dialogues: What to tune on; those found in a public test set that is at hand are left out.
        ratings: What people said about them.
        tried: For each field the values to try, written as on the command line.
        fixed: Fields with the same value in all combinations.
        of: Which dimension of the metric; by default its first.
        level: By default where the ratings are.
        dimension: Which ratings; by default those that a study would take.
        settings: Statistic, intervals, what is flat.
        watch: Called with the number of dialogues after each combination.
    """
    settings = settings or TuningSettings()
    check_method(settings.method)
    grid = _Grid(metric, fixed or {}, tried, of)
    wanted, scored = grid.specs(), {}
    kept, dropped = _without_tests(list(dialogues))
    gold, level = _gold(ratings, {one.id for one in kept}, level, dimension)

    def compare(specs: Iterable[str]) -> Trials:
        for spec in specs:
            scored[spec] = grid.score(spec, kept, level)
            if watch:
                watch(len(kept))
        fields = {spec: grid.values(spec) for spec in scored}
        return compare_trials(scored, fields, grid.of, gold, level, settings)

    found = compare(wanted)
    regions, best = flat_regions(found.rows)
    middle = {region.field: region.chosen for region in regions}
    if all(one.fields != middle for one in found.rows):
        found = compare([grid.spec_of(middle)])
    chosen = next(one for one in found.rows if one.fields == middle)
    lost = f"{found.n_lost} rated {level}s are not compared: some combinations leave them unscored"
    notes = [lost] if found.n_lost else []
    if not chosen.flat:
        chosen = next(one for one in found.rows if one.spec == best.spec)
        notes.append("the middle is worse than the best by more than noise: the best is taken")
    told = {"dimension": gold.dimensions[0], "level": level, "raters": len(gold.sources)}
    how = {**dataclasses.asdict(settings), "fixed": grid.fixed}
    counts = (found.n_dialogues, found.n_units, dropped)
    return Tuning(grid.name, grid.of, told, how, *counts, found.rows, regions, chosen, notes)


class _Grid:
    """All combinations of some fields of a metric, the other fields fixed."""

    def __init__(
        self, metric: str, fixed: Mapping[str, str], tried: Mapping[str, Sequence[str]], of: str | None
    ) -> None:
        _, self.name, own = parse_spec(metric)
        self.fixed, self.tried = {**own, **fixed}, tried
        self._texts: dict[tuple[str, str], str] = {}
        if not tried:
            raise UsageError("nothing to try: name a field and its values, --try field=value,value")
        if twice := [field for field in tried if field in self.fixed]:
            raise UsageError(f"{twice[0]} is both fixed and tried")
        dimensions = metric_class(self.name).dimensions
        self.of = of or dimensions[0]
        if self.of not in dimensions:
            raise UsageError(f"{self.name} gives no {self.of!r}; it gives: {', '.join(dimensions)}")

    def spec(self, values: Mapping[str, object]) -> str:
        """Write a combination as `-m` takes it."""
        pairs = (f"{field}={value}" for field, value in {**self.fixed, **values}.items())
        return f"{self.name}:{','.join(pairs)}"

    def specs(self) -> list[str]:
        """Return all combinations, each of which can be built and differs from the others."""
        count = prod(map(len, self.tried.values()))
        if not 2 <= count <= MOST:
            raise UsageError(f"{count} combinations: there must be 2 to {MOST} to choose from")
        made: dict[str, str] = {}
        for texts in product(*self.tried.values()):
            given = dict(zip(self.tried, texts, strict=True))
            spec, values = self.spec(given), self.values(self.spec(given))
            if (key := repr(values)) in made:
                raise UsageError(f"{made[key]} and {spec} are the same")
            made[key] = spec
            self._texts |= {(field, repr(value)): given[field] for field, value in values.items()}
        return list(made.values())

    def spec_of(self, values: Mapping[str, Any]) -> str:
        """Write a combination of values as the metric has them; those that were given as they were given."""
        texts = self._texts
        return self.spec({field: texts.get((field, repr(value)), value) for field, value in values.items()})

    def values(self, spec: str) -> dict[str, Any]:
        """Return the tried fields as the metric has them."""
        made = build(spec)
        found = {field: getattr(made, field) for field in self.tried}
        for field, value in found.items():
            if isinstance(value, float) and not isfinite(value):
                raise UsageError(f"{self.name}:{field}={value}: expected a finite number")
        return found

    def score(self, spec: str, dialogues: Sequence[Dialogue], level: Level) -> Scores:
        """Score with one combination; dialogues have their own rows or those of their turns."""
        made = build(spec)
        found: Scores = made.score(dialogues).where(dimension=self.of)
        whole, turns = found.where(level="dialogue"), found.where(level="turn")
        if level == "turn" and len(found) and not len(turns):
            raise UsageError(f"{self.name} gives no {self.of!r} of turns, and turns were rated")
        kept = whole if level == "dialogue" and len(whole) else turns
        return Scores(kept.renamed(spec).table, {spec: signature_of(made)})


def _rated_sets() -> Iterator[str]:
    return (name for name in test_sets() if public_set(name).rate is not None)


def _without_tests(dialogues: Sequence[Dialogue]) -> tuple[list[Dialogue], int]:
    """Drop dialogues that are in the test portion of a rated public set on this machine."""

    def tests() -> Iterator[Dialogue]:
        for name in _rated_sets():
            with contextlib.suppress(MissingPartError):
                yield from read_tests(name)

    return leave_out(dialogues, tests())


def _gold(ratings: Scores, ids: set[str], level: Level | None, dimension: str | None) -> tuple[Scores, Level]:
    """Return the ratings to compare with, and their level: chosen as a study does."""
    rows = Scores.of(
        (row for row in ratings if is_human(row.source) and row.dialogue_id in ids), ratings.signatures
    )
    if not len(rows):
        raise DataError("none of the dialogues is rated", fix="do the ids of dialogues and ratings match?")
    whole, turns = rows.where(level="dialogue"), rows.where(level="turn")
    level = level or ("dialogue" if len(whole) else "turn")
    usable = [turns] if level == "turn" else [whole, turns]
    for part in usable:
        wanted = dimension or next((name for name in ("overall", "quality") if name in part.dimensions), None)
        wanted = wanted or next(iter(part.dimensions), None)
        if wanted in part.dimensions:
            return part.where(dimension=wanted), level
    known = ", ".join(sorted({name for part in usable for name in part.dimensions})) or "none"
    raise UsageError(f"no rating called {dimension!r} at {level} level; there are: {known}")
