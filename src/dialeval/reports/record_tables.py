"""Tables of what to look at, and of how every number was made."""

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
_FAULTS, _NOT_RARE = 6, 1.0  # rows of the table of faults; more if in so many of a hundred replies
_MOST_SYSTEMS = 8


def worst_table(study: Study) -> Table | None:
    """Return the units people liked least, and those where a source is most wrong."""
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
    """Return the score of the source that a row is about; the lowest rated are about none."""
    return row.values.get(row.why.removesuffix(" too kind").removesuffix(" too strict"))


def signature_table(study: Study) -> Table | None:
    """Return how every source was made."""
    return tabulate(
        "signatures",
        "Signatures",
        study.signatures.items(),
        named("Source", lambda row: row[0], strong=True),
        named("Signature", lambda row: row[1], "code"),
    )


def schema_table(study: Study) -> Table | None:
    """Return what kind of evaluation it is, by five decisions."""
    rows = () if study.schema is None else asdict(study.schema).items()
    return tabulate(
        "schema", "Kind of evaluation", rows, named("Decision", lambda r: r[0]), named("Here", lambda r: r[1])
    )


def settings_table(study: Study) -> Table | None:
    """Return what decided what the study computed."""
    rows = [(key, value) for key, value in study.to_dict()["settings"].items() if value not in (None, ())]
    return tabulate(
        "settings",
        "Settings",
        rows,
        named("Setting", lambda row: row[0]),
        named("Value", lambda row: ", ".join(row[1]) if isinstance(row[1], tuple) else str(row[1]), "code"),
    )


def coverage_table(study: Study) -> Table | None:
    """Return what every source and rater scored: dimension, level, mean, n, unscored."""
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
            lambda row, place: (
                undefined("nothing scored")
                if row.mean is None
                else figure((row.mean, row.lowest, row.highest)[place])
            ),
        ),
        number("n", "n"),
        number("Unscored", "n_unscored"),
        notes=(f"{more:,} more rows are not shown.",) if more > 0 else (),
        rated=any(is_human(row.source) for row in study.coverage),
    )


def note_table(study: Study) -> Table | None:
    """Return why scores are missing, and warnings on those that are not; the commonest first."""
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
    """Return how many dialogues are in each language, unless all of them are English."""
    return tabulate(
        "languages",
        "Languages of the dialogues",
        study.languages if study.foreign else (),
        named("Language", lambda row: row.language or undefined("cannot be told"), strong=True),
        number("Dialogues", "n"),
        number("Left unscored because of it", "n_unscored"),
        notes=("Left unscored: by a metric whose models do not know the language; see the notes on scores.",),
    )


def fault_table(found: Triage, order: Sequence[str] = ()) -> Table | None:
    """Return how many in a hundred replies of each system have each fault that is not rare.

    Args:
        found: What was found.
        order: The systems as another table has them.
    """
    rates = {one.name: max(rate.value or 0.0 for rate in one.by_system.values()) for one in found.failures}
    ranked = sorted((one for one in found.failures if rates[one.name]), key=lambda one: -rates[one.name])
    rows = [one for place, one in enumerate(ranked) if place < _FAULTS or rates[one.name] >= _NOT_RARE]
    names = dict.fromkeys(name for failure in rows for name in failure.by_system)
    systems = [*(name for name in order if name in names), *(name for name in names if name not in order)]
    if len(systems) > _MOST_SYSTEMS:
        return None
    rare = ", ".join(words(one.name) for one in ranked if one not in rows)
    return tabulate(
        "faults",
        "Faults in a hundred replies",
        rows,
        named("Fault", lambda row: words(row.name), strong=True),
        *numbers(
            [name or "all replies" for name in systems],
            lambda row, place: _rate(row.by_system.get(systems[place])),
        ),
        notes=("Brackets: 95 % interval over dialogues." + (f" Rarer: {rare}." if rare else ""),),
    )


def words(fault: str) -> str:
    """Write the name of a fault in words.

    >>> words("rules/cut-off")
    'cut off'
    """
    return fault.partition("/")[2].replace("-", " ") or fault


def _rate(estimate: Estimate | None) -> TableCell:
    if estimate is None or estimate.value is None:
        return undefined("not looked for")
    if not estimate.value:
        return TableCell("0", small=f"none of {estimate.n:,}")
    low = (
        ""
        if estimate.low is None
        else f"[{max(0.0, estimate.low):.1f}, {min(100.0, estimate.high or 0):.1f}]"
    )
    return TableCell(f"{estimate.value:.1f}", small=low)


def failure_table(found: Triage) -> Table | None:
    """Return for every fault how often it was found, and what the score says there and elsewhere."""
    write = Palette(found.score).write
    return tabulate(
        "failures",
        f"Recurring failures, and what {found.score.label} says of them",
        [one for one in found.failures if one.found],
        named("Failure", lambda one: TableCell(words(one.name), small=one.name), strong=True),
        number("Replies", "found"),
        number("Share", _share),
        number("Score there", lambda one: _mean(one.here, one.found, found)),
        number("Score elsewhere", lambda one: _mean(one.elsewhere, one.read - one.found, found)),
        number("Difference", lambda one: estimate_cell(one.difference, write) if one.found else DASH),
        named("Example", lambda one: None if one.example is None else _example(one)),
        notes=_failure_notes(found),
    )


def _example(failure: Failure) -> TableCell:
    assert failure.example is not None  # noqa: S101  # the caller has looked
    dialogue_id, turn, text = failure.example
    return TableCell(shorten(text, _LONGEST) or "(empty)", small=f"{dialogue_id}, turn {turn}")


def _share(failure: Failure) -> TableCell:
    if not failure.read:
        return undefined("no reply to read")
    return TableCell(f"{100 * failure.found / failure.read:.1f} %", small=f"of {failure.read:,}")


def _mean(estimate: Estimate, rows: int, found: Triage) -> TableCell:
    if estimate.value is None:
        return undefined(estimate.reason if rows else "none")
    return TableCell(
        Palette(found.score).write(estimate.value), small=f"n {estimate.n:,}\nunscored {rows - estimate.n:,}"
    )


def _failure_notes(found: Triage) -> tuple[str, ...]:
    absent = [one.name for one in found.failures if not one.found]
    read, replies = max((one.read for one in found.failures), default=0), found.n + found.n_unscored
    some = f"Looked for in {read:,} of {replies:,} replies, a part of the dialogues; -m rules scores all."
    way = "Lower" if found.score.lower_is_better else "Higher"
    return (
        f"{way} is better. Rules look at words, not at meaning: a cue, not a verdict. If the score is no "
        "worse where a fault is found, one of the two is mistaken: read some. Brackets: 95 % interval over "
        "dialogues.",
        *([some] if read < replies else []),
        *([f"Looked for and not found: {', '.join(map(words, absent))}."] if absent else []),
    )


def worst_turn_table(found: Triage) -> Table | None:
    """List the worst turns with what the user said before and next, each cut short."""

    def said(role: str, one: Excerpt) -> str | None:
        return next((shorten(turn.text, _SHORTER) for turn in reversed(one.turns) if turn.role == role), None)

    return tabulate(
        "worst-turns",
        f"The worst turns by {found.score.label}",
        found.worst,
        named("Dialogue", "dialogue_id"),
        number("Turn", "reply.number"),
        number("Score", lambda one: Palette(found.score).write(one.reply.score.value)),
        named("Failures", lambda one: ", ".join(map(words, one.faults)) or None),
        named("Said before", lambda one: said("before", one)),
        named("Reply", lambda one: said("reply", one)),
        named("Said next", lambda one: said("next", one)),
    )


def index_table(found: Triage) -> Table | None:
    """Return the numbers of the figure."""
    return tabulate(
        "over-turns",
        f"Mean of {found.score.label} over the replies of a dialogue",
        found.by_index,
        named("Reply", "label", strong=True),
        number("Mean", lambda one: estimate_cell(one.mean, Palette(found.score).write)),
        number("n", "mean.n"),
        number("Unscored", "n_unscored"),
        notes=("Brackets: 95 % interval over dialogues. Only long dialogues have late replies.",),
    )
