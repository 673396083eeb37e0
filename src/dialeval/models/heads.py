"""Heads: the questions a scorer answers, what its raw outputs mean, and where their weights lie."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dialeval.errors import DataError, UsageError
from dialeval.models.tensors import expand, read_tensors

Kind: TypeAlias = Literal["regression", "binary", "classes"]
Floats: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Head:
    """One thing a scorer says about its input.

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
            raise UsageError(f"{self.name!r} is no name for a head: letters, digits, - and _ only")
        if self.kind not in ("regression", "binary", "classes"):
            raise UsageError(f"head {self.name}: no kind {self.kind!r}; known: regression, binary, classes")
        if (self.kind == "classes") != (len(self.classes) >= 2) or len(set(self.classes)) < len(self.classes):
            raise UsageError(f"head {self.name}: two or more different classes, for the kind `classes` only")
        if not 0 < self.weight < math.inf:
            raise UsageError(f"head {self.name}: its weight must be above 0, not {self.weight}")

    @property
    def outputs(self) -> int:
        """How many numbers the head gives."""
        return len(self.classes) or 1

    def fields(self) -> dict[str, Any]:
        """Return the head as it is written to a configuration."""
        return {"name": self.name, "kind": self.kind, "classes": list(self.classes)}


def readable(head: Head, outputs: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Turn what a head puts out into what it means: a number, a probability, a probability for each class.

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


def read_heads(config: Mapping[str, Any], file: Path) -> tuple[Head, ...]:
    """Read the heads of an artefact's configuration, refusing anything else."""
    found = config.get("heads")
    if not isinstance(found, list) or not found or len(found) > 1000:
        raise DataError("expected a list of heads", file=file, field="heads")
    heads = []
    for one in found:
        if not isinstance(one, dict) or set(one) != {"name", "kind", "classes"}:
            raise DataError("a head needs exactly: classes, kind, name", file=file, field="heads")
        classes = one["classes"]
        if not isinstance(one["name"], str) or not isinstance(classes, list):
            raise DataError(f"cannot be understood: {one}", file=file, field="heads")
        try:
            heads.append(Head(one["name"], one["kind"], tuple(map(str, classes))))
        except UsageError as error:
            raise DataError(str(error), file=file, field="heads") from None
    if len({head.name for head in heads}) < len(heads):
        raise DataError("two heads have the same name", file=file, field="heads")
    return tuple(heads)


def read_head_weights(path: Path, heads: Sequence[Head], width: int) -> dict[str, tuple[Floats, Floats]]:
    """Read weight and bias of each head, refusing any of other sizes."""
    stored = read_tensors(path)
    found = expand({name: value for name, value in stored.items() if name.startswith("heads.")}, file=path)
    weights = {}
    for head in heads:
        pair = []
        for part, sizes in (("weight", (head.outputs, width)), ("bias", (head.outputs,))):
            value = found.get(f"heads.{head.name}.{part}")
            if value is None or value.shape != sizes:
                raise DataError(f"heads.{head.name}.{part} must have the sizes {sizes}", file=path)
            pair.append(np.asarray(value, np.float32))
        weights[head.name] = (pair[0], pair[1])
    return weights
