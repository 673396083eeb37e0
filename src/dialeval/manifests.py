"""Manifests: size and SHA-256 of files, verified when they are opened.

An index, an artefact, a checkpoint, a run folder and the parts of a batch have manifests. Files are written
first (see `files`), the manifest last, so that files in a manifest are complete. Opening verifies every file:
a missing file, a flipped bit or an unexpected file is found before anything is computed with it. A file is
hashed once per process, unless it has changed since.
"""

import hashlib
import io
import os
import re
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from dialeval.errors import DataError
from dialeval.files import locked, replacing, write_text

SUMS = "SHA256SUMS"
PLAIN_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9_-])?")
"""Portable file names: no folder, no hidden file, no blank, no control character."""

_SUM = re.compile(r"([0-9a-f]{64})  (.+)")
_MOST_SUMS = 1_000_000  # bytes of a list of hashes
_MOST_FILES = 1_000
_LOOKS = 3  # at what another process may be replacing
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_SETTLED = 2_000_000_000  # nanoseconds; a younger file may change again without its times showing it
_hashes: dict[tuple[str | int, ...], str] = {}


class FileRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Size and SHA-256 of a file when it was written.

    >>> FileRecord.of(b"42").sha256[:12]
    '73475cb40a56'
    """

    size: Annotated[int, msgspec.Meta(ge=0, lt=1 << 48)]
    sha256: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]

    @classmethod
    def of(cls, content: bytes | Path) -> "FileRecord":
        """Return the record of some bytes, or of a file as it is now."""
        if isinstance(content, bytes):
            return cls(len(content), hashlib.sha256(content).hexdigest())
        with open_regular(content) as file:
            return cls(os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest())


def check_file(path: Path, record: FileRecord, *, fix: str | None = None, trust: bool = False) -> None:
    """Refuse a file that differs from its record.

    Args:
        path: A plain file; a link in its place is refused, wherever it leads.
        record: What it was when it was written.
        fix: What to do about a damaged one, for the error.
        trust: Look at the size only: for files so large that hashing them takes too long.

    Raises:
        DataError: It is missing, cut off, changed or damaged; names the file.
    """
    if not os.path.lexists(path):
        raise DataError("is missing, though it is on record", file=path, fix=fix)
    with open_regular(path) as file:
        if (size := os.fstat(file.fileno()).st_size) != record.size:
            text = f"{size} bytes, where {record.size} were written: cut off or damaged"
            raise DataError(text, file=path, fix=fix)
    if not trust and hash_file(path) != record.sha256:
        raise DataError("changed or damaged: its SHA-256 is another one", file=path, fix=fix)


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a plain file, in hexadecimal; computed again only if the file has changed.

    A version of a file is known by its path, inode, size and times.
    """
    with open_regular(path) as file:
        status = os.fstat(file.fileno())
        times = (status.st_mtime_ns, status.st_ctime_ns)
        version = (os.path.abspath(path), status.st_dev, status.st_ino, status.st_size, *times)  # noqa: PTH100
        if version in _hashes:
            return _hashes[version]
        try:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", file=path) from None
    if time.time_ns() - max(times) > _SETTLED:
        _hashes[version] = digest
    return digest


# --- folders with a list of hashes --------------------------------------------------------------------------


def write_sums(folder: Path, known_sums: Mapping[str, str] | None = None) -> None:
    """List every file of a folder in its SHA256SUMS, as `sha256sum` does; the last file to be written.

    What is `known` of large files, hashed while they were written, is not computed again.
    """
    sums = dict(known_sums or {})
    sums |= {name: FileRecord.of(folder / name).sha256 for name in list_regular(folder) if name not in sums}
    write_text(folder / SUMS, sums_text(sums))


def sums_text(sums: Mapping[str, str]) -> str:
    """Return the sums of some files in SHA256SUMS."""
    return "".join(f"{sum_}  {name}\n" for name, sum_ in sorted(sums.items()))


def check_sums(folder: Path, *, fix: str | None = None) -> dict[str, str]:
    """Verify a folder by its SHA256SUMS and return it: no file missing, unexpected or changed.

    Raises:
        DataError: Names the file that is not as it was written.
    """
    for _ in range(_LOOKS):
        version = folder.stat().st_ino if folder.is_dir() else 0
        try:
            return _check_sums(folder, fix)
        except DataError:  # unless another process has put a new folder there meanwhile
            if folder.is_dir() and folder.stat().st_ino == version:
                raise
    return _check_sums(folder, fix)


def _check_sums(folder: Path, fix: str | None) -> dict[str, str]:
    sums = read_sums(folder / SUMS)
    present = list_regular(folder)
    for name in sorted(sums.keys() - present.keys()):
        raise DataError(f"is missing, though {SUMS} lists it", file=folder / name, fix=fix)
    for name in sorted(present.keys() - sums.keys() - {SUMS}):
        raise DataError(f"is not listed in {SUMS}", file=shown(folder, name), fix="remove it")
    for name, expected in sums.items():
        if hash_file(folder / name) != expected:
            raise DataError(f"does not match {SUMS}: changed or damaged", file=folder / name, fix=fix)
    return sums


def read_sums(path: Path) -> dict[str, str]:
    """Read a SHA256SUMS file: the SHA-256 of each file by its plain name."""
    sums: dict[str, str] = {}
    for number, (sum_, name) in enumerate(_sum_lines(path), 1):
        if name in sums:
            raise DataError(f"{name} stands there twice", file=path, line=number)
        sums[name] = sum_
    return sums


def _sum_lines(path: Path) -> list[tuple[str, str]]:
    """Parse sums and names strictly, so that no changed byte goes unnoticed."""
    with open_regular(path) as file:
        text = file.read(_MOST_SUMS + 1).decode("latin-1")
    if len(text) > _MOST_SUMS:
        raise DataError(f"more than {_MOST_SUMS} bytes, too many for this file", file=path)
    if not text.endswith("\n"):
        raise DataError("the last line is cut off", file=path)
    lines = []
    for number, line in enumerate(text[:-1].split("\n"), 1):
        match = _SUM.fullmatch(line)
        if match is None or not PLAIN_NAME.fullmatch(match[2]) or match[2] == path.name:
            raise DataError("not a SHA-256, two spaces and the plain name of a file", file=path, line=number)
        lines.append((match[1], match[2]))
    return lines


# --- folders that files are added to ------------------------------------------------------------------------

_NOTHING = hashlib.sha256(b"").hexdigest()  # in a list: the file may be missing
_LIST_LOCK = f".{SUMS}.lock"


def check_listed(folder: Path, name: str, *, fix: str | None = None) -> Path:
    """Return the path of a file, compared with the folder's SHA256SUMS if there is one that lists it.

    Raises:
        DataError: It is not as it was written, or missing; names the file.
    """
    path = folder / name
    for _ in range(
        _LOOKS
    ):  # another process may have replaced the file between a look at the list and one at it
        sums = _listed(folder).get(name)
        digest = hash_file(path) if os.path.lexists(path) else _NOTHING
        if sums is None or digest in sums:
            return path
    if digest == _NOTHING:
        raise DataError(f"is missing, though {SUMS} lists it", file=path, fix=fix)
    raise DataError(f"does not match {SUMS}: changed or damaged", file=path, fix=fix)


def write_listed(folder: Path, contents: Mapping[str, bytes | None]) -> None:
    """Replace files of a folder and their sums, or remove those of None; safe against being killed.

    Meanwhile the list has both, the old sum of each file and the new one. Two processes take turns.
    """
    with locked(folder / _LIST_LOCK, "somebody else is writing to it", wait=lambda: None):
        _write_listed(folder, contents)


def _write_listed(folder: Path, contents: Mapping[str, bytes | None]) -> None:
    before = _listed(folder)
    after = {name: {hashlib.sha256(content or b"").hexdigest()} for name, content in contents.items()}
    both = {name: before.get(name, {_NOTHING}) | sums for name, sums in after.items()}
    _write_list(folder, before | both)
    for name, content in contents.items():
        if content is None:
            (folder / name).unlink(missing_ok=True)
        else:
            with replacing(folder / name) as file:
                file.write(content)
    gone = {name for name, content in contents.items() if content is None}
    _write_list(folder, {name: sums for name, sums in (before | after).items() if name not in gone})


def _listed(folder: Path) -> dict[str, set[str]]:
    """Return the sums that each file may have, by name; empty without a list."""
    listed: dict[str, set[str]] = {}
    for sum_, name in _sum_lines(folder / SUMS) if (folder / SUMS).is_file() else ():
        listed.setdefault(name, set()).add(sum_)
    return listed


def _write_list(folder: Path, listed: Mapping[str, set[str]]) -> None:
    lines = [f"{digest}  {name}\n" for name, sums in sorted(listed.items()) for digest in sorted(sums)]
    write_text(folder / SUMS, "".join(lines))


# --- files that somebody else may have made -----------------------------------------------------------------


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


def list_regular(folder: Path) -> dict[str, int]:
    """Return names and sizes of a folder's files; hidden ones are passed over.

    Raises:
        DataError: Something in it is a link, a folder or a special file; names it.
    """
    regular = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                state = entry.stat(follow_symlinks=False)
                if not stat.S_ISREG(state.st_mode):
                    kind = "link" if entry.is_symlink() else "folder" if entry.is_dir() else "special file"
                    raise DataError(f"this is a {kind}, not a plain file", file=shown(folder, entry.name))
                regular[entry.name] = state.st_size
                if len(regular) > _MOST_FILES:
                    raise DataError(f"more than {_MOST_FILES} files", file=folder)
    except OSError as error:
        raise DataError(f"no folder that can be read: {error.strerror}", file=folder) from None
    return regular


def shown(folder: Path, name: str) -> str:
    r"""Return a path to print: a hostile name cannot move the cursor or colour the terminal.

    >>> print(shown(Path("mine"), "\x1b[2J"))
    mine/'\x1b[2J'
    """
    return f"{folder}/{name if PLAIN_NAME.fullmatch(name) else ascii(name)}"
