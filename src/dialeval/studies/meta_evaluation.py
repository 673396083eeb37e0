"""`study`: a table of scores in, findings out: what agrees with people, what differs, what to look at."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace

from dialeval.errors import UsageError
from dialeval.scores import Score, Scores, Signature, is_human
from dialeval.scores.signature import better
from dialeval.statistics import majority
from dialeval.studies import against_gold, by_class, notes, rater_agreement
from dialeval.studies.combination import LINE, Combination, Replies, combine, is_gold, with_lines
from dialeval.studies.findings import GoldRatings, NotableUnit, Study, StudySettings, Subset
from dialeval.studies.systems import over_systems, system_findings
from dialeval.studies.units import (
    Column,
    Floats,
    Level,
    Units,
    align,
    human_columns,
    named_columns,
    raw_mean,
    settled,
    where,
    with_systems,
)

ADJUDICATED = "adjudicated"  # what an expert decided where raters did not agree


def study(
    scores: Scores,
    gold: str = "human",
    level: Level | None = None,
    *,
    replies: Replies | None = None,
    **settings: Any,
) -> Study:
    """Compare every source with the gold one, and everything else that tells how far to trust it.

    Args:
        scores: Metric scores, human ratings and foreign columns in one table.
        gold: What to compare with: `human` (mean over all raters), or the name of any source.
        level: `turn`, `dialogue` or `system`; by default the one that the gold ratings were given at.
        replies: What was said, by dialogue, turn and system, so that a fitted line knows which systems gave
            the same reply in a context; without it, what has the same scores and ratings there is the same.
        **settings: Any other field of `StudySettings`.

    Raises:
        UsageError: If the gold source or dimension is not there or not clear.
    """
    try:
        chosen = StudySettings(gold=gold, level=level, **settings)
    except TypeError as error:
        raise UsageError(f"study: {error}") from None
    scores = with_systems(scores)
    level, dimension = _level_and_dimension(scores, chosen)
    chosen = replace(chosen, level=level, dimension=dimension)
    given = scores
    scores, fitted = with_lines(scores, chosen, replies)
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
    return replace(
        found,
        lines=fitted,
        schema=notes.schema_of(scores, gold_columns, columns, chosen),
        coverage=notes.coverage(given),
        score_notes=notes.note_counts(given),
        notes=(*found.notes, *notes.flat_lines(fitted)),
    )


def _consensus(
    scores: Scores, units: Units, gold_columns: Sequence[Column], settings: StudySettings
) -> Floats:
    """Average over raters (or take their majority) where they rated, then bring that to the study's level.

    The other order would give a dialogue with one rater less another weight than its neighbours.
    """
    sources = {column.source for column in gold_columns} | _deciding(settings)
    gold = scores.where(source=sources.__contains__, dimension=gold_columns[0].dimension)
    given = align(
        gold, "turn" if settings.level == "turn" or not len(gold.where(level="dialogue")) else "dialogue"
    )
    raters = sorted(column for column in given.columns if column.source != ADJUDICATED)
    means = _votes(given, raters, settings) if settings.consensus == "majority" else raw_mean(given, raters)
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


def _deciding(settings: StudySettings) -> set[str]:
    """Return the source of decisions, which count more than the raters where a majority is asked for."""
    return {ADJUDICATED} if settings.gold == "human" and settings.consensus == "majority" else set()


def _votes(units: Units, columns: Sequence[Column], settings: StudySettings) -> Floats:
    """Return what was decided of each unit, or else what most raters said; `tie` is for the rest."""
    said = majority(np.vstack([units.columns[column] for column in columns]).T, settings.tie)
    decided = units.columns.get(Column(ADJUDICATED, columns[0].dimension)) if _deciding(settings) else None
    return said if decided is None else np.where(np.isnan(decided), said, decided)


def _find(
    scores: Scores,
    units: Units,
    columns: list[Column],
    gold_columns: list[Column],
    target: Floats | None,
    settings: StudySettings,
    signatures: dict[str, Signature],
    lower: frozenset[Column],
) -> Study:
    """Make every finding."""
    found: dict[str, Any] = {"correlations": ()}
    told = []
    if target is not None:
        raters = [units.columns[column] for column in gold_columns]
        found = against_gold.findings(units, columns, target, settings, lower)
        labels = _votes(units, gold_columns, settings) if by_class.few_values(raters) else None
        found |= by_class.findings(units, columns, labels, target, settings, lower)
        found["ceiling"] = rater_agreement.ceiling(raters, units, settings)
        found["subsets"] = _subsets(scores, units, columns, target, settings, lower)
        if not columns:
            told.append("no source besides the gold ratings: nothing to correlate")
    else:
        told.append(f"no source {settings.gold!r}: means, comparisons and correlations between sources only")
    told += notes.silent_sources(scores, units, settings) + notes.empty_scores(scores, columns)
    if target is not None:
        told += notes.hopeless_tests(len(found["differences"]), "sources", settings.permutations, settings)
        told += notes.apart(units, columns, target) + notes.empty_ratings(scores, gold_columns)
    found["matrix"] = against_gold.matrix(units, columns, target, settings.method)
    below = _below_systems(scores, units, settings)
    found |= system_findings(below, columns, gold_columns, settings, lower)
    told += notes.few_comparisons(found["systems"], found["comparisons"], settings)
    found["agreement"] = rater_agreement.agreement(scores, units if settings.where else None, settings)
    gold = _describe_gold(scores, units, gold_columns, target, settings)
    if gold is not None and gold.decided:
        told.append(f"ratings that were decided by adjudication, whatever the majority: {gold.decided}")
    found["correlations"] = over_systems(found["correlations"], found["systems"], gold)
    order = [row.label for row in found["correlations"]]
    made = Study(
        settings=replace(settings, workers=1),
        gold=gold,
        n_units=len(units),
        n_dialogues=len({key[:2] for key in below.keys}),
        units=against_gold.carried(units, columns, target, order),
        signatures={source: str(signature) for source, signature in signatures.items()},
        notes=tuple(told),
        **found,
    )
    return replace(made, lowest=_lowest(made, scores, below, columns, gold_columns, target))


def _lowest(
    made: Study,
    scores: Scores,
    below: Units,
    columns: list[Column],
    gold_columns: list[Column],
    target: Floats | None,
) -> tuple[NotableUnit, ...]:
    """Find the lowest units of each system; of a study of systems, their lowest dialogues."""
    each = 1 if made.worst and made.level != "system" else 2
    if made.level == "system" and target is not None:
        target = _consensus(scores, below, gold_columns, replace(made.settings, level="dialogue"))
    known = [column for column in columns if column in below.columns]
    return against_gold.lowest_of_systems(below, known, target, made.gold_name, made.signatures, each)


def _below_systems(scores: Scores, units: Units, settings: StudySettings) -> Units:
    """Return the units that system figures are means of: the study's own, or the dialogues of its systems."""
    if settings.level != "system":
        return units
    dialogues = align(scores, "dialogue", settings.aggregate)
    systems = {key.system for key in units.keys}
    return dialogues.keep(np.array([key.system in systems for key in dialogues.keys], dtype=bool))


def _describe_gold(
    scores: Scores, units: Units, columns: list[Column], target: Floats | None, settings: StudySettings
) -> GoldRatings | None:
    if target is None:
        return None
    n = int((~np.isnan(target)).sum())
    name = columns[0].dimension
    decisions = scores.where(source=_deciding(settings).__contains__, dimension=name)
    systems = sorted({key.system for key in units.keys if key.system is not None})
    numbers = {name: float(place) for place, name in enumerate(systems)}
    labels = np.array([numbers.get(key.system or "", np.nan) for key in units.keys], dtype=np.float64)
    spread = settings.level != "system" and len(systems) > 1
    return GoldRatings(
        settings.gold,
        name,
        len(columns),
        n,
        int(target.size - n),
        sum(row.value is not None for row in decisions),
        by_class.spreads(target, labels, dict(zip(numbers.values(), systems, strict=True))) if spread else (),
    )


def _level_and_dimension(scores: Scores, settings: StudySettings) -> tuple[Level, str | None]:
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


def _gold_columns(
    scores: Scores, units: Units, settings: StudySettings, dimension: str | None
) -> list[Column]:
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


def _metric_columns(units: Units, gold_columns: Sequence[Column], settings: StudySettings) -> list[Column]:
    """Return what is compared with the gold: everything that is not a rater, or the sources asked for."""
    apart = {column.source for column in gold_columns} | _deciding(settings)
    if settings.gold == "human" and ADJUDICATED not in settings.sources:
        apart.add(ADJUDICATED)  # people's, and no rater's: neither gold nor metric unless asked for
    columns = [c for c in units.columns if c.source not in apart and not is_human(c.source)]
    return named_columns(units, columns, settings.sources) if settings.sources else columns


def _subsets(
    scores: Scores,
    units: Units,
    columns: list[Column],
    target: Floats,
    settings: StudySettings,
    lower: frozenset[Column],
) -> tuple[Subset, ...]:
    """Return the correlations inside each system, or with each gold dimension, when asked for."""
    if settings.by == "system":
        parts = {name: (units.keep(own), target[own]) for name, own in units.by_system().items()}
    elif settings.by == "dimension":
        gold_rows = scores.where(source=lambda source: is_gold(settings.gold, source))
        own = gold_rows.where(level="turn" if settings.level == "turn" else "dialogue").dimensions
        names = own or gold_rows.dimensions
        parts = {
            name: (units, _consensus(scores, units, _gold_columns(scores, units, settings, name), settings))
            for name in names
        }
    else:
        return ()
    return tuple(
        Subset(name, settings.by, len(part), against_gold.correlations(part, columns, gold, settings, lower))
        for name, (part, gold) in parts.items()
    )
