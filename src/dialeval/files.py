"""Reading and writing files so that a pulled plug leaves the old or the new, never a mix.

Everything dialeval saves goes through `replacing` or `replacing_folder`: written beside its place,
flushed to disk, then renamed. Everything it reads goes through `open_binary`, which sees through gzip.
"""

import contextlib
import gzip
import hashlib
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from dialeval import stores
from dialeval.errors import DataError

_CHUNK = 1 << 20
_FEW_ROWS = 1 << 20
_ROWS_A_BYTE = 256  # of a Parquet file: ids alone take more, however alike they are


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a binary file that takes the place of `path` only if the block ends well.

    A pipe or a device (`/dev/stdout`) has no place to take: it is written as it is.

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
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".part", dir=path.parent)
    try:
        with _readable_errors(path), os.fdopen(handle, "wb") as file:
            yield cast(BinaryIO, file)
            file.flush()
            os.fsync(file.fileno())
        with _readable_errors(path):
            Path(name).chmod(0o666 & ~_umask())
            Path(name).replace(path)
            _sync_folder(path.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def replacing_folder(path: str | Path) -> Iterator[Path]:
    """Fill a new folder beside `path`; it takes the place of `path` only if the block ends well.

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
        fresh = Path(tempfile.mkdtemp(prefix=f".{path.name[:100]}.", suffix=".part", dir=path.parent))
    try:
        yield fresh
        with _readable_errors(path):
            fresh.chmod(0o777 & ~_umask())
            _sync_tree(fresh)
            if path.exists():
                _exchange(fresh, path)
            else:
                fresh.rename(path)
            _sync_folder(path.parent)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)  # what is left there now: the old, or what failed


def _exchange(one: Path, other: Path) -> None:
    """Swap two folders in one step where the system can; elsewhere in two, with a moment between them."""
    import ctypes

    libc: Any = ctypes.CDLL(None) if os.name == "posix" else None
    here, there = os.fsencode(one), os.fsencode(other)
    if hasattr(libc, "renameat2"):  # Linux; AT_FDCWD is -100, RENAME_EXCHANGE is 2
        failed = libc.renameat2(-100, here, -100, there, 2)
    elif hasattr(libc, "renamex_np"):  # macOS; RENAME_SWAP is 2
        failed = libc.renamex_np(here, there, 2)
    else:
        failed = -1
    if failed:
        aside = one.with_suffix(".old")
        other.rename(aside)
        one.rename(other)
        aside.rename(one)


@contextlib.contextmanager
def appending(path: str | Path) -> Iterator[BinaryIO]:
    r"""Open a file of lines to add to, alone; a line that a pulled plug left unfinished is cut off first.

    What is written and flushed stays, whatever happens to the process. Who opens it second is refused.

    >>> journal = Path(tempfile.mkdtemp()) / "journal.jsonl"
    >>> _ = journal.write_bytes(b'{"a": 1}\n{"a": ')
    >>> with appending(journal) as file:
    ...     _ = file.write(b'{"a": 2}\n')
    >>> journal.read_text()
    '{"a": 1}\n{"a": 2}\n'
    """
    path = Path(path)
    with _readable_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b")
    with _readable_errors(path), file:
        if not _lock(file):
            raise DataError("somebody else is writing to it", file=path, fix="wait until that has ended")
        file.seek(0)
        end = 0
        for line in file:
            end += len(line) if line.endswith(b"\n") else 0
        file.truncate(end)
        file.seek(0, os.SEEK_END)
        yield cast(BinaryIO, file)
        file.flush()
        os.fsync(file.fileno())


def _lock(file: IO[bytes]) -> bool:
    """Lock a file until it is closed or the process ends; where the system has no such locks, trust."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text to `path`, or to standard output for `-`."""
    if str(path) == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    with replacing(path) as file:
        file.write(text.encode("utf-8", "replace"))


def open_binary(path: str | Path) -> BinaryIO:
    """Open a file for reading, unpacking gzip by its first bytes; `-` is standard input.

    An address (`s3://…`) is opened where it lies.
    """
    if str(path) == "-":
        return _standard_input()
    with _readable_errors(Path(path)):
        return unpacked(open_packed(path))


def open_packed(path: str | Path) -> BinaryIO:
    """Open a file or an address for reading as it lies there, gzip or not."""
    if stores.is_address(path):
        return stores.open_address(str(path))
    path = Path(path)
    with _readable_errors(path):
        if path.is_dir():
            raise DataError("this is a folder, not a file", file=path, fix="name a file in it")
        return path.open("rb")


def unpacked(file: BinaryIO) -> BinaryIO:
    """See through gzip, if that is what the first bytes say; both are closed together."""
    if cast(Any, file).peek(2)[:2] != b"\x1f\x8b":  # a look that takes nothing away: it may be a pipe
        return file
    packed = _Packed(fileobj=file)
    packed.myfileobj = file  # type: ignore[assignment]
    return cast(BinaryIO, packed)


def open_parquet(file: BinaryIO, path: str | Path) -> Any:
    """Open a Parquet file for pyarrow, unless it claims more rows than its bytes can hold.

    Memory is made ready for as many rows as are claimed before one is read: 900 bytes could ask for more than
    any machine has. What is claimed of columns is not looked at: a claim that makes no sense would end the
    process there, while the reader merely refuses it.

    Args:
        file: What `open_binary` returned.
        path: What to call it in an error.
    """
    import pyarrow.parquet as pq

    opened = pq.ParquetFile(file, pre_buffer=False)
    found = opened.metadata
    rows = [found.row_group(number).num_rows for number in range(found.num_row_groups)]
    most = max(_FEW_ROWS, _ROWS_A_BYTE * file.seek(0, os.SEEK_END))
    if min(rows, default=0) < 0 or not sum(rows) == found.num_rows <= most:
        raise DataError("not a Parquet file: it claims other rows than it has", file=path)
    return opened


def _standard_input() -> BinaryIO:
    """Open standard input once more: Python's own file may not be in use when the program ends.

    A thread that waits for a live stream may still hold it then, which Python answers by aborting.
    """
    try:
        return os.fdopen(sys.stdin.fileno(), "rb", closefd=False)
    except (OSError, ValueError):  # not a file of the system: a test, or a program that put another there
        return sys.stdin.buffer


class _Packed(gzip.GzipFile):
    """A gzip file that says of broken bytes which file they are in, whichever way it is read."""

    def _sound(self, read: Callable[..., bytes], size: int | None) -> bytes:
        try:
            return read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            message = f"the compressed file is broken: {error}"
            raise DataError(message, file=self.name, fix="copy it again") from None

    def read(self, size: int | None = -1) -> bytes:
        return self._sound(super().read, size)

    def read1(self, size: int = -1) -> bytes:
        return self._sound(super().read1, size)

    def readline(self, size: int | None = -1) -> bytes:  # lines of a loop come from here, too
        return self._sound(super().readline, size)


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
            with (Path(place) / name).open("rb") as file:
                os.fsync(file.fileno())
        _sync_folder(Path(place))


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def is_terminal(stream: IO[str]) -> bool:
    """Say whether a person is looking: progress and colour are for terminals only."""
    return hasattr(stream, "isatty") and stream.isatty()
