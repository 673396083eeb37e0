"""Heads that are solved for, not walked to: least squares with a penalty, in one pass over the examples.

Where labels are mostly noise, as what users say next is, a strong penalty is worth more than any layer: it
keeps the direction in which the target grows and forgets the rest.
"""

from collections.abc import Sequence

import numpy as np

from dialeval.errors import UsageError
from dialeval.models.training.examples import VectorExample, target_arrays
from dialeval.models.training.networks import VectorNetwork, stack

_ROWS = 4096  # examples multiplied at a time


def solve_heads(network: VectorNetwork, examples: Sequence[VectorExample], penalty: float) -> None:
    """Give each head of a network without layers the weights of ridge regression.

    The penalty is for features as the network standardises them, and for the mean squared error, so that it
    means the same for a thousand examples and for a million.

    >>> from dialeval.models.heads import Head
    >>> from dialeval.models.training import Settings
    >>> rows = [VectorExample(np.array([float(x)]), {"quality": 2.0 * x}) for x in range(5)]
    >>> network = VectorNetwork.fitting(rows, [Head("quality", "regression")], Settings(), hidden=())
    >>> solve_heads(network, rows, penalty=1.0)
    >>> [round(part.item(), 3) for part in network.tops[0].parameters()]
    [1.414, 4.0]
    """
    import torch

    if network.hidden or any(head.kind != "regression" for head in network.heads):
        raise UsageError("only heads that give a number, with no layer below them, can be solved for")
    features = stack(examples, len(network.mean))
    mean, scale = network.mean.numpy().astype(np.float64), network.scale.numpy().astype(np.float64)
    weights = np.array([example.weight for example in examples], np.float64)
    for top, (_, targets) in zip(network.tops, target_arrays(examples, network.heads).items(), strict=True):
        known = np.flatnonzero(~np.isnan(targets) & (weights > 0))
        if not len(known):
            continue  # the loop says so
        share = weights[known] / weights[known].sum()
        centre = float(share @ targets[known])
        products, along = np.zeros((len(mean), len(mean))), np.zeros(len(mean))
        for start in range(0, len(known), _ROWS):
            some = slice(start, start + _ROWS)
            rows = (features[known[some]] - mean) / scale
            products += (rows * share[some, None]).T @ rows
            along += (share[some] * (targets[known[some]] - centre)) @ rows
        solved = np.linalg.solve(products + penalty * np.eye(len(mean)), along)
        weight, bias = top.parameters()
        with torch.no_grad():
            weight.copy_(torch.from_numpy(solved)[None])
            bias.fill_(centre)
