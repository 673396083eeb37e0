"""Fit the terms of a blend (`models/blend.py`) to rated parts, and the quantiles of the fitted scores."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from dialeval.models.blend import FARTHEST, VALIDATED, Blend, Level, Parts, Priors, RatedKind, Shares, Term
from dialeval.models.kinds import KINDS, Kind
from dialeval.statistics.estimate import Floats
from dialeval.statistics.regression import blend_weights

_STEPS = 20  # of the quantiles
_DIGITS = 4


@dataclass(frozen=True)
class RatedParts:
    """The rated units of one set: parts, ratings, and shares of kinds."""

    parts: list[Parts]
    ratings: list[float]
    shares: list[Shares]


def fit_terms(
    names: Sequence[str],
    sets: Sequence[RatedParts],
    priors: Priors,
    scales: Mapping[str, tuple[float, float]],
) -> tuple[Term, ...]:
    """Fit the terms of one level to ratings; all sets have the same weight.

    `scales` has mean and scale of parts that are missing in all sets.

    >>> ratings = [1.0, 2.0, 3.0, 4.0, 5.0]
    >>> rows = [{"coherence": value / 5, "tone": 1.0} for value in ratings]
    >>> table = RatedParts(rows, ratings, [{"chat": 1.0}] * 5)
    >>> terms = fit_terms(["coherence", "tone"], [table], {"chat": {"coherence": 0.1, "tone": 0.1}}, {})
    >>> [(term.part, term.mean, term.weights["chat"]) for term in terms]
    [('coherence', 0.6, 0.3077), ('tone', 1.0, 0.1)]
    """
    columns = [_columns(names, rated_set.parts) for rated_set in sets]
    present = [[column[~np.isnan(column)] for column in table] for table in columns]
    terms = []
    for number, name in enumerate(names):
        parts = [table[number] for table in present if table[number].size]
        mean, scale = scales.get(name, (0.0, 1.0))
        if parts:
            mean = float(np.mean([part.mean() for part in parts]))
            scale = math.sqrt(float(np.mean([np.mean((part - mean) ** 2) for part in parts])))
        terms.append(Term(name, round(mean, _DIGITS), round(scale, _DIGITS) or 1.0, {}))
    tables = [
        (_rows(terms, table), _standard(rated_set.ratings), share_rows(rated_set.shares))
        for table, rated_set in zip(columns, sets, strict=True)
        if len(rated_set.ratings) > 1
    ]
    prior = np.array([[priors.get(kind, {}).get(name, -1.0) for name in names] for kind in KINDS])
    weights = blend_weights(tables, prior)
    return tuple(
        msgspec.structs.replace(
            term, weights={kind: round(float(weights[row, place]), _DIGITS) for row, kind in enumerate(KINDS)}
        )
        for place, term in enumerate(terms)
    )


def rate_kinds(blend: Blend, level: Level, sets: Sequence[RatedParts]) -> dict[Kind, RatedKind]:
    """Return the quantiles of the scores of each kind; of all units, for a kind with few."""
    scores = np.array(
        [blend.score(level, *unit) for table in sets for unit in zip(table.parts, table.shares, strict=True)]
    )
    kinds = np.concatenate([share_rows(table.shares) for table in sets]).argmax(1)
    sizes = np.concatenate([np.full(len(table.ratings), 1.0 / len(table.ratings)) for table in sets])
    by_kind: dict[Kind, RatedKind] = {}
    for number, kind in enumerate(KINDS):
        own = kinds == number
        chosen = own if own.sum() >= VALIDATED else np.ones(len(kinds), bool)
        marks = _quantiles(scores[chosen], sizes[chosen])
        by_kind[kind] = RatedKind(int(own.sum()), marks)
    return by_kind


def _quantiles(values: Floats, sizes: Floats) -> tuple[float, ...]:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(sizes[order]) / sizes.sum()
    marks = np.interp(np.linspace(0.0, 1.0, _STEPS + 1), reached, values[order])
    return tuple(round(float(value), _DIGITS) for value in marks)


def share_rows(shares: Sequence[Shares]) -> Floats:
    """Return shares of kinds as rows, in the order of `KINDS`."""
    return np.array([[by_kind.get(kind, 0.0) for kind in KINDS] for by_kind in shares], np.float64)


def _columns(names: Sequence[str], parts: Sequence[Parts]) -> list[Floats]:
    def number(value: float | None) -> float:
        return math.nan if value is None else value

    return [np.array([number(by_part.get(name)) for by_part in parts], np.float64) for name in names]


def _rows(terms: Sequence[Term], columns: Sequence[Floats]) -> Floats:
    far = [(column - term.mean) / term.scale for term, column in zip(terms, columns, strict=True)]
    return np.asarray(np.clip(np.nan_to_num(np.stack(far, axis=1)), -FARTHEST, FARTHEST))


def _standard(ratings: Sequence[float]) -> Floats:
    values = np.asarray(ratings, np.float64)
    return np.asarray((values - values.mean()) / (values.std() or 1.0))
