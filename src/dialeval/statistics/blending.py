"""Weights for a sum of parts: none below zero, and near to each other unless the ratings say otherwise."""

from collections.abc import Sequence

import numpy as np

from dialeval.errors import UsageError
from dialeval.statistics.estimate import Floats


def blend_weights(
    sets: Sequence[tuple[Floats, Floats]], *, penalty: float = 9.0, lean: float = 0.1
) -> Floats:
    """Weigh the columns of several tables so that their sum follows the targets of each.

    Every table counts alike, whatever its length; its own level is left out of account, so that a set whose
    raters are kind teaches nothing by that. The penalty draws each weight to `lean`: with little to learn
    from, all parts count the same, which travels better than what fits.

    Args:
        sets: For each table its rows of parts, standardised, and the targets, standardised in each table.
        penalty: How much it costs, beside the mean squared errors of the tables, to leave `lean`.
        lean: Where weights are drawn to.

    >>> rows = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
    >>> blend_weights([(rows, np.array([-1.3, -0.4, 0.4, 1.3]))], penalty=0.01).round(2)
    array([0.85, 0.  ])
    """
    from scipy.optimize import nnls

    if not sets:
        raise UsageError("weights need at least one table with ratings")
    width = sets[0][0].shape[1]
    left, right = [np.sqrt(penalty) * np.eye(width)], [np.full(width, np.sqrt(penalty) * lean)]
    for rows, targets in sets:
        share = len(targets) ** -0.5
        left.append(share * (rows - rows.mean(axis=0)))
        right.append(share * (targets - targets.mean()))
    found, _ = nnls(np.concatenate(left), np.concatenate(right))
    return np.asarray(found)
