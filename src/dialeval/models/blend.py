"""Blends: a few parts, each standardised, weighed and added, so that a score says what it is made of.

Nothing below zero is a weight, so more of a part never makes a score worse. A part has a weight for each kind
of dialogue, and a dialogue that is of several kinds is judged in between. What a part is, the metric knows; a
blend has only its name, its mean, its scale and its weights, for turns and for dialogues apart, and the
quantiles of what it gave to the rated turns and dialogues that it was fitted to.
"""

import bisect
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
import numpy as np

from dialeval.models.artefact import CONFIG, load, resolve
from dialeval.models.kinds import KINDS, Kind
from dialeval.models.untrusted import read_setting
from dialeval.statistics.estimate import Floats
from dialeval.statistics.regression import blend_weights

KIND = "blend.v2"
Level = Literal["turn", "dialogue"]
LEVELS: tuple[Level, ...] = get_args(Level)
Parts = Mapping[str, float | None]
Shares = Mapping[Kind, float]
Priors = Mapping[Kind, Mapping[str, float]]
VALIDATED = 30
"""Rated turns or dialogues of a kind from which on its weights count as validated."""
_FARTHEST = 5.0  # scales from the mean: no single part decides a score by being absurd
_MOST = 1e300  # what no float can hold is no number
_STEPS = 20  # of the quantiles
_DIGITS = 4

Number = Annotated[float, msgspec.Meta(gt=-_MOST, lt=_MOST)]


class Term(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a blend: how it is standardised, and what a scale of it adds in each kind of dialogue."""

    part: str
    mean: Number
    scale: Annotated[float, msgspec.Meta(gt=0, lt=_MOST)]
    weights: dict[Kind, Annotated[float, msgspec.Meta(ge=0, lt=_MOST)]]

    def adds(self, value: float | None, shares: Shares) -> float:
        """Return what the part adds; one that is not known is taken to be average.

        >>> term = Term("coherence", 0.5, 0.25, {"chat": 0.3})
        >>> term.adds(0.75, {"chat": 1.0}), term.adds(0.75, {"chat": 0.5, "task": 0.5}), term.adds(None, {})
        (0.3, 0.15, 0.0)
        """
        far = self.standard(value)
        if far is None:
            return 0.0
        return far * sum(share * self.weights.get(kind, 0.0) for kind, share in shares.items())

    def standard(self, value: float | None) -> float | None:
        """Return how many scales a value is from the mean, five at most."""
        if value is None or not math.isfinite(value):
            return None
        return max(-_FARTHEST, min(_FARTHEST, (value - self.mean) / self.scale))


class RatedKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many rated turns or dialogues were of a kind, and the quantiles of their scores."""

    n: Annotated[int, msgspec.Meta(ge=0)]
    quantiles: Annotated[tuple[Number, ...], msgspec.Meta(min_length=2, max_length=1001)]

    def percentile(self, value: float) -> float:
        """Return the share of scores below a value, in percent, between quantiles by a straight line."""
        marks = self.quantiles
        place = bisect.bisect_right(marks, value)
        if place in (0, len(marks)):
            return 100.0 if place else 0.0
        low, high = marks[place - 1], marks[place]
        return 100.0 * (place - 1 + (value - low) / (high - low)) / (len(marks) - 1)


@dataclass(frozen=True)
class Blend:
    """The terms of each level, what the rated ones of each kind were given, and the artefact's hash."""

    terms: Mapping[Level, tuple[Term, ...]]
    rated: Mapping[Level, Mapping[Kind, RatedKind]] = field(default_factory=dict)
    sha: str = ""

    @classmethod
    def load(cls, name: str | Path) -> "Blend":
        """Load a blend by folder, shipped name, pulled name or Hub id; one per process."""
        return _loaded(str(resolve(name)))

    def adds(self, level: Level, parts: Parts, shares: Shares) -> dict[str, float]:
        """Return what each part adds to the score, which is their sum."""
        return {term.part: term.adds(parts.get(term.part), shares) for term in self.terms[level]}

    def score(self, level: Level, parts: Parts, shares: Shares) -> float:
        """Return the sum of what the parts add."""
        return sum(self.adds(level, parts, shares).values())

    def percentile(self, level: Level, value: float, shares: Shares) -> float | None:
        """Return the share of rated ones of the same kinds with a lower score, in percent.

        >>> blend = Blend({}, {"turn": {"chat": RatedKind(40, (-1.0, 0.0, 1.0))}})
        >>> blend.percentile("turn", 0.5, {"chat": 1.0})
        75.0
        """
        known = self.rated.get(level, {})
        found = total = 0.0
        for kind, share in shares.items():
            if kind in known:
                found += share * known[kind].percentile(value)
                total += share
        return found / total if total else None

    def is_validated(self, level: Level, kind: Kind) -> bool:
        """Whether enough of a kind was rated to say that its weights were tried on it."""
        known = self.rated.get(level, {}).get(kind)
        return known is not None and known.n >= VALIDATED

    def lowest(self, level: Level) -> dict[str, float]:
        """Return for each part the value below which it counts no less: five scales under its mean."""
        return {term.part: term.mean - _FARTHEST * term.scale for term in self.terms[level]}

    def fields(self) -> dict[str, Any]:
        """Return what `config.json` keeps of it."""
        return {"levels": msgspec.to_builtins(self.terms), "rated_kinds": msgspec.to_builtins(self.rated)}


@dataclass(frozen=True)
class RatedParts:
    """The parts of everything that was rated in one set, a row each, the ratings, and the kinds."""

    parts: list[Parts]
    ratings: list[float]
    shares: list[Shares]


def fit_terms(
    names: Sequence[str],
    sets: Sequence[RatedParts],
    priors: Priors,
    scales: Mapping[str, tuple[float, float]],
) -> tuple[Term, ...]:
    """Fit the terms of one level to ratings; each set counts alike, and so does its spread of parts.

    `scales` has mean and scale of parts that no set may have.

    >>> ratings = [1.0, 2.0, 3.0, 4.0, 5.0]
    >>> rows = [{"coherence": value / 5, "tone": 1.0} for value in ratings]
    >>> table = RatedParts(rows, ratings, [{"chat": 1.0}] * 5)
    >>> found = fit_terms(["coherence", "tone"], [table], {"chat": {"coherence": 0.1, "tone": 0.1}}, {})
    >>> [(term.part, term.mean, term.weights["chat"]) for term in found]
    [('coherence', 0.6, 0.3077), ('tone', 1.0, 0.1)]
    """
    columns = [_columns(names, one.parts) for one in sets]
    known = [[column[~np.isnan(column)] for column in one] for one in columns]
    terms = []
    for number, name in enumerate(names):
        some = [one[number] for one in known if one[number].size]
        mean, scale = scales.get(name, (0.0, 1.0))
        if some:
            mean = float(np.mean([one.mean() for one in some]))
            scale = math.sqrt(float(np.mean([np.mean((one - mean) ** 2) for one in some])))
        terms.append(Term(name, round(mean, _DIGITS), round(scale, _DIGITS) or 1.0, {}))
    tables = [
        (_rows(terms, one), _standard(given.ratings), share_rows(given.shares))
        for one, given in zip(columns, sets, strict=True)
        if len(given.ratings) > 1
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
    """Return the quantiles of the scores of what was rated of each kind; of all, where few are of it."""
    scores = np.array(
        [blend.score(level, *one) for given in sets for one in zip(given.parts, given.shares, strict=True)]
    )
    kinds = np.concatenate([share_rows(given.shares) for given in sets]).argmax(1)
    sizes = np.concatenate([np.full(len(given.ratings), 1.0 / len(given.ratings)) for given in sets])
    found: dict[Kind, RatedKind] = {}
    for number, kind in enumerate(KINDS):
        own = kinds == number
        chosen = own if own.sum() >= VALIDATED else np.ones(len(kinds), bool)
        marks = _quantiles(scores[chosen], sizes[chosen])
        found[kind] = RatedKind(int(own.sum()), marks)
    return found


def _quantiles(values: Floats, sizes: Floats) -> tuple[float, ...]:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(sizes[order]) / sizes.sum()
    marks = np.interp(np.linspace(0.0, 1.0, _STEPS + 1), reached, values[order])
    return tuple(round(float(one), _DIGITS) for one in marks)


def share_rows(shares: Sequence[Shares]) -> Floats:
    """Return shares of kinds as rows, in the order of `KINDS`."""
    return np.array([[one.get(kind, 0.0) for kind in KINDS] for one in shares], np.float64)


def _columns(names: Sequence[str], parts: Sequence[Parts]) -> list[Floats]:
    def number(value: float | None) -> float:
        return math.nan if value is None else value

    return [np.array([number(one.get(name)) for one in parts], np.float64) for name in names]


def _rows(terms: Sequence[Term], columns: Sequence[Floats]) -> Floats:
    far = [(column - term.mean) / term.scale for term, column in zip(terms, columns, strict=True)]
    return np.asarray(np.clip(np.nan_to_num(np.stack(far, axis=1)), -_FARTHEST, _FARTHEST))


def _standard(ratings: Sequence[float]) -> Floats:
    values = np.asarray(ratings, np.float64)
    return np.asarray((values - values.mean()) / (values.std() or 1.0))


Terms = Annotated[tuple[Term, ...], msgspec.Meta(max_length=100)]


class _Levels(msgspec.Struct, forbid_unknown_fields=True):
    turn: Terms
    dialogue: Terms


class _RatedLevels(msgspec.Struct, forbid_unknown_fields=True):
    turn: dict[Kind, RatedKind] = {}
    dialogue: dict[Kind, RatedKind] = {}


@functools.lru_cache(maxsize=8)
def _loaded(folder: str) -> Blend:
    artefact = load(folder, KIND)
    place = artefact.folder / CONFIG
    levels = read_setting(artefact.config, "levels", _Levels, place)
    rated = read_setting(artefact.config, "rated_kinds", _RatedLevels, place)
    return Blend(
        {"turn": levels.turn, "dialogue": levels.dialogue},
        {"turn": rated.turn, "dialogue": rated.dialogue},
        artefact.sha,
    )
