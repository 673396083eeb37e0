"""Text to token numbers, cut at what the encoder can really take."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dialeval.errors import DataError


@dataclass(frozen=True)
class Tokens:
    """The tokens of one text, special ones included, and whether some had to be left out."""

    ids: list[int]
    cut: bool


class Tokenizer:
    """A `tokenizer.json`, with the limit of the encoder it belongs to."""

    def __init__(self, path: Path, limit: int) -> None:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # it is fast enough, and forks stay safe
        from tokenizers import Tokenizer as Reader

        self.path, self.limit = path, limit
        with self._sound():
            self._whole = Reader.from_file(str(path))
            self._cut = Reader.from_file(str(path))
            for reader in (self._whole, self._cut):
                reader.encode_special_tokens = True  # "[SEP]" typed by a user is text, not a mark
            self._whole.no_padding()
            self._whole.no_truncation()
            self._cut.no_padding()
            self._cut.enable_truncation(limit)

    def special(self) -> tuple[list[int], list[int]]:
        """Return what stands around one empty text, and around two: how the family marks its texts."""
        with self._sound():
            return self._whole.encode("").ids, self._whole.encode("", "").ids

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Give each text's tokens with special ones around them, at most `limit`."""
        with self._sound():
            cut = self._cut.encode_batch_fast([_sound(text) for text in texts])
        return [Tokens(found.ids, bool(found.overflowing)) for found in cut]

    def bare(self, texts: Sequence[str]) -> list[list[int]]:
        """Give each text's tokens, all of them, without special ones."""
        with self._sound():
            found = self._whole.encode_batch_fast([_sound(text) for text in texts], add_special_tokens=False)
        return [one.ids for one in found]

    @contextlib.contextmanager
    def _sound(self) -> Iterator[None]:
        """Name the file in whatever the library raises: bare exceptions, and panics that are none at all."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, Exception) or type(error).__name__ == "PanicException":
                raise DataError(f"not a tokenizer: {error}", file=self.path) from None
            raise


def _sound(text: str) -> str:
    """Put U+FFFD for lone surrogates, which have no place in UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return text
