"""The training loss, and the dev figure that selects the best weights.

A recipe names the figure: `spearman`, the mean over all heads it applies to, or `spearman:quality`, for one
head. Any function from predictions and targets to a number can be used too; higher is better. Predictions are
numbers, probabilities, or one probability for each class; a missing target is NaN.

The loss of a step is, for each head, the weighted mean over the labelled examples of the whole step; the sums
of weights are computed before the first batch. So the gradients of any number of batches add up to the
gradient of all of them at once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dialeval.errors import UsageError
from dialeval.models.heads import Head
from dialeval.statistics import correlate
from dialeval.training.examples import Floats

if TYPE_CHECKING:
    import torch

Figure: TypeAlias = Callable[[Mapping[str, Floats], Mapping[str, Floats]], float | None]
NAMES = ("pearson", "spearman", "accuracy", "macro_f1", "negative_loss")
_NUMBERS, _LABELS = ("regression", "binary"), ("binary", "classes")
_FITS = {"pearson": _NUMBERS, "spearman": _NUMBERS, "accuracy": _LABELS, "macro_f1": _LABELS}


@dataclass(frozen=True)
class DevFigure:
    """A named figure over some heads: the mean over the heads for which it is defined.

    >>> figure = figure_named("accuracy", [Head("stop", "binary")])
    >>> figure({"stop": np.array([0.2, 0.9, 0.6])}, {"stop": np.array([0.0, 1.0, np.nan])})
    1.0
    """

    name: str
    heads: tuple[Head, ...]

    def __call__(self, predictions: Mapping[str, Floats], targets: Mapping[str, Floats]) -> float | None:
        """Return the figure, or None where it is undefined: no label, or constant predictions."""
        if self.name == "negative_loss":
            losses = [(head, _loss(head, *_labelled(head, predictions, targets))) for head in self.heads]
            weighted = [head.weight * loss for head, loss in losses if loss is not None]
            return -float(sum(weighted)) if weighted else None
        values = [_value(self.name, *_labelled(head, predictions, targets)) for head in self.heads]
        defined = [value for value in values if value is not None]
        return float(np.mean(defined)) if defined else None


def figure_named(spec: str, heads: Sequence[Head]) -> DevFigure:
    """Return the figure named `name` or `name:head`.

    >>> figure_named("macro_f1:stop", [Head("quality", "regression"), Head("stop", "binary")]).heads[0].name
    'stop'
    """
    name, _, head_name = spec.partition(":")
    if name not in NAMES:
        raise UsageError(f"unknown dev figure {name!r}; known: {', '.join(NAMES)}")
    if head_name and head_name not in [head.name for head in heads]:
        raise UsageError(
            f"{spec}: no head {head_name!r}; there are: {', '.join(head.name for head in heads)}"
        )
    chosen = tuple(
        head
        for head in heads
        if (not head_name or head.name == head_name) and head.kind in _FITS.get(name, (head.kind,))
    )
    if not chosen:
        raise UsageError(f"{spec}: no head of the kind {' or '.join(_FITS[name])}")
    return DevFigure(name, chosen)


def resolve(figure: str | Figure | None, heads: Sequence[Head]) -> Figure | None:
    """Return a figure, given itself or its name."""
    return figure_named(figure, heads) if isinstance(figure, str) else figure


def figure_name(figure: Figure | None) -> str:
    """Return the name of a figure, for records and fingerprints.

    >>> figure_name(DevFigure("spearman", (Head("quality", "regression"),)))
    'spearman:quality'
    """
    if isinstance(figure, DevFigure):
        return f"{figure.name}:{','.join(head.name for head in figure.heads)}"
    return "" if figure is None else str(getattr(figure, "__name__", type(figure).__name__))


def _labelled(
    head: Head, predictions: Mapping[str, Floats], targets: Mapping[str, Floats]
) -> tuple[Floats, Floats]:
    labelled = ~np.isnan(targets[head.name])
    return predictions[head.name][labelled], targets[head.name][labelled]


def _value(name: str, predicted: Floats, target: Floats) -> float | None:
    if not target.size:
        return None
    if name in ("pearson", "spearman"):
        return correlate(predicted, target, name).value
    chosen = predicted.argmax(axis=1) if predicted.ndim == 2 else (predicted >= 0.5).astype(np.intp)
    truth = target.astype(np.intp) if predicted.ndim == 2 else (target >= 0.5).astype(np.intp)
    return float((chosen == truth).mean()) if name == "accuracy" else _macro_f1(chosen, truth)


def _macro_f1(chosen: npt.NDArray[np.intp], truth: npt.NDArray[np.intp]) -> float:
    """Return the mean F1 of the classes that are predicted or true."""
    scores = []
    for label in np.union1d(chosen, truth):
        both = np.sum((chosen == label) & (truth == label))
        scores.append(2 * both / (np.sum(chosen == label) + np.sum(truth == label)))
    return float(np.mean(scores))


def _loss(head: Head, predicted: Floats, target: Floats) -> float | None:
    if not target.size:
        return None
    if head.kind == "regression":
        return float(np.mean((predicted - target) ** 2))
    clipped = np.clip(predicted, 1e-12, 1 - 1e-12)
    if head.kind == "binary":
        return float(-np.mean(target * np.log(clipped) + (1 - target) * np.log(1 - clipped)))
    return float(-np.mean(np.log(clipped[np.arange(len(target)), target.astype(np.intp)])))


def totals(targets: Mapping[str, Floats], weights: Floats, places: Any) -> dict[str, float]:
    """Return the sum of weights of the labelled examples of a step, for each head.

    >>> totals({"quality": np.array([1.0, np.nan, 3.0])}, np.array([1.0, 1.0, 0.5]), np.arange(3))
    {'quality': 1.5}
    """
    return {name: float(weights[places][~np.isnan(values[places])].sum()) for name, values in targets.items()}


def batch_loss(
    outputs: Mapping[str, "torch.Tensor"],
    targets: Mapping[str, Floats],
    weights: Floats,
    heads: Sequence[Head],
    step_totals: Mapping[str, float],
) -> "torch.Tensor | None":
    """Return a batch's share of the loss of its step; None if no head has a label in it.

    Args:
        outputs: The network's outputs, by head: one number a row, or one for each class.
        targets: The labels of the same rows, NaN where there is none.
        weights: The weight of each row.
        heads: The heads and their weights.
        step_totals: The `totals` of the step.
    """
    import torch

    sums = []
    for head in heads:
        labelled = np.flatnonzero(~np.isnan(targets[head.name]))
        if not labelled.size or not step_totals[head.name]:
            continue
        predicted = outputs[head.name]
        rows = torch.from_numpy(labelled).to(predicted.device)
        target = torch.from_numpy(targets[head.name][labelled]).to(predicted.device)
        row_weights = torch.from_numpy(weights[labelled]).to(predicted.device, predicted.dtype)
        errors = _errors(head, predicted.index_select(0, rows), target)
        sums.append((errors * row_weights).sum() * (head.weight / step_totals[head.name]))
    return torch.stack(sums).sum() if sums else None


def _errors(head: Head, predicted: "torch.Tensor", target: "torch.Tensor") -> "torch.Tensor":
    from torch.nn import functional

    if head.kind == "classes":
        return functional.cross_entropy(predicted, target.long(), reduction="none")
    if head.kind == "binary":
        return functional.binary_cross_entropy_with_logits(
            predicted, target.to(predicted.dtype), reduction="none"
        )
    return (predicted - target.to(predicted.dtype)) ** 2
