"""Tables and figures about classes of the gold: who is in each, how sources score them, where to draw a line.

A study that was saved before there were lines has no `labels` and no `threshold`; it is shown without them.
"""

from typing import Any

from markupsafe import Markup

from dialeval.reports import figures
from dialeval.reports.correlation_tables import gold_name, percent
from dialeval.reports.table import (
    DASH,
    Cell,
    Column,
    Table,
    count,
    decimal,
    estimate_cell,
    figure,
    name,
    undefined,
)
from dialeval.statistics import QUANTILES
from dialeval.studies import Study


def class_name(study: Study, label: float) -> str:
    """Name a class: its label, or which half of the ratings it is."""
    members = study.labels.get("classes", ())
    return next((str(one["name"]) for one in members if one["label"] == label), f"{label:g}")


def _side(study: Study, cut: float) -> str:
    """Name the classes from a cut on."""
    return "upper half" if study.labels.get("rule") == "halves" else f"≥ {cut:g}"


def label_table(study: Study) -> Table | None:
    """How many units each class has."""
    members = study.labels.get("classes")
    if not members:
        return None
    rows = tuple(
        (
            name(one["name"], strong=True),
            count(one["n"]),
            estimate_cell(one["share"], lambda value: f"{100 * value:.1f}"),
            name(None if one["upper"] is None else "upper" if one["upper"] else "lower"),
        )
        for one in members
    )
    return Table(
        "labels",
        f"Classes of {gold_name(study)}",
        (Column("Class", "name"), Column("n"), Column("Share in %"), Column("Side", "name")),
        rows,
        _rule(study),
        rated=True,
    )


def _rule(study: Study) -> tuple[str, ...]:
    """Say what a class is, and where upper begins."""
    labels = study.labels
    if labels["rule"] == "halves":
        what = f"The ratings take many values, so they are split at their median, {figure(labels['median'])}."
    else:
        what = "A class is a value that the raters gave; of several raters the majority decides."
        what += " Upper: at or above the middle of the range." if labels["cut"] is not None else ""
    left = f" {labels['n_unlabelled']:,} rated units have no majority." if labels["n_unlabelled"] else ""
    return (f"{what}{left} Brackets: {percent(study)} interval, bootstrap over dialogues.",)


def auc_table(study: Study) -> Table | None:
    """How well each source tells low labels from high ones."""
    if not study.classes:
        return None
    cuts = [cut["at"] for cut in study.classes[0]["cuts"]]
    rows = []
    for row in study.classes:
        scored = sum(one["n"] for one in row["distributions"])
        rows.append(
            (
                name(row["label"], strong=True),
                *(estimate_cell(cut["auc"]) for cut in row["cuts"]),
                count(scored),
                count(study.gold["n"] - scored if study.gold else 0),
            )
        )
    return Table(
        "auc",
        f"AUC: how well a score tells labels of {gold_name(study)} apart",
        (Column("Source", "name"), *(Column(_side(study, cut)) for cut in cuts), *map(Column, _COUNTS)),
        tuple(rows),
        (
            "The chance that a unit at or above the cut scores higher than one below it; 0.5 is guessing. "
            "Of a source for which lower is better it should be below.",
        ),
        rated=True,
    )


_COUNTS = ("n", "Unscored")


def threshold_table(study: Study) -> Table | None:
    """The best line between upper and lower, and its accuracy on dialogues that did not choose it."""
    lines = [(row["label"], row["threshold"]) for row in study.classes if "threshold" in row]
    if not lines:
        return None
    side = _side(study, study.labels["cut"])
    rows = tuple(
        (
            name(label, strong=True),
            _line_cell(line),
            estimate_cell(line["accuracy"]),
            Cell(decimal(line["fitted"])),
            Cell(_range(line)),
            count(line["accuracy"]["n"]),
        )
        for label, line in lines
    )
    heads = ("Threshold", "Balanced accuracy, held out", "On all", "Range of thresholds", "n")
    return Table(
        "thresholds",
        f"Where to draw the line: {gold_name(study)}, {side}",
        (Column("Source", "name"), *map(Column, heads)),
        rows,
        (
            "Threshold: the one with the best balanced accuracy on all units. Held out: thresholds chosen on "
            "some dialogues and measured on the others, ten parts; 0.5 is guessing. On all: the accuracy of "
            "the threshold on the very units that chose it, for comparison. Range: over the parts.",
        ),
        rated=True,
    )


def _line_cell(line: dict[str, Any]) -> Cell:
    if line["value"] is None:
        return undefined(line["accuracy"]["reason"])
    return Cell(f"{'≤' if line['upper'] == 'below' else '≥'} {figure(line['value'])}")


def _range(line: dict[str, Any]) -> str:
    if line["lowest"] is None:
        return DASH
    return f"{figure(line['lowest'])} to {figure(line['highest'])}"


def class_table(study: Study) -> Table | None:
    """How the units of each label score."""
    rows = [
        (
            name(row["label"]),
            Cell(class_name(study, one["label"])),
            count(one["n"]),
            Cell(figure(one["mean"])),
            undefined("n < 2") if one["sd"] is None else Cell(figure(one["sd"])),
            *(Cell(figure(quantile)) for quantile in one["quantiles"]),
        )
        for row in study.classes
        for one in row["distributions"]
    ]
    heads = ("Label", "n", "Mean", "SD", *(f"{100 * q:g} %" for q in QUANTILES))
    title = f"Scores of the units of each label of {gold_name(study)}"
    return (
        Table("classes", title, (Column("Source", "name"), *map(Column, heads)), tuple(rows), rated=True)
        if rows
        else None
    )


def class_pictures(study: Study, most: int) -> list[tuple[str, Markup, str]]:
    """Draw each source's scores per class with its line: label, figure, caption."""
    made = []
    for place, row in enumerate(study.classes[:most]):
        if not row["distributions"]:
            continue
        line = row.get("threshold") or {"value": None}
        svg = figures.boxes(
            row["distributions"],
            f"b{place}-",
            f"Scores of {row['label']} per label{_told(line)}",
            [class_name(study, one["label"]) for one in row["distributions"]],
            mark=line["value"],
        )
        numbers = ", ".join(f"{one['n']:,}" for one in row["distributions"])
        made.append(
            (row["label"], svg, f"Median, quartiles, 5 % and 95 %{_told(line, 'dashed: ')}. n = {numbers}.")
        )
    return made


def _told(line: dict[str, Any], dash: str = "") -> str:
    if line["value"] is None:
        return ""
    accuracy = line["accuracy"]["value"]
    held_out = "" if accuracy is None else f", balanced accuracy {decimal(accuracy, 2)} on other dialogues"
    value = figure(line["value"]).replace("-", "\N{MINUS SIGN}")
    return f"; {dash}threshold {value}{held_out}"
