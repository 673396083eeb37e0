"""Heads: the outputs of a scorer, their activation functions, and small networks over features.

A `VectorHead` is a few dense layers without a graph of their own: nothing to start up and nothing to pad.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from dialeval.errors import DataError, UsageError
from dialeval.models.artefact import Artefact, Model
from dialeval.models.encoder import recorded_encoder
from dialeval.models.network import multiply
from dialeval.models.tensors import expand, read_tensors
from dialeval.models.untrusted import read_setting

Kind: TypeAlias = Literal["regression", "binary", "classes"]
Floats: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Head:
    """One output of a scorer.

    `regression` learns a number by squared error; `binary` a probability by cross entropy, from 0, 1 or
    anything between; `classes` one of the named classes, its target being a place in `classes`. `weight` is
    the share of the head in the loss.

    >>> Head("act", "classes", ("statement", "question")).outputs
    2
    """

    name: str
    kind: Kind
    classes: tuple[str, ...] = ()
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.name.replace("-", "_").isidentifier():
            raise UsageError(f"{self.name!r} is not a valid name of a head: letters, digits, - and _ only")
        if self.kind not in ("regression", "binary", "classes"):
            raise UsageError(f"head {self.name}: no kind {self.kind!r}; known: regression, binary, classes")
        if (self.kind == "classes") != (len(self.classes) >= 2) or len(set(self.classes)) < len(self.classes):
            raise UsageError(f"head {self.name}: two or more different classes, for the kind `classes` only")
        if not 0 < self.weight < math.inf:
            raise UsageError(f"head {self.name}: its weight must be above 0, not {self.weight}")

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return len(self.classes) or 1

    def fields(self) -> dict[str, Any]:
        """Return the fields for an artefact's config."""
        return {"name": self.name, "kind": self.kind, "classes": list(self.classes)}


def readable(head: Head, outputs: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the head's predictions: a number, a sigmoid probability, or softmax probabilities.

    >>> readable(Head("stop", "binary"), np.array([0.0]))
    array([0.5])
    """
    values = np.asarray(outputs, np.float64)
    if head.kind == "binary":
        return np.exp(-np.logaddexp(0.0, -values))
    if head.kind == "classes":
        shifted = np.exp(values - values.max(axis=1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
    return values


class _HeadFields(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    kind: str
    classes: tuple[str, ...]


_Heads = Annotated[list[_HeadFields], msgspec.Meta(min_length=1, max_length=1000)]


def read_heads(config: Mapping[str, Any], file: Path) -> tuple[Head, ...]:
    """Return the heads of an artefact's config; raises if they are invalid."""
    fields: list[Any] = read_setting(config, "heads", _Heads, file)
    try:
        heads = tuple(Head(entry.name, entry.kind, entry.classes) for entry in fields)
    except UsageError as error:
        raise DataError(str(error), file=file, field="heads") from None
    if len({head.name for head in heads}) < len(heads):
        raise DataError("two heads have the same name", file=file, field="heads")
    return heads


def read_head_weights(path: Path, heads: Sequence[Head], width: int) -> dict[str, tuple[Floats, Floats]]:
    """Return weight and bias of each head; raises if a size differs."""
    stored = read_tensors(path)
    tensors = expand({name: value for name, value in stored.items() if name.startswith("heads.")}, file=path)
    weights = {}
    for head in heads:
        pair = []
        for part, sizes in (("weight", (head.outputs, width)), ("bias", (head.outputs,))):
            value = tensors.get(f"heads.{head.name}.{part}")
            if value is None or value.shape != sizes:
                raise DataError(f"heads.{head.name}.{part} must have the sizes {sizes}", file=path)
            pair.append(np.asarray(value, np.float32))
        weights[head.name] = (pair[0], pair[1])
    return weights


def _gelu(values: Floats) -> Floats:
    from scipy.special import erf

    result = np.asarray(erf(values * np.float32(0.5**0.5)), np.float32)
    result += 1.0
    result *= values
    result *= 0.5
    return result


class SharedRows(NamedTuple):
    """Columns of a table whose rows share values: these, and the number of each row's; -1 for zeros."""

    values: Floats
    rows: npt.NDArray[np.int64]


Features = Floats | Sequence[SharedRows]
"""A table, or its columns from the first to the last."""


def _widths(blocks: Sequence[SharedRows]) -> list[int]:
    return [block.values.shape[1] for block in blocks]


def _times(features: Features, weight: Floats) -> Floats:
    """Return a table times a weight, with as few products as its rows differ."""
    if isinstance(features, np.ndarray):
        return multiply(features, weight)
    sums: dict[int, tuple[Floats, npt.NDArray[np.int64]]] = {}
    parts = np.split(weight, np.cumsum(_widths(features))[:-1], axis=1)
    for (values, rows), part in zip(features, parts, strict=True):
        product = multiply(np.ascontiguousarray(values), np.ascontiguousarray(part))
        sums[id(rows)] = (sums[id(rows)][0] + product if id(rows) in sums else product), rows
    table = np.zeros((len(features[0].rows), len(weight)), np.float32)
    for product, rows in sums.values():
        table += np.concatenate([product, np.zeros_like(product[:1])])[rows]
    return table


_Activation = Literal["relu", "tanh", "gelu"]
_ACTIVATIONS: Mapping[_Activation, Callable[[Floats], Floats]] = {
    "relu": lambda values: np.maximum(values, np.float32(0)),
    "tanh": lambda values: np.asarray(np.tanh(values), np.float32),
    "gelu": _gelu,
}
_Sizes = Annotated[list[Annotated[int, msgspec.Meta(ge=1, le=1 << 16)]], msgspec.Meta(max_length=32)]


class VectorHead:
    """A multi-layer perceptron over standardised features, with one output layer per head.

    The standardisation is folded into the first layer's weights.
    """

    def __init__(self, artefact: Artefact) -> None:
        config, place = artefact.config, artefact.folder / "config.json"
        self.heads: tuple[Head, ...] = read_heads(config, place)
        hidden: list[int] = read_setting(config, "hidden", _Sizes, place)
        self._activation = _ACTIVATIONS[read_setting(config, "activation", _Activation, place)]
        path = artefact.path("model.safetensors")
        tensors = expand(read_tensors(path), file=path)
        mean, scale = _vector(tensors, "input.mean", path), _vector(tensors, "input.scale", path)
        self.inputs = len(mean)
        if len(scale) != self.inputs or not (scale > 0).all():
            raise DataError("input.scale must be above 0, one for each feature", file=path)
        self._layers = []
        before = self.inputs
        for number, size in enumerate(hidden):
            weight, bias = tensors.get(f"layers.{number}.weight"), tensors.get(f"layers.{number}.bias")
            if weight is None or bias is None or weight.shape != (size, before) or bias.shape != (size,):
                raise DataError(f"layers.{number} must have the sizes {(size, before)}", file=path)
            self._layers.append((weight, bias))
            before = size
        self._tops = read_head_weights(path, self.heads, before)
        if self._layers:
            self._layers[0] = _standardised(*self._layers[0], mean, scale)
        else:
            self._tops = {name: _standardised(*top, mean, scale) for name, top in self._tops.items()}

    def answers(self, features: Features) -> dict[str, npt.NDArray[np.float64]]:
        """Return predictions by head: (rows,) numbers or probabilities, or (rows, classes) probabilities."""
        width = features.shape[-1] if isinstance(features, np.ndarray) else sum(_widths(features))
        if width != self.inputs:
            raise UsageError(f"expected rows of {self.inputs} features, not {width}")
        with np.errstate(all="ignore"):  # absurd weights give NaN, which counts as no answer
            values = features
            for weight, bias in self._layers:
                values = self._activation(_times(values, weight) + bias)
            by_head = {}
            for head in self.heads:
                weight, bias = self._tops[head.name]
                logits = _times(values, weight) + bias
                by_head[head.name] = readable(head, logits if head.classes else logits[:, 0])
        return by_head


class EncoderHead(Model):
    """A head over the outputs of a frozen encoder, and the encoder it was trained on."""

    head: ClassVar[Head]
    """The head that the artefact must have."""

    def __init__(self, artefact: Artefact) -> None:
        super().__init__(artefact)
        place = artefact.folder / "config.json"
        self._head, self.encoder = VectorHead(artefact), recorded_encoder(artefact.config, place)
        if self.head not in self._head.heads:
            classes = f" with the classes {', '.join(self.head.classes)}" if self.head.classes else ""
            raise DataError(f"has no head {self.head.name!r}{classes}", file=place, field="heads")


def _standardised(weight: Floats, bias: Floats, mean: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """Return weight and bias with the standardisation folded in."""
    with np.errstate(all="ignore"):
        scaled = weight.astype(np.float64) / scale
        return scaled.astype(np.float32), (bias - (scaled * mean).sum(axis=1)).astype(np.float32)


def _vector(tensors: Mapping[str, Any], name: str, path: Path) -> Floats:
    value = tensors.get(name)
    if value is None or value.ndim != 1 or not np.isfinite(value).all():
        raise DataError(f"{name} must be one finite number for each feature", file=path)
    return np.asarray(value, np.float32)
