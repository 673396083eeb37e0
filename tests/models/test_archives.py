"""Archives: what is asked for comes out; whatever is hostile is refused and leaves no trace (promise R15)."""

import os
import shutil
import stat
import struct
import time
import warnings
import zipfile
import zlib
from pathlib import Path

import pytest

from dialeval.errors import DataError, UsageError
from dialeval.models.archives import extract_members

GOOD = {
    "model/config.json": b'{"width": 2}',
    "model/sub/weights": bytes(range(256)) * 5000,
    "setup.py": b"1/0",
}


def entries(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def zipped(path: Path, members: dict[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", packing) as file:
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(name), content, packing)
    return path


class Everything(list[str]):
    """Names that have every name among them."""

    def __contains__(self, _: object) -> bool:
        return True


def refused(archive: Path, member: str, why: str, **limits: int) -> None:
    """Ask for everything, twice; nothing must come out, inside the target or next to it."""
    around = {path: path.stat().st_mtime_ns for path in archive.parent.rglob("*")}
    for _ in range(2):
        with pytest.raises(DataError, match=why) as caught:
            extract_members(archive, [], archive.parent / "out", optional=Everything(), **limits)
        assert str(archive) in str(caught.value)
        assert member in str(caught.value)
        assert {path: path.stat().st_mtime_ns for path in archive.parent.rglob("*")} == around


def test_the_wanted_members_come_out_whole(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a", GOOD)
    wanted = [name for name in GOOD if name.startswith("model/")]
    found = extract_members(archive, wanted, tmp_path / "out", optional=["setup.py", "model/none"])
    assert found == [tmp_path / "out" / name for name in (*wanted, "setup.py")]
    assert [path.read_bytes() for path in found] == [GOOD[name] for name in (*wanted, "setup.py")]
    assert entries(tmp_path) == ["a", "out"]


def test_a_missing_member_is_named(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a", GOOD)
    for _ in range(2):
        with pytest.raises(DataError, match=r"a: model/weights: is not in this archive"):
            extract_members(archive, ["model/config.json", "model/weights"], tmp_path / "out")
        assert entries(tmp_path) == ["a"]
    assert extract_members(archive, [], tmp_path / "out") == []


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a", GOOD)
    with pytest.raises(UsageError, match="refusing to unpack"):
        extract_members(archive, ["setup.py"], tmp_path)
    assert entries(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../evil", "not the path"),
        ("model/../../evil", "not the path"),
        ("model/..", "not the path"),
        ("/etc/evil", "not the path"),
        ("//host/share", "not the path"),
        ("model//evil", "not the path"),
        ("./evil", "not the path"),
        ("C:evil", "not a portable name"),
        ("C:/evil", "not a portable name"),
        ("model\\..\\evil", "not a portable name"),
        ("model/a\nb", "not a portable name"),
        ("MODEL/Config.json", "twice"),
    ],
)
def test_names_that_lead_elsewhere(name: str, why: str, tmp_path: Path) -> None:
    refused(zipped(tmp_path / "a", {**GOOD, name: b"evil"}), repr(name)[1:-1], why)


def test_hostile_members_nobody_asked_for_spoil_the_archive(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a", {**GOOD, "../evil": b"x"})
    with pytest.raises(DataError, match="not the path"):
        extract_members(archive, ["setup.py"], tmp_path / "out")
    assert entries(tmp_path) == ["a"]


def test_a_member_twice(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a", "w") as file, warnings.catch_warnings(action="ignore"):
        file.writestr("same", b"1")
        file.writestr("same", b"2")
    refused(tmp_path / "a", "same", "twice")


def test_a_name_that_ends_early_for_some_readers(tmp_path: Path) -> None:
    zipped(tmp_path / "a", {"model.json_evil": b"x"})
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes().replace(b"model.json_", b"model.json\0"))
    refused(tmp_path / "a", "model.json", "not a portable name")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK])
def test_links_and_devices_in_a_zip_file(kind: int, tmp_path: Path) -> None:
    member = zipfile.ZipInfo("model/link")
    member.create_system, member.external_attr = 3, (kind | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a", "w") as file:
        file.writestr(member, "/etc/passwd")
    refused(tmp_path / "a", "model/link", "a link, a device")


def test_an_encrypted_member(tmp_path: Path) -> None:
    zipped(tmp_path / "a", {"secret": b"x"})
    data = bytearray((tmp_path / "a").read_bytes())
    data[6] |= 1  # in the member's own header, and in the directory
    data[data.index(b"PK\1\2") + 8] |= 1
    (tmp_path / "a").write_bytes(data)
    refused(tmp_path / "a", "secret", "encrypted")


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_packings_that_unpack_at_one_go(packing: int, tmp_path: Path) -> None:
    refused(zipped(tmp_path / "a", {"zeros": bytes(1000)}, packing), "zeros", "unsupported compression")


def test_too_many_bytes(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a", {"one": bytes(600), "two": bytes(600)})
    assert len(extract_members(archive, ["one", "two"], tmp_path / "out", limit_bytes=1200)) == 2
    shutil.rmtree(tmp_path / "out")
    refused(archive, "", "more than 1199|more bytes", limit_bytes=1199)


def lying_zip(path: Path, size: int, says: int) -> Path:
    """Make a zip file whose only member holds more than its headers say, with a checksum that fits."""
    zeros = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = b"".join(zeros.compress(bytes(1 << 20)) for _ in range(size >> 20)) + zeros.flush()
    sizes = struct.pack("<HHIIIHH", 0, 0, zlib.crc32(bytes(says)), len(packed), says, 4, 0)
    local = b"PK\3\4" + struct.pack("<HHH", 20, 0, 8) + sizes + b"bomb"
    entry = (
        b"PK\1\2"
        + struct.pack("<HHHH", 20, 20, 0, 8)
        + sizes
        + struct.pack("<HHHII", 0, 0, 0, 0, 0)
        + b"bomb"
    )
    place = len(local) + len(packed)
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry), place, 0)
    path.write_bytes(local + packed + entry + end)
    return path


def test_a_bomb_whose_header_lies_gives_no_more_than_it_says(tmp_path: Path) -> None:
    archive = lying_zip(tmp_path / "a", 64 << 20, 1000)
    (path,) = extract_members(archive, ["bomb"], tmp_path / "out")
    assert path.stat().st_size == 1000


def test_a_bomb_that_says_what_it_is(tmp_path: Path) -> None:
    archive = lying_zip(tmp_path / "a", 64 << 20, 64 << 20)
    assert archive.stat().st_size < 100_000
    refused(archive, "bomb", "more than 1048576 bytes", limit_bytes=1 << 20)


def test_members_that_share_their_bytes_are_counted_each(tmp_path: Path) -> None:
    """Many names for one heap of packed bytes: small as a file, and each name would unpack all of it."""
    data = lying_zip(tmp_path / "a", 1 << 20, 1 << 20).read_bytes()
    first, end = data.index(b"PK\1\2"), data.index(b"PK\5\6")
    again = data[first:end] + data[first:end].replace(b"bomb", b"bomc")
    tail = struct.pack("<HHHHIIH", 0, 0, 2, 2, len(again), first, 0)
    (tmp_path / "a").write_bytes(data[:first] + again + b"PK\5\6" + tail)
    refused(tmp_path / "a", "", "more than 1100000 bytes", limit_bytes=1_100_000)


def test_more_members_than_the_limit(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a", {f"m{number}": b"" for number in range(101)})
    refused(archive, "m100", "more than 100 members", limit_members=100)
    assert len(extract_members(archive, ["m0"], tmp_path / "out", limit_members=101)) == 1


def test_a_million_members_are_refused_at_once(tmp_path: Path) -> None:
    entry = b"PK\1\2" + struct.pack("<HHHHHHIIIHHHHHII", 20, 20, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0)
    listing = b"".join(entry + b"%07d" % number for number in range(1_000_000))
    for says in (1, 0xFFFF):  # the number of members is whatever the file says; only its directory counts
        end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, says, says, len(listing), 0, 0)
        (tmp_path / "a").write_bytes(listing + end)
        began = time.process_time()
        refused(tmp_path / "a", "", "too many members")
        assert time.process_time() - began < 2


def test_broken_archives(tmp_path: Path) -> None:
    whole = zipped(tmp_path / "a", GOOD).read_bytes()
    (tmp_path / "a").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"broken|not in this archive"):
        extract_members(tmp_path / "a", list(GOOD), tmp_path / "out")
    assert entries(tmp_path) == ["a"]


def test_a_flipped_byte_in_a_zip_file(tmp_path: Path) -> None:
    data = bytearray(zipped(tmp_path / "a", GOOD, zipfile.ZIP_STORED).read_bytes())
    data[data.index(b"width")] ^= 1
    (tmp_path / "a").write_bytes(data)
    refused(tmp_path / "a", "", "CRC")


@pytest.mark.parametrize(
    "content", [b"", b"hello", os.urandom(4096), b"\x1f\x8b" + bytes(50), b"PK\5\6" + bytes(18)]
)
def test_no_archive_at_all(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DataError, match=r"a: (not a zip file|x: is not in)"):
        extract_members(tmp_path / "a", ["x"], tmp_path / "out")
    for path, why in ((tmp_path / "gone", "no such file"), (tmp_path, "cannot be unpacked")):
        with pytest.raises(DataError, match=why):
            extract_members(path, ["x"], tmp_path / "out")
    assert entries(tmp_path) == ["a"]


def test_a_name_that_no_system_takes(tmp_path: Path) -> None:
    refused(zipped(tmp_path / "a", {"x" * 400: b"1"}), "", "cannot be unpacked: File name too long")
    refused(zipped(tmp_path / "a", {"a": b"1", "a/b": b"2"}), "", "cannot be unpacked")
