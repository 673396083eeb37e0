"""Functions to read the original files of public sets; every error names the file.

Most sets are JSON of a known shape. The shape is a type that msgspec checks while decoding, so a damaged file
is rejected with the path of the field (`$[3].dialogue[0]`) instead of failing later with a `KeyError`.
"""

import hashlib
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from dialeval import files
from dialeval.errors import DataError
from dialeval.scores import Score

T = TypeVar("T")
_FIX = "not the original file; download it again"


def original(folder: Path, name: str, missing: type[DataError] = DataError) -> Path:
    """Return the path of a file of a set, plain or gzipped.

    Raises:
        DataError: If neither `name` nor `name.gz` exists; its class is `missing`.
    """
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise missing("this file of the set is missing", file=folder / name, fix="download it, plain or as .gz")


def load(path: Path, shape: type[T]) -> T:
    """Return the content of a JSON file, possibly gzipped, as a value of the type `shape`."""
    return _decode(path, _bytes(path), shape)


def load_lines(path: Path, shape: type[T]) -> Iterator[tuple[int, T]]:
    """Yield line number, from 1, and record of a JSONL file."""
    for number, line in enumerate(_bytes(path).split(b"\n"), 1):
        if line.strip():
            yield number, _decode(path, line, shape, number)


def text_lines(path: Path) -> list[str]:
    r"""Return the lines of a UTF-8 text file.

    Only a newline ends a line: `str.splitlines` would also split at U+2028 or U+0085 inside an utterance.
    """
    try:
        text = _bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error.reason}", file=path, fix=_FIX) from None
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def _bytes(path: Path) -> bytes:
    try:
        with files.open_binary(path) as file:
            return file.read()
    except (EOFError, OSError, zlib.error) as error:  # a truncated or damaged gzip file
        raise DataError(f"the compressed file is broken: {error}", file=path, fix=_FIX) from None


def _decode(path: Path, data: bytes, shape: type[T], line: int | None = None) -> T:
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{error}", file=path, line=line, fix=_FIX) from None


def spoken(text: str, speakers: Mapping[str, str]) -> list[tuple[str, str | None]]:
    r"""Return the turns of a transcript with speaker prefixes; a line without one continues the turn.

    Only the prefix and one blank after it are removed. `speakers` maps prefixes to speakers.

    >>> spoken("User: hi\nSystem:  well,\n\nhello", {"User": "user", "System": "assistant"})
    [('user', 'hi'), ('assistant', ' well,\n\nhello')]
    """
    prefix = re.compile(f"({'|'.join(map(re.escape, speakers))}): ?")
    turns: list[tuple[str, list[str]]] = []
    for line in text.split("\n"):
        if match := prefix.match(line):
            turns.append((speakers[match[1]], [line[match.end() :]]))
        elif turns:
            turns[-1][1].append(line)
        else:
            prefixes = " or ".join(f"{name}:" for name in speakers)
            raise DataError(f"no speaker before {line[:40]!r}", fix=f"expected {prefixes}")
    return [(speaker, "\n".join(lines)) for speaker, lines in turns]


def digest(text: str) -> str:
    """Return 12 hexadecimal digits (SHA-1) of a published text, as the id of its dialogue.

    >>> digest("User: hi")
    'd0bbd1c16aba'
    """
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()[:12]


def unused(name: str, taken: set[str]) -> str:
    """Return an unused id and add it to `taken`: a repeated name becomes `…-2`.

    >>> taken = {"d1"}
    >>> unused("d1", taken), unused("d1", taken), unused("d2", taken)
    ('d1-2', 'd1-3', 'd2')
    """
    fresh, number = name, 1
    while fresh in taken:
        number += 1
        fresh = f"{name}-{number}"
    taken.add(fresh)
    return fresh


Cell = int | float | str | None


def rating(cell: Cell) -> tuple[float | None, str | None]:
    """Return value and note of a published rating; words such as `N/A` become the note of an unscored row.

    >>> rating(4), rating("3"), rating("N/A (no errors)"), rating(None)
    ((4.0, None), (3.0, None), (None, 'N/A (no errors)'), (None, 'no rating'))
    """
    if cell is None or cell == "":
        return None, "no rating"
    try:
        return float(cell), None
    except ValueError:
        return None, str(cell)


def by_position(
    id: str,  # the word of the file format
    turn: int | None,
    system: str | None,
    ratings: Mapping[str, Sequence[Cell]],
) -> Iterator[Score]:
    """Yield a row per dimension and rater, where raters are known only by their place in a list.

    `human:2` is then the second rater of this item, not the same person throughout the set.

    >>> [(row.source, row.value) for row in by_position("d1", 3, None, {"overall": [4, "N/A"]})]
    [('human:1', 4.0), ('human:2', None)]
    """
    for dimension, cells in ratings.items():
        for place, cell in enumerate(cells, 1):
            yield Score(id, turn, system, f"human:{place}", dimension, *rating(cell))
