"""The scale of a consensus corpus: what its own dialogues get when each is compared with the others.

Two parts of a score that spread differently cannot be weighed as they are: the one that spreads more decides
alone; and either depends on how long a dialogue is. Dialogues of the corpus, each left out in its turn, say
what either part is among good dialogues of the same length.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from dialeval import files
from dialeval.errors import DialevalError
from dialeval.models.artefact import home
from dialeval.models.consensus import Corpus, Described, Neighbours

Doubles = npt.NDArray[np.float64]
Compare = Callable[[Described], Iterable[tuple[Neighbours, Doubles, Doubles]]]
_LEAST = 1e-6  # a spread below it is none
_TOGETHER = 64


@dataclass(frozen=True)
class LengthTrend:
    """What corpus dialogues of some length get: a line in the logarithm of their tokens, and the spread."""

    level: float
    slope: float
    spread: float

    @classmethod
    def of(cls, values: Doubles, logs: Doubles) -> "LengthTrend":
        """Fit the line by least squares; where lengths do not vary it is flat.

        >>> LengthTrend.of(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 2.0]))
        LengthTrend(level=1.0, slope=1.0, spread=1e-06)
        """
        apart = logs - logs.mean() if len(logs) else logs
        square = float(apart @ apart)
        slope = float(apart @ values) / square if square > _LEAST else 0.0
        level = float(values.mean() - slope * logs.mean()) if len(logs) else 0.0
        rest = values - level - slope * logs
        return cls(
            round(level, 6), round(slope, 6), max(round(float(rest.std()), 6) if len(logs) else 0.0, _LEAST)
        )

    def count(self, values: Doubles, tokens: int) -> Doubles:
        """Return values in standard deviations from what a corpus dialogue of this length has."""
        return np.asarray((values - self.level - self.slope * np.log(max(1, tokens))) / self.spread)

    def __str__(self) -> str:
        return f"{self.level:.3f}{self.slope:+.3f}ln±{self.spread:.3f}"


@dataclass(frozen=True)
class Scale:
    """The lines of the largest `acts` and the largest `content` of corpus dialogues.

    >>> scale = Scale(LengthTrend(0.5, 0.0, 0.2), LengthTrend(0.2, 0.1, 0.05))
    >>> scale.acts.count(np.array([0.7]), 20).round(3), str(scale)
    (array([1.]), '0.500+0.000ln±0.200;0.200+0.100ln±0.050')
    """

    acts: LengthTrend
    content: LengthTrend

    def __str__(self) -> str:
        return f"{self.acts};{self.content}"


def corpus_scale(corpus: Corpus, size: int, made: str, compare: Compare) -> Scale:
    """Compare a fixed sample of a corpus with the rest of it; what was found is kept for other processes.

    Args:
        corpus: An open corpus.
        size: How many dialogues; all if there are fewer.
        made: The settings that the values depend on, beside the corpus and how it is described.
        compare: The references of dialogues, and the two parts for each; no dialogue is its own reference.
    """
    told = "|".join([corpus.index.sha, *corpus.names.values(), str(size), made])
    kept = home() / "scales" / f"{hashlib.sha256(told.encode()).hexdigest()[:16]}.json"
    if (found := _read(kept)) is not None:
        return found
    order = sorted(range(len(corpus)), key=lambda row: hashlib.sha256(corpus.ids[row].encode()).digest())
    acts, content, logs = list[float](), list[float](), list[float]()
    for start in range(0, min(size, len(order)), _TOGETHER):
        described = corpus.described(order[start : min(start + _TOGETHER, size)])
        for states, (near, by_acts, by_content) in zip(described.states, compare(described), strict=True):
            if near.rows and len(states):
                acts.append(float(by_acts.max()))
                content.append(float(by_content.max()))
                logs.append(float(np.log(len(states))))
    scale = Scale(*(LengthTrend.of(np.array(some), np.array(logs)) for some in (acts, content)))
    _keep(kept, scale)
    return scale


def _read(path: Path) -> Scale | None:
    """Return a kept scale; one that is not there, or damaged, is computed."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Scale)
    except (OSError, ValueError, RecursionError):
        return None
    return found if min(found.acts.spread, found.content.spread) >= _LEAST else None


def _keep(path: Path, scale: Scale) -> None:
    with contextlib.suppress(DialevalError), files.replacing(path) as file:  # else it is computed again
        file.write(msgspec.json.encode(scale))
