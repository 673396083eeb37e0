"""Scores and studies as tables on the terminal."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dialeval.cli import output

if TYPE_CHECKING:
    from dialeval.jobs.scoring import Summary
    from dialeval.studies import Study


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
    if study.systems:
        rows = [
            (r["system"], r["source"], r["dimension"], output.interval(r["mean"]), r["n"], r["n_unscored"])
            for r in study.systems
        ]
        output.print_table(
            "Means", ("system", "source", "dimension", "mean", "n", "unscored"), rows, further=True
        )
    if study.agreement:
        rows = [
            (
                r["level"],
                r["dimension"],
                r["raters"],
                r["n_units"],
                output.interval(r["alpha"]["ordinal"]),
                output.interval(r["fleiss"]),
            )
            for r in study.agreement
        ]
        output.print_table(
            "Agreement",
            ("level", "dimension", "raters", "n", "alpha (ordinal)", "Fleiss' kappa"),
            rows,
            further=True,
        )
    if study.lines:
        rows = [
            (
                r["name"],
                r["source"],
                *(output.interval(r[part]) for part in ("intercept", "slope")),
                r["slope"]["p"],
                r["r_squared"],
                r["n"],
            )
            for r in study.lines
        ]
        header = ("line", "through", "intercept", "slope", "p of the slope", "R squared", "n")
        output.print_table("Lines, fitted to all ratings", header, rows, further=True)
    show_subsets(study)
    for note in study.notes:
        output.say(note)
    say_signatures(study.signatures)


def show_correlations(study: "Study", published: list[dict[str, Any]] | None = None) -> None:
    """Print correlations with the gold, the human ceiling and published figures in one table."""
    from dialeval.scores.signature import better

    if study.gold is None:
        return
    ways = [better(study.signatures, r["source"], r["dimension"]) for r in study.correlations]
    rows = [
        (
            r["label"] + (" (lower is better)" if way == "lower" else ""),
            study.clusters.get(r["label"]),
            r["n"],
            r["n_unscored"],
            *(output.interval(r[m]) for m in ("pearson", "spearman", "kendall")),
        )
        for r, way in zip(study.correlations, ways, strict=True)
    ]
    ceiling = {row["method"]: row["ceiling"] for row in study.ceiling}
    if ceiling:
        cells = (output.interval(ceiling[m]) for m in ("pearson", "spearman", "kendall"))
        rows.append(("(one rater)", None, ceiling["pearson"]["n"], None, *cells))
    for row in published or ():
        cells = (output.short(row[m]) if m in row else "-" for m in ("pearson", "spearman", "kendall"))
        rows.append((f"{row['source']} (published)", None, row.get("n"), None, *cells))
    gold = study.gold
    title = f"Correlation with {gold['source']} {gold['dimension']} at {study.settings['level']} level"
    output.print_table(title, ("source", "cluster", "n", "unscored", "Pearson", "Spearman", "Kendall"), rows)
    if study.illustrative:
        output.say("The ratings are illustrative: made up, they measure nothing.")
    papers = sorted({row["paper"] for row in published or ()})
    if papers:
        output.say(f"published figures are for the whole set: {'; '.join(papers)}")


def show_against(study: "Study", source: str) -> None:
    """Print by how much the correlation of each source is above that of one of them."""
    from dialeval.errors import UsageError

    labels = [row["label"] for row in study.correlations]
    if source not in labels:
        raise UsageError(f"no source {source!r} to hold the others against; there are: {', '.join(labels)}")
    found: dict[str, tuple[str, int, float | None]] = {}
    for row in study.differences:
        gap = row["difference"]
        if source in (row["first"], row["second"]):
            other = row["second"] if row["first"] == source else row["first"]
            shown = _turned(gap) if row["first"] == source else gap
            found[other] = output.interval(shown), row["n"], row["permutation"].get("p_holm")
    rows = [(label, *found[label]) for label in labels if label in found]
    title = f"{study.settings['method'].capitalize()} above that of {source}, on what both scored"
    output.print_table(title, ("source", "difference", "n", "p (Holm)"), rows, further=True)


def show_subsets(study: "Study") -> None:
    """Print the correlations inside each system, or with each dimension."""
    if not study.subsets:
        return
    by = study.subsets[0]["by"]
    rows = [
        (
            subset["subset"],
            row["label"],
            row["n"],
            *(output.interval(row[m]) for m in ("pearson", "spearman", "kendall")),
        )
        for subset in study.subsets
        for row in subset["correlations"]
    ]
    header = (by, "source", "n", "Pearson", "Spearman", "Kendall")
    output.print_table(f"By {by}", header, rows, further=True)


def show_classes(study: "Study") -> None:
    """Print the classes of the gold, AUC and best line of each source, and its scores in each class."""
    labels = study.labels
    if not labels.get("classes"):
        output.say("no classes: nothing was rated")
        return
    members = [
        (
            one["name"],
            one["n"],
            output.interval(one["share"]),
            {True: "upper", False: "lower"}.get(one["upper"]),
        )
        for one in labels["classes"]
    ]
    output.print_table("Classes", ("class", "n", "share", "side"), members, further=True)
    if labels["rule"] == "halves":
        output.say(f"many values: the ratings are split at their median, {labels['median']:.4g}")
    if labels["n_unlabelled"]:
        output.say(f"rated units without a majority, in no class: {labels['n_unlabelled']}")
    if labels["reason"]:
        output.say(f"no AUC and no threshold: {labels['reason']}")
    if study.classes:
        _show_lines(study)


def _show_lines(study: "Study") -> None:
    cut, names = study.labels["cut"], {one["label"]: one["name"] for one in study.labels["classes"]}
    lines = []
    for row in study.classes:
        line, at_cut = row["threshold"], next(one["auc"] for one in row["cuts"] if one["at"] == cut)
        side = "<=" if line["upper"] == "below" else ">="
        shown = None if line["value"] is None else f"{side} {line['value']:.3f}"
        lines.append(
            (row["label"], at_cut["n"], output.interval(at_cut), shown, output.interval(line["accuracy"]))
        )
    title = f"Upper against lower: {'upper half' if study.labels['rule'] == 'halves' else f'{cut:g} and up'}"
    header = ("source", "n", "AUC", "threshold", "balanced accuracy, held out")
    output.print_table(title, header, lines, further=True)
    spread = [
        (row["label"], names[one["label"]], one["n"], one["mean"], *one["quantiles"][1:4])
        for row in study.classes
        for one in row["distributions"]
    ]
    heads = ("source", "class", "n", "mean", "lower quartile", "median", "upper quartile")
    output.print_table("Scores in each class", heads, spread, further=True)


def _turned(gap: dict[str, Any]) -> dict[str, Any]:
    value, low, high = (None if gap[end] is None else -gap[end] for end in ("value", "high", "low"))
    return {"value": value, "low": low, "high": high, "reason": gap["reason"]}


def say_signatures(signatures: Mapping[str, object]) -> None:
    """Tell how each number was made."""
    groups: dict[str, list[str]] = {}
    for source, signature in signatures.items():
        if not source.startswith("human"):
            groups.setdefault(str(signature), []).append(source)
    for text, sources in groups.items():
        output.say(f"{', '.join(sources)}: {text}")
