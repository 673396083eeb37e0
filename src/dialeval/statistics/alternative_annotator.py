"""The alternative annotator test of Calderon, Reichart and Dror (ACL 2025): may a judge replace a rater?

Each rater in turn is left out, and judge and rater are compared by their agreement with the other raters. The
judge wins against a rater if it is at least as good more often than the rater is, minus `epsilon`: the cost
of a rater in time and money, as a probability. The *winning rate* is the share of raters it wins against,
after Benjamini and Yekutieli's correction; at .5 or more the judge may replace a rater. The *advantage
probability* is how often it is at least as good as a random rater.

Against raters who differ widely, a constant answer can win, above all by distance. So the test should be read
together with that of a constant answer (`floor`).
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from dialeval.errors import UsageError
from dialeval.statistics.estimate import Floats, Matrix, Vector, matrix, vector
from dialeval.statistics.prediction_powered import mean_of

Alignment = Literal["accuracy", "distance"]
EPSILONS = {"crowd": 0.1, "skilled": 0.15, "expert": 0.2}  # as the authors suggest, by who the raters are
FEWEST_UNITS = 30


@dataclass(frozen=True, slots=True)
class AgainstRater:
    """The judge compared with one rater: how often each is at least as good, and the p-value of a win."""

    rater: int
    n: int
    judge: float
    human: float
    p: float


@dataclass(frozen=True, slots=True)
class Replacement:
    """The result of the test; figures are None with a reason if no rater could be compared.

    Attributes:
        winning_rate: Share of raters that the judge wins against.
        advantage: Mean probability of being at least as good as a rater.
        epsilon: The cost of a rater.
        alignment: The measure of agreement.
        raters: The raters with enough ratings.
        reason: Why there are no figures.
    """

    winning_rate: float | None
    advantage: float | None
    epsilon: float
    alignment: Alignment
    raters: tuple[AgainstRater, ...] = field(default=())
    reason: str | None = None


def alternative_annotator(
    scores: Vector,
    ratings: Matrix,
    clusters: Vector | None = None,
    *,
    alignment: Alignment = "accuracy",
    epsilon: float = 0.2,
    q: float = 0.05,
    fewest_units: int = FEWEST_UNITS,
) -> Replacement:
    """Test whether a judge may replace a rater.

    Args:
        scores: The judge's answer for each unit, on the scale of the ratings.
        ratings: Units x raters; units with fewer than two ratings or no score are left out.
        clusters: Dialogue of each unit; the t-test is over clusters.
        alignment: `accuracy` (share of the other raters with the same answer) or `distance` (root mean
            squared distance from them).
        epsilon: The cost of a rater; see `EPSILONS`.
        q: False discovery rate.
        fewest_units: Raters with fewer units are left out.

    >>> people = np.array([[1, 1, 1], [0, 0, 1], [1, 1, 0], [0, 0, 0]] * 10)
    >>> result = alternative_annotator([1, 0, 1, 0] * 10, people)
    >>> result.winning_rate, round(result.advantage, 3)
    (1.0, 1.0)
    """
    from scipy import stats

    judged, people = vector(scores), matrix(ratings)
    if judged.size != len(people):
        raise UsageError(f"{judged.size} scores but {len(people)} rows of ratings")
    people = np.where(
        np.isnan(judged)[:, None] | ((~np.isnan(people)).sum(axis=1) < 2)[:, None], np.nan, people
    )
    compared = [
        _against(rater, judged, people, clusters, alignment, epsilon)
        for rater in range(people.shape[1])
        if (~np.isnan(people[:, rater])).sum() >= fewest_units
    ]
    if not compared:
        reason = f"no rater shares {fewest_units} scored units with another"
        return Replacement(None, None, epsilon, alignment, reason=reason)
    corrected = stats.false_discovery_control([rater.p for rater in compared], method="by")
    advantage = float(np.mean([rater.judge for rater in compared]))
    return Replacement(float(np.mean(corrected <= q)), advantage, epsilon, alignment, tuple(compared))


def floor(ratings: Matrix, clusters: Vector | None = None, **options: Any) -> Replacement:
    """Test a constant answer: the most frequent rating, or by distance the mean one."""
    people = matrix(ratings)
    rated = people[~np.isnan(people)]
    if options.get("alignment") == "distance":
        constant = float(rated.mean())
    else:
        values, counts = np.unique(rated, return_counts=True)
        constant = float(values[counts.argmax()])
    return alternative_annotator(np.full(len(people), constant), people, clusters, **options)


def _against(
    rater: int, judged: Floats, people: Floats, clusters: Vector | None, alignment: Alignment, epsilon: float
) -> AgainstRater:
    from scipy import special

    rows = np.flatnonzero(~np.isnan(people[:, rater]))
    other_raters = np.delete(people[rows], rater, axis=1)
    judge_fit, rater_fit = (
        _alignment(answers, other_raters, alignment) for answers in (judged[rows], people[rows, rater])
    )
    slack = 1e-12  # equal but for rounding is equal
    judge, human = judge_fit >= rater_fit - slack, rater_fit >= judge_fit - slack
    gap = mean_of(
        human.astype(float) - judge - epsilon, None if clusters is None else np.asarray(clusters)[rows]
    )
    error = gap.corrected_error
    p = float(special.stdtr(gap.df, gap.value / error)) if error > 0 else float(gap.value >= 0)
    return AgainstRater(rater, rows.size, float(judge.mean()), float(human.mean()), p)


def _alignment(answers: Floats, other_raters: Floats, method: Alignment) -> Floats:
    rated = ~np.isnan(other_raters)
    match = (
        other_raters == answers[:, None] if method == "accuracy" else (other_raters - answers[:, None]) ** 2
    )
    mean: Floats = np.where(rated, match, 0.0).sum(axis=1) / rated.sum(axis=1)
    return mean if method == "accuracy" else -np.sqrt(mean)
