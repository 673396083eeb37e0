"""Lines through one source, fitted to ratings where the ratings were given.

A line predicts the rating of a unit from one source: Voted Appropriateness does from the number of votes for
a reply. It is fitted once to everything, to be reported and used elsewhere, and once for each conversation to
all the others, so that no rating helps to predict itself. Those predictions are scores like any others: a
figure for a system is their mean.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from dialeval.scores import Score, Scores, is_human
from dialeval.statistics import ols
from dialeval.studies.combination import DIMENSION, LINE, Combination, columns_by_name, combine
from dialeval.studies.units import Column, Floats, Level, Units, align, mean_over


def with_lines(
    scores: Scores,
    combine_texts: Sequence[str],
    *,
    gold: str,
    dimension: str | None,
    level: Level | None,
    aggregate: str = "mean",
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[Scores, list[dict[str, Any]]]:
    """Add what each `line` among the combinations predicts, and describe the line itself.

    Returns:
        The scores with one more source for each line, and for each line its coefficients with intervals and
        p, R², n, and the share of units at the source's lowest value.
    """
    wanted = [one for one in map(Combination.parse, combine_texts) if one.method == LINE]
    if not wanted:
        return scores, []
    rated = scores.where(source=lambda source: is_gold(gold, source), dimension=dimension)
    at: Level = "turn" if level == "turn" or not len(rated.where(level="dialogue")) else "dialogue"
    units = align(scores, at, aggregate)
    columns = [one for one in units.columns if is_gold(gold, one.source) and one.dimension == dimension]
    target = mean_over(units, columns) if columns else None
    parts, described = [scores], []
    for one in wanted:
        made = combine(units, one, target, seed).columns[Column(one.name, DIMENSION)]
        parts.append(_scores(units, made, one))
        if target is not None:
            described.append(
                _describe(one, units.columns[columns_by_name(units)[one.parts[0]]], target, confidence)
            )
    return Scores.concat(parts), described


def is_gold(gold: str, source: str) -> bool:
    """Say whether a source is among what a study compares with; `human` means every rater."""
    return is_human(source) if gold == "human" else source == gold


def _scores(units: Units, made: Floats, one: Combination) -> Scores:
    rows = (
        Score(key.dialogue_id, key.turn, key.system, one.name, DIMENSION, None, "no prediction")
        if np.isnan(value)
        else Score(key.dialogue_id, key.turn, key.system, one.name, DIMENSION, float(value))
        for key, value in zip(units.keys, made, strict=True)
    )
    return Scores.of(rows, {one.name: one.signature})


def _describe(one: Combination, values: Floats, target: Floats, confidence: float) -> dict[str, Any]:
    fitted = ols(values, target, confidence)
    intercept, slope = (dataclasses.asdict(part) for part in fitted.coefficients)
    known = values[~np.isnan(values)]
    lowest = float(known.min()) if known.size else None
    return {
        "name": one.name,
        "source": one.parts[0],
        "intercept": intercept,
        "slope": slope,
        "r_squared": fitted.r_squared,
        "n": fitted.n,
        "reason": fitted.reason,
        "lowest": lowest,
        "at_lowest": float(np.mean(known == lowest)) if known.size else None,
    }
