"""`dialeval reproduce`: a paper, table by table, beside what comes out here."""

from pathlib import Path
from typing import Annotated

import typer

from dialeval.cli import output
from dialeval.cli.options import Json, Threads
from dialeval.cli.places import check_places


def reproduce(
    paper: Annotated[
        str,
        typer.Argument(
            help="floweval, voted-appropriateness, next-user-sentiment or dialoguescore.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder of the pages; by default the paper's name.")
    ] = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Compute every table and figure of a paper from the data at hand; the same command again resumes.

    Writes page.html, page.md and rows.jsonl.

    Example: dialeval reproduce voted-appropriateness -o voted/
    """
    from collections import Counter
    from dataclasses import asdict

    from dialeval.jobs.reproduction import MARKS
    from dialeval.jobs.reproduction import reproduce as job

    folder = out or Path(paper)
    check_places("reproduce", {"out": folder})
    with output.progress("rows") as watch:
        done = job(paper, folder, watch=watch)
    marks = Counter(one.mark for one in done)
    if json:
        rows = [{**asdict(one.row), "ours": asdict(one.ours), "mark": one.mark} for one in done]
        output.print_json({"rows": rows, "marks": dict(marks)})
        return
    output.print_table("Marks", ("mark", "rows"), [(mark, marks[mark]) for mark in MARKS if marks[mark]])
    output.say(f"written: {folder / 'page.html'}, {folder / 'page.md'}")
