"""Repeated runs of tasks: which dialogues are runs of one task, and how often one or all of k succeed."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from dialeval.errors import UsageError
from dialeval.jobs.runs import Run, study_input
from dialeval.scores import is_human
from dialeval.statistics.repeats import PassRate, pass_rates
from dialeval.studies.units import align, with_systems


def repeated_runs(
    paths: Sequence[Path],
    maps: Iterable[str],
    ks: Sequence[int],
    *,
    source: str | None = None,
    dimension: str | None = None,
    passes: float | None = None,
    task: str | None = None,
    confidence: float = 0.95,
) -> dict[str, list[PassRate]]:
    """Estimate pass@k and pass^k of every system.

    Args:
        paths: Run folders and tables.
        maps: Foreign columns in `--map` notation.
        ks: Numbers of runs.
        source: Whose scores.
        dimension: Which of them.
        passes: A score from here on is a success.
        task: Meta field that names the task; by default the dialogue's id before its last `#`.
        confidence: Of the intervals, which are over tasks.
    """
    if not ks:
        raise UsageError("-k takes numbers of runs: -k 1,2,4")
    given = study_input(paths, maps)
    units = align(with_systems(given.scores), "dialogue")
    named = units.labels()
    columns = [
        column
        for column in named
        if (source in (column.source, named[column]) if source else not is_human(column.source))
        and dimension in (None, column.dimension)
    ]
    if len(columns) != 1:
        there = ", ".join(f"{c.source}/{c.dimension}" for c in named)
        raise UsageError(f"--source and --dimension must name one column; there are: {there}")
    values = units.columns[columns[0]]
    if passes is not None:
        values = np.where(np.isnan(values), np.nan, values >= passes)
    tasks = _tasks(given.run, task)
    names = np.array([tasks.get(key.dialogue_id) or _before_mark(key.dialogue_id) for key in units.keys])
    parts = units.by_system() or {"all": np.arange(len(units))}
    return {name: pass_rates(values[own], names[own], ks, confidence) for name, own in parts.items()}


def _before_mark(name: str) -> str:
    return name.rpartition("#")[0] or name


def _tasks(run: Run | None, field: str | None) -> dict[str, str]:
    if field is None:
        return {}
    if run is None:
        raise UsageError("--task names a meta field of dialogues: give a run folder")
    found = {one.id: str(one.meta[field]) for one in run.dialogues() if field in one.meta}
    if not found:
        raise UsageError(f"no dialogue has a field {field!r} in its meta")
    return found
