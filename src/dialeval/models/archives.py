"""Taking files out of archives that may be hostile.

An archive is judged as a whole before a byte of it is unpacked: one member that points outside, is a link,
is there twice or cannot be what it says makes all of it untrustworthy. What is unpacked is counted as it
comes out, since the sizes an archive states are whatever its maker wrote there.
"""

import contextlib
import gzip
import io
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO, Any, Self

from dialeval.errors import DataError, UsageError
from dialeval.files import replacing_folder

_CHUNK = 1 << 20
_HEADER = 1 << 20  # no honest long name or pax header of a tar file comes near this
_ENTRY = 256  # bytes that an entry of a zip file's directory takes, if its name is a long one
_PAX = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
_BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    struct.error,
    gzip.BadGzipFile,
    EOFError,
    NotImplementedError,
    OverflowError,
    ValueError,
)

Wanted = Callable[[str], bool] | Collection[str]


def extract_members(
    archive: str | Path,
    wanted: Wanted,
    target: str | Path,
    *,
    limit_bytes: int = 1 << 30,
    limit_members: int = 10_000,
) -> list[Path]:
    """Unpack some members of a zip file (a wheel is one) or of a tar file into a folder of their own.

    Args:
        archive: Zip, wheel, tar or tar.gz; found out by its bytes, not by its name.
        wanted: The names, all of which must be there, or a function that is shown every file's name.
        target: A folder that is not there yet or is empty. It appears when everything went well.
        limit_bytes: How much may come out, whatever the archive says its sizes are. In a packed tar
            file, what is passed over counts as well, since it has to be unpacked to get past it.
        limit_members: How many members the archive may have, wanted or not.

    Returns:
        The paths of the files, in the archive's order; each is the target and the member's whole name.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with zipfile.ZipFile(folder / "model.whl", "w") as file:
    ...     file.writestr("model/config.json", '{"width": 384}')
    >>> paths = extract_members(folder / "model.whl", ["model/config.json"], folder / "out")
    >>> [path.stat().st_size for path in paths]
    [14]

    Raises:
        DataError: If the archive is broken or hostile, or a wanted member is missing; names both.
    """
    archive, target = Path(archive), Path(target)
    if target.is_dir() and any(target.iterdir()):
        raise UsageError(f"{target}: will not unpack into a folder that holds something")
    names = {wanted} if isinstance(wanted, str) else wanted if callable(wanted) else set(wanted)
    choose = names if callable(names) else names.__contains__
    opening = _zip if _is_zip(archive) else _tar
    with replacing_folder(target) as folder, _broken(archive):
        found, room = [], limit_bytes
        with opening(archive, choose, limit_bytes, limit_members) as members:
            for name, content in members:
                room = _copy(archive, name, content, folder / name, room)
                found.append(name)
        if not callable(names) and (missing := sorted(names - set(found))):
            raise DataError("is not in this archive", file=archive, field=missing[0])
    return [target / name for name in found]


Members = Iterator[tuple[str, IO[bytes]]]


@contextlib.contextmanager
def _zip(archive: Path, choose: Callable[[str], bool], limit: int, most: int) -> Iterator[Members]:
    """Judge all members by the directory at the file's end, then give the chosen ones."""
    with _Bounded(archive) as file:
        file.longest = most * _ENTRY + (1 << 16)  # the directory is read in one go: a million names stop here
        with zipfile.ZipFile(file) as packed:
            file.longest = None
            members = packed.infolist()
            seen = _Names(archive, most)
            for member in members:
                seen.add(member.orig_filename, stat.S_IFMT(member.external_attr >> 16))
                if member.filename != member.orig_filename:  # a second name that some readers go by
                    raise DataError("has two names", file=archive, field=member.filename)
                if member.flag_bits & 0x41:  # usual and strong encryption
                    raise DataError("is encrypted", file=archive, field=member.filename)
            chosen = [member for member in members if not member.is_dir() and choose(member.filename)]
            for member in chosen:
                if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    # others unpack a whole block at once, however large that turns out to be
                    raise DataError("is packed in an unusual way", file=archive, field=member.filename)
            if sum(member.file_size for member in chosen) > limit:
                largest = max(chosen, key=lambda member: member.file_size)
                raise DataError(f"more than {limit} bytes to unpack", file=archive, field=largest.filename)
            yield _opened(packed, chosen)


def _opened(packed: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> Members:
    for member in members:
        with packed.open(member) as content:
            yield member.filename, content


@contextlib.contextmanager
def _tar(archive: Path, choose: Callable[[str], bool], limit: int, most: int) -> Iterator[Members]:
    """Judge and give members as they pass by: a tar file has no directory."""
    with _Bounded(archive) as file:
        packed = file.peek(2)[:2] == b"\x1f\x8b"
        stream = _Counted(gzip.GzipFile(fileobj=file), archive, limit + most * 1024) if packed else file
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as members:
            yield _passing(members, archive, choose, most)


def _passing(members: tarfile.TarFile, archive: Path, choose: Callable[[str], bool], most: int) -> Members:
    seen = _Names(archive, most)
    for member in members:
        kind = stat.S_IFREG if member.isreg() else stat.S_IFDIR if member.isdir() else -1
        seen.add(member.name, -1 if member.issparse() else kind)
        if member.isreg() and choose(member.name) and (content := members.extractfile(member)):
            yield member.name, content


class _Names:
    """The names seen so far: safe as paths, of plain files and folders, not too many, none twice."""

    def __init__(self, archive: Path, most: int) -> None:
        self.archive, self.most, self.seen = archive, most, set[str]()

    def add(self, name: str, kind: int) -> None:
        """Refuse a member by its name as written in the archive and by its kind (0 if it says none)."""
        parts = name.removesuffix("/").split("/")
        shown = repr(name)[1:-1]
        if name.startswith("/") or any(part in ("", ".", "..") for part in parts):
            raise DataError("is not the path of a file inside a folder", file=self.archive, field=shown)
        if any(character in "\\:" or ord(character) < 32 for character in name):
            raise DataError("is no portable name", file=self.archive, field=shown)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise DataError("is a link, a device or another special file", file=self.archive, field=shown)
        same = "/".join(parts).casefold()  # some systems see no difference
        if same in self.seen:
            raise DataError("is there twice", file=self.archive, field=shown)
        self.seen.add(same)
        if len(self.seen) > self.most:
            raise DataError(f"more than {self.most} members", file=self.archive, field=shown)


class _Bounded(io.BufferedReader):
    """A file that refuses to give more than `longest` bytes at once, while that is set."""

    longest: int | None = None

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self.path = path

    def read(self, size: int | None = -1, /) -> bytes:
        if self.longest is not None and size is not None and size > self.longest:
            raise DataError(f"a directory of {size} bytes: too many members", file=self.path)
        return super().read(size)


class _Counted(io.RawIOBase):
    """A packed stream that stops when too much has come out of it."""

    def __init__(self, stream: gzip.GzipFile, path: Path, limit: int) -> None:
        self.stream, self.path, self.limit, self.count = stream, path, limit, 0

    def read(self, size: int = -1, /) -> bytes:
        chunk = self.stream.read(size)
        self.count += len(chunk)
        if self.count > self.limit:
            raise DataError(f"more than {self.limit} bytes to unpack", file=self.path)
        return chunk


class _Member(tarfile.TarInfo):
    """A tar header that may not announce a huge further header, which would be read into memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: Any, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if member.type not in (*tarfile.SUPPORTED_TYPES, *_PAX):
            raise tarfile.ReadError(f"{member.name}: a member of unknown kind {member.type!r}")
        if member.type not in (*tarfile.REGULAR_TYPES, tarfile.DIRTYPE) and member.size > _HEADER:
            raise tarfile.ReadError(f"{member.name}: a header of {member.size} bytes")
        return member


def _copy(archive: Path, name: str, content: IO[bytes], path: Path, room: int) -> int:
    """Write a member to its place and return how many bytes may still come."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        while chunk := content.read(_CHUNK):
            room -= len(chunk)
            if room < 0:
                raise DataError("more bytes come out than the limit allows", file=archive, field=name)
            file.write(chunk)
    return room


def _is_zip(archive: Path) -> bool:
    try:
        return zipfile.is_zipfile(archive)
    except (OSError, ValueError, zipfile.BadZipFile):  # one that says it goes on on another disk
        return False


@contextlib.contextmanager
def _broken(archive: Path) -> Iterator[None]:
    """Turn what the libraries say about a bad archive into one line that names it."""
    try:
        yield
    except FileNotFoundError:
        raise DataError("no such file", file=archive, fix="check the path") from None
    except _BROKEN as error:
        raise DataError(
            f"no zip, tar or tar.gz file, or a broken one: {error}", file=archive, fix="get it afresh"
        ) from None
    except OSError as error:
        raise DataError(f"cannot be unpacked: {error.strerror or error}", file=archive) from None
