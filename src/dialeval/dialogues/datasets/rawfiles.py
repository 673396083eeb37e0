"""Reading the original files of public sets: every complaint names the file and what to do.

Most sets are JSON of a known shape. The shape is written down as a type and msgspec checks it while
decoding, so that a broken file is refused with the path of the field (`$[3].dialogue[0]`) instead of
failing later with a `KeyError`.

Transcripts as one string: cut at the speakers' prefixes, and named by a hash of the text as published.

Ratings as they are published: numbers, numbers as text, words such as `N/A`, or nothing at all.
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
_FIX = "not the original file; get it afresh"


def original(folder: Path, name: str, missing: type[DataError] = DataError) -> Path:
    """Return the path of a file of a set, plain or gzipped.

    Raises:
        DataError: If neither `name` nor `name.gz` is there; `missing` can make it a more special one.
    """
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise missing("this file of the set is missing", file=folder / name, fix="get it, plain or as .gz")


def load(path: Path, shape: type[T]) -> T:
    """Read a JSON file, possibly gzipped, whose shape is given by a type."""
    return _decode(path, _bytes(path), shape)


def load_lines(path: Path, shape: type[T]) -> Iterator[tuple[int, T]]:
    """Read a file of one JSON record a line: pairs of line number, from 1, and record."""
    for number, line in enumerate(_bytes(path).split(b"\n"), 1):
        if line.strip():
            yield number, _decode(path, line, shape, number)


def text_lines(path: Path) -> list[str]:
    r"""Read the lines of a UTF-8 text file.

    Only a newline ends a line (`str.splitlines` would also break at U+2028 or U+0085 inside an
    utterance); the last one needs none.
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
    except (EOFError, OSError, zlib.error) as error:  # what gzip says about a file cut short or mangled
        raise DataError(f"the compressed file is broken: {error}", file=path, fix=_FIX) from None


def _decode(path: Path, data: bytes, shape: type[T], line: int | None = None) -> T:
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{error}", file=path, line=line, fix=_FIX) from None


def spoken(text: str, speakers: Mapping[str, str]) -> list[tuple[str, str | None]]:
    r"""Split a transcript at its speaker prefixes; a line without one continues the line before.

    Only the prefix and one blank after it are taken away. `speakers` maps the prefix to our role.

    >>> spoken("User: hi\nSystem:  well,\n\nhello", {"User": "user", "System": "assistant"})
    [('user', 'hi'), ('assistant', ' well,\n\nhello')]
    """
    prefix = re.compile(f"({'|'.join(map(re.escape, speakers))}): ?")
    turns: list[tuple[str, list[str]]] = []
    for line in text.split("\n"):
        if found := prefix.match(line):
            turns.append((speakers[found[1]], [line[found.end() :]]))
        elif turns:
            turns[-1][1].append(line)
        else:
            known = " or ".join(f"{name}:" for name in speakers)
            raise DataError(f"nobody says the first line, {line[:40]!r}", fix=f"it begins with {known}")
    return [(speaker, "\n".join(lines)) for speaker, lines in turns]


def digest(text: str) -> str:
    """Return the 12 hexadecimal digits (SHA-1) that name a dialogue by its text as published.

    >>> digest("User: hi")
    'd0bbd1c16aba'
    """
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()[:12]


def unused(name: str, taken: set[str]) -> str:
    """Return an id that is not taken yet, and take it: the same text once more becomes `…-2`.

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
    """Return value and note of a published rating; words become the note of an unscored row.

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
    """Yield a row per dimension and rater, where a rater is known by the place in a list only.

    `human:2` is then whoever comes second for this item, not one person throughout the set.

    >>> [(row.source, row.value) for row in by_position("d1", 3, None, {"overall": [4, "N/A"]})]
    [('human:1', 4.0), ('human:2', None)]
    """
    for dimension, cells in ratings.items():
        for place, cell in enumerate(cells, 1):
            yield Score(id, turn, system, f"human:{place}", dimension, *rating(cell))
