"""Batches: texts of like length together, a bounded number of tokens at a time, one batch per core."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dialeval.errors import UsageError

BATCH_TOKENS = 512  # activations that stay in a core's cache; larger batches are slower, not faster
_PADDING = 24  # tokens of nothing that cost about as much as one more run
Ints = npt.NDArray[np.int32]
Item = TypeVar("Item")
Answer = TypeVar("Answer")


def batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Group texts by length, longest first, so that no batch holds more than `budget` tokens with padding.

    A text longer than the budget is a batch of its own. Few texts of very different lengths are several
    batches, too: one more run costs less than much padding.

    >>> batches([3, 9, 4, 8], budget=18)
    [[1, 3], [2, 0]]
    >>> batches([100, 98, 20, 19], budget=512)
    [[0, 1], [2, 3]]
    """
    groups: list[list[int]] = []
    room = padding = longest = 0
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        padding += longest - lengths[place]
        if room < 1 or padding > _PADDING:
            groups.append([])
            longest, padding = lengths[place], 0
            room = max(1, budget // max(1, longest))
        groups[-1].append(place)
        room -= 1
    return groups


def padded(ids: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Lay token numbers side by side, zeros after the end, and say how long each text is."""
    lengths = np.array([len(one) for one in ids], np.int32)
    table = np.zeros((len(ids), int(lengths.max())), np.int32)
    for row, one in zip(table, ids, strict=True):
        row[: len(one)] = one
    return table, lengths


def side_by_side(
    run: Callable[[Item], Answer], items: Sequence[Item], threads: int
) -> Iterator[tuple[Item, Answer]]:
    """Run each item on one core, several at once; give items and answers in the order of the items."""
    if threads == 1 or len(items) < 2:
        yield from ((item, run(item)) for item in items)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from zip(items, pool.map(run, items), strict=True)


def default_threads() -> int:
    """Say how many cores to use: `DIALEVAL_THREADS`, or all that this process may run on."""
    asked = os.environ.get("DIALEVAL_THREADS", "")
    if asked:
        if not asked.isdigit() or int(asked) < 1:
            raise UsageError(f"DIALEVAL_THREADS={asked}: expected a number of cores")
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
