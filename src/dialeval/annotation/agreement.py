"""How far raters agree so far, with an interval, and how careful each of them is.

Agreement is measured on the first round alone: later rounds exist only where people disagreed. Marks have no
kappa: what counts there is how far two wizards' sets overlap (Jaccard).
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from dialeval.annotation.answers import agrees, is_accepted
from dialeval.annotation.scheme import Question
from dialeval.annotation.snapshot import Given, Snapshot
from dialeval.dialogues.majority import majority_of
from dialeval.statistics import Estimate, agreement_interval, bootstrap_statistic, share

_RESAMPLES = 500


@dataclass(frozen=True, slots=True)
class Agreement:
    """One question: alpha fits its level of measurement; kappa is Fleiss'; overlap is for marks alone."""

    question: str
    level: str
    alpha: Estimate | None = None
    kappa: Estimate | None = None
    overlap: Estimate | None = None


def agreements(seen: Snapshot) -> list[Agreement]:
    """Measure every question that can be; texts cannot."""
    return [_measure(question, seen) for question in seen.study.scheme.questions if question.type != "text"]


def _measure(question: Question, seen: Snapshot) -> Agreement:
    first = {
        item: [one for one in found if one.round == 1]
        for item, found in seen.by_item().items()
        if seen.items[item].gold is None
    }
    if question.type == "mark":
        return Agreement(question.name, "nominal", overlap=_overlap(question, first, seen))
    ordinal = question.type == "scale" or question.ordered
    ratings, clusters = _matrix(question, first, seen)
    level = "ordinal" if ordinal else "nominal"
    if not len(ratings):
        nothing = Estimate.undefined("no ratings")
        return Agreement(question.name, level, nothing, nothing)
    alpha = agreement_interval(ratings, "krippendorff_alpha", clusters, level=level, resamples=_RESAMPLES)
    kappa = agreement_interval(ratings, "fleiss_kappa", clusters, resamples=_RESAMPLES)
    return Agreement(question.name, level, alpha, kappa)


def _matrix(question: Question, first: dict[int, list[Given]], seen: Snapshot) -> tuple[Any, Any]:
    """Units x raters; several choices are a unit each, chosen or not."""
    raters = {name: seat for seat, name in enumerate(seen.raters())}
    rows, clusters = [], []
    for item, found in first.items():
        columns = [one.value for one in question.choices] if question.type == "several" else [None]
        for column in columns:
            row = np.full(len(raters), np.nan)
            for one in found:
                answer = one.answers.get(question.name)
                if answer is not None:
                    row[raters[one.rater]] = question.score(answer) if column is None else column in answer
            rows.append(row)
            clusters.append(seen.items[item].place[0])
    return np.array(rows), np.array(clusters)


def _overlap(question: Question, first: dict[int, list[Given]], seen: Snapshot) -> Estimate:
    means, clusters = [], []
    for item, found in first.items():
        sets = [set(one.answers.get(question.name, ())) for one in found]
        pairs = [jaccard(one, other) for one, other in itertools.combinations(sets, 2)]
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


def jaccard(one: set[int], other: set[int]) -> float:
    """Share of what either marked that both marked; two who mark nothing agree.

    >>> jaccard({1, 2, 3}, {2, 3, 4}), jaccard(set(), set())
    (0.5, 1.0)
    """
    return len(one & other) / len(one | other) if one | other else 1.0


def gold_accuracy(seen: Snapshot) -> dict[str, Estimate]:
    """Share of the gold items that each rater got right."""
    found: dict[str, list[bool]] = {name: [] for name in seen.raters()}
    for one in seen.answered():
        gold = seen.items[one.item].gold
        if gold is not None:
            found[one.rater].append(is_accepted(gold, one.answers))
    return {name: share(sum(hits), len(hits)) for name, hits in found.items()}


def expert_accuracy(seen: Snapshot) -> dict[str, Estimate]:
    """Share of the expert's sample that each rater, and the majority of them, answered as the expert did."""
    scheme, expert = seen.study.scheme, seen.by_item("expert")
    found: dict[str, list[bool]] = {"majority": [], **{name: [] for name in seen.raters()}}
    for item, answers in seen.by_item().items():
        for right in expert.get(item, ())[:1]:
            for one in answers:
                found[one.rater].append(agrees(scheme, one.answers, right.answers))
            decided = majority(seen, answers)
            if decided is not None:
                found["majority"].append(decided == str(right.answers.get(scheme.questions[0].name)))
    return {name: share(sum(hits), len(hits)) for name, hits in found.items()} if expert else {}


def majority(seen: Snapshot, answers: list[Given]) -> str | None:
    """Return the answer to the first question that has a majority after some round, as text."""
    name, rounds = seen.study.scheme.questions[0].name, {}  # type: ignore[var-annotated]
    for one in answers:
        value = one.answers.get(name)
        if not isinstance(value, list):
            rounds.setdefault(one.round, []).append(None if value is None else str(value))
    return majority_of(list(rounds.values()))
