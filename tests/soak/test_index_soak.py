"""Kills while an index is built or added to, and an index that is too large for exact search."""

import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dialeval.errors import DataError
from dialeval.models.index import Index

KILLS = 25
BUILDER = """
import itertools, sys
import numpy as np, pyarrow.compute, scipy.sparse  # before it is ready: they take longer than a build
from dialeval.models.index import Index

target, first, exact_up_to = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

def blocks(number):
    chance = np.random.default_rng(number)
    for start in range(0, 3000, 500):
        ids = [f"{number}-{one}" for one in range(start, start + 500)]
        columns = {"text": chance.normal(size=(500, 8)), "words": [f"said {number}"] * 500}
        yield ids, columns, [f"document {number}".encode()] * 500

print("ready", flush=True)
for number in itertools.cycle((first, first + 1)):
    Index.build_from(target, blocks(number), exact_up_to=exact_up_to)
    print(number, flush=True)
"""
ADDER = """
import sys
import numpy as np, pyarrow.compute, scipy.sparse
from dialeval.models.index import Index

index = Index.open(sys.argv[1])
print("ready", flush=True)
while True:
    batch = len(index) // 300
    ids = [f"{batch}-{one}" for one in range(300)]
    vectors = np.random.default_rng(batch).normal(size=(300, 8))
    columns = {"text": vectors, "words": [f"batch {batch}"] * 300}
    index.add(ids, columns, documents=[b"document %d" % batch] * 300)
    print(batch, flush=True)
"""


def killed(code: str, *arguments: object, after: float, done: bool) -> list[str]:
    """Run a program and kill it some time after it is ready, or has `done` something; return its words."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline() == "ready\n"
        said = [running.stdout.readline().strip()] if done else []
        time.sleep(after)
        running.kill()
        said += running.stdout.read().splitlines()
        assert running.stderr.read() == ""
    assert running.returncode == -signal.SIGKILL
    return said


def number_of(folder: Path) -> int:
    """Which build this is; fails if it is not all of one."""
    index = Index.open(folder)
    (number,) = {name.partition("-")[0] for name in index.ids}
    assert list(index.ids) == [f"{number}-{one}" for one in range(3000)]
    assert index.documents([f"{number}-2999"]) == [f"document {number}".encode()]
    assert index.search([f"said {number}"], 1, column="words")[0][0].score == pytest.approx(1)
    first = np.random.default_rng(int(number)).normal(size=(500, 8))
    assert [hits[0].id for hits in index.search(first[:5], 3)] == [f"{number}-{one}" for one in range(5)]
    return int(number)


@pytest.mark.soak
@pytest.mark.parametrize("exact_up_to", [10_000, 1_000])
def test_kills_during_build(exact_up_to: int, tmp_path: Path) -> None:
    target, chance, seen = tmp_path / "index", random.Random(exact_up_to), set()
    longest = 1.2 if exact_up_to == 10_000 else 4.0
    before = None
    for kill in range(KILLS):
        first = 10 * kill
        said = killed(
            BUILDER, target, first, exact_up_to, after=chance.uniform(0, longest), done=kill % 3 == 0
        )
        try:
            number = number_of(target)
        except DataError as error:
            assert before is None, error  # the very first build may have been broken off
            assert not said
            assert "no index" in str(error)
            continue
        allowed = {int(said[-1]), first + 1 - int(said[-1]) % 10} if said else {before, first}
        assert number in allowed
        seen.add((bool(said), number % 10))
        before = number
    assert len(seen) > 1
    index = Index.build(target, ["a"], {"text": np.ones((1, 3))})  # the next run succeeds, and sweeps
    assert len(Index.open(target)) == len(index) == 1
    assert sorted(path.name for path in target.iterdir()) == [".lock", "config.json", "parts"]
    assert len(list((target / "parts").iterdir())) == 1


@pytest.mark.soak
@pytest.mark.parametrize("exact_up_to", [100_000, 900])
def test_kills_during_add(exact_up_to: int, tmp_path: Path) -> None:
    target, chance = tmp_path / "index", random.Random(exact_up_to)
    columns = {"text": np.random.default_rng(0).normal(size=(300, 8)), "words": ["batch 0"] * 300}
    ids, texts = [f"0-{one}" for one in range(300)], [b"document 0"] * 300
    Index.build(target, ids, columns, documents=texts, exact_up_to=exact_up_to)
    batches, grown = 1, set()
    for kill in range(KILLS):
        longest = 1.0 if exact_up_to > 900 else 1.5
        said = killed(ADDER, target, after=chance.uniform(0, longest), done=kill % 3 == 0)
        index = Index.open(target)
        found, rest = divmod(len(index), 300)
        assert rest == 0
        assert found - batches in (len(said), len(said) + 1)  # what was told is there; one more may be
        grown.add(found - batches)
        batches = found
        assert list(index.ids) == [f"{batch}-{one}" for batch in range(batches) for one in range(300)]
        last = batches - 1
        assert index.documents([f"{last}-299", "0-0"]) == [b"document %d" % last, b"document 0"]
        query = np.random.default_rng(last).normal(size=(300, 8))[7:8]
        assert index.search(query, 1)[0][0].id == f"{last}-7"
        assert index.search([f"batch {last}"], 1, column="words")[0][0].id == f"{last}-0"
    assert len(grown) > 1
    extra = {"text": np.ones((1, 8)), "words": ["late"]}
    index.add(["late"], extra, documents=[b""])
    assert len(Index.open(target)) == 300 * batches + 1
    left = {path.name for path in (target / "parts").iterdir()}
    assert left == {part.name for part in index._config.parts}
    assert len(index._config.segments) <= 16


# --- size ---------------------------------------------------------------------------------------------------

ROWS, WIDTH = 250_000, 384


def vectors_like(rows: int, seed: int) -> Any:
    """Vectors as encoders give them: many topics, and far fewer directions than numbers."""
    fixed = np.random.default_rng(0)
    basis, topics = fixed.normal(size=(48, WIDTH)), fixed.normal(size=(2000, 48))
    chance = np.random.default_rng(seed)
    inner = 0.7 * topics[chance.integers(0, 2000, rows)] + 0.7 * chance.normal(size=(rows, 48))
    return (inner @ basis + 0.5 * chance.normal(size=(rows, WIDTH))).astype(np.float32)


def many() -> Iterator[Any]:
    for start in range(0, ROWS, 10_000):
        yield (
            [f"d{one}" for one in range(start, start + 10_000)],
            {"text": vectors_like(10_000, start + 1)},
            None,
        )


def memory() -> str:
    now = int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) / 1024
    return f"{now:.0f} MB, at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"


@pytest.mark.soak
def test_a_quarter_of_a_million(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures, began = [f"before: {memory()}"], time.perf_counter()
    Index.build_from(tmp_path / "index", many())
    figures.append(f"build: {time.perf_counter() - began:.0f} s, {memory()}")
    index, queries = Index.open(tmp_path / "index"), vectors_like(500, 999)
    entry = index.approximate["text"]
    assert entry.method == "ivf"
    assert entry.recall_at_50 is not None
    assert entry.recall_at_50 >= 0.95
    figures.append(f"{entry.method}, effort {entry.effort}, recall@50 {entry.recall_at_50} at build")
    index.search(queries[:1])
    began = time.perf_counter()
    found = index.search(queries)
    figures.append(f"search: {(time.perf_counter() - began) * 2:.2f} ms a query, {memory()}")
    began = time.perf_counter()
    exact = index.search(queries, exact=True)
    figures.append(f"exact: {(time.perf_counter() - began) * 2:.2f} ms a query, {memory()}")
    shared = [
        len({h.id for h in one} & {h.id for h in other}) for one, other in zip(found, exact, strict=True)
    ]
    recall = sum(shared) / (50 * len(exact))
    figures.append(f"recall@50 of 500 other queries: {recall:.4f}")
    with capsys.disabled():
        print("\n" + "\n".join(figures))
    assert recall >= 0.95


MEASURED = """
import resource, sys
import numpy as np
from dialeval.models.index import Index

def blocks(rows):
    chance = np.random.default_rng(1)
    for start in range(0, rows, 2000):
        ids = [f"d{one}" for one in range(start, start + 2000)]
        texts = [" ".join(map(str, row)) for row in chance.integers(0, 20_000, (2000, 60))]
        columns = {"text": chance.normal(size=(2000, 64)), "words": texts}
        yield ids, columns, [text.encode() * 3 for text in texts]

Index.build_from(sys.argv[1], blocks(int(sys.argv[2])))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.soak
def test_memory_of_a_build_stays_flat(tmp_path: Path) -> None:
    used = []
    for rows in (20_000, 160_000):
        command = [sys.executable, "-c", MEASURED, str(tmp_path / str(rows)), str(rows)]
        used.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    assert used[1] < 1.1 * used[0], used
