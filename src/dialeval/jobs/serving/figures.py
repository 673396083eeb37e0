"""What the service counts, in the text format that Prometheus reads."""

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dialeval import __version__

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_HELP = {
    "dialeval_requests_total": ("counter", "Requests answered, by route, method and status."),
    "dialeval_turns_scored_total": ("counter", "Turns of the dialogues that were scored."),
    "dialeval_dialogues_scored_total": ("counter", "Dialogues that were scored."),
    "dialeval_scores_total": ("counter", "Scores given, by source."),
    "dialeval_unscored_total": ("counter", "Units that a source could not score, by source."),
    "dialeval_passes_total": ("counter", "Passes of scoring; each takes what had gathered."),
    "dialeval_scoring_seconds_total": ("counter", "Seconds spent in passes of scoring."),
}


class Figures:
    """Counters, the length of the queue and how long answers take; safe to use from any thread.

    >>> figures = Figures(lambda: 0)
    >>> figures.count_request("/score", "POST", 200, 0.02)
    >>> [line for line in figures.text().splitlines() if line.startswith("dialeval_requests_total")]
    ['dialeval_requests_total{route="/score",method="POST",status="200"} 1']
    """

    def __init__(self, waiting: Callable[[], int]) -> None:
        self.waiting = waiting
        self._lock = threading.Lock()
        self._counts: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._times: dict[str, list[float]] = {}

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answer; routes and methods must be few."""
        labels = _labels(route=route, method=method, status=str(status))
        with self._lock:
            self._counts["dialeval_requests_total", labels] += 1
            times = self._times.setdefault(route, [0.0] * (len(BOUNDS) + 2))
            times[bisect_left(BOUNDS, seconds)] += 1
            times[-1] += seconds

    def count_pass(self, jobs: Iterable[Any], seconds: float) -> None:
        """Count what one pass of scoring gave."""
        with self._lock:
            self._counts["dialeval_passes_total", ""] += 1
            self._counts["dialeval_scoring_seconds_total", ""] += seconds
            for job in jobs:
                self._counts["dialeval_turns_scored_total", ""] += job.asked.turns
                self._counts["dialeval_dialogues_scored_total", ""] += len(job.asked.dialogues)
                for rows in job.rows.values():
                    for row in rows:
                        kind = "unscored" if row.value is None else "scores"
                        self._counts[f"dialeval_{kind}_total", _labels(source=row.source)] += 1

    def text(self) -> str:
        """Write all figures."""
        with self._lock:
            counts, times = dict(self._counts), {route: list(found) for route, found in self._times.items()}
        return "".join(line + "\n" for line in self._lines(counts, times))

    def _lines(self, counts: dict[tuple[str, str], float], times: dict[str, list[float]]) -> Iterator[str]:
        yield from _head("dialeval_info", "gauge", "The version that runs.")
        yield f"dialeval_info{_labels(version=__version__)} 1"
        yield from _head("dialeval_queue_requests", "gauge", "Requests that wait to be scored.")
        yield f"dialeval_queue_requests {self.waiting()}"
        for name, (kind, about) in _HELP.items():
            yield from _head(name, kind, about)
            found = {labels: value for (one, labels), value in counts.items() if one == name}
            if not found and not name.startswith(("dialeval_requests", "dialeval_scores", "dialeval_uns")):
                found = {"": 0.0}
            yield from (f"{name}{labels} {value:.15g}" for labels, value in found.items())
        name = "dialeval_request_seconds"
        yield from _head(name, "histogram", "Seconds from the first byte of a request to its answer.")
        for route, found_times in times.items():
            total = 0.0
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), found_times, strict=False):
                total += count
                yield f"{name}_bucket{_labels(route=route, le=bound)} {total:.15g}"
            yield f"{name}_sum{_labels(route=route)} {found_times[-1]:.15g}"
            yield f"{name}_count{_labels(route=route)} {total:.15g}"


def _head(name: str, kind: str, about: str) -> tuple[str, str]:
    return f"# HELP {name} {about}", f"# TYPE {name} {kind}"


def _labels(**given: str) -> str:
    r"""Write labels; quotes, backslashes and line breaks are escaped.

    >>> _labels(source='a"b')
    '{source="a\\"b"}'
    """
    escaped = {
        name: value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
        for name, value in given.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"
