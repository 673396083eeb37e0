"""Files that somebody else made: opened without waiting, followed nowhere, parsed without guessing."""

import hashlib
import io
import json
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dialeval.errors import DataError

SMALL = 1_000_000  # bytes: what is parsed, or read by people
LARGE = 1 << 36  # bytes: 64 GB, more than any file of weights here has a use for
PLAIN_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9_-])?")
"""Names that mean the same on every system: no folder, no hidden file, no blank, no control character."""

_SUM = re.compile(r"([0-9a-f]{64})  (.+)")
_NAMES_A_FILE = re.compile(r"(.*[_.-])?file", re.DOTALL)
_OUTSIDE = re.compile(r"[/\\]|~\w*[/\\]|[A-Za-z]:[/\\]|file:/", re.IGNORECASE)
_MOST_FILES = 1_000
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_regular(path: Path, *, follow: bool = False) -> io.BufferedReader:
    """Open a file for reading; a pipe, a device, a folder or (unless `follow`) a link is refused at once.

    What is looked at is the open file, not its name: nobody can exchange it in between.
    """
    try:
        handle = os.open(path, _FLAGS | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
    except FileNotFoundError:
        raise DataError("no such file", file=path, fix="check the path") from None
    except OSError as error:
        if path.is_symlink() and not follow:
            raise DataError("this is a link; only plain files are read", file=path) from None
        raise DataError(error.strerror or str(error), file=path) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise DataError("this is not a plain file", file=path)
    return os.fdopen(handle, "rb")


def read_small(path: Path, *, follow: bool = False) -> bytes:
    """Read a whole file that people could read, too; a larger one is refused unread."""
    with open_regular(path, follow=follow) as file:
        content = file.read(SMALL + 1)
    if len(content) > SMALL:
        raise DataError(f"more than {SMALL} bytes, too many for this file", file=path)
    return content


def hash_regular(path: Path) -> str:
    """Return the SHA-256 of a plain file, in hexadecimal."""
    with open_regular(path) as file:
        try:
            return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", file=path) from None


def list_regular(folder: Path) -> dict[str, int]:
    """List names and sizes of a folder's files; hidden ones are passed over.

    Raises:
        DataError: Something in it is a link, a folder or a special file; names it.
    """
    found = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                state = entry.stat(follow_symlinks=False)
                if not stat.S_ISREG(state.st_mode):
                    what = "link" if entry.is_symlink() else "folder" if entry.is_dir() else "special file"
                    raise DataError(f"this is a {what}, not a plain file", file=shown(folder, entry.name))
                found[entry.name] = state.st_size
                if len(found) > _MOST_FILES:
                    raise DataError(f"more than {_MOST_FILES} files", file=folder)
    except OSError as error:
        raise DataError(f"no folder that can be read: {error.strerror}", file=folder) from None
    return found


def read_sums(path: Path) -> dict[str, str]:
    """Read what `sha256sum` wrote, in one way only, so that no changed byte goes unnoticed.

    Returns:
        The SHA-256 of each file by its name, which is a plain one.
    """
    text = read_small(path).decode("latin-1")
    if not text.endswith("\n"):
        raise DataError("the last line is cut off", file=path)
    sums: dict[str, str] = {}
    for number, line in enumerate(text[:-1].split("\n"), 1):
        match = _SUM.fullmatch(line)
        if match is None or not PLAIN_NAME.fullmatch(match[2]) or match[2] == path.name:
            raise DataError("not a SHA-256, two spaces and the plain name of a file", file=path, line=number)
        if match[2] in sums:
            raise DataError(f"{match[2]} stands there twice", file=path, line=number)
        sums[match[2]] = match[1]
    return sums


def shown(folder: Path, name: str) -> str:
    r"""Return a path to print: a hostile name cannot move the cursor or colour the terminal.

    >>> print(shown(Path("mine"), "\x1b[2J"))
    mine/'\x1b[2J'
    """
    return f"{folder}/{name if PLAIN_NAME.fullmatch(name) else ascii(name)}"


def parse_object(text: bytes, path: Path) -> dict[str, Any]:
    """Read a JSON object strictly: UTF-8, no key twice, no NaN, no nesting that exhausts the stack.

    >>> parse_object(b'{"width": 384}', Path("config.json"))
    {'width': 384}
    >>> parse_object(b'{"width": 384, "width": 1}', Path("config.json"))
    Traceback (most recent call last):
    dialeval.errors.DataError: config.json: not the JSON expected: the key 'width' stands there twice
    """
    try:
        found = json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
        if b"\\ud" in text.lower():  # half a character, which can be neither shown nor hashed
            json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        raise DataError("not the JSON expected: nested too deeply", file=path) from None
    except ValueError as error:  # bad UTF-8 and numbers of thousands of digits, too
        raise DataError(f"not the JSON expected: {error}", file=path) from None
    if not isinstance(found, dict):
        raise DataError("not the JSON expected: not an object", file=path)
    return found


def find_fault(config: dict[str, Any], listed: Iterable[str]) -> tuple[str, str] | None:
    """Look for a setting that names what it must not: its field and what is wrong with it, or None.

    A setting called `file` or `…_file` must be one of the listed names; no string may be a path that
    leads out of the folder, in case somebody takes it for one.

    >>> find_fault({"heads": [{"weights_file": "b.bin"}]}, ["a.bin"])
    ('heads.0.weights_file', "'b.bin' is no file of this artefact")
    """
    listed = frozenset(listed)
    waiting: list[tuple[str, Any, bool]] = [("", config, False)]
    while waiting:
        place, value, is_file = waiting.pop()
        if isinstance(value, dict):
            for key, inner in value.items():
                if _leads_outside(key):
                    return _field(f"{place}{key}"), "a path that leads outside the artefact"
                waiting.append((f"{place}{key}.", inner, is_file or bool(_NAMES_A_FILE.fullmatch(key))))
        elif isinstance(value, list):
            waiting += [(f"{place}{number}.", inner, is_file) for number, inner in enumerate(value)]
        elif isinstance(value, str) and _leads_outside(value):
            return _field(place), f"{value[:80]!a} is a path that leads outside the artefact"
        elif is_file and value is not None and value not in listed:
            return _field(place), f"{str(value)[:80]!a} is no file of this artefact"
    return None


def _leads_outside(text: str) -> bool:
    parts = re.split(r"[/\\]", text)
    return "\0" in text or _OUTSIDE.match(text) is not None or ".." in [part.strip() for part in parts]


def _field(place: str) -> str:
    return ascii(place.removesuffix(".")[:120])[1:-1]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise ValueError(f"the key {key[:80]!a} stands there twice")
        made[key] = value
    return made


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number that JSON knows")
