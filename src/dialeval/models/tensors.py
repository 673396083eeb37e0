"""Weights on disk: the safetensors format, and how weights are stored smaller than they compute.

A safetensors file is eight bytes (the length of the header), the header (JSON: name, type, shape and
place of every tensor) and the numbers. The header is somebody else's claim, so every claim in it is
checked against the size of the file before a byte is allocated. Tensors are read-only views of the
mapped file, so that a large model costs memory only where it is used or converted.
"""

import json
import math
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dialeval.errors import DataError, UsageError
from dialeval.files import replacing
from dialeval.models.untrusted import open_regular, parse_object

Storage = Literal["int8", "fp16", "fp32"]
Array = np.ndarray[Any, np.dtype[Any]]

_TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",  # the upper half of an fp32; numpy has no name for it
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U8": "|u1",
    "BOOL": "|u1",
}
_NAMES = {np.dtype(code): name for name, code in _TYPES.items() if name not in ("BF16", "BOOL")}
_LARGEST_HEADER = 10_000_000
_MOST_AXES = 8
_SCALE = "::scale"
_TOGETHER = 32  # neighbours in a row that share one step
_LIMITS = {"int8": 8e6, "fp16": 65504.0, "fp32": float(np.finfo(np.float32).max)}


def read_tensors(path: str | Path) -> dict[str, Array]:
    """Read every tensor of a safetensors file; bf16 becomes fp32, everything else stays what it is.

    Raises:
        DataError: The header is malformed, or claims what the file does not hold. Names the file.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "weights.safetensors"
    >>> write_tensors(place, {"bias": np.array([0.5, 2.0], "f4")})
    >>> place.stat().st_size, read_tensors(place)
    (80, {'bias': array([0.5, 2. ], dtype=float32)})
    """
    path = Path(path)
    with open_regular(path, follow=True) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little") if size >= 8 else 0
        if not 2 <= length <= min(size - 8, _LARGEST_HEADER):
            raise DataError(f"not a safetensors file: a header of {length} bytes in {size}", file=path)
        places = _places(parse_object(file.read(length), path), size - 8 - length, path)
        try:
            mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # out of address space, or cut since it was measured
            raise DataError(f"cannot be mapped: {error}", file=path) from None
    return {
        name: _view(mapped, dtype, shape, 8 + length + start)
        for name, (dtype, shape, start) in places.items()
    }


def _places(header: dict[str, Any], room: int, path: Path) -> dict[str, tuple[str, tuple[int, ...], int]]:
    """Check all that a header claims; the tensors must fill the rest of the file without gap or overlap."""
    notes = header.pop("__metadata__", {})
    if not isinstance(notes, dict) or not all(isinstance(note, str) for note in notes.values()):
        raise DataError("metadata must be strings by name", file=path, field="__metadata__")
    found, spans = {}, []
    for name, claim in header.items():
        kind, shape, start, end = _claim(claim, path, ascii(name[:80]))
        found[name] = (kind, shape, start)
        spans.append((start, end, name))
    reached = 0
    for start, end, name in sorted(spans):
        if start != reached:
            wrong = "overlaps what is before it" if start < reached else "leaves a gap before it"
            raise DataError(wrong, file=path, field=ascii(name[:80]))
        reached = end
    if reached != room:
        raise DataError(f"the header describes {reached} bytes of numbers, the file has {room}", file=path)
    return found


def _claim(claim: Any, path: Path, field: str) -> tuple[str, tuple[int, ...], int, int]:
    if not isinstance(claim, dict) or claim.keys() != {"dtype", "shape", "data_offsets"}:
        raise DataError("expected dtype, shape and data_offsets", file=path, field=field)
    kind, shape, offsets = claim["dtype"], claim["shape"], claim["data_offsets"]
    if not isinstance(kind, str) or kind not in _TYPES:
        known = ", ".join(_TYPES)
        raise DataError(f"unknown dtype {str(kind)[:20]!a}", file=path, field=field, fix=f"known: {known}")
    if not _whole(shape) or len(shape) > _MOST_AXES:
        raise DataError("shape must be at most 8 whole numbers, none negative", file=path, field=field)
    if not _whole(offsets) or len(offsets) != 2:
        raise DataError("data_offsets must be two whole numbers, none negative", file=path, field=field)
    width = np.dtype(_TYPES[kind]).itemsize
    if math.prod(size or 1 for size in shape) * width >= 1 << 62:  # numpy minds even when another axis is 0
        raise DataError("shape is larger than any memory", file=path, field=field)
    if offsets[1] - offsets[0] != math.prod(shape) * width:
        raise DataError("shape and data_offsets disagree", file=path, field=field)
    return kind, tuple(shape), offsets[0], offsets[1]


def _whole(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(one) is int and one >= 0 for one in numbers)


def _view(mapped: mmap.mmap, kind: str, shape: tuple[int, ...], start: int) -> Array:
    dtype = np.dtype(_TYPES[kind])
    if 0 in shape:
        numbers = np.empty(shape, dtype)
    else:
        numbers = np.frombuffer(mapped, dtype, math.prod(shape), start).reshape(shape)
    if kind == "BF16":
        return np.asarray(numbers.astype("<u4") << 16, "<u4").view("<f4")
    if kind == "BOOL":
        return np.asarray(numbers != 0)
    return np.require(numbers, requirements="A")  # a header without padding: copied into place


def write_tensors(
    path: str | Path, tensors: Mapping[str, Array], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a safetensors file; the same tensors give the same bytes, in whatever order they come.

    Written here rather than by the library, which orders metadata by chance and needs all in memory twice.
    """
    header: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))} if metadata else {}
    ordered = sorted(
        tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])
    )  # keeps all aligned
    start = 0
    for name, tensor in ordered:
        if name == "__metadata__" or tensor.ndim > _MOST_AXES:
            raise UsageError(f"cannot store a tensor called {name!r} of {tensor.ndim} axes")
        end = start + tensor.nbytes
        header[name] = {"dtype": _name(tensor), "shape": list(tensor.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, tensor in ordered:
            little = tensor.astype(tensor.dtype.newbyteorder("<"), copy=False)
            file.write(np.ascontiguousarray(little).reshape(-1).view(np.uint8).data)


def _name(tensor: Array) -> str:
    if tensor.dtype == np.bool_:
        return "BOOL"
    name = _NAMES.get(tensor.dtype.newbyteorder("<"))
    if name is None:
        raise UsageError(f"cannot store numbers of type {tensor.dtype}; known: {', '.join(_NAMES.values())}")
    return name


def shrink(tensors: Mapping[str, Array], storage: Storage) -> dict[str, Array]:
    """Make weights smaller to store; `expand` makes them numbers to compute with again.

    `int8` turns every 32 neighbours in a row of a matrix (the whole row, where it is no multiple of 32) into
    255 levels between plus and minus the largest of them, and keeps the step in `<name>::scale`, half
    precision, rounded up: no weight is off by more than half a step. One step for a whole row lets a single
    large weight blur all others. `fp16` halves matrices and whatever has more axes. Vectors (biases, norms)
    stay fp32: small, and they matter. Whole numbers stay.

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
        if not largest <= _LIMITS[stored]:  # NaN is not, either
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
    """Undo `shrink`: every weight as fp32; whole numbers (positions, say) stay what they are.

    Args:
        tensors: What `shrink` made, or any tensors.
        file: Where they come from, to be named if they do not fit together.

    Raises:
        DataError: An int8 matrix has no scale, a scale no matrix, or the two do not fit.
    """
    large: dict[str, Array] = {}
    for name, tensor in tensors.items():
        if name.endswith(_SCALE):
            if (other := tensors.get(name.removesuffix(_SCALE))) is None or other.dtype != np.int8:
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
        raise DataError("a scale that no weight can have", file=file, field=name + _SCALE)
    if not levels.size:
        return levels.astype(np.float32)
    parts = levels.reshape(rows, scale.shape[1], -1).astype(np.float32)
    parts *= steps[:, :, None]
    return parts.reshape(rows, columns)
