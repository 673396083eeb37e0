"""Tables of `trust`: mean ratings, differences, raters, agreement, calibration, biases, stability."""

from typing import Any

from dialeval.reports.table import DASH, OfSource, Table, TableCell, figure, named, number, p_value, tabulate
from dialeval.studies.trust_findings import JudgeAgreement, Trust

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
            named("First", "found.first"),
            named("Second", "found.second"),
            number("Labels alone", "found.labels"),
            number("With scores", "found.powered"),
            number("p (Holm)", lambda row: p_value(row.found.p_holm)),
            named("Paired", lambda row: "yes" if row.found.paired else "no"),
            rated=True,
        ),
        "trust_raters": tabulate(
            "trust-raters",
            "May it replace a rater?",
            [OfSource(source.label, source.replacement) for source in trust.sources if source.replacement],
            _SOURCE,
            number("Winning rate", lambda row: _share(row.found.winning_rate, row.found.reason)),
            number("Advantage", lambda row: _share(row.found.advantage, row.found.reason)),
            number("Winning rate of a constant", lambda row: _share(row.found.constant_winning_rate)),
            number("Advantage of a constant", lambda row: _share(row.found.constant_advantage)),
            notes=(
                "Alternative annotator test: it may if its winning rate, and no constant's, is at least .5.",
            ),
            rated=True,
        ),
        "trust_agreement": tabulate(
            "trust-agreement",
            "Agreement of judge and raters",
            [OfSource(source.label, source.agreement) for source in trust.sources if source.agreement],
            _SOURCE,
            number("n", "found.n"),
            number("AC1", "found.ac1"),
            number("Alpha", "found.alpha"),
            number("Raw", "found.raw"),
            named("People / judge", lambda row: _uses(row.found)),
            notes=("People / judge: how often each label is used.",),
            rated=True,
        ),
        "trust_calibration": tabulate(
            "trust-calibration",
            "What does a score mean?",
            _of_sources(trust, "calibration"),
            _SOURCE,
            number("Score", lambda row: figure(row.found.x)),
            number("Rating", "found.y"),
            number("n", "found.y.n"),
            rated=True,
        ),
        "trust_biases": tabulate(
            "trust-biases",
            "What moves a score besides the rating?",
            [row for row in _of_sources(trust, "biases") if row.found.estimate.defined],
            _SOURCE,
            named("By", "found.kind"),
            named("Of", "found.name"),
            number("Bias", "found.estimate"),
            number("p (Holm)", lambda row: p_value(row.found.p_holm)),
            rated=True,
        ),
        "trust_disagreements": tabulate(
            "trust-disagreements",
            "Where do they differ most?",
            _of_sources(trust, "disagreements"),
            _SOURCE,
            named("Dialogue", "found.dialogue_id"),
            number("Turn", lambda row: DASH if row.found.turn is None else str(row.found.turn)),
            named("System", "found.system"),
            number("Score", lambda row: figure(row.found.score)),
            number("As a rating", lambda row: figure(row.found.predicted)),
            number("Rating", lambda row: figure(row.found.rating)),
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


_SOURCE = named("Source", "source", strong=True)


def _of_sources(trust: Trust, name: str) -> list[OfSource]:
    return [OfSource(source.label, finding) for source in trust.sources for finding in getattr(source, name)]


def _means_table(trust: Trust) -> Table | None:
    rows = _of_sources(trust, "estimates")
    heads = [head for head, name in _MEANS.items() if any(getattr(mean, name).defined for _, mean in rows)]
    return tabulate(
        "trust-means",
        f"Mean {trust.dimension} over everything",
        rows,
        _SOURCE,
        named("System", lambda row: row.found.system or "all"),
        number("Labelled", lambda row: f"{row.found.n_labels:,} of {row.found.n_units:,}"),
        *(number(head, f"found.{_MEANS[head]}") for head in heads),
        number("Worth in labels", lambda row: DASH if row.found.worth is None else round(row.found.worth)),
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
