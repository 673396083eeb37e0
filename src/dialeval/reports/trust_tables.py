"""Tables of `trust`: mean ratings, differences, raters, agreement, calibration, biases, stability."""

from collections.abc import Callable
from typing import Any

from dialeval.reports.table import DASH, Shown, Table, TableCell, figure, named, number, p_value, tabulate
from dialeval.studies.trust_findings import JudgeAgreement, MeanEstimate, Trust

_MEANS = {
    "Labels alone": "labels",
    "With scores": "powered",
    "Calibrated": "calibrated",
    "Corrected": "corrected",
    "Naive": "naive",
}


def trust_tables(trust: Trust) -> dict[str, Table]:
    """Return all tables that are not empty."""
    tables = {
        "trust_means": _means_table(trust),
        "trust_differences": tabulate(
            "trust-differences",
            "Is one system better?",
            _of_sources(trust, "differences"),
            _SOURCE,
            named("First", _own("first")),
            named("Second", _own("second")),
            number("Labels alone", _own("labels")),
            number("With scores", _own("powered")),
            number("p (Holm)", lambda row: p_value(row[1].p_holm)),
            named("Paired", lambda row: "yes" if row[1].paired else "no"),
            rated=True,
        ),
        "trust_raters": tabulate(
            "trust-raters",
            "May it replace a rater?",
            [(source.label, source.replacement) for source in trust.sources if source.replacement],
            _SOURCE,
            number("Winning rate", lambda row: _share(row[1].winning_rate, row[1].reason)),
            number("Advantage", lambda row: _share(row[1].advantage, row[1].reason)),
            number("Winning rate of a constant", lambda row: _share(row[1].constant_winning_rate)),
            number("Advantage of a constant", lambda row: _share(row[1].constant_advantage)),
            notes=(
                "Alternative annotator test: it may if its winning rate, and no constant's, is at least .5.",
            ),
            rated=True,
        ),
        "trust_agreement": tabulate(
            "trust-agreement",
            "Agreement of judge and raters",
            [(source.label, source.agreement) for source in trust.sources if source.agreement],
            _SOURCE,
            number("n", _own("n")),
            number("AC1", _own("ac1")),
            number("Alpha", _own("alpha")),
            number("Raw", _own("raw")),
            named("People / judge", lambda row: _uses(row[1])),
            notes=("People / judge: how often each label is used.",),
            rated=True,
        ),
        "trust_calibration": tabulate(
            "trust-calibration",
            "What does a score mean?",
            _of_sources(trust, "calibration"),
            _SOURCE,
            number("Score", lambda row: figure(row[1].x)),
            number("Rating", _own("y")),
            number("n", lambda row: row[1].y.n),
            rated=True,
        ),
        "trust_biases": tabulate(
            "trust-biases",
            "What moves a score besides the rating?",
            [row for row in _of_sources(trust, "biases") if row[1].estimate.defined],
            _SOURCE,
            named("By", _own("kind")),
            named("Of", _own("name")),
            number("Bias", _own("estimate")),
            number("p (Holm)", lambda row: p_value(row[1].p_holm)),
            rated=True,
        ),
        "trust_disagreements": tabulate(
            "trust-disagreements",
            "Where do they differ most?",
            _of_sources(trust, "disagreements"),
            _SOURCE,
            named("Dialogue", _own("dialogue_id")),
            number("Turn", lambda row: DASH if row[1].turn is None else str(row[1].turn)),
            named("System", _own("system")),
            number("Score", lambda row: figure(row[1].score)),
            number("As a rating", lambda row: figure(row[1].predicted)),
            number("Rating", lambda row: figure(row[1].rating)),
            rated=True,
        ),
        "trust_changes": tabulate(
            "trust-changes",
            "Is it stable?",
            trust.changes,
            named("Source", "label", strong=True),
            named("Change", "change"),
            number("n", "n"),
            number("Shift", "shift"),
            number("Spread", lambda row: figure(row.spread)),
            number("Flips", "flips"),
            number("Equal", lambda row: figure(row.equal)),
            number("Largest", lambda row: figure(row.largest)),
        ),
    }
    return {name: table for name, table in tables.items() if table is not None}


def _own(name: str) -> Callable[[tuple[str, Any]], Shown]:
    """Return a function that shows an attribute of the finding in a pair of source and finding."""

    def shown(row: tuple[str, Any]) -> Shown:
        value: Shown = getattr(row[1], name)
        return value

    return shown


_SOURCE = named("Source", lambda row: row[0], strong=True)


def _of_sources(trust: Trust, name: str) -> list[tuple[str, Any]]:
    return [(source.label, finding) for source in trust.sources for finding in getattr(source, name)]


def _means_table(trust: Trust) -> Table | None:
    rows: list[tuple[str, MeanEstimate]] = _of_sources(trust, "estimates")
    heads = [head for head, name in _MEANS.items() if any(getattr(mean, name).defined for _, mean in rows)]
    return tabulate(
        "trust-means",
        f"Mean {trust.dimension} over everything",
        rows,
        _SOURCE,
        named("System", lambda row: row[1].system or "all"),
        number("Labelled", lambda row: f"{row[1].n_labels:,} of {row[1].n_units:,}"),
        *(number(head, _own(_MEANS[head])) for head in heads),
        number("Worth in labels", lambda row: DASH if row[1].worth is None else round(row[1].worth)),
        notes=(
            "With scores: prediction-powered. Calibrated: the same after an isotonic calibration. "
            "Corrected: by sensitivity and specificity. Naive: the mean score as it is. Labels must be a "
            "random sample.",
        ),
        rated=True,
    )


def _uses(both: JudgeAgreement) -> str:
    return ", ".join(f"{label}: {both.people[label]:.0%} / {both.judge[label]:.0%}" for label in both.people)


def _share(value: float | None, reason: Any = None) -> TableCell:
    return TableCell(figure(value), small=str(reason) if value is None and reason else "")
