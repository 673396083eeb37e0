"""Earlier work of raters: a judge who was a wizard on the same items is not independent.

In the study of Gandhe and Traum two of the four judges had been wizards, three months before. Such things
happen and must be reported. Earlier projects, or files of votes, are named with `--earlier`.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dialeval.annotation.project import AnnotationProject, is_project, snapshot
from dialeval.dialogues.contexts import conversation_of
from dialeval.dialogues.votes import read_votes

_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Overlap:
    """A judge who was a wizard before: where, on how many of the same items, and when last."""

    rater: str
    where: str
    items: int
    days: int | None

    def __str__(self) -> str:
        when = "" if self.days is None else f", last {self.days} days ago"
        noun = "item" if self.items == 1 else "items"
        return f"{self.rater} was a wizard on {self.items} of the same {noun} ({self.where}{when})"


def record(project: AnnotationProject, sources: Sequence[str | Path]) -> None:
    """Store in a project who did what before: in folders of earlier projects, or in files of votes."""
    rows: list[tuple[str, str, str, str, int | None, float | None]] = []
    for source in sources:
        name = Path(source).name or str(source)
        if not is_project(source):
            rows += [
                (one.rater, "wizard", name, one.dialogue_id, one.turn, None) for one in read_votes(source)
            ]
            continue
        other = AnnotationProject(source)
        seen = snapshot(other)
        for one in seen.answered():
            for number, turn, _ in seen.items[one.item].places:
                rows.append((one.rater, other.scheme.role, name, *_origin(other, number, turn), one.at))
        other.close()
    with project.store.writing() as db:
        names = {(row[2],) for row in rows}
        db.executemany("DELETE FROM earlier WHERE study = ?", names)
        db.executemany("INSERT INTO earlier VALUES (?, ?, ?, ?, ?, ?)", set(rows))


def _origin(project: AnnotationProject, number: int, turn: int | None) -> tuple[str, int | None]:
    """Return the conversation and turn behind a place: a reply `d@turn-3` is about turn 3 of `d`."""
    name, origin = project.contexts[number]
    return conversation_of(name), turn if origin is None else origin


def overlaps(project: AnnotationProject) -> list[Overlap]:
    """Return the judges who were wizards on items they judge now."""
    if project.scheme.role != "judge":
        return []
    with project.store.reading() as db:
        rows = db.execute("SELECT * FROM earlier WHERE role = 'wizard'").fetchall()
        assigned = db.execute("SELECT rater, item FROM seats WHERE state <> 'rejected'").fetchall()
    mine: dict[tuple[str, str, int | None], set[int]] = {}
    for row in assigned:
        for number, turn, _ in project.items[row["item"]].places if rows else ():
            mine.setdefault((row["rater"], *_origin(project, number, turn)), set()).add(row["item"])
    found: dict[tuple[str, str], tuple[set[int], float | None]] = {}
    for row in rows:
        items, last = found.get((row["rater"], row["study"]), (set(), None))
        same = mine.get((row["rater"], conversation_of(row["dialogue"]), row["turn"]), set())
        if same:
            latest = max(filter(None, (last, row["at"])), default=None)
            found[row["rater"], row["study"]] = (items | same, latest)
    now = time.time()
    return [
        Overlap(rater, name, len(items), None if last is None else int((now - last) / _DAY))
        for (rater, name), (items, last) in sorted(found.items())
    ]
