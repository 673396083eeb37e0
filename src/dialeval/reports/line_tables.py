"""The lines that a study fitted through one source, as a table."""

from dialeval.reports.table import Cell, Column, Table, count, decimal, estimate_cell, name, p_cell, undefined
from dialeval.studies import Study


def line_table(study: Study) -> Table | None:
    """Lines that were fitted to the ratings: what they are, and how sure that is."""
    rows = tuple(
        (
            name(row["name"], strong=True),
            name(row["source"]),
            estimate_cell(row["intercept"]),
            estimate_cell(row["slope"], marked=True),
            p_cell(row["slope"]["p"], row["reason"]),
            undefined(row["reason"]) if row["r_squared"] is None else Cell(decimal(row["r_squared"])),
            count(row["n"]),
        )
        for row in study.lines
    )
    columns = (
        Column("Line", "name"),
        Column("Through", "name"),
        Column("Intercept"),
        Column("Slope"),
        Column("p of the slope"),
        Column("R²"),
        Column("n"),
    )
    note = (
        "Least squares over everything that was rated, intervals by Student's t. The scores under the line's "
        "name come from lines fitted without the conversation they are about."
    )
    return Table("lines", "Lines fitted to the ratings", columns, rows, (note,), rated=True) if rows else None
