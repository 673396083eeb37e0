"""`write_report`: a study as a file, by the ending of its name."""

from collections.abc import Iterable
from pathlib import Path

from dialeval import files
from dialeval.dialogues import Dialogue
from dialeval.errors import UsageError
from dialeval.metrics.explanation import Explanation
from dialeval.reports.latex import to_latex
from dialeval.reports.markdown import to_markdown
from dialeval.reports.page import to_html
from dialeval.reports.triage import triage
from dialeval.scores import Scores
from dialeval.studies import Study

TITLE = "Dialogue evaluation report"
ENDINGS = (".html", ".md", ".tex")


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
        scores: The table the study was made from; figures and turn colours come from it.
        dialogues: What was said. May be a stream of any length: it is read once, and only the dialogues that
            are shown are kept.
        path: Ends in `.html`, `.md` or `.tex`.
        title: The heading.
        illustrative: Say wherever ratings are shown that they only show what the tools do.
        explanations: Why dialogues got their scores, for the HTML page; read once, too.

    Raises:
        UsageError: If the name has another ending.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".html":
        text = to_html(
            study, scores, dialogues, title=title, illustrative=illustrative, explanations=explanations
        )
    elif suffix in (".md", ".tex"):
        write = to_markdown if suffix == ".md" else to_latex
        text = write(study, title=title, illustrative=illustrative, triage=triage(scores, dialogues))
    else:
        raise UsageError(f"cannot write a report to {str(path)!r}: the name must end in {', '.join(ENDINGS)}")
    files.write_text(path, text)
