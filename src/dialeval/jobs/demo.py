"""The bundled examples: a demo with everything that needs no other file, and golden scores.

Golden scores are the scores of every shipped metric on the examples, recomputed on your machine. A metric's
numbers may change only under a new version name; `dialeval verify` is how that is known.
"""

import json
from collections.abc import Callable, Container
from importlib.resources import as_file
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from dialeval import __version__, files
from dialeval.dialogues import Dialogue, formats
from dialeval.dialogues.tasks import SHIPPED
from dialeval.errors import DataError, UsageError
from dialeval.jobs import runs
from dialeval.jobs.reporting import report_run
from dialeval.jobs.scoring import score_to
from dialeval.metrics import build
from dialeval.metrics.registry import metric_class, parse_spec
from dialeval.scores import Scores, Signature
from dialeval.studies import Study, study

METRICS = (
    "quality",
    "faults",
    "floweval:corpus=examples",
    "similarity",
    "repetition",
    "length",
    "turns",
    "bertscore",
    "bleu",
    "chrf",
)
_INPUT = "bundled examples"
TITLE = "Three imaginary bots"


def example_dialogues() -> list[Dialogue]:
    """Return the sixty dialogues of our own writing that come with the package."""
    with as_file(resources("dialeval.dialogues") / "examples" / "dialogues.jsonl") as path:
        return list(formats.read(path))


def example_predictions() -> list[Dialogue]:
    """Return what an imaginary bot replied to the goals of the task `example`, awkward parts included."""
    return list(formats.read(SHIPPED["example"].with_name("predictions.json")))


def example_ratings() -> Scores:
    """Return the invented ratings that go with them: illustrations, not measurements."""
    with as_file(resources("dialeval.dialogues") / "examples" / "ratings.csv") as path:
        ratings = Scores.read(path)
    signature = Signature.of("ratings.v1", {"set": "examples", "illustrative": True, "dialeval": __version__})
    return Scores(ratings.table, dict.fromkeys(ratings.sources, signature))


def run_demo(out: str | Path, watch: Callable[[str], None] | None = None) -> Study:
    """Write a run folder with scores, study and report of the bundled examples.

    Args:
        out: The folder; an earlier demo there is replaced.
        watch: Called with the name of each step.
    """
    say = watch or (lambda _: None)
    if runs.is_run(out) and runs.Run(out).info().get("input") != _INPUT:
        raise UsageError(f"{out} is a run of your own: choose another name for the demo")
    say("scoring")
    score_to(example_dialogues(), METRICS, out, name=_INPUT, overwrite=True, explain=True)
    run, ratings = runs.Run(out), example_ratings()
    ratings.write(run.path / "ratings.csv")
    say("studying")
    findings = study(Scores.concat([run.own_scores(), ratings]), by="system")
    findings = run.add(findings, ratings)
    say("reporting")
    report_run(out, title=TITLE)
    return findings


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


# --- golden scores ------------------------------------------------------------------------------------------


def golden_path() -> Path:
    """Return where the golden scores are kept in the package."""
    return Path(str(resources("dialeval.jobs") / "golden.json"))


def recompute(skip: Container[str] = ()) -> Golden:
    """Score the bundled examples with every shipped metric at its defaults that is not known already."""
    dialogues = example_dialogues()
    metrics = {name: build(spec) for spec in ALL if (name := _golden_name(spec)) not in skip}
    scores: Golden = {}
    for name, metric in metrics.items():
        more = example_predictions() if name.startswith("multiwoz") else []
        scores[name] = {
            f"{row.dialogue_id}/{'-' if row.turn is None else row.turn}/{row.dimension}": row.note
            if row.value is None
            else round(row.value, DECIMALS)
            for row in metric.score([*dialogues, *more])
        }
    return scores


def _golden_name(spec: str) -> str:
    """Name a metric by its version, and by its alias where it has one.

    >>> _golden_name("length"), _golden_name("short=length")
    ('length.v1', 'length.v1/short')
    """
    source, name, _ = parse_spec(spec)
    version = str(metric_class(name).name)
    return version if source == name else f"{version}/{source}"


def verify() -> list[dict[str, Any]]:
    """Compare recomputed scores with the golden ones, one row a metric."""
    try:
        golden: Golden = json.loads(golden_path().read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise DataError(
            f"golden scores cannot be read: {error}", file=golden_path(), fix="install again"
        ) from None
    recomputed = recompute()
    rows = []
    for name in sorted({*golden, *recomputed}):
        expected, actual = golden.get(name, {}), recomputed.get(name, {})
        wrong = [
            unit for unit in {**expected, **actual} if not _close(unit, expected.get(unit), actual.get(unit))
        ]
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


def _close(unit: str, expected: object, actual: object) -> bool:
    """Compare scores of a unit; percentiles run from 0 to 100, and processors differ in the last digits."""
    if isinstance(expected, float | int) and isinstance(actual, float | int):
        scale = 100 if unit.endswith("/percentile") else 1
        return bool(abs(expected - actual) <= 1.01 * scale * 10**-DECIMALS)
    return expected == actual


def accept() -> list[str]:
    """Add golden scores of new metrics or versions; those of an existing version are never changed."""
    path = golden_path()
    golden: Golden = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    new = recompute(skip=golden)
    text = json.dumps({**golden, **new}, ensure_ascii=False, sort_keys=True, indent=0, allow_nan=False)
    files.write_text(path, text + "\n")
    return sorted(new)
