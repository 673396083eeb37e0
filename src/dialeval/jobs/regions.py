"""The flat region around the best trial: what to take when the best by a hair is no better.

The largest of many uncertain figures is partly luck, and at the edge of a good region a small error of
measurement costs most. So of numbers the middle of what is equal but for noise is taken, and of words that
tie the one listed first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

from dialeval.jobs.trials import Trial


@dataclass(frozen=True, slots=True)
class Region:
    """Of one field: what was tried, what of it is flat around the best, and what was chosen."""

    field: str
    tried: tuple[Any, ...]
    flat: tuple[Any, ...]
    chosen: Any
    note: str | None = None


def flat_regions(trials: Sequence[Trial]) -> tuple[list[Region], Trial]:
    """Return a region for each field, and the best trial, which is in all of them.

    Fields with words come first: of the values whose best trial is flat, the one listed first is chosen. Then
    each number varies with the others as in the best trial that is left; what is flat on either side of that
    one, without a gap, is its region, and what is chosen lies half way between the ends: it need not be a
    value that was tried.
    """
    left, regions = list(trials), {}
    fields = list(trials[0].fields)
    numbers = [field for field in fields if all(is_number(one.fields[field]) for one in trials)]
    for field in fields:
        if field not in numbers:
            regions[field] = _among_words(field, left)
            left = [one for one in left if one.fields[field] == regions[field].chosen]
    best = _best(left)
    for field in numbers:
        regions[field] = _among_numbers(field, best, left)
    return [regions[field] for field in fields], best


def is_number(value: object) -> bool:
    """Say whether there is a middle between such values; a truth value has none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def middle(low: float, high: float) -> float:
    """Return what lies half way; between whole numbers a whole number.

    >>> middle(0.05, 0.3), middle(10, 45), middle(0.1, 0.1)
    (0.175, 28, 0.1)
    """
    if isinstance(low, int) and isinstance(high, int):
        return floor((low + high) / 2 + 0.5)
    return float(f"{(low + high) / 2:.6g}")


def _best(trials: Sequence[Trial]) -> Trial:
    """Return the trial least below the best of all; of equals the first."""
    return min(trials, key=lambda one: float("inf") if one.below.value is None else one.below.value)


def _among_words(field: str, trials: Sequence[Trial]) -> Region:
    tried = tuple(dict.fromkeys(one.fields[field] for one in trials))
    flat = tuple(
        value for value in tried if _best([one for one in trials if one.fields[field] == value]).flat
    )
    note = "ties: the one listed first" if len(flat) > 1 else None
    return Region(field, tried, flat, flat[0], note)


def _among_numbers(field: str, best: Trial, trials: Sequence[Trial]) -> Region:
    others = [name for name in best.fields if name != field]
    line = [one for one in trials if all(one.fields[name] == best.fields[name] for name in others)]
    line.sort(key=lambda one: one.fields[field])
    low = high = line.index(best)
    while low > 0 and line[low - 1].flat:
        low -= 1
    while high < len(line) - 1 and line[high + 1].flat:
        high += 1
    tried = tuple(one.fields[field] for one in line)
    return Region(
        field, tried, tried[low : high + 1], middle(tried[low], tried[high]), _ends(low, high, len(line))
    )


def _ends(low: int, high: int, count: int) -> str | None:
    """Say where a region may go on beyond what was tried."""
    if count == 1:
        return None
    if low == 0 and high == count - 1:
        return "everything tried is flat: the middle is that of the values given"
    ends = [name for name, there in (("lowest", low == 0), ("highest", high == count - 1)) if there]
    return f"reaches the {ends[0]} value tried" if ends else None
