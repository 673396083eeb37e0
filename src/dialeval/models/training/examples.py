"""What a scorer learns from: examples, each with labels for some or all of the heads."""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dialeval.errors import DataError, UsageError
from dialeval.models.heads import Head

Floats: TypeAlias = npt.NDArray[np.float64]
Targets: TypeAlias = Mapping[str, float | int | None]


class Example(Protocol):
    """Anything with targets; `weight` is how much it counts in the loss."""

    @property
    def targets(self) -> Targets:
        """A label for each head, or none: `None` and a missing name both mean that nobody knows."""

    @property
    def weight(self) -> float:
        """How much the example counts."""

    def digest(self) -> bytes:
        """Return bytes that differ whenever examples do."""


E = TypeVar("E", bound=Example)


@dataclass(frozen=True)
class PairExample:
    """A response after a history, oldest turn first."""

    history: tuple[str, ...]
    response: str
    targets: Targets
    weight: float = 1.0

    def digest(self) -> bytes:
        """Return bytes that differ whenever examples do."""
        texts = (text.encode("utf-8", "surrogatepass") for text in (*self.history, self.response))
        return _digest([*texts, _labels(self)])


@dataclass(frozen=True, eq=False)
class VectorExample:
    """A vector of features, for example of all the turns of a dialogue."""

    features: npt.NDArray[Any] = field(repr=False)
    targets: Targets
    weight: float = 1.0

    def digest(self) -> bytes:
        """Return bytes that differ whenever examples do."""
        return _digest([np.ascontiguousarray(self.features, np.float32).tobytes(), _labels(self)])


def _labels(example: Example) -> bytes:
    known = sorted((name, float(value)) for name, value in example.targets.items() if value is not None)
    return repr((known, float(example.weight))).encode()


def _digest(parts: Sequence[bytes]) -> bytes:
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        made.update(len(part).to_bytes(8, "little") + part)
    return made.digest()


def data_hash(examples: Iterable[Example]) -> str:
    """Return 64 hex digits that change with any example and with their order.

    >>> data_hash([PairExample(("Hi",), "Hello", {"quality": 1.0})])[:12]
    '028517ff5e3b'
    """
    whole = hashlib.sha256()
    for example in examples:
        whole.update(example.digest())
    return whole.hexdigest()


def target_arrays(examples: Sequence[Example], heads: Sequence[Head]) -> dict[str, Floats]:
    """Return the targets of each head as an array, NaN where there is none.

    Refuses what no head can learn from: a label that is not finite, a class that does not exist, a label for
    a head that does not exist, a weight below 0. Examples are counted from 0 in the message.

    >>> heads = (Head("quality", "regression"), Head("stop", "binary"))
    >>> target_arrays([PairExample((), "Hello", {"quality": 2.5})], heads)
    {'quality': array([2.5]), 'stop': array([nan])}
    """
    arrays = {head.name: np.full(len(examples), np.nan) for head in heads}
    by_name = {head.name: head for head in heads}
    if len(by_name) < len(heads):
        raise UsageError(f"two heads of one name: {', '.join(head.name for head in heads)}")
    for number, example in enumerate(examples):
        if not 0 <= example.weight < math.inf:
            raise DataError(f"example {number}: its weight is {example.weight}", field="weight")
        for name, value in example.targets.items():
            if name not in by_name:
                known = ", ".join(by_name)
                raise DataError(f"example {number} has a label for a head {name!r}; there are: {known}")
            if value is not None:
                arrays[name][number] = _checked(by_name[name], value, number)
    return arrays


def _checked(head: Head, value: float | int, number: int) -> float:
    if head.kind == "regression":
        fine, wanted = math.isfinite(value), "a finite number"
    elif head.kind == "binary":
        fine, wanted = 0 <= value <= 1, "between 0 and 1"
    else:
        fine = value == value // 1 and 0 <= value < len(head.classes)
        wanted = f"a whole number from 0 to {len(head.classes) - 1}"
    if not fine:
        raise DataError(f"example {number}: {value!r} is not {wanted}", field=head.name)
    return float(value)
