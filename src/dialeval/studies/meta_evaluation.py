"""Meta-evaluation: from a table of scores and ratings to the findings of a `Study`."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace

from dialeval.errors import UsageError
from dialeval.scores import Scores, Signature, is_human, overall_first
from dialeval.scores.signature import better
from dialeval.statistics import majority
from dialeval.studies import against_gold, by_class, notes, rater_agreement
from dialeval.studies.against_gold import AlignedStudy
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
    round_noise,
    score_rows,
    unrounded_mean,
    where,
    with_systems,
)

ADJUDICATED = "adjudicated"  # the source of an expert's decisions where raters did not agree


def study(
    scores: Scores,
    gold: str = "human",
    level: Level | None = None,
    *,
    replies: Replies | None = None,
    **settings: Any,
) -> Study:
    """Compare every source with the gold: correlations, tests, classes, systems, rater agreement.

    Args:
        scores: Metric scores, human ratings and foreign columns in one table.
        gold: What to compare with: `human` (mean over all raters), or the name of any source.
        level: `turn`, `dialogue` or `system`; by default the level of the gold ratings.
        replies: The replies by dialogue, turn and system, to find systems that gave the same reply in a
            context when a line is fitted; without them, equal scores and ratings are taken for equal replies.
        **settings: Any other field of `StudySettings`.

    Raises:
        UsageError: If the gold source or dimension is missing or ambiguous.
    """
    try:
        chosen = StudySettings(gold=gold, level=level, **settings)
    except TypeError as error:
        raise UsageError(f"study: {error}") from None
    scores = with_systems(scores)
    level, dimension = _level_and_dimension(scores, chosen)
    chosen = replace(chosen, level=level, dimension=dimension)
    original = scores
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
        mask = where(units, chosen.where, target)
        units, target = units.keep(mask), None if target is None else target[mask]
    columns = _metric_columns(units, gold_columns, chosen)
    data = AlignedStudy(units, columns, gold_columns, chosen, lower)
    result = _compute_findings(scores, data, target, signatures)
    return replace(
        result,
        lines=fitted,
        schema=notes.schema_of(scores, gold_columns, columns, chosen),
        coverage=notes.coverage(original),
        score_notes=notes.note_counts(original),
        notes=(*result.notes, *notes.constant_lines(fitted)),
    )


def _consensus(
    scores: Scores, units: Units, gold_columns: Sequence[Column], settings: StudySettings
) -> Floats:
    """Return the mean (or majority) over raters at the level they rated, aggregated to the study's level.

    In the other order, a dialogue that lacks a rater would have a different weight.
    """
    sources = {column.source for column in gold_columns} | _adjudicators(settings)
    gold = scores.where(source=sources.__contains__, dimension=gold_columns[0].dimension)
    rated = align(
        gold, "turn" if settings.level == "turn" or not len(gold.where(level="dialogue")) else "dialogue"
    )
    raters = sorted(column for column in rated.columns if column.source != ADJUDICATED)
    by_majority = settings.consensus == "majority"
    means = _votes(rated, raters, settings) if by_majority else unrounded_mean(rated, raters)
    rows = score_rows(rated.keys, means, settings.gold, gold_columns[0].dimension)
    agreed = align(Scores.of(rows), settings.level or rated.level, settings.aggregate)
    values_of = dict(zip(agreed.keys, next(iter(agreed.columns.values())), strict=True))
    return round_noise(np.array([values_of.get(key, np.nan) for key in units.keys], dtype=np.float64))


def _adjudicators(settings: StudySettings) -> set[str]:
    """Return the source of adjudicated decisions, which override raters where a majority is asked for."""
    return {ADJUDICATED} if settings.gold == "human" and settings.consensus == "majority" else set()


def _votes(units: Units, columns: Sequence[Column], settings: StudySettings) -> Floats:
    """Return the adjudicated decision on each unit, or else the raters' majority; `tie` is for ties."""
    votes = majority(np.vstack([units.columns[column] for column in columns]).T, settings.tie)
    decided = units.columns.get(Column(ADJUDICATED, columns[0].dimension))
    return (
        votes
        if decided is None or not _adjudicators(settings)
        else np.where(np.isnan(decided), votes, decided)
    )


def _compute_findings(
    scores: Scores, data: AlignedStudy, target: Floats | None, signatures: dict[str, Signature]
) -> Study:
    """Return the study with all findings that need the aligned units."""
    units, columns, gold_columns, settings = data.units, data.columns, data.gold_columns, data.settings
    findings: dict[str, Any] = {"correlations": ()}
    messages = []
    if target is not None:
        raters = [units.columns[column] for column in gold_columns]
        findings = against_gold.findings(data, target)
        labels = _votes(units, gold_columns, settings) if by_class.few_values(raters) else None
        findings |= by_class.findings(data, labels, target)
        findings["ceiling"] = rater_agreement.ceiling(raters, units, settings)
        findings["subsets"] = _subsets(scores, data, target)
        if not columns:
            messages.append("no source besides the gold ratings: nothing to correlate")
    else:
        messages.append(
            f"no ratings (no source {settings.gold!r}): only means, and correlations between sources"
        )
    messages += notes.missing_sources(scores, units, settings) + notes.missing_scores(scores, columns)
    if target is not None:
        pairs = len(findings["differences"])
        messages += notes.powerless_tests(pairs, "sources", settings.permutations, settings)
        messages += notes.unmatched_ids(units, columns, target) + notes.missing_ratings(scores, gold_columns)
        messages += notes.constant_raters(units, gold_columns)
    findings["matrix"] = against_gold.matrix(units, columns, target, settings.method)
    below = _below_systems(scores, units, settings)
    findings |= system_findings(data, below)
    messages += notes.few_comparisons(findings["systems"], findings["comparisons"], settings)
    findings["agreement"] = rater_agreement.agreement(scores, units if settings.where else None, settings)
    gold = _describe_gold(scores, data, target)
    if gold is not None and gold.decided:
        messages.append(f"ratings decided by adjudication instead of the majority: {gold.decided}")
    findings["correlations"] = over_systems(findings["correlations"], findings["systems"], gold)
    order = [row.label for row in findings["correlations"]]
    result = Study(
        settings=replace(settings, workers=1),
        gold=gold,
        n_units=len(units),
        n_dialogues=len({key[:2] for key in below.keys}),
        units=against_gold.sample_units(units, columns, target, order),
        signatures={source: str(signature) for source, signature in signatures.items()},
        notes=tuple(messages),
        **findings,
    )
    return replace(result, lowest=_lowest(result, scores, data, below, target))


def _lowest(
    result: Study, scores: Scores, data: AlignedStudy, below: Units, target: Floats | None
) -> tuple[NotableUnit, ...]:
    """Return the lowest units of each system; in a study of systems, their lowest dialogues."""
    count = 1 if result.worst and result.level != "system" else 2
    if result.level == "system" and target is not None:
        target = _consensus(scores, below, data.gold_columns, replace(result.settings, level="dialogue"))
    available = [column for column in data.columns if column in below.columns]
    return against_gold.lowest_of_systems(
        below, available, target, result.gold_name, result.signatures, count
    )


def _below_systems(scores: Scores, units: Units, settings: StudySettings) -> Units:
    """Return the units that system figures are means of: the study's own, or the dialogues of its systems."""
    if settings.level != "system":
        return units
    dialogues = align(scores, "dialogue", settings.aggregate)
    systems = {key.system for key in units.keys}
    return dialogues.keep(np.array([key.system in systems for key in dialogues.keys], dtype=bool))


def _describe_gold(scores: Scores, data: AlignedStudy, target: Floats | None) -> GoldRatings | None:
    if target is None:
        return None
    units, columns, settings = data.units, data.gold_columns, data.settings
    n = int((~np.isnan(target)).sum())
    name = columns[0].dimension
    decisions = scores.where(source=_adjudicators(settings).__contains__, dimension=name)
    systems = sorted({key.system for key in units.keys if key.system is not None})
    numbers = {name: float(index) for index, name in enumerate(systems)}
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
    """Return the level and the gold dimension, by default those of the gold ratings."""
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
    dimensions = rated_at.get("turn" if level == "turn" else "dialogue", usable)
    if settings.dimension is None and dimensions:
        return level, overall_first(dimensions)
    if settings.dimension not in usable:
        names = ", ".join(usable)
        raise UsageError(f"no rating called {settings.dimension!r} at {level} level; there are: {names}")
    return level, settings.dimension


def _gold_columns(
    scores: Scores, units: Units, settings: StudySettings, dimension: str | None
) -> list[Column]:
    """Return the columns of the gold; if some raters rated turns and some dialogues, the latter."""
    if settings.gold != "human":
        return [c for c in units.columns if c.source == settings.gold and c.dimension == dimension]
    if dimension is None:
        return []
    columns = human_columns(units, dimension)
    if settings.level == "turn":
        return columns
    of_dialogues = set(scores.where(source=is_human, dimension=dimension, level="dialogue").sources)
    return [c for c in columns if c.source in of_dialogues] or columns


def _metric_columns(units: Units, gold_columns: Sequence[Column], settings: StudySettings) -> list[Column]:
    """Return the columns to compare with the gold: the named sources, or all that are not people's."""
    excluded = {column.source for column in gold_columns} | _adjudicators(settings)
    if settings.gold == "human" and ADJUDICATED not in settings.sources:
        excluded.add(ADJUDICATED)  # neither gold nor metric unless asked for
    columns = [c for c in units.columns if c.source not in excluded and not is_human(c.source)]
    return named_columns(units, columns, settings.sources) if settings.sources else columns


def _subsets(scores: Scores, data: AlignedStudy, target: Floats) -> tuple[Subset, ...]:
    """Return the correlations inside each system or with each gold dimension, if `by` asks for them."""
    units, settings = data.units, data.settings
    if settings.by == "system":
        parts = {name: (units.keep(indices), target[indices]) for name, indices in units.by_system().items()}
    elif settings.by == "dimension":
        gold_rows = scores.where(source=lambda source: is_gold(settings.gold, source))
        at_level = gold_rows.where(level="turn" if settings.level == "turn" else "dialogue").dimensions
        names = at_level or gold_rows.dimensions
        parts = {
            name: (units, _consensus(scores, units, _gold_columns(scores, units, settings, name), settings))
            for name in names
        }
    else:
        return ()
    return tuple(
        Subset(name, settings.by, len(p), against_gold.correlations(dataclasses.replace(data, units=p), gold))
        for name, (p, gold) in parts.items()
    )
