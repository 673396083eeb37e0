"""Hyperparameters of training, with defaults that suit fine-tuning an encoder."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from dialeval.errors import UsageError

_FREE = frozenset({"save_every", "threads"})  # may change when a run is resumed


@dataclass(frozen=True)
class TrainingSettings:
    """The hyperparameters of a training run.

    >>> TrainingSettings(batch=8, accumulate=4).step_size
    32
    """

    batch: int = 16
    """Examples that go through the network at once."""
    accumulate: int = 1
    """Batches whose gradients are summed before an update."""
    learning_rate: float = 2e-5
    epochs: int = 3
    """0: no steps, as for ridge regression."""
    steps: int = 0
    """Most steps, at which the schedule ends; 0: as many as the epochs have."""
    schedule: Literal["constant", "linear"] = "linear"
    """After the warm-up the rate stays, or falls to zero at the last step."""
    warmup: float = 0.0
    """Share of all steps during which the rate rises from zero."""
    weight_decay: float = 0.0
    """AdamW's; 0 makes it Adam. Biases and normalisations are never decayed."""
    clip: float = 1.0
    """Largest norm of the gradient; 0 leaves it as it is."""
    dropout: float | None = None
    """None: the encoder's own, and 0.1 before the heads."""
    max_length: int = 512
    """Tokens of a pair; never more than the encoder can take."""
    evaluate_every: int = 0
    """Steps between two evaluations on the dev set; 0: at the end of each epoch."""
    patience: int = 0
    """Evaluations without a better figure before the run ends early; 0: never."""
    group: int = 50
    """Number of steps whose batches are sorted by length together; 1: no sorting."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of matrix products; weights are always fp32."""
    seed: int = 0
    save_every: int = 200
    """Steps between two checkpoints; one is also written at each evaluation and at the end."""
    threads: int = 0
    """0: torch's default. A resumed run keeps the number it began with."""

    def __post_init__(self) -> None:
        positive = ("batch", "accumulate", "max_length", "group", "save_every")
        for name in (*positive, "epochs", "steps", "evaluate_every", "patience", "seed", "threads"):
            value, least = getattr(self, name), 1 if name in positive else 0
            if type(value) is not int or value < least:
                raise UsageError(f"{name} must be an integer of at least {least}, not {value!r}")
        for name, fine in (
            ("learning_rate", 0 < self.learning_rate < math.inf),
            ("warmup", 0 <= self.warmup <= 1),
            ("weight_decay", 0 <= self.weight_decay < math.inf),
            ("clip", 0 <= self.clip < math.inf),
            ("dropout", self.dropout is None or 0 <= self.dropout < 1),
            ("schedule", self.schedule in ("constant", "linear")),
            ("precision", self.precision in ("fp32", "bf16")),
        ):
            if not fine:
                raise UsageError(f"{name} cannot be {getattr(self, name)!r}")

    @property
    def step_size(self) -> int:
        """Examples of one update of the weights."""
        return self.batch * self.accumulate

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of a step, the first being 0, of `steps` in all.

        >>> [TrainingSettings(learning_rate=1.0, warmup=0.5).rate(step, 4) for step in range(4)]
        [0.5, 1.0, 1.0, 0.5]
        """
        rising = math.ceil(self.warmup * steps)
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * (steps - step) / max(1, steps - rising)

    def deciding(self) -> dict[str, Any]:
        """Return the settings that the result depends on; the others may change when a run is resumed."""
        return {name: value for name, value in asdict(self).items() if name not in _FREE}

    def differences(self, stored: Mapping[str, Any]) -> list[str]:
        """Return the differences to stored settings, for a message.

        >>> TrainingSettings(batch=8).differences(TrainingSettings(seed=3).deciding())
        ['batch was 16, is 8', 'seed was 3, is 0']
        """
        mine = self.deciding()
        names = [field.name for field in fields(self) if field.name in mine]
        return [
            f"{name} was {stored.get(name)!r}, is {mine[name]!r}"
            for name in names
            if name not in stored or stored[name] != mine[name]
        ]
