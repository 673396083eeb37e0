"""Workers on Ray, the one home of that library: it places them and says when one has died; no more.

A worker is an actor: it loads models once and keeps them. How many machines there are is Ray's to say; a
worker that waits for one is given nothing until it is there.
"""

import os
import socket
from typing import Any, Self

from dialeval.errors import DataError, UsageError
from dialeval.jobs.batch.workers import ShardReport, environment, report_on
from dialeval.models.tokenization import default_threads

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
                fix="is it there, of this version, and its token in RAY_AUTH_TOKEN if it asks for one?",
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
        found, _ = self._ray.wait([*self._busy, *self._coming], num_returns=1)
        return [self._heard(one) for one in found]

    def _heard(self, one: Any) -> ShardReport:
        worker, name, shard = self._busy.pop(one, (None, "", None))
        if worker is None:
            worker = self._coming.pop(one)
        try:
            said = self._ray.get(one)
        except self._ray.exceptions.RayError as error:
            self._hire()
            return ShardReport(shard, f"its worker has died: {str(error).splitlines()[0]}")
        self._idle.append((worker, name or said))
        return ShardReport(None) if shard is None else ShardReport(*said)

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
