"""Token states: every token of every dialogue, to be compared token by token, never searched."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dialeval.errors import DataError, UsageError
from dialeval.models.index.dense import fixed_list, numbers, ragged, unit
from dialeval.models.index.layout import REBUILD, Array, TokenKind
from dialeval.models.token_states import TokenStates, joined

if TYPE_CHECKING:
    import pyarrow as pa


class TokenColumn:
    """A column of token states over all batches, in the order of the rows."""

    held = "token states"

    def __init__(self, batches: "Sequence[pa.Array]", kind: TokenKind, name: str, folder: Path) -> None:
        self.parts = [_read(one, kind.width) for one in batches]
        self.ends = [numbers(one.offsets) for one in batches]
        self.starts = np.cumsum([0, *map(len, batches)])
        # Any byte is a number, but what leads elsewhere or spoils a score is looked through.
        if not all(_sound(one.scales) and one.tokens.min(initial=0) >= 0 for one in self.parts):
            raise DataError(f"the token states of {name!r} are damaged", file=folder, fix=REBUILD)

    @staticmethod
    def stored(kind: TokenKind) -> "pa.DataType":
        """Return the type of the column in a file."""
        import pyarrow as pa

        return ragged(tokens=pa.int32(), numbers=fixed_list("int8", kind.width), scales=pa.float32())

    @classmethod
    def packed(cls, given: object, kind: TokenKind, name: str, ids: Sequence[str]) -> "pa.Array":
        """Bring states to length one and to one byte a number, as they are stored; bytes stay as they are."""
        import pyarrow as pa

        if not isinstance(given, Sequence) or isinstance(given, str | bytes):
            raise UsageError(f"{name}: a column of token states is a list, one TokenStates for each dialogue")
        each = [_packed(one, kind.width, name, own) for one, own in zip(given, ids, strict=True)]
        whole, stored = joined(each, kind.width, np.int8), cls.stored(kind)
        numbers = pa.FixedSizeListArray.from_arrays(
            pa.array(whole.numbers.reshape(-1)), type=stored.value_type.field("numbers").type
        )
        parts = [pa.array(whole.tokens, pa.int32()), numbers, pa.array(whole.scales, pa.float32())]
        items = pa.StructArray.from_arrays(parts, fields=list(stored.value_type))
        ends = pa.array(np.cumsum([0, *map(len, each)]), pa.int64())
        return pa.LargeListArray.from_arrays(ends, items, type=stored)

    def take(self, rows: Sequence[int]) -> list[TokenStates]:
        """Return the states of some rows: read-only views of the files, in the order asked for."""
        found = []
        for number, row in zip(np.searchsorted(self.starts, rows, "right") - 1, rows, strict=True):
            part, inner = self.parts[number], row - self.starts[number]
            here = slice(*self.ends[number][inner : inner + 2].tolist())
            found.append(TokenStates(part.tokens[here], part.numbers[here], part.scales[here]))
        return found


def _read(batch: "pa.Array", width: int) -> TokenStates:
    tokens, states, scales = (batch.values.field(part) for part in ("tokens", "numbers", "scales"))
    rows = numbers(states.flatten()).reshape(-1, width)
    return TokenStates(numbers(tokens), rows, numbers(scales))


def width_of(states: TokenStates, column: str) -> int:
    """Return how wide the states of a dialogue are."""
    shape = np.shape(states.numbers)
    if len(shape) != 2 or not shape[1]:
        raise UsageError(f"{column}: token states are an array with a row for each token, not {shape}")
    return int(shape[1])


def _packed(one: object, width: int, column: str, name: str) -> TokenStates:
    if not isinstance(one, TokenStates):
        raise UsageError(f"{column}: {one!r:.80} is no TokenStates")
    found, size = width_of(one, column), len(one.numbers)
    if found != width:
        raise UsageError(f"{column}: token states are {found} wide, those of the index {width}")
    tokens, scales = np.asarray(one.tokens), np.asarray(one.scales)
    if tokens.shape != (size,) or scales.shape != (size,) or (size and tokens.dtype.kind not in "iu"):
        raise UsageError(f"{column}: {name!r} has {size} states, which need as many token numbers and scales")
    if size and (tokens.min() < 0 or tokens.max() >= 1 << 31):
        raise UsageError(f"{column}: {name!r} has token numbers that no vocabulary has")
    if one.numbers.dtype != np.int8:
        states = unit(one.vectors, width, column, [name] * size)
        return TokenStates.of(tokens, states).packed()
    if not _sound(scales):
        raise DataError(f"the scales of {name!r} are not finite", field=column)
    return one


def _sound(scales: Array) -> bool:
    return not len(scales) or bool(scales.min() >= 0 and scales.max() < np.inf)
