"""Small heads over features: a few dense layers in plain numpy, nothing to start up and nothing to pad."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dialeval.errors import DataError, UsageError
from dialeval.models.artefact import Artefact
from dialeval.models.heads import Floats, Head, read_head_weights, read_heads, readable
from dialeval.models.tensors import expand, read_tensors


def _gelu(values: Floats) -> Floats:
    from scipy.special import erf

    return np.asarray(0.5 * values * (1.0 + erf(values * np.float32(0.5**0.5))), np.float32)


_ACTIVATIONS: Mapping[str, Callable[[Floats], Floats]] = {
    "relu": lambda values: np.maximum(values, np.float32(0)),
    "tanh": lambda values: np.asarray(np.tanh(values), np.float32),
    "gelu": _gelu,
}
_MOST_LAYERS = 32


class VectorHead:
    """Standardises features, runs them through the layers, and answers for each head."""

    def __init__(self, artefact: Artefact) -> None:
        config, place = artefact.config, artefact.folder / "config.json"
        self.heads: tuple[Head, ...] = read_heads(config, place)
        hidden = config.get("hidden")
        if not isinstance(hidden, list) or len(hidden) > _MOST_LAYERS or not all(map(_is_size, hidden)):
            raise DataError("expected a list of sizes", file=place, field="hidden")
        if config.get("activation") not in list(_ACTIVATIONS):
            raise DataError(
                f"unknown activation {config.get('activation')!r}", file=place, field="activation"
            )
        self._activation = _ACTIVATIONS[config["activation"]]
        path = artefact.path("model.safetensors")
        tensors = expand(read_tensors(path), file=path)
        self._mean, self._scale = _vector(tensors, "input.mean", path), _vector(tensors, "input.scale", path)
        self.inputs = len(self._mean)
        if len(self._scale) != self.inputs or not (self._scale > 0).all():
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

    def answers(self, features: Floats) -> dict[str, npt.NDArray[np.float64]]:
        """Answer by head: (rows,) numbers or probabilities, or (rows, classes) probabilities."""
        if features.ndim != 2 or features.shape[1] != self.inputs:
            raise UsageError(f"expected rows of {self.inputs} features, not {features.shape}")
        with np.errstate(
            all="ignore"
        ):  # of absurd weights come answers that are no numbers, and count as none
            values = (features.astype(np.float32, copy=False) - self._mean) / self._scale
            for weight, bias in self._layers:
                values = self._activation(values @ weight.T + bias)
            found = {}
            for head in self.heads:
                weight, bias = self._tops[head.name]
                said = values @ weight.T + bias
                found[head.name] = readable(head, said if head.classes else said[:, 0])
        return found


def _is_size(value: Any) -> bool:
    return type(value) is int and 1 <= value <= 1 << 16


def _vector(tensors: Mapping[str, Any], name: str, path: Path) -> Floats:
    value = tensors.get(name)
    if value is None or value.ndim != 1 or not np.isfinite(value).all():
        raise DataError(f"{name} must be one finite number for each feature", file=path)
    return np.asarray(value, np.float32)
