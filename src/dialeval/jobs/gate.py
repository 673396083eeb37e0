"""A gate for releases: `dialeval check`, and the same as an assertion for pytest."""

import warnings
from pathlib import Path
from typing import Any

from dialeval.jobs.comparing import read_scores
from dialeval.studies import Comparison, check
from dialeval.studies.comparison import ComparedColumn


def check_runs(new: str | Path, against: str | Path, **options: Any) -> Comparison:
    """Compare two run folders or tables of scores; options are those of `dialeval.studies.compare`."""
    return check(read_scores(new), read_scores(against), **options)


def assert_no_drop(
    new: str | Path, against: str | Path, *, fail_on_unscored: bool = False, **options: Any
) -> Comparison:
    """Fail a test if the new run is significantly worse than the old one.

    A significant rise of the share of unscored rows is a `UserWarning`, or a failure on request.

        def test_the_bot_did_not_get_worse():
            dialeval.assert_no_drop("runs/new", against="runs/released", source="repetition")

    Args:
        new: A run folder or a table of scores.
        against: The run to compare with.
        fail_on_unscored: Whether a significant rise of the share of unscored rows fails as well.
        **options: `source`, `dimension`, `level` (turn or dialogue), `alpha`, `resamples`, `seed`.

    Raises:
        AssertionError: Naming each source that dropped, by how much, and the p-value.
    """
    verdict = check_runs(new, against, **options)
    if not passes(verdict, fail_on_unscored=fail_on_unscored):
        raise AssertionError("\n".join(describe(verdict)))
    for line in describe_unscored(verdict):
        warnings.warn(line, stacklevel=2)
    return verdict


def passes(verdict: Comparison, *, fail_on_unscored: bool = False) -> bool:
    """Return whether nothing dropped and, on request, no share of unscored rows rose significantly."""
    return verdict.passed and not (fail_on_unscored and verdict.more_unscored)


def describe(verdict: Comparison) -> list[str]:
    """Return a line for each column, and one for each significant rise of unscored rows.

    The p-values are Holm-corrected over the columns.
    """
    return [
        f"{'DROP' if column.verdict == 'worse' else 'ok':4} {column.label}: {_figure(column.old.value)} → "
        f"{_figure(column.new.value)}, difference {_figure(column.difference.value)}, "
        f"p={_figure(column.p_holm)} ({_sample(column)}, {verdict.level} level)"
        for column in verdict.columns
    ] + describe_unscored(verdict)


def describe_unscored(verdict: Comparison) -> list[str]:
    """Return a line for each column whose share of unscored rows rose significantly."""
    return [
        f"WARN {column.label}: unscored rows {column.old.value:.1%} → {column.new.value:.1%}, "
        f"p={_figure(column.p_holm)} ({_sample(column)} rows)"
        for column in verdict.unscored
        if column.verdict == "worse"
    ]


def _sample(column: ComparedColumn) -> str:
    """Return whether items are paired, and how many there are on each side."""
    n = f"n={column.new.n}" if column.new.n == column.old.n else f"n={column.old.n} and {column.new.n}"
    return f"{'paired' if column.paired else 'unpaired'}, {n}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
