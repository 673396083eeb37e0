"""The demo: score the bundled examples with everything that needs no other file, study, report."""

from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path

from dialeval import __version__
from dialeval.dialogues import Dialogue, formats
from dialeval.dialogues.tasks import SHIPPED
from dialeval.errors import UsageError
from dialeval.jobs import runs
from dialeval.jobs.reporting import report_run
from dialeval.jobs.scoring import score_to
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
    with as_file(files("dialeval.dialogues") / "examples" / "dialogues.jsonl") as path:
        return list(formats.read(path))


def example_predictions() -> list[Dialogue]:
    """Return what an imaginary bot replied to the goals of the task `example`, awkward parts included."""
    return list(formats.read(SHIPPED["example"].with_name("predictions.json")))


def example_ratings() -> Scores:
    """Return the invented ratings that go with them: illustrations, not measurements."""
    with as_file(files("dialeval.dialogues") / "examples" / "ratings.csv") as path:
        ratings = Scores.read(path)
    made = Signature.of("ratings.v1", {"set": "examples", "illustrative": True, "dialeval": __version__})
    return Scores(ratings.table, dict.fromkeys(ratings.sources, made))


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
    found = study(Scores.concat([run.own_scores(), ratings]), by="system")
    found = run.add(found, ratings)
    say("reporting")
    report_run(out, title=TITLE)
    return found
