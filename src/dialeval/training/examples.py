"""Training examples, each with labels for some or all of the heads, and how they are put into batches.

Batches are shuffled by the seed and hold examples of similar length, the same on every machine and day.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from dialeval.errors import DataError, UsageError
from dialeval.models.fault_reader import Memory
from dialeval.models.heads import Head
from dialeval.training.settings import TrainingSettings

Places = npt.NDArray[np.intp]
Floats: TypeAlias = npt.NDArray[np.float64]
Targets: TypeAlias = Mapping[str, float | int | None]


class TrainingExample(Protocol):
    """Anything with targets; `weight` is how much it counts in the loss."""

    @property
    def targets(self) -> Targets:
        """A label for each head; `None` and a missing name both mean no label."""

    @property
    def weight(self) -> float:
        """How much the example counts."""

    def digest(self) -> bytes:
        """Return bytes that differ whenever examples do."""


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
        return digest_of([*texts, labels_of(self)])


@dataclass(frozen=True, eq=False)
class VectorExample:
    """A vector of features, for example of all the turns of a dialogue."""

    features: npt.NDArray[Any] = field(repr=False)
    targets: Targets
    weight: float = 1.0

    def digest(self) -> bytes:
        """Return bytes that differ whenever examples do."""
        return digest_of([np.ascontiguousarray(self.features, np.float32).tobytes(), labels_of(self)])


@dataclass(frozen=True)
class FaultExample:
    """A reply, what is read with it, and what is known of the two.

    A long reply is read in parts; `focus` are words of the part that is meant, by default the first.
    """

    memory: tuple[Memory, ...]
    reply: str
    targets: Targets
    weight: float = 1.0
    focus: str = ""

    def digest(self) -> bytes:
        """Return bytes that differ whenever examples do."""
        texts = [part for text in self.memory for part in text]
        return digest_of(
            [
                *(text.encode("utf-8", "surrogatepass") for text in (*texts, self.reply, self.focus)),
                labels_of(self),
            ]
        )


def labels_of(example: TrainingExample) -> bytes:
    """Return labels and weight of an example as bytes, for its digest."""
    known = sorted((name, float(value)) for name, value in example.targets.items() if value is not None)
    return repr((known, float(example.weight))).encode()


def digest_of(parts: Sequence[bytes]) -> bytes:
    """Return a hash of parts that no other division into parts has."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()


def data_hash(examples: Iterable[TrainingExample]) -> str:
    """Return 64 hex digits that change with any example and with their order.

    >>> data_hash([PairExample(("Hi",), "Hello", {"quality": 1.0})])[:12]
    '028517ff5e3b'
    """
    digest = hashlib.sha256()
    for example in examples:
        digest.update(example.digest())
    return digest.hexdigest()


def target_arrays(examples: Sequence[TrainingExample], heads: Sequence[Head]) -> dict[str, Floats]:
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


def stack(examples: Sequence[VectorExample], inputs: int | None = None) -> npt.NDArray[np.float32]:
    """Stack features as rows; other sizes and values that are not finite are refused.

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


def plan(
    lengths: Sequence[int] | npt.NDArray[np.integer], settings: TrainingSettings, epoch: int
) -> list[Places]:
    """Return, for each step of an epoch, the places of its examples.

    All examples are shuffled; then `group` steps' worth at a time are sorted by length and cut into steps,
    whose order is shuffled again. How a step is divided into batches (`settings.accumulate`) changes nothing
    here, so that a step is the same whatever fits into memory. The longest step comes first: a run that will
    not fit into memory fails at once.

    >>> steps = plan([3, 9, 4, 8, 3, 9], TrainingSettings(batch=2), epoch=0)
    >>> [step.tolist() for step in steps]
    [[5, 1], [2, 3], [4, 0]]
    """
    sizes = np.asarray(lengths)
    chance = np.random.default_rng([settings.seed, epoch])
    order = chance.permutation(len(sizes))
    size, together = settings.step_size, settings.step_size * settings.group
    steps: list[Places] = []
    for start in range(0, len(order), together):
        pool = order[start : start + together]
        if settings.group > 1:
            pool = pool[np.argsort(sizes[pool], kind="stable")]
        steps += [pool[at : at + size] for at in range(0, len(pool), size)]
    shuffled = [steps[place] for place in chance.permutation(len(steps))]
    longest = max(range(len(shuffled)), key=lambda place: int(sizes[shuffled[place]].max()), default=0)
    shuffled[:1], shuffled[longest : longest + 1] = shuffled[longest : longest + 1], shuffled[:1]
    return shuffled


def parts(step: Places, settings: TrainingSettings) -> list[Places]:
    """Divide a step into the batches that go through the network one after the other.

    >>> [part.tolist() for part in parts(np.arange(5), TrainingSettings(batch=2, accumulate=3))]
    [[0, 1], [2, 3], [4]]
    """
    return [step[at : at + settings.batch] for at in range(0, len(step), settings.batch)]


def steps_of(examples: int, settings: TrainingSettings) -> int:
    """Return how many steps an epoch has; one of them may be smaller.

    >>> steps_of(10, TrainingSettings(batch=4))
    3
    """
    return -(-examples // settings.step_size)
