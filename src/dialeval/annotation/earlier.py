"""What raters did before: whoever was a wizard on the same items is no independent judge of them.

In the study of Gandhe and Traum two of the four judges had been wizards, three months before. Such things
happen; they must be known. Earlier studies, or files of votes, are named when a study is made.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dialeval.annotation.snapshot import snapshot
from dialeval.annotation.study import Study, is_study
from dialeval.dialogues.votes import read_votes

_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Overlap:
    """A judge who was a wizard before: where, on how many of the same items, and when last."""

    rater: str
    study: str
    items: int
    days: int | None

    def __str__(self) -> str:
        when = "" if self.days is None else f", last {self.days} days ago"
        noun = "item" if self.items == 1 else "items"
        return f"{self.rater} was a wizard on {self.items} of the same {noun} ({self.study}{when})"


def record(study: Study, sources: Sequence[str | Path]) -> None:
    """Remember in a study who did what in earlier ones: folders of studies, or files of votes."""
    rows: list[tuple[str, str, str, str, int | None, float | None]] = []
    for source in sources:
        name = Path(source).name or str(source)
        if not is_study(source):
            rows += [
                (one.rater, "wizard", name, one.dialogue_id, one.turn, None) for one in read_votes(source)
            ]
            continue
        other = Study(source)
        seen = snapshot(other)
        for one in seen.answered():
            for number, turn, _ in seen.items[one.item].places:
                dialogue = other.names[number][0]
                rows.append((one.rater, other.scheme.role, name, dialogue, turn, one.at))
        other.close()
    with study.store.writing() as db:
        names = {(row[2],) for row in rows}
        db.executemany("DELETE FROM earlier WHERE study = ?", names)
        db.executemany("INSERT INTO earlier VALUES (?, ?, ?, ?, ?, ?)", set(rows))


def overlaps(study: Study) -> list[Overlap]:
    """Return the judges who were wizards on items they judge now."""
    if study.scheme.role != "judge":
        return []
    with study.store.reading() as db:
        rows = db.execute("SELECT * FROM earlier WHERE role = 'wizard'").fetchall()
        seats = db.execute("SELECT rater, item FROM seats WHERE state <> 'rejected'").fetchall()
    mine: dict[tuple[str, str, int | None], set[int]] = {}
    for row in seats:
        for number, turn, _ in study.items[row["item"]].places:
            mine.setdefault((row["rater"], study.names[number][0], turn), set()).add(row["item"])
    found: dict[tuple[str, str], tuple[set[int], float | None]] = {}
    for row in rows:
        items, last = found.get((row["rater"], row["study"]), (set(), None))
        same = mine.get((row["rater"], row["dialogue"], row["turn"]), set())
        if same:
            latest = max(filter(None, (last, row["at"])), default=None)
            found[row["rater"], row["study"]] = (items | same, latest)
    now = time.time()
    return [
        Overlap(rater, name, len(items), None if last is None else int((now - last) / _DAY))
        for (rater, name), (items, last) in sorted(found.items())
    ]
