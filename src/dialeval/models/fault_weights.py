"""The probability of each fault, from a few features of a reply, weighed by logistic regression.

Weights are never below zero, so more of what speaks for a fault never makes it less likely. They were fitted
on replies that the reader had not seen, as if one reply in ten had the fault. From a fault's threshold on, it
counts. Thresholds are set together, so that one good reply in twenty counts as faulty in any way.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dialeval.errors import DataError

FAULTS: Mapping[str, tuple[str, ...]] = {
    "contradicts-itself": ("own-contradicts", "alike", "displeased"),
    "contradicts-user": ("user-contradicts", "displeased"),
    "ignores": ("ignores", "off-topic", "misfit", "displeased"),
    "off-topic": ("off-topic", "ignores", "misfit", "displeased"),
    "repeats": ("repeats", "alike", "overlap", "displeased"),
    "unsupported": ("unknown", "new-words", "new-numbers", "denied"),
    "nonsense": ("nonsense", "displeased"),
    "unkind": ("unkind", "displeased"),
}
"""The learned faults, and the features that speak for each, the first of which has to be there."""
_ABSENT = {"own-contradicts": -5.0, "repeats": -5.0, "user-contradicts": -5.0, "displeased": 0.25}
_BOUNDS = {
    "displeased": (0.0, 3.0),
    "new-numbers": (0.5, None),
    "misfit": (4.0, None),
    "unknown": (5.0, None),
    "new-words": (2.0, None),
    "denied": (0.0, 0.6),
}
"""Limits of weights: a displeased user speaks for a fault, but hardly for which; a number that is nowhere at
hand speaks for an invention, though most of the pairs that weights are fitted on have none; and a reply far
from what it answers is suspect whatever the reader says, which knows fewer kinds of bots than there are."""
PRIOR = 0.1  # the share of faulty replies that weights are fitted for
FALSE_ALARMS = 0.05  # the share of good replies of which any fault counts
_ENOUGH = 50  # good replies to set a threshold by


@dataclass(frozen=True)
class Weights:
    """The weights of one fault's features, the constant, and the probability from which the fault counts."""

    features: Mapping[str, float]
    constant: float
    threshold: float = 0.5

    def probability(self, values: Mapping[str, float]) -> float:
        """Return the probability of the fault.

        >>> round(Weights({"nonsense": 1.0}, -1.0).probability({"nonsense": 1.0}), 2)
        0.5
        """
        total = self.constant + sum(
            weight * values.get(name, _ABSENT.get(name, 0.0)) for name, weight in self.features.items()
        )
        return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, total))))


def set_thresholds(weights: Mapping[str, Weights], good: Sequence[Mapping[str, float]]) -> dict[str, Weights]:
    """Return weights with the lowest thresholds at which few of these good replies count as faulty.

    Each fault alone is counted for the same number of them. Few replies set nothing.

    >>> good = [{"nonsense": n / 50 - 1, "unkind": 1 - n / 50} for n in range(101)]
    >>> weights = {name: Weights({name: 1.0}, 0.0) for name in ("nonsense", "unkind")}
    >>> [weights.threshold for weights in set_thresholds(weights, good).values()]
    [0.7232, 0.7232]
    """
    if len(good) < _ENOUGH:
        return dict(weights)
    table = np.array([[_known(weights[fault], fault, values) for fault in weights] for values in good])
    highest = -np.sort(-table, axis=0)
    for counted in range(int(FALSE_ALARMS * len(good)), -1, -1):
        limits = highest[counted]  # so many replies are above it
        if (table > limits).any(axis=1).mean() <= FALSE_ALARMS:
            break
    return {
        fault: replace(weights[fault], threshold=math.ceil(limit * 1e4 + 1e-6) / 1e4)
        for fault, limit in zip(weights, limits.tolist(), strict=True)
    }


def _known(weights: Weights, fault: str, values: Mapping[str, float]) -> float:
    """Return the probability of a fault, 0 where it is not looked for."""
    needed = FAULTS[fault][0]
    return 0.0 if needed not in values and needed not in _ABSENT else weights.probability(values)


def read_weights(config: Mapping[str, Any], file: Path) -> dict[str, Weights]:
    """Read the weights of all faults from an artefact's configuration, refusing anything else."""
    found = config.get("weights")
    if not isinstance(found, dict) or set(found) != set(FAULTS):
        raise DataError(f"needs weights for {', '.join(FAULTS)}", file=file, field="weights")
    made = {}
    for fault, features in FAULTS.items():
        given = found[fault]
        named = (*features, "constant", "threshold")
        numbers = [given.get(name) for name in named] if isinstance(given, dict) else [None]
        if not all(isinstance(one, int | float) and math.isfinite(one) for one in numbers):
            raise DataError(
                f"needs finite numbers for {', '.join(named)}", file=file, field=f"weights.{fault}"
            )
        *weights, constant, threshold = (float(given[name]) for name in named)
        made[fault] = Weights(dict(zip(features, weights, strict=True)), constant, threshold)
    return made


def plain_weights() -> dict[str, Weights]:
    """Return weights for a reader that nothing was fitted on yet: the first feature of each fault."""
    return {
        fault: Weights({name: float(name == some[0]) for name in some}, 0.0) for fault, some in FAULTS.items()
    }


def weight_fields(weights: Mapping[str, Weights]) -> dict[str, dict[str, float]]:
    """Return weights as a configuration keeps them."""
    return {
        fault: {**found.features, "constant": found.constant, "threshold": found.threshold}
        for fault, found in weights.items()
    }


def fit_weights(
    fault: str,
    rows: Sequence[Mapping[str, float]],
    labels: Iterable[float],
    weight: Iterable[float],
    penalty: float = 0.01,
) -> Weights:
    """Fit the weights of a fault, none below zero, as if `PRIOR` of all replies had it."""
    from scipy.optimize import minimize

    names = FAULTS[fault]
    table = np.array([[row.get(name, _ABSENT.get(name, 0.0)) for name in names] for row in rows])
    wrong, counts = np.array(list(labels), float), np.array(list(weight), float)
    share = float(counts[wrong > 0.5].sum() / counts.sum())
    if not 0 < share < 1:
        told = f"no reply with {fault}, or none without it, to fit its weights on"
        raise DataError(told, fix="give more dialogues")
    counts = counts * np.where(wrong > 0.5, PRIOR / share, (1 - PRIOR) / (1 - share))
    counts /= counts.sum()
    scale = np.where(table.std(0) > 1e-6, table.std(0), np.inf)  # a constant says nothing
    scaled = table / scale

    def loss(values: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        total = scaled @ values[:-1] + values[-1]
        cost = counts @ (np.logaddexp(0.0, total) - wrong * total) + penalty * PRIOR * (
            values[:-1] @ values[:-1]
        )
        off = counts * (1.0 / (1.0 + np.exp(-total)) - wrong)
        return float(cost), np.concatenate([off @ scaled + 2 * penalty * PRIOR * values[:-1], [off.sum()]])

    limits = [_BOUNDS.get(name, (0.0, None)) for name in names]
    bounds = [
        (low * unit, None if high is None else high * unit) if np.isfinite(unit) else (0.0, 0.0)
        for (low, high), unit in zip(limits, scale, strict=True)
    ] + [(None, None)]
    found = minimize(loss, np.zeros(len(names) + 1), jac=True, bounds=bounds, method="L-BFGS-B").x
    weights = {name: round(float(value), 6) for name, value in zip(names, found[:-1] / scale, strict=True)}
    return Weights(weights, round(float(found[-1]), 6))
