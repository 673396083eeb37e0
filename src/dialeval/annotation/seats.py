"""Seats: an item wants so many raters, and each of them has a seat at it.

A seat is `open`, `done`, `skipped` (the rater could not judge) or `rejected` (the coordinator took it away).
The first two count; where fewer count than are wanted, `fill` hands the item to somebody who has not had it.
Rejections, skips, further rounds and raters who join later are all that one step.
"""

import json
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence

from dialeval.annotation.assignment import deal, order_for
from dialeval.annotation.scheme import Scheme
from dialeval.dialogues.majority import majority_of

_LOADS = "SELECT rater, count(*) AS n FROM seats WHERE state IN ('open', 'done') GROUP BY rater"


def fill(db: sqlite3.Connection, scheme: Scheme, seed: int, item: int | None = None) -> int:
    """Give every item, or one, the raters it wants and does not have; return how many seats were given."""
    raters = [row["name"] for row in db.execute("SELECT name FROM people WHERE role = 'rater'")]
    load = Counter(dict.fromkeys(raters, 0))
    for row in db.execute(_LOADS):
        if row["rater"] in load:
            load[row["rater"]] = row["n"]
    where, given = ("WHERE number = ?", (item,)) if item is not None else ("", ())
    wanted, rounds, gold = {}, {}, []
    for row in db.execute(f"SELECT number, wanted, round, gold FROM items {where}", given):  # noqa: S608
        wanted[row["number"]], rounds[row["number"]] = row["wanted"], row["round"]
        if row["gold"] is not None:
            gold.append(row["number"])
    taken: dict[int, set[str]] = {}
    where = "AND item = ?" if item is not None else ""
    query = f"""SELECT item, rater, state FROM seats AS s JOIN people AS p ON p.name = s.rater
                WHERE p.role = 'rater' {where}"""  # noqa: S608
    for row in db.execute(query, given):
        taken.setdefault(row["item"], set()).add(row["rater"])
        if row["state"] in ("open", "done"):
            wanted[row["item"]] -= 1
    for number in gold:  # everybody gets those, whatever the cap
        wanted[number] = 0
    dealt = [(number, one) for number in gold for one in raters if one not in taken.get(number, ())]
    load.update(Counter(rater for _, rater in dealt))
    lacking = {number: count for number, count in wanted.items() if count > 0}
    dealt += deal(lacking, taken, load, cap=scheme.items_per_rater, seed=seed)
    _seat(db, dealt, rounds, seed)
    return len(dealt)


def _seat(
    db: sqlite3.Connection, dealt: Sequence[tuple[int, str]], rounds: dict[int, int], seed: int
) -> None:
    """Put new items behind those a rater has, in an order of the rater's own."""
    by_rater: dict[str, list[int]] = {}
    for item, rater in dealt:
        by_rater.setdefault(rater, []).append(item)
    for rater, items in by_rater.items():
        last = db.execute("SELECT coalesce(max(place), 0) FROM seats WHERE rater = ?", (rater,)).fetchone()[0]
        rows = [
            (item, rater, last + place, rounds[item])
            for place, item in enumerate(order_for(rater, items, seed), 1)
        ]
        db.executemany("INSERT INTO seats (item, rater, place, round) VALUES (?, ?, ?, ?)", rows)


def next_round(db: sqlite3.Connection, scheme: Scheme, seed: int, item: int) -> None:
    """Where all have answered and no answer has a majority, let further raters look at the item."""
    if scheme.rounds is None:
        return
    row = db.execute("SELECT wanted, round, gold FROM items WHERE number = ?", (item,)).fetchone()
    states = [found[0] for found in db.execute(_OF_RATERS, (item,))]
    if row["gold"] is not None or states.count("open") or states.count("done") < row["wanted"]:
        return
    if row["wanted"] >= scheme.rounds.most or decided(db, scheme, item) is not None:
        return
    wanted = min(scheme.rounds.most, row["wanted"] + scheme.rounds.further)
    db.execute("UPDATE items SET wanted = ?, round = round + 1 WHERE number = ?", (wanted, item))
    fill(db, scheme, seed, item)


_OF_RATERS = """SELECT s.state FROM seats AS s JOIN people AS p ON p.name = s.rater
                WHERE s.item = ? AND p.role = 'rater'"""


def decided(db: sqlite3.Connection, scheme: Scheme, item: int) -> str | None:
    """Return the answer to the first question that has a majority, as text."""
    query = """SELECT s.round, a.body FROM seats AS s JOIN answers AS a USING (item, rater)
               JOIN people AS p ON p.name = s.rater
               WHERE s.item = ? AND s.state = 'done' AND p.role = 'rater' ORDER BY s.round, a.at"""
    rounds: dict[int, list[str | None]] = {}
    for row in db.execute(query, (item,)):
        answer = json.loads(row["body"]).get(scheme.questions[0].name)
        rounds.setdefault(row["round"], []).append(None if answer is None else str(answer))
    return majority_of(list(rounds.values()))


def reject(db: sqlite3.Connection, scheme: Scheme, seed: int, item: int, rater: str, reason: str) -> bool:
    """Take an answer out of the study and hand the item to another rater; the answer stays in the log."""
    changed = db.execute(
        "UPDATE seats SET state = 'rejected' WHERE item = ? AND rater = ? AND state IN ('done', 'skipped')",
        (item, rater),
    ).rowcount
    if changed:
        note(db, "coordinator", item, "reject", json.dumps({"rater": rater, "reason": reason}))
        fill(db, scheme, seed, item)
    return bool(changed)


def reasons(db: sqlite3.Connection, item: int) -> dict[str, str]:
    """Return why answers to an item were rejected, by rater, where a reason was given."""
    query = "SELECT body FROM log WHERE item = ? AND action = 'reject' ORDER BY number"
    told = [json.loads(row["body"]) for row in db.execute(query, (item,))]
    return {one["rater"]: one["reason"] for one in told if one["reason"]}


def sample_for_expert(db: sqlite3.Connection, scheme: Scheme, seed: int, expert: str, day: str) -> int:
    """Give an expert today's sample: items that raters have answered and the expert has not seen."""
    given = "SELECT count(*) FROM seats WHERE rater = ? AND day = ?"
    room = scheme.expert_per_day - db.execute(given, (expert, day)).fetchone()[0]
    if room <= 0:
        return 0
    query = """SELECT DISTINCT s.item FROM seats AS s JOIN people AS p ON p.name = s.rater
               WHERE p.role = 'rater' AND s.state = 'done'
               AND s.item NOT IN (SELECT item FROM seats WHERE rater = ?) ORDER BY s.item"""
    free = [row[0] for row in db.execute(query, (expert,))]
    chance = random.Random(f"expert {seed} {day} {len(free)}")  # noqa: S311
    last = db.execute("SELECT coalesce(max(place), 0) FROM seats WHERE rater = ?", (expert,)).fetchone()[0]
    chosen = chance.sample(free, min(room, len(free)))
    rows = [(item, expert, last + place, 1, day) for place, item in enumerate(chosen, 1)]
    db.executemany("INSERT INTO seats (item, rater, place, round, day) VALUES (?, ?, ?, ?, ?)", rows)
    return len(rows)


def note(
    db: sqlite3.Connection,
    who: str,
    item: int | None,
    action: str,
    body: str | None,
    ticket: str | None = None,
) -> bool:
    """Write what happened into the log; False if this ticket has been used, so that nothing happens twice."""
    at = time.time()
    row = (at, who, item, action, ticket or f"{action} {at!r}", body)
    query = "INSERT OR IGNORE INTO log (at, who, item, action, ticket, body) VALUES (?, ?, ?, ?, ?, ?)"
    return db.execute(query, row).rowcount == 1
