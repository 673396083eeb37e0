"""The HTML page: one file, no script, nothing loaded, every word from data escaped."""

import dataclasses
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from dialeval import statistics
from dialeval.dialogues import Dialogue
from dialeval.dialogues.visibility import shown
from dialeval.metrics.explanation import Explanation
from dialeval.reports import class_tables as of_classes
from dialeval.reports import correlation_tables as of_sources
from dialeval.reports import figures
from dialeval.reports import matrix_tables as between
from dialeval.reports import other_tables as others
from dialeval.reports.cases import Case, choose, collect
from dialeval.reports.contents import ILLUSTRATIVE
from dialeval.reports.explanations import explain
from dialeval.reports.line_tables import line_table
from dialeval.reports.observations import Observations, observe
from dialeval.reports.score_tables import coverage_table, note_table
from dialeval.reports.strips import Palette, palette
from dialeval.reports.summary import sentences, tiles
from dialeval.reports.system_figures import system_pictures
from dialeval.reports.table import DASH, Table, decimal
from dialeval.reports.triage import Survey
from dialeval.reports.triage_tables import triage_section
from dialeval.scores import Scores
from dialeval.studies import Study
from dialeval.studies.units import with_systems

_MOST_ROWS = 300
_MOST_SOURCES = 24
_MOST_POINTS = 6_000
_MOST_RANKINGS = 12
_MOST_BOXES = 8
_MINUS = re.compile(r"(?<![\w.])-(?=[\d.])")


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure, its caption in words, and its n."""

    svg: Markup
    caption: str


@dataclass(frozen=True, slots=True)
class SourceFigures:
    """What one source looks like."""

    label: str
    small: str
    pictures: list[Picture]


def to_html(
    study: Study,
    scores: Scores,
    dialogues: Iterable[Dialogue],
    *,
    title: str = "Dialogue evaluation report",
    illustrative: bool = False,
    explanations: Iterable[Explanation] = (),
) -> str:
    """Render the whole report."""
    scores = with_systems(scores)
    observations = observe(study, scores)
    colours = palette(study, scores)
    survey = Survey(scores)
    cases = collect(choose(study, observations, scores), survey.reading(dialogues), scores, colours)
    context: dict[str, Any] = {
        "title": title,
        "illustrative": ILLUSTRATIVE if illustrative else None,
        "study": study,
        "level": study.settings.get("level") or "dialogue",
        "gold": of_sources.gold_name(study),
        "sentences": sentences(study),
        "tiles": tiles(study),
        "rankings": [
            others.ranking_table(study, column) for column in others.ordered_columns(study)[:_MOST_RANKINGS]
        ],
        "between_systems": [
            SourceFigures(label, small, [Picture(svg, caption)])
            for label, small, svg, caption in system_pictures(study)
        ],
        "sources": _source_figures(study, observations),
        "gold_pictures": _gold_pictures(study, observations),
        "classes": _class_pictures(study),
        "angles": _angle_pictures(study),
        "label_shares": [(row, others.label_shares(row)) for row in study.agreement],
        "cases": cases,
        "palette": colours,
        "why": explain(explanations, scores),
        "triage": triage_section(survey.findings()),
        **_tables(study, scores),
    }
    return str(_environment().get_template("report.html.jinja").render(context))


def _tables(study: Study, scores: Scores) -> dict[str, Table | None]:
    signatures = {source: str(signature) for source, signature in scores.signatures.items()}
    made = {
        "correlations": of_sources.correlation_table(study),
        "differences": of_sources.difference_table(study),
        "subsets": of_sources.subset_table(study),
        "label_table": of_classes.label_table(study),
        "auc": of_classes.auc_table(study),
        "thresholds": of_classes.threshold_table(study),
        "class_table": of_classes.class_table(study),
        "matrix": between.matrix_table(study),
        "pairs": between.pair_table(study),
        "calibration": of_sources.calibration_table(study),
        "means": others.means_table(study),
        "gold_comparisons": others.comparison_table(study, gold=True),
        "comparisons": others.comparison_table(study, gold=False),
        "agreement": others.agreement_table(study),
        "worst": others.worst_table(study),
        "signatures": others.signature_table({**signatures, **study.signatures}),
        "settings": others.settings_table(study),
        "schema": others.schema_table(study),
        "lines": line_table(study),
        "coverage": coverage_table(scores),
        "score_notes": note_table(scores),
    }
    return {key: None if table is None else _cut(table) for key, table in made.items()}


def _cut(table: Table) -> Table:
    if len(table.rows) <= _MOST_ROWS:
        return table
    more = f"{len(table.rows) - _MOST_ROWS:,} more rows are not shown here; the Markdown report has them all."
    return dataclasses.replace(table, rows=table.rows[:_MOST_ROWS], notes=(*table.notes, more))


def _source_figures(study: Study, observations: Observations) -> list[SourceFigures]:
    """Draw each source's distribution, its scatter against the gold, and its calibration."""
    labels = list(observations.columns)[:_MOST_SOURCES]
    most = max(50, min(figures.MOST_POINTS, _MOST_POINTS // max(1, len(labels))))
    bins = {row["label"]: row["bins"] for row in study.calibration}
    found = {row["label"]: row for row in study.correlations}
    made = []
    for place, label in enumerate(labels):
        values = observations.columns[label]
        scored = values[~np.isnan(values)]
        pictures = [] if observations.gold is None else _scatter(observations, label, place, most)
        if bins.get(label):
            svg = figures.calibration(
                bins[label], f"c{place}-", f"Calibration of {label}: mean rating in {len(bins[label])} bins"
            )
            total = sum(one["y"]["n"] for one in bins[label])
            pictures.append(
                Picture(svg, f"What a score means: mean rating per bin, 95 % interval; n = {total:,}.")
            )
        if scored.size:
            svg = figures.histogram(scored, f"h{place}-", f"Scores of {label}: {figures.describe(scored)}")
            unscored = int(values.size - scored.size)
            pictures.append(
                Picture(svg, f"Scores; dashed: median. n = {scored.size:,}, unscored {unscored:,}.")
            )
        row = found.get(label)
        estimate = row[of_sources.method_of(study)] if row else None
        small = ""
        if estimate is not None:
            symbol = of_sources.SYMBOLS[of_sources.method_of(study)]
            small = f"{symbol} {decimal(estimate['value'], 2)}"
            small += f" ({estimate['reason']})" if estimate["value"] is None else ""
        made.append(SourceFigures(label, small, pictures))
    return made


def _scatter(observations: Observations, label: str, place: int, most: int) -> list[Picture]:
    x, y = observations.pairs(label)
    if not x.size:
        return []
    gold = observations.gold
    rated = 0 if gold is None else int((~np.isnan(gold)).sum())
    svg = figures.scatter(x, y, f"s{place}-", f"{label} against rating, {x.size} units", most)
    fitted = statistics.ols(x, y).reason is None
    caption = f"Score against rating{', line: least squares' if fitted else ''}. "
    if figures.jittered(x):
        caption += "Equal scores are drawn a little apart. "
    caption += f"n = {x.size:,}, unscored {rated - x.size:,}."
    if x.size > most:
        caption += f" {most:,} points shown, evenly spaced in order of score; the line uses all."
    return [Picture(svg, caption)]


def _gold_pictures(study: Study, observations: Observations) -> list[Picture]:
    """Draw how the ratings spread, over all and per system."""
    gold = observations.gold
    rated = None if gold is None else gold[~np.isnan(gold)]
    if gold is None or rated is None or not rated.size:
        return []
    svg = figures.histogram(rated, "g-", f"Ratings: {figures.describe(rated)}", "mean rating")
    unrated = int(gold.size - rated.size)
    made = [Picture(svg, f"All ratings; dashed: median. n = {rated.size:,}, unrated {unrated:,}.")]
    systems = [key.system or "" for key in observations.units.keys]
    names = sorted(set(systems))[:_MOST_BOXES]
    if len(names) > 1 and study.settings.get("level") != "system":
        numbers = {name: place for place, name in enumerate(names)}
        labels = np.array([numbers.get(system, np.nan) for system in systems])
        found = [dataclasses.asdict(one) for one in statistics.class_distributions(gold, labels)]
        shown = [names[int(one["label"])] for one in found]
        svg = figures.boxes(found, "gs-", "Ratings per system", shown, "mean rating", "")
        numbers_of = ", ".join(f"{one['n']:,}" for one in found)
        made.append(Picture(svg, f"Ratings per system: median, quartiles, 5 % and 95 %. n = {numbers_of}."))
    return made


def _class_pictures(study: Study) -> list[SourceFigures]:
    pictures = of_classes.class_pictures(study, _MOST_SOURCES)
    return [SourceFigures(label, "", [Picture(svg, caption)]) for label, svg, caption in pictures]


def _angle_pictures(study: Study) -> list[SourceFigures]:
    """Draw the best source beside each of the next three, with people between them."""
    if study.gold is None or len(study.matrix.get("labels", [])) < 3:
        return []
    places = {label: place for place, label in enumerate(study.matrix["labels"][:-1])}
    degrees, last = study.matrix["angles"], len(places)
    order = [places[row["label"]] for row in study.correlations if row["label"] in places]
    order = [place for place in order if degrees[place][last] is not None]
    names = list(places)
    made = []
    for number, other in enumerate(order[1:4]):
        best = order[0]
        found = (degrees[best][last], degrees[other][last], degrees[best][other])
        if found[2] is None:
            continue
        words = (
            f"{names[best]} to people {found[0]:.0f}°, {names[other]} to people {found[1]:.0f}°, "
            f"between the two {found[2]:.0f}°"
        )
        apart = figures.drawn_apart(found)
        flat = "" if abs(apart - found[2]) <= 10 else " Not to scale: the three do not lie in one plane."
        three = (of_sources.gold_name(study), names[best], names[other])
        svg = figures.angles(three, found, f"a{number}-", f"Angles: {words}")
        made.append(SourceFigures(f"{names[best]} and {names[other]}", "", [Picture(svg, f"{words}.{flat}")]))
    return made


@functools.cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("dialeval.reports"),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["dash"] = DASH
    environment.filters |= {
        "minus": lambda text: _MINUS.sub("\N{MINUS SIGN}", text),
        "tone": _tone_class,
        "ramp": lambda place, n: _tone_class(round(8 * place / max(1, n - 1)) - 4),
        "percent": lambda value, axis: f"{axis.place(value):g}%",
        "band_width": lambda axis: f"{axis.place(axis.band[1]) - axis.place(axis.band[0]):g}%",
        "row_head": lambda table: next(
            (place for place, column in enumerate(table.columns) if column.kind == "name"), 0
        ),
        "marked": lambda table: {place for row in table.rows for place, cell in enumerate(row) if cell.mark},
        "strip_words": _strip_words,
    }
    return environment


def _tone_class(tone: int | None) -> str:
    return "" if tone is None else f"t{'n' if tone < 0 else 'p'}{abs(tone)}"


def _strip_words(case: Case, colours: Palette) -> str:
    """Say what a strip shows, for those who cannot see it."""
    scored = [f"turn {turn.number} {turn.score.text}" for turn in case.strip if turn.score]
    return f"{colours.label}: {', '.join(scored)}"
