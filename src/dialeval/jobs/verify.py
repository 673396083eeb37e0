"""Golden scores: what every shipped metric says about the bundled examples, recomputed on your machine.

A metric's numbers may change only under a new version name; `dialeval verify` is how that is known.
"""

import json
from collections.abc import Container
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from dialeval import files
from dialeval.errors import DataError
from dialeval.jobs.demo import METRICS, example_dialogues, example_predictions
from dialeval.metrics import build
from dialeval.metrics.registry import metric_class, parse_spec
from dialeval.scores import Score

DECIMALS = 4
ALL = (
    *METRICS,
    "floweval-seg:corpus=examples",
    "consensus-bertscore:corpus=examples",
    "consensus:metric=chrf,corpus=examples",
    "rules",
    "agent",
    "goal",
    "outcome",
    "turn-quality",
    "user-reaction",
    "multiwoz:schema=example",
    "weak-agreement:votes=examples",
    "voted-appropriateness:votes=examples",
    "dialoguescore",
    "coherence",
    "student",
    "consensus=student:model=dialeval-consensus-student",
    "ruber",
    "bert-ruber",
    "pone",
    "predictive-engagement",
    "dynaeval",
    "flow-score",
)
"""The metrics of the demo, and those that would tell little there; a second model has an alias.

MultiWOZ's goals and tables do not come with the package, so `multiwoz` judges the task of our own that does:
the bundled dialogues have no goal in it and are unscored, its predictions are judged.
"""
ELSEWHERE = ("fed", "followup", "judge")
"""Metrics that need a language model, which does not come with the package: their figures depend on it."""
Golden = dict[str, dict[str, float | str | None]]


def golden_path() -> Path:
    """Return where the golden scores are kept in the package."""
    return Path(str(resources("dialeval.jobs") / "golden.json"))


def recompute(known: Container[str] = ()) -> Golden:
    """Score the bundled examples with every shipped metric at its defaults that is not known already."""
    dialogues = example_dialogues()
    metrics = {name: build(spec) for spec in ALL if (name := _golden_name(spec)) not in known}
    found: Golden = {}
    for name, made in metrics.items():
        more = example_predictions() if name.startswith("multiwoz") else []
        found[name] = {_unit(row): _figure(row) for row in made.score([*dialogues, *more])}
    return found


def _golden_name(spec: str) -> str:
    """Name a metric by its version, and by its alias where it has one.

    >>> _golden_name("length"), _golden_name("short=length")
    ('length.v1', 'length.v1/short')
    """
    source, name, _ = parse_spec(spec)
    version = str(metric_class(name).name)
    return version if source == name else f"{version}/{source}"


def _unit(row: Score) -> str:
    return f"{row.dialogue_id}/{'-' if row.turn is None else row.turn}/{row.dimension}"


def _figure(row: Score) -> float | str | None:
    return row.note if row.value is None else round(row.value, DECIMALS)


def verify() -> list[dict[str, Any]]:
    """Compare recomputed scores with the golden ones, one row a metric."""
    try:
        golden: Golden = json.loads(golden_path().read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise DataError(
            f"golden scores cannot be read: {error}", file=golden_path(), fix="install again"
        ) from None
    found = recompute()
    rows = []
    for name in sorted({*golden, *found}):
        expected, actual = golden.get(name, {}), found.get(name, {})
        wrong = [unit for unit in {**expected, **actual} if not _close(expected.get(unit), actual.get(unit))]
        gaps = [abs(a - b) for a, b in _pairs(expected, actual)]
        rows.append(
            {
                "metric": name,
                "n": len(expected),
                "differing": len(wrong),
                "first": min(wrong, default=None),
                "largest_difference": max(gaps, default=0.0),
            }
        )
    return rows


def _pairs(expected: dict[str, Any], actual: dict[str, Any]) -> list[tuple[float, float]]:
    shared = [(expected[unit], actual[unit]) for unit in expected if unit in actual]
    return [(a, b) for a, b in shared if isinstance(a, float | int) and isinstance(b, float | int)]


def _close(expected: object, actual: object) -> bool:
    if isinstance(expected, float | int) and isinstance(actual, float | int):
        return bool(abs(expected - actual) <= 1.01 * 10**-DECIMALS)
    return expected == actual


def accept() -> list[str]:
    """Add golden scores of new metrics or versions; those of an existing version are never changed."""
    path = golden_path()
    golden: Golden = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    new = recompute(known=golden)
    text = json.dumps({**golden, **new}, ensure_ascii=False, sort_keys=True, indent=0, allow_nan=False)
    files.write_text(path, text + "\n")
    return sorted(new)
