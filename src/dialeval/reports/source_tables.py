"""Tables about sources: correlations with the gold and with each other, differences, classes of the gold."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from dialeval.reports.table import (
    DASH,
    MARKS_EXPLAINED,
    Axis,
    Field,
    OfSource,
    Table,
    TableCell,
    axis_over,
    bar_cell,
    correlation_tone,
    counts,
    decimal,
    ends,
    estimate_cell,
    figure,
    named,
    number,
    numbers,
    p_cell,
    stars,
    tabulate,
    undefined,
)
from dialeval.scores.signature import better
from dialeval.statistics import METHODS, QUANTILES, Estimate
from dialeval.studies import Study
from dialeval.studies.findings import ClassThreshold, Correlation

SYMBOLS = {
    "pearson": "Pearson r",
    "spearman": "Spearman \N{GREEK SMALL LETTER RHO}",
    "kendall": "Kendall \N{GREEK SMALL LETTER TAU}",
}
_MOST_SOURCES = 14  # of the table of all against all
CEILING = "one rater against the others"  # the row of the human ceiling


def percent(study: Study) -> str:
    """Return the confidence level of the intervals in per cent."""
    return f"{100 * study.settings.confidence:g} %"


def direction(study: Study, row: Correlation) -> str:
    """Return "lower is better" if it is, else an empty string."""
    lower = better(study.signatures, row.source, row.dimension) == "lower"
    return "lower is better" if lower else ""


def correlation_table(study: Study) -> Table | None:
    """Return the table of correlations with the gold, best first, with the human ceiling."""
    method, ceiling = study.method, study.ceiling.get(study.method)
    table = tabulate(
        "correlations",
        f"Correlation of each source with {study.gold_name}, {study.level} level",
        study.correlations,
        number("Group", lambda row: study.group(row.label) or undefined("undefined")),
        named("Source", lambda row: TableCell(row.label, small=direction(study, row)), strong=True),
        named(SYMBOLS[method], lambda row: bar_cell(row.of(method)), "bar"),
        *numbers(
            [SYMBOLS[name] for name in METHODS],
            lambda row, index: estimate_cell(row.of(METHODS[index]), marked=True),
        ),
        number("n", "n"),
        number("Unscored", "n_unscored"),
        notes=(
            f"Ordered by {SYMBOLS[method]}, negated where lower is better. Brackets: "
            f"{percent(study)} interval, bootstrap over whole dialogues. "
            f"{MARKS_EXPLAINED} (correlation differs from 0).",
            "Group: two sources share a letter exactly if their correlations do not differ significantly "
            "(permutation test of each pair, Holm-corrected).",
            "Unscored: rated units without a score of the source.",
        ),
        axis=_correlation_axis([row.of(method) for row in study.correlations], ceiling),
        rated=True,
    )
    if table is None or ceiling is None or ceiling.value is None:
        return table
    above = sum(_worth(study, row, method) > ceiling.value for row in study.correlations)
    return replace(table, rows=(*table.rows[:above], _ceiling_row(study, ceiling), *table.rows[above:]))


def _worth(study: Study, row: Correlation, method: str) -> float:
    """Return the correlation that the study ranks by, negated if lower is better."""
    value = row.of(method).value
    sign = -1 if direction(study, row) else 1
    return -2.0 if value is None else sign * float(value)


def _ceiling_row(study: Study, ceiling: Estimate) -> tuple[TableCell, ...]:
    cells = [study.ceiling.get(method) for method in METHODS]
    return (
        TableCell("people"),
        TableCell(CEILING),
        bar_cell(ceiling),
        *(undefined(None) if cell is None else estimate_cell(cell) for cell in cells),
        TableCell(f"{ceiling.n:,}"),
        TableCell(f"{study.gold.n_unrated if study.gold else 0:,}"),
    )


def _correlation_axis(estimates: list[Estimate], ceiling: Estimate | None) -> Axis | None:
    shown = [*estimates, *([ceiling] if ceiling else [])]
    axis = axis_over([0.0, 1.0, *ends(shown)])
    if axis is None or ceiling is None or ceiling.value is None:
        return axis
    band = None if ceiling.low is None or ceiling.high is None else (ceiling.low, ceiling.high)
    return replace(axis, marker=ceiling.value, band=band)


def difference_table(study: Study) -> Table | None:
    """Return the table of differences between the correlations of every pair of sources."""
    return tabulate(
        "differences",
        f"Differences between sources in their {SYMBOLS[study.method]} with {study.gold_name}",
        study.differences,
        named("First", "first"),
        named("Second", "second"),
        number("Difference", "difference"),
        number("Williams t", lambda row: estimate_cell(row.williams, partial(decimal, places=2))),
        number("p", lambda row: p_cell(row.williams.p, row.williams.reason)),
        number("p (Holm)", lambda row: p_cell(row.williams_holm, row.williams.reason)),
        number("Permutation p", lambda row: p_cell(row.permutation.p, row.permutation.reason)),
        number("p (Holm)", lambda row: p_cell(row.permutation_holm, row.permutation.reason)),
        number("n", "n"),
        notes=(
            "Difference: first minus second, over the n units that both scored, with a paired interval. "
            f"Holm: corrected for all {len(study.differences)} pairs. {MARKS_EXPLAINED}.",
        ),
        rated=True,
    )


def crossed(
    name: str,
    title: str,
    sides: tuple[str, list[str]],
    others: tuple[str, list[str]],
    cells: dict[tuple[str, str], TableCell],
    notes: tuple[str, ...],
    rated: bool,
) -> Table | None:
    """Return a table of two kinds of names; the fewer become the columns."""
    transposed = len(others[1]) > len(sides[1])
    (head, rows), columns = (others, sides[1]) if transposed else (sides, others[1])

    def cell(row: str, index: int) -> TableCell:
        return cells[(columns[index], row) if transposed else (row, columns[index])]

    first = named(head, lambda row: row, strong=True)
    return tabulate(name, title, rows, first, *numbers(columns, cell), notes=notes, rated=rated)


def subset_table(study: Study) -> Table | None:
    """Return the table of correlations inside each system, or with each dimension."""
    if not study.subsets:
        return None
    by = study.subsets[0].by
    parts = {part.name: {row.label: row for row in part.correlations} for part in study.subsets}
    labels = list(dict.fromkeys(label for rows in parts.values() for label in rows))
    cells = {
        (label, part): _subset_cell(rows.get(label), study.method)
        for part, rows in parts.items()
        for label in labels
    }
    title = f"{SYMBOLS[study.method]} with {study.gold_name} by {by}"
    notes = (f"Brackets: {percent(study)} interval. {MARKS_EXPLAINED}.",)
    return crossed("subsets", title, ("Source", labels), (by, list(parts)), cells, notes, rated=True)


def _subset_cell(row: Correlation | None, method: str) -> TableCell:
    if row is None:
        return undefined("not scored")
    cell = estimate_cell(row.of(method), marked=True, tone=True)
    return replace(cell, small=f"{cell.small}\n{counts(row)}".strip())


def calibration_table(study: Study) -> Table | None:
    """Return the table of mean ratings in bins of equally many units."""
    return tabulate(
        "calibration",
        f"Calibration: mean {study.gold_name} in bins of equally many units",
        [OfSource(row.label, bin_) for row in study.calibration for bin_ in row.bins],
        named("Source", "source"),
        number("Mean score", lambda row: figure(row.found.x)),
        number("Mean rating", lambda row: estimate_cell(row.found.y, figure)),
        number("n", "found.y.n"),
        notes=("Brackets: 95 % interval by Student's t. Equal scores never fall into different bins.",),
        rated=True,
    )


def line_table(study: Study) -> Table | None:
    """Return the table of lines that were fitted to the ratings."""
    return tabulate(
        "lines",
        "Lines fitted to the ratings",
        study.lines,
        named("Line", "name", strong=True),
        named("Through", "source"),
        number("Intercept", "intercept"),
        number("Slope", lambda row: estimate_cell(row.slope, marked=True)),
        number("p of the slope", lambda row: p_cell(row.slope.p, row.reason)),
        number("R²", lambda row: undefined(row.reason) if row.r_squared is None else decimal(row.r_squared)),
        number("n", "n"),
        notes=(
            "Least squares over all rated units, intervals by Student's t. The scores under the line's name "
            "are predictions of lines fitted without the conversation in question.",
        ),
        rated=True,
    )


def matrix_labels(study: Study) -> list[str]:
    """Return the names of the rows of the matrix; the last is the gold, if there is one."""
    labels = list(study.matrix.labels)
    if labels and study.gold is not None:
        labels[-1] = study.gold_name
    return labels


def matrix_table(study: Study) -> Table | None:
    """Return the correlation matrix of sources."""
    labels = matrix_labels(study)
    if len(labels) < 2:
        return None
    cells = study.matrix.correlations[study.method]
    chosen = _most_telling(cells)
    ns = sorted({cells[a][b].n for a in chosen for b in chosen if a > b})
    span = f"{ns[0]:,}" if len(ns) == 1 else f"{ns[0]:,} to {ns[-1]:,}"
    less = (
        f" {len(labels) - len(chosen)} more sources are among the pairs." if len(chosen) < len(labels) else ""
    )

    def cell(row: int, index: int) -> TableCell:
        return TableCell("1") if row == index else _matrix_cell(cells[chosen[row]][chosen[index]])

    return tabulate(
        f"matrix-{study.method}",
        f"{SYMBOLS[study.method]} between sources",
        range(len(chosen)),
        Field(number("", "").column, lambda row: row + 1),
        named("Source", lambda row: labels[chosen[row]], strong=True),
        *numbers([str(index + 1) for index in range(len(chosen))], cell),
        notes=(f"A column is the source of that number. n = {span} units.{less}",),
        rated=study.gold is not None,
    )


def _most_telling(cells: Sequence[Sequence[Estimate]]) -> list[int]:
    """Return the rows that fit on a page: of many, those most correlated with the last, the gold."""
    last = len(cells) - 1
    if last < _MOST_SOURCES:
        return list(range(last + 1))
    ranked = sorted(range(last), key=lambda index: -abs(cells[index][last].value or 0.0))
    return [*sorted(ranked[: _MOST_SOURCES - 1]), last]


def _matrix_cell(estimate: Estimate) -> TableCell:
    if estimate.value is None:
        return undefined(estimate.reason)
    return TableCell(decimal(estimate.value, 2), tone=correlation_tone(estimate.value))


def pair_table(study: Study) -> Table | None:
    """Return the table of correlations of each pair, by all three methods and as an angle."""
    labels = matrix_labels(study)
    if len(labels) < 2:
        return None
    matrix = study.matrix

    def cell(pair: tuple[int, int], index: int) -> TableCell:
        estimate = matrix.correlations[METHODS[index]][pair[0]][pair[1]]
        return (
            undefined(estimate.reason)
            if estimate.value is None
            else TableCell(decimal(estimate.value), mark=stars(estimate.p))
        )

    def angle(pair: tuple[int, int]) -> TableCell:
        degrees = matrix.angles[pair[0]][pair[1]]
        return cell(pair, 0) if degrees is None else TableCell(f"{degrees:.0f}°")

    return tabulate(
        "pairs",
        "Correlation of each pair",
        _pairs(study, labels),
        named("First", lambda pair: labels[pair[0]]),
        named("Second", lambda pair: labels[pair[1]]),
        *numbers([SYMBOLS[method] for method in METHODS], cell),
        number("Angle", angle),
        number("n", lambda pair: matrix.correlations[METHODS[0]][pair[0]][pair[1]].n),
        notes=(f"Angle: arccos of {SYMBOLS[study.method]}; 90° is unrelated. {MARKS_EXPLAINED}.",),
        rated=study.gold is not None,
    )


def _pairs(study: Study, labels: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the pairs with the gold first, then those between sources."""
    last = len(labels) - 1
    if study.gold is not None:
        yield from ((index, last) for index in range(last))
    stop = last if study.gold is not None else last + 1
    yield from ((a, b) for a in range(stop) for b in range(a + 1, stop))


# --- classes of the gold: sizes, AUC, thresholds, and scores per class --------------------------------------


def _side(study: Study, cut: float) -> str:
    """Return the name of the classes at or above a cut."""
    return "upper half" if study.labels.rule == "halves" else f"≥ {cut:g}"


def label_table(study: Study) -> Table | None:
    """Return the table of classes and their sizes."""
    sides = {True: "upper", False: "lower", None: None}
    return tabulate(
        "labels",
        f"Classes of {study.gold_name}",
        study.labels.classes,
        named("Class", "name", strong=True),
        number("n", "n"),
        number("Share in %", lambda row: estimate_cell(row.share, lambda value: f"{100 * value:.1f}")),
        named("Side", lambda row: sides[row.upper]),
        notes=_rule(study),
        rated=True,
    )


def _rule(study: Study) -> tuple[str, ...]:
    """Return the note on how classes and the upper ones are defined."""
    labels = study.labels
    if labels.rule == "halves":
        rule = f"The ratings take many values, so they are split at their median, {figure(labels.median)}."
    else:
        rule = "A class is a value that the raters gave; of several raters the majority decides."
        rule += " Upper: at or above the middle of the range." if labels.cut is not None else ""
    left = f" {labels.n_unlabelled:,} rated units have no majority." if labels.n_unlabelled else ""
    return (f"{rule}{left} Brackets: {percent(study)} interval, bootstrap over dialogues.",)


def auc_table(study: Study) -> Table | None:
    """Return the table of AUCs of each source at each cut."""
    cuts = [cut.at for cut in study.classes[0].cuts] if study.classes else []
    scored = {row.label: sum(spread.n for spread in row.distributions) for row in study.classes}
    rated = study.gold.n if study.gold else 0
    return tabulate(
        "auc",
        f"AUC: how well a score separates labels of {study.gold_name}",
        study.classes,
        named("Source", "label", strong=True),
        *numbers([_side(study, cut) for cut in cuts], lambda row, index: row.at(cuts[index])),
        number("n", lambda row: scored[row.label]),
        number("Unscored", lambda row: max(0, rated - scored[row.label])),
        notes=(
            "The chance that a unit at or above the cut scores higher than one below it; 0.5 is guessing. "
            "Of a source for which lower is better it should be below.",
        ),
        rated=True,
    )


def threshold_table(study: Study) -> Table | None:
    """Return the table of the best threshold of each source, with its held-out accuracy."""
    if study.labels.cut is None:
        return None
    return tabulate(
        "thresholds",
        f"Where to draw the line: {study.gold_name}, {_side(study, study.labels.cut)}",
        study.classes,
        named("Source", "label", strong=True),
        number("Threshold", lambda row: _threshold_cell(row.threshold)),
        number("Balanced accuracy, held out", "threshold.accuracy"),
        number("On all", lambda row: decimal(row.threshold.fitted)),
        number("Range of thresholds", lambda row: _range(row.threshold)),
        number("n", "threshold.accuracy.n"),
        notes=(
            "Threshold: the one with the best balanced accuracy on all units. Held out: ten-fold "
            "cross-validation over dialogues; 0.5 is guessing. On all: the accuracy of the threshold on the "
            "units it was chosen on, for comparison. Range: over the folds.",
        ),
        rated=True,
    )


def _threshold_cell(line: ClassThreshold) -> TableCell:
    if line.value is None:
        return undefined(line.accuracy.reason)
    return TableCell(f"{'≤' if line.upper == 'below' else '≥'} {figure(line.value)}")


def _range(line: ClassThreshold) -> str:
    return DASH if line.lowest is None else f"{figure(line.lowest)} to {figure(line.highest)}"


def class_table(study: Study) -> Table | None:
    """Return the table of score distributions for each label."""
    return tabulate(
        "classes",
        f"Scores of the units of each label of {study.gold_name}",
        [OfSource(row.label, spread) for row in study.classes for spread in row.distributions],
        named("Source", "source"),
        number("Label", "found.name"),
        number("n", "found.n"),
        number("Mean", lambda row: figure(row.found.mean)),
        number("SD", lambda row: undefined("n < 2") if row.found.sd is None else figure(row.found.sd)),
        *numbers(
            [f"{100 * q:g} %" for q in QUANTILES], lambda row, index: figure(row.found.quantiles[index])
        ),
        rated=True,
    )
