"""Workers of a batch: who hands out shards, tries three times and lets the others go on; and local processes.

`Crew` is workers of any kind; `LocalCrew` are processes on this machine, `RayCrew` actors of a cluster. A
local worker is a fresh Python process: no lock or thread is copied from the driver. The weights of encoders
are expanded once and mapped by all workers, so that the system holds them once; what the runtime packs of
them for its own use, each worker has for itself. A worker is told numbers of shards and answers in lines of
JSON. It ends with its driver, even if that is killed.
"""

import contextlib
import errno
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, Self, cast

from dialeval.errors import DataError, DialevalError, UsageError
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
    """True if every other shard would fail as well: no room on the disk."""
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
class BatchOutcome:
    """Counts, failures, and why the work stopped."""

    done: int = 0
    turns: int = 0
    failed: dict[int, str] = field(default_factory=dict)
    stopped: str | None = None
    """Why it was given up, if it was."""


def report_on(folder: str, number: int) -> ShardReport:
    """Score a shard and return a report; an exception becomes a report too."""
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
    numbers: Iterable[int], crew: Crew, watch: Callable[[int], None], note: Callable[[dict[str, Any]], None]
) -> BatchOutcome:
    """Have all shards scored; what fails is tried three times, last among what is left.

    Args:
        watch: Called with the turns of each shard that is done.
        note: Called with what happens, for the log.
    """
    waiting, tries, outcome, busy, absent = deque(numbers), Counter[int](), BatchOutcome(), 0, 0
    while busy or (waiting and outcome.stopped is None):
        while waiting and crew.free and outcome.stopped is None:
            number = waiting.popleft()
            tries[number] += 1
            note({"shard": number, "try": tries[number], "begun": str(crew.hand(number))})
            busy += 1
        for report in crew.wait():
            if report.shard is None:
                absent = absent + 1 if report.error else 0
                if absent >= _HOPELESS:
                    outcome.stopped = f"workers keep failing: {report.error}"
                continue
            busy -= 1
            reason = {"why": report.error} if report.error else {}
            note({"shard": report.shard, "try": tries[report.shard], "done": not report.error, **reason})
            if report.error is None:
                outcome.done += 1
                outcome.turns += report.turns
                watch(report.turns)
            elif report.hopeless:
                outcome.stopped = report.error
            elif tries[report.shard] < TRIES:
                waiting.append(report.shard)
            else:
                outcome.failed[report.shard] = report.error
                if not outcome.done and len(outcome.failed) >= _HOPELESS:
                    first = f"the first {_HOPELESS} shards all failed, the last because"
                    outcome.stopped = f"{first}: {report.error}"
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
        worker = next(process for pid, process in self._workers.items() if pid not in self._shards)
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
        ending = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return [ShardReport(self._shards.pop(pid, None), f"its worker {ending}")]

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
        """Pass on the messages of a worker; none after it has ended."""
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
    """Wait for a terminated worker, and kill it after a timeout."""
    try:
        worker.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()
    with contextlib.suppress(BrokenPipeError):
        cast(IO[bytes], worker.stdin).close()


def serve() -> None:
    """Run a worker: score the shards whose numbers arrive on standard input, until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to answer
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    numbers: queue.SimpleQueue[int] = queue.SimpleQueue()

    def listen() -> None:
        for line in requests:
            numbers.put(int(line))
        os._exit(0)  # the driver has gone: go too, in the middle of whatever it is

    threading.Thread(target=listen, daemon=True).start()
    while True:
        answers.write(json.dumps(report_on(sys.argv[1], numbers.get())._asdict()).encode() + b"\n")
        answers.flush()


# --- actors of a cluster: Ray places them and says when one has died; no more -------------------------------
# An actor loads models once and keeps them. How many machines there are is Ray's to say; a worker that waits
# for one is given nothing until it is there.

_NAMES = ("DIALEVAL_", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class ShardWorker:
    """The actor that runs on the other machine."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def ready(self) -> str:
        """Return its machine and process id, once it is there."""
        return f"{socket.gethostname()}:{os.getpid()}"

    def score(self, number: int) -> ShardReport:
        """Score a shard."""
        return report_on(self.folder, number)


class RayCrew:
    """Actors on the cluster at an address, or on one of this machine alone that ends with the batch."""

    def __init__(self, folder: str, workers: int | None, address: str | None) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # nothing goes out
        try:
            import ray
        except ImportError:
            raise UsageError("--on ray needs Ray: pip install 'dialeval[ray]'") from None
        self._ray: Any = ray
        self._folder, self._before = folder, dict(os.environ)
        options: dict[str, Any] = {"logging_level": "error", "log_to_driver": False}
        if address is None:
            workers = workers or default_threads()
            options |= {"include_dashboard": False, "num_cpus": workers}
            os.environ.update(_meant(environment(workers)))  # a cluster of our own has it from here
        try:
            self._ray.init(address=address or "local", **options)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise DataError(
                f"no Ray at {address or 'this machine'}: {str(error).splitlines()[0]}",
                fix="check that it runs this version of Ray, and set RAY_AUTH_TOKEN if it needs a token",
            ) from None
        placing: dict[str, Any] = {"num_cpus": 1}
        if address is not None:
            workers = workers or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
            placing["runtime_env"] = {"env_vars": _meant(environment(1)) | {"DIALEVAL_THREADS": "1"}}
        self._actor: Any = self._ray.remote(ShardWorker).options(**placing)
        self._coming: dict[Any, Any] = {}  # workers that wait for a machine, by the answer they owe
        self._idle: list[tuple[Any, str]] = []
        self._busy: dict[Any, tuple[Any, str, int]] = {}
        for _ in range(workers or 1):
            self._hire()

    @property
    def free(self) -> int:
        """How many workers are there and have nothing to do."""
        return len(self._idle)

    def hand(self, number: int) -> str:
        """Hand a shard to a free worker; return its machine and process id."""
        worker, name = self._idle.pop()
        self._busy[worker.score.remote(number)] = (worker, name, number)
        return name

    def wait(self) -> list[ShardReport]:
        """Wait until something was finished or went wrong."""
        finished, _ = self._ray.wait([*self._busy, *self._coming], num_returns=1)
        return [self._heard(answer) for answer in finished]

    def _heard(self, answer: Any) -> ShardReport:
        worker, name, shard = self._busy.pop(answer, (None, "", None))
        if worker is None:
            worker = self._coming.pop(answer)
        try:
            result = self._ray.get(answer)
        except self._ray.exceptions.RayError as error:
            self._hire()
            return ShardReport(shard, f"its worker has died: {str(error).splitlines()[0]}")
        self._idle.append((worker, name or result))
        return ShardReport(None) if shard is None else ShardReport(*result)

    def _hire(self) -> None:
        worker = self._actor.remote(self._folder)
        self._coming[worker.ready.remote()] = worker

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()
        os.environ.clear()
        os.environ.update(self._before)


def _meant(variables: dict[str, str]) -> dict[str, str]:
    """Keep the variables that concern a worker."""
    return {name: value for name, value in variables.items() if name.startswith(_NAMES)}
