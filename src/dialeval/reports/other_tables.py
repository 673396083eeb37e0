"""Tables about systems, people, single cases, and how every number was made."""

from typing import Any

from dialeval.reports.correlation_tables import gold_name, percent
from dialeval.reports.table import (
    MARKS_EXPLAINED,
    Cell,
    Column,
    Table,
    axis_over,
    bar_cell,
    count,
    decimal,
    ends,
    estimate_cell,
    figure,
    name,
    p_cell,
    undefined,
)
from dialeval.scores import is_human
from dialeval.scores.signature import better
from dialeval.studies import Study

_ALPHAS = ("nominal", "ordinal", "interval")


def column_names(study: Study) -> dict[tuple[str, str], str]:
    """Name the columns of the systems table as shortly as is clear."""
    columns = list(dict.fromkeys((row["source"], row["dimension"]) for row in study.systems))
    sources = [source for source, _ in columns]
    return {
        column: column[0]
        if sources.count(column[0]) == 1 and not is_human(column[0])
        else f"{column[0]} / {column[1]}"
        for column in columns
    }


def ordered_columns(study: Study) -> list[tuple[str, str]]:
    """Put the gold first, then other ratings, then the sources."""
    gold = (study.gold["source"], study.gold["dimension"]) if study.gold else None
    return sorted(column_names(study), key=lambda column: (column != gold, not is_human(column[0])))


def ranking_table(study: Study, column: tuple[str, str]) -> Table:
    """Systems by their mean in one column, best on top as far as more is better."""
    rows = [row for row in study.systems if (row["source"], row["dimension"]) == column]
    lower = better(study.signatures, *column) == "lower"
    sign = 1 if lower else -1
    rows.sort(key=lambda row: (row["mean"]["value"] is None, sign * (row["mean"]["value"] or 0)))
    label = column_names(study)[column]
    axis = axis_over(ends([row["mean"] for row in rows]))
    size = 0.0 if axis is None else max(abs(axis.low), abs(axis.high))
    return Table(
        "ranking",
        label,
        (
            Column("System", "name"),
            Column("", "bar"),
            Column("Mean"),
        ),
        tuple(
            (
                Cell(row["system"], small=numbers_of(row), strong=True),
                bar_cell(row["mean"]),
                estimate_cell(row["mean"], lambda value: figure(value, size)),
            )
            for row in rows
        ),
        ("Lower is better.",) if lower else (),
        axis,
        rated=is_human(column[0]),
    )


def means_table(study: Study) -> Table | None:
    """Means per system and dimension; what there are fewer of goes into the columns."""
    if not study.systems:
        return None
    columns, names = ordered_columns(study), column_names(study)
    systems = list(dict.fromkeys(row["system"] for row in study.systems))
    found = {(row["system"], row["source"], row["dimension"]): row for row in study.systems}
    across = len(columns) <= len(systems)
    cells = {(system, column): _mean_cell(found[system, *column]) for system in systems for column in columns}
    if across:
        heads = [names[column] for column in columns]
        rows = [(name(s, strong=True), *(cells[s, c] for c in columns)) for s in systems]
    else:
        heads = systems
        rows = [(name(names[c], strong=True), *(cells[s, c] for s in systems)) for c in columns]
    return Table(
        "means",
        "Means per system",
        (Column("System" if across else "Source", "name"), *map(Column, heads)),
        tuple(rows),
        (f"Brackets: {percent(study)} interval, bootstrap over whole dialogues.",),
        rated=any(is_human(source) for source, _ in columns),
    )


def _mean_cell(row: dict[str, Any]) -> Cell:
    cell = estimate_cell(row["mean"], figure)
    return Cell(cell.text, small=f"{cell.small}\n{numbers_of(row)}".strip())


def numbers_of(row: dict[str, Any]) -> str:
    """Write how many were scored, and how many not."""
    return f"n {row['n']:,}, unscored {row['n_unscored']:,}"


def comparison_table(study: Study, gold: bool | None = None) -> Table | None:
    """Every pair of systems on the gold (True), on everything else (False), or on all (None)."""
    of_gold = (study.gold["source"], study.gold["dimension"]) if study.gold else None
    rows = [
        row
        for row in study.comparisons
        if gold is None or ((row["source"], row["dimension"]) == of_gold) == gold
    ]
    if not rows:
        return None
    numbers = {(row["system"], row["source"], row["dimension"]): row for row in study.systems}
    names = column_names(study)
    return Table(
        "comparisons",
        "Comparisons of systems",
        (
            Column("Source", "name"),
            Column("First", "name"),
            Column("Second", "name"),
            *map(Column, ("Difference", "p", "p (Holm)", "n", "Unscored")),
            Column("Test", "name"),
        ),
        tuple(_comparison_row(row, numbers, names) for row in rows),
        (
            "Difference: mean of the first minus mean of the second. Paired: both systems answered the same "
            "dialogues or contexts (approximate randomisation); unpaired: permutation of means. "
            f"Holm: corrected within each source. {MARKS_EXPLAINED}.",
        ),
        rated=any(is_human(row["source"]) for row in rows),
    )


def _comparison_row(
    row: dict[str, Any], numbers: dict[tuple[str, str, str], Any], names: dict[tuple[str, str], str]
) -> tuple[Cell, ...]:
    column = (row["source"], row["dimension"])
    pair = [numbers.get((row[side], *column)) for side in ("first", "second")]
    unscored = " / ".join("0" if one is None else f"{one['n_unscored']:,}" for one in pair)
    reason = row["difference"]["reason"]
    return (
        name(names.get(column, " / ".join(column))),
        name(row["first"]),
        name(row["second"]),
        estimate_cell(row["difference"], figure),
        p_cell(row["p"], reason),
        p_cell(row["p_holm"], reason),
        count(row["difference"]["n"]),
        Cell(unscored),
        name("paired" if row["paired"] else "unpaired"),
    )


def agreement_table(study: Study) -> Table | None:
    """How far the raters agree, for every level and dimension."""
    if not study.agreement:
        return None
    rows = []
    for row in study.agreement:
        dominant = "" if row["dominant"] is None else f"without {row['dominant']:g}"
        excluded = estimate_cell(row["fleiss_without_dominant"])
        rows.append(
            (
                Cell(row["dimension"], small=f"{row['level']} level", strong=True),
                *(estimate_cell(row["alpha"][one]) for one in _ALPHAS),
                estimate_cell(row["fleiss"]),
                Cell(excluded.text, small=f"{dominant} {excluded.small}".strip()),
                estimate_cell(row["cohen"]),
                estimate_cell(row["raw"]),
                count(row["raters"]),
                count(row["n_units"]),
                count(row["n_ratings"]),
            )
        )
    heads = (
        *(f"\N{GREEK SMALL LETTER ALPHA} {one}" for one in _ALPHAS),
        "Fleiss κ",
        "Fleiss κ, one label out",
        "Cohen κ",
        "Raw",
        "Raters",
        "Units",
        "Ratings",
    )
    return Table(
        "agreement",
        "Agreement between raters",
        (Column("Dimension", "name"), *map(Column, heads)),
        tuple(rows),
        (
            "1 is perfect, 0 what chance would give; brackets: 95 % interval, bootstrap over dialogues. "
            "\N{GREEK SMALL LETTER ALPHA}: Krippendorff's, for three levels of measurement. One label out: "
            "without the commonest label. Cohen κ: mean over pairs of raters. Raw: share of pairs of ratings "
            "that agree.",
        ),
        rated=True,
    )


def worst_table(study: Study) -> Table | None:
    """The units people liked least, and those where a source is most wrong."""
    if not study.worst:
        return None
    labels = list(study.worst[0]["values"])
    rows = tuple(
        (
            name(row["dialogue_id"], strong=True),
            undefined("whole") if row["turn"] is None else Cell(str(row["turn"])),
            name(row["system"]),
            name(row["why"]),
            Cell(figure(row["gold"])),
            *(Cell(figure(row["values"].get(label))) for label in labels),
        )
        for row in study.worst
    )
    return Table(
        "worst",
        "Units to look at",
        (
            Column("Dialogue", "name"),
            Column("Turn"),
            Column("System", "name"),
            Column("Why", "name"),
            Column(gold_name(study)),
            *map(Column, labels),
        ),
        rows,
        ("Too kind, too strict: where a source is furthest from the gold, both standardised.",),
        rated=True,
    )


def signature_table(signatures: dict[str, str]) -> Table | None:
    """How every source was made."""
    rows = tuple((name(source, strong=True), name(text)) for source, text in signatures.items())
    columns = (Column("Source", "name"), Column("Signature", "code"))
    return Table("signatures", "Signatures", columns, rows) if rows else None


def schema_table(study: Study) -> Table | None:
    """What kind of evaluation it is, by five decisions."""
    rows = tuple((name(key), name(value)) for key, value in study.schema.items())
    columns = (Column("Decision", "name"), Column("Here", "name"))
    return Table("schema", "Kind of evaluation", columns, rows) if rows else None


def settings_table(study: Study) -> Table:
    """What decided what the study computed."""
    rows = []
    for key, value in study.settings.items():
        if value is None or value in ((), []):
            continue
        text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        rows.append((name(key), name(text)))
    return Table("settings", "Settings", (Column("Setting", "name"), Column("Value", "code")), tuple(rows))


def label_shares(row: dict[str, Any]) -> list[tuple[str, int, str]]:
    """How often each label was given: label, count, share in per cent."""
    total = sum(row["labels"].values())
    return [(label, n, decimal(100 * n / total, 1)) for label, n in row["labels"].items()] if total else []
