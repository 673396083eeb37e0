"""The arrays behind a study, for what a table cannot show: single points and whole distributions.

A saved study holds findings, not observations. They are made again from the scores by the study's own
settings: same level, same aggregate, same combinations, same condition.
"""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dialeval.errors import UsageError
from dialeval.scores import Scores, is_human
from dialeval.scores.signature import better
from dialeval.studies import Combination, Study, Units, align
from dialeval.studies.combination import LINE, combine
from dialeval.studies.lines import with_lines
from dialeval.studies.subset import where
from dialeval.studies.units import Column, mean_over

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Observations:
    """One value a unit for the gold (if any) and for every source of the study, by its label."""

    units: Units
    gold: Floats | None
    columns: dict[str, Floats]

    def pairs(self, label: str) -> tuple[Floats, Floats]:
        """Return score and gold where both exist."""
        values = self.columns[label]
        if self.gold is None:
            return np.array([]), np.array([])
        both = ~(np.isnan(values) | np.isnan(self.gold))
        return values[both], self.gold[both]


def observe(study: Study, scores: Scores) -> Observations:
    """Make the arrays; what the scores don't hold (a study saved elsewhere) is left out."""
    settings = study.settings
    with suppress(UsageError):  # the part of a line that is not in these scores
        scores, _ = with_lines(
            scores,
            settings.get("combine") or (),
            gold=settings.get("gold") or "human",
            dimension=settings.get("dimension"),
            level=settings.get("level"),
            aggregate=settings.get("aggregate") or "mean",
            seed=settings.get("seed") or 0,
        )
    units = align(scores, settings.get("level") or "dialogue", settings.get("aggregate") or "mean")
    raters = _gold_columns(units, study)
    gold = mean_over(units, raters) if raters else None
    lower = frozenset(column for column in units.columns if better(study.signatures, *column) == "lower")
    for text in settings.get("combine") or ():
        combination = Combination.parse(text)
        if combination.method == LINE:
            continue
        try:
            units = combine(units, combination, gold, settings.get("seed") or 0, lower)
        except UsageError:
            continue  # its parts are not in these scores
    if settings.get("where"):
        try:
            kept = where(units, str(settings["where"]), gold)
        except UsageError:
            return Observations(units, None, {})
        units, gold = units.keep(kept), None if gold is None else gold[kept]
    return Observations(units, gold, _sources(units, study))


def _gold_columns(units: Units, study: Study) -> list[Column]:
    if study.gold is None:
        return []
    source, dimension = study.gold["source"], study.gold["dimension"]
    return [
        column
        for column in units.columns
        if column.dimension == dimension
        and (is_human(column.source) if source == "human" else column.source == source)
    ]


def _sources(units: Units, study: Study) -> dict[str, Floats]:
    """Find the study's sources by their labels, in the study's order."""
    if study.correlations:
        wanted = {row["label"]: Column(row["source"], row["dimension"]) for row in study.correlations}
    else:
        columns = [column for column in units.columns if not is_human(column.source)]
        known = {label: column for column, label in units.labels(columns).items()}
        known |= {f"{column.source}/{column.dimension}": column for column in columns}
        wanted = {label: known[label] for label in study.matrix.get("labels", []) if label in known}
    return {label: units.columns[column] for label, column in wanted.items() if column in units.columns}
