"""What each kind of head pays for being wrong. Labels that are not there cost nothing.

A step's loss is, for each head, the weighted mean over the examples of the whole step that have a label; the
totals behind the means are known before the first batch goes through the network. So the gradients of any
number of batches add up to the gradient of all of them at once.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dialeval.models.heads import Head
from dialeval.models.training.examples import Floats

if TYPE_CHECKING:
    import torch


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
