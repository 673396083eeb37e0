"""What tests of batches share: chats, a package with a metric that fails, a driver in its own process."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from dialeval.dialogues import Dialogue, dialogue

START = "from dialeval.cli import main; main()"
POISON = '''
"""A metric of another package: counts turns, but not of everything."""

import os
import signal
import time
from dataclasses import dataclass
from typing import ClassVar

from dialeval.metrics.registry import Rows, metric


@metric("brittle.v1")
@dataclass(frozen=True)
class Brittle:
    """Fails on a word, kills its process on another, once or always, and may be slow."""

    flag: str = ""
    seconds: float = 0.0
    dimensions: ClassVar[tuple[str, ...]] = ("turns",)

    def score(self, dialogues):
        rows = Rows(self)
        for one in dialogues:
            said = " ".join(turn.text for turn in one.turns)
            if "poison" in said:
                raise ValueError(f"cannot take {one.id}: {object()!r}")
            if "deadly" in said and not (self.flag and os.path.exists(self.flag)):
                if self.flag:
                    open(self.flag, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(self.seconds)
            rows.add(one, None, "turns", len(one.turns))
        return rows.scores()
'''


def package(folder: Path) -> dict[str, str]:
    """Install a package with the metric `brittle` into a folder; return the environment that finds it."""
    info = folder / "brittle-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (folder / "brittle_metric.py").write_text(POISON)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brittle\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dialeval.metrics]\nbrittle = brittle_metric:Brittle\n")
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


def talks(count: int, special: dict[int, str] | None = None, turns: int = 4) -> list[Dialogue]:
    """Make dialogues of a few turns that say different things; some say something special."""
    made = []
    for number in range(count):
        word = (special or {}).get(number, "fine")
        said = [(("user", "assistant")[place % 2], f"{word} {number} {place}") for place in range(turns)]
        made.append(dialogue(said, f"d{number:04d}", system=f"bot{number % 2}"))
    return made


def command(*words: object) -> list[str]:
    return [sys.executable, "-c", START, "batch", *map(str, words)]


def run(*words: object, code: int = 0, **more: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command(*words), capture_output=True, text=True, check=False, **more)
    assert done.returncode == code, (done.returncode, done.stdout[-500:], done.stderr[-3000:])
    assert "Traceback" not in done.stderr, done.stderr
    return done


def parts(out: Path) -> dict[str, bytes]:
    """Return the bytes of all scores, by name."""
    return {path.name: path.read_bytes() for path in sorted((out / "scores").glob("*.parquet"))}
