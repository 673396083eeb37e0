"""Files: the old or the new, never a mix, and a clear word when the system says no."""

import gzip
import http.server
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from dialeval import files
from dialeval.errors import DataError


def entries(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_replacing_writes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    for text in (b"one", b"two"):
        with files.replacing(path) as file:
            file.write(text)
        assert path.read_bytes() == text
    assert entries(path.parent) == ["a.txt"]


def test_replacing_gives_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    with files.replacing(tmp_path / "ours"):
        pass
    with files.replacing_folder(tmp_path / "folder"):
        pass
    (tmp_path / "usual-folder").mkdir()
    for ours, usual in (("ours", "usual"), ("folder", "usual-folder")):
        assert (tmp_path / ours).stat().st_mode == (tmp_path / usual).stat().st_mode


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_on_the_way_keeps_the_old(error: type[BaseException], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(error), files.replacing(tmp_path / "a.txt") as file:
        file.write(b"new")
        raise error
    assert (tmp_path / "a.txt").read_text() == "old"
    assert entries(tmp_path) == ["a.txt"]


def test_a_long_name_and_an_impossible_one(tmp_path: Path) -> None:
    with files.replacing(tmp_path / ("x" * 240)) as file:
        file.write(b"1")
    with files.replacing_folder(tmp_path / ("y" * 240)) as folder:
        (folder / "a").write_text("1")
    assert len(entries(tmp_path)) == 2
    with pytest.raises(DataError, match="nothing was changed"), files.replacing(tmp_path / ("z" * 300)):
        pass
    assert len(entries(tmp_path)) == 2


def test_a_file_in_place_of_a_folder_and_the_other_way_round(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=r"folder: Is a directory"), files.replacing(tmp_path / "folder"):
        pass
    with pytest.raises(DataError, match="this is a file"), files.replacing_folder(tmp_path / "file"):
        pass
    with pytest.raises(DataError, match="file/b"), files.replacing(tmp_path / "file" / "b"):
        pass
    assert entries(tmp_path) == ["file", "folder"]


def test_a_pipe_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    with files.replacing(pipe) as file:
        file.write(b"through")
    reader.join()
    assert got == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_replacing_a_folder(tmp_path: Path) -> None:
    for text in ("one", "two", "three"):
        with files.replacing_folder(tmp_path / "run") as folder:
            (folder / "sub").mkdir()
            (folder / "sub" / f"{text}.txt").write_text(text)
        assert entries(tmp_path / "run" / "sub") == [f"{text}.txt"]
        assert entries(tmp_path) == ["run"]


def test_a_folder_that_fails_keeps_the_old(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "old").touch()
    with pytest.raises(ZeroDivisionError), files.replacing_folder(tmp_path / "run") as folder:
        (folder / "new").touch()
        raise ZeroDivisionError
    assert entries(tmp_path) == ["run"]
    assert entries(tmp_path / "run") == ["old"]


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "latest").symlink_to("real")
    with files.replacing_folder(tmp_path / "latest") as folder:
        (folder / "new").touch()
    assert (tmp_path / "latest").is_symlink()
    assert entries(tmp_path / "real") == ["new"]


def test_a_relative_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with files.replacing("a.txt") as file:
        file.write(b"1")
    with files.replacing_folder("run") as folder:
        (folder / "a").touch()
    assert entries(tmp_path) == ["a.txt", "run"]


def test_swapping_without_the_system_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    test_replacing_a_folder(tmp_path)


def test_write_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files.write_text(tmp_path / "a.txt", "caf\u00e9 \ud800")
    assert (tmp_path / "a.txt").read_bytes() == "caf\u00e9 ?".encode()
    files.write_text("-", "out")
    assert capsys.readouterr().out == "out"


def test_open_binary(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"hello")
    (tmp_path / "packed").write_bytes(gzip.compress(b"hello"))
    (tmp_path / "empty").touch()
    for name, content in (("plain", b"hello"), ("packed", b"hello"), ("empty", b"")):
        with files.open_binary(tmp_path / name) as file:
            assert file.read() == content
        assert file.closed
    with pytest.raises(DataError, match="this is a folder"):
        files.open_binary(tmp_path)
    with pytest.raises(DataError, match="name too long"):
        files.open_binary(tmp_path / ("z" * 300))
    with pytest.raises(DataError, match=r"gone: no such file \(check the path\)"):
        files.open_binary(tmp_path / "gone")


def test_sha256(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc" * 1_000_000)
    assert files.sha256(tmp_path / "a") == sha256(b"abc" * 1_000_000).hexdigest()
    with pytest.raises(DataError, match="no such file"):
        files.sha256(tmp_path / "gone")


CONTENT = b"weights" * 1000


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(404 if self.path == "/gone" else 200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[:100] if self.path == "/broken" else CONTENT)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_fetch(address: str, tmp_path: Path) -> None:
    expected = sha256(CONTENT).hexdigest()
    jobs = [
        threading.Thread(target=files.fetch, args=(f"{address}/w", tmp_path / "w", expected))
        for _ in range(4)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert (tmp_path / "w").read_bytes() == CONTENT
    assert entries(tmp_path) == ["w"]


@pytest.mark.parametrize(
    ("path", "limit", "message"),
    [
        ("/other", 1 << 20, "expected 0000"),
        ("/broken", 1 << 20, "expected 0000|could not download"),
        ("/gone", 1 << 20, "could not download"),
        ("/large", 100, "more than 100 bytes"),
    ],
)
def test_a_bad_download_leaves_nothing_and_fails_again(
    path: str, limit: int, message: str, address: str, tmp_path: Path
) -> None:
    for _ in range(2):
        with pytest.raises(DataError, match=message):
            files.fetch(address + path, tmp_path / "w", "0" * 64, limit=limit)
        assert entries(tmp_path) == []


@pytest.mark.parametrize("address", ["http://example.org/w", "file:///etc/passwd", "ftp://example.org/w"])
def test_only_https(address: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="must be https"):
        files.fetch(address, tmp_path / "w", "0" * 64)


KILLED_AT = """
import os, signal, sys
from pathlib import Path
from dialeval import files

kind, target, step = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
seen = 0

def hook(event, _):
    global seen
    if event.split(".")[0] in ("open", "os", "tempfile", "shutil", "ctypes"):
        seen += 1
        if seen == step:
            os.kill(os.getpid(), signal.SIGKILL)

import ctypes, shutil, tempfile
sys.addaudithook(hook)
if kind == "file":
    with files.replacing(target) as file:
        file.write(b"new" * 100_000)
else:
    with files.replacing_folder(target) as folder:
        for name in ("a", "b"):
            (folder / name).write_text("new")
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_kill_at_any_step_leaves_the_old_or_the_new(kind: str, tmp_path: Path) -> None:
    seen, target = set(), tmp_path / "target"
    for step in range(1, 200):
        if kind == "file":
            target.write_bytes(b"old")
        elif not target.exists() or (target / "a").read_text() == "new":
            with files.replacing_folder(target) as folder:
                for name in ("a", "b"):
                    (folder / name).write_text("old")
        done = subprocess.run([sys.executable, "-c", KILLED_AT, kind, target, str(step)], check=False)
        if kind == "file":
            found = {target.read_bytes()[:3].decode()}
            assert target.stat().st_size in (3, 300_000)
        else:
            found = {(target / name).read_text() for name in ("a", "b")}
            assert entries(target) == ["a", "b"]
        assert len(found) == 1
        seen |= found
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
    assert done.returncode == 0
    assert seen == {"old", "new"}
    assert step > 5


def test_a_name_that_no_file_can_have_is_an_error_of_ours() -> None:
    with pytest.raises(DataError, match="NUL in its name"):
        files.sha256("a\0b")
    with pytest.raises(DataError, match="NUL in its name"):
        files.open_binary("a\0b")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a folder in which nobody can make a file")
def test_a_lock_where_no_file_can_be_made_is_refused_at_once() -> None:
    with (
        pytest.raises(DataError, match=r"/proc/self: no such file"),
        files.locked(Path("/proc/self/here.lock"), "busy", wait=lambda: None),
    ):
        pytest.fail("locked")


def test_closed_standard_output_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(DataError, match="standard output is closed"):
        files.write_text("-", "lost")
