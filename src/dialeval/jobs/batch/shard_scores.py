"""`score_shard`: the one function behind every way to run a batch.

A process on this machine, a Ray worker, a task of a Slurm array and a Spark partition all call it with a
folder and a number. It needs nothing else, and whoever calls it, the bytes it writes are the same: it begins
with empty caches, so that no vector comes from a batch that another shard shared.
"""

import functools
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dialeval.dialogues import Dialogue
from dialeval.dialogues.feedback import feedback_scores
from dialeval.errors import DataError, DialevalError, UsageError
from dialeval.jobs.batch.folder import BatchFolder, absolute, done_name, part_name
from dialeval.jobs.batch.plan import load_plan, read_shard
from dialeval.jobs.scoring import Summary, build_all, score_each
from dialeval.manifests import FileRecord
from dialeval.metrics import chunks, needs_of, signature_of
from dialeval.models.cache import forget
from dialeval.models.needs import encode_ahead
from dialeval.scores import SCHEMA, Scores

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")
Metrics = dict[str, Any]


def score_shard(folder: str, number: int) -> dict[str, Any]:
    """Score one shard of a planned batch and write it; return its record.

    A dialogue that a metric fails on gets a row without a value for each dimension, whose note names the
    exception; the others are scored as if it were not there.

    Args:
        folder: Where the plan is and the scores go: a path or an address.

    Raises:
        DataError: The input or a metric is no longer what was planned, or nothing can be written.
    """
    place = BatchFolder(absolute(folder))
    plan = load_plan(place)
    if plan is None:
        raise UsageError(f"no plan in {folder}: make it first, dialeval batch … --plan-only")
    if not 0 <= number < len(plan.shards):
        raise UsageError(f"there is no shard {number}: the plan has 0 to {len(plan.shards) - 1}")
    started, worked = time.perf_counter(), time.process_time()
    metrics = _built(tuple(plan.metrics))
    signatures = {source: signature_of(metric) for source, metric in metrics.items()}
    for source, signature in signatures.items():
        if str(signature) != (planned := plan.signatures.get(source)):
            raise DataError(
                f"metric {source} differs here: planned {planned}, here {signature}",
                file=folder,
                fix="use the same version and models everywhere",
            )
    dialogues, summary = list(read_shard(plan, number)), Summary()
    table = Scores.concat([Scores.of([], signatures), *_scored(dialogues, metrics, summary)])
    data = Scores(table.table.cast(SCHEMA), signatures).to_parquet()
    done = _describe(number, data, len(table), summary) | {
        "seconds": round(time.perf_counter() - started, 3),
        "processor_seconds": round(time.process_time() - worked, 3),
        "peak_memory": peak_memory(),
    }
    place.write(part_name(number), data)
    place.write_json(done_name(number), done)
    return done


@functools.lru_cache(maxsize=1)
def _built(specs: tuple[str, ...]) -> Metrics:
    """Make the metrics, and have them load their models: what is missing is missing for all dialogues."""
    metrics = build_all(specs)
    needs_of(metrics.values())
    for metric in metrics.values():
        try:
            metric.score([])
        except DialevalError:
            raise
        except Exception:  # noqa: S110  # a metric that minds having nothing to do, and nothing more
            pass
    return metrics


def _scored(dialogues: Sequence[Dialogue], metrics: Metrics, summary: Summary) -> Iterator[Scores]:
    """Score all of a shard; a metric that fails on all of it is an error."""
    forget()
    needs, failed = needs_of(metrics.values()), dict[str, list[str]]()
    for chunk in chunks(dialogues):
        encode_ahead(chunk, needs)
        parts = [
            table
            for source, metric in metrics.items()
            for table in score_each(source, metric, chunk, functools.partial(_note, failed, source))
        ]
        scores = Scores.concat([*parts, feedback_scores(chunk)])
        summary.add(chunk, scores)
        yield scores
    for source, reasons in failed.items():
        if len(reasons) == len(dialogues) > 1:
            raise DataError(f"{source} fails on every dialogue: {reasons[0]}")


def _note(failed: dict[str, list[str]], source: str, error: Exception) -> str:
    failed.setdefault(source, []).append(failure(error))
    return failed[source][-1]


def failure(error: BaseException) -> str:
    """Return a note on what went wrong, the same way every time.

    >>> failure(ValueError("no such slot: <Slot at 0x7f3b>"))
    'ValueError: no such slot: <Slot at 0x…>'
    """
    message = " ".join(_ADDRESS.sub("0x…", str(error)).split())[:200]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _describe(number: int, data: bytes, rows: int, summary: Summary) -> dict[str, Any]:
    record = FileRecord.of(data)
    return {
        "shard": number,
        "bytes": record.size,
        "sha256": record.sha256,
        "rows": rows,
        "dialogues": summary.dialogues,
        "turns": summary.turns,
        "scores": summary.rows(),
        "unscored": [[*key, count] for key, count in sorted(summary.unscored_notes.items())],
        "noted": [[*key, count] for key, count in sorted(summary.score_notes.items())],
        "input_notes": dict(sorted(summary.input_notes.items())),
        "dialogue_notes": dict(sorted(summary.dialogue_notes.items())),
    }


def peak_memory() -> int | None:
    """Return the peak memory of this process in bytes, if the system reports it."""
    status = Path("/proc/self/status")
    if status.is_file():  # the other way also counts what a process was before it became this one
        match = re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(), re.MULTILINE)
        return int(match[1]) * 1024 if match else None
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
