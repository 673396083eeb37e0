"""Arrangements of chance, and how many are at least as extreme as what was seen.

A test by rearrangement visits every arrangement when they are no more than asked for (exact), and random ones
otherwise. Random ones come in chunks, each with its own child of the seed.
"""

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np

from dialeval.errors import UsageError
from dialeval.statistics.estimate import Floats
from dialeval.statistics.resampling import CHUNK

ALTERNATIVES = ("two-sided", "less", "greater")


def sign_test(
    observed: float,
    figures: Callable[[Floats], Floats],
    units: int,
    *,
    permutations: int,
    seed: int,
    alternative: str,
) -> float:
    """The p-value of `observed` among the figures of sign vectors: all of them if few, else random ones."""
    exact = units < 62 and 2**units <= permutations
    source = all_signs(units) if exact else random_signs(units, permutations, seed)
    counts = [(extreme(figures(signs), observed, alternative), len(signs)) for signs in source]
    return p_value(counts, exact=exact)


def sign_tests(
    figures: Callable[[Floats], Floats], units: int, *, permutations: int, seed: int, alternative: str
) -> list[float]:
    """The p-values of several figures at once; what was seen is the figure of unchanged signs.

    Args:
        figures: Sign vectors (arrangements x units) to figures (arrangements x tests).
        units: Length of a sign vector.
        permutations: How many arrangements; all of them if they are no more than this.
        seed: Same seed, same arrangements.
        alternative: One of `ALTERNATIVES`.
    """
    exact = units < 62 and 2**units <= permutations
    observed = figures(np.ones((1, units)))[0]
    counts: list[list[tuple[int, int]]] = [[] for _ in observed]
    for signs in all_signs(units) if exact else random_signs(units, permutations, seed):
        for test, (found, seen) in enumerate(zip(figures(signs).T, observed.tolist(), strict=True)):
            counts[test].append((extreme(found, seen, alternative), len(signs)))
    return [p_value(chunks, exact=exact) for chunks in counts]


def p_value(counts: list[tuple[int, int]], *, exact: bool) -> float:
    """Share of extreme arrangements, from (extreme, visited) per chunk."""
    hits, total = sum(h for h, _ in counts), sum(n for _, n in counts)
    return hits / total if exact else (hits + 1) / (total + 1)


def extreme(figures: Floats, observed: float, alternative: str) -> int:
    """How many figures are at least as extreme as the observed one.

    Rounding errors are forgiven, and a figure that does not exist counts as extreme: both err towards a
    larger p-value.
    """
    slack = 1e-10 * max(abs(observed), float(np.max(np.abs(figures), initial=0.0, where=~np.isnan(figures))))
    if alternative == "greater":
        return int(np.sum(~(figures < observed - slack)))
    if alternative == "less":
        return int(np.sum(~(figures > observed + slack)))
    if alternative == "two-sided":
        return int(np.sum(~(np.abs(figures) < abs(observed) - slack)))
    raise UsageError(f"unknown alternative {alternative!r}; choose one of {', '.join(ALTERNATIVES)}")


def all_signs(units: int) -> Iterator[Floats]:
    """Every vector of +1 and -1, the unchanged one first."""
    for first in range(0, 2**units, CHUNK):
        numbers = np.arange(first, min(first + CHUNK, 2**units))
        yield 1.0 - 2.0 * ((numbers[:, None] >> np.arange(units)) & 1).astype(np.float64)


def random_signs(units: int, permutations: int, seed: int) -> Iterator[Floats]:
    """Random vectors of +1 and -1."""
    if permutations < 1:
        raise UsageError("permutations must be at least 1")
    sizes = [min(CHUNK, permutations - first) for first in range(0, permutations, CHUNK)]
    for child, size in zip(np.random.SeedSequence(seed).spawn(len(sizes)), sizes, strict=True):
        yield 2.0 * np.random.default_rng(child).integers(0, 2, size=(size, units)).astype(np.float64) - 1.0


def all_deals(units: int, hand: int) -> Iterator[Floats]:
    """Every way to give `hand` of the units to the first side, as 0 and 1."""
    hands = np.array(list(combinations(range(units), hand)))
    for first in range(0, len(hands), CHUNK):
        picks = np.zeros((len(hands[first : first + CHUNK]), units))
        np.put_along_axis(picks, hands[first : first + CHUNK], 1.0, axis=1)
        yield picks


def random_deals(units: int, hand: int, permutations: int, seed: int) -> Iterator[Floats]:
    """The same at random."""
    if permutations < 1:
        raise UsageError("permutations must be at least 1")
    sizes = [min(CHUNK, permutations - first) for first in range(0, permutations, CHUNK)]
    deck = (np.arange(units) < hand).astype(np.float64)
    for child, size in zip(np.random.SeedSequence(seed).spawn(len(sizes)), sizes, strict=True):
        yield np.random.default_rng(child).permuted(np.tile(deck, (size, 1)), axis=1)
