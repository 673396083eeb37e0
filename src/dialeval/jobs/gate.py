"""A gate for releases: `dialeval check`, and the same as an assertion for pytest."""

from pathlib import Path
from typing import Any

from dialeval.jobs.runs import Run
from dialeval.scores import Scores
from dialeval.studies import Verdict, check


def check_runs(new: str | Path, against: str | Path, **options: Any) -> Verdict:
    """Compare two run folders or tables of scores; options are those of `dialeval.studies.check`."""
    return check(_scores(new), _scores(against), **options)


def _scores(path: str | Path) -> Scores:
    """Read a table, or everything a run folder knows: its own scores and the ratings joined to it."""
    return Run(path).scores() if Path(path).is_dir() else Scores.read(path)


def assert_no_drop(new: str | Path, against: str | Path, **options: Any) -> Verdict:
    """Fail a test if the new run is significantly worse than the old one.

        def test_the_bot_did_not_get_worse():
            dialeval.assert_no_drop("runs/new", against="runs/released", source="repetition")

    Args:
        new: A run folder or a table of scores.
        against: The one to hold it against.
        **options: `source`, `dimension`, `level` (turn or dialogue), `alpha`, `resamples`, `seed`.

    Raises:
        AssertionError: Naming each source that dropped, by how much, and the p-value.
    """
    verdict = check_runs(new, against, **options)
    if not verdict.passed:
        raise AssertionError("\n".join(describe(verdict)))
    return verdict


def describe(verdict: Verdict) -> list[str]:
    """Say in one line for each column what happened; p is Holm-corrected over the columns."""
    lines = []
    for one, p in zip(verdict.comparisons, verdict.adjusted, strict=True):
        kind = "paired" if one.paired else "unpaired"
        mark = "DROP" if one.label in verdict.worse else "ok"
        means = f"{_figure(one.second.value)} → {_figure(one.first.value)}"
        n = f"n={one.first.n}" if one.first.n == one.second.n else f"n={one.second.n} and {one.first.n}"
        lines.append(
            f"{mark:4} {one.label}: {means}, difference {_figure(one.difference.value)}, "
            f"p={_figure(p)} ({kind}, {n}, {verdict.level} level)"
        )
    return lines


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
