"""The HTML page: one file, no script, nothing loaded, all text from data escaped.

It answers three questions first: is it good, is it better, where does it fail. Details for researchers are
folded.
"""

import functools
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from dialeval.dialogues.visibility import templates
from dialeval.reports import pictures, summary
from dialeval.reports.contents import study_tables, triage_tables
from dialeval.reports.explanations import Why
from dialeval.reports.record_tables import words
from dialeval.reports.system_tables import label_shares, ordered_columns, ranking_table
from dialeval.reports.table import DASH, Palette, Table, figure
from dialeval.reports.text import draw
from dialeval.reports.trust_tables import trust_tables
from dialeval.studies import Inspection, Study
from dialeval.studies.excerpts import Excerpt, ShownTurn
from dialeval.studies.trust_findings import Trust

TITLE = "Dialogue evaluation report"
_MOST_ROWS = 300
_MOST_RANKINGS = 12
_MINUS = re.compile(r"(?<![\w.])-(?=[\d.])")


def to_html(
    study: Study,
    inspection: Inspection | None = None,
    *,
    title: str = TITLE,
    illustrative: bool = False,
    why: Why | None = None,
    trust: Trust | None = None,
) -> str:
    """Return the whole report as HTML.

    Args:
        inspection: The inspection of its dialogues; without it no dialogue is shown.
        illustrative: Whether to mark all ratings as invented examples.
        why: Explanations of single scores.
        trust: How far the scores can be trusted.
    """
    inspection = inspection or Inspection()
    triage = inspection.triage
    ranked = ordered_columns(study)[:_MOST_RANKINGS]
    prices = trust_tables(trust) if trust else {}
    tables = {**study_tables(study), **triage_tables(triage, study), **prices}
    context: dict[str, Any] = {
        "title": title,
        "illustrative": summary.ILLUSTRATIVE if illustrative else None,
        "study": study,
        "gold": study.gold_name,
        "headline": summary.headline(study),
        "trust": summary.trust(study),
        "tiles": summary.tiles(study),
        "rankings": [ranking_table(study, column) for column in ranked],
        "between_systems": list(pictures.system_cards(study)),
        "sources": pictures.source_cards(study),
        "gold_pictures": pictures.gold_pictures(study),
        "classes": pictures.class_cards(study),
        "angles": pictures.angle_cards(study),
        "label_shares": [(row, label_shares(row)) for row in study.agreement],
        "cases": inspection.dialogues,
        "palette": None if inspection.scale is None else Palette(inspection.scale),
        "why": why or Why(),
        "priced": trust,
        "prices": list(prices),
        "triage": triage,
        "score": None if triage is None else Palette(triage.score),
        "over_turns": None if triage is None else pictures.triage_picture(triage),
        "t": defaultdict(lambda: None, {name: _cut(table) for name, table in tables.items()}),
    }
    return render("report.html.jinja", context)


def render(template: str, context: dict[str, Any]) -> str:
    """Render a template of this package."""
    return str(_environment().get_template(template).render(context))


def _cut(table: Table) -> Table:
    if len(table.rows) <= _MOST_ROWS:
        return table
    more = f"{len(table.rows) - _MOST_ROWS:,} more rows are not shown here; the Markdown report has them all."
    return table.cut(_MOST_ROWS, more)


def _sides(turns: Sequence[ShownTurn]) -> dict[str, str]:
    """Return the side of each speaker: user left, assistant right; of two people, the first left."""
    speakers = list(dict.fromkeys(turn.speaker for turn in turns))
    sides = {speaker: "middle" for speaker in speakers if speaker in ("system", "tool")}
    people = [speaker for speaker in speakers if speaker not in sides]
    left = "user" if "user" in people else next((s for s in people if s != "assistant"), None)
    return {**sides, **{speaker: "left" if speaker == left else "right" for speaker in people}}


@functools.cache
def _environment() -> Any:
    environment = templates("dialeval.reports")
    environment.globals["dash"] = DASH
    environment.filters |= {
        "figure": figure,
        "draw": draw,
        "sides": _sides,
        "minus": lambda text: _MINUS.sub("\N{MINUS SIGN}", text),
        "tone": _tone_class,
        "words": words,
        "ramp": lambda index, n: _tone_class(round(8 * index / max(1, n - 1)) - 4),
        "percent": lambda value, axis: f"{axis.place(value):g}%",
        "band_width": lambda axis: f"{axis.place(axis.band[1]) - axis.place(axis.band[0]):g}%",
        "row_head": lambda table: next(
            (index for index, column in enumerate(table.columns) if column.kind == "name"), 0
        ),
        "marked": lambda table: {index for row in table.rows for index, cell in enumerate(row) if cell.mark},
        "strip_words": _strip_words,
    }
    return environment


def _tone_class(tone: int | None) -> str:
    return "" if tone is None else f"t{'n' if tone < 0 else 'p'}{abs(tone)}"


def _strip_words(case: Excerpt, palette: Palette) -> str:
    """Return the text alternative of a colour strip."""
    scored = [f"turn {turn.number} {palette.text(turn.score)}" for turn in case.turns if turn.score]
    return f"{palette.label}: {', '.join(scored)}"
