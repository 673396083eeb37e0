"""Who judges what: balanced, random, and the same again for the same seed."""

import heapq
import random
from collections.abc import Collection, Mapping


def deal(
    wanted: Mapping[int, int],
    taken: Mapping[int, Collection[str]],
    load: Mapping[str, int],
    *,
    cap: int | None = None,
    seed: int = 0,
) -> list[tuple[int, str]]:
    """Give every item so many more raters, always those who have least to do and have not had it yet.

    Args:
        wanted: How many raters each item still needs.
        taken: Who may not get it: those who have it already, or had it and gave it back.
        load: The raters, with how many items each one has.
        cap: The most items a rater may have.
        seed: Same seed, same deal.

    Returns:
        Pairs of item and rater. Fewer than wanted, where nobody is left.

    >>> dealt = deal({1: 2, 2: 2, 3: 2}, {}, {"ann": 0, "bob": 0, "cem": 0})
    >>> sorted(rater for _, rater in dealt)
    ['ann', 'ann', 'bob', 'bob', 'cem', 'cem']
    """
    chance = random.Random(f"deal {seed}")  # noqa: S311  # chance in a study, no secret
    loads, dealt = dict(load), []
    order = sorted(wanted)
    chance.shuffle(order)
    for item in order:
        free = [
            (loads[rater], chance.random(), rater)
            for rater in sorted(loads)
            if rater not in taken.get(item, ()) and (cap is None or loads[rater] < cap)
        ]
        for _, _, rater in heapq.nsmallest(wanted[item], free):
            loads[rater] += 1
            dealt.append((item, rater))
    return dealt


def order_for(rater: str, items: Collection[int], seed: int = 0) -> list[int]:
    """Return a rater's items in an order of their own.

    >>> order_for("ann", [1, 2, 3, 4]), order_for("bob", [1, 2, 3, 4])
    ([2, 4, 1, 3], [3, 2, 4, 1])
    """
    order = sorted(items)
    random.Random(f"order {seed} {rater}").shuffle(order)  # noqa: S311
    return order


def is_swapped(rater: str, item: int, seed: int = 0) -> bool:
    """Say whether a rater sees a pair the other way round: half of all do, so that order favours nobody."""
    return random.Random(f"swap {seed} {item} {rater}").random() < 0.5  # noqa: S311
