"""Kills while an artefact is saved over an older one: the old or the new, never a mix (R16)."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dialeval.models.artefact import Artefact, save, verify
from dialeval.models.card import Card
from dialeval.models.tensors import read_tensors

KILLS = 50
SAVER = """
import itertools, sys
from pathlib import Path
import numpy as np
from dialeval.models.artefact import save
from dialeval.models.card import Card
from dialeval.models.tensors import write_tensors

target, first = Path(sys.argv[1]), int(sys.argv[2])

def put(number):
    card = Card(f"Number {number}", "Saved again and again.", licence="mit", command="none")
    weights = {f"w{i}": np.full((256, 256), number, "f4") for i in range(8)}
    files = {
        "weights.safetensors": lambda path: write_tensors(path, weights),
        "tokenizer.json": str(number).encode() * 20_000,
    }
    save(target, "pair-scorer.v1", {"number": number, "weights_file": "weights.safetensors"}, files, card)

print("ready", flush=True)
for number in itertools.count(first):
    put(number)
    print(number, flush=True)
"""


def number_of(found: Artefact) -> int:
    """Which save this is; fails if it is not all of one save."""
    number = int(found.config["number"])
    tensors = read_tensors(found.path("weights.safetensors"))
    assert len(tensors) == 8
    assert {float(value) for tensor in tensors.values() for value in np.unique(tensor)} == {float(number)}
    assert found.path("tokenizer.json").read_text() == str(number) * 20_000
    assert f"# Number {number}\n" in found.path("README.md").read_text()
    return number


@pytest.mark.soak
def test_fifty_kills_during_save(tmp_path: Path) -> None:
    target, chance = tmp_path / "mine", random.Random(16)
    there, before_its_first, leftovers = -1, 0, 0
    for kill in range(KILLS):
        first = 1000 * kill
        command = [sys.executable, "-c", SAVER, str(target), str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as saver:
            assert saver.stdout is not None
            assert saver.stdout.readline() == "ready\n"
            time.sleep(chance.uniform(0.0, 0.3))
            saver.kill()
            done = [int(line) for line in saver.stdout.read().split("\n")[:-1]]
        assert saver.returncode == -signal.SIGKILL
        if not target.exists():
            assert (kill, done) == (0, [])
            continue
        number = number_of(verify(target, "pair-scorer.v1"))
        if done:  # the last one that was said to be done, or the next, whose word did not come through
            assert number in (done[-1], done[-1] + 1)
        else:
            assert number in (there, first)
            before_its_first += 1
        there = number
        leftovers += any(entry.name.endswith(".part") for entry in tmp_path.iterdir())
    assert before_its_first  # some kills met the first save, over what another process had left
    assert leftovers  # and some the middle of one
    assert [entry.name for entry in tmp_path.iterdir() if not entry.name.startswith(".")] == ["mine"]
    card = Card("Last", "", licence="mit", command="none")
    assert save(target, "gguf.v1", {"number": 7}, {}, card).config["number"] == 7
    assert sorted(entry.name for entry in target.iterdir()) == ["README.md", "SHA256SUMS", "config.json"]
