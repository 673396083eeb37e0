"""The notes of a study: warnings in plain sentences, coverage, languages and the evaluation schema.

The schema is mostly read from the rows: a first-party rating (`human:user`) comes from a participant, and a
reply to a fixed context has the name of that context. Ratings collected with `dialeval` also record in their
signature how the contexts came about.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dialeval.dialogues import Dialogue
from dialeval.dialogues.contexts import conversation_of
from dialeval.dialogues.languages import dialogue_language
from dialeval.scores import Scores, is_human
from dialeval.scores.signature import FOREIGN, PARTICIPANT, EvaluationSchema, Setting, setting_in
from dialeval.studies.findings import (
    ColumnCoverage,
    FittedLine,
    LanguageCount,
    NoteCount,
    StudySettings,
    SystemComparison,
    SystemMean,
)
from dialeval.studies.systems import MOST_PAIRED, most_permutations
from dialeval.studies.units import Column, Floats, Units

_MOST_COLUMNS = 1_000  # of the coverage table
_MOST_NOTES = 200
_UNKNOWN_LANGUAGE = r"^language \w+: "  # the note of a metric whose models do not support it


def missing_sources(scores: Scores, units: Units, settings: StudySettings) -> list[str]:
    """Return a note on sources without scores at the level of the study."""
    present = {column.source for column in units.columns}
    absent = [name for name in scores.sources if name not in present and not is_human(name)]
    return [f"no score at {settings.level} level from: {', '.join(absent)}"] if absent else []


def powerless_tests(pairs: int, kind: str, permutations: int, settings: StudySettings) -> list[str]:
    """Return a note if there are so many pairs that no p-value can survive Holm's correction."""
    if pairs <= (1 - settings.confidence) * (permutations + 1):
        return []
    more = "more resamples or " if permutations == settings.permutations else ""
    return [
        f"{pairs} pairs of {kind}, {permutations} permutations: after Holm's "
        f"correction no difference can be significant; ask for {more}fewer {kind}"
    ]


def few_comparisons(
    means: Sequence[SystemMean], comparisons: Sequence[SystemComparison], settings: StudySettings
) -> list[str]:
    """Return a note if there are so many systems that each was compared with the best one only."""
    count = len({mean.system for mean in means})
    if count <= MOST_PAIRED or not comparisons:
        return []
    return [
        f"{count} systems: each is compared with the best, {comparisons[0].first}, and not with the others "
        f"(all pairs up to {MOST_PAIRED} systems)",
        *powerless_tests(len(comparisons), "systems", most_permutations(settings), settings),
    ]


def unmatched_ids(units: Units, columns: list[Column], target: Floats) -> list[str]:
    """Return notes on sources that score none of the rated units, mostly because ids differ."""
    rated = ~np.isnan(target)
    if not rated.any():
        return []
    labels, scored = units.labels(columns), {c: ~np.isnan(units.columns[c]) for c in columns}
    empty = [c for c in columns if not scored[c].any()]
    lonely = [c for c in columns if c not in empty and not (rated & scored[c]).any()]
    notes = [f"no scores from: {', '.join(labels[c] for c in empty)}"] if empty else []
    if lonely:
        rated_key, scored_key = (
            units.keys[int(np.flatnonzero(mask)[0])] for mask in (rated, scored[lonely[0]])
        )
        names = ", ".join(labels[c] for c in lonely)
        notes.append(
            f"no unit is both rated and scored by {names}: do the ids match? "
            f"{rated_key.dialogue_id!r} is rated, {scored_key.dialogue_id!r} is scored"
        )
    return notes


def missing_ratings(scores: Scores, gold_columns: list[Column]) -> list[str]:
    """Return a note on ratings without a value, which may be typing errors."""
    raters = {column.source for column in gold_columns}
    summary = summarise_unscored(
        scores.where(source=raters.__contains__, dimension=gold_columns[0].dimension)
    )
    return [f"ratings without a value: {summary}"] if summary else []


def constant_raters(units: Units, gold_columns: Sequence[Column]) -> list[str]:
    """Return a note on raters who gave one value to all of at least five units, if others did not."""
    given = {column.source: (v := units.columns[column])[~np.isnan(v)] for column in gold_columns}
    constant = {rater: values for rater, values in given.items() if len(values) > 4 and not np.ptp(values)}
    if not constant or len(constant) == len(given):
        return []
    names = ", ".join(f"{rater} ({values[0]:g} to {len(values):,})" for rater, values in constant.items())
    return [
        f"raters with the same value for every unit: {names}; they count in the gold, in the correlation of "
        "one rater and in the agreement, so study the ratings without their rows too"
    ]


def missing_scores(scores: Scores, columns: Sequence[Column]) -> list[str]:
    """Return a note for each foreign source with rows that have no value."""
    signatures, sources = scores.signatures, dict.fromkeys(column.source for column in columns)
    foreign = [source for source in sources if source in signatures and signatures[source].name == FOREIGN]
    summaries = {source: summarise_unscored(scores.where(source=source)) for source in foreign}
    return [
        f"scores without a value from {source}: {summary}" for source, summary in summaries.items() if summary
    ]


def summarise_unscored(rows: Scores) -> str:
    """Return the number of rows without a value and their most common notes, or an empty string."""
    unscored = rows.table.filter(pc.is_null(rows.table["value"]))
    counts = Counter(unscored["note"].to_pylist())
    shown = ", ".join(f"{note} ({count})" for note, count in counts.most_common(3))
    return f"{counts.total()}, with the note {shown}" if counts else ""


def constant_lines(lines: Sequence[FittedLine]) -> list[str]:
    """Return notes on lines that predict the same value for most units."""
    return [
        f"{row.name}: {row.at_lowest:.0%} of the units have the lowest value of {row.source} "
        f"({row.lowest:g}), so the prediction for all of these is the same"
        for row in lines
        if row.at_lowest is not None and row.at_lowest > 0.5
    ]


def coverage(scores: Scores) -> tuple[ColumnCoverage, ...]:
    """Return mean, range and counts of every source and rater, by dimension and level."""
    table = scores.table
    table = table.append_column("level", pc.if_else(pc.is_null(table["turn"]), "dialogue", "turn"))
    groups = table.group_by(["source", "dimension", "level"], use_threads=False).aggregate(
        [("value", "mean"), ("value", "min"), ("value", "max"), ("value", "count"), ([], "count_all")]
    )
    return tuple(
        ColumnCoverage(
            row["source"],
            row["dimension"],
            row["level"],
            row["value_mean"],
            row["value_min"],
            row["value_max"],
            row["value_count"],
            row["count_all"] - row["value_count"],
        )
        for row in groups.slice(0, _MOST_COLUMNS).to_pylist()
    )


def note_counts(scores: Scores) -> tuple[NoteCount, ...]:
    """Return the counts of notes on unscored and on scored rows, the most common first."""
    table = scores.table.filter(pc.is_valid(scores.table["note"]))
    table = table.append_column("unscored", pc.cast(pc.is_null(table["value"]), pa.int64()))
    groups = table.group_by(["source", "dimension", "note"], use_threads=False).aggregate(
        [("unscored", "sum"), ([], "count_all")]
    )
    rows = sorted(groups.to_pylist(), key=lambda row: -row["count_all"])
    return tuple(
        NoteCount(
            row["source"],
            row["dimension"],
            row["note"],
            row["unscored_sum"],
            row["count_all"] - row["unscored_sum"],
        )
        for row in rows[:_MOST_NOTES]
    )


def language_counts(dialogues: Iterable[Dialogue], scores: Scores) -> tuple[LanguageCount, ...]:
    """Return the number of dialogues in each language, the most frequent first, and of those left unscored.

    >>> from dialeval.dialogues import dialogue
    >>> chats = [dialogue([("user", "Wo ist mein Paket? Es sollte gestern schon kommen.")], "d1")]
    >>> [(row.language, row.n, row.n_unscored) for row in language_counts(chats, Scores.of([]))]
    [('de', 1, 0)]
    """
    table = scores.table.filter(pc.is_null(scores.table["value"]))
    names = table["dialogue_id"].filter(pc.match_substring_regex(table["note"], _UNKNOWN_LANGUAGE))
    passed_over = set(names.unique().to_pylist())
    counts, unscored = Counter[str | None](), Counter[str | None]()
    for dialogue in dialogues:
        language = dialogue_language(dialogue)
        counts[language] += 1
        unscored[language] += dialogue.id in passed_over
    return tuple(LanguageCount(language, n, unscored[language]) for language, n in counts.most_common())


def schema_of(
    scores: Scores, gold: Sequence[Column], columns: Sequence[Column], settings: StudySettings
) -> EvaluationSchema:
    """Return the evaluation schema that a study's columns imply; `settings.context` overrides its context."""
    people = [source for source in scores.sources if is_human(source)]
    roles = [
        *(["participant"] if PARTICIPANT in people else []),
        *(["bystander"] if any(source != PARTICIPANT for source in people) else []),
    ]
    measured = [gold[0].dimension] if gold else list(dict.fromkeys(column.dimension for column in columns))
    return EvaluationSchema(
        metric=", ".join(measured) or "nothing",
        evaluator="human and automatic" if people and columns else "human" if people else "automatic",
        context=settings.context or _setting(scores, people),
        participation=" and ".join(roles) or "none",  # type: ignore[arg-type]
        level=settings.level or "dialogue",
    )


def _setting(scores: Scores, people: Sequence[str]) -> Setting:
    """Return how contexts came about: by the signatures of ratings, or else by dialogue ids and raters."""
    setting = setting_in(scores.signatures[source] for source in people if source in scores.signatures)
    if setting != "not said":
        return setting
    names = scores.table["dialogue_id"].unique().to_pylist()
    if names and all(conversation_of(name) != name for name in names):
        return "static"
    return "dynamic" if PARTICIPANT in people else "not said"
