"""Tokenisation, truncated to an encoder's limit, and batches of texts of similar length."""

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
    """The token ids of a text, special ones included, and whether it was truncated."""

    ids: list[int]
    cut: bool


class Tokenizer:
    """A `tokenizer.json`, with the limit and vocabulary size of its encoder."""

    def __init__(self, path: Path, limit: int, vocabulary: int = 1 << 24) -> None:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # it is fast enough, and forks stay safe
        from tokenizers import Tokenizer as Reader

        self.path, self.limit, self.vocabulary = path, limit, vocabulary
        with self._errors():
            check_growth(path.read_bytes(), path)
            self._whole = Reader.from_file(str(path))
            self._cut = Reader.from_file(str(path))
            for reader in (self._whole, self._cut):
                reader.encode_special_tokens = True  # "[SEP]" typed by a user is text
            self._whole.no_padding()
            self._whole.no_truncation()
            self._cut.no_padding()
            self._cut.enable_truncation(limit)
            self._special = self._whole.encode("").ids, self._whole.encode("", "").ids

    def special(self) -> tuple[list[int], list[int]]:
        """Return the special tokens around one empty text, and around two."""
        return self._special

    def encode(self, texts: Sequence[str]) -> list[TokenIds]:
        """Return the tokens of each text with special ones, at most `limit`."""
        with self._errors():
            cut = self._cut.encode_batch_fast([_valid(text) for text in texts])
        return [TokenIds(self._known(encoding.ids), bool(encoding.overflowing)) for encoding in cut]

    def bare(self, texts: Sequence[str]) -> list[list[int]]:
        """Return all tokens of each text without special ones."""
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
        """Return first and last character of each token of each text, without special ones."""
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
    """Raise if the normaliser of a `tokenizer.json` can make a text more than 256 times as long."""
    if (times := _growth(msgspec.json.decode(content).get("normalizer") or {})) > _GROWTH:
        raise DataError(f"its normaliser can make a text {times:.3g} times as long", file=file)


def _growth(rule: Any) -> float:
    """Return the largest factor by which a rule of a normaliser can lengthen a text."""
    kind = rule.get("type")
    if kind == "Sequence":
        return math.prod(_growth(inner) for inner in rule["normalizers"])
    if kind == "Replace" and (pattern := rule["pattern"].get("String")):
        return float(max(1.0, len(rule["content"]) / len(pattern)))
    if kind == "Replace":  # by a regular expression, which may match between any two characters
        return 1.0 + len(rule["content"])
    if kind == "Prepend":
        return 1.0 + len(rule["prepend"])
    if kind == "Precompiled":  # a table: size of the trie, the trie, the replacements
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
BATCH_TOKENS = 512  # activations that fit in a core's cache; larger batches are slower
_PADDING = 24  # padding tokens that cost about as much as one more run
Ints = npt.NDArray[np.int32]
Item = TypeVar("Item")
Result = TypeVar("Result")


def batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Group texts by length, longest first, with at most `budget` tokens per batch, padding included.

    A longer text is a batch of its own. Texts of very different lengths are in different batches, because one
    more run costs less than much padding.

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
    """Return a zero-padded table of token ids, and the lengths."""
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
    """Return the number of cores to use: `DIALEVAL_THREADS`, or all that are available."""
    setting = os.environ.get("DIALEVAL_THREADS", "")
    if setting:
        if not setting.isdigit() or int(setting) < 1:
            raise UsageError(f"DIALEVAL_THREADS={setting}: expected a number of cores")
        return int(setting)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
