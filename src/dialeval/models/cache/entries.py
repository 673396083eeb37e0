"""Entries: what an encoding is called, what may be one, and how one is written down with its checksum."""

import hashlib
import math
import struct
import zlib
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dialeval.errors import UsageError

Array: TypeAlias = npt.NDArray[np.floating[Any]]

_TYPES: dict[int, np.dtype[Any]] = {4: np.dtype("<f4"), 2: np.dtype("<f2")}
_KNOWN = frozenset(_TYPES.values())
_HEAD = struct.Struct("<BBHII")  # layout, type, dimensions, rows, columns; a checksum of 4 bytes follows
_START = _HEAD.size + 4
_LAYOUT = 1


def key(namespace: str, text: str) -> bytes:
    """Name what `namespace` (an encoder and how it is used) makes of `text`: 20 bytes.

    >>> key("encoder", "Good morning").hex()
    'e976207a6122c06341d830b5419c51a3e2b2e1dc'
    >>> key("ab", "c") == key("a", "bc")
    False
    """
    name = namespace.encode("utf-8", "surrogatepass")
    content = len(name).to_bytes(8, "little") + name + text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=20).digest()


def check_arrays(keys: Sequence[bytes], arrays: Sequence[Array] | Array) -> None:
    """Refuse what no entry can be: other types, other dimensions, other numbers of keys."""
    if len(keys) != len(arrays):
        raise UsageError(f"{len(keys)} keys for {len(arrays)} arrays")
    for array in arrays:
        if array.dtype not in _KNOWN or not 1 <= array.ndim <= 2:
            raise UsageError(
                f"cannot keep an array of {array.dtype} with {array.ndim} dimensions: "
                "float32 or float16, 1 or 2 dimensions"
            )


def packed(one: bytes, array: Array) -> bytes:
    """Write an array down with its type, shape and a checksum over it and its key."""
    head = _HEAD.pack(_LAYOUT, array.itemsize, array.ndim, *(*array.shape, 0)[:2])
    body = array.tobytes()
    return b"".join((head, zlib.crc32(body, zlib.crc32(one + head)).to_bytes(4, "little"), body))


def unpacked(one: Any, body: Any) -> Array | None:
    """Return the array, read-only, or None if a bit of it, of its shape or of its key is not as written."""
    if not (type(one) is type(body) is bytes) or len(body) < _START:
        return None
    layout, size, dimensions, rows, columns = _HEAD.unpack_from(body)
    shape = (rows, columns) if dimensions == 2 else (rows,)
    if layout != _LAYOUT or size not in _TYPES or math.prod(shape) * size != len(body) - _START:
        return None
    found = zlib.crc32(memoryview(body)[_START:], zlib.crc32(one + body[: _HEAD.size]))
    if found != int.from_bytes(body[_HEAD.size : _START], "little"):
        return None
    return np.ndarray(shape, _TYPES[size], body, _START)
