"""The service under load: errors, latency, and CPU time per turn as a ratio to `dialeval score`.

    python benchmarks/serving.py [--seconds 30] [--requests N] [--clients 1 8 64] [--metric turn-quality]

For each number of clients, `dialeval serve` answers them for a while on loopback; each sends one dialogue,
waits for its scores, and sends the next, over a connection that stays open. The clients are a process of
their own. Dialogues are the bundled examples with a number put to every turn, so that no text comes twice.
Then `dialeval score` scores the very dialogues that were answered, in a new process. CPU time is that of all
threads, user and system: of the server from `/proc` over that while, of `score` for the whole process less
that of one which scores a single dialogue (the start, and loading the model). Neither has a cache on disk.
"""

import argparse
import asyncio
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-c", "from dialeval.cli import main; main()"]
WANTED = 1.25


def endless(part: int) -> Iterator[dict[str, Any]]:
    """Yield dialogues of which no text comes twice, others for each part."""
    from dialeval.jobs.demo import example_dialogues

    examples, number = example_dialogues(), 0
    while True:
        for one in examples:
            number += 1
            turns = [{"role": t.speaker, "content": f"{t.text} {part}/{number}"} for t in one.turns]
            yield {"id": f"{one.id}-{part}-{number}", "messages": turns}


async def client(port: int, dialogues: Iterator[dict[str, Any]], until: float, seen: dict[str, Any]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < until and seen["left"]:
        seen["left"] -= 1
        one = next(dialogues)
        body = json.dumps({"dialogues": [one]}).encode()
        began = time.perf_counter()
        writer.write(
            b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        head = await reader.readuntil(b"\r\n\r\n")
        found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        answer = await reader.readexactly(int(found[1]) if found else 0)
        seen["times"].append(time.perf_counter() - began)
        if head.startswith(b"HTTP/1.1 200 ") and json.loads(answer)["dialogues"][0]["id"] == one["id"]:
            seen["dialogues"].append(one)
        else:
            seen["errors"] += 1
    writer.close()
    await writer.wait_closed()


async def load(port: int, clients: int, most: int, seconds: float, out: Path) -> None:
    dialogues, seen = endless(clients), {"times": [], "dialogues": [], "errors": 0, "left": most}
    next(dialogues)  # reads the examples, before the clock runs
    until = time.perf_counter() + seconds
    await asyncio.gather(*(client(port, dialogues, until, seen) for _ in range(clients)))
    with out.open("w") as file:
        file.writelines(json.dumps(one) + "\n" for one in seen["dialogues"])
    taken = time.perf_counter() - until + seconds
    print(json.dumps({"times": seen["times"], "errors": seen["errors"], "seconds": taken}))


def cpu_of(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_of_score(chats: Path, metric: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = chats.with_suffix(".parquet")
    subprocess.run([*COMMAND, "score", str(chats), "-m", metric, "-o", str(out)], check=True, **QUIET)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


QUIET: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def start(metric: str) -> tuple[subprocess.Popen[str], int]:
    server = subprocess.Popen(
        [*COMMAND, "serve", "-m", metric, "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    assert server.stderr
    for line in server.stderr:
        if found := re.search(r"at http://\S+?:(\d+) ", line):
            return server, int(found[1])
    raise SystemExit("the server did not start")


def measure(clients: int, seconds: float, most: int, metric: str, folder: Path, idle: float) -> bool:
    server, port = start(metric)
    chats = folder / f"{clients}.jsonl"
    try:
        before = cpu_of(server.pid)
        given = (port, clients, most, seconds, chats)
        asked = [sys.executable, __file__, "--load", *map(str, given)]
        done = subprocess.run(asked, check=True, capture_output=True, text=True)
        cpu = cpu_of(server.pid) - before
    finally:
        server.terminate()
        server.wait()
    seen = json.loads(done.stdout)
    turns = sum(len(json.loads(line)["messages"]) for line in chats.open())
    alone = cpu_of_score(chats, metric) - idle
    times = sorted(seen["times"])
    p50, p95 = (1000 * times[int(len(times) * part)] for part in (0.5, 0.95))
    ratio = cpu / alone
    print(
        f"{clients:3} clients: {len(times)} requests, {turns} turns, {turns / seen['seconds']:,.0f} turns/s, "
        f"{seen['errors']} errors, p50 {p50:.0f} ms, p95 {p95:.0f} ms; CPU per turn "
        f"{1000 * cpu / turns:.3f} ms, of score {1000 * alone / turns:.3f} ms, ratio {ratio:.2f}",
        flush=True,
    )
    return not seen["errors"] and ratio <= WANTED


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--metric", default="turn-quality")
    parser.add_argument("--requests", type=int, default=10**9, help="end after so many, too")
    parser.add_argument("--load", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.load:
        port, clients, most, seconds, out = given.load
        asyncio.run(load(int(port), int(clients), int(most), float(seconds), Path(out)))
        return
    os.environ.pop("DIALEVAL_CACHE", None)
    with tempfile.TemporaryDirectory() as place:
        one = Path(place) / "one.jsonl"
        one.write_text(json.dumps(next(endless(0))) + "\n")
        idle = min(cpu_of_score(one, given.metric) for _ in range(2))
        fine = [
            measure(count, given.seconds, given.requests, given.metric, Path(place), idle)
            for count in given.clients
        ]
    print(f"no error and a ratio of at most {WANTED} everywhere: {'yes' if all(fine) else 'no'}")


if __name__ == "__main__":
    main()
