"""Beside the findings: notes in plain sentences, what was scored, and what kind of evaluation it is.

Most of the kind shows in the rows: a first-party rating (`human:user`) is a participant's, who can only have
talked to the system itself; a reply to a fixed context bears the name of that context. How the contexts came
about is also said by the signatures of ratings that were collected here.
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

_MOST_COLUMNS = 1_000  # of which the coverage is told
_MOST_NOTES = 200
_UNKNOWN_LANGUAGE = r"^language \w+: "  # the note of a metric whose models do not know it


def silent_sources(scores: Scores, units: Units, settings: StudySettings) -> list[str]:
    """Name sources that have nothing to say at the level of the study."""
    present = {column.source for column in units.columns}
    absent = [name for name in scores.sources if name not in present and not is_human(name)]
    return [f"no score at {settings.level} level from: {', '.join(absent)}"] if absent else []


def hopeless_tests(pairs: int, kind: str, permutations: int, settings: StudySettings) -> list[str]:
    """Return a note when there are so many pairs that Holm's correction leaves nothing to find."""
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
    """Return a note when there are so many systems that each was compared with the best one only."""
    count = len({one.system for one in means})
    if count <= MOST_PAIRED or not comparisons:
        return []
    return [
        f"{count} systems: each is compared with the best, {comparisons[0].first}, and not with the others "
        f"(all pairs up to {MOST_PAIRED} systems)",
        *hopeless_tests(len(comparisons), "systems", most_permutations(settings), settings),
    ]


def apart(units: Units, columns: list[Column], target: Floats) -> list[str]:
    """Return notes when ratings and scores do not speak of the same units: mostly ids that differ."""
    rated = ~np.isnan(target)
    if not rated.any():
        return []
    labels, scored = units.labels(columns), {c: ~np.isnan(units.columns[c]) for c in columns}
    empty = [c for c in columns if not scored[c].any()]
    lonely = [c for c in columns if c not in empty and not (rated & scored[c]).any()]
    notes = [f"not a single score from: {', '.join(labels[c] for c in empty)}"] if empty else []
    if lonely:
        known, other = (units.keys[int(np.flatnonzero(some)[0])] for some in (rated, scored[lonely[0]]))
        names = ", ".join(labels[c] for c in lonely)
        notes.append(
            f"nothing is both rated and scored by {names}: do the ids match? "
            f"Rated is {known.dialogue_id!r}, scored is {other.dialogue_id!r}"
        )
    return notes


def empty_ratings(scores: Scores, gold_columns: list[Column]) -> list[str]:
    """Return how many ratings have no value, and what stands there instead: it may be a typing error."""
    raters = {column.source for column in gold_columns}
    said = said_instead(scores.where(source=raters.__contains__, dimension=gold_columns[0].dimension))
    return [f"ratings without a value: {said}"] if said else []


def empty_scores(scores: Scores, columns: Sequence[Column]) -> list[str]:
    """Return the same for each foreign source: no metric of ours says there why it gave no score."""
    made, sources = scores.signatures, dict.fromkeys(column.source for column in columns)
    foreign = [one for one in sources if one in made and made[one].name == FOREIGN]
    told = {one: said_instead(scores.where(source=one)) for one in foreign}
    return [f"scores without a value from {one}: {said}" for one, said in told.items() if said]


def said_instead(rows: Scores) -> str:
    """Return how many rows have no value, and the commonest notes."""
    silent = rows.table.filter(pc.is_null(rows.table["value"]))
    said = Counter(silent["note"].to_pylist())
    shown = ", ".join(f"{note} ({count})" for note, count in said.most_common(3))
    return f"{said.total()}, with the note {shown}" if said else ""


def flat_lines(lines: Sequence[FittedLine]) -> list[str]:
    """Return where a fitted line says the same of most units: there only its intercept speaks."""
    return [
        f"{row.name}: {row.at_lowest:.0%} of the units have the lowest value of {row.source} "
        f"({row.lowest:g}); of all of them it says the same, whatever they are"
        for row in lines
        if row.at_lowest is not None and row.at_lowest > 0.5
    ]


def coverage(scores: Scores) -> tuple[ColumnCoverage, ...]:
    """Return what every source and rater scored, by dimension and level."""
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
    """Count the notes: why rows are unscored, and warnings on those that are not; the commonest first."""
    table = scores.table.filter(pc.is_valid(scores.table["note"]))
    table = table.append_column("unscored", pc.cast(pc.is_null(table["value"]), pa.int64()))
    groups = table.group_by(["source", "dimension", "note"], use_threads=False).aggregate(
        [("unscored", "sum"), ([], "count_all")]
    )
    found = sorted(groups.to_pylist(), key=lambda row: -row["count_all"])
    return tuple(
        NoteCount(
            row["source"],
            row["dimension"],
            row["note"],
            row["unscored_sum"],
            row["count_all"] - row["unscored_sum"],
        )
        for row in found[:_MOST_NOTES]
    )


def language_counts(dialogues: Iterable[Dialogue], scores: Scores) -> tuple[LanguageCount, ...]:
    """Count the languages of dialogues, the most frequent first, and those a metric left unscored for it.

    >>> from dialeval.dialogues import dialogue
    >>> said = [dialogue([("user", "Wo ist mein Paket? Es sollte gestern schon kommen.")], "d1")]
    >>> [(one.language, one.n, one.n_unscored) for one in language_counts(said, Scores.of([]))]
    [('de', 1, 0)]
    """
    table = scores.table.filter(pc.is_null(scores.table["value"]))
    names = table["dialogue_id"].filter(pc.match_substring_regex(table["note"], _UNKNOWN_LANGUAGE))
    passed_over = set(names.unique().to_pylist())
    found, unscored = Counter[str | None](), Counter[str | None]()
    for dialogue in dialogues:
        language = dialogue_language(dialogue)
        found[language] += 1
        unscored[language] += dialogue.id in passed_over
    return tuple(LanguageCount(language, n, unscored[language]) for language, n in found.most_common())


def schema_of(
    scores: Scores, gold: Sequence[Column], columns: Sequence[Column], settings: StudySettings
) -> EvaluationSchema:
    """Read the taxonomy off a study's columns; `settings.context` goes before what the scores show."""
    people = [source for source in scores.sources if is_human(source)]
    took_part, looked_on = PARTICIPANT in people, any(source != PARTICIPANT for source in people)
    measured = [gold[0].dimension] if gold else list(dict.fromkeys(one.dimension for one in columns))
    return EvaluationSchema(
        metric=", ".join(measured) or "nothing",
        evaluator="human and automatic" if people and columns else "human" if people else "automatic",
        context=settings.context or _setting(scores, people),
        participation="participant and bystander"
        if took_part and looked_on
        else "participant"
        if took_part
        else "bystander"
        if looked_on
        else "none",
        level=settings.level or "dialogue",
    )


def _setting(scores: Scores, people: Sequence[str]) -> Setting:
    """Return how contexts came about: as the ratings' signatures have it, else as names and raters show."""
    said = setting_in(scores.signatures[source] for source in people if source in scores.signatures)
    if said != "not said":
        return said
    names = scores.table["dialogue_id"].unique().to_pylist()
    if names and all(conversation_of(name) != name for name in names):
        return "static"
    return "dynamic" if PARTICIPANT in people else "not said"
