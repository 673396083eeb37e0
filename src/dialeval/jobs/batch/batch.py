"""Batches: large logs, scored in shards by any number of workers, and resumed after interruptions.

`prepare` makes a plan or checks an existing one; `Batch.run` scores the missing shards and writes the
summary.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dialeval.dialogues.formats import TurnColumns, known_formats
from dialeval.errors import UsageError
from dialeval.jobs import runs
from dialeval.jobs.batch.folder import LOG, SUMMARY, BatchFolder, absolute, done_name, input_files
from dialeval.jobs.batch.plan import TURNS, BatchPlan, check_plan, load_plan, make_plan, read_shard
from dialeval.jobs.batch.shard_scores import score_shard
from dialeval.jobs.batch.workers import BatchOutcome, Crew, LocalCrew, RayCrew, work_off
from dialeval.jobs.scoring import Summary, build_all, estimates
from dialeval.manifests import SUMS
from dialeval.metrics import DEFAULT_METRICS, signature_of
from dialeval.models.tokenization import default_threads
from dialeval.scores import Signature

On = Literal["local", "ray"]
Watch = Callable[[int], None]
_MOST_REASONS = 100  # that a summary lists; more are counted together


@dataclass
class Batch:
    """A planned batch, and its finished shards."""

    folder: BatchFolder
    plan: BatchPlan
    done: dict[int, dict[str, Any]]
    """The records of finished and intact shards."""
    note: Callable[[dict[str, Any]], None] = lambda event: None

    @property
    def missing(self) -> list[int]:
        """The numbers of the unfinished shards."""
        return [shard.number for shard in self.plan.shards if shard.number not in self.done]

    @property
    def turns_left(self) -> int:
        """The number of turns left to score."""
        return sum(self.plan.shards[number].turns for number in self.missing)

    def costs(self) -> list[str]:
        """Return cost estimates for the missing shards, of metrics that have some."""
        return estimates(
            lambda: (dialogue for number in self.missing for dialogue in read_shard(self.plan, number)),
            self.plan.metrics,
        )

    def run(
        self,
        on: On = "local",
        workers: int | None = None,
        address: str | None = None,
        watch: Watch = lambda turns: None,
    ) -> BatchOutcome:
        """Score the missing shards; when all are finished, write the summary and `_SUCCESS`.

        Args:
            on: `local` (processes) or `ray`.
            workers: Number of workers; by default one per core.
            address: Address of a Ray cluster; None for a local one.
        """
        missing, started, outcome = self.missing, time.monotonic(), BatchOutcome()
        if missing:
            self.folder.remove(runs.SUCCESS)
            with _crew(on, str(self.folder), workers, address, len(missing)) as crew:
                outcome = work_off(missing, crew, watch, self.note)
            self.done |= _finished(self.folder, missing)
        if not self.missing and (missing or None in map(self.folder.read, (runs.SUCCESS, SUMMARY))):
            speed = {"turns": outcome.turns, "seconds": round(time.monotonic() - started, 3)}
            self.folder.write_json(SUMMARY, self.summary(speed))
            self.folder.write(runs.SUCCESS, b"")
        return outcome

    def summed(self) -> Summary:
        """Return the sum of the records of all finished shards."""
        summary = Summary()
        summary.signatures = {source: Signature.parse(text) for source, text in self.plan.signatures.items()}
        for _, done in sorted(self.done.items()):
            summary.dialogues += done["dialogues"]
            summary.turns += done["turns"]
            summary.add_means(done["scores"])
            summary.input_notes.update(done["input_notes"])
            summary.dialogue_notes.update(done["dialogue_notes"])
            summary.unscored_notes.update(_counts(done["unscored"]))
            summary.score_notes.update(_counts(done["noted"]))
        return summary

    def summary(self, run: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the contents of `summary.json`: counts, means, reasons for unscored rows, and speed.

        Args:
            run: Turns and seconds of this run, without shards of earlier runs.
        """
        summed = self.summed()
        seconds = sum(done["seconds"] for done in self.done.values())
        speed: dict[str, Any] = {
            "worker_seconds": round(seconds, 3),
            "turns_per_worker_second": round(summed.turns / seconds, 1) if seconds else None,
            "peak_memory": max((done["peak_memory"] or 0 for done in self.done.values()), default=0) or None,
        }
        if run and run["turns"]:
            speed["last_run"] = run | {"turns_per_second": round(run["turns"] / max(run["seconds"], 1e-3), 1)}
        result = summed.to_dict(input=self.plan.input, shards=len(self.plan.shards), done=len(self.done))
        return result | {"unscored": _reasons(summed.unscored_notes), "speed": speed}


@contextmanager
def prepare(
    inputs: Sequence[str],
    metrics: Sequence[str],
    out: str,
    *,
    turns_per_shard: int = TURNS,
    format: str | None = None,
    columns: TurnColumns | None = None,
    watch: Watch | None = None,
) -> Iterator[Batch]:
    """Plan a batch or resume one, holding its lock.

    Args:
        inputs: Files, folders, globs, or addresses of an object store.
        out: The folder to write: a path or an address.
        format: The format of the inputs; by default detected.

    Raises:
        DataError: The folder holds another batch, or this one with another metric or input.
    """
    if format is not None and format not in known_formats():
        raise UsageError(f"no format {format!r}; known: {', '.join(known_formats())}")
    place, specs = absolute(out), list(metrics or DEFAULT_METRICS)
    signatures = _signatures(specs)
    folder = BatchFolder(place)
    _check_folder(folder)
    paths = input_files(inputs, place)
    reading: dict[str, Any] = {"format": format, "columns": columns}
    with folder.alone() as note:
        folder.clean()
        plan = load_plan(folder)
        if plan is None:
            name = ", ".join(inputs)
            plan = make_plan(
                paths, specs, signatures, name=name, turns_per_shard=turns_per_shard, watch=watch, **reading
            )
            plan.save(folder)
        else:
            check_plan(plan, paths, signatures, turns_per_shard, place=out, **reading)
        yield Batch(folder, plan, _finished(folder, range(len(plan.shards))), note)


def score_one(out: str, number: int, metrics: Sequence[str] = ()) -> dict[str, Any]:
    """Score one shard of a planned batch unless it is finished: a task of a job array.

    Args:
        out: The folder of the plan: a path or an address.
        metrics: By default those of the plan; others are refused.
    """
    folder = BatchFolder(absolute(out))
    plan = load_plan(folder)
    if metrics and plan is not None and plan.signatures != _signatures(metrics):
        raise UsageError(f"{out} was planned with {', '.join(plan.metrics)}: give the same metrics, or none")
    record = folder.finished(number)
    return record if record is not None else score_shard(out, number)


def _signatures(metrics: Sequence[str]) -> dict[str, str]:
    return {source: str(signature_of(metric)) for source, metric in build_all(metrics).items()}


def _check_folder(folder: BatchFolder) -> None:
    """Raise if a folder has other content, before anything is written to it."""
    if folder.stored:
        return
    root = Path(str(folder))
    if root.exists() and not root.is_dir():
        raise UsageError(f"{root} is a file: name a folder")
    paths = root.iterdir() if root.is_dir() else ()
    names = {path.name for path in paths if not path.name.startswith(".")}
    if names and runs.PARTS not in names and not names <= {runs.RUN, LOG, SUMS}:
        raise UsageError(f"{root} holds something else: name a new folder")


def _crew(
    on: str, folder: str, workers: int | None, address: str | None, shards: int
) -> AbstractContextManager[Crew]:
    if on == "ray":
        return RayCrew(folder, workers and min(workers, shards), address)
    return LocalCrew(folder, min(workers or default_threads(), shards))


def _finished(folder: BatchFolder, numbers: Sequence[int]) -> dict[int, dict[str, Any]]:
    names = folder.names()
    asked = [number for number in numbers if done_name(number) in names]
    return {number: done for number in asked if (done := folder.finished(number)) is not None}


def _counts(rows: list[list[Any]]) -> dict[Any, int]:
    return {tuple(key): count for *key, count in rows}


def _reasons(notes: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the reasons for unscored rows, most frequent first."""
    common = sorted(notes.items(), key=lambda item: (-item[1], item[0]))
    rows = [{"source": source, "note": note, "n": n} for (source, note), n in common[:_MOST_REASONS]]
    if rest := sum(n for _, n in common[_MOST_REASONS:]):
        rows.append({"source": None, "note": f"{len(common) - _MOST_REASONS} other reasons", "n": rest})
    return rows
