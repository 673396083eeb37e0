"""Requests that wait at the same time are scored in one pass, by one thread, and taken apart again.

Each gets the scores it would get alone: dialogues do not see each other (promise R1). Requests that use one
id for different dialogues are scored one after the other, because some metrics look things up by id. A
dialogue that makes a metric fail is unscored with a note, and its neighbours are scored.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dialeval.dialogues import Dialogue
from dialeval.errors import DialevalError
from dialeval.jobs.serving.figures import Figures
from dialeval.jobs.serving.limits import Limits
from dialeval.jobs.serving.requests import Asked
from dialeval.scores import Score

_log = logging.getLogger("dialeval.serving")


@dataclass(slots=True)
class Job:
    """A request that waits: what is asked, and who is told."""

    asked: Asked
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[list[list[Score]]]"
    gone: bool = False
    rows: dict[str, list[Score]] = field(default_factory=dict)


class Batches:
    """The queue of requests and the thread that scores them."""

    def __init__(self, metrics: Mapping[str, Any], limits: Limits, figures: Figures) -> None:
        self.metrics, self.limits, self.figures = metrics, limits, figures
        self._waiting: deque[Job] = deque()
        self._change = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="scoring", daemon=True)

    def start(self) -> None:
        """Begin to score."""
        self._thread.start()

    def stop(self) -> None:
        """Score what was accepted, then end."""
        with self._change:
            self._ended = True
            self._change.notify()
        self._thread.join()

    def __len__(self) -> int:
        return len(self._waiting)

    async def score(self, asked: Asked) -> list[list[Score]] | None:
        """Wait for the rows of each dialogue; None if too many others wait already.

        A caller who does not wait to the end (cancelled, out of time) is not scored for, if it can still be
        helped.
        """
        loop = asyncio.get_running_loop()
        job = Job(asked, loop, loop.create_future())
        with self._change:
            if len(self._waiting) >= self.limits.waiting:
                return None
            self._waiting.append(job)
            self._change.notify()
        try:
            return await job.done
        finally:
            job.gone = True

    def _run(self) -> None:
        while jobs := self._take():
            began, failure = time.perf_counter(), None
            try:
                score_together(jobs, self.metrics)
            except Exception as error:  # a bug: whoever waits is told, and the next ones are scored
                failure = error
            self.figures.count_pass(jobs, time.perf_counter() - began)
            jobs[0].loop.call_soon_threadsafe(_tell, jobs, failure)

    def _take(self) -> list[Job]:
        """Wait for requests and take those that fit into one pass, at least one; none at the end."""
        with self._change:
            while True:
                jobs, turns = list[Job](), 0
                while self._waiting:
                    job = self._waiting[0]
                    if jobs and turns + job.asked.turns > self.limits.together:
                        break
                    self._waiting.popleft()
                    if not job.gone:
                        jobs.append(job)
                        turns += job.asked.turns
                if jobs or self._ended:
                    return jobs
                self._change.wait()


def _tell(jobs: Sequence[Job], failure: Exception | None) -> None:
    for job in jobs:
        if job.done.done():
            continue
        if failure:
            job.done.set_exception(failure)
        else:
            job.done.set_result([job.rows[one.id] for one in job.asked.dialogues])


def score_together(jobs: Sequence[Job], metrics: Mapping[str, Any]) -> None:
    """Score all dialogues of some requests and give each request its rows, source after source."""
    for job in jobs:
        job.rows = {one.id: [] for one in job.asked.dialogues}
    for some in _without_clashes(jobs):
        for source, made in metrics.items():
            asking = [job for job in some if source in job.asked.sources]
            homes = {one.id: job.rows[one.id] for job in asking for one in job.asked.dialogues}
            for row in score_each(source, made, [one for job in asking for one in job.asked.dialogues]):
                homes[row.dialogue_id].append(row)


def _without_clashes(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Cut requests into groups within which every id is used once."""
    rest = list(jobs)
    while rest:
        taken, later, names = list[Job](), list[Job](), set[str]()
        for job in rest:
            if names.isdisjoint(job.rows):
                names.update(job.rows)
                taken.append(job)
            else:
                later.append(job)
        yield taken
        rest = later


def score_each(source: str, made: Any, dialogues: Sequence[Dialogue]) -> list[Score]:
    """Score dialogues with one metric; one that it fails on is unscored, and the others are not.

    Where all of them together fail, halves are tried, so that a thousand dialogues with one bad one among
    them cost about twenty passes.
    """
    if not dialogues:
        return []
    try:
        return list(made.score(dialogues).renamed(source))
    except Exception as error:
        if len(dialogues) > 1:
            half = len(dialogues) // 2
            return [*score_each(source, made, dialogues[:half]), *score_each(source, made, dialogues[half:])]
        one = dialogues[0]
        known = isinstance(error, DialevalError)
        note = str(error) if known else f"{made.name} failed: {type(error).__name__}"
        if not known:
            _log.warning("%s failed on a dialogue", made.name, exc_info=error)
        return [
            Score(one.id, None, one.system, source, dimension, None, note) for dimension in made.dimensions
        ]
