"""What `make release` checks: contents of a wheel, the Pythons at hand, the signature of the checksums."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import release

ROOT = Path(__file__).parents[1]

needs_keys = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen")


@pytest.fixture
def key(tmp_path: Path) -> str:
    path = str(tmp_path / "key")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


@needs_keys
@pytest.mark.parametrize("half", ["", ".pub"])
def test_checksums_are_signed_and_a_change_is_found(key: str, half: str, tmp_path: Path) -> None:
    sums, signers = tmp_path / "SHA256SUMS", tmp_path / "allowed_signers"
    sums.write_text("00  dialeval.whl\n")
    release.sign(sums, key + half)
    signers.write_text(f"dialeval {Path(key + '.pub').read_text()}")
    release.verify(sums, signers)
    sums.write_text("01  dialeval.whl\n")
    with pytest.raises(SystemExit, match="incorrect signature"):
        release.verify(sums, signers)


@needs_keys
def test_the_signature_of_somebody_else_is_refused(key: str, tmp_path: Path) -> None:
    sums, signers = tmp_path / "SHA256SUMS", tmp_path / "allowed_signers"
    sums.write_text("00  dialeval.whl\n")
    release.sign(sums, key)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True)
    signers.write_text(f"dialeval {(tmp_path / 'other.pub').read_text()}")
    with pytest.raises(SystemExit, match="Could not verify"):
        release.verify(sums, signers)


def fake_python(path: Path, version: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n[ {version} = none ] && exit 127\necho {version}\n")
    path.chmod(0o755)


def test_the_newest_of_every_allowed_python_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_python(tmp_path / "bin" / "python3.11", "none")  # an idle shim
    fake_python(tmp_path / "bin" / "python3.15", "3.15.0")
    for version in ("3.10.9", "3.11.7", "3.12.9", "3.12.10"):
        fake_python(tmp_path / "pyenv" / "versions" / version / "bin" / "python3", version)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "bin"), "/bin"]))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.chdir(ROOT)
    found = [Path(one).relative_to(tmp_path).as_posix() for one in release.pythons()]
    assert found == [
        "pyenv/versions/3.11.7/bin/python3",
        "pyenv/versions/3.12.10/bin/python3",
        "bin/python3.15",
    ]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["dialeval/__init__.py", "dialeval.dist-info/licenses/LICENSE"], []),
        (["dialeval/__init__.py"], ["LICENSE is missing"]),
        (["LICENSE", "dialeval/log.jsonl.gz"], ["dialeval/log.jsonl.gz looks like a data set"]),
        (["LICENSE", "dialeval/swda/a.txt"], ["dialeval/swda/a.txt looks like a data set"]),
    ],
)
def test_what_a_wheel_must_not_lack_or_hold(names: list[str], said: list[str], tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "dialeval.whl", "w") as wheel:
        for name in names:
            wheel.writestr(name, "")
    assert release.problems(tmp_path / "dialeval.whl") == said
