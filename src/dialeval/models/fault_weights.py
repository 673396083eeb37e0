"""The probability of each fault, by logistic regression on a few features of a reply.

Weights are not negative, and fitted on held-out replies with a prior of one fault in ten replies. A fault
counts from its threshold on; thresholds are set together, such that one good reply in twenty counts as
faulty.
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
"""The learned faults, and the features of each; the first one is required."""
ABSENT = {"own-contradicts": -5.0, "repeats": -5.0, "user-contradicts": -5.0, "displeased": 0.25}
_BOUNDS = {
    "displeased": (0.0, 3.0),
    "new-numbers": (0.5, None),
    "misfit": (4.0, None),
    "unknown": (5.0, None),
    "new-words": (2.0, None),
    "denied": (0.0, 0.6),
}
"""Bounds of weights: a displeased user is evidence for a fault, but not for which; a number without a source
is evidence for an invention, though rare in the training pairs; and a reply that is dissimilar to the turn it
answers is suspect even where the reader, trained on few kinds of bots, finds nothing."""
PRIOR = 0.1  # the prior share of faulty replies
FALSE_ALARMS = 0.05  # the share of good replies with any fault
_ENOUGH = 50  # good replies needed to set thresholds


@dataclass(frozen=True)
class Weights:
    """The weights of one fault's features, the intercept, and the threshold of the probability."""

    features: Mapping[str, float]
    constant: float
    threshold: float = 0.5

    def probability(self, values: Mapping[str, float]) -> float:
        """Return the probability of the fault.

        >>> round(Weights({"nonsense": 1.0}, -1.0).probability({"nonsense": 1.0}), 2)
        0.5
        """
        total = self.constant + sum(
            weight * values.get(name, ABSENT.get(name, 0.0)) for name, weight in self.features.items()
        )
        return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, total))))


def set_thresholds(weights: Mapping[str, Weights], good: Sequence[Mapping[str, float]]) -> dict[str, Weights]:
    """Return weights with the lowest thresholds at which few of these good replies count as faulty.

    Each fault has the same number of false alarms. Too few replies set no thresholds.

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
    """Return the probability of a fault; 0 if its required feature is missing."""
    needed = FAULTS[fault][0]
    return 0.0 if needed not in values and needed not in ABSENT else weights.probability(values)


def read_weights(config: Mapping[str, Any], file: Path) -> dict[str, Weights]:
    """Return the weights of all faults in an artefact's configuration; raises if they are invalid."""
    stored = config.get("weights")
    if not isinstance(stored, dict) or set(stored) != set(FAULTS):
        raise DataError(f"needs weights for {', '.join(FAULTS)}", file=file, field="weights")
    by_fault = {}
    for fault, features in FAULTS.items():
        fields = stored[fault]
        named = (*features, "constant", "threshold")
        numbers = [fields.get(name) for name in named] if isinstance(fields, dict) else [None]
        if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
            raise DataError(
                f"needs finite numbers for {', '.join(named)}", file=file, field=f"weights.{fault}"
            )
        *weights, constant, threshold = (float(fields[name]) for name in named)
        by_fault[fault] = Weights(dict(zip(features, weights, strict=True)), constant, threshold)
    return by_fault


def plain_weights() -> dict[str, Weights]:
    """Return the weights of an unfitted reader: the first feature of each fault."""
    return {
        fault: Weights({name: float(name == names[0]) for name in names}, 0.0)
        for fault, names in FAULTS.items()
    }


def weight_fields(weights: Mapping[str, Weights]) -> dict[str, dict[str, float]]:
    """Return weights as fields of a configuration."""
    return {
        fault: {**fitted.features, "constant": fitted.constant, "threshold": fitted.threshold}
        for fault, fitted in weights.items()
    }


def fit_weights(
    fault: str,
    rows: Sequence[Mapping[str, float]],
    labels: Iterable[float],
    weight: Iterable[float],
    penalty: float = 0.01,
) -> Weights:
    """Fit the non-negative weights of a fault, with `PRIOR` as its share."""
    from scipy.optimize import minimize

    names = FAULTS[fault]
    table = np.array([[row.get(name, ABSENT.get(name, 0.0)) for name in names] for row in rows])
    wrong, counts = np.array(list(labels), float), np.array(list(weight), float)
    share = float(counts[wrong > 0.5].sum() / counts.sum())
    if not 0 < share < 1:
        message = f"no reply with {fault}, or none without it, to fit its weights on"
        raise DataError(message, fix="give more dialogues")
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
    solution = minimize(loss, np.zeros(len(names) + 1), jac=True, bounds=bounds, method="L-BFGS-B").x
    weights = {name: round(float(value), 6) for name, value in zip(names, solution[:-1] / scale, strict=True)}
    return Weights(weights, round(float(solution[-1]), 6))
