"""Token states: every token of every dialogue, to be compared token by token, never searched."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dialeval.errors import DataError, UsageError
from dialeval.models.index.dense import unit
from dialeval.models.index.layout import REBUILD
from dialeval.models.index.ragged import Array, TokenRows
from dialeval.models.index.segments import Segment
from dialeval.models.states import TokenStates


class Tokens:
    """A column of token states over all segments, in the order of the rows."""

    def __init__(self, segments: Sequence[Segment], column: str) -> None:
        self.parts = [_checked(segment, column) for segment in segments]
        self.starts = np.cumsum([0, *(segment.rows for segment in segments)])

    def take(self, rows: Sequence[int]) -> list[TokenStates]:
        """Return the states of some rows: read-only views of the files, in the order asked for."""
        found = []
        for number, row in zip(np.searchsorted(self.starts, rows, "right") - 1, rows, strict=True):
            part, inner = self.parts[number], row - self.starts[number]
            here = slice(int(part.ends[inner]), int(part.ends[inner + 1]))
            found.append(TokenStates(part.tokens[here], part.numbers[here], part.scales[here]))
        return found


def pack(given: object, width: int, column: str, ids: Sequence[str]) -> TokenRows:
    """Bring the states of dialogues to length one and to one byte a number; bytes are kept as they are."""
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise UsageError(f"{column}: a column of token states is a list, one TokenStates for each dialogue")
    parts = [_packed(one, width, column, name) for one, name in zip(given, ids, strict=True)]
    return TokenRows(
        np.cumsum([0, *map(len, parts)]),
        np.concatenate([np.empty(0, "<i4"), *(part.tokens for part in parts)]),
        np.concatenate([np.empty((0, width), "i1"), *(part.numbers for part in parts)]),
        np.concatenate([np.empty(0, "<f4"), *(part.scales for part in parts)]),
    )


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


def _checked(segment: Segment, column: str) -> TokenRows:
    """Look through what leads elsewhere or spoils a score; any byte is a number."""
    rows: Any = segment.columns[column]
    if not rows.holds():
        wrong = "ends"
    elif len(rows.tokens) and rows.tokens.min() < 0:
        wrong = "tokens"
    elif not _sound(rows.scales):
        wrong = "scales"
    else:
        return rows  # type: ignore[no-any-return]
    raise DataError("damaged", file=segment.place / f"{column}.{wrong}", fix=REBUILD)
