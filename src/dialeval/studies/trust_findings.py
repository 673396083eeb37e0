"""What `trust` finds: typed records, one of each source, that save to one JSON file.

Undefined is an `Estimate` without a value but with a reason. `verdict` and `reasons` say in words what the
figures say.
"""

from pathlib import Path
from typing import Any, Literal

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

    def to_dict(self) -> dict[str, Any]:
        """Return plain dictionaries and lists."""
        body: dict[str, Any] = msgspec.to_builtins(self)
        return body

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
