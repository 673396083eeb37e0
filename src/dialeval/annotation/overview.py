"""What the coordinator sees: who has done how much, which items are settled, which need somebody."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from dialeval.annotation.agreement import expert_accuracy, gold_accuracy, jaccard, majority
from dialeval.annotation.answers import agrees
from dialeval.annotation.scheme import Question
from dialeval.annotation.snapshot import Given, Snapshot
from dialeval.statistics import Estimate

STATES = {
    "to adjudicate": "All have answered, and they do not agree.",
    "another round": "No majority yet; further raters are looking.",
    "lacks a rater": "Nobody is left to take it: add a rater.",
    "open": "Not everybody has answered yet.",
    "settled": "All have answered, and they agree enough.",
    "adjudicated": "Decided by the coordinator.",
}


@dataclass(frozen=True, slots=True)
class RaterRow:
    """One rater: how much is done, how long an item takes, how careful."""

    name: str
    role: str
    done: int
    all: int
    skipped: int
    rejected: int
    seconds: float | None
    gold: Estimate | None
    expert: Estimate | None
    is_careless: bool


@dataclass(frozen=True, slots=True)
class ItemRow:
    """One item: where it is, how far it is, what was said."""

    number: int
    name: str
    done: int
    wanted: int
    state: str
    is_unanimous: bool
    is_gold: bool


def rater_rows(seen: Snapshot) -> list[RaterRow]:
    """Return a row for everybody who rates."""
    gold, expert = gold_accuracy(seen), expert_accuracy(seen)
    by_rater: dict[str, list[Given]] = {}
    for one in seen.given:
        by_rater.setdefault(one.rater, []).append(one)
    rows = []
    for name, role in seen.people.items():
        if role not in ("rater", "expert"):
            continue
        mine = by_rater.get(name, [])
        states = Counter(one.state for one in mine)
        seconds = [one.seconds for one in mine if one.state == "done" and one.seconds is not None]
        right = gold.get(name)
        rows.append(
            RaterRow(
                name,
                role,
                states["done"] + states["skipped"],
                len(mine) - states["rejected"],
                states["skipped"],
                states["rejected"],
                median(seconds) if seconds else None,
                right if right is not None and right.n else None,
                expert.get(name),
                right is not None
                and right.value is not None
                and right.value < seen.study.scheme.gold_minimum,
            )
        )
    return rows


def item_rows(seen: Snapshot) -> list[ItemRow]:
    """Return a row for every item."""
    seats: list[Counter[str]] = [Counter() for _ in seen.items]
    rounds = [1] * len(seen.items)
    for one in seen.given:
        if one.role == "rater":
            seats[one.item][one.state] += 1
            rounds[one.item] = max(rounds[one.item], one.round)
    answers = seen.by_item()
    n_raters = len(seen.raters())
    rows = []
    for number, item in enumerate(seen.items):
        found, states = answers.get(number, []), seats[number]
        wanted = n_raters if item.gold is not None else seen.wanted[number]
        state = _state(seen, number, found, states, wanted, rounds[number])
        alike = all(agrees(seen.study.scheme, found[0].answers, one.answers) for one in found[1:])
        rows.append(
            ItemRow(number, name_of(seen, number), len(found), wanted, state, alike, item.gold is not None)
        )
    return rows


def _state(
    seen: Snapshot, number: int, found: list[Given], states: Counter[str], wanted: int, rounds: int
) -> str:
    if number in seen.verdicts:
        return "adjudicated"
    if states["open"] + states["done"] < wanted and seen.items[number].gold is None:
        return "lacks a rater"
    if states["open"]:
        return "another round" if rounds > 1 else "open"
    return "to adjudicate" if disagree(seen, found) else "settled"


def disagree(seen: Snapshot, found: Sequence[Given]) -> bool:
    """Say whether answers are too far apart: no majority, more than half a scale, nothing in common."""
    if len(found) < 2:
        return False
    first, *others = seen.study.scheme.questions
    if seen.study.scheme.rounds is not None:  # what ends the rounds settles the item
        return majority(seen, list(found)) is None or any(_differs(one, found) for one in others)
    return any(_differs(one, found) for one in (first, *others))


def _differs(question: Question, found: Sequence[Given]) -> bool:
    given: list[Any] = [one.answers[question.name] for one in found if question.name in one.answers]
    if len(given) < 2 or question.type in ("text", "several"):
        return False
    if question.type == "mark":
        sets = [set(one) for one in given]
        return all(not jaccard(one, other) for n, one in enumerate(sets) for other in sets[:n])
    if question.type == "scale":
        return bool(max(given) - min(given) > (question.high - question.low) / 2)
    return Counter(given).most_common(1)[0][1] * 2 <= len(given)


def name_of(seen: Snapshot, number: int) -> str:
    """Write where an item is, for the coordinator, who may know."""
    item, names = seen.items[number], seen.study.names
    dialogue, turn, segment = item.place
    text = names[dialogue][0]
    text += "" if turn is None else f", turn {turn}"
    text += "" if segment is None else f", segment {segment}"
    if item.other is not None:
        text += f" against {names[item.other[0]][0]}"
    return text + (f" (and {len(item.twins)} alike)" if item.twins else "")


def settled(seen: Snapshot, number: int, found: list[Given]) -> str | None:
    """Return what an item's first question comes to: the verdict, or the majority."""
    name = seen.study.scheme.questions[0].name
    verdict = seen.verdicts.get(number, {}).get(name)
    return str(verdict) if verdict is not None else majority(seen, found)
