"""The run folder: dialogues, scores, signatures and findings of one run side by side.

run/
  dialogues.jsonl     what was scored, in canonical form
  scores.parquet      scores of the metrics
  run.json            input, signatures, counts
  explanations.jsonl  explanations of the scores, with `score --explain`
  joined.parquet      ratings and foreign columns that `study` joined
  study.json          findings of `study`, and its run folders
  trust.json          findings of `trust`
  report.html         the report
  SHA256SUMS          the hash of each of these but the report; a file is compared with it when it is read

The folder of a batch that has ended well is one, too: its scores lie in parts (`scores/`), and its dialogues
where they were (see `jobs/batch/folder.py`).
"""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from dialeval import files
from dialeval.dialogues import Dialogue, formats
from dialeval.dialogues.formats.opening import is_batch
from dialeval.errors import DataError
from dialeval.manifests import check_listed, write_listed
from dialeval.metrics.explanation import Explanation, read_explanations
from dialeval.scores import ColumnMap, Scores, read_columns

if TYPE_CHECKING:  # who scores makes no study
    from dialeval.studies import Study
    from dialeval.studies.combination import Replies
    from dialeval.studies.trust_findings import Trust

DIALOGUES, SCORES, RUN, EXPLANATIONS, JOINED, STUDY, TRUST, REPORT = (
    "dialogues.jsonl",
    "scores.parquet",
    "run.json",
    "explanations.jsonl",
    "joined.parquet",
    "study.json",
    "trust.json",
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
        return formats.read(self.path if is_batch(self.path) else self.checked(DIALOGUES))

    def scores(self) -> Scores:
        """Return everything known about them: the run's own scores and what was joined to it."""
        return Scores.concat([self.own_scores(), *self._joined()])

    def own_scores(self) -> Scores:
        """Return the run's own scores alone."""
        if is_batch(self.path):
            from dialeval.jobs.batch.plan import read_scores

            return read_scores(self.path)
        return Scores.read(self.checked(SCORES))

    def _joined(self) -> list[Scores]:
        path = self.checked(JOINED)
        return [Scores.read(path)] if path.is_file() else []

    def checked(self, name: str) -> Path:
        """Return the path of one of the files, as it was written."""
        again = "study again with --fresh" if name in (JOINED, STUDY) else "score again"
        return check_listed(self.path, name, fix=f"restore a copy, or {again}")

    def joined_with(self, new: Scores) -> Scores:
        """Return what was joined to the run before and now; a source that comes again replaces the old."""
        remaining = [old.where(source=lambda name: name not in new.sources) for old in self._joined()]
        return Scores.concat([*remaining, new])

    def info(self) -> dict[str, Any]:
        """Return the contents of `run.json`."""
        try:
            with files.open_binary(self.checked(RUN)) as file:
                info: dict[str, Any] = json.load(file)
        except (ValueError, RecursionError) as error:
            raise DataError(f"broken: {error}", file=self.path / RUN, fix="score again") from None
        if not isinstance(info, dict):
            raise DataError("broken: not an object", file=self.path / RUN, fix="score again")
        return info

    def explanations(self) -> Iterator[Explanation]:
        """Yield why the dialogues got their scores, in their order; nothing if that was not asked for."""
        if (path := self.checked(EXPLANATIONS)).is_file():
            yield from read_explanations(path)

    def study(self) -> "Study | None":
        """Return the study made of this run, if there is one."""
        from dialeval.studies import Study

        path = self.checked(STUDY)
        return Study.load(path) if path.is_file() else None

    def trust(self) -> "Trust | None":
        """Return how far its scores can be trusted, if that was asked."""
        from dialeval.studies.trust_findings import Trust

        path = self.checked(TRUST)
        return Trust.load(path) if path.is_file() else None

    def together(self, study: "Study") -> tuple[list["Run"], list[Path]]:
        """Return the run folders that a study kept here was made of, this one first, and those now gone."""
        paths = [path for path in map(self._beside, study.runs) if path != self._beside(".")]
        return [self, *(Run(path) for path in paths if is_run(path))], [p for p in paths if not is_run(p)]

    def replies(self, beside: Sequence[str]) -> "Replies":
        """Return the texts of this run and those beside it, by dialogue, turn and system."""
        paths = dict.fromkeys([self.path, *filter(is_run, map(self._beside, beside))])
        return {
            (dialogue.id, number, dialogue.system): turn.text
            for path in paths
            for dialogue in Run(path).dialogues()
            for number, turn in enumerate(dialogue.turns)
        }

    def _beside(self, name: str) -> Path:
        return Path(os.path.normpath(self.path / name))

    def with_languages(self, study: "Study", scores: Scores) -> "Study":
        """Count the languages of the dialogues that a study kept here was made of, unless they have gone."""
        from dialeval.studies.notes import language_counts

        parts, _ = self.together(study)
        with contextlib.suppress(DataError):
            dialogues = chain.from_iterable(part.dialogues() for part in parts)
            return replace(study, languages=language_counts(dialogues, scores))
        return study

    def add(self, study: "Study", joined: Scores) -> "Study":
        """Keep a study beside the scores it was made of; an older report no longer fits and goes.

        Returns:
            The study as it is kept, with the languages of its dialogues.
        """
        study = self.with_languages(study, Scores.concat([self.own_scores(), joined]))
        contents = {
            JOINED: joined.to_parquet() if len(joined) else None,
            STUDY: study.to_json().encode("utf-8", "replace"),
        }
        write_listed(self.path, contents)
        (self.path / REPORT).unlink(missing_ok=True)
        return study

    def add_trust(self, trust: "Trust") -> None:
        """Keep how far its scores can be trusted; an older report no longer fits and goes."""
        write_listed(self.path, {TRUST: trust.to_json()})
        (self.path / REPORT).unlink(missing_ok=True)


def is_run(path: str | Path) -> bool:
    """Return whether a path is a run folder."""
    return (Path(path) / RUN).is_file() and ((Path(path) / SCORES).is_file() or is_batch(path))


@dataclass(frozen=True, slots=True)
class StudyInput:
    """The input of a study: run folders, tables, and what was joined to the first run folder earlier.

    Attributes:
        scores: Everything together.
        run: The first run folder, in which the study is kept.
        joined: All of it but that folder's own scores.
        earlier: Sources that were joined in an earlier study and not given again.
        runs: The run folders, relative to the first.
    """

    scores: Scores
    run: Run | None = None
    joined: Scores = field(default_factory=lambda: Scores.of([]))
    earlier: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()


def study_input(paths: Sequence[Path], maps: Iterable[str] = (), *, fresh: bool = False) -> StudyInput:
    """Read run folders and tables for one study.

    Args:
        paths: Run folders and tables of scores or ratings. Several folders are several systems' replies to
            the same contexts, or runs over different dialogues; they count as one table.
        fresh: Whether to leave out what was joined to the first folder earlier.
    """
    run = next((Run(path) for path in paths if path.is_dir()), None)
    if run is None:
        return StudyInput(load_scores(paths, maps))
    rest = [path for path in paths if path != run.path]
    new = joined = load_scores(rest, maps)
    other_runs = tuple(os.path.relpath(path, run.path) for path in rest if path.is_dir())
    if not fresh:
        joined = run.joined_with(new)
        other_runs = other_runs or _remembered(run)
    earlier = tuple(name for name in joined.sources if name not in new.sources)
    runs = tuple(dict.fromkeys((".", *other_runs)))
    return StudyInput(Scores.concat([run.own_scores(), joined]), run, joined, earlier, runs)


def _remembered(run: Run) -> tuple[str, ...]:
    """Return the run folders of the study that is there, unless another version made it."""
    run.checked(STUDY)  # damage is an error
    with contextlib.suppress(DataError):
        study = run.study()
        return study.runs if study else ()
    return ()


def load_scores(paths: Iterable[str | Path], maps: Iterable[str] = ()) -> Scores:
    """Read run folders, tables in our own columns, and foreign columns by `--map` notation."""
    parts = [Run(path).own_scores() if Path(path).is_dir() else Scores.read(path) for path in paths]
    parts += [read_columns(*ColumnMap.parse(text)) for text in maps]
    return Scores.concat(parts)
