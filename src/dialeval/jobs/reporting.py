"""Reports from end to end: read the dialogues once, then draw the findings of the study."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from dialeval import files, reports
from dialeval.dialogues import Dialogue
from dialeval.jobs import runs
from dialeval.metrics.explanation import Explanation
from dialeval.metrics.rules import Rules
from dialeval.reports.page import TITLE
from dialeval.scores import Scores
from dialeval.studies import Study, inspect, study


def write_report(
    study: Study,
    scores: Scores,
    dialogues: Iterable[Dialogue],
    path: str | Path,
    *,
    title: str = TITLE,
    illustrative: bool = False,
    explanations: Iterable[Explanation] = (),
) -> None:
    """Write a report: HTML, Markdown or LaTeX, by the ending of the name.

    Args:
        study: What was found.
        scores: The table the study was made from; bad turns are found by it, and turns coloured.
        dialogues: What was said. May be a stream of any length: it is read once, and only the dialogues that
            are shown are kept.
        path: Ends in `.html`, `.md` or `.tex`; in `.pdf`, `.svg` or `.png` it gets a figure.
        title: The heading.
        illustrative: Whether to mark all ratings as made up.
        explanations: Why dialogues got their scores, for the HTML page; read once, too.

    Raises:
        UsageError: If the name has another ending.
    """
    files.check_endings([Path(path)], reports.ENDINGS, "a report")
    inspection = inspect(study, scores, dialogues, Rules().score)
    explained = reports.explain(explanations, scores)
    reports.write_report(study, inspection, path, title=title, illustrative=illustrative, why=explained)


def report_run(
    path: str | Path,
    out: Sequence[Path] = (),
    *,
    title: str | None = None,
    say: Callable[[str], None] | None = None,
) -> list[Path]:
    """Report on a run folder and, where its study was made of several, on all of them.

    Args:
        out: The files to write; by default `report.html` in the folder.
        title: The heading; by default it names the input.
        say: Called with notes for the user.

    Returns:
        The files that were written.
    """
    files.check_endings(out, reports.ENDINGS, "a report")
    run = runs.Run(path)
    written = list(out) or [run.path / runs.REPORT]
    scores = run.scores()
    findings = run.study() or run.with_languages(study(scores), scores)
    parts, gone = run.together(findings)
    notes = [f"the run folder {folder} is missing: its dialogues are not shown" for folder in gone]
    for note in notes if say else ():
        say(note)  # type: ignore[misc]
    findings = replace(findings, notes=(*findings.notes, *notes))
    dialogues = chain.from_iterable(part.dialogues() for part in parts)
    inspection = inspect(findings, scores, dialogues, Rules().score)
    explained = reports.explain(chain.from_iterable(part.explanations() for part in parts), scores)
    title = title or f"dialeval report: {run.info().get('input') or run.path.name}"
    for file in written:
        reports.write_report(
            findings,
            inspection,
            file,
            title=title,
            illustrative=findings.illustrative,
            why=explained,
            trust=run.trust(),
        )
    return written
