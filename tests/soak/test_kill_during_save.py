"""Fifty kills for each kind of file: the old or the new (R16). Folders: `test_hostile_places_soak.py`."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dialeval.dialogues.formats import read
from dialeval.scores import Score, Scores, Signature
from dialeval.studies import Study

KILLS = 50
ROWS = 4_000
SAVER = """
import itertools, sys
from pathlib import Path
from dialeval.dialogues import dialogue
from dialeval.dialogues.formats import write
from dialeval.scores import Score, Scores, Signature
from dialeval.studies import Study

kind, target, first = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
ROWS = 4_000

def scores(number):
    rows = [Score(f"d{i}", None, "bot", "m", "x", float(number)) for i in range(ROWS)]
    return Scores.of(rows, {"m": Signature.of("m.v1", {"number": number})})

def chats(number):
    said = [("user", f"number {number}"), ("assistant", "yes " * 20)]
    return [dialogue(said, f"d{i}", system=f"s{number}") for i in range(ROWS)]

tables, talks = ({n: make(n) for n in (first, first + 1)} for make in (scores, chats))
study = {n: Study(n_units=n, n_dialogues=n, notes=("x" * 80,) * ROWS) for n in tables}
save = {
    "parquet": lambda n: tables[n].write(target),
    "csv": lambda n: tables[n].write(target),
    "jsonl": lambda n: tables[n].write(target),
    "dialogues": lambda n: write(talks[n], target),
    "study": lambda n: study[n].save(target),
}[kind]
save(first)
print("ready", flush=True)
for number in itertools.cycle((first, first + 1)):
    save(number)
"""


def of_scores(path: Path) -> int:
    """Which save this is; fails if it is not all of one save."""
    scores = Scores.read(path)
    assert len(scores) == ROWS
    (number,) = {row.value for row in scores}
    assert number is not None
    assert scores.signatures == {"m": Signature.of("m.v1", {"number": int(number)})}
    return int(number)


def of_dialogues(path: Path) -> int:
    found = list(read(path))
    assert len(found) == ROWS
    ((text, system),) = {(one.turns[0].text, one.system) for one in found}
    assert text == f"number {str(system)[1:]}"
    return int(str(system)[1:])


def of_study(path: Path) -> int:
    found = Study.load(path)
    assert found.n_units == found.n_dialogues
    assert len(found.notes) == ROWS
    return found.n_units


KINDS: dict[str, tuple[str, Callable[[Path], int]]] = {
    "parquet": ("scores.parquet", of_scores),
    "csv": ("scores.csv", of_scores),
    "jsonl": ("scores.jsonl", of_scores),
    "dialogues": ("dialogues.jsonl", of_dialogues),
    "study": ("study.json", of_study),
}


@pytest.mark.soak
@pytest.mark.parametrize("kind", list(KINDS))
def test_fifty_kills(kind: str, tmp_path: Path) -> None:
    name, number_of = KINDS[kind]
    target, chance, seen = tmp_path / name, random.Random(kind), set()
    for kill in range(KILLS):
        first = 10 * kill
        command = [sys.executable, "-c", SAVER, kind, str(target), str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as saver:
            assert saver.stdout is not None
            assert saver.stdout.readline() == b"ready\n"
            time.sleep(chance.uniform(0, 0.15))
            saver.kill()
        assert saver.returncode == -signal.SIGKILL
        number = number_of(target)
        assert number in (first, first + 1)
        seen.add(number % 10)
    assert seen == {0, 1}
    # What the kills left behind is hidden, and in nobody's way.
    assert [entry.name for entry in tmp_path.iterdir() if not entry.name.startswith(".")] == [name]
    if kind in ("parquet", "csv", "jsonl"):
        Scores.of([Score("d", None, None, "m", "x", 7.0)]).write(target)
        assert [row.value for row in Scores.read(target)] == [7.0]
