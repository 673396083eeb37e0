"""The study in a few sentences made from its own numbers."""

from dataclasses import dataclass
from typing import Any

from dialeval.reports.correlation_tables import SYMBOLS, ceiling_of, gold_name, method_of, percent
from dialeval.reports.other_tables import column_names, ordered_columns, ranking_table
from dialeval.reports.table import decimal
from dialeval.studies import Study


@dataclass(frozen=True, slots=True)
class Tile:
    """A number to see at a glance."""

    value: str
    label: str
    small: str = ""


# A sentence is a list of (text, kind): "" for our own words, "name" as given by data, "number".
Sentence = list[tuple[str, str]]


def systems_of(study: Study) -> list[str]:
    """Name the systems of the study."""
    return list(dict.fromkeys(row["system"] for row in study.systems))


def sentences(study: Study) -> list[Sentence]:
    """Say what was found: the best source, the ceiling, the best system."""
    made = [_what(study), _best_source(study), _ceiling(study), _best_system(study)]
    return [sentence for sentence in made if sentence]


def as_text(sentence: Sentence) -> str:
    """Write a sentence without stress."""
    return "".join(text for text, _ in sentence)


def _plural(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def _what(study: Study) -> Sentence:
    level = str(study.settings.get("level") or "dialogue")
    units = _plural(study.n_units, level)
    where = f" in {_plural(study.n_dialogues, 'dialogue')}" if level == "turn" else ""
    systems = len(systems_of(study))
    by = f" of {_plural(systems, 'system')}" if systems and level != "system" else ""
    start: Sentence = [(f"{units}{where}{by}", "number")]
    if study.gold is None:
        return [
            *start,
            (" were scored; nobody rated them, so no source can be held against people here.", ""),
        ]
    raters = study.gold["raters"]
    who = f"the mean of {_plural(raters, 'rater')}" if raters > 1 else "one column of ratings"
    rated = f" ({study.gold['n']:,} rated, {study.gold['n_unrated']:,} not). " if study.n_units else ". "
    return [*start, (rated, ""), ("Gold: ", ""), (gold_name(study), "name"), (f", {who}.", "")]


def _estimate(estimate: dict[str, Any]) -> str:
    text = decimal(estimate["value"], 2)
    if estimate["low"] is None:
        return text
    return f"{text} [{decimal(estimate['low'], 2)}, {decimal(estimate['high'], 2)}]"


def best_source(study: Study) -> dict[str, Any] | None:
    """Find the source that agrees best with the gold."""
    method = method_of(study)
    return next((row for row in study.correlations if row[method]["value"] is not None), None)


def _best_source(study: Study) -> Sentence:
    best, method = best_source(study), method_of(study)
    if best is None:
        return [("No correlation with the gold is defined.", "")] if study.correlations else []
    level = percent(study)
    made: Sentence = [
        (best["label"], "name"),
        (f" agrees best: {SYMBOLS[method]} = ", ""),
        (_estimate(best[method]), "number"),
        (f" ({level} interval, n = {best['n']:,}, unscored {best['n_unscored']:,})", ""),
    ]
    peers = _as_good(study, best["label"])
    if not peers:
        return [
            *made,
            (", significantly better than every other source." if len(study.clusters) > 1 else ".", ""),
        ]
    names: Sentence = []
    for place, label in enumerate(peers[:4]):
        names += [(", " if place else "", ""), (label, "name")]
    more = f" and {len(peers) - 4} more" if len(peers) > 4 else ""
    return [*made, ("; the data do not tell it apart from ", ""), *names, (f"{more}.", "")]


def _as_good(study: Study, best: str) -> list[str]:
    """Name the sources that no test tells apart from the best one; a cluster may hold others as well."""
    alpha, worse = 1 - study.settings.get("confidence", 0.95), set[str]()
    for row in study.differences:
        p = row["permutation"]["p_holm"]
        if best in (row["first"], row["second"]) and p is not None and p <= alpha:
            worse.add(row["second"] if row["first"] == best else row["first"])
    return [label for label in study.clusters if label != best and label not in worse]


def _ceiling(study: Study) -> Sentence:
    method = method_of(study)
    ceiling = ceiling_of(study, method)
    if ceiling is None:
        return []
    if ceiling["value"] is None:
        return [(f"The human ceiling is undefined: {ceiling['reason']}.", "")]
    return [
        ("One rater against the mean of the others reaches ", ""),
        (_estimate(ceiling), "number"),
        (": the human ceiling.", ""),
    ]


def _best_system(study: Study) -> Sentence:
    if len(systems_of(study)) < 2:
        return []
    column = ordered_columns(study)[0]
    table = ranking_table(study, column)
    ranked = [row for row in table.rows if row[1].bar is not None and row[1].bar[1] is not None]
    if len(ranked) < 2:
        return []
    top, last = ranked[0], ranked[-1]
    with_interval = [
        f"{mean.text} {mean.small}" if mean.small.startswith("[") else mean.text for _, _, mean in (top, last)
    ]
    return [
        ("By ", ""),
        (column_names(study)[column], "name"),
        (", ", ""),
        (top[0].text, "name"),
        (" comes first with ", ""),
        (with_interval[0], "number"),
        (", ", ""),
        (last[0].text, "name"),
        (" last with ", ""),
        (with_interval[1], "number"),
        (".", ""),
    ]


def tiles(study: Study) -> list[Tile]:
    """Choose the numbers for the top of the page."""
    level, method = str(study.settings.get("level") or "dialogue"), method_of(study)
    made = [Tile(f"{study.n_dialogues:,}", "dialogue" if study.n_dialogues == 1 else "dialogues")]
    if level != "dialogue":
        made.append(Tile(f"{study.n_units:,}", f"{level}s studied"))
    systems = len(systems_of(study))
    if systems and level != "system":
        made.append(Tile(f"{systems:,}", "system" if systems == 1 else "systems"))
    sources = len(study.correlations) or max(0, len(study.matrix.get("labels", [])))
    made.append(Tile(f"{sources:,}", "source compared" if sources == 1 else "sources compared"))
    if study.gold is not None:
        made.append(
            Tile(
                f"{study.gold['raters']:,}",
                "raters" if study.gold["raters"] != 1 else "gold column",
                f"{study.gold['n']:,} rated, {study.gold['n_unrated']:,} not",
            )
        )
    best = best_source(study)
    if best is not None:
        made.append(_estimate_tile(best[method], f"best {SYMBOLS[method]}"))
    ceiling = ceiling_of(study, method)
    if ceiling is not None and ceiling["value"] is not None:
        made.append(_estimate_tile(ceiling, "human ceiling"))
    return made


def _estimate_tile(estimate: dict[str, Any], label: str) -> Tile:
    low, high = estimate["low"], estimate["high"]
    small = "" if low is None else f"[{decimal(low, 2)}, {decimal(high, 2)}]"
    return Tile(decimal(estimate["value"], 2), label, small)
