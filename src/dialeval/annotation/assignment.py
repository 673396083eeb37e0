"""Assignments of raters to items, and the answers to them.

An item needs a number of raters, and each of them has an assignment (a row of the table `seats`). It is
`open`, `done`, `skipped` (the rater could not judge) or `rejected` (by the coordinator). The first two count;
if they are fewer than needed, `assign_missing` assigns the item to a rater who has not had it. Rejections,
skips, further rounds and new raters all use this one step. The assignment is random and reproducible.

Every change by a rater is one transaction, and returns only when it is on disk. A form has a ticket, which is
accepted once, so a double click is one answer.
"""

import heapq
import json
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dialeval.annotation.answers import majority
from dialeval.annotation.scheme import Scheme

if TYPE_CHECKING:
    from dialeval.annotation.project import AnnotationProject

_LONGEST_LOOK = 3600.0
_MOST_PLACES = 1 << 31
_LOADS = "SELECT rater, count(*) AS n FROM seats WHERE state IN ('open', 'done') GROUP BY rater"
_OF_RATERS = """SELECT s.state FROM seats AS s JOIN people AS p ON p.name = s.rater
                WHERE s.item = ? AND p.role = 'rater'"""


@dataclass(frozen=True, slots=True)
class Assignment:
    """One rater's assignment to an item: its position in the rater's order, its state, its answers."""

    item: int
    place: int
    state: str
    answers: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Progress:
    """How many of a rater's items are done."""

    done: int
    all: int
    can_undo: bool


def assign(
    needed: Mapping[int, int],
    taken: Mapping[int, Collection[str]],
    load: Mapping[str, int],
    *,
    cap: int | None = None,
    seed: int = 0,
) -> list[tuple[int, str]]:
    """Assign raters with the fewest items to items that need them.

    Args:
        needed: How many raters each item still needs.
        taken: By item, the raters who have or had it.
        load: The number of items of each rater.
        cap: The maximum number of items per rater.

    Returns:
        Pairs of item and rater; fewer than needed if there are not enough raters.

    >>> pairs = assign({1: 2, 2: 2, 3: 2}, {}, {"ann": 0, "bob": 0, "cem": 0})
    >>> sorted(rater for _, rater in pairs)
    ['ann', 'ann', 'bob', 'bob', 'cem', 'cem']
    """
    chance = random.Random(f"deal {seed}")  # noqa: S311  # a draw, no secret
    loads, pairs = dict(load), []
    order = sorted(needed)
    chance.shuffle(order)
    for item in order:
        free = [
            (loads[rater], chance.random(), rater)
            for rater in sorted(loads)
            if rater not in taken.get(item, ()) and (cap is None or loads[rater] < cap)
        ]
        for _, _, rater in heapq.nsmallest(needed[item], free):
            loads[rater] += 1
            pairs.append((item, rater))
    return pairs


def order_for(rater: str, items: Collection[int], seed: int = 0) -> list[int]:
    """Return a rater's items in a random order that depends on the rater.

    >>> order_for("ann", [1, 2, 3, 4]), order_for("bob", [1, 2, 3, 4])
    ([2, 4, 1, 3], [3, 2, 4, 1])
    """
    order = sorted(items)
    random.Random(f"order {seed} {rater}").shuffle(order)  # noqa: S311
    return order


def assign_missing(db: sqlite3.Connection, scheme: Scheme, seed: int, item: int | None = None) -> int:
    """Assign the raters that all items, or one, still need; return the number of new assignments."""
    raters = [row["name"] for row in db.execute("SELECT name FROM people WHERE role = 'rater'")]
    load = Counter(dict.fromkeys(raters, 0))
    for row in db.execute(_LOADS):
        if row["rater"] in load:
            load[row["rater"]] = row["n"]
    where, parameters = ("WHERE number = ?", (item,)) if item is not None else ("", ())
    needed, rounds, gold = {}, {}, []
    for row in db.execute(f"SELECT number, wanted, round, gold FROM items {where}", parameters):  # noqa: S608
        needed[row["number"]], rounds[row["number"]] = row["wanted"], row["round"]
        if row["gold"] is not None:
            gold.append(row["number"])
    taken: dict[int, set[str]] = {}
    where = "AND item = ?" if item is not None else ""
    query = f"""SELECT item, rater, state FROM seats AS s JOIN people AS p ON p.name = s.rater
                WHERE p.role = 'rater' {where}"""  # noqa: S608
    for row in db.execute(query, parameters):
        taken.setdefault(row["item"], set()).add(row["rater"])
        if row["state"] in ("open", "done"):
            needed[row["item"]] -= 1
    for number in gold:  # everybody gets those, whatever the cap
        needed[number] = 0
    pairs = [(number, rater) for number in gold for rater in raters if rater not in taken.get(number, ())]
    load.update(Counter(rater for _, rater in pairs))
    lacking = {number: count for number, count in needed.items() if count > 0}
    pairs += assign(lacking, taken, load, cap=scheme.items_per_rater, seed=seed)
    _insert(db, pairs, rounds, seed)
    return len(pairs)


def _insert(
    db: sqlite3.Connection, pairs: Sequence[tuple[int, str]], rounds: dict[int, int], seed: int
) -> None:
    """Append new items to those of each rater, in the rater's own random order."""
    by_rater: dict[str, list[int]] = {}
    for item, rater in pairs:
        by_rater.setdefault(rater, []).append(item)
    for rater, items in by_rater.items():
        ordered = enumerate(order_for(rater, items, seed), _last_place(db, rater) + 1)
        rows = [(item, rater, place, rounds[item]) for place, item in ordered]
        db.executemany("INSERT INTO seats (item, rater, place, round) VALUES (?, ?, ?, ?)", rows)


def _last_place(db: sqlite3.Connection, rater: str) -> int:
    query = "SELECT coalesce(max(place), 0) FROM seats WHERE rater = ?"
    last: int = db.execute(query, (rater,)).fetchone()[0]
    return last


def insert_done(db: sqlite3.Connection, item: int, rater: str) -> None:
    """Insert a finished assignment for an item that was answered elsewhere, or mark it as done."""
    db.execute(
        "INSERT INTO seats (item, rater, place, round, state) VALUES (?, ?, ?, 1, 'done') "
        "ON CONFLICT (item, rater) DO UPDATE SET state = 'done'",
        (item, rater, _last_place(db, rater) + 1),
    )


def next_round(db: sqlite3.Connection, scheme: Scheme, seed: int, item: int) -> None:
    """Start another round of raters if all have answered and there is no majority."""
    if scheme.rounds is None:
        return
    row = db.execute("SELECT wanted, round, gold FROM items WHERE number = ?", (item,)).fetchone()
    states = [seat[0] for seat in db.execute(_OF_RATERS, (item,))]
    if row["gold"] is not None or states.count("open") or states.count("done") < row["wanted"]:
        return
    if row["wanted"] >= scheme.rounds.most or _decided(db, scheme, item) is not None:
        return
    needed = min(scheme.rounds.most, row["wanted"] + scheme.rounds.further)
    db.execute("UPDATE items SET wanted = ?, round = round + 1 WHERE number = ?", (needed, item))
    assign_missing(db, scheme, seed, item)


def _decided(db: sqlite3.Connection, scheme: Scheme, item: int) -> str | None:
    query = """SELECT s.round, a.body FROM seats AS s JOIN answers AS a USING (item, rater)
               JOIN people AS p ON p.name = s.rater
               WHERE s.item = ? AND s.state = 'done' AND p.role = 'rater' ORDER BY s.round, a.at"""
    return majority(scheme, ((row["round"], json.loads(row["body"])) for row in db.execute(query, (item,))))


def reject(db: sqlite3.Connection, scheme: Scheme, seed: int, item: int, rater: str, reason: str) -> bool:
    """Exclude an answer and assign the item to another rater; the answer stays in the log."""
    changed = db.execute(
        "UPDATE seats SET state = 'rejected' WHERE item = ? AND rater = ? AND state IN ('done', 'skipped')",
        (item, rater),
    ).rowcount
    if changed:
        log_action(db, "coordinator", item, "reject", json.dumps({"rater": rater, "reason": reason}))
        assign_missing(db, scheme, seed, item)
    return bool(changed)


def reasons(db: sqlite3.Connection, item: int) -> dict[str, str]:
    """Return the reasons for rejected answers to an item, by rater."""
    query = "SELECT body FROM log WHERE item = ? AND action = 'reject' ORDER BY number"
    rejections = [json.loads(row["body"]) for row in db.execute(query, (item,))]
    return {rejection["rater"]: rejection["reason"] for rejection in rejections if rejection["reason"]}


def log_action(
    db: sqlite3.Connection,
    author: str,
    item: int | None,
    action: str,
    body: str | None,
    ticket: str | None = None,
) -> bool:
    """Write an action to the log; return False if its ticket was used before."""
    at = time.time()
    row = (at, author, item, action, ticket or f"{action} {at!r}", body)
    query = "INSERT OR IGNORE INTO log (at, who, item, action, ticket, body) VALUES (?, ?, ?, ?, ?, ?)"
    return db.execute(query, row).rowcount == 1


def current(project: "AnnotationProject", rater: str) -> int | None:
    """Return the position of a rater's first open item."""
    query = "SELECT min(place) FROM seats WHERE rater = ? AND state = 'open'"
    with project.store.reading() as db:
        place: int | None = db.execute(query, (rater,)).fetchone()[0]
    return place


def assignment_at(project: "AnnotationProject", rater: str, place: int) -> Assignment | None:
    """Return a rater's own assignment at a position."""
    query = """SELECT s.item, s.place, s.state, coalesce(d.body, a.body, '{}') AS body FROM seats AS s
               LEFT JOIN answers AS a ON a.item = s.item AND a.rater = s.rater
               LEFT JOIN drafts AS d ON d.item = s.item AND d.rater = s.rater
               WHERE s.rater = ? AND s.place = ? AND s.state <> 'rejected'"""
    if place > _MOST_PLACES:
        return None
    with project.store.reading() as db:
        row = db.execute(query, (rater, place)).fetchone()
    if row is None:
        return None
    return Assignment(row["item"], row["place"], row["state"], json.loads(row["body"]))


def progress(project: "AnnotationProject", rater: str) -> Progress:
    """Return how many items a rater has, and how many are done."""
    query = """SELECT count(*) FILTER (WHERE state IN ('done', 'skipped')), count(*) FROM seats
               WHERE rater = ? AND state <> 'rejected'"""
    with project.store.reading() as db:
        done, everything = db.execute(query, (rater,)).fetchone()
    return Progress(done, everything, done > 0)


def answer(
    project: "AnnotationProject",
    rater: str,
    assigned: Assignment,
    answers: Mapping[str, Any] | None,
    ticket: str,
    shown: float,
) -> bool:
    """Save an answer, or None for a skipped item; return False if it was sent before."""
    state, body = ("skipped", "{}") if answers is None else ("done", json.dumps(answers, ensure_ascii=False))
    now = time.time()
    seconds = min(_LONGEST_LOOK, max(0.0, now - shown))
    with project.store.writing() as db:
        if not log_action(db, rater, assigned.item, state, body, ticket):
            return False
        db.execute(
            "INSERT INTO answers VALUES (?, ?, ?, ?, ?) ON CONFLICT (item, rater) DO UPDATE SET "
            "body = excluded.body, at = excluded.at, seconds = excluded.seconds",
            (assigned.item, rater, body, now, seconds),
        )
        db.execute("UPDATE seats SET state = ? WHERE item = ? AND rater = ?", (state, assigned.item, rater))
        db.execute("DELETE FROM drafts WHERE item = ? AND rater = ?", (assigned.item, rater))
        if state == "skipped":
            assign_missing(db, project.scheme, project.seed, assigned.item)
        else:
            next_round(db, project.scheme, project.seed, assigned.item)
    return True


def keep_draft(
    project: "AnnotationProject", rater: str, assigned: Assignment, answers: Mapping[str, Any]
) -> None:
    """Save the marks of an unfinished form while the rater searches."""
    with project.store.writing() as db:
        db.execute(
            "INSERT INTO drafts VALUES (?, ?, ?) "
            "ON CONFLICT (item, rater) DO UPDATE SET body = excluded.body",
            (assigned.item, rater, json.dumps(answers, ensure_ascii=False)),
        )


def undo(project: "AnnotationProject", rater: str) -> int | None:
    """Reopen the rater's last answer and return its position."""
    query = """SELECT s.item, s.place FROM seats AS s JOIN answers AS a USING (item, rater)
               WHERE s.rater = ? AND s.state IN ('done', 'skipped') ORDER BY a.at DESC LIMIT 1"""
    with project.store.writing() as db:
        row = db.execute(query, (rater,)).fetchone()
        if row is None:
            return None
        db.execute("UPDATE seats SET state = 'open' WHERE item = ? AND rater = ?", (row["item"], rater))
        log_action(db, rater, row["item"], "undo", None)
    place: int = row["place"]
    return place


def top_up(project: "AnnotationProject", expert: str) -> None:
    """Fill the expert's sample of today with items that raters have answered and the expert has not seen."""
    day = datetime.now(UTC).date().isoformat()
    query = """SELECT DISTINCT s.item FROM seats AS s JOIN people AS p ON p.name = s.rater
               WHERE p.role = 'rater' AND s.state = 'done'
               AND s.item NOT IN (SELECT item FROM seats WHERE rater = ?) ORDER BY s.item"""
    with project.store.writing() as db:
        query_today = "SELECT count(*) FROM seats WHERE rater = ? AND day = ?"
        room = project.scheme.expert_per_day - db.execute(query_today, (expert, day)).fetchone()[0]
        if room <= 0:
            return
        free = [row[0] for row in db.execute(query, (expert,))]
        chance = random.Random(f"expert {project.seed} {day} {len(free)}")  # noqa: S311
        chosen = enumerate(chance.sample(free, min(room, len(free))), _last_place(db, expert) + 1)
        rows = [(item, expert, place, 1, day) for place, item in chosen]
        db.executemany("INSERT INTO seats (item, rater, place, round, day) VALUES (?, ?, ?, ?, ?)", rows)
