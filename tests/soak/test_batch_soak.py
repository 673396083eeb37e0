"""Kill drivers and workers at random moments, fill the disk: the union is that of an unbroken run (R22)."""

import contextlib
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from batch_cases import command, package, parts, run, talks

from dialeval.dialogues.formats import write

pytestmark = pytest.mark.soak
KILLS, SHARDS, WORKERS = 20, 40, 2
METRIC = "brittle:seconds=0.05"  # ten dialogues a shard: half a second


@pytest.fixture
def place() -> Iterator[Path]:
    """A short path: sockets of Ray have names of at most 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def cluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, ...]]:
    """Start a Ray that outlives drivers, with a token of its own; it ends with its first process.

    `ray start` tries to tell its makers that it tells them nothing; that is refused here, but no failure.
    """
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    port = str(random.Random().randrange(20_000, 30_000))
    words = ["--head", "--block", f"--port={port}", f"--num-cpus={WORKERS}", "--include-dashboard=false"]
    head = subprocess.Popen(
        [str(Path(sys.executable).parent / "ray"), "start", *words, f"--temp-dir={folder / 'r'}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**package(folder / "package"), "RAY_USAGE_STATS_ENABLED": "0", "DIALEVAL_OUTSIDE_LOG": ""},
    )
    time.sleep(15)
    try:
        assert head.poll() is None, "Ray did not start"
        yield "--on", "ray", "--address", f"127.0.0.1:{port}"
    finally:
        head.terminate()
        head.wait(60)


def log_of(out: Path) -> list[dict[str, Any]]:
    path = out / "log.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):  # a line that a kill cut short
            found.append(json.loads(line))
    return found


def begun(out: Path) -> list[dict[str, Any]]:
    return [row for row in log_of(out) if "begun" in row]


def wait_for(condition: Any, seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)


class Soak:
    """A batch that is broken again and again, and one that is not."""

    def __init__(self, place: Path, on: tuple[str, ...]) -> None:
        self.place, self.environment = place, package(place / "package")
        write(talks(SHARDS * 10, {77: "poison"}), place / "logs.jsonl")
        self.words = (place / "logs.jsonl", "-m", METRIC, "--turns-per-shard", 40, "--workers", WORKERS)
        self.on, self.round = on, 0
        run(*self.words, "-o", place / "unbroken", env=self.environment)
        self.expected = parts(place / "unbroken")
        assert len(self.expected) == SHARDS

    @property
    def out(self) -> Path:
        return self.place / f"out{self.round}"

    def start(self) -> "subprocess.Popen[bytes]":
        if (self.out / "_SUCCESS").exists():
            self.check()
            self.round += 1
        words = command(*self.words, *self.on, "-o", self.out, "--quiet")
        return subprocess.Popen(words, env=self.environment, stderr=subprocess.DEVNULL)

    def check(self) -> None:
        assert parts(self.out) == self.expected

    def done(self) -> list[Path]:
        return list(self.out.glob("done/part-*.json"))

    def finish(self) -> None:
        run(*self.words, *self.on, "-o", self.out, env=self.environment)
        self.check()
        assert (self.out / "_SUCCESS").exists()

    def redone(self) -> int:
        """How many shards were begun more often than once, counted as often, over all rounds."""
        rounds = [
            Counter(row["shard"] for row in begun(self.place / f"out{n}")) for n in range(self.round + 1)
        ]
        return sum(count - 1 for one in rounds for count in one.values())


def kill_drivers(soak: Soak, chance: random.Random) -> None:
    left = 0
    for kill in range(KILLS):
        driver = soak.start()
        before, kept = len(begun(soak.out)), len(soak.done())
        if kill % 5:  # else somewhere in the beginning: planning, starting workers
            wait_for(lambda: len(begun(soak.out)) > before or driver.poll() is not None)  # noqa: B023
        if kill % 5 > 2:
            wait_for(lambda: len(soak.done()) > kept or driver.poll() is not None)  # noqa: B023
        time.sleep(chance.uniform(0, 1.2))
        driver.kill()
        driver.wait()
        names = [row["begun"] for row in begun(soak.out)[before:]]
        if not soak.on:
            wait_for(lambda: not [pid for pid in names if Path(f"/proc/{pid}").exists()], 20)  # noqa: B023
            left += len([pid for pid in names if Path(f"/proc/{pid}").exists()])
    assert left == 0, "workers outlived their driver"


def kill_workers(soak: Soak, chance: random.Random) -> int:
    killed = 0
    until = time.monotonic() + 1500
    while killed < KILLS and time.monotonic() < until:
        driver = soak.start()
        before = len(begun(soak.out))
        while driver.poll() is None and killed < KILLS:
            wait_for(lambda: len(begun(soak.out)) > before or driver.poll() is not None)  # noqa: B023
            time.sleep(chance.uniform(0.7, 1.4))
            rows = begun(soak.out)[before:]
            if rows and driver.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(str(rows[-1]["begun"]).rpartition(":")[2]), signal.SIGKILL)
                    killed += 1
            before = len(begun(soak.out))
        driver.wait()
    return killed


@pytest.mark.parametrize("on", ["local", "ray"])
def test_kills_leave_the_union_of_an_unbroken_run(
    on: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, started = random.Random(on), time.monotonic()
    with cluster(place, monkeypatch) if on == "ray" else contextlib.nullcontext(()) as where:
        soak = Soak(place, where)
        kill_drivers(soak, chance)
        soak.finish()
        by_drivers, rounds = soak.redone(), soak.round + 1
        soak.round += 1
        killed = kill_workers(soak, chance)
        soak.finish()
        by_workers = soak.redone() - by_drivers
    figures = (
        f"{KILLS} drivers killed: {by_drivers} shards begun again; {killed} workers killed: {by_workers}"
    )
    print(f"\n{on}: {figures}; {rounds} and {soak.round + 1 - rounds} rounds of {SHARDS} shards, bytes equal")
    print(f"{time.monotonic() - started:.0f} s")
    assert killed == KILLS
    assert by_drivers <= KILLS * WORKERS
    assert by_workers <= KILLS
    assert not [path for path in soak.out.rglob("*.parquet") if path.name.startswith(".")]


def test_a_full_disk_says_so_loses_nothing_and_resumes(place: Path) -> None:
    """A file system of a few hundred kilobytes, filled up and emptied again."""
    disk = place / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("cannot mount a small file system here")
    try:
        write(talks(4000), place / "logs.jsonl")
        words = (
            place / "logs.jsonl",
            "-m",
            "length",
            "-m",
            "turns",
            "--turns-per-shard",
            400,
            "--workers",
            2,
        )
        run(*words, "-o", place / "unbroken")
        filler = disk / "filler"
        filler.write_bytes(bytes(180_000))
        full = run(*words, "-o", disk / "out", code=1)
        assert "No space left on device; nothing was changed" in full.stderr
        assert "repeat the command to resume" in full.stderr
        whole = parts(place / "unbroken")
        kept = parts(disk / "out")
        assert 0 < len(kept) < len(whole)
        assert all(whole[name] == data for name, data in kept.items())
        filler.unlink()
        done = run(*words, "-o", disk / "out")
        assert "done before" in done.stderr
        assert parts(disk / "out") == whole
        print(f"\ndisk full after {len(kept)} of {len(whole)} shards; resumed, all bytes equal")
    finally:
        subprocess.run(["umount", str(disk)], check=False)
