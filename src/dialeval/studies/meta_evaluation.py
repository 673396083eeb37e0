"""`study`: a table of scores in, findings out: what agrees with people, what differs, what to look at."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dialeval import files
from dialeval.errors import DataError, UsageError
from dialeval.scores import Score, Scores, Signature, is_human
from dialeval.scores.signature import better
from dialeval.statistics import METHODS, majority
from dialeval.statistics.agreement import TIES
from dialeval.studies import against_gold, between_raters, between_systems, by_class, taxonomy
from dialeval.studies.combination import LINE, Combination, combine
from dialeval.studies.lines import is_gold, with_lines
from dialeval.studies.notes import apart, empty_ratings, flat_lines, hopeless_tests, silent_sources
from dialeval.studies.subset import where
from dialeval.studies.units import (
    AGGREGATES,
    LEVELS,
    Column,
    Floats,
    Level,
    Units,
    align,
    human_columns,
    raw_mean,
    settled,
    with_systems,
)

Table = list[dict[str, Any]]
VERSION = "study.v1"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that decides what a study computes; stored with it."""

    gold: str = "human"
    level: Level | None = None
    dimension: str | None = None
    aggregate: str = "mean"
    consensus: str = "mean"
    tie: str = "null"
    where: str | None = None
    combine: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    by: Literal["system", "dimension"] | None = None
    context: Literal["static", "dynamic"] | None = None
    method: str = "spearman"
    resamples: int = 10_000
    permutations: int = 10_000
    confidence: float = 0.95
    seed: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        """Refuse a choice that does not exist before any work is done."""
        choices: dict[str, tuple[str | None, ...]] = {
            "level": (None, *LEVELS),
            "aggregate": tuple(AGGREGATES),
            "consensus": ("mean", "majority"),
            "tie": TIES,
            "by": (None, "system", "dimension"),
            "context": (None, "static", "dynamic"),
            "method": METHODS,
        }
        for name, known in choices.items():
            if (given := getattr(self, name)) not in known:
                raise UsageError(f"no {name} {given!r}; known: {', '.join(filter(None, known))}")
        if min(self.resamples, self.permutations, self.workers) < 1:
            raise UsageError("resamples, permutations and workers must be at least 1")
        if not 0 < self.confidence < 1:
            raise UsageError(f"confidence must lie between 0 and 1, not {self.confidence}")


@dataclass(frozen=True, slots=True)
class Study:
    """Plain tables that save to one JSON file. Undefined is null with a reason, never NaN.

    `print(study)` shows the correlations.
    """

    settings: dict[str, Any]
    gold: dict[str, Any] | None
    n_units: int
    n_dialogues: int
    correlations: Table = field(default_factory=list)
    ceiling: Table = field(default_factory=list)
    differences: Table = field(default_factory=list)
    clusters: dict[str, int] = field(default_factory=dict)
    matrix: dict[str, Any] = field(default_factory=dict)
    subsets: Table = field(default_factory=list)
    labels: dict[str, Any] = field(default_factory=dict)
    classes: Table = field(default_factory=list)
    calibration: Table = field(default_factory=list)
    systems: Table = field(default_factory=list)
    comparisons: Table = field(default_factory=list)
    agreement: Table = field(default_factory=list)
    worst: Table = field(default_factory=list)
    lines: Table = field(default_factory=list)
    schema: dict[str, str] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def save(self, path: str | Path) -> None:
        """Write the study as JSON."""
        files.write_text(path, self.to_json())

    def to_json(self) -> str:
        """Return the study as JSON text, without a NaN in it."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=1) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return the study as plain dictionaries and lists."""
        return {"version": VERSION, **dataclasses.asdict(self)}

    @classmethod
    def load(cls, path: str | Path) -> "Study":
        """Read a study back."""
        try:
            with files.open_binary(path) as file:
                body = json.load(file)
            if body.pop("version") != VERSION:
                raise DataError("made by another version", file=path, fix="run dialeval study again")
            return cls(**body)
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"not a study: {error}", file=path, fix="run dialeval study again") from None

    @property
    def illustrative(self) -> bool:
        """Whether ratings in it were made up to show what the tools do; their signature says so."""
        return any("|illustrative:true" in made for made in self.signatures.values())

    def __str__(self) -> str:
        lines = [f"{'source':30} {'n':>6} {'Pearson':>8} {'Spearman':>8} {'Kendall':>8}"]
        for row in self.correlations:
            cells = [row[m]["value"] for m in ("pearson", "spearman", "kendall")]
            numbers = " ".join(f"{'-' if cell is None else f'{cell:.3f}':>8}" for cell in cells)
            lines.append(f"{row['label'][:30]:30} {row['n']:>6} {numbers}")
        return "\n".join(lines)


def study(scores: Scores, gold: str = "human", level: Level | None = None, **settings: Any) -> Study:
    """Compare every source with the gold one, and everything else that tells how far to trust it.

    Args:
        scores: Metric scores, human ratings and foreign columns in one table.
        gold: What to compare with: `human` (mean over all raters), or the name of any source.
        level: `turn`, `dialogue` or `system`; by default the one that the gold ratings were given at.
        **settings: Any other field of `Settings`.

    Raises:
        UsageError: If the gold source or dimension is not there or not clear.
    """
    try:
        chosen = Settings(gold=gold, level=level, **settings)
    except TypeError as error:
        raise UsageError(f"study: {error}") from None
    scores = with_systems(scores)
    level, dimension = _level_and_dimension(scores, chosen)
    chosen = dataclasses.replace(chosen, level=level, dimension=dimension)
    scores, fitted = with_lines(
        scores,
        chosen.combine,
        gold=gold,
        dimension=dimension,
        level=level,
        aggregate=chosen.aggregate,
        seed=chosen.seed,
        confidence=chosen.confidence,
    )
    units = align(scores, level, chosen.aggregate)
    gold_columns = _gold_columns(scores, units, chosen, dimension)
    target = _consensus(scores, units, gold_columns, chosen) if gold_columns else None
    signatures = dict(scores.signatures)
    lower = frozenset(column for column in units.columns if better(signatures, *column) == "lower")
    for combination in map(Combination.parse, chosen.combine):
        if combination.method != LINE:
            units = combine(units, combination, target, chosen.seed, lower)
            signatures[combination.name] = combination.signature
    if chosen.where:
        kept = where(units, chosen.where, target)
        units, target = units.keep(kept), None if target is None else target[kept]
    columns = _metric_columns(units, gold_columns, chosen)
    found = _find(scores, units, columns, gold_columns, target, chosen, signatures, lower)
    schema = taxonomy.schema_of(scores, gold_columns, columns, chosen)
    notes = [*found.notes, *flat_lines(fitted)]
    return dataclasses.replace(found, lines=fitted, schema=dataclasses.asdict(schema), notes=notes)


def _consensus(scores: Scores, units: Units, gold_columns: Sequence[Column], settings: Settings) -> Floats:
    """Average over raters (or take their majority) where they rated, then bring that to the study's level.

    The other order would give a dialogue with one rater less another weight than its neighbours.
    """
    sources = {column.source for column in gold_columns}
    gold = scores.where(source=sources.__contains__, dimension=gold_columns[0].dimension)
    given = align(
        gold, "turn" if settings.level == "turn" or not len(gold.where(level="dialogue")) else "dialogue"
    )
    raters = sorted(given.columns)
    means = (
        _votes(given, raters, settings.tie) if settings.consensus == "majority" else raw_mean(given, raters)
    )
    name, dimension = settings.gold, gold_columns[0].dimension
    rows = (
        Score(
            key.dialogue_id, key.turn, key.system, name, dimension, None if np.isnan(value) else float(value)
        )
        for key, value in zip(given.keys, means, strict=True)
    )
    agreed = align(Scores.of(rows), settings.level or given.level, settings.aggregate)
    found = dict(zip(agreed.keys, next(iter(agreed.columns.values())), strict=True))
    return settled(np.array([found.get(key, np.nan) for key in units.keys], dtype=np.float64))


def _votes(units: Units, columns: Sequence[Column], tie: str) -> Floats:
    """Return what most raters said of each unit; `tie` says what to do without a majority."""
    return majority(np.vstack([units.columns[column] for column in columns]).T, tie)


def _find(
    scores: Scores,
    units: Units,
    columns: list[Column],
    gold_columns: list[Column],
    target: Floats | None,
    settings: Settings,
    signatures: dict[str, Signature],
    lower: frozenset[Column],
) -> Study:
    """Make every table."""
    found: dict[str, Any] = {}
    notes = []
    if target is not None:
        raters = [units.columns[column] for column in gold_columns]
        found = against_gold.findings(units, columns, target, settings, lower)
        labels = _votes(units, gold_columns, settings.tie) if by_class.few_values(raters) else None
        found |= by_class.findings(units, columns, labels, target, settings, lower)
        found["ceiling"] = between_raters.ceiling(raters, units, settings)
        found["subsets"] = _subsets(scores, units, columns, target, settings, lower)
        if not columns:
            notes.append("no source besides the gold ratings: nothing to correlate")
    else:
        notes.append(f"no source {settings.gold!r}: means, comparisons and correlations between sources only")
    notes += silent_sources(scores, units, settings)
    if target is not None:
        notes += hopeless_tests(found["differences"], settings)
        notes += apart(units, columns, target) + empty_ratings(scores, gold_columns)
    found["matrix"] = against_gold.matrix(units, columns, target, settings)
    below = _below_systems(scores, units, settings)
    found |= between_systems.findings(below, columns, gold_columns, settings)
    found["agreement"] = between_raters.agreement(scores, units if settings.where else None, settings)
    return Study(
        settings=_plain(settings),
        gold=_describe_gold(gold_columns, target, settings),
        n_units=len(units),
        n_dialogues=len({key[:2] for key in below.keys}),
        signatures={source: str(signature) for source, signature in signatures.items()},
        notes=notes,
        **found,
    )


def _below_systems(scores: Scores, units: Units, settings: Settings) -> Units:
    """Return the units that system figures are means of: the study's own, or the dialogues of its systems."""
    if settings.level != "system":
        return units
    dialogues = align(scores, "dialogue", settings.aggregate)
    systems = {key.system for key in units.keys}
    return dialogues.keep(np.array([key.system in systems for key in dialogues.keys], dtype=bool))


def _plain(settings: Settings) -> dict[str, Any]:
    """Write settings as JSON would give them back; the number of workers changes nothing."""
    fields = {key: value for key, value in dataclasses.asdict(settings).items() if key != "workers"}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()}


def _describe_gold(columns: list[Column], target: Floats | None, settings: Settings) -> dict[str, Any] | None:
    if target is None:
        return None
    n = int((~np.isnan(target)).sum())
    return {
        "source": settings.gold,
        "dimension": settings.dimension,
        "raters": len(columns),
        "n": n,
        "n_unrated": int(target.size - n),
    }


def _level_and_dimension(scores: Scores, settings: Settings) -> tuple[Level, str | None]:
    """Find the gold dimension and the level it was given at, if they were not named."""
    gold = scores.where(source=lambda source: is_gold(settings.gold, source))
    if not len(gold):
        if settings.gold != "human":
            raise UsageError(
                f"no source {settings.gold!r} to compare with; there are: {', '.join(scores.sources)}"
            )
        return settings.level or "dialogue", settings.dimension
    levels: tuple[Literal["dialogue", "turn"], ...] = ("dialogue", "turn")
    rated_at: dict[Level, list[str]] = {
        level: gold.where(level=level).dimensions for level in levels if len(gold.where(level=level))
    }
    level: Level = next(iter(rated_at)) if settings.level is None else settings.level
    # A dialogue or system figure may come from turns, a turn figure only from turns.
    usable = list(rated_at.get("turn", [])) if level == "turn" else gold.dimensions
    if not usable:
        raise UsageError(f"no {settings.gold!r} rating at {level} level; try --level {next(iter(rated_at))}")
    own = rated_at.get("turn" if level == "turn" else "dialogue", usable)
    if settings.dimension is None:
        for name in ("overall", "quality", *own):
            if name in own:
                return level, name
    if settings.dimension not in usable:
        known = ", ".join(usable)
        raise UsageError(f"no rating called {settings.dimension!r} at {level} level; there are: {known}")
    return level, settings.dimension


def _gold_columns(scores: Scores, units: Units, settings: Settings, dimension: str | None) -> list[Column]:
    """Return the raters, or the named source; where some rated turns and some dialogues, the latter."""
    if settings.gold != "human":
        return [c for c in units.columns if c.source == settings.gold and c.dimension == dimension]
    if dimension is None:
        return []
    columns = human_columns(units, dimension)
    if settings.level == "turn":
        return columns
    whole = set(scores.where(source=is_human, dimension=dimension, level="dialogue").sources)
    return [c for c in columns if c.source in whole] or columns


def _metric_columns(units: Units, gold_columns: Sequence[Column], settings: Settings) -> list[Column]:
    """Return what is compared with the gold: everything that is not a rater, or the sources asked for."""
    labels = units.labels()
    columns = [c for c in units.columns if c not in gold_columns and not is_human(c.source)]
    if settings.gold != "human":
        columns = [c for c in columns if c.source != settings.gold]
    if settings.sources:
        names = {c: (c.source, labels[c], f"{c.source}/{c.dimension}") for c in columns}
        wanted = {name: [c for c in columns if name in names[c]] for name in settings.sources}
        missing = [name for name, found in wanted.items() if not found]
        if missing:
            raise UsageError(f"no source {missing[0]!r}; there are: {', '.join(labels[c] for c in columns)}")
        columns = list(dict.fromkeys(c for found in wanted.values() for c in found))
    return columns


def _subsets(
    scores: Scores,
    units: Units,
    columns: list[Column],
    target: Floats,
    settings: Settings,
    lower: frozenset[Column],
) -> Table:
    """Correlations inside each system, or with each gold dimension, when asked for."""
    if settings.by == "system":
        systems = sorted({key.system for key in units.keys if key.system is not None})
        masks = {name: np.array([key.system == name for key in units.keys]) for name in systems}
        parts = {name: (units.keep(mask), target[mask]) for name, mask in masks.items()}
    elif settings.by == "dimension":
        gold_rows = scores.where(source=lambda source: is_gold(settings.gold, source))
        own = gold_rows.where(level="turn" if settings.level == "turn" else "dialogue").dimensions
        names = own or gold_rows.dimensions
        parts = {
            name: (units, _consensus(scores, units, _gold_columns(scores, units, settings, name), settings))
            for name in names
        }
    else:
        return []
    return [
        {
            "subset": name,
            "by": settings.by,
            "n_units": len(part),
            "correlations": against_gold.correlations(part, columns, gold, settings, lower),
        }
        for name, (part, gold) in parts.items()
    ]
