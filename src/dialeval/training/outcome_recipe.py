"""The recipe `outcome`: how likely an agent reached its user's goal, learned from verified outcomes.

Logistic regression with an intercept for each agent, so that the weights say what tells good from bad
dialogues of one agent, not good agents from bad ones. No weight is below zero (more of a feature is better by
its name), and that of `brief` is not below `_BRIEF`: that shorter is better is known from other domains.
Then one line (Platt) makes probabilities of the sums that agents get from the weights of the others.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dialeval.dialogues import Dialogue, in_blocks
from dialeval.errors import DataError, UsageError
from dialeval.metrics.outcome import FEATURES, HEAD, KIND, rows_of, stacked
from dialeval.models import reactions
from dialeval.models.heads import readable
from dialeval.models.reactions import Reactions
from dialeval.statistics.correlation import auc
from dialeval.training.examples import Floats, VectorExample, stack
from dialeval.training.recipe import AT_ONCE, Recipe
from dialeval.training.ridge import RidgeHeads, standardisation
from dialeval.training.settings import TrainingSettings

_BRIEF = 0.4  # least weight of `brief`, standardised
_FOLDS = 5  # where all outcomes are of one agent
LABELS = ("success", "resolved")
"""Names of feedback that is taken for the outcome; else the `reward` of a trial, of which 1 is a success."""


@dataclass(frozen=True, eq=False)
class OutcomeExample(VectorExample):
    """A dialogue described, its outcome, and whose it is."""

    agent: str = ""


class OutcomeHeads(RidgeHeads):
    """Fitted weights; they answer with probabilities."""

    def predict(self, examples: Sequence[VectorExample]) -> dict[str, Floats]:
        """Return the probability of success of each example."""
        return {HEAD.name: readable(HEAD, super().predict(examples)[HEAD.name])}


def recipe(encoder: str | None = None) -> Recipe:
    """Success of an agent, from domain-independent features.

    Args:
        encoder: None: reactions are read by the shipped encoder.
    """
    if encoder is not None:
        raise UsageError("outcome reads users' reactions by the shipped encoder: leave --encoder out")
    mood = Reactions.load()
    return Recipe(
        name="outcome",
        examples=_examples,
        network=lambda examples, settings: fit_outcome(examples, settings.weight_decay),
        dev_figure=_auc,
        settings=TrainingSettings(epochs=0, weight_decay=0.03),
        about="Says how likely it is that an agent with tools reached its user's goal.",
        fields={"features": list(FEATURES), "reactions": {"name": reactions.DEFAULT, "sha": mood.sha}},
        kind=KIND,
        ridge=True,
    )


def _auc(predictions: Mapping[str, Floats], targets: Mapping[str, Floats]) -> float | None:
    return auc(predictions[HEAD.name], targets[HEAD.name]).value


_auc.__name__ = "auc"


def outcome_of(dialogue: Dialogue) -> float | None:
    """Return the verified outcome of a dialogue, 1 or 0, where it has one.

    >>> outcome_of(Dialogue("d", (), feedback={"resolved": 1.0})), outcome_of(Dialogue("d", ()))
    (1.0, None)
    """
    feedback = next((dialogue.feedback[name] for name in LABELS if name in dialogue.feedback), None)
    reward = dialogue.meta.get("reward") if feedback is None else feedback
    return float(reward >= 1 - 1e-6) if isinstance(reward, int | float) else None


def _examples(dialogues: Iterable[Dialogue]) -> Iterator[OutcomeExample]:
    for block in in_blocks(dialogues, AT_ONCE):
        labelled = [
            (dialogue, outcome) for dialogue in block if (outcome := outcome_of(dialogue)) is not None
        ]
        rows = stacked(rows_of([dialogue for dialogue, _ in labelled]), FEATURES)
        for row, (dialogue, outcome) in zip(rows, labelled, strict=True):
            yield OutcomeExample(row, {HEAD.name: outcome}, agent=dialogue.system or "")


def fit_outcome(examples: Sequence[OutcomeExample], penalty: float) -> OutcomeHeads:
    """Fit weights within agents, then the line that makes probabilities of what they say."""
    features = stack(examples)
    outcomes = np.array([example.targets[HEAD.name] for example in examples], np.float64)
    agents = np.unique([example.agent for example in examples], return_inverse=True)[1]
    if len(np.unique(outcomes)) < 2:
        raise DataError("all outcomes are the same: there is nothing to learn from")
    mean, scale = standardisation(features)
    rows = (features.astype(np.float64) - mean) / scale
    weights = within_weights(rows, outcomes, agents, penalty)
    folds = agents if agents.max() >= 2 else np.arange(len(rows)) % _FOLDS
    sums = np.empty(len(rows))
    for fold in np.unique(folds):
        held_out = folds == fold
        sums[held_out] = rows[held_out] @ within_weights(
            rows[~held_out], outcomes[~held_out], agents[~held_out], penalty
        )
    slope, level = _line(sums, outcomes)
    fitted = (slope * weights).astype(np.float32)
    return OutcomeHeads((HEAD,), mean, scale, {HEAD.name: fitted}, {HEAD.name: level})


def within_weights(
    rows: npt.NDArray[np.float64],
    outcomes: npt.NDArray[np.float64],
    agents: npt.NDArray[np.intp],
    penalty: float,
) -> npt.NDArray[np.float64]:
    """Return the weights of standardised features, none below its bound, beside agents' intercepts."""
    bounds = [_BRIEF if name == "brief" else 0.0 for name in FEATURES]
    owners = np.eye(agents.max() + 1)[agents]
    design = np.hstack([rows, owners])
    shrunk = np.r_[np.full(rows.shape[1], penalty), np.full(owners.shape[1], 1e-3 / len(rows))]
    free = [*((low, None) for low in bounds), *[(None, None)] * owners.shape[1]]
    return _minimum(design, outcomes, shrunk, free)[: rows.shape[1]]


def _line(sums: npt.NDArray[np.float64], outcomes: npt.NDArray[np.float64]) -> tuple[float, float]:
    design = np.column_stack([sums, np.ones(len(sums))])
    slope, level = _minimum(design, outcomes, np.full(2, 1e-6), [(0.0, None), (None, None)])
    return float(slope), float(level)


def _minimum(
    design: npt.NDArray[np.float64],
    outcomes: npt.NDArray[np.float64],
    penalty: npt.NDArray[np.float64],
    bounds: Sequence[tuple[float | None, float | None]],
) -> npt.NDArray[np.float64]:
    """Minimise the mean logistic loss with a ridge penalty within bounds."""
    from scipy.optimize import minimize

    def loss(weights: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        sums = design @ weights
        gap = readable(HEAD, sums) - outcomes
        value = np.logaddexp(0.0, sums).mean() - (outcomes * sums).mean() + penalty @ weights**2 / 2
        return float(value), design.T @ gap / len(outcomes) + penalty * weights

    start = np.array([low or 0.0 for low, _ in bounds])
    result = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 2000})
    return np.asarray(result.x, np.float64)
