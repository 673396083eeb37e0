"""The run folder: dialogues, scores, signatures and findings of one run side by side.

run/
  dialogues.jsonl     what was scored, in canonical form
  scores.parquet      what the metrics said
  run.json            input, signatures, counts
  explanations.jsonl  why, where `score --explain` asked and the metric can say
  joined.parquet      ratings and foreign columns that `study` joined
  study.json          what `study` found
  report.html         what `report` made of it

The folder of a batch that has ended well is one, too: its scores lie in parts (`scores/`), and its dialogues
where they were (see `jobs/batch/folder.py`).
"""

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from dialeval import files
from dialeval.dialogues import Dialogue, formats
from dialeval.errors import DataError
from dialeval.metrics.explanation import Explanation, read_explanations
from dialeval.scores import ColumnMap, Scores, read_columns
from dialeval.studies import Study

DIALOGUES, SCORES, RUN, EXPLANATIONS, JOINED, STUDY, REPORT = (
    "dialogues.jsonl",
    "scores.parquet",
    "run.json",
    "explanations.jsonl",
    "joined.parquet",
    "study.json",
    "report.html",
)
PARTS, DONE, SUCCESS = "scores", "done", "_SUCCESS"  # of a batch: scores in parts, what is known of each, end


class Run:
    """A run folder that exists."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if is_batch(path) and not (self.path / SUCCESS).is_file():
            fix = "give the same dialeval batch command again"
            raise DataError("this batch is not finished", file=path, fix=fix)
        if not is_run(path):
            raise DataError(
                "not a run folder", file=path, fix=f"make one: dialeval score chats.jsonl -o {path}"
            )

    def dialogues(self) -> Iterator[Dialogue]:
        """Yield the dialogues that were scored."""
        if is_batch(self.path):
            from dialeval.jobs.batch.shards import batch_dialogues

            return batch_dialogues(self.path)
        return formats.read(self.path / DIALOGUES)

    def scores(self) -> Scores:
        """Return everything known about them: the run's own scores and what was joined to it."""
        parts = [self.own_scores()]
        if (self.path / JOINED).is_file():
            parts.append(Scores.read(self.path / JOINED))
        return Scores.concat(parts)

    def own_scores(self) -> Scores:
        """Return the run's own scores alone."""
        if is_batch(self.path):
            return Scores.read(self.path / PARTS)
        return Scores.read(self.path / SCORES)

    def joined_with(self, new: Scores) -> Scores:
        """Return what was joined to the run before and now; a source that comes again replaces the old."""
        if not (self.path / JOINED).is_file():
            return new
        old = Scores.read(self.path / JOINED)
        return Scores.concat([old.where(source=lambda name: name not in new.sources), new])

    def info(self) -> dict[str, Any]:
        """Return what `run.json` says."""
        try:
            with files.open_binary(self.path / RUN) as file:
                info: dict[str, Any] = json.load(file)
        except (ValueError, RecursionError) as error:
            raise DataError(f"broken: {error}", file=self.path / RUN, fix="score again") from None
        if not isinstance(info, dict):
            raise DataError("broken: not an object", file=self.path / RUN, fix="score again")
        return info

    def explanations(self) -> Iterator[Explanation]:
        """Yield why the dialogues got their scores, in their order; nothing if that was not asked for."""
        if (self.path / EXPLANATIONS).is_file():
            yield from read_explanations(self.path / EXPLANATIONS)

    def study(self) -> Study | None:
        """Return the study made of this run, if there is one."""
        return Study.load(self.path / STUDY) if (self.path / STUDY).is_file() else None

    @contextlib.contextmanager
    def showing_study(self) -> Iterator[None]:
        """Take what breaks while a stored study is shown for a fault of its file: it was changed by hand."""
        try:
            yield
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            if not (self.path / STUDY).is_file():
                raise
            message, fix = f"not as a study is written: {error!r}", "run dialeval study again"
            raise DataError(message, file=self.path / STUDY, fix=fix) from error

    def add(self, study: Study, joined: Scores) -> None:
        """Keep a study beside the scores it was made of; an older report no longer fits and goes."""
        if len(joined):
            joined.write(self.path / JOINED)
        else:
            (self.path / JOINED).unlink(missing_ok=True)
        study.save(self.path / STUDY)
        (self.path / REPORT).unlink(missing_ok=True)


def is_run(path: str | Path) -> bool:
    """Say whether a path is a run folder."""
    return (Path(path) / RUN).is_file() and ((Path(path) / SCORES).is_file() or is_batch(path))


def is_batch(path: str | Path) -> bool:
    """Say whether a path is the folder of a batch, finished or not."""
    return (Path(path) / RUN).is_file() and (Path(path) / PARTS).is_dir()


def load_scores(paths: Iterable[str | Path], maps: Iterable[str] = ()) -> Scores:
    """Read run folders, tables in our own columns, and foreign columns by `--map` notation."""
    parts = [Run(path).own_scores() if Path(path).is_dir() else Scores.read(path) for path in paths]
    parts += [read_columns(*ColumnMap.parse(text)) for text in maps]
    return Scores.concat(parts)
