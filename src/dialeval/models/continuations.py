"""Continuations as a tree: what several of them begin with is read once.

"You are boring" and "You are funny" share two tokens. The last token of a continuation is never read: nobody
asks what would come after it. So a set of continuations costs one reading of the tree's inner nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Tree:
    """Inner nodes of a tree of tokens.

    Attributes:
        tokens: The token at each node; a node comes after its parent.
        depths: How many nodes are above it.
        above: above[i, j] is true where node j is node i or above it.
        asked: For each continuation, (place, token) pairs: after node `place` - 1 (0 is where the tree
            hangs) `token` comes.
    """

    tokens: Ints
    depths: Ints
    above: npt.NDArray[np.bool_]
    asked: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def continuations(self) -> list[list[int]]:
        """The continuations that the tree was grown from."""
        return [[token for _, token in one] for one in self.asked]

    @classmethod
    def of(cls, continuations: Sequence[Sequence[int]]) -> "Tree":
        """Grow the tree of some continuations.

        >>> tree = Tree.of([[5, 6, 7], [5, 6, 8], [9]])
        >>> tree.tokens.tolist(), tree.asked[1]
        ([5, 6], ((0, 5), (1, 6), (2, 8)))
        """
        nodes: dict[tuple[int, ...], int] = {}
        for one in continuations:
            for end in range(1, len(one)):
                nodes.setdefault(tuple(one[:end]), len(nodes) + 1)
        above = np.zeros((len(nodes), len(nodes)), np.bool_)
        for path, number in nodes.items():
            if len(path) > 1:
                above[number - 1] = above[nodes[path[:-1]] - 1]
            above[number - 1, number - 1] = True
        asked = tuple(
            tuple((nodes.get(tuple(one[:end]), 0), token) for end, token in enumerate(one))
            for one in continuations
        )
        return cls(
            np.array([path[-1] for path in nodes], np.int64),
            np.array([len(path) - 1 for path in nodes], np.int64),
            above,
            asked,
        )


Place: TypeAlias = tuple[int, Tree]
"""After how many tokens of a text which continuations are asked for."""
