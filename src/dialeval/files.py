"""Atomic writing and safe reading of files.

Everything dialeval saves goes through `replacing` or `replacing_folder`: written to a temporary file in the
same folder, synced, then renamed, so that a crash leaves the old file or the new one. Everything it reads
goes through `open_binary`, which decompresses gzip.

A small file may use up all memory: a line without end, or gzip that expands a thousandfold. So records have a
maximum size (`max_record`) and compressed files a maximum ratio of expansion (`max_ratio`).
"""

import contextlib
import errno
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO, TextIO, cast

from dialeval import stores
from dialeval.errors import BusyError, DataError, UsageError

_CHUNK = 1 << 20
_MAX_RECORD, _MAX_RATIO = "DIALEVAL_MAX_RECORD", "DIALEVAL_MAX_RATIO"
_FEW_BYTES = 1 << 24  # of what is unpacked, whatever the ratio
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)  # a disk that takes no more
_SETTLED = 60.0  # seconds; a younger part may be one that is about to be locked
_swept: set[Path] = set()


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a binary file that replaces `path` only if the block succeeds.

    A pipe or a device (`/dev/stdout`) is written directly.

    >>> target = Path(tempfile.mkdtemp()) / "figures.txt"
    >>> with replacing(target) as file:
    ...     _ = file.write(b"42")
    >>> target.read_text()
    '42'
    """
    path = Path(path)
    with _readable_errors(path):
        if path.exists() and not (path.is_file() or path.is_dir()):
            with path.open("wb") as special:
                yield special
            return
    with replacing_path(path) as fresh, fresh.open("wb") as file:
        yield file


@contextlib.contextmanager
def replacing_path(path: str | Path) -> Iterator[Path]:
    """Yield the path of a file to write, for libraries that open it themselves; it is renamed to `path`."""
    path = Path(path)
    with _readable_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep_once(path.parent)
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".part", dir=path.parent)
        os.close(handle)
    fresh = Path(name)
    try:
        with _readable_errors(path), held(fresh):
            yield fresh
            _sync_file(fresh)
            fresh.chmod(0o666 & ~_umask())
            fresh.replace(path)
            _sync_folder(path.parent)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def replacing_folder(path: str | Path, *, replace: bool = True) -> Iterator[Path]:
    """Yield a new folder that replaces `path` only if the block succeeds.

    Args:
        replace: Whether it may replace an existing one; if not, one that has appeared meanwhile is an error.

    >>> run = Path(tempfile.mkdtemp()) / "run"
    >>> with replacing_folder(run) as folder:
    ...     _ = (folder / "figures.txt").write_text("42")
    >>> (run / "figures.txt").read_text()
    '42'
    """
    path = Path(path).resolve()
    with _readable_errors(path):
        if path.exists() and not path.is_dir():
            raise DataError("this is a file, not a folder", file=path, fix="choose another name")
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep_once(path.parent)
        fresh = Path(tempfile.mkdtemp(prefix=f".{path.name[:100]}.", suffix=".part", dir=path.parent))
    try:
        with held(fresh):
            with _full_disk(path):
                yield fresh
            with _readable_errors(path):
                fresh.chmod(0o777 & ~_umask())
                _sync_tree(fresh)
                if replace and path.exists():
                    _exchange(fresh, path)
                else:
                    _rename_folder(fresh, path)
                _sync_folder(path.parent)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)  # what is left there now: the old, or what failed


def _rename_folder(fresh: Path, path: Path) -> None:
    """Rename a folder, unless a non-empty one of that name has appeared meanwhile."""
    try:
        fresh.rename(path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        problem = "another process has written it meanwhile; it was not changed"
        raise DataError(problem, file=path, fix="choose another name") from None


@contextlib.contextmanager
def held(part: Path, *, refuse: bool = False) -> Iterator[None]:
    """Lock a temporary file while it is written; `sweep` removes those whose process has ended.

    Args:
        part: A file or folder; on a system without locks nothing is locked and nothing is swept.
        refuse: Whether to raise an error if another process holds the lock.
    """
    try:
        import fcntl

        handle = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (ImportError, OSError):
        if refuse:
            raise OSError("no locks here") from None
        yield
        return
    try:
        with contextlib.nullcontext() if refuse else contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def sweep(folder: Path, name: str = "", *, older: float = 0, below: bool = False) -> None:
    """Remove unlocked temporary files and folders that a killed process left in a folder.

    Args:
        name: Only temporary files for this name; by default all.
        older: Minimum age in seconds, because a younger one may not be locked yet.
        below: Whether to include subfolders.
    """
    ending = re.compile((re.escape(f".{name[:100]}.") if name else r"\..+\.") + r"\w{8}\.part")
    for left in list(folder.rglob(".*.part") if below else folder.glob(".*.part")):
        if not ending.fullmatch(left.name) or left.is_symlink():
            continue
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime >= older:
                with held(left, refuse=True):
                    shutil.rmtree(left) if left.is_dir() else left.unlink()


def _sweep_once(folder: Path) -> None:
    """Sweep a folder before this process writes there for the first time."""
    if folder not in _swept:
        _swept.add(folder)
        sweep(folder, older=_SETTLED)


def _exchange(first: Path, second: Path) -> None:
    """Swap two folders, atomically if the system supports it."""
    import ctypes

    libc: Any = ctypes.CDLL(None) if os.name == "posix" else None
    first_path, second_path = os.fsencode(first), os.fsencode(second)
    if hasattr(libc, "renameat2"):  # Linux; AT_FDCWD is -100, RENAME_EXCHANGE is 2
        failed = libc.renameat2(-100, first_path, -100, second_path, 2)
    elif hasattr(libc, "renamex_np"):  # macOS; RENAME_SWAP is 2
        failed = libc.renamex_np(first_path, second_path, 2)
    else:
        failed = -1
    if failed:
        aside = first.with_suffix(".old")
        second.rename(aside)
        first.rename(second)
        aside.rename(first)


@contextlib.contextmanager
def appending(path: str | Path) -> Iterator[BinaryIO]:
    r"""Open a file of lines for appending, locked; an incomplete last line of a crash is removed first.

    What is written and flushed survives a crash. A second process that opens it gets an error.

    >>> journal = Path(tempfile.mkdtemp()) / "journal.jsonl"
    >>> _ = journal.write_bytes(b'{"a": 1}\n{"a": ')
    >>> with appending(journal) as file:
    ...     _ = file.write(b'{"a": 2}\n')
    >>> journal.read_text()
    '{"a": 1}\n{"a": 2}\n'
    """
    path = Path(path)
    lock = path.with_name(f".{path.name[:100]}.lock")
    with (
        locked(lock, "somebody else is writing to it", path),
        _readable_errors(path),
        path.open("a+b") as file,
    ):
        file.seek(0)
        end = 0
        for line in file:
            end += len(line) if line.endswith(b"\n") else 0
        file.truncate(end)
        file.seek(0, os.SEEK_END)
        yield cast(BinaryIO, file)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def locked(
    path: Path, busy: str, subject: Path | None = None, *, wait: Callable[[], None] | None = None
) -> Iterator[None]:
    """Hold a lock file during the block; the lock ends with the process, even if it is killed.

    The file is not removed, because then two processes could lock two files of the same name. On a file
    system without locks nothing is locked.

    Args:
        path: The lock file.
        busy: The error message if another process holds it.
        subject: The locked file or folder, named in the error; by default the lock file's folder.
        wait: Called once if another process holds it; then the lock is waited for.

    Raises:
        BusyError: Another process holds it.
    """
    from filelock import FileLock, Timeout

    subject = subject or path.parent
    with _readable_errors(subject):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()  # where no file can be made, the library below would try for ever
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if wait is None:
                raise BusyError(busy, file=subject, fix="wait until that has ended") from None
            wait()
            lock.acquire()
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
    try:
        yield
    finally:
        lock.release()


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text to `path`, or to standard output for `-`."""
    if str(path) == "-":
        standard_output().write(text)
        sys.stdout.flush()
        return
    with replacing(path) as file:
        file.write(text.encode("utf-8", "replace"))


def standard_output() -> TextIO:
    """Return standard output, for data; a closed one is an error."""
    if sys.stdout is None:
        raise DataError("standard output is closed", file="-")
    return sys.stdout


def json_text(value: Any) -> str:
    """Return a value as indented JSON, without escapes and without NaN."""
    return json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def parse_json(text: str | bytes, **options: Any) -> Any:
    """Parse JSON of which nothing is lost: a key that stands twice in one object is an error.

    Raises:
        DataError: About the key, a number that is too long or brackets that are too deep, without the place.
        ValueError: It is no JSON, or not UTF-8.
    """
    try:
        return json.loads(text, object_pairs_hook=unique_keys, **options)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except RecursionError:
        raise DataError("nested too deeply") from None
    except ValueError:
        raise DataError("a number of more than 4,300 digits") from None


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its pairs; of two with one key, one would be lost without a word."""
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(key for key, _ in pairs if sum(key == other for other, _ in pairs) > 1)
        raise DataError(f"the key {twice[:80]!r} stands there twice")
    return made


def open_binary(path: str | Path) -> BinaryIO:
    """Open a file or an address (`s3://…`) for reading, decompressing gzip; `-` is standard input."""
    if str(path) == "-":
        return unpacked(_standard_input(), path)
    with _readable_errors(Path(path)):
        return unpacked(open_packed(path), path)


def open_packed(path: str | Path) -> BinaryIO:
    """Open a file or an address for reading without decompressing it."""
    if stores.is_address(path):
        return stores.open_address(str(path))
    path = Path(path)
    with _readable_errors(path):
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise DataError("this is a folder, not a file", file=path, fix="name a file in it")
        file = path.open("rb")
        if (stat.S_ISCHR(kind) or stat.S_ISBLK(kind)) and not file.isatty():
            file.close()
            raise DataError("this is a device, not a file", file=path, fix="- reads standard input")
        return file


def unpacked(file: BinaryIO, name: str | Path) -> BinaryIO:
    """Return a decompressing file if the first bytes are those of gzip; both are closed together.

    Args:
        file: A file that can be peeked into.
        name: What to call it in an error.
    """
    if cast(Any, file).peek(2)[:2] != b"\x1f\x8b":  # a look that takes nothing away: it may be a pipe
        return file
    packed = _Packed(fileobj=cast(Any, _Counted(file, name)))
    packed.myfileobj = file  # type: ignore[assignment]
    return cast(BinaryIO, packed)


def _standard_input() -> BinaryIO:
    """Open standard input once more: Python's own file may not be in use when the program ends.

    A thread that waits for a live stream may still hold it then, which Python answers by aborting.
    """
    if sys.stdin is None:
        raise DataError("standard input is closed", file="-")
    try:
        return os.fdopen(sys.stdin.fileno(), "rb", closefd=False)
    except (OSError, ValueError):  # not a file of the system: a test, or a program that put another there
        return cast(BinaryIO, io.BufferedReader(cast(Any, sys.stdin.buffer)))


class _Counted:
    """A file that counts the bytes that are read of it."""

    def __init__(self, file: BinaryIO, name: str | Path) -> None:
        self.file, self.size, self.name = file, 0, str(name)

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(size)
        self.size += len(data)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


class _Packed(gzip.GzipFile):
    """A gzip file that names itself in errors: about broken bytes, and about far more bytes than it has."""

    came, checked_at = 0, _FEW_BYTES

    def _sound(self, read: Callable[..., bytes], size: int | None) -> bytes:
        try:
            data = read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            message = f"the compressed file is broken: {error}"
            raise DataError(message, file=self.name, fix="copy it again") from None
        self.came += len(data)
        if self.came > self.checked_at:
            check_expansion(self.name, cast(Any, self.fileobj).size, self.came)
            self.checked_at = self.came + _CHUNK
        return data

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:  # piece by piece, so that each is counted
            return b"".join(iter(lambda: self.read(_CHUNK), b""))
        return self._sound(super().read, size)

    def read1(self, size: int = -1) -> bytes:
        return self._sound(super().read1, size)

    def readline(self, size: int | None = -1) -> bytes:  # lines of a loop come from here, too
        return self._sound(super().readline, size)


def lines(file: BinaryIO, path: str | Path, number: int = 1) -> Iterator[bytes]:
    """Yield the lines of a file; one that is longer than a record may be is an error.

    Args:
        file: What `open_binary` returned.
        path: What to call it in an error.
        number: That of the first line.
    """
    most = max_record()
    while line := file.readline(most + 1):
        if len(line) > most:
            raise too_large(path, number)
        yield line
        number += 1


def too_large(path: str | Path, line: int | None = None) -> DataError:
    """Return the error about a record that is larger than `max_record`."""
    most = max_record()
    fix = f"if it is meant, {_MAX_RECORD}={4 * most} in the environment allows it"
    return DataError(f"a record of more than {most:,} bytes", file=path, line=line, fix=fix)


def check_expansion(path: str | Path, packed: int, unpacked: int) -> None:
    """Refuse what unpacks to far more bytes than it has.

    >>> check_expansion("chats.jsonl.gz", 1_000_000, 20_000_000)
    """
    if unpacked > max(_FEW_BYTES, max_ratio() * packed):
        fix = f"if it is meant, {_MAX_RATIO}={2 * unpacked // max(1, packed)} in the environment allows it"
        message = f"{packed:,} bytes unpack to {unpacked:,} or more, over {max_ratio()} times as many"
        raise DataError(message, file=path, fix=fix)


def max_record() -> int:
    """Return how many bytes one record may have: a line, an item of an array, a dialogue of a table."""
    return _limit(_MAX_RECORD, 1 << 26)


def max_ratio() -> int:
    """Return how many times as many bytes may be unpacked as are packed."""
    return _limit(_MAX_RATIO, 200)


def _limit(name: str, default: int) -> int:
    chosen = os.environ.get(name, "")
    if chosen and not (chosen.isascii() and chosen.isdigit() and 0 < int(chosen) < 1 << 48):
        raise UsageError(f"{name} is a whole number from 1, not {chosen!r}")
    return int(chosen or default)


def sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with _readable_errors(Path(path)), open_packed(path) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def fetch(address: str, path: str | Path, expected: str, *, limit: int = 1 << 31) -> Path:
    """Download `address` to `path`, which appears only if its SHA-256 is the expected one.

    A mismatch, a broken connection or more than `limit` bytes leave nothing behind, so that the next
    try starts afresh. Two processes at once both write beside and rename: one good file.
    """
    import http.client
    import urllib.error
    import urllib.request

    if not address.startswith(("https://", "http://127.0.0.1:", "http://localhost:")):
        raise DataError(f"will not download from {address!r}", fix="the address must be https")
    digest, size = hashlib.sha256(), 0
    try:
        with urllib.request.urlopen(address, timeout=60) as answer, replacing(path) as file:  # noqa: S310
            while chunk := answer.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
                if size > limit:
                    raise DataError(f"more than {limit} bytes from {address}", file=path)
                file.write(chunk)
            if digest.hexdigest() != expected:
                raise DataError(
                    f"SHA-256 of {address} is {digest.hexdigest()}, expected {expected}; nothing was kept",
                    file=path,
                )
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
        raise DataError(f"could not download {address}: {error}", file=path) from None
    return Path(path)


def is_full(error: OSError) -> bool:
    """Return whether a write failed: the disk is full, read-only or broken, or the file too large."""
    return error.errno in _FULL


@contextlib.contextmanager
def _full_disk(path: Path) -> Iterator[None]:
    """Raise a `DataError` for a failed write; other errors are not about this path."""
    try:
        yield
    except OSError as error:
        if not is_full(error):
            raise
        raise DataError(f"{error.strerror}; nothing was changed", file=path) from None


@contextlib.contextmanager
def _readable_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise DataError("no such file", file=path, fix="check the path") from None
    except (IsADirectoryError, NotADirectoryError, PermissionError, FileExistsError) as error:
        raise DataError(error.strerror or str(error), file=path) from None
    except ValueError as error:
        if "null byte" not in str(error):  # the system's own complaint about a name; any other is not ours
            raise
        raise DataError("no file has a NUL in its name", file=repr(str(path))) from None
    except OSError as error:
        if error.errno is None:  # a library's own complaint, not the system's: gzip's, for one
            raise
        raise DataError(f"{error.strerror}; nothing was changed", file=path) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_tree(folder: Path) -> None:
    for place, _, names in os.walk(folder):
        for name in names:
            _sync_file(Path(place) / name)
        _sync_folder(Path(place))


def _sync_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_endings(paths: Iterable[Path], endings: Sequence[str], what: str = "") -> None:
    """Refuse file names with another ending, before any work is done; `what` is what would be written."""
    for path in paths:
        if path.suffix.lower() not in endings:
            written = f"{what} to {path}" if what else path
            raise UsageError(f"cannot write {written}: the name must end in {', '.join(endings)}")


def is_terminal(stream: IO[str]) -> bool:
    """Return whether a stream is a terminal, for progress and colour."""
    return hasattr(stream, "isatty") and stream.isatty()
