"""What drives workers of any kind: hand out shards, try three times, let the others go on."""

import errno
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from dialeval.errors import DialevalError
from dialeval.jobs.batch.shard_scores import failure, score_shard
from dialeval.models.batching import default_threads

TRIES = 3
_HOPELESS = 10  # shards given up, when none was ever finished: then it is not the shards
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Answer(NamedTuple):
    """What a worker says of a shard; `None` where it had none."""

    shard: int | None
    error: str | None = None
    hopeless: bool = False
    """Whether every other shard would fail as well: no room on the disk."""
    turns: int = 0

    def why(self) -> dict[str, str]:
        """Return the error for the log."""
        return {"why": self.error} if self.error else {}


class Crew(Protocol):
    """Workers that are given shards."""

    @property
    def free(self) -> int:
        """How many workers have nothing to do."""
        ...

    def hand(self, number: int) -> object:
        """Give a shard to a free worker; return who it is."""
        ...

    def wait(self) -> list[Answer]:
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


def answer(folder: str, number: int) -> Answer:
    """Score a shard and say how that went; never raises but for what ends a process."""
    try:
        done = score_shard(folder, number)
    except DialevalError as error:
        cause = error.__context__
        return Answer(number, str(error), isinstance(cause, OSError) and cause.errno in _NO_ROOM)
    except Exception as error:
        return Answer(number, failure(error))
    return Answer(number, turns=done["turns"])


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
    queue, tries, outcome, busy, absent = deque(numbers), Counter[int](), Outcome(), 0, 0
    while busy or (queue and outcome.stopped is None):
        while queue and crew.free and outcome.stopped is None:
            number = queue.popleft()
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
            note({"shard": found.shard, "try": tries[found.shard], "done": not found.error} | found.why())
            _take(found.shard, found, tries[found.shard], queue, outcome, watch)
    return outcome


def _take(
    shard: int, found: Answer, tries: int, queue: deque[int], outcome: Outcome, watch: Callable[[int], None]
) -> None:
    if found.error is None:
        outcome.done += 1
        outcome.turns += found.turns
        watch(found.turns)
    elif found.hopeless:
        outcome.stopped = found.error
    elif tries < TRIES:
        queue.append(shard)
    else:
        outcome.failed[shard] = found.error
        if not outcome.done and len(outcome.failed) >= _HOPELESS:
            outcome.stopped = f"the first {_HOPELESS} shards all failed, the last because: {found.error}"
