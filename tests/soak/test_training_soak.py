"""Twenty kills of a training run at random moments: it ends like the unbroken one, to the last bit."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak
KILLS = 20
FOLDER = Path(__file__).parents[1] / "training"


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    monkeypatch.syspath_prepend(str(FOLDER))
    import toy_training

    return toy_training


@pytest.mark.parametrize(("kind", "most"), [("vector", 6), ("pair", 3)])
def test_twenty_kills(kind: str, most: int, tmp_path: Path, toy) -> None:
    toy.make_encoder(tmp_path / "encoder")
    expected = toy.summary(*toy.run(kind, tmp_path, folder=None))
    chance, reached = random.Random(kind), []
    command = [sys.executable, str(FOLDER / "toy_training.py"), kind, str(tmp_path)]
    for _ in range(KILLS):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout is not None
            told = [run.stdout.readline() for _ in range(chance.randint(1, most))]
            time.sleep(chance.uniform(0, 0.03))  # in the middle of a step, a look or a save
            run.kill()
        assert run.returncode == -signal.SIGKILL
        reached.append(int(told[-1]))
    print(f"\n{kind}: killed after steps {reached}")
    assert reached[-1] > 10  # it went on between the kills
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout.splitlines()[-1]) == expected
    kept = sorted(entry.name for entry in (tmp_path / "run").iterdir() if entry.name != ".lock")
    assert kept == [f"best-{expected['best'][0]}", "checkpoint"]
