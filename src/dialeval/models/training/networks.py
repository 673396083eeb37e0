"""The two networks that the loop trains: a cross-encoder over pairs, and a small one over feature vectors.

Neither is a subclass of anything: each holds a torch module and knows how to turn examples into its input
and its input into one output for each head. The loop needs nothing else, so a recipe may bring its own.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from dialeval.errors import DataError, UsageError
from dialeval.models.heads import Head
from dialeval.models.training.examples import Example, VectorExample
from dialeval.models.training.settings import Settings

if TYPE_CHECKING:
    import torch

Activation = Literal["relu", "gelu", "tanh"]
Places = npt.NDArray[np.intp]
Lengths = npt.NDArray[np.int64]
E_contra = TypeVar("E_contra", bound=Example, contravariant=True)
HEAD_DROPOUT = 0.1


class Prepared(Protocol):
    """Examples in the form a network reads."""

    @property
    def lengths(self) -> Lengths:
        """How long each example is: what is batched together should be alike."""

    def tensors(self, places: Places) -> "dict[str, torch.Tensor]":
        """Return the input of the examples at these places."""


class Network(Protocol, Generic[E_contra]):
    """What the loop trains."""

    @property
    def heads(self) -> tuple[Head, ...]:
        """What the network says about an example."""

    @property
    def module(self) -> "torch.nn.Module":
        """The weights."""

    def prepare(self, examples: Sequence[E_contra]) -> Prepared:
        """Bring examples into the form that `outputs` reads."""

    def outputs(self, batch: "Mapping[str, torch.Tensor]") -> "dict[str, torch.Tensor]":
        """Return for each head one number a row (a logit where it is binary), or one for each class."""


class VectorNetwork:
    """Layers of a given size over standardised features, then one linear head each.

    Mean and scale of the features are part of the weights: `(x - mean) / scale` is the first thing it does.
    """

    def __init__(
        self,
        inputs: int,
        heads: Sequence[Head],
        settings: Settings,
        *,
        hidden: Sequence[int] = (64,),
        activation: Activation = "relu",
    ) -> None:
        import torch

        if activation not in ("relu", "gelu", "tanh"):
            raise UsageError(f"no activation {activation!r}; known: relu, gelu, tanh")
        if inputs < 1 or any(size < 1 for size in hidden):
            raise UsageError(f"sizes must be at least 1, not {[inputs, *hidden]}")
        self.heads, self.hidden = tuple(heads), tuple(hidden)
        self.activation: Activation = activation
        self.dropout = HEAD_DROPOUT if settings.dropout is None else settings.dropout
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            sizes = [inputs, *hidden]
            self.layers = torch.nn.ModuleList(map(torch.nn.Linear, sizes, sizes[1:]))
            self.tops = torch.nn.ModuleList(torch.nn.Linear(sizes[-1], head.outputs) for head in heads)
        self.module = torch.nn.Module()
        self.module.register_buffer("mean", torch.zeros(inputs))
        self.module.register_buffer("scale", torch.ones(inputs))
        self.module.add_module("layers", self.layers)
        self.module.add_module("heads", self.tops)

    @classmethod
    def fitting(
        cls,
        examples: Sequence[VectorExample],
        heads: Sequence[Head],
        settings: Settings,
        *,
        hidden: Sequence[int] = (64,),
        activation: Activation = "relu",
    ) -> "VectorNetwork":
        """Make a network whose sizes, mean and scale are those of the examples' features."""
        import torch

        features = stack(examples)
        made = cls(features.shape[1], heads, settings, hidden=hidden, activation=activation)
        scale = features.std(axis=0, dtype=np.float64)
        scale[scale < 1e-6] = 1.0  # a feature that never varies must not be blown up where it once does
        with torch.no_grad():
            made.mean.copy_(torch.from_numpy(features.mean(axis=0, dtype=np.float64)))
            made.scale.copy_(torch.from_numpy(scale))
        return made

    @property
    def mean(self) -> "torch.Tensor":
        """What is subtracted from the features."""
        return self.module.get_buffer("mean")

    @property
    def scale(self) -> "torch.Tensor":
        """What the features are divided by."""
        return self.module.get_buffer("scale")

    def prepare(self, examples: Sequence[VectorExample]) -> "Vectors":
        """Stack the features; they must have the sizes of the network."""
        return Vectors(stack(examples, len(self.mean)))

    def outputs(self, batch: "Mapping[str, torch.Tensor]") -> "dict[str, torch.Tensor]":
        """Return for each head one number a row, or one for each class."""
        from torch.nn import functional

        values = (batch["features"] - self.mean) / self.scale
        for layer in self.layers:
            values = getattr(functional, self.activation)(layer(values))
            values = functional.dropout(values, self.dropout, self.module.training)
        return head_outputs(self.heads, self.tops, values)


class Vectors:
    """Stacked features; all are equally long."""

    def __init__(self, features: npt.NDArray[np.float32]) -> None:
        self.features = features
        self.lengths: Lengths = np.ones(len(features), np.int64)

    def tensors(self, places: Places) -> "dict[str, torch.Tensor]":
        """Return the features of the examples at these places."""
        import torch

        return {"features": torch.from_numpy(self.features[places])}


def stack(examples: Sequence[VectorExample], inputs: int | None = None) -> npt.NDArray[np.float32]:
    """Put features below each other, refusing other sizes and what is not finite.

    >>> stack([VectorExample(np.array([1.0, 2.0]), {}), VectorExample(np.array([3.0, 4.0]), {})]).shape
    (2, 2)
    """
    if not examples:
        return np.zeros((0, inputs or 0), np.float32)
    wanted = (inputs or len(examples[0].features),)
    rows = np.empty((len(examples), *wanted), np.float32)
    for number, example in enumerate(examples):
        if example.features.shape != wanted:
            raise DataError(f"example {number} has features of shape {example.features.shape}, not {wanted}")
        rows[number] = example.features
    if not np.isfinite(rows).all():
        wrong = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise DataError(f"example {wrong} has a feature that is not finite")
    return rows


def head_outputs(heads: Sequence[Head], tops: Any, states: "torch.Tensor") -> "dict[str, torch.Tensor]":
    """Run each head's linear layer; a head of one output gives one number a row."""
    found = {}
    for head, top in zip(heads, tops, strict=True):
        said = top(states)
        found[head.name] = said if head.kind == "classes" else said.squeeze(-1)
    return found
