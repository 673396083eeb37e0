"""Requests that wait at the same time are scored in one pass, by one thread, and taken apart again.

Each gets the scores it would get alone: dialogues do not see each other (promise R1). Requests that use one
id for different dialogues are scored one after the other, because some metrics look things up by id. A
dialogue that makes a metric fail is unscored with a note, and its neighbours are scored. A panic of a native
library fails its own request and no others. Nothing is scored for those who have gone.
`ServiceFigures` counts what was asked and scored, for Prometheus.
"""

import asyncio
import contextlib
import functools
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import prometheus_client as prometheus

from dialeval import __version__
from dialeval.dialogues import Dialogue
from dialeval.errors import DialevalError
from dialeval.jobs.scoring import score_each
from dialeval.jobs.serving.requests import Limits, ParsedRequest
from dialeval.scores import Score

_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_PART = 500  # turns between two looks at who still waits
_log = logging.getLogger("dialeval.serving")


class ScoringFailedError(Exception):
    """Scoring ended with an error that is no dialogue's own; the log has it."""


@dataclass(slots=True, eq=False)
class WaitingRequest:
    """A request that waits to be scored: what is asked, who is told, and the rows it gets."""

    asked: ParsedRequest
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[list[list[Score]]]"
    gone: bool = False
    rows: dict[str, list[Score]] = field(default_factory=dict)


class ServiceFigures:
    """Counters, the length of the queue and how long answers take; safe to use from any thread.

    >>> figures = ServiceFigures(lambda: 0)
    >>> figures.count_request("/score", "POST", 200, 0.02)
    >>> [line for line in figures.text().decode().splitlines() if line.startswith("dialeval_requests_total")]
    ['dialeval_requests_total{method="POST",route="/score",status="200"} 1.0']
    """

    def __init__(self, waiting: Callable[[], int]) -> None:
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # when each series began
        self.registry = prometheus.CollectorRegistry()
        info = prometheus.Gauge(
            "dialeval_info", "The version that runs.", ["version"], registry=self.registry
        )
        info.labels(__version__).set(1)
        queue = "Requests that wait to be scored."
        prometheus.Gauge("dialeval_queue_requests", queue, registry=self.registry).set_function(waiting)
        self._requests = self._counter(
            "requests", "Requests answered, by route, method and status.", "route", "method", "status"
        )
        self._turns = self._counter("turns_scored", "Turns of the dialogues that were scored.")
        self._dialogues = self._counter("dialogues_scored", "Dialogues that were scored.")
        self._scores = self._counter("scores", "Scores given, by source.", "source")
        self._unscored = self._counter(
            "unscored", "Units that a source could not score, by source.", "source"
        )
        self._passes = self._counter("passes", "Passes of scoring; each takes what had gathered.")
        self._scoring_seconds = self._counter("scoring_seconds", "Seconds spent in passes of scoring.")
        self._request_seconds = prometheus.Histogram(
            "dialeval_request_seconds",
            "Seconds from the first byte of a request to its answer.",
            ["route"],
            buckets=_BOUNDS,
            registry=self.registry,
        )

    def _counter(self, name: str, about: str, *labels: str) -> prometheus.Counter:
        """Make a counter; Prometheus shows it as `dialeval_<name>_total`."""
        return prometheus.Counter(f"dialeval_{name}", about, labels, registry=self.registry)

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answer; routes and methods must be few."""
        self._requests.labels(route, method, status).inc()
        self._request_seconds.labels(route).observe(seconds)

    def count_pass(self, jobs: Iterable[WaitingRequest], seconds: float) -> None:
        """Count what one pass of scoring gave."""
        self._passes.inc()
        self._scoring_seconds.inc(seconds)
        counts: Counter[tuple[str, bool]] = Counter()
        for job in jobs:
            self._turns.inc(job.asked.turns)
            self._dialogues.inc(len(job.asked.dialogues))
            counts.update((row.source, row.value is None) for rows in job.rows.values() for row in rows)
        for (source, is_unscored), count in counts.items():
            (self._unscored if is_unscored else self._scores).labels(source).inc(count)

    def text(self) -> bytes:
        """Return all figures in the format of `CONTENT_TYPE`."""
        return prometheus.generate_latest(self.registry)


CONTENT_TYPE = prometheus.CONTENT_TYPE_LATEST


class Batches:
    """The queue of requests and the thread that scores them."""

    def __init__(self, metrics: Mapping[str, Any], limits: Limits, figures: ServiceFigures) -> None:
        self.metrics, self.limits, self.figures = metrics, limits, figures
        self._waiting: deque[WaitingRequest] = deque()
        self._taken: list[WaitingRequest] = []  # into the last pass
        self._change = threading.Condition()
        self._ended = False
        self._began: float | None = None  # when the pass under way began
        self._failed = False  # whether a request of the last pass did
        self._thread = self._new_thread()

    def _new_thread(self) -> threading.Thread:
        return threading.Thread(target=self._run, name="scoring", daemon=True)

    def start(self) -> None:
        """Begin to score."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the requests that have a waiting client, then end; abandoned passes are not awaited."""
        with self._change:
            self._ended = True
            self._change.notify_all()
            self._change.wait_for(lambda: all(job.gone for job in (*self._waiting, *self._taken)))

    @property
    def is_scoring(self) -> bool:
        """Return whether a pass is under way, waited for or not."""
        return self._began is not None

    def trouble(self) -> str | None:
        """Return why no score can be made now, or None if one can."""
        began = self._began
        if not self._thread.is_alive():
            return "the scoring thread has ended"
        if self._failed:
            return "the last request could not be scored"
        if began is not None and time.perf_counter() - began > self.limits.seconds:
            return f"one pass of scoring takes longer than {self.limits.seconds:g} seconds"
        return None

    def __len__(self) -> int:
        return len(self._waiting)

    async def score(self, asked: ParsedRequest) -> list[list[Score]] | None:
        """Wait for the rows of each dialogue; None if too many others wait already.

        A caller who does not wait to the end (cancelled, out of time) leaves the queue, and is not scored
        for, if it can still be helped.

        Raises:
            ScoringFailedError: Scoring ended with an error that is no dialogue's own.
        """
        loop = asyncio.get_running_loop()
        job = WaitingRequest(asked, loop, loop.create_future())
        with self._change:
            if len(self._waiting) >= self.limits.waiting:
                return None
            self._waiting.append(job)
            self._change.notify_all()
            if not self._thread.is_alive() and not self._ended:
                self._thread = self._new_thread()
                self._thread.start()
        try:
            return await job.done
        finally:
            job.gone = True
            with self._change, contextlib.suppress(ValueError):
                self._change.notify_all()
                self._waiting.remove(job)

    def _run(self) -> None:
        while jobs := self._take():
            began = self._began = time.perf_counter()
            failed = self._attempt(jobs)
            self._began, self._failed = None, bool(failed)
            self.figures.count_pass(jobs, time.perf_counter() - began)
            jobs[0].loop.call_soon_threadsafe(_tell, jobs, failed)

    def _attempt(self, jobs: list[WaitingRequest]) -> list[WaitingRequest]:
        """Score requests, each alone where all together fail, and return those that failed."""
        try:
            score_together(jobs, self.metrics)
        except BaseException as error:  # also a native panic: the thread must outlive it
            if len(jobs) > 1:
                return [bad for job in jobs for bad in self._attempt([job])]
            _log.error("a request could not be scored", exc_info=error)
            return jobs
        return []

    def _take(self) -> list[WaitingRequest]:
        """Wait for requests and take those that fit into one pass, at least one; none at the end."""
        with self._change:
            while True:
                jobs, turns = list[WaitingRequest](), 0
                while self._waiting:
                    job = self._waiting[0]
                    if jobs and turns + job.asked.turns > self.limits.together:
                        break
                    self._waiting.popleft()
                    if not job.gone:
                        jobs.append(job)
                        turns += job.asked.turns
                if jobs or self._ended:
                    self._taken = jobs
                    return jobs
                self._change.wait()


def _tell(jobs: Sequence[WaitingRequest], failed: Collection[WaitingRequest]) -> None:
    for job in jobs:
        if job.done.done():
            continue
        if job in failed:
            job.done.set_exception(ScoringFailedError())
        else:
            job.done.set_result([job.rows[dialogue.id] for dialogue in job.asked.dialogues])


def score_together(jobs: Sequence[WaitingRequest], metrics: Mapping[str, Any]) -> None:
    """Score all dialogues of some requests and give each request its rows, source after source."""
    for job in jobs:
        job.rows = {dialogue.id: [] for dialogue in job.asked.dialogues}
    for group in _without_clashes(jobs):
        for source, metric in metrics.items():
            for part in _parts(job for job in group if source in job.asked.sources):
                homes = {dialogue.id: job.rows[dialogue.id] for job, dialogue in part if not job.gone}
                asked = [dialogue for _, dialogue in part if dialogue.id in homes]
                for table in score_each(source, metric, asked, functools.partial(_note, metric)):
                    for row in table:
                        homes[row.dialogue_id].append(row)


def _parts(jobs: Iterable[WaitingRequest]) -> Iterator[list[tuple[WaitingRequest, Dialogue]]]:
    """Cut the dialogues of requests into parts of about `_PART` turns."""
    part, turns = list[tuple[WaitingRequest, Dialogue]](), 0
    for job in jobs:
        for dialogue in job.asked.dialogues:
            part.append((job, dialogue))
            turns += len(dialogue.turns)
            if turns >= _PART:
                yield part
                part, turns = [], 0
    yield part


def _without_clashes(jobs: Sequence[WaitingRequest]) -> Iterator[list[WaitingRequest]]:
    """Cut requests into groups within which every id is used once."""
    rest = list(jobs)
    while rest:
        taken, later, names = list[WaitingRequest](), list[WaitingRequest](), set[str]()
        for job in rest:
            if names.isdisjoint(job.rows):
                names.update(job.rows)
                taken.append(job)
            else:
                later.append(job)
        yield taken
        rest = later


def _note(metric: Any, error: Exception) -> str:
    """Return why a dialogue is unscored: the message of an error of dialeval, only the type of any other."""
    if isinstance(error, DialevalError):
        return str(error)
    _log.warning("%s failed on a dialogue", metric.name, exc_info=error)
    return f"{metric.name} failed: {type(error).__name__}"
