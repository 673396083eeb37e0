"""Monitoring of a project: agreement, accuracy and independence of raters, and states of items.

Agreement is measured on the first round only, because later rounds exist only where people disagreed. For
marks it is the overlap (Jaccard) of two wizards' sets, not kappa.
"""

import itertools
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from dialeval.annotation.answers import agrees, is_accepted, majority
from dialeval.annotation.project import AnnotationProject, RaterAnswer, Snapshot, is_project, snapshot
from dialeval.annotation.scheme import SchemeQuestion
from dialeval.dialogues.contexts import conversation_of
from dialeval.dialogues.votes import read_votes
from dialeval.statistics import Estimate, agreement_interval, bootstrap_statistic, share

_RESAMPLES = 500
STATES = {
    "to adjudicate": "All have answered, and they do not agree.",
    "another round": "No majority yet; further raters have been assigned.",
    "lacks a rater": "No rater is left to assign: add one.",
    "open": "Not all raters have answered yet.",
    "settled": "All have answered, and they agree sufficiently.",
    "adjudicated": "Decided by the coordinator.",
}


@dataclass(frozen=True, slots=True)
class QuestionAgreement:
    """Agreement on one question: Krippendorff's alpha and Fleiss' kappa, or overlap for marks."""

    question: str
    level: str
    alpha: Estimate | None = None
    kappa: Estimate | None = None
    overlap: Estimate | None = None


def agreements(seen: Snapshot) -> list[QuestionAgreement]:
    """Return the agreement on every question except free text."""
    return [_measure(question, seen) for question in seen.project.scheme.questions if question.type != "text"]


def _measure(question: SchemeQuestion, seen: Snapshot) -> QuestionAgreement:
    first = {
        item: [answer for answer in answers if answer.round == 1]
        for item, answers in seen.by_item().items()
        if seen.items[item].gold is None
    }
    if question.type == "mark":
        return QuestionAgreement(question.name, "nominal", overlap=_overlap(question, first, seen))
    ordinal = question.type == "scale" or question.ordered
    ratings, clusters = _matrix(question, first, seen)
    level = "ordinal" if ordinal else "nominal"
    if not len(ratings):
        nothing = Estimate.undefined("no ratings")
        return QuestionAgreement(question.name, level, nothing, nothing)
    alpha = agreement_interval(ratings, "krippendorff_alpha", clusters, level=level, resamples=_RESAMPLES)
    kappa = agreement_interval(ratings, "fleiss_kappa", clusters, resamples=_RESAMPLES)
    return QuestionAgreement(question.name, level, alpha, kappa)


def _matrix(question: SchemeQuestion, first: dict[int, list[RaterAnswer]], seen: Snapshot) -> tuple[Any, Any]:
    """Return ratings (units x raters) and their dialogues; each choice of a multiple choice is a unit."""
    raters = {name: column for column, name in enumerate(seen.raters())}
    rows, clusters = [], []
    for item, answers in first.items():
        columns = [choice.value for choice in question.choices] if question.type == "several" else [None]
        for column in columns:
            row = np.full(len(raters), np.nan)
            for rater_answer in answers:
                answer = rater_answer.answers.get(question.name)
                if answer is not None:
                    row[raters[rater_answer.rater]] = (
                        question.score(answer) if column is None else column in answer
                    )
            rows.append(row)
            clusters.append(seen.items[item].place[0])
    return np.array(rows), np.array(clusters)


def _overlap(question: SchemeQuestion, first: dict[int, list[RaterAnswer]], seen: Snapshot) -> Estimate:
    means, clusters = [], []
    for item, answers in first.items():
        sets = [set(answer.answers.get(question.name, ())) for answer in answers]
        pairs = [jaccard(a, b) for a, b in itertools.combinations(sets, 2)]
        if pairs:
            means.append(float(np.mean(pairs)))
            clusters.append(seen.items[item].place[0])
    if not means:
        return Estimate.undefined("no overlap")
    value = float(np.mean(means))
    if len(set(clusters)) < 2:
        return Estimate(value, len(means), reason="one cluster")
    drawn = bootstrap_statistic(
        np.array(means)[:, None], lambda rows: float(rows.mean()), np.array(clusters), resamples=_RESAMPLES
    )
    return Estimate(value, len(means), drawn.low, drawn.high, reason=drawn.reason)


def jaccard(a: set[int], b: set[int]) -> float:
    """Return the Jaccard index of two sets; 1 for two empty sets.

    >>> jaccard({1, 2, 3}, {2, 3, 4}), jaccard(set(), set())
    (0.5, 1.0)
    """
    return len(a & b) / len(a | b) if a | b else 1.0


def gold_accuracy(seen: Snapshot) -> dict[str, Estimate]:
    """Return each rater's accuracy on the gold items."""
    hits_of: dict[str, list[bool]] = {name: [] for name in seen.raters()}
    for answer in seen.answered():
        gold = seen.items[answer.item].gold
        if gold is not None:
            hits_of[answer.rater].append(is_accepted(gold, answer.answers))
    return _shares(hits_of)


def expert_accuracy(seen: Snapshot) -> dict[str, Estimate]:
    """Return how often each rater, and the majority, agree with the expert on the expert's sample."""
    scheme, expert = seen.project.scheme, seen.by_item("expert")
    hits_of: dict[str, list[bool]] = {"majority": [], **{name: [] for name in seen.raters()}}
    for item, answers in seen.by_item().items():
        for right in expert.get(item, ())[:1]:
            for answer in answers:
                hits_of[answer.rater].append(agrees(scheme, answer.answers, right.answers))
            decided = majority_answer(seen, answers)
            if decided is not None:
                hits_of["majority"].append(decided == str(right.answers.get(scheme.questions[0].name)))
    return _shares(hits_of) if expert else {}


def _shares(hits_of: Mapping[str, Sequence[bool]]) -> dict[str, Estimate]:
    return {name: share(sum(hits), len(hits)) for name, hits in hits_of.items()}


def majority_answer(seen: Snapshot, answers: Sequence[RaterAnswer]) -> str | None:
    """Return the raters' majority answer to the first question, as text."""
    return majority(seen.project.scheme, ((answer.round, answer.answers) for answer in answers))


@dataclass(frozen=True, slots=True)
class RaterRow:
    """One rater: progress, seconds for an item, accuracy on gold items and against the expert."""

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
    """One item: its name, its answers, its state."""

    number: int
    name: str
    done: int
    wanted: int
    state: str
    is_unanimous: bool
    is_gold: bool


def rater_rows(seen: Snapshot) -> list[RaterRow]:
    """Return a row for every rater and expert."""
    gold, expert = gold_accuracy(seen), expert_accuracy(seen)
    by_rater: dict[str, list[RaterAnswer]] = {}
    for answer in seen.rater_answers:
        by_rater.setdefault(answer.rater, []).append(answer)
    rows = []
    for name, role in seen.people.items():
        if role not in ("rater", "expert"):
            continue
        mine = by_rater.get(name, [])
        states = Counter(answer.state for answer in mine)
        seconds = [answer.seconds for answer in mine if answer.state == "done" and answer.seconds is not None]
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
                and right.value < seen.project.scheme.gold_minimum,
            )
        )
    return rows


def item_rows(seen: Snapshot) -> list[ItemRow]:
    """Return a row for every item."""
    by_state: list[Counter[str]] = [Counter() for _ in seen.items]
    rounds = [1] * len(seen.items)
    for answer in seen.rater_answers:
        if answer.role == "rater":
            by_state[answer.item][answer.state] += 1
            rounds[answer.item] = max(rounds[answer.item], answer.round)
    answers = seen.by_item()
    n_raters = len(seen.raters())
    rows = []
    for number, item in enumerate(seen.items):
        item_answers, states = answers.get(number, []), by_state[number]
        needed = n_raters if item.gold is not None else seen.wanted[number]
        state = _state(seen, number, item_answers, states, needed, rounds[number])
        alike = all(
            agrees(seen.project.scheme, item_answers[0].answers, answer.answers)
            for answer in item_answers[1:]
        )
        rows.append(
            ItemRow(
                number, name_of(seen, number), len(item_answers), needed, state, alike, item.gold is not None
            )
        )
    return rows


def _state(
    seen: Snapshot, number: int, answers: list[RaterAnswer], states: Counter[str], needed: int, rounds: int
) -> str:
    if number in seen.verdicts:
        return "adjudicated"
    if states["open"] + states["done"] < needed and seen.items[number].gold is None:
        return "lacks a rater"
    if states["open"]:
        return "another round" if rounds > 1 else "open"
    return "to adjudicate" if disagree(seen, answers) else "settled"


def disagree(seen: Snapshot, answers: Sequence[RaterAnswer]) -> bool:
    """Return whether answers need adjudication: no majority, more than half a scale apart, disjoint marks."""
    if len(answers) < 2:
        return False
    first, *further = seen.project.scheme.questions
    if seen.project.scheme.rounds is not None:  # what ends the rounds settles the item
        return majority_answer(seen, answers) is None or any(
            _differs(question, answers) for question in further
        )
    return any(_differs(question, answers) for question in (first, *further))


def _differs(question: SchemeQuestion, answers: Sequence[RaterAnswer]) -> bool:
    values: list[Any] = [
        answer.answers[question.name] for answer in answers if question.name in answer.answers
    ]
    if len(values) < 2 or question.type in ("text", "several"):
        return False
    if question.type == "mark":
        sets = [set(value) for value in values]
        return all(not jaccard(a, b) for n, a in enumerate(sets) for b in sets[:n])
    if question.type == "scale":
        return bool(max(values) - min(values) > (question.high - question.low) / 2)
    return Counter(values).most_common(1)[0][1] * 2 <= len(values)


def name_of(seen: Snapshot, number: int) -> str:
    """Return the dialogue and turn of an item as text, for the coordinator."""
    item, names = seen.items[number], seen.project.names
    dialogue, turn, segment = item.place
    text = names[dialogue][0]
    text += "" if turn is None else f", turn {turn}"
    text += "" if segment is None else f", segment {segment}"
    if item.other is not None:
        text += f" against {names[item.other[0]][0]}"
    return text + (f" (and {len(item.twins)} alike)" if item.twins else "")


def settled(seen: Snapshot, number: int, answers: list[RaterAnswer]) -> str | None:
    """Return the answer to an item's first question: the coordinator's decision, or the majority."""
    name = seen.project.scheme.questions[0].name
    verdict = seen.verdicts.get(number, {}).get(name)
    return str(verdict) if verdict is not None else majority_answer(seen, answers)


# --- earlier work of raters: a judge who was a wizard on the same items is not independent ------------------
# In the study of Gandhe and Traum two of the four judges had been wizards three months before, which must be
# reported. Earlier projects, or files of votes, are named with `--earlier`.

_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Overlap:
    """A judge who was a wizard before: the project, the number of same items, and days since the last."""

    rater: str
    where: str
    items: int
    days: int | None

    def __str__(self) -> str:
        when = "" if self.days is None else f", last {self.days} days ago"
        noun = "item" if self.items == 1 else "items"
        return f"{self.rater} was a wizard on {self.items} of the same {noun} ({self.where}{when})"


def record(project: AnnotationProject, sources: Sequence[str | Path]) -> None:
    """Store the earlier work of raters in a project, from folders of projects or files of votes."""
    rows: list[tuple[str, str, str, str, int | None, float | None]] = []
    for source in sources:
        name = Path(source).name or str(source)
        if not is_project(source):
            rows += [
                (vote.rater, "wizard", name, vote.dialogue_id, vote.turn, None) for vote in read_votes(source)
            ]
            continue
        earlier = AnnotationProject(source)
        seen = snapshot(earlier)
        for answer in seen.answered():
            for number, turn, _ in seen.items[answer.item].places:
                rows.append(
                    (answer.rater, earlier.scheme.role, name, *_origin(earlier, number, turn), answer.at)
                )
        earlier.close()
    with project.store.writing() as db:
        names = {(row[2],) for row in rows}
        db.executemany("DELETE FROM earlier WHERE study = ?", names)
        db.executemany("INSERT INTO earlier VALUES (?, ?, ?, ?, ?, ?)", set(rows))


def _origin(project: AnnotationProject, number: int, turn: int | None) -> tuple[str, int | None]:
    """Return the original conversation and turn of a place: a reply `d@turn-3` is about turn 3 of `d`."""
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
    by_rater: dict[tuple[str, str], tuple[set[int], float | None]] = {}
    for row in rows:
        items, last = by_rater.get((row["rater"], row["study"]), (set(), None))
        same = mine.get((row["rater"], conversation_of(row["dialogue"]), row["turn"]), set())
        if same:
            latest = max(filter(None, (last, row["at"])), default=None)
            by_rater[row["rater"], row["study"]] = (items | same, latest)
    now = time.time()
    return [
        Overlap(rater, name, len(items), None if last is None else int((now - last) / _DAY))
        for (rater, name), (items, last) in sorted(by_rater.items())
    ]
