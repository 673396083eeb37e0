"""Tables about systems and raters: rankings, means, comparisons, agreement."""

from collections.abc import Callable, Sequence
from typing import Literal

from dialeval.reports.source_tables import crossed, percent
from dialeval.reports.table import (
    MARKS_EXPLAINED,
    Field,
    Table,
    TableCell,
    axis_over,
    bar_cell,
    counts,
    decimal,
    ends,
    estimate_cell,
    figure,
    named,
    number,
    numbers,
    p_cell,
    tabulate,
    undefined,
)
from dialeval.scores import is_human
from dialeval.scores.signature import better
from dialeval.studies import Study
from dialeval.studies.findings import RaterAgreement, SystemMean

_ALPHAS: tuple[Literal["nominal", "ordinal", "interval"], ...] = ("nominal", "ordinal", "interval")


def column_names(study: Study) -> dict[tuple[str, str], str]:
    """Return short unambiguous names of the columns of system means."""
    columns = list(dict.fromkeys((row.source, row.dimension) for row in study.systems))
    sources = [source for source, _ in columns]
    return {
        column: column[0]
        if (sources.count(column[0]) == 1 and not is_human(column[0])) or column[0] == column[1]
        else f"{column[0]} / {column[1]}"
        for column in columns
    }


def ordered_columns(study: Study) -> list[tuple[str, str]]:
    """Return the columns of system means: the gold, then other ratings, then sources."""
    gold = (study.gold.source, study.gold.dimension) if study.gold else None
    return sorted(column_names(study), key=lambda column: (column != gold, not is_human(column[0])))


def ranked_systems(study: Study, column: tuple[str, str]) -> list[SystemMean]:
    """Return the systems by their mean in one column, best first, those without a mean last."""
    rows = [row for row in study.systems if (row.source, row.dimension) == column]
    sign = 1 if better(study.signatures, *column) == "lower" else -1
    return sorted(rows, key=lambda row: (row.mean.value is None, sign * (row.mean.value or 0)))


def ranking_table(study: Study, column: tuple[str, str]) -> Table | None:
    """Return the table of systems by their mean in one column, best first."""
    title = column_names(study).get(column, " / ".join(column))
    notes = ("Lower is better.",) if better(study.signatures, *column) == "lower" else ()
    return system_bars("ranking", title, ranked_systems(study, column), "Mean", counts, notes=notes)


def system_bars(
    name: str,
    title: str,
    rows: Sequence[SystemMean],
    head: str,
    small: Callable[[SystemMean], str],
    *more: Field,
    notes: tuple[str, ...] = (),
) -> Table | None:
    """Return a table of systems with their means in one column, as bars and numbers, and more columns."""
    axis = axis_over(ends([row.mean for row in rows]))
    size = 0.0 if axis is None else max(abs(axis.low), abs(axis.high))
    return tabulate(
        name,
        title,
        rows,
        named("System", lambda row: TableCell(row.system, small=small(row)), strong=True),
        named("", lambda row: bar_cell(row.mean), "bar"),
        number(head, lambda row: estimate_cell(row.mean, lambda value: figure(value, size))),
        *more,
        notes=notes,
        axis=axis,
        rated=any(is_human(row.source) for row in rows),
    )


def means_table(study: Study) -> Table | None:
    """Return the table of means per system and column."""
    columns, names = ordered_columns(study), column_names(study)
    systems = list(dict.fromkeys(row.system for row in study.systems))
    cells = {(row.system, names[row.source, row.dimension]): _mean_cell(row) for row in study.systems}
    labels = [names[column] for column in columns]
    missing = undefined("not scored")
    return crossed(
        "means",
        "Means per system",
        ("System", systems),
        ("Source", labels),
        {(system, label): cells.get((system, label), missing) for system in systems for label in labels},
        (f"Brackets: {percent(study)} interval, bootstrap over whole dialogues.",),
        rated=any(is_human(source) for source, _ in columns),
    )


def _mean_cell(row: SystemMean) -> TableCell:
    cell = estimate_cell(row.mean, figure)
    return TableCell(cell.text, small=f"{cell.small}\n{counts(row)}".strip())


def comparison_table(study: Study, gold: bool | None = None) -> Table | None:
    """Return the comparisons of systems on the gold (True), on other columns (False), or on all (None)."""
    of_gold = (study.gold.source, study.gold.dimension) if study.gold else None
    rows = [
        row for row in study.comparisons if gold is None or ((row.source, row.dimension) == of_gold) == gold
    ]
    unscored = {(row.system, row.source, row.dimension): f"{row.n_unscored:,}" for row in study.systems}
    names = column_names(study)
    return tabulate(
        "comparisons",
        "Comparisons of systems",
        rows,
        named(
            "Source", lambda row: names.get((row.source, row.dimension), f"{row.source} / {row.dimension}")
        ),
        named("First", "first"),
        named("Second", "second"),
        number("Difference", lambda row: estimate_cell(row.difference, figure)),
        number("p", lambda row: p_cell(row.p, row.difference.reason)),
        number("p (Holm)", lambda row: p_cell(row.p_holm, row.difference.reason)),
        number("n", "difference.n"),
        number(
            "Unscored",
            lambda row: " / ".join(
                unscored.get((system, row.source, row.dimension), "0") for system in (row.first, row.second)
            ),
        ),
        named("Test", lambda row: "paired" if row.paired else "unpaired"),
        notes=(
            "Difference: mean of the first minus mean of the second. Paired: both systems answered the same "
            "dialogues or contexts (approximate randomisation); unpaired: permutation of means. "
            f"Holm: corrected within each source. {MARKS_EXPLAINED}.",
        ),
        rated=any(is_human(row.source) for row in rows),
    )


def agreement_table(study: Study) -> Table | None:
    """Return the table of rater agreement for every level and dimension."""
    alphas = [f"\N{GREEK SMALL LETTER ALPHA} {name}" for name in _ALPHAS]
    return tabulate(
        "agreement",
        "Agreement between raters",
        study.agreement,
        named("Dimension", lambda row: TableCell(row.dimension, small=f"{row.level} level"), strong=True),
        *numbers(alphas, lambda row, index: row.alpha[_ALPHAS[index]]),
        number("Fleiss κ", "fleiss"),
        number("Fleiss κ, one label out", _without_dominant),
        number("Cohen κ", "cohen"),
        number("Raw", "raw"),
        number("Raters", "raters"),
        number("Units", "n_units"),
        number("Ratings", "n_ratings"),
        notes=(
            "1 is perfect, 0 is chance; brackets: 95 % interval, bootstrap over dialogues. "
            "\N{GREEK SMALL LETTER ALPHA}: Krippendorff's, for three levels of measurement. One label out: "
            "without the most common label. Cohen κ: mean over pairs of raters. Raw: share of pairs of "
            "ratings that agree.",
        ),
        rated=True,
    )


def _without_dominant(row: RaterAgreement) -> TableCell:
    dominant = "" if row.dominant is None else f"without {row.dominant:g}"
    excluded = estimate_cell(row.fleiss_without_dominant)
    return TableCell(excluded.text, small=f"{dominant} {excluded.small}".strip())


def label_shares(row: RaterAgreement) -> list[tuple[str, int, str]]:
    """Return each label with its count and its share in per cent."""
    total = sum(row.labels.values())
    return [(label, n, decimal(100 * n / total, 1)) for label, n in row.labels.items()] if total else []
