"""Triage as tables and a figure: recurring failures, the worst turns, the score over the dialogue."""

from dataclasses import asdict
from typing import Any, NamedTuple

from markupsafe import Markup

from dialeval.reports.bad_turns import BadTurn
from dialeval.reports.explanations import TINTS
from dialeval.reports.failures import RULES
from dialeval.reports.svg import BLUE, LINE, drawing, to_svg
from dialeval.reports.table import DASH, Cell, Column, Table, count, estimate_cell, figure, name, undefined
from dialeval.reports.text import shorten
from dialeval.reports.triage import Failure, Triage
from dialeval.reports.turn_rows import IndexMean
from dialeval.statistics import Estimate

_LONGEST = 120
_SHORTER = 80


class Drawn(NamedTuple):
    """A picture and its caption."""

    svg: Markup
    caption: str


def triage_section(found: Triage | None) -> dict[str, Any] | None:
    """Prepare the section of the page; no score of turns, no section."""
    if found is None:
        return None
    return {
        "found": found,
        "picture": draw_over_turns(found, "o-"),
        "failures": failure_table(found),
        "over_turns": index_table(found),
        "tints": {rule.name: place % TINTS for place, rule in enumerate(RULES)},
    }


def triage_tables(found: Triage | None) -> list[Table | None]:
    """Make every table, for reports without pictures."""
    return [] if found is None else [failure_table(found), worst_turn_table(found), index_table(found)]


def failure_table(found: Triage) -> Table | None:
    """Say for every rule how often it fired, and what the score says there and elsewhere."""
    if not found.failures:
        return None
    heads = ("Replies", "Share", "Score there", "Score elsewhere", "Difference")
    return Table(
        "failures",
        f"Recurring failures, and what {found.score.label} says of them",
        (
            Column("Failure", "name"),
            *map(Column, heads),
            Column("Example", "name"),
            Column("Dialogue", "name"),
        ),
        tuple(_failure_row(failure, found) for failure in found.failures),
        _failure_notes(found),
    )


def _failure_row(failure: Failure, found: Triage) -> tuple[Cell, ...]:
    example = failure.example
    return (
        Cell(failure.rule.name, small=_explanation(failure), strong=True),
        count(failure.found),
        _share(failure),
        _mean(failure.here, failure.found, found),
        _mean(failure.elsewhere, failure.read - failure.found, found),
        estimate_cell(asdict(failure.difference), found.score.write) if failure.found else Cell(DASH),
        name(None) if example is None else Cell(shorten(example.text, _LONGEST) or "(empty)"),
        name(None) if example is None else Cell(example.dialogue_id, small=f"turn {example.turn}"),
    )


def _share(failure: Failure) -> Cell:
    if not failure.read:
        return undefined("no reply to read")
    return Cell(f"{100 * failure.found / failure.read:.1f} %", small=f"of {failure.read:,}")


def _explanation(failure: Failure) -> str:
    return f"{failure.rule.explanation}{' (English)' if failure.rule.english else ''}"


def _mean(estimate: Estimate, rows: int, found: Triage) -> Cell:
    if estimate.value is None:
        return undefined(estimate.reason if rows else "none")
    return Cell(found.score.write(estimate.value), small=f"n {estimate.n:,}\nunscored {rows - estimate.n:,}")


def _failure_notes(found: Triage) -> tuple[str, ...]:
    way = "Lower" if found.score.lower_is_better else "Higher"
    notes = [
        f"{way} is better. Rules look at words, not at meaning: a cue, not a verdict. If the score is no "
        "worse where a rule fires, one of the two is mistaken: read some. Brackets: 95 % interval over "
        "dialogues."
    ]
    if found.english < found.dialogues:
        others = found.dialogues - found.english
        notes.append(
            f"{others:,} of {found.dialogues:,} dialogues do not look English: rules marked English passed "
            "them over."
        )
    return tuple(notes)


def worst_turn_table(found: Triage) -> Table | None:
    """List the worst turns with what the user said before and next, each cut short."""
    if not found.worst:
        return None
    heads = ("Failures", "Said before", "Reply", "Said next")
    return Table(
        "worst-turns",
        f"The worst turns by {found.score.label}",
        (
            Column("Dialogue", "name"),
            Column("Turn"),
            Column("Score"),
            *(Column(head, "name") for head in heads),
        ),
        tuple(_worst_row(turn, found) for turn in found.worst),
    )


def _worst_row(turn: BadTurn, found: Triage) -> tuple[Cell, ...]:
    said = {shown.role: shorten(shown.text, _SHORTER) for shown in turn.turns}
    return (
        Cell(turn.dialogue_id),
        count(turn.number),
        Cell(found.score.write(turn.value)),
        name(", ".join(rule.name for rule in turn.failures) or None),
        *(name(said.get(role)) for role in ("before", "reply", "next")),
    )


def index_table(found: Triage) -> Table:
    """Give the numbers of the figure."""
    return Table(
        "over-turns",
        f"Mean of {found.score.label} over the replies of a dialogue",
        (Column("Reply", "name"), Column("Mean"), Column("n"), Column("Unscored")),
        tuple(
            (
                name(one.label, strong=True),
                estimate_cell(asdict(one.mean), found.score.write),
                count(one.mean.n),
                count(one.n_unscored),
            )
            for one in found.by_index
        ),
        ("Brackets: 95 % interval over dialogues. Only long dialogues have late replies.",),
    )


def draw_over_turns(found: Triage, prefix: str) -> Drawn | None:
    """Draw the mean score of the first, second, … reply with its interval; None if nothing is scored."""
    shown = [(place, one) for place, one in enumerate(found.by_index, 1) if one.mean.value is not None]
    if not shown:
        return None
    size = max(abs(end) for _, one in shown for end in _ends(one))
    words = ", ".join(f"{one.label}: {figure(one.mean.value, size)}" for _, one in shown)
    label = f"Mean of {found.score.label} for each reply of a dialogue. {words}"
    with drawing(4.6, 2.5) as (fig, axes):
        for place, one in shown:
            if one.mean.low is not None:
                axes.plot([place, place], [one.mean.low, one.mean.high], color=BLUE, linewidth=1.4)
        values = [one.mean.value for _, one in shown]
        axes.plot([place for place, _ in shown], values, "-o", color=BLUE, markersize=5, linewidth=1.6)
        axes.set_xticks(range(1, len(found.by_index) + 1), [one.label for one in found.by_index])
        axes.set(xlabel="reply of the dialogue", ylabel="mean score")
        axes.grid(visible=False, axis="x")
        axes.locator_params(axis="y", nbins=5)
        axes.margins(0.06)
        for side in ("left", "bottom"):
            axes.spines[side].set_color(LINE)
        svg = to_svg(fig, prefix, label)
    ns = ", ".join(f"{one.mean.n:,}" for _, one in shown)
    caption = (
        "Mean score of the first, second, … reply, 95 % interval over dialogues. Only long dialogues have "
        f"late replies. n = {ns}; unscored {found.n_unscored:,}."
    )
    return Drawn(svg, caption)


def _ends(one: IndexMean) -> list[float]:
    return [end for end in (one.mean.low, one.mean.value, one.mean.high) if end is not None]
