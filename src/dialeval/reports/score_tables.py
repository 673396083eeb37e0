"""Tables straight from the scores: what was scored, by whom, and what was said about it."""

import pyarrow as pa
import pyarrow.compute as pc

from dialeval.reports.table import Cell, Column, Table, count, figure, name, undefined
from dialeval.scores import Scores, is_human

_MOST_ROWS = 200


def coverage_table(scores: Scores) -> Table | None:
    """Every source and rater: dimension, level, mean, n, unscored."""
    table = scores.table
    table = table.append_column("level", pc.if_else(pc.is_null(table["turn"]), "dialogue", "turn"))
    groups = table.group_by(["source", "dimension", "level"], use_threads=False).aggregate(
        [("value", "mean"), ("value", "min"), ("value", "max"), ("value", "count"), ([], "count_all")]
    )
    rows = tuple(
        (
            name(row["source"], strong=True),
            name(row["dimension"]),
            name(row["level"]),
            *(
                undefined("nothing scored") if row[key] is None else Cell(figure(row[key]))
                for key in ("value_mean", "value_min", "value_max")
            ),
            count(row["value_count"]),
            count(row["count_all"] - row["value_count"]),
        )
        for row in groups.slice(0, _MOST_ROWS).to_pylist()
    )
    more = groups.num_rows - len(rows)
    heads = ("Mean", "Lowest", "Highest", "n", "Unscored")
    return (
        Table(
            "coverage",
            "Everything that was scored or rated",
            (
                Column("Source", "name"),
                Column("Dimension", "name"),
                Column("Level", "name"),
                *map(Column, heads),
            ),
            rows,
            (f"{more:,} more rows are not shown.",) if more else (),
            rated=any(is_human(source) for source in scores.sources),
        )
        if rows
        else None
    )


def note_table(scores: Scores) -> Table | None:
    """Why rows are unscored, and warnings on those that are not; the commonest first."""
    table = scores.table.filter(pc.is_valid(scores.table["note"]))
    table = table.append_column("unscored", pc.cast(pc.is_null(table["value"]), pa.int64()))
    groups = table.group_by(["source", "dimension", "note"], use_threads=False).aggregate(
        [("unscored", "sum"), ([], "count_all")]
    )
    found = sorted(groups.to_pylist(), key=lambda row: -row["count_all"])
    rows = tuple(
        (
            name(row["source"], strong=True),
            name(row["dimension"]),
            name(row["note"]),
            count(row["unscored_sum"]),
            count(row["count_all"] - row["unscored_sum"]),
        )
        for row in found[:_MOST_ROWS]
    )
    more = len(found) - len(rows)
    columns = (Column("Source", "name"), Column("Dimension", "name"), Column("Note", "name"))
    return (
        Table(
            "notes",
            "Notes on single scores",
            (*columns, Column("Unscored with it"), Column("Scored with it")),
            rows,
            (f"{more:,} more notes are not shown.",) if more else (),
        )
        if rows
        else None
    )
