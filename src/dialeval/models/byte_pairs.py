"""The tokenizer that a GGUF file carries: byte pairs, with the marks of its chat format kept apart.

What a template puts between turns is read with marks (`<|im_end|>` is one token); what somebody said is
read as text, whatever it looks like: nobody can end a turn by typing its end.
"""

import os
from collections.abc import Sequence
from typing import Any

from dialeval.errors import DataError
from dialeval.models.gguf import Gguf

_CONTROL = 3  # kinds of tokens, as the format numbers them
_USER_DEFINED = 4
_LLAMA_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class BytePairs:
    """Text to tokens, as the model of a GGUF file was trained to see it."""

    def __init__(self, file: Gguf) -> None:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        if (kind := file.fields.get("tokenizer.ggml.model")) != "gpt2":
            raise DataError(f"its tokenizer is {kind!r}, only byte pairs are known here", file=file.path)
        tokens = [str(one) for one in file.field("tokenizer.ggml.tokens", list)]
        kinds = file.field("tokenizer.ggml.token_type", list)
        marks = [token for token, one in zip(tokens, kinds, strict=False) if one in (_CONTROL, _USER_DEFINED)]
        self._marks, self._words = _readers(file, tokens), _readers(file, tokens)
        self._marks.add_special_tokens(marks)
        self._first = file.fields.get("tokenizer.ggml.bos_token_id", -1)
        if type(self._first) is not int or not -1 <= self._first < len(tokens):
            raise DataError("is no token", file=file.path, field="tokenizer.ggml.bos_token_id")
        if not file.fields.get("tokenizer.ggml.add_bos_token", False):
            self._first = -1

    def first(self) -> list[int]:
        """Return what every text begins with, if the model wants it."""
        return [self._first] if self._first >= 0 else []

    def marks(self, text: str) -> list[int]:
        """Read what a template says."""
        return list(self._marks.encode(text, add_special_tokens=False).ids)

    def words(self, texts: Sequence[str]) -> list[list[int]]:
        """Read what people say."""
        return [list(one.ids) for one in self._words.encode_batch(list(texts), add_special_tokens=False)]


def _readers(file: Gguf, tokens: list[str]) -> Any:
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    pairs = [str(one).partition(" ") for one in file.field("tokenizer.ggml.merges", list)]
    merges = [(left, right) for left, _, right in pairs]
    try:
        made = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, merges))
    except Exception as error:  # the library raises bare exceptions
        raise DataError(f"its tokenizer cannot be used: {error}", file=file.path) from None
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    ways: dict[str, list[Any]] = {
        "gpt-2": [whole],
        "smollm": [pre_tokenizers.Digits(individual_digits=True), whole],
        "llama-bpe": [pre_tokenizers.Split(Regex(_LLAMA_WORDS), "isolated"), plain],
    }
    way = str(file.fields.get("tokenizer.ggml.pre", "gpt-2"))
    if way not in ways:
        fix = f"known are {', '.join(ways)}"
        raise DataError(f"it cuts text into words in a way ({way!r}) not known here", file=file.path, fix=fix)
    made.pre_tokenizer = pre_tokenizers.Sequence(ways[way])
    return made
