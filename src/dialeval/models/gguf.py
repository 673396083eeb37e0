"""GGUF files: metadata, tokenizer and weights of a language model, expanded to fp32.

The file is not trusted: every length in it is compared with the size of the file before anything is read or
allocated. Nothing in it is executed, not even its chat template.
"""

import mmap
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dialeval.errors import DataError
from dialeval.manifests import open_regular

Floats = npt.NDArray[np.float32]
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
_MOST = 1 << 24  # entries of a list, of the metadata, or of the table of tensors


class Gguf:
    """An open GGUF file: `fields` by name, and `tensor(name)`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_regular(path, follow=True) as file:
            try:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except (ValueError, OSError):  # empty, or on a file system that cannot
                raise DataError("cannot be read as a GGUF file", file=path) from None
        self._at = 0
        try:
            self.fields, self._tensors = self._head()
        except (struct.error, UnicodeDecodeError, KeyError, RecursionError):
            raise DataError("the header of this GGUF file is damaged", file=path) from None

    def field(self, name: str, kind: type | tuple[type, ...]) -> Any:
        """Return a metadata field; raises if it is missing or of another type."""
        value = self.fields.get(name)
        if not isinstance(value, kind):
            raise DataError("is missing or has the wrong type", file=self.path, field=name)
        return value

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def tensor(self, name: str, *shape: int) -> Floats:
        """Return a tensor in fp32; raises if its shape differs."""
        if name not in self._tensors:
            raise DataError("the file has no such tensor", file=self.path, field=name)
        actual, kind, start = self._tensors[name]
        if actual != shape:
            raise DataError(f"has the shape {actual}, expected {shape}", file=self.path, field=name)
        if kind not in _KINDS:
            names = ", ".join(entry[0] for entry in _KINDS.values())
            fix = f"supported: {names}"
            raise DataError(f"its weights have an unsupported type ({kind})", file=self.path, fix=fix)
        _, group, size, expand = _KINDS[kind]
        count = int(np.prod(shape, dtype=np.int64))
        if count % group or start + count // group * size > len(self._bytes):
            raise DataError("reaches beyond the end of the file", file=self.path, field=name)
        raw = np.frombuffer(self._bytes, np.uint8, count // group * size, start).reshape(-1, size)
        with np.errstate(all="ignore"):  # scales may be no numbers
            return np.ascontiguousarray(expand(raw).reshape(shape), np.float32)

    def _head(self) -> tuple[dict[str, Any], dict[str, tuple[tuple[int, ...], int, int]]]:
        if self._bytes[:4] != b"GGUF":
            raise DataError("this is not a GGUF file", file=self.path)
        self._at = 4
        if (version := self._number("I")) not in (2, 3):
            raise DataError(f"GGUF version {version} is not supported; 2 and 3 are", file=self.path)
        tensors, entries = self._length(), self._length()
        fields = {self._text(): self._value(int(self._number("I"))) for _ in range(entries)}
        table = {}
        for _ in range(tensors):
            name = self._text()
            rank = int(self._number("I"))
            if rank > 4:
                raise struct.error
            shape = tuple(self._length(1 << 40) for _ in range(rank))[::-1]
            kind, offset = int(self._number("I")), int(self._number("Q"))
            table[name] = (shape, kind, offset)
        step = fields.get("general.alignment", 32)
        if type(step) is not int or not 0 < step <= _MOST:
            raise struct.error
        start = -(-self._at // step) * step
        return fields, {name: (shape, kind, start + at) for name, (shape, kind, at) in table.items()}

    def _number(self, code: str) -> int | float:
        value = struct.unpack_from(f"<{code}", self._bytes, self._at)[0]
        self._at += struct.calcsize(f"<{code}")
        return value  # type: ignore[no-any-return]

    def _length(self, most: int = _MOST) -> int:
        count = int(self._number("Q"))
        if count > most:
            raise struct.error
        return count

    def _text(self) -> str:
        count = self._length(len(self._bytes) - self._at)
        self._at += count
        return self._bytes[self._at - count : self._at].decode()

    def _value(self, kind: int) -> Any:
        if kind == _TEXT:
            return self._text()
        if kind == _LIST:
            inner = int(self._number("I"))
            if inner == _LIST:  # no file has lists of lists
                raise struct.error
            return [self._value(inner) for _ in range(self._length())]
        return self._number(_SCALARS[kind])


def _half(raw: npt.NDArray[np.uint8], column: int) -> Floats:
    """Read one half-precision number of every group."""
    return np.ascontiguousarray(raw[:, column : column + 2]).view("<f2").astype(np.float32)


def _nibbles(raw: npt.NDArray[np.uint8]) -> Floats:
    """Unpack two 4-bit numbers per byte: first all lower halves, then all upper ones."""
    return np.concatenate([raw & 15, raw >> 4], axis=1).astype(np.float32)


def _fifths(raw: npt.NDArray[np.uint8]) -> Floats:
    """Read the fifth bits of 32 numbers, each worth 16."""
    return np.unpackbits(np.ascontiguousarray(raw), axis=1, bitorder="little").astype(np.float32) * 16


def _bfloat(raw: npt.NDArray[np.uint8]) -> Floats:
    return (np.ascontiguousarray(raw).view("<u2").astype(np.uint32) << 16).view(np.float32)


# number in the format: (name, weights in a group, bytes of a group, how it is expanded)
_KINDS: dict[int, tuple[str, int, int, Callable[[npt.NDArray[np.uint8]], Floats]]] = {
    0: ("F32", 1, 4, lambda raw: np.ascontiguousarray(raw).view("<f4")),
    1: ("F16", 1, 2, lambda raw: _half(raw, 0)),
    2: ("Q4_0", 32, 18, lambda raw: _half(raw, 0) * (_nibbles(raw[:, 2:]) - 8)),
    3: ("Q4_1", 32, 20, lambda raw: _half(raw, 0) * _nibbles(raw[:, 4:]) + _half(raw, 2)),
    6: ("Q5_0", 32, 22, lambda raw: _half(raw, 0) * (_nibbles(raw[:, 6:]) + _fifths(raw[:, 2:6]) - 16)),
    7: (
        "Q5_1",
        32,
        24,
        lambda raw: _half(raw, 0) * (_nibbles(raw[:, 8:]) + _fifths(raw[:, 4:8])) + _half(raw, 2),
    ),
    8: ("Q8_0", 32, 34, lambda raw: _half(raw, 0) * raw[:, 2:].view(np.int8).astype(np.float32)),
    30: ("BF16", 1, 2, _bfloat),
}


_CONTROL = 3  # kinds of tokens, as the format numbers them
_USER_DEFINED = 4
_LLAMA_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class BytePairs:
    """The byte-pair tokenizer of a GGUF file."""

    def __init__(self, file: Gguf) -> None:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        if (kind := file.fields.get("tokenizer.ggml.model")) != "gpt2":
            raise DataError(f"unsupported tokenizer {kind!r}: only byte pairs (gpt2)", file=file.path)
        tokens = [str(token) for token in file.field("tokenizer.ggml.tokens", list)]
        kinds = file.field("tokenizer.ggml.token_type", list)
        marks = [
            token
            for token, token_kind in zip(tokens, kinds, strict=False)
            if token_kind in (_CONTROL, _USER_DEFINED)
        ]
        self._marks, self._words = _readers(file, tokens), _readers(file, tokens)
        self._marks.add_special_tokens(marks)
        self._first = file.fields.get("tokenizer.ggml.bos_token_id", -1)
        if type(self._first) is not int or not -1 <= self._first < len(tokens):
            raise DataError("is not a token number", file=file.path, field="tokenizer.ggml.bos_token_id")
        if not file.fields.get("tokenizer.ggml.add_bos_token", False):
            self._first = -1

    def first(self) -> list[int]:
        """Return the token that every text begins with, if the model has one."""
        return [self._first] if self._first >= 0 else []

    def marks(self, text: str) -> list[int]:
        """Return the tokens of a template, with special tokens recognised."""
        return list(self._marks.encode(text, add_special_tokens=False).ids)

    def words(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of texts, with special tokens as plain text."""
        return [
            list(encoding.ids) for encoding in self._words.encode_batch(list(texts), add_special_tokens=False)
        ]


def _readers(file: Gguf, tokens: list[str]) -> Any:
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    pairs = [str(merge).partition(" ") for merge in file.field("tokenizer.ggml.merges", list)]
    merges = [(left, right) for left, _, right in pairs]
    try:
        tokenizer = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, merges))
    except Exception as error:  # the library raises bare exceptions
        raise DataError(f"its tokenizer cannot be used: {error}", file=file.path) from None
    with_words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    ways: dict[str, list[Any]] = {
        "gpt-2": [with_words],
        "smollm": [pre_tokenizers.Digits(individual_digits=True), with_words],
        "llama-bpe": [pre_tokenizers.Split(Regex(_LLAMA_WORDS), "isolated"), plain],
    }
    way = str(file.fields.get("tokenizer.ggml.pre", "gpt-2"))
    if way not in ways:
        fix = f"supported: {', '.join(ways)}"
        raise DataError(f"unsupported pre-tokenizer {way!r}", file=file.path, fix=fix)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(ways[way])
    return tokenizer
