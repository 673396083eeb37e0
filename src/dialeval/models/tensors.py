"""Weights on disk: safetensors files, and storage in int8 or fp16.

The `safetensors` package reads and writes the files, and validates the header (JSON: name, type, shape and
offsets of every tensor) against the file.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dialeval.errors import DataError, UsageError
from dialeval.files import replacing_path
from dialeval.manifests import open_regular

Storage = Literal["int8", "fp16", "fp32"]
Array = np.ndarray[Any, np.dtype[Any]]

_KINDS = frozenset(map(np.dtype, ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u1", "?")))
_MOST_AXES = 8
_SCALE = "::scale"
_TOGETHER = 32  # neighbours in a row that share one step
_LIMITS = {"int8": 8e6, "fp16": 65504.0, "fp32": float(np.finfo(np.float32).max)}


def read_tensors(path: str | Path) -> dict[str, Array]:
    """Return all tensors of a safetensors file, read-only; bf16 becomes fp32.

    Raises:
        DataError: The header is malformed or does not match the file; names the file.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "weights.safetensors"
    >>> write_tensors(place, {"bias": np.array([0.5, 2.0], "f4")})
    >>> place.stat().st_size, read_tensors(place)
    (80, {'bias': array([0.5, 2. ], dtype=float32)})
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    open_regular(path, follow=True).close()
    try:
        with safe_open(path, framework="np") as file:
            types = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
            tensors = {name: file.get_tensor(name) for name in types if types[name] != "BF16"}
        if len(tensors) < len(types):
            tensors |= _read_bf16(path, types)
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise DataError(f"not a safetensors file: {ascii(str(error)[:200])[1:-1]}", file=path) from None
    for tensor in tensors.values():
        tensor.setflags(write=False)
    return {name: tensors[name] for name in types}


def map_tensors(path: Path) -> dict[str, Array]:
    """Map a file of fp32 tensors written by `write_tensors`; processes share its memory."""
    data = np.asarray(np.memmap(path, np.uint8, "r"))
    start = 8 + int(data[:8].view("<u8")[0])
    tensors = {}
    for name, claim in json.loads(data[8:start].tobytes()).items():
        first, last = claim["data_offsets"]
        tensors[name] = data[start + first : start + last].view("<f4").reshape(claim["shape"])
    return tensors


def _read_bf16(path: Path, types: Mapping[str, str]) -> dict[str, Array]:
    """Return the bf16 tensors of a file as fp32; numpy has no type for them."""
    import safetensors

    package: Any = safetensors
    with open_regular(path, follow=True) as file:
        parts = {name: part for name, part in package.deserialize(file.read()) if types[name] == "BF16"}
    return {
        name: (np.frombuffer(part["data"], "<u2").astype("<u4") << 16).view("<f4").reshape(part["shape"])
        for name, part in parts.items()
    }


def write_tensors(path: str | Path, tensors: Mapping[str, Array], *, layout: str | None = None) -> None:
    """Write a safetensors file; the same tensors give the same bytes, in any order.

    `layout` is the `format` in the metadata (`pt` for torch). There is no other metadata, because the package
    writes several entries in random order.
    """
    from safetensors.numpy import save_file

    for name, tensor in tensors.items():
        if name == "__metadata__" or tensor.ndim > _MOST_AXES:
            raise UsageError(f"cannot store a tensor called {name!r} of {tensor.ndim} axes")
        if tensor.dtype.newbyteorder("=") not in _KINDS:
            supported = ", ".join(sorted(map(str, _KINDS)))
            raise UsageError(f"cannot store numbers of type {tensor.dtype}; known: {supported}")
    ready = {  # the package needs contiguous memory in native byte order
        name: np.ascontiguousarray(tensor, tensor.dtype.newbyteorder("=")).reshape(tensor.shape)
        for name, tensor in sorted(tensors.items())
    }
    with replacing_path(path) as fresh:
        save_file(ready, fresh, {"format": layout} if layout else None)


def shrink(tensors: Mapping[str, Array], storage: Storage) -> dict[str, Array]:
    """Return weights in a smaller type for storage; `expand` is the inverse.

    `int8` quantises 32 neighbours in a row of a matrix (or the row, if it is not a multiple of 32) to 255
    levels, with their step in `<name>::scale` in half precision, rounded up, so that the error is at most
    half a step. With one step per row, a single large weight would blur all others. `fp16` applies to tensors
    of two or more axes. Vectors (biases, norms) stay fp32, integers are unchanged.

    Raises:
        DataError: A weight is not finite, or too large for the storage.

    >>> small = shrink({"w": np.array([[0.1, -1.27], [0.0, 0.0]], "f4")}, "int8")
    >>> small["w"].tolist(), expand(small)["w"].round(3).tolist()
    ([[10, -127], [0, 0]], [[0.10000000149011612, -1.2699999809265137], [0.0, 0.0]])
    """
    if storage not in _LIMITS:
        raise UsageError(f"unknown storage {storage!r}; choose one of {', '.join(_LIMITS)}")
    small: dict[str, Array] = {}
    for name, tensor in tensors.items():
        if name.endswith(_SCALE):
            raise UsageError(f"{name!r}: these tensors are small already; expand them first")
        if tensor.dtype.kind != "f":
            small[name] = tensor
            continue
        stored = storage if tensor.ndim == 2 or (tensor.ndim > 2 and storage == "fp16") else "fp32"
        largest = float(np.abs(tensor).max(initial=0.0))
        if not largest <= _LIMITS[stored]:  # also NaN
            raise DataError(f"holds {largest}, which {stored} cannot store", field=name)
        if stored == "int8":
            small[name], small[name + _SCALE] = _levels(tensor.astype(np.float32, copy=False))
        else:
            small[name] = tensor.astype(np.float16 if stored == "fp16" else np.float32)
    return small


def _levels(matrix: Array) -> tuple[Array, Array]:
    rows, columns = matrix.shape
    together = _TOGETHER if columns % _TOGETHER == 0 else columns
    parts = matrix.reshape(rows, columns // max(1, together), together)
    exact = np.abs(parts).max(axis=2, initial=0.0) / np.float32(127)
    with np.errstate(under="ignore"):
        scale = exact.astype(np.float16)
    scale = np.where(scale < exact, np.nextafter(scale, np.float16(np.inf)), scale)
    scale = np.maximum(scale, np.finfo(np.float16).smallest_subnormal)  # zeros stay zeros
    levels = np.clip(np.rint(parts / scale.astype(np.float32)[:, :, None]), -127, 127)
    return levels.reshape(rows, columns).astype(np.int8), scale


def expand(tensors: Mapping[str, Array], *, file: object = None) -> dict[str, Array]:
    """Return stored weights as fp32, the inverse of `shrink`; integers are unchanged.

    Args:
        file: Their file, for errors.

    Raises:
        DataError: An int8 matrix has no scale, a scale no matrix, or their sizes do not match.
    """
    large: dict[str, Array] = {}
    for name, tensor in tensors.items():
        if name.endswith(_SCALE):
            if (matrix := tensors.get(name.removesuffix(_SCALE))) is None or matrix.dtype != np.int8:
                raise DataError("a scale without its int8 matrix", file=file, field=name)
        elif tensor.dtype == np.int8:
            large[name] = _expanded(tensor, tensors.get(name + _SCALE), name, file)
        else:
            large[name] = tensor.astype(np.float32, copy=False) if tensor.dtype.kind == "f" else tensor
    return large


def _expanded(levels: Array, scale: Array | None, name: str, file: object) -> Array:
    rows, columns = levels.shape if levels.ndim == 2 else (0, 0)
    fits = (
        levels.ndim == 2
        and scale is not None
        and scale.ndim == 2
        and scale.dtype.kind == "f"
        and len(scale) == rows
    )
    if scale is None or not fits or (columns % scale.shape[1] if scale.shape[1] else columns):
        raise DataError("an int8 matrix needs a scale for each part of its rows", file=file, field=name)
    steps = scale.astype(np.float32)
    if not ((steps > 0) & (steps < 1e36)).all():
        raise DataError("a scale that is out of range", file=file, field=name + _SCALE)
    if not levels.size:
        return levels.astype(np.float32)
    parts = levels.reshape(rows, scale.shape[1], -1).astype(np.float32)
    parts *= steps[:, :, None]
    return parts.reshape(rows, columns)
