"""Workers on this machine: processes that are told numbers of shards and answer when they are done.

A worker is a fresh Python process: no lock or thread is copied from the driver. The weights of encoders are
expanded once and mapped by all workers, so that the system holds them once; what the runtime packs of them
for its own use, each worker has for itself. What a worker is told and what it answers are lines of JSON. It
ends when its driver does, whatever ended that.
"""

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import IO, BinaryIO, Self, cast

from dialeval.jobs.batch.crews import Answer, answer, environment
from dialeval.stores import is_address

_START = "from dialeval.jobs.batch.local_workers import serve; serve()"
_PATIENCE = 10  # seconds a worker has to put down what it holds


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
        """Give a shard to a free worker; return the worker's process id."""
        worker = next(one for pid, one in self._workers.items() if pid not in self._shards)
        self._shards[worker.pid] = number
        with contextlib.suppress(BrokenPipeError):  # it has died; `wait` will see that
            pipe = cast(IO[bytes], worker.stdin)
            pipe.write(f"{number}\n".encode())
            pipe.flush()
        return worker.pid

    def wait(self) -> list[Answer]:
        """Wait until something was finished or went wrong."""
        pid, line = self._heard.get()
        if line.endswith(b"\n"):
            self._shards.pop(pid)
            return [Answer(**json.loads(line))]
        worker = self._workers.pop(pid)
        _end(worker)
        self._hire()
        code = worker.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return [Answer(self._shards.pop(pid, None), f"its worker {how}")]

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
    signal.signal(signal.SIGTERM, _leave)
    told, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    numbers: list[int] = []
    there = threading.Semaphore(0)
    threading.Thread(target=_listen, args=(told, numbers, there), daemon=True).start()
    while True:
        there.acquire()
        answers.write(json.dumps(answer(sys.argv[1], numbers.pop(0))._asdict()).encode() + b"\n")
        answers.flush()


def _listen(told: BinaryIO, numbers: list[int], there: threading.Semaphore) -> None:
    """Take in numbers; when the driver has gone, go too, in the middle of whatever it was."""
    for line in told:
        numbers.append(int(line))
        there.release()
    os._exit(0)


def _leave(signum: int, frame: FrameType | None) -> None:
    raise SystemExit(0)
