"""Tables of units to look at, triage, coverage, notes, signatures and settings."""

from collections.abc import Sequence
from dataclasses import asdict

from dialeval.reports.table import (
    DASH,
    Palette,
    Table,
    TableCell,
    estimate_cell,
    figure,
    named,
    number,
    numbers,
    tabulate,
    undefined,
)
from dialeval.reports.text import shorten
from dialeval.scores import is_human
from dialeval.statistics import Estimate
from dialeval.studies import Study
from dialeval.studies.excerpts import Excerpt
from dialeval.studies.findings import NotableUnit
from dialeval.studies.triage import Failure, Triage

_LONGEST, _SHORTER = 120, 80
_MOST_ROWS = 200
_FAULTS, _NOT_RARE = 6, 1.0  # rows of the table of faults; more rows for faults of at least this percentage
_MOST_SYSTEMS = 8


def worst_table(study: Study) -> Table | None:
    """Return the table of units with the lowest ratings, and those where a source is most wrong."""
    return tabulate(
        "worst",
        "Units to look at",
        study.worst,
        named("Dialogue", "dialogue_id", strong=True),
        number("Turn", lambda row: undefined("whole") if row.turn is None else str(row.turn)),
        named("System", "system"),
        named("Why", "why"),
        number(study.gold_name, lambda row: figure(row.gold)),
        number("That source", lambda row: figure(_meant(row))),
        notes=("Too kind, too strict: where a source is furthest from the gold, both standardised.",),
        rated=True,
    )


def _meant(row: NotableUnit) -> float | None:
    """Return the score of the source that a row is about; None for the lowest rated."""
    return row.values.get(row.why.removesuffix(" too kind").removesuffix(" too strict"))


def signature_table(study: Study) -> Table | None:
    """Return the table of signatures."""
    return tabulate(
        "signatures",
        "Signatures",
        study.signatures.items(),
        named("Source", lambda row: row[0], strong=True),
        named("Signature", lambda row: row[1], "code"),
    )


def schema_table(study: Study) -> Table | None:
    """Return the table of the five decisions of the evaluation schema."""
    rows = () if study.schema is None else asdict(study.schema).items()
    return tabulate(
        "schema", "Kind of evaluation", rows, named("Decision", lambda r: r[0]), named("Here", lambda r: r[1])
    )


def settings_table(study: Study) -> Table | None:
    """Return the table of the study's settings."""
    rows = [(key, value) for key, value in study.to_dict()["settings"].items() if value not in (None, ())]
    return tabulate(
        "settings",
        "Settings",
        rows,
        named("Setting", lambda row: row[0]),
        named("Value", lambda row: ", ".join(row[1]) if isinstance(row[1], tuple) else str(row[1]), "code"),
    )


def coverage_table(study: Study) -> Table | None:
    """Return the table of mean, range and counts of every source and rater."""
    more = len(study.coverage) - _MOST_ROWS
    return tabulate(
        "coverage",
        "Everything that was scored or rated",
        study.coverage[:_MOST_ROWS],
        named("Source", "source", strong=True),
        named("Dimension", "dimension"),
        named("Level", "level"),
        *numbers(
            ("Mean", "Lowest", "Highest"),
            lambda row, index: (
                undefined("nothing scored")
                if row.mean is None
                else figure((row.mean, row.lowest, row.highest)[index])
            ),
        ),
        number("n", "n"),
        number("Unscored", "n_unscored"),
        notes=(f"{more:,} more rows are not shown.",) if more > 0 else (),
        rated=any(is_human(row.source) for row in study.coverage),
    )


def note_table(study: Study) -> Table | None:
    """Return the table of notes on scores, the most common first."""
    return tabulate(
        "notes",
        "Notes on single scores",
        study.score_notes,
        named("Source", "source", strong=True),
        named("Dimension", "dimension"),
        named("Note", "note"),
        number("Unscored with it", "n_unscored"),
        number("Scored with it", "n_scored"),
    )


def language_table(study: Study) -> Table | None:
    """Return the table of languages, unless all dialogues are in English."""
    return tabulate(
        "languages",
        "Languages of the dialogues",
        study.languages if study.foreign else (),
        named("Language", lambda row: row.language or undefined("unknown"), strong=True),
        number("Dialogues", "n"),
        number("Left unscored because of it", "n_unscored"),
        notes=("Left unscored: by a metric that does not support the language; see the notes on scores.",),
    )


def fault_table(triage: Triage, order: Sequence[str] = ()) -> Table | None:
    """Return the table of the percentage of each system's replies with each common fault.

    Args:
        order: The systems in the order of another table.
    """

    def rate(failure: Failure) -> float:
        return max(share.value or 0.0 for share in failure.by_system.values())

    ranked = sorted(filter(rate, triage.failures), key=rate, reverse=True)
    common = [fault for index, fault in enumerate(ranked) if index < _FAULTS or rate(fault) >= _NOT_RARE]
    rows = [(words(failure.name), failure.by_system) for failure in common]
    names = dict.fromkeys(name for _, shares in rows for name in shares)
    if len(ranked) > 1:
        rows.insert(0, ("any of them", triage.faulty))
    systems = [*(name for name in order if name in names), *(name for name in names if name not in order)]
    if len(systems) > _MOST_SYSTEMS:
        return None
    rare = ", ".join(words(failure.name) for failure in ranked if failure not in common)
    return tabulate(
        "faults",
        "Faults in a hundred replies",
        rows,
        named("Fault", lambda row: row[0], strong=True),
        *numbers(
            [name or "all replies" for name in systems],
            lambda row, index: _rate(row[1].get(systems[index])),
        ),
        notes=(
            "Replies with the fault, of a hundred. A reply can have several. Brackets: 95 % interval over "
            f"dialogues.{f' Rarer: {rare}.' if rare else ''}",
        ),
    )


def words(fault: str) -> str:
    """Return the name of a fault in words.

    >>> words("rules/cut-off")
    'cut off'
    """
    return fault.partition("/")[2].replace("-", " ") or fault


def _rate(estimate: Estimate | None) -> TableCell:
    if estimate is None or estimate.value is None:
        return undefined("not checked")
    if not estimate.value:
        return TableCell("0", small=f"none of {estimate.n:,}")
    low = (
        ""
        if estimate.low is None
        else f"[{max(0.0, estimate.low):.1f}, {min(100.0, estimate.high or 0):.1f}]"
    )
    return TableCell(f"{estimate.value:.1f}", small=low)


def failure_table(triage: Triage) -> Table | None:
    """Return the table of faults with their frequency and the mean scores with and without them."""
    write = Palette(triage.score).write
    return tabulate(
        "failures",
        f"Recurring failures, and their {triage.score.label}",
        [failure for failure in triage.failures if failure.found],
        named("Failure", lambda row: TableCell(words(row.name), small=row.name), strong=True),
        number("Replies", "found"),
        number("Share", _share),
        number("Score there", lambda row: _mean(row.here, row.found, triage)),
        number("Score elsewhere", lambda row: _mean(row.elsewhere, row.read - row.found, triage)),
        number("Difference", lambda row: estimate_cell(row.difference, write) if row.found else DASH),
        named("Example", _example),
        notes=_failure_notes(triage),
    )


def _example(failure: Failure) -> TableCell | None:
    if failure.example is None:
        return None
    dialogue_id, turn, text = failure.example
    return TableCell(shorten(text, _LONGEST) or "(empty)", small=f"{dialogue_id}, turn {turn}")


def _share(failure: Failure) -> TableCell:
    if not failure.read:
        return undefined("no reply to read")
    return TableCell(f"{100 * failure.found / failure.read:.1f} %", small=f"of {failure.read:,}")


def _mean(estimate: Estimate, rows: int, triage: Triage) -> TableCell:
    if estimate.value is None:
        return undefined(estimate.reason if rows else "none")
    return TableCell(
        Palette(triage.score).write(estimate.value), small=f"n {estimate.n:,}\nunscored {rows - estimate.n:,}"
    )


def _failure_notes(triage: Triage) -> tuple[str, ...]:
    absent = [failure.name for failure in triage.failures if not failure.found]
    read = max((failure.read for failure in triage.failures), default=0)
    replies = triage.n + triage.n_unscored
    sampled = f"Looked for in {read:,} of {replies:,} replies, a part of the dialogues; -m rules scores all."
    direction = "Lower" if triage.score.lower_is_better else "Higher"
    return (
        f"{direction} is better. Rules look at words, not at meaning: a cue, not a verdict. If the score is "
        "no worse where a fault is found, one of the two is mistaken: read some. Brackets: 95 % interval "
        "over dialogues.",
        *([sampled] if read < replies else []),
        *([f"Looked for and not found: {', '.join(map(words, absent))}."] if absent else []),
    )


def worst_turn_table(triage: Triage) -> Table | None:
    """Return the table of the worst turns with the turns before and after, each cut short."""

    def text(role: str, row: Excerpt) -> str | None:
        return next((shorten(turn.text, _SHORTER) for turn in reversed(row.turns) if turn.role == role), None)

    return tabulate(
        "worst-turns",
        f"The worst turns by {triage.score.label}",
        triage.worst,
        named("Dialogue", "dialogue_id"),
        number("Turn", "reply.number"),
        number("Score", lambda row: Palette(triage.score).write(row.reply.score.value)),
        named("Failures", lambda row: ", ".join(map(words, row.faults)) or None),
        named("Before", lambda row: text("before", row)),
        named("Reply", lambda row: text("reply", row)),
        named("Next", lambda row: text("next", row)),
    )


def index_table(triage: Triage) -> Table | None:
    """Return the table of mean scores of the first, second, … reply."""
    return tabulate(
        "over-turns",
        f"Mean of {triage.score.label} over the replies of a dialogue",
        triage.by_index,
        named("Reply", "label", strong=True),
        number("Mean", lambda row: estimate_cell(row.mean, Palette(triage.score).write)),
        number("n", "mean.n"),
        number("Unscored", "n_unscored"),
        notes=("Brackets: 95 % interval over dialogues. Only long dialogues have late replies.",),
    )
