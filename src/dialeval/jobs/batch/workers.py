"""Workers of a batch: who hands out shards, tries three times and lets the others go on; and local processes.

`Crew` is workers of any kind; `LocalCrew` are processes on this machine, `ray_workers` has those of a
cluster. A local worker is a fresh Python process: no lock or thread is copied from the driver. The weights of
encoders are expanded once and mapped by all workers, so that the system holds them once; what the runtime
packs of them for its own use, each worker has for itself. A worker is told numbers of shards and answers in
lines of JSON. It ends when its driver does, whatever ended that.
"""

import contextlib
import errno
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, Self, cast

from dialeval.errors import DialevalError
from dialeval.jobs.batch.shard_scores import failure, score_shard
from dialeval.models.tokenization import default_threads
from dialeval.stores import is_address

TRIES = 3
_HOPELESS = 10  # shards given up, when none was ever finished: then it is not the shards
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_START = "from dialeval.jobs.batch.workers import serve; serve()"
_PATIENCE = 10  # seconds a worker has to put down what it holds


class ShardReport(NamedTuple):
    """The report of a worker on a shard; `None` where it had none."""

    shard: int | None
    error: str | None = None
    hopeless: bool = False
    """Whether every other shard would fail as well: no room on the disk."""
    turns: int = 0


class Crew(Protocol):
    """Workers that are given shards."""

    @property
    def free(self) -> int:
        """How many workers have nothing to do."""
        ...

    def hand(self, number: int) -> object:
        """Hand a shard to a free worker; return who it is."""
        ...

    def wait(self) -> list[ShardReport]:
        """Wait until something was finished or went wrong."""
        ...


@dataclass
class Outcome:
    """How the work went."""

    done: int = 0
    turns: int = 0
    failed: dict[int, str] = field(default_factory=dict)
    stopped: str | None = None
    """Why it was given up, if it was."""


def report_on(folder: str, number: int) -> ShardReport:
    """Score a shard and say how that went; never raises but for what ends a process."""
    try:
        done = score_shard(folder, number)
    except DialevalError as error:
        cause = error.__context__
        return ShardReport(number, str(error), isinstance(cause, OSError) and cause.errno in _NO_ROOM)
    except Exception as error:
        return ShardReport(number, failure(error))
    return ShardReport(number, turns=done["turns"])


def environment(workers: int) -> dict[str, str]:
    """Return the environment of a worker: its share of the cores, and no cache that others write to.

    A vector that another process computed in another batch differs in its last digits; bytes would, too.
    """
    share = max(1, default_threads() // workers)
    one_each = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, **one_each, "DIALEVAL_THREADS": str(share), "DIALEVAL_CACHE": ""}


def work_off(
    numbers: Iterable[int],
    crew: Crew,
    watch: Callable[[int], None],
    note: Callable[[dict[str, Any]], None],
) -> Outcome:
    """Have all shards scored; what fails is tried three times, last among what is left.

    Args:
        numbers: The shards.
        crew: Who does it.
        watch: Called with the turns of each shard that is done.
        note: Called with what happens, for the log.
    """
    waiting, tries, outcome, busy, absent = deque(numbers), Counter[int](), Outcome(), 0, 0
    while busy or (waiting and outcome.stopped is None):
        while waiting and crew.free and outcome.stopped is None:
            number = waiting.popleft()
            tries[number] += 1
            note({"shard": number, "try": tries[number], "begun": str(crew.hand(number))})
            busy += 1
        for found in crew.wait():
            if found.shard is None:
                absent = absent + 1 if found.error else 0
                if absent >= _HOPELESS:
                    outcome.stopped = f"no worker stays: {found.error}"
                continue
            busy -= 1
            why = {"why": found.error} if found.error else {}
            note({"shard": found.shard, "try": tries[found.shard], "done": not found.error, **why})
            if found.error is None:
                outcome.done += 1
                outcome.turns += found.turns
                watch(found.turns)
            elif found.hopeless:
                outcome.stopped = found.error
            elif tries[found.shard] < TRIES:
                waiting.append(found.shard)
            else:
                outcome.failed[found.shard] = found.error
                if not outcome.done and len(outcome.failed) >= _HOPELESS:
                    first = f"the first {_HOPELESS} shards all failed, the last because"
                    outcome.stopped = f"{first}: {found.error}"
    return outcome


# --- processes of this machine -----------------------------------------------------------------------------


class LocalCrew:
    """As many processes as were asked for; one that dies is replaced, and its shard comes back as failed."""

    def __init__(self, folder: str, workers: int) -> None:
        self._folder, self._environment = folder, environment(workers)
        self._shared = (
            Path(tempfile.gettempdir() if is_address(folder) else folder) / f".models-{os.getpid()}"
        )
        self._environment["DIALEVAL_SHARED"] = str(self._shared)
        self._heard: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
        self._shards: dict[int, int] = {}  # what each worker is at, by its process id
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        for _ in range(workers):
            self._hire()

    @property
    def free(self) -> int:
        """How many workers have nothing to do."""
        return len(self._workers) - len(self._shards)

    def hand(self, number: int) -> int:
        """Hand a shard to a free worker; return the worker's process id."""
        worker = next(one for pid, one in self._workers.items() if pid not in self._shards)
        self._shards[worker.pid] = number
        with contextlib.suppress(BrokenPipeError):  # it has died; `wait` will see that
            pipe = cast(IO[bytes], worker.stdin)
            pipe.write(f"{number}\n".encode())
            pipe.flush()
        return worker.pid

    def wait(self) -> list[ShardReport]:
        """Wait until something was finished or went wrong."""
        pid, line = self._heard.get()
        if line.endswith(b"\n"):
            self._shards.pop(pid)
            return [ShardReport(**json.loads(line))]
        worker = self._workers.pop(pid)
        _end(worker)
        self._hire()
        code = worker.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return [ShardReport(self._shards.pop(pid, None), f"its worker {how}")]

    def _hire(self) -> None:
        worker = subprocess.Popen(
            [sys.executable, "-c", _START, self._folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment,
        )
        self._workers[worker.pid] = worker
        threading.Thread(target=self._listen_to, args=(worker,), daemon=True).start()

    def _listen_to(self, worker: "subprocess.Popen[bytes]") -> None:
        """Pass on what a worker says, and nothing when it has gone."""
        with cast(IO[bytes], worker.stdout) as answers:
            for line in answers:
                self._heard.put((worker.pid, line))
        self._heard.put((worker.pid, b""))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers.values():
            worker.terminate()
        for worker in self._workers.values():
            _end(worker)
        shutil.rmtree(self._shared, ignore_errors=True)


def _end(worker: "subprocess.Popen[bytes]") -> None:
    """Wait for a worker that was told to end, and not for ever."""
    try:
        worker.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()
    with contextlib.suppress(BrokenPipeError):
        cast(IO[bytes], worker.stdin).close()


def serve() -> None:
    """Be a worker: score the shards whose numbers come in, until no more can come."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to answer
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    told, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    numbers: queue.SimpleQueue[int] = queue.SimpleQueue()

    def listen() -> None:
        for line in told:
            numbers.put(int(line))
        os._exit(0)  # the driver has gone: go too, in the middle of whatever it is

    threading.Thread(target=listen, daemon=True).start()
    while True:
        answers.write(json.dumps(report_on(sys.argv[1], numbers.get())._asdict()).encode() + b"\n")
        answers.flush()
