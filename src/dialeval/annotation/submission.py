"""What a rater does: look at the next item, answer, skip, go back, search.

Every change is one transaction, and returns only when it is on the disk. A form carries a ticket; the same
ticket again changes nothing, so a double click is one answer.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dialeval.annotation import seats
from dialeval.annotation.study import Study

_LONGEST_LOOK = 3600.0
_MOST_PLACES = 1 << 31


@dataclass(frozen=True, slots=True)
class Seat:
    """A rater's place at an item: its number in the rater's own order, and what was answered or begun."""

    item: int
    place: int
    state: str
    answers: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a rater is."""

    done: int
    all: int
    can_undo: bool


def current(study: Study, rater: str) -> int | None:
    """Return the place of the first item that is still open, which is where a rater goes on."""
    query = "SELECT min(place) FROM seats WHERE rater = ? AND state = 'open'"
    with study.store.reading() as db:
        place: int | None = db.execute(query, (rater,)).fetchone()[0]
    return place


def look(study: Study, rater: str, place: int) -> Seat | None:
    """Return a seat of this rater; nobody else's can be reached by any number."""
    query = """SELECT s.item, s.place, s.state, coalesce(d.body, a.body, '{}') AS body FROM seats AS s
               LEFT JOIN answers AS a ON a.item = s.item AND a.rater = s.rater
               LEFT JOIN drafts AS d ON d.item = s.item AND d.rater = s.rater
               WHERE s.rater = ? AND s.place = ? AND s.state <> 'rejected'"""
    if place > _MOST_PLACES:
        return None
    with study.store.reading() as db:
        row = db.execute(query, (rater, place)).fetchone()
    return None if row is None else Seat(row["item"], row["place"], row["state"], json.loads(row["body"]))


def progress(study: Study, rater: str) -> Progress:
    """Count what a rater has done."""
    query = """SELECT count(*) FILTER (WHERE state IN ('done', 'skipped')), count(*) FROM seats
               WHERE rater = ? AND state <> 'rejected'"""
    with study.store.reading() as db:
        done, everything = db.execute(query, (rater,)).fetchone()
    return Progress(done, everything, done > 0)


def answer(
    study: Study, rater: str, seat: Seat, answers: Mapping[str, Any] | None, ticket: str, shown: float
) -> bool:
    """Keep an answer, or that the rater cannot judge (None); False if this was sent before."""
    state, body = ("skipped", "{}") if answers is None else ("done", json.dumps(answers, ensure_ascii=False))
    now = time.time()
    seconds = min(_LONGEST_LOOK, max(0.0, now - shown))
    with study.store.writing() as db:
        if not seats.note(db, rater, seat.item, state, body, ticket):
            return False
        db.execute(
            "INSERT INTO answers VALUES (?, ?, ?, ?, ?) ON CONFLICT (item, rater) DO UPDATE SET "
            "body = excluded.body, at = excluded.at, seconds = excluded.seconds",
            (seat.item, rater, body, now, seconds),
        )
        db.execute("UPDATE seats SET state = ? WHERE item = ? AND rater = ?", (state, seat.item, rater))
        db.execute("DELETE FROM drafts WHERE item = ? AND rater = ?", (seat.item, rater))
        if state == "skipped":
            seats.fill(db, study.scheme, study.seed, seat.item)
        else:
            seats.next_round(db, study.scheme, study.seed, seat.item)
    return True


def keep_draft(study: Study, rater: str, seat: Seat, answers: Mapping[str, Any]) -> None:
    """Remember what is marked so far, while the rater searches for more."""
    with study.store.writing() as db:
        db.execute(
            "INSERT INTO drafts VALUES (?, ?, ?) "
            "ON CONFLICT (item, rater) DO UPDATE SET body = excluded.body",
            (seat.item, rater, json.dumps(answers, ensure_ascii=False)),
        )


def undo(study: Study, rater: str) -> int | None:
    """Open the rater's last answer again, with what was answered in it; return its place."""
    query = """SELECT s.item, s.place FROM seats AS s JOIN answers AS a USING (item, rater)
               WHERE s.rater = ? AND s.state IN ('done', 'skipped') ORDER BY a.at DESC LIMIT 1"""
    with study.store.writing() as db:
        row = db.execute(query, (rater,)).fetchone()
        if row is None:
            return None
        db.execute("UPDATE seats SET state = 'open' WHERE item = ? AND rater = ?", (row["item"], rater))
        seats.note(db, rater, row["item"], "undo", None)
    place: int = row["place"]
    return place


def top_up(study: Study, expert: str) -> None:
    """Draw what is missing of the expert's sample of today."""
    with study.store.writing() as db:
        seats.sample_for_expert(db, study.scheme, study.seed, expert, datetime.now(UTC).date().isoformat())
