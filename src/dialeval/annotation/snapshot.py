"""A study at one moment: all that was answered, read in one transaction while raters go on.

What the coordinator sees and everything that is exported is made of a snapshot, so that it fits together.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dialeval.annotation.items import Item
from dialeval.annotation.study import Study


@dataclass(frozen=True, slots=True)
class Given:
    """One rater's seat at one item, with the answer if there is one."""

    item: int
    rater: str
    role: str
    state: str
    round: int
    answers: dict[str, Any]
    at: float | None
    seconds: float | None
    day: str | None

    @property
    def key(self) -> str:
        """What a form calls the rater: a name may hold what no form brings back as it was."""
        return hashlib.sha256(self.rater.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything at one moment. `wanted` is how many raters each item should have by now."""

    study: Study
    people: dict[str, str]
    given: list[Given]
    wanted: list[int]
    verdicts: dict[int, dict[str, Any]]

    @property
    def items(self) -> list[Item]:
        """All items, by their numbers."""
        return self.study.items

    def raters(self) -> list[str]:
        """Names of the raters, experts not among them."""
        return [name for name, role in self.people.items() if role == "rater"]

    def answered(self, role: str = "rater") -> Iterator[Given]:
        """Yield the answers that count, of raters or of experts, item by item in the order of giving."""
        return (one for one in self.given if one.role == role and one.state == "done")

    def by_item(self, role: str = "rater") -> dict[int, list[Given]]:
        """Return the answers that count of every item that has some."""
        found: dict[int, list[Given]] = {}
        for one in self.answered(role):
            found.setdefault(one.item, []).append(one)
        return found


def snapshot(study: Study) -> Snapshot:
    """Look at a study; all in one transaction."""
    query = """SELECT s.item, s.rater, p.role, s.state, s.round, s.day, a.body, a.at, a.seconds
               FROM seats AS s JOIN people AS p ON p.name = s.rater
               LEFT JOIN answers AS a ON a.item = s.item AND a.rater = s.rater
               ORDER BY s.item, s.round, a.at, s.rater"""
    with study.store.reading() as db:
        people = {
            row["name"]: row["role"] for row in db.execute("SELECT name, role FROM people ORDER BY name")
        }
        given = [
            Given(
                row["item"],
                row["rater"],
                row["role"],
                row["state"],
                row["round"],
                json.loads(row["body"]) if row["body"] else {},
                row["at"],
                row["seconds"],
                row["day"],
            )
            for row in db.execute(query)
        ]
        wanted = [row[0] for row in db.execute("SELECT wanted FROM items ORDER BY number")]
        verdicts = {row["item"]: json.loads(row["body"]) for row in db.execute("SELECT * FROM verdicts")}
    return Snapshot(study, people, given, wanted, verdicts)
