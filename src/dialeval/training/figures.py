"""The loss that is minimised, and the dev figure that decides which weights are kept.

A recipe names the figure: `spearman`, the mean over all heads it fits, or `spearman:quality`, that of one
head. Any function from predictions and targets to a number does as well; higher is better. Predictions are
numbers, probabilities, or one probability for each class; a target that is not there is NaN.

The loss of a step is, for each head, the weighted mean over the examples of the whole step that have a label;
the totals behind the means are known before the first batch goes through the network. So the gradients of any
number of batches add up to the gradient of all of them at once.
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
    """A figure by name over some heads: the mean of those for which it is defined.

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
            known = [head.weight * loss for head, loss in losses if loss is not None]
            return -float(sum(known)) if known else None
        found = [_value(self.name, *_labelled(head, predictions, targets)) for head in self.heads]
        defined = [value for value in found if value is not None]
        return float(np.mean(defined)) if defined else None


def figure_named(spec: str, heads: Sequence[Head]) -> DevFigure:
    """Make the figure that `name` or `name:head` asks for.

    >>> figure_named("macro_f1:stop", [Head("quality", "regression"), Head("stop", "binary")]).heads[0].name
    'stop'
    """
    name, _, wanted = spec.partition(":")
    if name not in NAMES:
        raise UsageError(f"no dev figure {name!r}; known: {', '.join(NAMES)}")
    if wanted and wanted not in [head.name for head in heads]:
        raise UsageError(f"{spec}: no head {wanted!r}; there are: {', '.join(head.name for head in heads)}")
    chosen = tuple(
        head
        for head in heads
        if (not wanted or head.name == wanted) and head.kind in _FITS.get(name, (head.kind,))
    )
    if not chosen:
        raise UsageError(f"{spec}: no head of the kind {' or '.join(_FITS[name])}")
    return DevFigure(name, chosen)


def resolve(figure: str | Figure | None, heads: Sequence[Head]) -> Figure | None:
    """Take a figure as it is, or find it by its name."""
    return figure_named(figure, heads) if isinstance(figure, str) else figure


def figure_name(figure: Figure | None) -> str:
    """Name a figure for people and for fingerprints.

    >>> figure_name(DevFigure("spearman", (Head("quality", "regression"),)))
    'spearman:quality'
    """
    if isinstance(figure, DevFigure):
        return f"{figure.name}:{','.join(head.name for head in figure.heads)}"
    return "" if figure is None else str(getattr(figure, "__name__", type(figure).__name__))


def _labelled(
    head: Head, predictions: Mapping[str, Floats], targets: Mapping[str, Floats]
) -> tuple[Floats, Floats]:
    known = ~np.isnan(targets[head.name])
    return predictions[head.name][known], targets[head.name][known]


def _value(name: str, said: Floats, wanted: Floats) -> float | None:
    if not wanted.size:
        return None
    if name in ("pearson", "spearman"):
        return correlate(said, wanted, name).value
    chosen = said.argmax(axis=1) if said.ndim == 2 else (said >= 0.5).astype(np.intp)
    truth = wanted.astype(np.intp) if said.ndim == 2 else (wanted >= 0.5).astype(np.intp)
    return float((chosen == truth).mean()) if name == "accuracy" else _macro_f1(chosen, truth)


def _macro_f1(chosen: npt.NDArray[np.intp], truth: npt.NDArray[np.intp]) -> float:
    """Mean F1 of the classes that occur on either side."""
    scores = []
    for label in np.union1d(chosen, truth):
        both = np.sum((chosen == label) & (truth == label))
        scores.append(2 * both / (np.sum(chosen == label) + np.sum(truth == label)))
    return float(np.mean(scores))


def _loss(head: Head, said: Floats, wanted: Floats) -> float | None:
    if not wanted.size:
        return None
    if head.kind == "regression":
        return float(np.mean((said - wanted) ** 2))
    sure = np.clip(said, 1e-12, 1 - 1e-12)
    if head.kind == "binary":
        return float(-np.mean(wanted * np.log(sure) + (1 - wanted) * np.log(1 - sure)))
    return float(-np.mean(np.log(sure[np.arange(len(wanted)), wanted.astype(np.intp)])))


def totals(targets: Mapping[str, Floats], weights: Floats, places: Any) -> dict[str, float]:
    """Return the weight of the labelled examples of a step, for each head.

    >>> totals({"quality": np.array([1.0, np.nan, 3.0])}, np.array([1.0, 1.0, 0.5]), np.arange(3))
    {'quality': 1.5}
    """
    return {name: float(weights[places][~np.isnan(values[places])].sum()) for name, values in targets.items()}


def batch_loss(
    outputs: Mapping[str, "torch.Tensor"],
    targets: Mapping[str, Floats],
    weights: Floats,
    heads: Sequence[Head],
    whole: Mapping[str, float],
) -> "torch.Tensor | None":
    """Return a batch's part of the loss of its step; None if no head has a label in it.

    Args:
        outputs: What the network says, by head: one number a row, or one for each class.
        targets: The labels of the same rows, NaN where there is none.
        weights: What each row counts.
        heads: The heads and their shares.
        whole: The `totals` of the step.
    """
    import torch

    sums = []
    for head in heads:
        labelled = np.flatnonzero(~np.isnan(targets[head.name]))
        if not labelled.size or not whole[head.name]:
            continue
        said = outputs[head.name]
        rows = torch.from_numpy(labelled).to(said.device)
        wanted = torch.from_numpy(targets[head.name][labelled]).to(said.device)
        counted = torch.from_numpy(weights[labelled]).to(said.device, said.dtype)
        errors = _errors(head, said.index_select(0, rows), wanted)
        sums.append((errors * counted).sum() * (head.weight / whole[head.name]))
    return torch.stack(sums).sum() if sums else None


def _errors(head: Head, said: "torch.Tensor", wanted: "torch.Tensor") -> "torch.Tensor":
    from torch.nn import functional

    if head.kind == "classes":
        return functional.cross_entropy(said, wanted.long(), reduction="none")
    if head.kind == "binary":
        return functional.binary_cross_entropy_with_logits(said, wanted.to(said.dtype), reduction="none")
    return (said - wanted.to(said.dtype)) ** 2
