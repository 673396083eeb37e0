"""The shape of an encoder: its sizes, and the canonical names of its weights.

All encoders have one design: token, position and segment embeddings, then layers of self-attention and a
feed-forward part, each followed by a residual sum and layer normalisation. `conversion` maps BERT, RoBERTa,
DistilBERT, ELECTRA and MiniLM to it.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from dialeval.errors import DataError
from dialeval.models.tensors import expand, map_tensors, read_tensors, write_tensors
from dialeval.models.untrusted import read_setting

Floats = npt.NDArray[np.float32]

Activation = Literal["gelu", "gelu_tanh", "relu"]


class EncoderShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sizes of an encoder.

    `positions` is the maximum number of tokens, special ones included; `segments` the number of token types
    (2 for BERT, 1 for families without).
    """

    vocabulary: Annotated[int, msgspec.Meta(ge=1, le=1 << 24)]
    width: Annotated[int, msgspec.Meta(ge=1, le=8192)]
    layers: Annotated[int, msgspec.Meta(ge=1, le=64)]
    heads: Annotated[int, msgspec.Meta(ge=1, le=256)]
    inner: Annotated[int, msgspec.Meta(ge=1, le=65536)]
    positions: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    segments: Annotated[int, msgspec.Meta(ge=1, le=1 << 24)] = 1
    activation: Activation = "gelu"
    epsilon: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 1e-12

    @classmethod
    def of(cls, config: Mapping[str, Any], file: str | Path) -> "EncoderShape":
        """Return the sizes in an artefact's configuration; raises if they are invalid."""
        shape: EncoderShape = read_setting(config, "shape", cls, file)
        if shape.width % shape.heads:
            raise DataError(
                "the width is not a multiple of the number of heads", file=file, field="shape.heads"
            )
        return shape

    def fields(self) -> dict[str, Any]:
        """Return the sizes for an artefact's configuration."""
        return msgspec.structs.asdict(self)

    def weights(self, layers: int | None = None) -> dict[str, tuple[int, ...]]:
        """Return the sizes of all arrays by name, for the first `layers`.

        >>> shape = EncoderShape(vocabulary=100, width=8, layers=2, heads=2, inner=16, positions=32)
        >>> len(shape.weights()), shape.weights()["layer.1.inner.weight"]
        (29, (16, 8))
        """
        width, inner = self.width, self.inner
        sizes: dict[str, tuple[int, ...]] = {
            "embeddings.tokens": (self.vocabulary, width),
            "embeddings.positions": (self.positions, width),
            "embeddings.segments": (self.segments, width),
            "embeddings.norm.weight": (width,),
            "embeddings.norm.bias": (width,),
        }
        for number in range(self.layers if layers is None else layers):
            sizes |= {
                f"layer.{number}.attention.weight": (3 * width, width),
                f"layer.{number}.attention.bias": (3 * width,),
                f"layer.{number}.attended.weight": (width, width),
                f"layer.{number}.attended.bias": (width,),
                f"layer.{number}.attended.norm.weight": (width,),
                f"layer.{number}.attended.norm.bias": (width,),
                f"layer.{number}.inner.weight": (inner, width),
                f"layer.{number}.inner.bias": (inner,),
                f"layer.{number}.outer.weight": (width, inner),
                f"layer.{number}.outer.bias": (width,),
                f"layer.{number}.outer.norm.weight": (width,),
                f"layer.{number}.outer.norm.bias": (width,),
            }
        return sizes


def read_weights(path: Path, shape: EncoderShape, layers: int | None = None) -> dict[str, Floats]:
    """Return the weights of the first layers in full precision; raises if a size differs.

    `DIALEVAL_SHARED` names a folder with expanded weights, which the first process of a run writes and all
    map, so that they are in memory once.
    """
    folder = os.environ.get("DIALEVAL_SHARED")
    if not folder:
        return _expanded(path, shape, layers)
    name = hashlib.sha256(f"{path.absolute()}|{layers}".encode()).hexdigest()[:16]
    shared = Path(folder) / f"{name}.safetensors"
    if not shared.is_file():
        write_tensors(shared, _turned(_expanded(path, shape, layers)))
    return _turned(map_tensors(shared))


def _turned(weights: dict[str, Floats]) -> dict[str, Floats]:
    """Transpose the matrices of layers, as the runtime needs them; it would copy others per process."""
    return {name: value.T if name.startswith("layer.") else value for name, value in weights.items()}


def _expanded(path: Path, shape: EncoderShape, layers: int | None) -> dict[str, Floats]:
    expected = shape.weights(layers)
    stored = read_tensors(path)
    part = {name: value for name, value in stored.items() if name.partition("::")[0] in expected}
    weights = expand(part, file=path)
    check_sizes(weights, expected, path)
    return weights


def check_sizes(
    weights: Mapping[str, Floats], expected: Mapping[str, tuple[int, ...]], file: str | Path
) -> None:
    """Raise if a weight is missing or has other sizes."""
    for name, sizes in expected.items():
        if name not in weights or weights[name].shape != sizes:
            has = f"has the sizes {weights[name].shape}" if name in weights else "is missing"
            raise DataError(f"{name} {has}, expected {sizes}", file=file)
