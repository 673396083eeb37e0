"""What `trust` finds: typed records, one of each source, that save to one JSON file, and their words.

Undefined is an `Estimate` without a value but with a reason. `verdict` and `reasons` say in words what the
figures say.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

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
        n_labels: Those of them that people rated.
        labels: From the labels alone.
        powered: From labels and scores (prediction-powered).
        calibrated: The same from scores that were first calibrated to the ratings by an isotonic curve.
        naive: The mean of the scores, as if they were ratings.
        corrected: For yes/no verdicts, corrected by sensitivity and specificity.
        weight: How much of a score counts in `powered`.
        worth: How many more labels would tell as much without the judge.
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
    """The alternative annotator test, beside what an answer that is always the same would get.

    Attributes:
        winning_rate: Share of raters that the judge wins against; from .5 on it passes.
        advantage: Probability of being at least as good as a rater.
        epsilon: What a rater costs.
        alignment: `accuracy`, or `distance` for scores that are no labels of the scale.
        raters: How many were compared.
        constant_winning_rate, constant_advantage: Of the answer that is always the same.
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
        """Whether it wins against half of the raters, and a constant answer does not."""
        return (self.winning_rate or 0.0) >= 0.5 > (self.constant_winning_rate or 0.0)


class JudgeAgreement(Finding, frozen=True):
    """The judge beside people on the labels of the scale: agreement and how often each label is used."""

    n: int
    ac1: Estimate
    alpha: Estimate
    raw: Estimate
    people: dict[str, float]
    judge: dict[str, float]


class Bias(Finding, frozen=True):
    """What moves the score apart from the rating.

    Attributes:
        kind: `correlation` (partial, given the rating) or `difference` (score on the scale of the ratings
            less rating, in this part against the rest).
        name: The trait, or the part.
        estimate: With its interval.
        p_holm: Corrected over all that were looked at.
    """

    kind: Literal["correlation", "difference"]
    name: str
    estimate: Estimate
    p_holm: float | None = None


class Disagreement(Finding, frozen=True):
    """A unit to read: the score on the scale of the ratings is far from the rating."""

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
        reasons: What it stands on, a sentence each.
        usable: Whether there are figures at all.
        outside: Scored units beyond the labelled scores.
        excluded: Whether these are more than chance leaves, and so not in any estimate.
        typical: Whether labelled and unlabelled units score alike: p of the difference of their mean scores.
        half_width: Of a conformal interval for one unit.
        held: Share of labelled units whose rating lies in it, held out.
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
    """A source before and after something that should not matter: another run, another date, another form.

    Attributes:
        label: The source.
        change: What was changed.
        n: Units scored both times.
        shift: Mean of after less before.
        spread: Standard deviation of one unit over the two.
        flips: Share of units that change sides of the median (of yes/no, that change).
        equal: Share that stays the same to the last digit.
        largest: The largest change of one unit.
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
    """What can be said of each source; saves to one JSON file."""

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
        """Read what `save` wrote."""
        with files.open_binary(path) as file:
            body = file.read()
        try:
            return msgspec.json.decode(body, type=cls)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"not a file of trust: {error}", file=path, fix="run dialeval trust again"
            ) from None


# --- the same in plain words: one sentence, and what it stands on -------------------------------------------

WORTHWHILE = 0.1  # of the labels: from so many more on, a judge is worth its trouble
SIGNIFICANT = 0.05
FEW = 30  # labels, of which what a judge is worth is mostly chance


def words(found: SourceTrust, dimension: str) -> dict[str, str | tuple[str, ...]]:
    """Say what was found of a source; what cannot be used has said so already."""
    if not found.usable:
        return {}
    return {"verdict": _verdict(found), "reasons": tuple(_reasons(found, dimension))}


def _verdict(found: SourceTrust) -> str:
    every = found.estimates[0]
    alone = " Its own mean misleads." if _misleads(every) else ""
    if found.replacement is not None and found.replacement.passed:
        return f"{found.label} may stand in for a rater.{alone}"
    if every.n_labels == every.n_units:
        return f"{found.label} is not needed here: every unit it scored is labelled.{alone}"
    if every.worth is None:
        return f"{found.label}: no estimate over all systems ({every.powered.reason}).{alone}"
    if every.n_labels < FEW:
        return f"{found.label}: {every.n_labels} labels are too few to tell whether it helps.{alone}"
    if every.worth >= WORTHWHILE * every.n_labels:
        return f"{found.label} helps, beside labels and not instead of them.{alone}"
    return f"{found.label} adds nothing to the labels: use these alone.{alone}"


def _misleads(one: MeanEstimate) -> bool:
    """Whether the interval of the mean score and that of the mean rating have nothing in common."""
    naive, true = one.naive, one.powered
    if None in (naive.low, naive.high, true.low, true.high):
        return False
    return bool(naive.low > true.high or naive.high < true.low)  # type: ignore[operator]


def _reasons(found: SourceTrust, dimension: str) -> Iterator[str]:
    every = found.estimates[0]
    if every.powered.value is not None:
        yield f"mean {dimension} of all {every.n_units:,}: {figure(every.powered)}"
        yield f"by the {every.n_labels:,} labels alone: {figure(every.labels)}"
    if _misleads(every):
        off = (every.naive.value or 0.0) - (every.powered.value or 0.0)
        yield f"its own mean is {figure(every.naive)}: off by {off:+.2f}"
    if every.worth is not None and every.n_labels < every.n_units:
        yield _worth(every)
    elif every.n_labels == every.n_units and found.correlation.value is not None:
        most = 100 / (1 - min(found.correlation.value**2, 0.99))
        yield f"where few are labelled, 100 labels with it would tell as much as {most:.0f} without, at most"
    yield from _samples(found)
    yield from _about_rater(found)
    yield from _about_systems(found)
    for bias in found.biases:
        if bias.p_holm is not None and bias.p_holm < SIGNIFICANT and bias.estimate.value is not None:
            more, way = ("more", "rises") if bias.estimate.value > 0 else ("less", "falls")
            if bias.kind == "correlation":
                yield f"at equal ratings it {way} with {bias.name}: r = {figure(bias.estimate)}"
            else:
                yield f"{bias.name} gets {more} than people give, against the rest: {figure(bias.estimate)}"
    is_share = found.agreement is not None and len(found.agreement.people) == 2
    if found.half_width is not None and not is_share:
        yield f"of one unit it knows the rating to ± {found.half_width:.2f}"


def _worth(every: MeanEstimate) -> str:
    n, more = every.n_labels, round(every.worth or 0.0)
    if more < 1:
        return f"worth no label: {n} labels tell as much without it"
    return f"worth {more:,} labels: {n:,} labels with it tell as much as {n + more:,} without"


def _samples(found: SourceTrust) -> Iterator[str]:
    """Whether labels are a sample of what was scored."""
    if found.excluded:
        yield f"{found.outside:,} units score beyond every labelled one: no estimate speaks of them"
    elif found.outside:
        yield f"{found.outside:,} units score beyond the labelled ones, no more than chance leaves there"
    if found.typical is not None and found.typical < SIGNIFICANT / 5:
        yield (
            f"labelled units score otherwise than the rest (p = {found.typical:.2g}): if they were not drawn "
            "at random, no figure here holds"
        )
    if found.n_unscored:
        yield f"{found.n_unscored:,} units are unscored: nothing is said of them"


def _about_rater(found: SourceTrust) -> Iterator[str]:
    test = found.replacement
    if test is None:
        yield "one rater only: whether it may replace one cannot be tested"
    elif test.winning_rate is None:
        yield f"whether it may replace a rater cannot be tested: {test.reason}"
    else:
        won, constant = (
            round((one or 0.0) * test.raters) for one in (test.winning_rate, test.constant_winning_rate)
        )
        figures = (
            f"it wins against {won} of {test.raters} and is as good as one in {test.advantage:.0%}; "
            f"always the same answer: {constant} and {test.constant_advantage:.0%}"
        )
        if test.winning_rate >= 0.5 and not test.passed:
            yield f"raters differ so much that any answer may replace one, which says nothing: {figures}"
        else:
            yield f"it {'may' if test.passed else 'may not'} replace a rater: {figures}"


def _about_systems(found: SourceTrust) -> Iterator[str]:
    """The differences that are there, and how many are not."""
    sure = [one for one in found.differences if one.p_holm is not None and one.p_holm < SIGNIFICANT]
    for one in sure[:3]:
        yield _better(one)
    if found.differences and len(sure) < len(found.differences):
        rest = len(found.differences) - len(sure)
        yield f"{rest} of {len(found.differences)} differences between systems are not settled"


def _better(one: MeanDifference) -> str:
    names, gap = (one.first, one.second), one.powered
    if (gap.value or 0.0) < 0:
        names, gap = names[::-1], gap.turned()
    return f"{names[0]} is better than {names[1]} by {figure(gap)}, p = {one.p_holm:.2g} (Holm)"


def figure(one: Estimate) -> str:
    """Write an estimate for a sentence.

    >>> figure(Estimate(0.756, 20, 0.7, 0.8))
    '0.76 [0.70, 0.80]'
    """
    if one.value is None:
        return f"unknown ({one.reason})"
    return f"{one.value:.2f}" + ("" if one.low is None else f" [{one.low:.2f}, {one.high:.2f}]")
