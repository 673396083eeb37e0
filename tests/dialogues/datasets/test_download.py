"""Downloads of public sets: checked by hash, complete or not there at all, and safe to repeat."""

import hashlib
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dialeval.dialogues.datasets import Download, PublicSet
from dialeval.errors import DataError

GOOD = b"All that was said.\n" * 20_000
HASH = hashlib.sha256(GOOD).hexdigest()
WAIT = 60  # seconds that a test waits for another process before it gives up

SCRIPT = """
import sys
from dialeval.dialogues.datasets import Download, PublicSet
address, digest = sys.argv[1:]
file = Download(address, digest, "data.txt")
PublicSet("toy", "", "toy", "none", "", lambda *_: (), downloads=(file,)).download()
"""


class Server(ThreadingHTTPServer):
    """Serves GOOD; a path chooses what goes wrong."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = 0
        self.both = threading.Barrier(2)
        self.halfway = threading.Event()
        self.go_on = threading.Event()

    def address(self, path):
        return f"http://127.0.0.1:{self.server_port}/{path}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        self.server.requests += 1
        getattr(self, f"send_{self.path[1:]}")()

    def start(self, **headers):
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def send_good(self):
        self.start(Content_Length=len(GOOD))
        self.wfile.write(GOOD)

    def send_cut_once(self):
        self.start(Content_Length=len(GOOD))
        self.wfile.write(GOOD if self.server.requests > 1 else GOOD[: len(GOOD) // 2])

    def send_cut_chunk_once(self):
        if self.server.requests > 1:
            return self.send_good()
        self.start(Transfer_Encoding="chunked")
        self.wfile.write(b"%x\r\n" % len(GOOD) + GOOD[: len(GOOD) // 2])
        return None

    def send_together(self):
        self.start(Content_Length=len(GOOD))
        self.wfile.write(GOOD[:1000])
        self.server.both.wait(WAIT)  # both are in the middle of it now
        self.wfile.write(GOOD[1000:])

    def send_stall_once(self):
        if self.server.requests > 1:
            return self.send_good()
        self.start(Content_Length=len(GOOD))
        self.wfile.write(GOOD[: len(GOOD) // 2])
        self.wfile.flush()
        self.server.halfway.set()
        self.server.go_on.wait(WAIT)
        return None

    def send_absent(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    made = Server()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield made
    made.go_on.set()
    made.shutdown()
    made.server_close()
    thread.join()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "toy"


def toy(address, digest=HASH, path="data.txt"):
    return PublicSet(
        "toy", "", "toy", "none", "", lambda *_: (), downloads=(Download(address, digest, path),)
    )


def everything(folder: Path):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) if folder.exists() else []


def start(address):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, address, HASH],
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_right_hash_puts_the_file_in_place_and_the_next_call_fetches_nothing(server, folder):
    made = toy(server.address("good"), path="deep/data.txt")
    assert made.download() == [folder / "deep/data.txt"]
    assert (folder / "deep/data.txt").read_bytes() == GOOD
    assert everything(folder) == ["deep", "deep/data.txt"]
    assert made.download() == []
    assert server.requests == 1


def test_a_wrong_hash_leaves_nothing_and_fails_again(server, folder):
    made = toy(server.address("good"), digest="0" * 64)
    for _ in range(2):
        with pytest.raises(
            DataError, match=rf"data\.txt: SHA-256 .* is {HASH}, expected 000.* nothing was kept"
        ):
            made.download()
        assert everything(folder) == []
    assert server.requests == 2


@pytest.mark.parametrize("path", ["cut_once", "cut_chunk_once"])
def test_a_connection_cut_in_the_middle_leaves_nothing_and_a_rerun_works(server, folder, path):
    made = toy(server.address(path))
    with pytest.raises(DataError, match=r"data\.txt"):
        made.download()
    assert everything(folder) == []
    made.download()
    assert (folder / "data.txt").read_bytes() == GOOD


def test_a_file_that_is_not_there_is_a_data_error(server, folder):
    with pytest.raises(DataError, match=r"could not download .*404"):
        toy(server.address("absent")).download()
    assert everything(folder) == []


def test_two_processes_at_once_give_one_good_file(server, folder):
    both = [start(server.address("together")) for _ in range(2)]
    for process in both:
        _, errors = process.communicate(timeout=WAIT)
        assert process.returncode == 0, errors
    assert everything(folder) == ["data.txt"]
    assert (folder / "data.txt").read_bytes() == GOOD
    assert server.requests == 2


def test_a_killed_download_is_not_taken_for_a_file_and_a_rerun_works(server, folder):
    process = start(server.address("stall_once"))
    assert server.halfway.wait(WAIT)
    process.kill()
    process.communicate(timeout=WAIT)
    assert not (folder / "data.txt").exists()
    toy(server.address("stall_once")).download()
    assert (folder / "data.txt").read_bytes() == GOOD


@pytest.mark.parametrize(
    "address",
    [
        "http://example.org/data.txt",
        "ftp://example.org/data.txt",
        "file:///etc/hostname",
        "http://127.0.0.1.example.org/data.txt",
        "HTTP://example.org",
        "data.txt",
    ],
)
def test_an_address_that_is_not_https_is_refused(folder, address):
    with pytest.raises(DataError, match=r"will not download from .*must be https"):
        toy(address).download()
    assert everything(folder) == []


def test_an_absent_set_that_can_be_downloaded_says_how(folder):
    with pytest.raises(DataError, match="dialeval list --download toy, or set DIALEVAL_DATA"):
        list(toy("https://example.org/data.txt").dialogues())


@pytest.mark.parametrize("name", ["topicalchat", "diasafety"])
def test_pinned_hashes_are_those_of_the_files_at_hand(data_folder: Path, name: str) -> None:
    from dialeval.dialogues.datasets import public_set
    from dialeval.dialogues.datasets.rawfiles import original
    from dialeval.files import open_binary

    chosen = public_set(name)
    assert chosen.downloads
    for item in chosen.downloads:
        assert item.address.startswith("https://")
        with open_binary(original(data_folder / chosen.folder, item.path)) as file:
            assert hashlib.sha256(file.read()).hexdigest() == item.sha256
    assert chosen.download() == []  # all there, so nothing is fetched


def test_sets_are_among_the_data_of_the_user_unless_another_place_is_named(monkeypatch, tmp_path):
    from dialeval.dialogues.datasets import data_folder

    for variable in ("DIALEVAL_DATA", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder() == tmp_path / ".local" / "share" / "dialeval" / "data"
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/ignored")
    assert data_folder() == tmp_path / ".local" / "share" / "dialeval" / "data"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    assert data_folder() == tmp_path / "share" / "dialeval" / "data"
    monkeypatch.setenv("DIALEVAL_DATA", "~/sets")
    assert data_folder() == tmp_path / "sets"


def test_list_download_means_a_set_without_saying_so(monkeypatch, tmp_path, capsys):
    from dialeval.cli import catalogue
    from dialeval.dialogues.datasets import public_set
    from dialeval.errors import UsageError

    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path))
    with pytest.raises(UsageError, match=r"get it from github.com/Shikib/fed and put its files into .*/fed "):
        catalogue.list_(None, "fed", json=False)
    with pytest.raises(UsageError, match="unknown public set 'nothing'"):
        catalogue.list_(None, "nothing", json=False)
    with pytest.raises(UsageError, match="list formats --download fed: only sets can be downloaded"):
        catalogue.list_("formats", "fed", json=False)
    for item in public_set("diasafety").downloads:
        (tmp_path / "diasafety" / item.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "diasafety" / item.path).touch()
    catalogue.list_(None, "diasafety", json=True)
    told = capsys.readouterr()
    assert told.err == f"diasafety is already present: {tmp_path / 'diasafety'}\n"
    assert '"name": "diasafety"' in told.out
