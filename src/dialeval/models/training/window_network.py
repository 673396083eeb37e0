"""A small network over windows of turn vectors; features are made when a batch is read.

Ten questions about each reply, true and false, would be gigabytes of features. A `WindowExample` holds places
in a table of vectors instead, and the table is shared by all.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dialeval.models.heads import Head
from dialeval.models.network import Floats
from dialeval.models.training.examples import Targets
from dialeval.models.training.networks import Activation, Lengths, Places, VectorNetwork
from dialeval.models.training.settings import Settings
from dialeval.models.window_features import DIRECTIONS, Direction, padded, window_features

if TYPE_CHECKING:
    import torch

_SAMPLE = 8192  # examples that mean and scale of the features are taken from


class Table:
    """Vectors of different texts, a row each."""

    def __init__(self, vectors: Floats) -> None:
        self.vectors = vectors
        self.hash = hashlib.blake2b(np.ascontiguousarray(vectors).tobytes(), digest_size=16).digest()


@dataclass(frozen=True, eq=False)
class WindowExample:
    """Turns of a window by their rows in a table, the question that is asked of it, and the answer."""

    table: Table = field(repr=False)
    turns: tuple[int, ...]
    direction: Direction
    history: int
    targets: Targets
    weight: float = 1.0

    def digest(self) -> bytes:
        """Return bytes that differ whenever examples do."""
        told = repr((self.turns, self.direction, self.history, sorted(self.targets.items()), self.weight))
        return hashlib.blake2b(self.table.hash + told.encode(), digest_size=16).digest()


class WindowNetwork:
    """A `VectorNetwork` that reads windows."""

    def __init__(self, inner: VectorNetwork) -> None:
        self.inner, self.heads, self.module = inner, inner.heads, inner.module

    @classmethod
    def fitting(
        cls,
        examples: Sequence[WindowExample],
        heads: Sequence[Head],
        settings: Settings,
        *,
        hidden: Sequence[int],
        activation: Activation,
    ) -> "WindowNetwork":
        """Make a network whose sizes, mean and scale are those of the examples' features."""
        import torch

        every = max(1, len(examples) // _SAMPLE)
        features = Windows(examples[::every]).features(np.arange(len(examples[::every])))
        inner = VectorNetwork(features.shape[1], heads, settings, hidden=hidden, activation=activation)
        scale = features.std(axis=0, dtype=np.float64)
        scale[scale < 1e-6] = 1.0
        with torch.no_grad():
            inner.mean.copy_(torch.from_numpy(features.mean(axis=0, dtype=np.float64)))
            inner.scale.copy_(torch.from_numpy(scale))
        return cls(inner)

    def prepare(self, examples: Sequence[WindowExample]) -> "Windows":
        """Put the places of all windows into arrays."""
        return Windows(examples)

    def outputs(self, batch: "Mapping[str, torch.Tensor]") -> "dict[str, torch.Tensor]":
        """Return for each head one number a row."""
        return self.inner.outputs(batch)


class Windows:
    """Windows over one table; all are equally long."""

    def __init__(self, examples: Sequence[WindowExample]) -> None:
        tables = {id(example.table): example.table for example in examples}
        starts, vectors = dict[int, int](), [np.zeros((0, 0), np.float32)]
        for key, table in tables.items():
            starts[key] = sum(map(len, vectors))
            vectors.append(table.vectors)
        self.vectors = vectors[-1] if len(vectors) == 2 else np.concatenate(vectors[1:] or vectors)
        self.lengths: Lengths = np.ones(len(examples), np.int64)
        self._places = np.array([padded(example.turns) for example in examples], np.int64)
        offsets = np.array([starts[id(example.table)] for example in examples], np.int64)
        if len(examples):
            self._places = np.where(self._places >= 0, self._places + offsets[:, None], -1)
        self._direction = np.array([DIRECTIONS.index(example.direction) for example in examples], np.int64)
        self._history = np.array([example.history for example in examples], np.int64)

    def features(self, places: Places) -> Floats:
        """Describe the windows at these places."""
        chosen = self._places[places], self._direction[places], self._history[places]
        return window_features(self.vectors, *chosen)

    def tensors(self, places: Places) -> "dict[str, torch.Tensor]":
        """Return the features of the windows at these places."""
        import torch

        return {"features": torch.from_numpy(self.features(places))}
