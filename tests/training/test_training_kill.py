"""A toy run, killed with SIGKILL, resumed in another process: it ends at the loss of the unbroken run."""

import subprocess
import sys
from pathlib import Path

import pytest
import toy_training as toy

pytest.importorskip("torch")


def test_a_killed_run_ends_like_an_unbroken_one(tmp_path: Path) -> None:
    kills = ["9", "13", "4"]
    done = subprocess.run(
        [sys.executable, "-W", "error", toy.__file__, "vector", str(tmp_path), *kills],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""  # no bar and no chatter where nobody looks
    reached = [line.split() for line in done.stdout.splitlines()]
    assert [killed for _, killed in reached] == ["True"] * 3
    assert int(reached[0][0]) < int(reached[1][0]) < int(reached[2][0])  # each went on
    network, trained = toy.run("vector", tmp_path)
    assert trained.resumed_at is not None
    assert trained.resumed_at >= int(reached[2][0]) - toy.SETTINGS["vector"].save_every
    assert toy.summary(network, trained) == toy.summary(*toy.run("vector", tmp_path, folder=None))
