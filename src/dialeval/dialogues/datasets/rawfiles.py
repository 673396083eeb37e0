"""Reading the original files of public sets: every complaint names the file and what to do.

Most sets are JSON of a known shape. The shape is written down as a type and msgspec checks it while
decoding, so that a broken file is refused with the path of the field (`$[3].dialogue[0]`) instead of
failing later with a `KeyError`.
"""

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from dialeval import __version__, files
from dialeval.errors import DataError
from dialeval.scores import Score, Scores, Signature

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


def rated(name: str, rows: Iterable[Score]) -> Scores:
    """Make the ratings of a public set: the rows, and one signature for every source among them.

    >>> row = Score("d1", 1, None, "human:label", "safe", 1.0)
    >>> str(rated("diasafety", [row]).signatures["human:label"])
    'ratings.v1|set:diasafety|dialeval:...'
    """
    rows = list(rows)
    signature = Signature.of("ratings.v1", {"set": name, "dialeval": __version__})
    return Scores.of(rows, dict.fromkeys((row.source for row in rows), signature))


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
