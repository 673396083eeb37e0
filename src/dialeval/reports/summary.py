"""The summary of a study: sentences, tiles and two tables."""

from dataclasses import dataclass

from dialeval.reports.source_tables import SYMBOLS, percent
from dialeval.reports.system_tables import column_names, ordered_columns, ranked_systems, system_bars
from dialeval.reports.table import (
    Table,
    TableCell,
    counts,
    decimal,
    ends,
    estimate_cell,
    figure,
    interval,
    named,
    number,
    numbers,
    p_cell,
    tabulate,
    undefined,
)
from dialeval.scores import is_fault, is_human
from dialeval.scores.signature import better
from dialeval.statistics import Estimate
from dialeval.studies import Study
from dialeval.studies.findings import Correlation, SystemComparison, SystemMean

ILLUSTRATIVE = (
    "The ratings in this report are illustrative: invented to show what the tools do. They measure nothing."
)

PERCENTILE = "percentile"  # dimension of a source that ranks dialogues among rated ones, in per cent
_MOST_SYSTEMS, _MOST_PAIRS = 12, 10


@dataclass(frozen=True, slots=True)
class Tile:
    """A number to see at a glance."""

    value: str
    label: str
    small: str = ""


# A sentence is a list of (text, kind): "" for our own words, "name" as given by data, "number".
Sentence = list[tuple[str, str]]


def systems_of(study: Study) -> list[str]:
    """Return the names of the systems of the study."""
    return list(dict.fromkeys(row.system for row in study.systems))


def headline(study: Study) -> list[Sentence]:
    """Return the sentences on the data and the best system."""
    return list(filter(None, (_what(study), _best_system(study))))


def trust(study: Study) -> list[Sentence]:
    """Return the sentences on how far the scores can be trusted: best source and human ceiling."""
    return list(filter(None, (_best_source(study), _ceiling(study))))


def sentences(study: Study) -> list[Sentence]:
    """Return all sentences."""
    return [*headline(study), *trust(study)]


def as_text(sentence: Sentence) -> str:
    """Return a sentence as plain text."""
    return "".join(text for text, _ in sentence)


def _plural(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def _what(study: Study) -> Sentence:
    level = study.level
    units = _plural(study.n_units, level)
    where = f" in {_plural(study.n_dialogues, 'dialogue')}" if level == "turn" else ""
    systems = len(systems_of(study))
    by = f" of {_plural(systems, 'system')}" if systems and level != "system" else ""
    start: Sentence = [(f"{units}{where}{by}", "number")]
    if study.gold is None:
        return [*start, (" were scored; without ratings, no source can be compared with people.", "")]
    raters = study.gold.raters
    source = f"the mean of {_plural(raters, 'rater')}" if raters > 1 else "one column of ratings"
    rated = f" ({study.gold.n:,} rated, {study.gold.n_unrated:,} not). " if study.n_units else ". "
    return [*start, (rated, ""), ("Gold: ", ""), (study.gold_name, "name"), (f", {source}.", "")]


def _estimate(estimate: Estimate) -> str:
    text = decimal(estimate.value, 2)
    if estimate.low is None:
        return text
    return f"{text} [{decimal(estimate.low, 2)}, {decimal(estimate.high, 2)}]"


def best_source(study: Study) -> Correlation | None:
    """Return the source with the best correlation with the gold."""
    method = study.method
    return next((row for row in study.correlations if row.of(method).value is not None), None)


def _best_source(study: Study) -> Sentence:
    best, method = best_source(study), study.method
    if best is None:
        return [("No correlation with the gold is defined.", "")] if study.correlations else []
    level = percent(study)
    sentence: Sentence = [
        (best.label, "name"),
        (f" agrees best: {SYMBOLS[method]} = ", ""),
        (_estimate(best.of(method)), "number"),
        (f" ({level} interval, n = {best.n:,}, unscored {best.n_unscored:,})", ""),
    ]
    peers = study.as_good_as(best.label)
    if not peers:
        return [
            *sentence,
            (", significantly better than every other source." if len(study.letters) > 1 else ".", ""),
        ]
    names: Sentence = []
    for index, label in enumerate(peers[:4]):
        names += [(", " if index else "", ""), (label, "name")]
    more = f" and {len(peers) - 4} more" if len(peers) > 4 else ""
    return [*sentence, (", not significantly better than ", ""), *names, (f"{more}.", "")]


def _ceiling(study: Study) -> Sentence:
    method = study.method
    ceiling = study.ceiling.get(method)
    if ceiling is None:
        return []
    if ceiling.value is None:
        return [(f"The human ceiling is undefined: {ceiling.reason}.", "")]
    return [
        ("One rater against the mean of the others reaches ", ""),
        (_estimate(ceiling), "number"),
        (": the human ceiling.", ""),
    ]


def main_column(study: Study) -> tuple[str, str] | None:
    """Return the column to rank systems by: the gold, else `quality`, else the first with a direction.

    Single faults are not considered.
    """
    if study.gold is not None:
        return study.gold.source, study.gold.dimension
    columns = [
        column
        for column in ordered_columns(study)
        if better(study.signatures, *column) != "neither" and not is_fault(*column)
    ]
    return next((column for column in columns if column[0] == "quality"), columns[0] if columns else None)


def _ranked(study: Study, column: tuple[str, str] | None) -> list[SystemMean]:
    return [] if column is None else ranked_systems(study, column)


def best_first(study: Study) -> list[str]:
    """Return the names of the systems, best first."""
    return [row.system for row in _ranked(study, main_column(study))]


def _best_system(study: Study) -> Sentence:
    column = main_column(study)
    ranked = [row for row in _ranked(study, column) if row.mean.value is not None]
    if column is None or len(ranked) < 2:
        return []
    size = max(abs(end) for end in ends([row.mean for row in ranked]))
    first, last = (
        f"{figure(row.mean.value, size)} {interval(row.mean, lambda value: figure(value, size))}".strip()
        for row in (ranked[0], ranked[-1])
    )
    return [
        ("By ", ""),
        (column_names(study)[column], "name"),
        (", ", ""),
        (ranked[0].system, "name"),
        (" comes first with ", ""),
        (first, "number"),
        (", ", ""),
        (ranked[-1].system, "name"),
        (" last with ", ""),
        (last, "number"),
        (".", ""),
    ]


def in_words(study: Study, system: str, source: str) -> str:
    """Return the mean percentile of a system in words, if the source has a dimension `percentile`."""
    means = {(row.system, row.source, row.dimension): row.mean.value for row in study.systems}
    value = means.get((system, source, PERCENTILE))
    rated = "replies" if study.level == "turn" else "dialogues"
    return "" if value is None else f"by {source}, better than {value:.0f} % of rated {rated} of this kind"


def system_table(study: Study) -> Table | None:
    """Return the table of systems with their means, best first, and up to three other ratings."""
    column = main_column(study)
    rows = _ranked(study, column)[:_MOST_SYSTEMS]
    if column is None or not rows:
        return None
    others = [other for other in ordered_columns(study) if other != column and _is_beside(*other)][:3]
    means = {(row.system, row.source, row.dimension): row for row in study.systems}
    names = column_names(study)
    lower = ", lower is better" if better(study.signatures, *column) == "lower" else ""
    more = numbers(
        [names[other] for other in others],
        lambda row, index: (
            estimate_cell(means[row.system, *others[index]].mean, figure)
            if (row.system, *others[index]) in means
            else undefined("not scored")
        ),
    )
    title = f"Systems by {names[column]}{lower}"
    return system_bars("systems", title, rows, names[column], lambda row: _place(study, row), *more)


def _is_beside(source: str, dimension: str) -> bool:
    return (is_human(source) or source == "quality") and dimension != PERCENTILE


def _place(study: Study, row: SystemMean) -> str:
    position = in_words(study, row.system, row.source) or in_words(study, row.system, "quality")
    return "\n".join(filter(None, (position, counts(row))))


def verdict_table(study: Study) -> Table | None:
    """Return the table of pairs of systems, the better one first, with the result of the test."""
    column = main_column(study)
    rows = [row for row in study.comparisons if (row.source, row.dimension) == column][:_MOST_PAIRS]
    lower = column is not None and better(study.signatures, *column) == "lower"
    limit = 1 - study.settings.confidence

    def verdict(row: SystemComparison) -> TableCell:
        if row.difference.value is None or row.p_holm is None or row.p_holm >= limit:
            return TableCell("does not differ from", tone=0)
        return TableCell("is better than", tone=3)

    rows = [row if ((row.difference.value or 0) < 0) == lower else row.swapped() for row in rows]
    return tabulate(
        "verdicts",
        f"Is one better? By {column_names(study).get(column, '') if column else ''}",
        rows,
        named("", "first", strong=True),
        named("", verdict),
        named("", "second", strong=True),
        number("Difference", lambda row: estimate_cell(row.difference, figure)),
        number("p (Holm)", lambda row: p_cell(row.p_holm, row.difference.reason)),
        number("n", "difference.n"),
        named("Test", lambda row: "paired" if row.paired else "unpaired"),
        rated=column is not None and is_human(column[0]),
    )


def tiles(study: Study) -> list[Tile]:
    """Return the numbers for the top of the page."""
    level, method = study.level, study.method
    tiles_ = [Tile(f"{study.n_dialogues:,}", "dialogue" if study.n_dialogues == 1 else "dialogues")]
    if level != "dialogue":
        tiles_.append(Tile(f"{study.n_units:,}", f"{level}s studied"))
    systems = len(systems_of(study))
    if systems and level != "system":
        tiles_.append(Tile(f"{systems:,}", "system" if systems == 1 else "systems"))
    sources = len(study.correlations) or len(study.matrix.labels)
    tiles_.append(Tile(f"{sources:,}", "source compared" if sources == 1 else "sources compared"))
    if study.gold is not None:
        tiles_.append(
            Tile(
                f"{study.gold.raters:,}",
                "raters" if study.gold.raters != 1 else "gold column",
                f"{study.gold.n:,} rated, {study.gold.n_unrated:,} not",
            )
        )
    best = best_source(study)
    if best is not None:
        tiles_.append(_estimate_tile(best.of(method), f"best {SYMBOLS[method]}"))
    ceiling = study.ceiling.get(method)
    if ceiling is not None and ceiling.value is not None:
        tiles_.append(_estimate_tile(ceiling, "human ceiling"))
    return tiles_


def _estimate_tile(estimate: Estimate, label: str) -> Tile:
    low, high = estimate.low, estimate.high
    small = "" if low is None else f"[{decimal(low, 2)}, {decimal(high, 2)}]"
    return Tile(decimal(estimate.value, 2), label, small)
