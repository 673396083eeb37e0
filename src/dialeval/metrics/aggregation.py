"""How the turns of a dialogue become one figure."""

from collections.abc import Sequence
from typing import Literal

Aggregate = Literal["mean", "min", "last", "length"]


def aggregate(values: Sequence[float], lengths: Sequence[int], how: Aggregate) -> float:
    """Bring the scores of turns to one; `length` weighs each turn by its words.

    >>> [aggregate([1.0, 4.0], [3, 1], how) for how in ("mean", "min", "last", "length")]
    [2.5, 1.0, 4.0, 1.75]
    """
    if how == "mean":
        return sum(values) / len(values)
    if how == "min":
        return min(values)
    if how == "last":
        return values[-1]
    weights = [max(1, one) for one in lengths]
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)
