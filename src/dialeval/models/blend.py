"""Blends: a few parts, each standardised, weighed and added, so that a score says what it is made of.

Nothing below zero is a weight, so more of a part never makes a score worse. What a part is, the metric knows;
a blend has only its name, its mean, its scale and its weight, for turns and for dialogues apart.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
import numpy as np

from dialeval.models.artefact import CONFIG, load, resolve
from dialeval.models.untrusted import read_setting
from dialeval.statistics.estimate import Floats
from dialeval.statistics.regression import blend_weights

KIND = "blend.v1"
Level = Literal["turn", "dialogue"]
LEVELS: tuple[Level, ...] = get_args(Level)
Parts = Mapping[str, float | None]
_FARTHEST = 5.0  # scales from the mean: no single part decides a score by being absurd
_MOST = 1e300  # what no float can hold is no number


class Term(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a blend: how it is standardised, and what a scale of it adds to the score."""

    part: str
    mean: Annotated[float, msgspec.Meta(gt=-_MOST, lt=_MOST)]
    scale: Annotated[float, msgspec.Meta(gt=0, lt=_MOST)]
    weight: Annotated[float, msgspec.Meta(ge=0, lt=_MOST)]

    def adds(self, value: float | None) -> float:
        """Return what the part adds; one that is not known is taken to be average.

        >>> Term("coherence", 0.5, 0.25, 0.3).adds(0.75), Term("coherence", 0.5, 0.25, 0.3).adds(None)
        (0.3, 0.0)
        """
        if value is None or not math.isfinite(value):
            return 0.0
        far = (value - self.mean) / self.scale
        return self.weight * max(-_FARTHEST, min(_FARTHEST, far))


@dataclass(frozen=True)
class Blend:
    """The terms of each level, and the hash of the artefact they come from."""

    terms: Mapping[Level, tuple[Term, ...]]
    sha: str = ""

    @classmethod
    def load(cls, name: str | Path) -> "Blend":
        """Load a blend by folder, shipped name, pulled name or Hub id; one per process."""
        return _loaded(str(resolve(name)))

    def adds(self, level: Level, parts: Parts) -> dict[str, float]:
        """Return what each part adds to the score, which is their sum."""
        return {term.part: term.adds(parts.get(term.part)) for term in self.terms[level]}

    def lowest(self, level: Level) -> dict[str, float]:
        """Return for each part the value below which it counts no less: five scales under its mean."""
        return {term.part: term.mean - _FARTHEST * term.scale for term in self.terms[level]}

    def fields(self) -> dict[str, Any]:
        """Return what `config.json` keeps of it."""
        return {"levels": msgspec.to_builtins(self.terms)}


@dataclass(frozen=True)
class RatedParts:
    """The parts of everything that was rated in one set, a row each, and the ratings."""

    parts: Sequence[Parts]
    ratings: Sequence[float]


def fit_terms(names: Sequence[str], sets: Sequence[RatedParts], digits: int = 4) -> tuple[Term, ...]:
    """Fit the terms of one level to ratings; each set counts alike, and so does its spread of parts.

    >>> ratings = [1.0, 2.0, 3.0, 4.0, 5.0]
    >>> rows = [{"coherence": value / 5, "tone": 1.0} for value in ratings]
    >>> found = fit_terms(["coherence", "tone"], [RatedParts(rows, ratings)])
    >>> [(term.part, term.mean, term.weight) for term in found]
    [('coherence', 0.6, 0.19), ('tone', 1.0, 0.1)]
    """
    columns = [_columns(names, one.parts) for one in sets]
    known = [[column[~np.isnan(column)] for column in one] for one in columns]
    terms = []
    for number, name in enumerate(names):
        some = [one[number] for one in known if one[number].size]
        mean = float(np.mean([one.mean() for one in some])) if some else 0.0
        scale = math.sqrt(float(np.mean([np.mean((one - mean) ** 2) for one in some]))) if some else 0.0
        terms.append(Term(name, round(mean, digits), round(scale, digits) or 1.0, 1.0))
    tables = [(_rows(terms, one), _standard(given.ratings)) for one, given in zip(columns, sets, strict=True)]
    weights = blend_weights([(rows, targets) for rows, targets in tables if len(targets) > 1])
    return tuple(
        Term(term.part, term.mean, term.scale, round(float(weight), digits))
        for term, weight in zip(terms, weights, strict=True)
    )


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


class _Levels(msgspec.Struct, forbid_unknown_fields=True):
    turn: Annotated[tuple[Term, ...], msgspec.Meta(max_length=100)]
    dialogue: Annotated[tuple[Term, ...], msgspec.Meta(max_length=100)]


@functools.lru_cache(maxsize=8)
def _loaded(folder: str) -> Blend:
    artefact = load(folder, KIND)
    levels = read_setting(artefact.config, "levels", _Levels, artefact.folder / CONFIG)
    return Blend({"turn": levels.turn, "dialogue": levels.dialogue}, artefact.sha)
