"""Tables of `trust`: the true means, differences, the rater test, biases, stability."""

from typing import Any

from dialeval.reports.table import Table, TableCell, figure, named, number, p_value, tabulate
from dialeval.studies.trust_findings import Trust


def trust_tables(found: Trust) -> dict[str, Table]:
    """Make every table that there is something for."""
    means = [(one.label, mean) for one in found.sources for mean in one.estimates]
    gaps = [(one.label, gap) for one in found.sources for gap in one.differences]
    tests = [(one.label, one.replacement) for one in found.sources if one.replacement]
    biases = [(one.label, bias) for one in found.sources for bias in one.biases if bias.estimate.defined]
    source = named("Source", lambda row: row[0], strong=True)
    made = {
        "trust_means": tabulate(
            "trust-means",
            f"Mean {found.dimension} over everything",
            means,
            source,
            named("System", lambda row: row[1].system or "all"),
            number("Labelled", lambda row: TableCell(f"{row[1].n_labels:,} of {row[1].n_units:,}")),
            number("Labels alone", lambda row: row[1].labels),
            number("With scores", lambda row: row[1].powered),
            number("Calibrated", lambda row: row[1].calibrated),
            number("Naive", lambda row: row[1].naive),
            number("Worth in labels", lambda row: TableCell(figure(row[1].worth))),
            notes=(
                "With scores: prediction-powered. Calibrated: the same after an isotonic calibration. "
                "Naive: the mean score as it is. Labels must be a random sample.",
            ),
            rated=True,
        ),
        "trust_differences": tabulate(
            "trust-differences",
            "Is one system better?",
            gaps,
            source,
            named("First", lambda row: row[1].first),
            named("Second", lambda row: row[1].second),
            number("Labels alone", lambda row: row[1].labels),
            number("With scores", lambda row: row[1].powered),
            number("p (Holm)", lambda row: TableCell(p_value(row[1].p_holm))),
            rated=True,
        ),
        "trust_raters": tabulate(
            "trust-raters",
            "May it replace a rater?",
            tests,
            source,
            number("Winning rate", lambda row: _share(row[1].winning_rate, row[1].reason)),
            number("Advantage", lambda row: _share(row[1].advantage, row[1].reason)),
            number("Winning rate of a constant", lambda row: _share(row[1].constant_winning_rate)),
            number("Advantage of a constant", lambda row: _share(row[1].constant_advantage)),
            notes=(
                "Alternative annotator test: from a winning rate of .5 on it may, if a constant may not.",
            ),
            rated=True,
        ),
        "trust_biases": tabulate(
            "trust-biases",
            "What moves a score beside the rating?",
            biases,
            source,
            named("By", lambda row: row[1].kind),
            named("Of", lambda row: row[1].name),
            number("Bias", lambda row: row[1].estimate),
            number("p (Holm)", lambda row: TableCell(p_value(row[1].p_holm))),
            rated=True,
        ),
        "trust_changes": tabulate(
            "trust-changes",
            "Is it stable?",
            found.changes,
            named("Source", "label", strong=True),
            named("Change", "change"),
            number("n", "n"),
            number("Shift", "shift"),
            number("Flips", "flips"),
            number("Largest", lambda one: TableCell(figure(one.largest))),
        ),
    }
    return {name: table for name, table in made.items() if table is not None}


def _share(value: float | None, reason: Any = None) -> TableCell:
    return TableCell(figure(value), small=str(reason) if value is None and reason else "")
