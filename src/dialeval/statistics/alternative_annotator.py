"""May a judge replace a rater? The alternative annotator test of Calderon, Reichart and Dror (ACL 2025).

Each rater in turn is left out, and the judge is compared with that rater by how well either agrees with the
raters who are left. The judge wins against a rater if it is at least as good more often than the rater is,
less `epsilon`: what a rater costs in time and money, in points of probability. The *winning rate* is the
share of raters it wins against, after Benjamini and Yekutieli's correction; from .5 on the judge may stand in
for a rater. The *advantage probability* is how often it is at least as good as a rater drawn at random.

Against raters who differ widely, always saying the same can win, most of all by distance. So the test is
worth reading only beside what a constant answer gets (`floor`).
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
    """The judge against one rater: how often each is at least as good, and the p-value of the judge's win."""

    rater: int
    n: int
    judge: float
    human: float
    p: float


@dataclass(frozen=True, slots=True)
class Replacement:
    """The outcome of the test; figures are None with a reason where nobody could be compared.

    Attributes:
        winning_rate: Share of raters that the judge wins against.
        advantage: Mean probability of being at least as good as a rater.
        epsilon: What a rater costs.
        alignment: How agreement was measured.
        raters: Each rater that rated enough.
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
    """Test whether a judge may stand in for a rater.

    Args:
        scores: What the judge says of each unit, on the scale of the ratings.
        ratings: Units x raters; units with fewer than two ratings or no score are left out.
        clusters: Dialogue of each unit; the t-test is over clusters.
        alignment: `accuracy` (share of the other raters who say the same) or `distance` (root mean squared
            distance from them).
        epsilon: What a rater costs; see `EPSILONS`.
        q: False discovery rate.
        fewest_units: A rater with fewer is not compared.

    >>> people = np.array([[1, 1, 1], [0, 0, 1], [1, 1, 0], [0, 0, 0]] * 10)
    >>> found = alternative_annotator([1, 0, 1, 0] * 10, people)
    >>> found.winning_rate, round(found.advantage, 3)
    (1.0, 1.0)
    """
    from scipy import stats

    judged, given = vector(scores), matrix(ratings)
    if judged.size != len(given):
        raise UsageError(f"{judged.size} scores but {len(given)} rows of ratings")
    given = np.where(np.isnan(judged)[:, None] | ((~np.isnan(given)).sum(axis=1) < 2)[:, None], np.nan, given)
    compared = [
        _against(rater, judged, given, clusters, alignment, epsilon)
        for rater in range(given.shape[1])
        if (~np.isnan(given[:, rater])).sum() >= fewest_units
    ]
    if not compared:
        reason = f"no rater shares {fewest_units} scored units with another"
        return Replacement(None, None, epsilon, alignment, reason=reason)
    corrected = stats.false_discovery_control([one.p for one in compared], method="by")
    advantage = float(np.mean([one.judge for one in compared]))
    return Replacement(float(np.mean(corrected <= q)), advantage, epsilon, alignment, tuple(compared))


def floor(ratings: Matrix, clusters: Vector | None = None, **options: Any) -> Replacement:
    """Test an answer that is always the same: the most frequent rating, or by distance the mean one."""
    given = matrix(ratings)
    known = given[~np.isnan(given)]
    if options.get("alignment") == "distance":
        constant = float(known.mean())
    else:
        values, counts = np.unique(known, return_counts=True)
        constant = float(values[counts.argmax()])
    return alternative_annotator(np.full(len(given), constant), given, clusters, **options)


def _against(
    rater: int, judged: Floats, given: Floats, clusters: Vector | None, alignment: Alignment, epsilon: float
) -> AgainstRater:
    from scipy import special

    rows = np.flatnonzero(~np.isnan(given[:, rater]))
    others = np.delete(given[rows], rater, axis=1)
    own, theirs = (_alignment(said, others, alignment) for said in (judged[rows], given[rows, rater]))
    slack = 1e-12  # equal but for rounding is equal
    judge, human = own >= theirs - slack, theirs >= own - slack
    gap = mean_of(
        human.astype(float) - judge - epsilon, None if clusters is None else np.asarray(clusters)[rows]
    )
    error = gap.error * np.sqrt((gap.df + 1) / gap.df) if gap.df > 0 else 0.0
    p = float(special.stdtr(gap.df, gap.value / error)) if error > 0 else float(gap.value >= 0)
    return AgainstRater(rater, rows.size, float(judge.mean()), float(human.mean()), p)


def _alignment(said: Floats, others: Floats, how: Alignment) -> Floats:
    known = ~np.isnan(others)
    each = others == said[:, None] if how == "accuracy" else (others - said[:, None]) ** 2
    mean: Floats = np.where(known, each, 0.0).sum(axis=1) / known.sum(axis=1)
    return mean if how == "accuracy" else -np.sqrt(mean)
