"""Scores, studies and figures of task-oriented systems as tables on the terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dialeval.cli import output
from dialeval.errors import UsageError

if TYPE_CHECKING:
    from dialeval.jobs.scoring import Summary
    from dialeval.jobs.task_figures import TaskTable
    from dialeval.reports.table import Table
    from dialeval.scores import Signature
    from dialeval.studies import Comparison, Study

METHODS = ("pearson", "spearman", "kendall")
_UNITS = {
    "quality": "0 is the mean of the rated sets, 1 a rating one standard deviation higher; percentile is the "
    "share of rated ones of the kind that score lower, in %; standing is how pleased the user was before",
    "rules": "share of turns, or of dialogues, in which the rule fires; lower is better",
    "faults": "for turns mean probabilities, for dialogues faults in a hundred replies; faultless is the "
    "probability of no fault; lower is better but for faultless",
}
_TASK_FIGURES = ("Inform", "Success", "BLEU", "Combined")


def show_summary(summary: "Summary") -> None:
    """Print the means of a scored stream."""
    header = ("source", "dimension", "level", "system", "mean", "n", "n_unscored")
    title = f"{output.counted(summary.dialogues, 'dialogue')}, {output.counted(summary.turns, 'turn')}"
    rows = [tuple(row[name] for name in header) for row in summary.rows()]
    output.print_table(title, [name.removeprefix("n_") for name in header], rows)


def show_study(study: "Study", against: str | None = None, *, classes: bool = False) -> None:
    """Print what a study found; differences to one source and classes if asked for."""
    show_correlations(study)
    if against:
        show_against(study, against)
    if classes:
        show_classes(study)
    rows: list[tuple[Any, ...]] = [
        (r.system, r.source, r.dimension, output.interval(r.mean), r.n, r.n_unscored) for r in study.systems
    ]
    if rows:
        header = ("system", "source", "dimension", "mean", "n", "unscored")
        output.print_table("Means", header, rows, further=True)
    show_report_tables(study, "agreement", "lines")
    show_subsets(study)
    show_report_tables(study, "languages")
    output.say(*study.notes)
    say_signatures(study.signatures)


def show_report_tables(study: "Study", *names: str) -> None:
    """Print those tables of a report that a study has something for."""
    from dialeval.reports.contents import study_tables

    tables = study_tables(study)
    print_report_tables(tables[name] for name in names if name in tables)


def print_report_tables(tables: "Iterable[Table]") -> None:
    """Print tables of a report, what stands small in a cell after the rest."""
    for table in tables:
        heads = [column.head for column in table.columns]
        rows = [[f"{cell.text}{cell.mark} {cell.small}".strip() for cell in row] for row in table.rows]
        output.print_table(table.title, heads, rows, further=True)


def show_correlations(study: "Study", published: list[dict[str, Any]] | None = None) -> None:
    """Print correlations with the gold, the human ceiling and published figures in one table."""
    from dialeval.scores.signature import better

    if study.gold is None:
        return
    ways = [better(study.signatures, r.source, r.dimension) for r in study.correlations]
    rows = [
        (
            r.label + (" (lower is better)" if way == "lower" else ""),
            study.group(r.label),
            r.n,
            r.n_unscored,
            *(output.interval(r.of(m)) for m in METHODS),
        )
        for r, way in zip(study.correlations, ways, strict=True)
    ]
    if study.ceiling:
        cells = [output.interval(study.ceiling[m]) for m in METHODS]
        rows.append(("(one rater)", None, study.ceiling["pearson"].n, None, *cells))
    for row in published or ():
        cells = [output.short(row[m]) if m in row else "-" for m in METHODS]
        rows.append((f"{row['source']} (published)", None, row.get("n"), None, *cells))
    gold = study.gold
    title = f"Correlation with {gold.source} {gold.dimension} at {study.level} level"
    output.print_table(title, ("source", "group", "n", "unscored", "Pearson", "Spearman", "Kendall"), rows)
    if study.illustrative:
        output.say("The ratings are illustrative: made up, they measure nothing.")
    papers = sorted({row["paper"] for row in published or ()})
    if papers:
        output.say(f"published figures are for the whole set: {'; '.join(papers)}")


def show_against(study: "Study", source: str) -> None:
    """Print by how much the correlation of each source is above that of one of them."""
    labels = [row.label for row in study.correlations]
    if source not in labels:
        raise UsageError(f"no source {source!r} to compare with; available: {', '.join(labels)}")
    by_label: dict[str, tuple[str, int, float | None]] = {}
    for row in study.differences:
        if source in (row.first, row.second):
            first = row.first == source
            shown = output.interval(row.difference.negated() if first else row.difference)
            by_label[row.second if first else row.first] = shown, row.n, row.permutation_holm
    rows = [(label, *by_label[label]) for label in labels if label in by_label]
    title = f"{study.method.capitalize()} above that of {source}, on what both scored"
    output.print_table(title, ("source", "difference", "n", "p (Holm)"), rows, further=True)


def show_comparison(comparison: "Comparison") -> None:
    """Print the verdicts on new versions, and the turns to read."""
    from dialeval.studies.comparison import HEADER

    output.print_lines([comparison.summary, ""])
    output.print_table("Versions", HEADER, comparison.rows())
    if comparison.not_found:
        output.print_lines(["", f"In no version: {', '.join(comparison.not_found)}."])
    turns = [
        (t.system, t.dialogue_id, t.reply.number, t.reasons[0], ", ".join(t.faults), t.reply.text[:80])
        for t in comparison.turns
    ]
    if turns:
        header = ("version", "dialogue", "turn", "why", "faults", "reply")
        output.print_table("Turns to read", header, turns, further=True)
    output.say(comparison.legend)
    for version in comparison.versions[1:]:
        if version.partners:
            output.say(f"{version.name}: partners found: {version.partners}")
    for column in comparison.unscored:
        if column.verdict == "worse":
            shares = f"{column.old.value:.1%} → {column.new.value:.1%}"
            output.say(f"{column.version}: more of {column.short} is unscored: {shares}")
    say_signatures(comparison.signatures)


def show_subsets(study: "Study") -> None:
    """Print the correlations inside each system, or with each dimension."""
    if not study.subsets:
        return
    by = study.subsets[0].by
    rows = [
        (subset.name, row.label, row.n, *(output.interval(row.of(m)) for m in METHODS))
        for subset in study.subsets
        for row in subset.correlations
    ]
    header = (by, "source", "n", "Pearson", "Spearman", "Kendall")
    output.print_table(f"By {by}", header, rows, further=True)


def show_classes(study: "Study") -> None:
    """Print the classes of the gold, AUC and best threshold of each source, and its scores in each class."""
    labels = study.labels
    if not labels.classes:
        output.say("no classes: nothing was rated")
        return
    show_report_tables(study, "labels", "auc", "thresholds", "classes")
    if labels.rule == "halves":
        output.say(f"many distinct ratings: split at the median, {labels.median:.4g}")
    if labels.n_unlabelled:
        output.say(f"rated units without a majority (in no class): {labels.n_unlabelled}")
    if labels.reason:
        output.say(f"no AUC and no threshold: {labels.reason}")


def say_units(signatures: Mapping[str, "Signature"]) -> None:
    """Print what the means of metrics with several units are, on standard error."""
    for source, signature in signatures.items():
        if unit := _UNITS.get(signature.name.partition(".v")[0]):
            output.say(f"{source}: {unit}")


def say_signatures(signatures: Mapping[str, object]) -> None:
    """Print how each number was made, on standard error."""
    groups: dict[str, list[str]] = {}
    for source, signature in signatures.items():
        if not source.startswith("human"):
            groups.setdefault(str(signature), []).append(source)
    for text, sources in groups.items():
        output.say(f"{', '.join(sources)}: {text}")


def show_task_table(metrics: Sequence[str], predictions: Sequence[str], json: bool) -> None:
    """Print Inform, Success, BLEU and Combined of every system, best on top, beside published figures."""
    from dialeval.jobs.task_figures import task_table

    if len(metrics) > 1:
        raise UsageError("benchmark multiwoz: one metric, multiwoz, with its fields: -m multiwoz:states=gold")
    with output.progress("dialogues judged") as watch:
        table = task_table(metrics[0] if metrics else "multiwoz", predictions, watch)
    if json:
        output.print_json(table.to_dict())
        return
    _show_task_systems(table)
    _show_domains(table)
    _say_remarks(table)


def _show_task_systems(table: "TaskTable") -> None:
    beside = _TASK_FIGURES if any(row.published for row in table.systems) else ()
    header = ("system", "setting", "n", "unscored", "missing", *_TASK_FIGURES)
    rows: list[tuple[Any, ...]] = []
    for row in table.systems:
        values = (row.inform.value, row.success.value, row.bleu, row.combined)
        values += tuple(row.published.get(name.lower()) for name in beside)
        cells = ("-" if value is None else f"{value:.1f}" for value in values)
        rows.append((row.system, row.published.get("table"), row.n, row.n_unscored, row.n_missing, *cells))
    output.print_table("Systems", (*header, *(f"{name} (published)" for name in beside)), rows)


def _show_domains(table: "TaskTable") -> None:
    """Print Inform / Success of each domain."""
    names = sorted({name for row in table.systems for name in row.domains})
    rows = [
        [row.system]
        + [
            f"{domain['inform']:.1f} / {domain['success']:.1f}" if (domain := row.domains.get(name)) else "-"
            for name in names
        ]
        for row in table.systems
    ]
    if names:
        output.print_table("Inform / Success by domain", ("system", *names), rows, further=True)


def _say_remarks(table: "TaskTable") -> None:
    from dialeval.jobs.task_figures import GOLD

    for row in table.systems:
        for remark in row.remarks:
            output.say(f"{row.system}: {remark}")
    if any(row.system == GOLD for row in table.systems):
        output.say(f"{GOLD}: the references with gold states, the ceiling of Inform and Success")
    if any(row.published for row in table.systems):
        output.say("published BLEU is against other references (MultiWOZ 2.2), so it and Combined differ")
    for row in table.systems:
        if row.published_sum is not None:
            output.say(
                f"{row.system}: the published Combined is not (Inform + Success) / 2 + BLEU of the published "
                f"figures, which is {row.published_sum:.1f}"
            )
    if table.references:
        output.say(f"BLEU: {table.references}, lower case, placeholders by one name; sacrebleu {table.bleu}")
    output.say(f"multiwoz: {table.signature}")
