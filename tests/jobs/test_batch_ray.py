"""A batch on Ray: the bytes that processes write, and a worker that dies. Two tests: Ray is slow to start."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from batch_cases import command, package, parts, run, talks

from dialeval.dialogues.formats import write

pytest.importorskip("ray")


@pytest.fixture
def place() -> Iterator[Path]:
    """A short path: sockets of Ray have names of at most 107 bytes."""
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def eager(place: Path) -> dict[str, str]:
    """Ray's workers stand back behind every other process, for minutes on a busy machine: not in tests.

    Ray itself asks the address where clouds describe their machines; that is refused here, but no failure.
    """
    return package(place / "package") | {"RAY_worker_niceness": "0", "DIALEVAL_OUTSIDE_LOG": ""}


def test_ray_writes_the_bytes_that_processes_write(place: Path) -> None:
    environment = eager(place)
    write(talks(30, {7: "poison"}), place / "logs.jsonl")
    words = (place / "logs.jsonl", "-m", "brittle", "-m", "length", "--turns-per-shard", 40, "--workers", 2)
    run(*words, "-o", place / "local", env=environment)
    done = run(*words, "-o", place / "out", "--on", "ray", env=environment, timeout=200)
    assert "120 turns in 3 shards" in done.stderr
    assert parts(place / "out") == parts(place / "local")
    assert len(parts(place / "out")) == 3
    assert json.loads((place / "out" / "summary.json").read_text())["unscored"][0]["n"] == 1


def test_a_killed_ray_worker_is_replaced(place: Path) -> None:
    environment, out = eager(place), place / "out"
    write(talks(30), place / "logs.jsonl")
    words = (place / "logs.jsonl", "-m", "brittle:seconds=0.1", "--turns-per-shard", 40, "-o", out)
    on = ("--on", "ray", "--workers", 1)
    with subprocess.Popen(command(*words, *on), stderr=subprocess.PIPE, text=True, env=environment) as driver:
        until = time.monotonic() + 200
        while not list(out.glob("done/*.json")) and time.monotonic() < until:
            time.sleep(0.1)
        begun = re.findall(r'"begun": "[^"]*:(\d+)"', (out / "log.jsonl").read_text())
        os.kill(int(begun[-1]), signal.SIGKILL)
        _, said = driver.communicate(timeout=200)
    assert driver.returncode == 0, said
    log = (out / "log.jsonl").read_text()
    assert len(re.findall('"done": false, "why": "its worker has died', log)) == 1
    run(place / "logs.jsonl", *words[1:-1], place / "local", env=environment)
    assert parts(out) == parts(place / "local")
