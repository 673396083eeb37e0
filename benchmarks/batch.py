"""A large log through `dialeval batch`: memory, turns a second with one worker and with two, cost per turn.

    python benchmarks/batch.py [--turns 1000000] [--workers 2] [--speed-turns 100000] [--per-shard 25000]
                               [--metric turn-quality --metric coherence] [--folder FOLDER]

The log is real dialogues (DSTC9, ConvAI2 and DailyDialog, from `$DIALEVAL_DATA`; without it the bundled
examples), repeated as often as needed. In every repetition each turn is edited, two words swapped and a
number put in, so that no vector is in a cache because the same text was read before.

*memory*: all turns, by `--workers`. The most that a worker held up to the first tenth of the shards and up to
the last; the promise is ±10 %, and less than 1.5 GB. The driver's own, too: it reads the log to plan.

*cost*: processor time of a turn in the first tenth of the shards and in the last tenth.

*speed*: `--speed-turns` turns by one worker and by two, wall clock without planning, models loaded in it. One
core each (`DIALEVAL_THREADS`); the promise is 1.7 times as fast where two cores are free.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from dialeval.dialogues import Dialogue
from dialeval.dialogues.formats import write

START = """
import atexit
from dialeval.cli import main
from dialeval.jobs.batch.shard_scores import peak_memory
atexit.register(lambda: print(peak_memory()))
main()
"""
SETS = ("dstc9", "convai2", "dailydialog")


def real_dialogues() -> list[Dialogue]:
    from dialeval.dialogues.datasets import public_set
    from dialeval.errors import DialevalError
    from dialeval.jobs.demo import example_dialogues

    found: list[Dialogue] = []
    for name in SETS:
        try:
            found += list(public_set(name).dialogues())[:3000]
        except DialevalError:
            print(f"{name} is not here")
    return found or example_dialogues()


def edited(text: str, chance: random.Random, number: int) -> str:
    words = text.split()
    if len(words) > 2:
        place = chance.randrange(len(words) - 1)
        words[place], words[place + 1] = words[place + 1], words[place]
    return " ".join([*words, str(number)])


def log_of(turns: int) -> Iterator[Dialogue]:
    real, chance, made, number = real_dialogues(), random.Random(0), 0, 0
    while made < turns:
        one = real[number % len(real)]
        said = tuple(
            msgspec.structs.replace(turn, text=edited(turn.text, chance, chance.randrange(10**6)), meta={})
            for turn in one.turns
        )
        yield Dialogue(f"{number}", said, one.system)
        made += len(said)
        number += 1


def batch(log: Path, out: Path, metrics: list[str], workers: int, per_shard: int) -> dict[str, Any]:
    words = [
        "batch",
        str(log),
        "-o",
        str(out),
        "--workers",
        str(workers),
        "--turns-per-shard",
        str(per_shard),
    ]
    words += [word for metric in metrics for word in ("-m", metric)]
    environment = {**os.environ, "DIALEVAL_THREADS": str(workers)}  # all workers together: one core each
    start = [sys.executable, "-c", START]
    began = time.perf_counter()
    done = subprocess.run(
        [*start, *words, "--plan-only", "--quiet"], check=True, env=environment, stdout=subprocess.PIPE
    )
    planned = time.perf_counter() - began
    subprocess.run([*start, *words, "--quiet"], check=True, env=environment, stdout=subprocess.DEVNULL)
    shards = [json.loads(path.read_text()) for path in sorted((out / "done").glob("*.json"))]
    summary = json.loads((out / "summary.json").read_text())
    return {"planned": planned, "driver": int(done.stdout), "shards": shards, "speed": summary["speed"]}


def show_memory(found: dict[str, Any]) -> None:
    shards = found["shards"]
    tenth = max(1, len(shards) // 10)
    early, late = (max(one["peak_memory"] for one in some) for some in (shards[:tenth], shards))
    turns = [sum(one["turns"] for one in some) for some in (shards[:tenth], shards)]
    print(f"planned {turns[1]:,} turns in {found['planned']:.1f} s, driver {found['driver'] / 1e6:.0f} MB")
    print(
        f"worker's peak memory: {early / 1e6:.0f} MB at {turns[0]:,} turns, "
        f"{late / 1e6:.0f} MB at {turns[1]:,} ({100 * (late / early - 1):+.1f} %)"
    )
    costs = [
        1e3 * sum(one["processor_seconds"] for one in some) / sum(one["turns"] for one in some)
        for some in (shards[:tenth], shards[-tenth:], shards)
    ]
    print(f"cost of a turn: {costs[0]:.3f} ms first tenth, {costs[1]:.3f} ms last, {costs[2]:.3f} ms all")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=1_000_000)
    parser.add_argument("--speed-turns", type=int, default=100_000)
    parser.add_argument("--per-shard", type=int, default=25_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--metric", action="append")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    metrics = options.metric or ["turn-quality", "coherence"]
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        if options.turns:
            write(log_of(options.turns), folder / "log.jsonl")
            made = batch(folder / "log.jsonl", folder / "out", metrics, options.workers, options.per_shard)
            show_memory(made)
        write(log_of(options.speed_turns), folder / "short.jsonl")
        rates = []
        for workers in (1, 2):
            per_shard = min(options.per_shard, options.speed_turns // 8)
            found = batch(folder / "short.jsonl", folder / f"out{workers}", metrics, workers, per_shard)
            rates.append(found["speed"]["last_run"]["turns_per_second"])
            print(f"{workers} worker{'s' * (workers > 1)}: {rates[-1]:,.0f} turns a second")
        print(f"two against one: {rates[1] / rates[0]:.2f} times as fast")


if __name__ == "__main__":
    main()
