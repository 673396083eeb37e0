"""Blends: weighted sums of standardised parts, so that each score can be taken apart.

Weights are not negative, so more of a part never lowers a score. A part has a weight for each kind of
dialogue; a dialogue of several kinds gets the weighted mean. A blend has the mean, scale and weights of each
part, separately for turns and dialogues, and the quantiles of its scores on the units it was fitted to.
"""

import bisect
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

from dialeval.models.artefact import CONFIG, load, resolve
from dialeval.models.kinds import Kind
from dialeval.models.untrusted import read_setting

KIND = "blend.v2"
Level = Literal["turn", "dialogue"]
LEVELS: tuple[Level, ...] = get_args(Level)
Parts = Mapping[str, float | None]
Shares = Mapping[Kind, float]
Priors = Mapping[Kind, Mapping[str, float]]
VALIDATED = 30
"""Rated units of a kind from which its weights count as validated."""
FARTHEST = 5.0
"""Scales from the mean at which a value is clipped, so that no outlier of a part decides a score."""
_WORST = 2.5  # scales below the mean, in all parts at once
_MOST = 1e300  # what no float can hold is no number

Number = Annotated[float, msgspec.Meta(gt=-_MOST, lt=_MOST)]


class Term(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a blend: its mean and scale, its weight in each kind of dialogue, and whether it was rated.

    A part that no rated unit had takes no part in percentiles.
    """

    part: str
    mean: Number
    scale: Annotated[float, msgspec.Meta(gt=0, lt=_MOST)]
    weights: dict[Kind, Annotated[float, msgspec.Meta(ge=0, lt=_MOST)]]
    rated: bool = True

    def adds(self, value: float | None, shares: Shares) -> float:
        """Return the part's contribution to the score; 0 if its value is missing.

        >>> term = Term("coherence", 0.5, 0.25, {"chat": 0.3})
        >>> term.adds(0.75, {"chat": 1.0}), term.adds(0.75, {"chat": 0.5, "task": 0.5}), term.adds(None, {})
        (0.3, 0.15, 0.0)
        """
        far = self.standard(value)
        if far is None:
            return 0.0
        return far * sum(share * self.weights.get(kind, 0.0) for kind, share in shares.items())

    def standard(self, value: float | None) -> float | None:
        """Return the standardised value, clipped to ±5; None if it is missing."""
        if value is None or not math.isfinite(value):
            return None
        return max(-FARTHEST, min(FARTHEST, (value - self.mean) / self.scale))


class RatedKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The number of rated units of a kind, and the quantiles of their scores."""

    n: Annotated[int, msgspec.Meta(ge=0)]
    quantiles: Annotated[tuple[Number, ...], msgspec.Meta(min_length=2, max_length=1001)]

    def percentile(self, value: float) -> float:
        """Return the percentage of scores below a value, interpolated between quantiles."""
        marks = self.quantiles
        place = bisect.bisect_right(marks, value)
        if place in (0, len(marks)):
            return 100.0 if place else 0.0
        low, high = marks[place - 1], marks[place]
        return 100.0 * (place - 1 + (value - low) / (high - low)) / (len(marks) - 1)


@dataclass(frozen=True)
class Blend:
    """The terms of each level, the scores of rated units by kind, and the artefact's hash."""

    terms: Mapping[Level, tuple[Term, ...]]
    rated: Mapping[Level, Mapping[Kind, RatedKind]] = field(default_factory=dict)
    sha: str = ""

    @classmethod
    def load(cls, name: str | Path) -> "Blend":
        """Load a blend by folder, shipped name, pulled name or Hub id; one per process."""
        return _loaded(str(resolve(name)))

    def adds(self, level: Level, parts: Parts, shares: Shares) -> dict[str, float]:
        """Return the contribution of each part to the score."""
        return {term.part: term.adds(parts.get(term.part), shares) for term in self.terms[level]}

    def score(self, level: Level, parts: Parts, shares: Shares) -> float:
        """Return the sum of the contributions."""
        return sum(self.adds(level, parts, shares).values())

    def percentile(self, level: Level, parts: Parts, shares: Shares) -> float | None:
        """Return the share of rated ones of the same kinds with a lower score, in percent.

        Parts that none of those had are left out, so that like is compared with like.

        >>> terms = (Term("tone", 0.0, 1.0, {"chat": 1.0}), Term("new", 0.0, 1.0, {"chat": 1.0}, rated=False))
        >>> blend = Blend({"turn": terms}, {"turn": {"chat": RatedKind(40, (-1.0, 0.0, 1.0))}})
        >>> blend.percentile("turn", {"tone": 0.5, "new": 5.0}, {"chat": 1.0})
        75.0
        """
        known = self.rated.get(level, {})
        value = sum(term.adds(parts.get(term.part), shares) for term in self.terms[level] if term.rated)
        weighted = total = 0.0
        for kind, share in shares.items():
            if kind in known:
                weighted += share * known[kind].percentile(value)
                total += share
        return weighted / total if total else None

    def is_validated(self, level: Level, kind: Kind) -> bool:
        """Return whether a kind has enough ratings for its weights to count as validated."""
        known = self.rated.get(level, {}).get(kind)
        return known is not None and known.n >= VALIDATED

    def lowest(self, level: Level) -> dict[str, float]:
        """Return for each part a value as far below its mean as those of the worst rated replies together."""
        return {term.part: term.mean - _WORST * term.scale for term in self.terms[level]}

    def fields(self) -> dict[str, Any]:
        """Return the fields of `config.json`."""
        return {"levels": msgspec.to_builtins(self.terms), "rated_kinds": msgspec.to_builtins(self.rated)}


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
