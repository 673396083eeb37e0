"""The Slurm and Spark recipes of docs/batch.md, run as they stand there."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from batch_cases import parts, run

import dialeval

ROOT = Path(__file__).parents[2]
EXAMPLES = Path(dialeval.__file__).parent / "dialogues" / "examples" / "dialogues.jsonl"
BATCH = ("chats.jsonl", "-m", "length", "--turns-per-shard", 250)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that the page names, a batch that is planned, and the same batch done without a break."""
    page = (ROOT / "docs" / "batch.md").read_text(encoding="utf-8")
    for found in re.finditer(r'^```\w+ title="([\w.]+)"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL):
        (tmp_path / found[1]).write_text(found[2], encoding="utf-8")
    shutil.copy(EXAMPLES, tmp_path / "chats.jsonl")
    run(*BATCH, "-o", "unbroken", cwd=tmp_path)
    assert "693 turns in 3 shards" in run(*BATCH, "-o", "array", "--plan-only", cwd=tmp_path).stderr
    return tmp_path


def start(folder: Path, *words: str, **environment: str) -> str:
    """Run a program as a cluster would, with the `dialeval` of this environment."""
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        words,
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": programs, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def finish(folder: Path) -> None:
    """Give the plain command; it finds all shards done, and they are those of the unbroken batch."""
    assert "3 of them done before" in run(*BATCH, "-o", "array", cwd=folder).stderr
    assert parts(folder / "array") == parts(folder / "unbroken")
    assert len(parts(folder / "array")) == 3


def test_two_tasks_of_a_slurm_array_do_the_whole(folder: Path) -> None:
    done = {}
    for task in ("0", "1"):
        start(folder, "bash", "array.sh", "3", SLURM_ARRAY_TASK_ID=task, SLURM_ARRAY_TASK_COUNT="2")
        done[task] = set(parts(folder / "array"))
    assert done["0"] == {"part-00000.parquet", "part-00002.parquet"}
    assert done["1"] - done["0"] == {"part-00001.parquet"}
    made = {path.name: path.stat().st_mtime_ns for path in (folder / "array" / "scores").iterdir()}
    start(folder, "bash", "array.sh", "3", SLURM_ARRAY_TASK_ID="0", SLURM_ARRAY_TASK_COUNT="1")
    assert made == {path.name: path.stat().st_mtime_ns for path in (folder / "array" / "scores").iterdir()}
    finish(folder)


def test_a_task_says_that_a_shard_failed_and_does_the_others(folder: Path) -> None:
    task = {"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "3"}
    with pytest.raises(AssertionError, match="there is no shard 5: the plan has 0 to 2"):
        start(folder, "bash", "array.sh", "6", **task)
    assert set(parts(folder / "array")) == {"part-00002.parquet"}


@pytest.mark.skipif(
    not (importlib.util.find_spec("pyspark") and shutil.which("java")),
    reason="needs Java and pyspark (490 MB, so not in the group dev): pip install pyspark",
)
def test_spark_does_the_whole(folder: Path) -> None:
    printed = start(
        folder,
        *(sys.executable, "on_spark.py", "array", "3"),
        SPARK_LOCAL_IP="127.0.0.1",
        PYSPARK_SUBMIT_ARGS="--master local[2] --conf spark.ui.enabled=false pyspark-shell",
        PYSPARK_PYTHON=sys.executable,
    )
    assert "693 turns, 324 scores" in printed, printed
    assert re.search(r"\|length\| +good-bot\|24\.15\d*\|", printed), printed
    finish(folder)
