"""Tables about classes of the gold: sizes, AUC, thresholds, and scores per class."""

from dialeval.reports.source_tables import percent
from dialeval.reports.table import (
    DASH,
    Table,
    TableCell,
    decimal,
    estimate_cell,
    figure,
    named,
    number,
    numbers,
    tabulate,
    undefined,
)
from dialeval.statistics import QUANTILES
from dialeval.studies import Study
from dialeval.studies.findings import ClassThreshold


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
        [(row.label, spread) for row in study.classes for spread in row.distributions],
        named("Source", lambda row: row[0]),
        number("Label", lambda row: row[1].name),
        number("n", lambda row: row[1].n),
        number("Mean", lambda row: figure(row[1].mean)),
        number("SD", lambda row: undefined("n < 2") if row[1].sd is None else figure(row[1].sd)),
        *numbers([f"{100 * q:g} %" for q in QUANTILES], lambda row, index: figure(row[1].quantiles[index])),
        rated=True,
    )
