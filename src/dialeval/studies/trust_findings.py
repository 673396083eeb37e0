"""The findings of `trust`: typed records for each source, and the sentences made from them.

Undefined is an `Estimate` without a value but with a reason.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from dialeval import files
from dialeval.errors import DataError
from dialeval.statistics import Bin, Estimate
from dialeval.studies.findings import Finding

VERSION = "trust.v1"
NOT_ASKED = Estimate.undefined("not computed")


class MeanEstimate(Finding, frozen=True):
    """The mean rating of one system, or of all (`system` None), over every dialogue that was scored.

    Attributes:
        system: Its name.
        n_units: Units that the judge scored.
        n_labels: Scored units with a label.
        labels: From the labels alone.
        powered: From labels and scores (prediction-powered).
        calibrated: Prediction-powered, with scores calibrated to the ratings by isotonic regression.
        naive: The mean of the scores, as if they were ratings.
        corrected: For yes/no verdicts, corrected by sensitivity and specificity.
        weight: The weight of the scores in `powered`.
        worth: The number of additional labels that would give the same precision without the judge.
    """

    system: str | None
    n_units: int
    n_labels: int
    labels: Estimate
    powered: Estimate
    calibrated: Estimate
    naive: Estimate
    corrected: Estimate = NOT_ASKED
    weight: float | None = None
    worth: float | None = None


class MeanDifference(Finding, frozen=True):
    """The difference of two systems' mean ratings; p after Holm's correction over the pairs."""

    first: str
    second: str
    paired: bool
    labels: Estimate
    powered: Estimate
    p_holm: float | None = None


class RaterReplacement(Finding, frozen=True):
    """The alternative annotator test, for the judge and for a constant answer.

    Attributes:
        winning_rate: Share of raters that the judge wins against; it passes at .5 or more.
        advantage: Probability of being at least as good as a rater.
        epsilon: The cost of a rater.
        alignment: `accuracy`, or `distance` for scores that are not labels of the scale.
        raters: Number of raters.
        constant_winning_rate, constant_advantage: The same for a constant answer.
        reason: Why there is no test.
    """

    winning_rate: float | None
    advantage: float | None
    epsilon: float
    alignment: str
    raters: int
    constant_winning_rate: float | None = None
    constant_advantage: float | None = None
    reason: str | None = None

    @property
    def passed(self) -> bool:
        """Return whether the judge wins against half of the raters, and a constant answer does not."""
        return (self.winning_rate or 0.0) >= 0.5 > (self.constant_winning_rate or 0.0)


class JudgeAgreement(Finding, frozen=True):
    """The agreement of judge and people on the labels of the scale, and the share of each label."""

    n: int
    ac1: Estimate
    alpha: Estimate
    raw: Estimate
    people: dict[str, float]
    judge: dict[str, float]


class Bias(Finding, frozen=True):
    """A dependence of the score on something other than the rating.

    Attributes:
        kind: `correlation` (partial, given the rating) or `difference` (of score minus rating, on the scale
            of the ratings, between this group and the rest).
        name: The trait, or the group.
        estimate: The correlation or difference, with its interval.
        p_holm: The p-value corrected over all traits and groups.
    """

    kind: Literal["correlation", "difference"]
    name: str
    estimate: Estimate
    p_holm: float | None = None


class Disagreement(Finding, frozen=True):
    """A unit whose score, calibrated to the ratings, is far from its rating."""

    dialogue_id: str
    system: str | None
    turn: int | None
    score: float
    predicted: float
    rating: float


class SourceTrust(Finding, frozen=True):
    """How far one source can be trusted.

    Attributes:
        verdict: One sentence.
        reasons: The reasons for the verdict, a sentence each.
        usable: Whether there are any estimates.
        outside: Scored units outside the range of labelled scores.
        excluded: Whether these are too many for a random sample, and so left out of all estimates.
        typical: The p-value of the difference in mean score between labelled and unlabelled units.
        half_width: Half the width of the conformal interval of one unit.
    """

    source: str
    dimension: str
    label: str
    verdict: str
    reasons: tuple[str, ...] = ()
    usable: bool = True
    n_labels: int = 0
    n_scored: int = 0
    n_unscored: int = 0
    correlation: Estimate = NOT_ASKED
    estimates: tuple[MeanEstimate, ...] = ()
    differences: tuple[MeanDifference, ...] = ()
    replacement: RaterReplacement | None = None
    agreement: JudgeAgreement | None = None
    calibration: tuple[Bin, ...] = ()
    biases: tuple[Bias, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()
    outside: int = 0
    excluded: bool = False
    typical: float | None = None
    half_width: float | None = None


class Change(Finding, frozen=True):
    """The scores of a source before and after a change that should not matter: a rerun, a date, a form.

    Attributes:
        label: The source.
        change: What was changed.
        n: Units scored both times.
        shift: Mean of after minus before.
        spread: Within-unit standard deviation.
        flips: Share of units that cross the median (of yes/no verdicts, that change).
        equal: Share of units with exactly the same score.
        largest: The largest absolute change of one unit.
    """

    label: str
    change: str
    n: int
    shift: Estimate
    spread: float | None = None
    flips: Estimate = NOT_ASKED
    equal: float | None = None
    largest: float | None = None


class Trust(Finding, frozen=True, kw_only=True):
    """How far each source can be trusted; saves to one JSON file."""

    version: Literal["trust.v1"] = "trust.v1"
    gold: str = "human"
    dimension: str = ""
    level: str = "dialogue"
    confidence: float = 0.95
    n_units: int = 0
    n_labels: int = 0
    raters: int = 0
    lowest: float | None = None
    highest: float | None = None
    ceiling: Estimate = NOT_ASKED
    sources: tuple[SourceTrust, ...] = ()
    changes: tuple[Change, ...] = ()
    signatures: dict[str, str] = msgspec.field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        """Return JSON with a line for each value."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    @classmethod
    def load(cls, path: str | Path) -> "Trust":
        """Read a file written from `to_json`."""
        with files.open_binary(path) as file:
            body = file.read()
        try:
            return msgspec.json.decode(body, type=cls)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"not a result of dialeval trust: {error}", file=path, fix="run dialeval trust again"
            ) from None


# --- verdicts and reasons in sentences ----------------------------------------------------------------------

WORTHWHILE = 0.1  # a judge helps if it is worth this share of the labels
SIGNIFICANT = 0.05
FEW = 30  # labels; with fewer, the worth of a judge is mostly chance


def with_verdict(source: SourceTrust, dimension: str) -> SourceTrust:
    """Return the source with its verdict and reasons; an unusable one has its verdict already."""
    if not source.usable:
        return source
    return replace(source, verdict=_verdict(source), reasons=tuple(_reasons(source, dimension)))


def _verdict(source: SourceTrust) -> str:
    overall = source.estimates[0]
    misleading = " Its own mean misleads." if _misleads(overall) else ""
    if source.replacement is not None and source.replacement.passed:
        return f"{source.label} may replace a rater.{misleading}"
    if overall.n_labels == overall.n_units:
        return f"{source.label} is not needed: every unit it scored is labelled.{misleading}"
    if overall.worth is None:
        return f"{source.label}: no estimate over all systems ({overall.powered.reason}).{misleading}"
    if overall.n_labels < FEW:
        return f"{source.label}: {overall.n_labels} labels are too few to tell whether it helps.{misleading}"
    if overall.worth >= WORTHWHILE * overall.n_labels:
        return f"{source.label} helps in addition to labels, not instead of them.{misleading}"
    return f"{source.label} adds nothing to the labels: use these alone.{misleading}"


def _misleads(mean: MeanEstimate) -> bool:
    """Return whether the intervals of mean score and mean rating do not overlap."""
    naive, true = mean.naive, mean.powered
    if None in (naive.low, naive.high, true.low, true.high):
        return False
    return bool(naive.low > true.high or naive.high < true.low)  # type: ignore[operator]


def _reasons(source: SourceTrust, dimension: str) -> Iterator[str]:
    overall = source.estimates[0]
    if overall.powered.value is not None:
        yield f"mean {dimension} of all {overall.n_units:,}: {figure(overall.powered)}"
        yield f"by the {overall.n_labels:,} labels alone: {figure(overall.labels)}"
    if _misleads(overall):
        off = (overall.naive.value or 0.0) - (overall.powered.value or 0.0)
        yield f"its own mean is {figure(overall.naive)}: off by {off:+.2f}"
    if overall.worth is not None and overall.n_labels < overall.n_units:
        yield _worth(overall)
    elif overall.n_labels == overall.n_units and source.correlation.value is not None:
        most = 100 / (1 - min(source.correlation.value**2, 0.99))
        yield f"with few labels, 100 labels with it would tell as much as {most:.0f} without, at most"
    yield from _samples(source)
    yield from _about_rater(source)
    yield from _about_systems(source)
    for bias in source.biases:
        if bias.p_holm is not None and bias.p_holm < SIGNIFICANT and bias.estimate.value is not None:
            more, direction = ("more", "rises") if bias.estimate.value > 0 else ("less", "falls")
            if bias.kind == "correlation":
                yield f"at equal ratings it {direction} with {bias.name}: r = {figure(bias.estimate)}"
            else:
                yield f"{bias.name} gets {more} than from people, unlike the rest: {figure(bias.estimate)}"
    is_share = source.agreement is not None and len(source.agreement.people) == 2
    if source.half_width is not None and not is_share:
        yield f"it predicts the rating of one unit to ± {source.half_width:.2f}"


def _worth(mean: MeanEstimate) -> str:
    n, more = mean.n_labels, round(mean.worth or 0.0)
    if more < 1:
        return f"worth no label: {n} labels tell as much without it"
    return f"worth {more:,} labels: {n:,} labels with it tell as much as {n + more:,} without"


def _samples(source: SourceTrust) -> Iterator[str]:
    """Yield sentences on whether the labels are a random sample of the scored units."""
    if source.excluded:
        yield f"{source.outside:,} units are outside the range of labelled scores: left out of all estimates"
    elif source.outside:
        yield f"{source.outside:,} units are outside the range of labelled scores, no more than by chance"
    if source.typical is not None and source.typical < SIGNIFICANT / 5:
        yield (
            f"labelled units differ in score from the rest (p = {source.typical:.2g}): "
            "if they were not drawn at random, no estimate here is valid"
        )
    if source.n_unscored:
        yield f"{source.n_unscored:,} units are unscored and left out"


def _about_rater(source: SourceTrust) -> Iterator[str]:
    test = source.replacement
    if test is None:
        yield "only one rater: whether it may replace one cannot be tested"
    elif test.winning_rate is None:
        yield f"whether it may replace a rater cannot be tested: {test.reason}"
    else:
        won, constant = (
            round((rate or 0.0) * test.raters) for rate in (test.winning_rate, test.constant_winning_rate)
        )
        figures = (
            f"it wins against {won} of {test.raters} and is as good as one in {test.advantage:.0%}; "
            f"a constant answer: {constant} and {test.constant_advantage:.0%}"
        )
        if test.winning_rate >= 0.5 and not test.passed:
            yield f"raters differ so much that even a constant answer passes the test: {figures}"
        else:
            yield f"it {'may' if test.passed else 'may not'} replace a rater: {figures}"


def _about_systems(source: SourceTrust) -> Iterator[str]:
    """Yield the significant differences between systems, and the number of the others."""
    significant = [
        difference
        for difference in source.differences
        if difference.p_holm is not None and difference.p_holm < SIGNIFICANT
    ]
    for difference in significant[:3]:
        yield _better(difference)
    if source.differences and len(significant) < len(source.differences):
        rest = len(source.differences) - len(significant)
        yield f"{rest} of {len(source.differences)} differences between systems are not significant"


def _better(difference: MeanDifference) -> str:
    names, gap = (difference.first, difference.second), difference.powered
    if (gap.value or 0.0) < 0:
        names, gap = names[::-1], gap.negated()
    return f"{names[0]} is better than {names[1]} by {figure(gap)}, p = {difference.p_holm:.2g} (Holm)"


def figure(estimate: Estimate) -> str:
    """Return an estimate with its interval as text.

    >>> figure(Estimate(0.756, 20, 0.7, 0.8))
    '0.76 [0.70, 0.80]'
    """
    if estimate.value is None:
        return f"unknown ({estimate.reason})"
    return f"{estimate.value:.2f}" + (
        "" if estimate.low is None else f" [{estimate.low:.2f}, {estimate.high:.2f}]"
    )
