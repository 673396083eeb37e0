"""Text to token numbers, cut at what the encoder can take, and token numbers to batches.

Texts of like length go together, a bounded number of tokens at a time, one batch per core.
"""

import base64
import contextlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from dialeval.errors import DataError, UsageError


@dataclass(frozen=True)
class TokenIds:
    """The tokens of one text, special ones included, and whether some had to be left out."""

    ids: list[int]
    cut: bool


class Tokenizer:
    """A `tokenizer.json`, with the limit and the vocabulary of the encoder it belongs to."""

    def __init__(self, path: Path, limit: int, vocabulary: int = 1 << 24) -> None:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # it is fast enough, and forks stay safe
        from tokenizers import Tokenizer as Reader

        self.path, self.limit, self.vocabulary = path, limit, vocabulary
        with self._errors():
            check_growth(path.read_bytes(), path)
            self._whole = Reader.from_file(str(path))
            self._cut = Reader.from_file(str(path))
            for reader in (self._whole, self._cut):
                reader.encode_special_tokens = True  # "[SEP]" typed by a user is text, not a mark
            self._whole.no_padding()
            self._whole.no_truncation()
            self._cut.no_padding()
            self._cut.enable_truncation(limit)
            self._special = self._whole.encode("").ids, self._whole.encode("", "").ids

    def special(self) -> tuple[list[int], list[int]]:
        """Return what stands around one empty text, and around two: how the family marks its texts."""
        return self._special

    def encode(self, texts: Sequence[str]) -> list[TokenIds]:
        """Return each text's tokens with special ones around them, at most `limit`."""
        with self._errors():
            cut = self._cut.encode_batch_fast([_valid(text) for text in texts])
        return [TokenIds(self._known(encoding.ids), bool(encoding.overflowing)) for encoding in cut]

    def bare(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's tokens, all of them, without special ones."""
        with self._errors():
            encodings = self._whole.encode_batch_fast(
                [_valid(text) for text in texts], add_special_tokens=False
            )
        return [self._known(encoding.ids) for encoding in encodings]

    def _known(self, ids: list[int]) -> list[int]:
        """Return the ids; raises if one is outside the vocabulary."""
        if max(ids, default=0) >= self.vocabulary:
            message = f"returns the token {max(ids)}, but the model has {self.vocabulary}: not its tokenizer"
            raise DataError(message, file=self.path)
        return ids

    def offsets(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Return where each token of a text begins and ends, in characters, without special ones."""
        marks = len(self.special()[0])
        with self._errors():
            encodings = self._cut.encode_batch([_valid(text) for text in texts])
        first = marks // 2
        return [encoding.offsets[first : len(encoding.ids) - (marks - first)] for encoding in encodings]

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn the library's exceptions and panics into errors that name the file."""
        try:
            yield
        except DataError:
            raise
        except BaseException as error:
            if isinstance(error, Exception) or type(error).__name__ == "PanicException":
                raise DataError(f"not a tokenizer: {error}", file=self.path) from None
            raise


def check_growth(content: bytes, file: object) -> None:
    """Refuse a `tokenizer.json` whose normaliser may make a text very much longer: it would never end.

    Raises:
        DataError: By its rules, taken together, a text can become more than 256 times as long.
    """
    if (times := _growth(msgspec.json.decode(content).get("normalizer") or {})) > _GROWTH:
        raise DataError(f"its normaliser can make a text {times:.3g} times as long", file=file)


def _growth(rule: Any) -> float:
    """Return how many times as long a rule of a normaliser can make a text, at most."""
    kind = rule.get("type")
    if kind == "Sequence":
        return math.prod(_growth(inner) for inner in rule["normalizers"])
    if kind == "Replace" and (pattern := rule["pattern"].get("String")):
        return float(max(1.0, len(rule["content"]) / len(pattern)))
    if kind == "Replace":  # by a regular expression, which may match nothing between any two characters
        return 1.0 + len(rule["content"])
    if kind == "Prepend":
        return 1.0 + len(rule["prepend"])
    if kind == "Precompiled":  # a table of what to put for characters: its own size, a trie, then the texts
        table = base64.b64decode(rule["precompiled_charsmap"] or b"")
        texts = table[4 + int.from_bytes(table[:4], "little") :]
        return float(max([1, *map(len, texts.split(b"\0"))]))
    return 1.0


def _valid(text: str) -> str:
    """Return text with lone surrogates replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return text


_GROWTH = 256  # times; the largest table in use, of NFKC, has 33
BATCH_TOKENS = 512  # activations that stay in a core's cache; larger batches are slower, not faster
_PADDING = 24  # tokens of nothing that cost about as much as one more run
Ints = npt.NDArray[np.int32]
Item = TypeVar("Item")
Result = TypeVar("Result")


def batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Group texts by length, longest first, so that no batch holds more than `budget` tokens with padding.

    A text longer than the budget is a batch of its own. Few texts of very different lengths are several
    batches, too: one more run costs less than much padding.

    >>> batches([3, 9, 4, 8], budget=18)
    [[1, 3], [2, 0]]
    >>> batches([100, 98, 20, 19], budget=512)
    [[0, 1], [2, 3]]
    """
    groups: list[list[int]] = []
    room = padding = longest = 0
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        padding += longest - lengths[place]
        if room < 1 or padding > _PADDING:
            groups.append([])
            longest, padding = lengths[place], 0
            room = max(1, budget // max(1, longest))
        groups[-1].append(place)
        room -= 1
    return groups


def padded(ids: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Return a zero-padded table of token numbers, and the length of each text."""
    lengths = np.array([len(tokens) for tokens in ids], np.int32)
    table = np.zeros((len(ids), int(lengths.max())), np.int32)
    for row, tokens in zip(table, ids, strict=True):
        row[: len(tokens)] = tokens
    return table, lengths


def side_by_side(
    run: Callable[[Item], Result], items: Sequence[Item], threads: int
) -> Iterator[tuple[Item, Result]]:
    """Yield items and results in order; each item runs on one core, several in parallel."""
    if threads == 1 or len(items) < 2:
        yield from ((item, run(item)) for item in items)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from zip(items, pool.map(run, items), strict=True)


def default_threads() -> int:
    """Return how many cores to use: `DIALEVAL_THREADS`, or all that this process may run on."""
    setting = os.environ.get("DIALEVAL_THREADS", "")
    if setting:
        if not setting.isdigit() or int(setting) < 1:
            raise UsageError(f"DIALEVAL_THREADS={setting}: expected a number of cores")
        return int(setting)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
