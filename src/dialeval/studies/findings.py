"""The findings of a study: typed records that save to one JSON file and are validated when it is read.

Undefined is an `Estimate` without a value but with a reason, never NaN. A study also stores the aligned
units that its findings were computed from, so that a report needs no scores and recomputes nothing.
"""

import json
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from dialeval import files
from dialeval.errors import DataError, UsageError
from dialeval.scores import display
from dialeval.scores.signature import EvaluationSchema, better
from dialeval.statistics import METHODS, Bin, Estimate
from dialeval.statistics.agreement import TIES
from dialeval.statistics.resampling import Draws
from dialeval.studies.units import AGGREGATES, LEVELS, Floats, Level

VERSION = "study.v2"
MOST_UNITS = 20_000  # units that a study carries; beyond that a sample of them
MOST_VALUES = 400_000  # values of all their columns together: some 8 MB of JSON
AGAIN = "run dialeval study again"
Values = tuple[float | None, ...]


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A record of a study; unknown fields and wrong types are refused."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries and lists."""
        body: dict[str, Any] = msgspec.to_builtins(self, str_keys=True)
        return body


class StudySettings(Finding, frozen=True):
    """The settings of a study, stored with it."""

    gold: str = "human"
    level: Level | None = None
    dimension: str | None = None
    aggregate: str = "mean"
    consensus: str = "mean"
    tie: str = "null"
    where: str | None = None
    combine: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    by: Literal["system", "dimension"] | None = None
    context: Literal["static", "dynamic"] | None = None
    method: str = "spearman"
    resamples: int = 10_000
    permutations: int = 10_000
    confidence: float = 0.95
    seed: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        """Refuse unknown choices before any work is done."""
        choices: dict[str, tuple[str | None, ...]] = {
            "level": (None, *LEVELS),
            "aggregate": tuple(AGGREGATES),
            "consensus": ("mean", "majority"),
            "tie": TIES,
            "by": (None, "system", "dimension"),
            "context": (None, "static", "dynamic"),
            "method": METHODS,
        }
        for name, allowed in choices.items():
            if (value := getattr(self, name)) not in allowed:
                raise UsageError(f"no {name} {value!r}; known: {', '.join(filter(None, allowed))}")
        if min(self.resamples, self.permutations, self.workers) < 1:
            raise UsageError("resamples, permutations and workers must be at least 1")
        if not 0 < self.confidence < 1:
            raise UsageError(f"confidence must be between 0 and 1, not {self.confidence}")

    @property
    def resampling(self) -> Draws:
        """The keyword arguments of a bootstrap in `statistics`."""
        return {
            "resamples": self.resamples,
            "confidence": self.confidence,
            "seed": self.seed,
            "workers": self.workers,
        }


class ScoreSpread(Finding, frozen=True):
    """The scores of one class or system: mean, standard deviation, quantiles of `QUANTILES`."""

    name: str
    n: int
    mean: float
    sd: float | None
    quantiles: tuple[float, float, float, float, float]


class GoldRatings(Finding, frozen=True):
    """The ratings that every source is compared with.

    Attributes:
        source: `human` for all raters together, or one source.
        dimension: What was rated.
        raters: Number of columns of ratings.
        n: Units with a rating.
        n_unrated: Units without.
        decided: Units whose rating was adjudicated.
        by_system: The distribution of ratings for each system.
    """

    source: str
    dimension: str
    raters: int
    n: int
    n_unrated: int
    decided: int = 0
    by_system: tuple[ScoreSpread, ...] = ()


class LeastSquares(Finding, frozen=True):
    """The least-squares fit of the gold to a source."""

    intercept: float
    slope: float


class Correlation(Finding, frozen=True):
    """The correlations of a source with the gold.

    Attributes:
        source, dimension: The column of scores.
        label: Its short name.
        n: Units that are rated and scored.
        n_unscored: Units that are rated and not scored.
        pearson, spearman, kendall: The correlations, with intervals over dialogues.
        fit: The least-squares line over the same units, if defined.
        over_systems: Pearson's r between the means of systems, if there are at least three.
    """

    source: str
    dimension: str
    label: str
    n: int
    n_unscored: int
    pearson: Estimate
    spearman: Estimate
    kendall: Estimate
    fit: LeastSquares | None = None
    over_systems: Estimate | None = None

    def of(self, method: str) -> Estimate:
        """Return the correlation by `pearson`, `spearman` or `kendall`."""
        estimate: Estimate = getattr(self, method)
        return estimate


class Difference(Finding, frozen=True):
    """The difference between two sources' correlations with the gold, and two tests of it."""

    first: str
    second: str
    method: str
    n: int
    difference: Estimate
    williams: Estimate
    permutation: Estimate
    williams_holm: float | None = None
    permutation_holm: float | None = None


class CorrelationMatrix(Finding, frozen=True):
    """The correlations between all sources, with the gold, if there is one, as the last row and column."""

    labels: tuple[str, ...] = ()
    correlations: dict[str, tuple[tuple[Estimate, ...], ...]] = msgspec.field(default_factory=dict)
    angles: tuple[Values, ...] = ()

    def __post_init__(self) -> None:
        """Refuse tables that are not square."""
        size = len(self.labels)
        tables = [self.angles, *(self.correlations.get(method, ()) for method in METHODS if size)]
        if any(len(table) != size or any(len(row) != size for row in table) for table in tables):
            raise ValueError(f"expected matrices of {size} rows and columns")


class Subset(Finding, frozen=True):
    """The correlations inside one system, or with one gold dimension."""

    name: str
    by: str
    n_units: int
    correlations: tuple[Correlation, ...]


class GoldClass(Finding, frozen=True):
    """A class of the gold, whether it is an upper one, and how many units it has."""

    label: float
    name: str
    upper: bool | None
    n: int
    share: Estimate


class GoldClasses(Finding, frozen=True):
    """The classes of the gold, and the cut between lower and upper ones.

    Attributes:
        rule: `values` if the ratings are classes, `halves` if they are split at their median.
        median: The median, for halves.
        cut: The lowest upper label.
        reason: Why there is no cut.
        n_unlabelled: Units that are rated but in no class.
        classes: The classes in ascending order.
    """

    rule: Literal["values", "halves"] = "values"
    median: float | None = None
    cut: float | None = None
    reason: str | None = None
    n_unlabelled: int = 0
    classes: tuple[GoldClass, ...] = ()


class ClassCut(Finding, frozen=True):
    """The AUC with which a source separates the units at or above a label from those below it."""

    at: float
    auc: Estimate


class ClassThreshold(Finding, frozen=True):
    """The best threshold between upper and lower on the scale of a source; see `statistics.Threshold`."""

    value: float | None
    upper: Literal["above", "below"]
    fitted: float | None
    accuracy: Estimate
    lowest: float | None
    highest: float | None
    folds: int


class ClassFinding(Finding, frozen=True):
    """How well a source separates the classes of the gold."""

    label: str
    cuts: tuple[ClassCut, ...]
    distributions: tuple[ScoreSpread, ...]
    threshold: ClassThreshold

    def at(self, cut: float | None) -> Estimate:
        """Return the AUC at a cut."""
        aucs = {class_cut.at: class_cut.auc for class_cut in self.cuts}
        return aucs.get(cut, Estimate.undefined("no such cut"))  # type: ignore[arg-type]


class CalibrationCurve(Finding, frozen=True):
    """The mean rating in bins of a source's scores."""

    label: str
    bins: tuple[Bin, ...]


class SystemMean(Finding, frozen=True):
    """The mean of a source over the units of one system."""

    system: str
    source: str
    dimension: str
    n: int
    n_unscored: int
    mean: Estimate


class SystemComparison(Finding, frozen=True):
    """The difference of two systems in one source, with its p-value before and after Holm's correction."""

    source: str
    dimension: str
    first: str
    second: str
    paired: bool
    difference: Estimate
    p: float | None
    p_holm: float | None

    def swapped(self) -> "SystemComparison":
        """Return the comparison with the second system first."""
        return replace(self, first=self.second, second=self.first, difference=self.difference.negated())


class RaterAgreement(Finding, frozen=True):
    """The agreement of the raters of one level and dimension."""

    level: str
    dimension: str
    n_units: int
    n_ratings: int
    raters: int
    labels: dict[str, int]
    dominant: float | None
    fleiss: Estimate
    fleiss_without_dominant: Estimate
    alpha: dict[Literal["nominal", "ordinal", "interval"], Estimate]
    cohen: Estimate
    raw: Estimate

    def __post_init__(self) -> None:
        """Refuse a record without one of the three alphas."""
        if len(self.alpha) != 3:
            raise ValueError("expected alpha for nominal, ordinal and interval")


class NotableUnit(Finding, frozen=True):
    """A unit to look at, why, its rating and its scores."""

    dialogue_id: str
    system: str | None
    turn: int | None
    why: str
    gold: float | None
    values: dict[str, float | None]


class FittedLine(Finding, frozen=True):
    """A least-squares line of all ratings over one source.

    Attributes:
        name: The name of its predictions as a source.
        source: The source it is fitted to.
        intercept, slope: The coefficients, with intervals and p by Student's t.
        r_squared: Share of the variance explained.
        n: Units in the fit.
        reason: Why there is no fit.
        lowest: The lowest value of the source.
        at_lowest: Share of units with that value.
    """

    name: str
    source: str
    intercept: Estimate
    slope: Estimate
    r_squared: float | None
    n: int
    reason: str | None
    lowest: float | None
    at_lowest: float | None


class ColumnCoverage(Finding, frozen=True):
    """The mean, range and counts of one source or rater in one dimension at one level."""

    source: str
    dimension: str
    level: str
    mean: float | None
    lowest: float | None
    highest: float | None
    n: int
    n_unscored: int


class NoteCount(Finding, frozen=True):
    """How often a source wrote a note instead of a score, and beside one."""

    source: str
    dimension: str
    note: str
    n_unscored: int
    n_scored: int


class LanguageCount(Finding, frozen=True):
    """The dialogues in one language (None: unknown), and those left unscored because of it."""

    language: str | None
    n: int
    n_unscored: int


class StudyUnits(Finding, frozen=True):
    """The aligned units behind the findings: the same index in every list is the same unit.

    Of more than `MOST_UNITS` units (or `MOST_VALUES` values) it holds an evenly spaced sample in the order of
    names, of rated units if there are ratings; the counts are those of all units.

    Attributes:
        n: Units of the study.
        dialogue_ids, systems, turns: The keys of the units.
        gold: Their ratings; None without a gold.
        columns: Their scores by the label of each source.
        scored: How many of all units each source scored.
    """

    n: int = 0
    dialogue_ids: tuple[str, ...] = ()
    systems: tuple[str | None, ...] = ()
    turns: tuple[int | None, ...] = ()
    gold: Values | None = None
    columns: dict[str, Values] = msgspec.field(default_factory=dict)
    scored: dict[str, int] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse lists of different lengths."""
        size = len(self.dialogue_ids)
        lists = [self.systems, self.turns, *self.columns.values()]
        if any(len(values) != size for values in lists) or len(self.gold or ()) not in (0, size):
            raise ValueError(f"expected lists of {size} units")
        if self.scored.keys() != self.columns.keys() or self.n < size:
            raise ValueError("expected a count for each column")

    def __len__(self) -> int:
        return len(self.dialogue_ids)

    def values(self, label: str) -> Floats:
        """Return the scores of a source; missing is NaN."""
        return np.array(self.columns[label], dtype=np.float64)

    @property
    def ratings(self) -> Floats | None:
        """The gold; missing is NaN."""
        return None if self.gold is None else np.array(self.gold, dtype=np.float64)

    def pairs(self, label: str) -> tuple[Floats, Floats]:
        """Return score and gold of the units that have both."""
        values, gold = self.values(label), self.ratings
        if gold is None:
            return np.array([]), np.array([])
        both = ~(np.isnan(values) | np.isnan(gold))
        return values[both], gold[both]


class Study(Finding, frozen=True, kw_only=True):
    """The findings of a study; saves to one JSON file. `print(study)` shows the correlations.

    Attributes:
        ceiling: By method, the correlation of one rater with the mean of the others.
        letters: By label, the letters of the compact letter display: two sources share a letter exactly if
            no test (Holm-corrected) finds their correlations different.
        lowest: The lowest units of each system by the gold, or else by the first source.
        languages: The languages of the dialogues, if these were given.
        runs: The run folders of the study, relative to its own folder.
    """

    version: Literal["study.v2"] = "study.v2"
    settings: StudySettings = msgspec.field(default_factory=StudySettings)
    gold: GoldRatings | None = None
    n_units: int = 0
    n_dialogues: int = 0
    correlations: tuple[Correlation, ...] = ()
    ceiling: dict[str, Estimate] = msgspec.field(default_factory=dict)
    differences: tuple[Difference, ...] = ()
    letters: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    matrix: CorrelationMatrix = msgspec.field(default_factory=CorrelationMatrix)
    subsets: tuple[Subset, ...] = ()
    labels: GoldClasses = msgspec.field(default_factory=GoldClasses)
    classes: tuple[ClassFinding, ...] = ()
    calibration: tuple[CalibrationCurve, ...] = ()
    systems: tuple[SystemMean, ...] = ()
    comparisons: tuple[SystemComparison, ...] = ()
    agreement: tuple[RaterAgreement, ...] = ()
    worst: tuple[NotableUnit, ...] = ()
    lowest: tuple[NotableUnit, ...] = ()
    lines: tuple[FittedLine, ...] = ()
    coverage: tuple[ColumnCoverage, ...] = ()
    score_notes: tuple[NoteCount, ...] = ()
    languages: tuple[LanguageCount, ...] = ()
    units: StudyUnits = msgspec.field(default_factory=StudyUnits)
    runs: tuple[str, ...] = ()
    schema: EvaluationSchema | None = None
    signatures: dict[str, str] = msgspec.field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def level(self) -> Level:
        """The level of its units."""
        return self.settings.level or "dialogue"

    @property
    def method(self) -> str:
        """The correlation that sources are ranked and tested by."""
        return self.settings.method

    @property
    def gold_name(self) -> str:
        """The source and dimension of the gold."""
        return "no gold" if self.gold is None else f"{self.gold.source} / {self.gold.dimension}"

    @property
    def illustrative(self) -> bool:
        """Return whether it has ratings whose signature says that they are invented examples."""
        return any("|illustrative:true" in signature for signature in self.signatures.values())

    @property
    def foreign(self) -> bool:
        """Return whether it has dialogues in languages other than English."""
        return any(count.language not in ("en", None) for count in self.languages)

    def as_good_as(self, label: str) -> list[str]:
        """Return the sources that do not differ significantly from one, in the order of the ranking."""
        shared = set(self.letters.get(label, ()))
        return [
            source for source, letters in self.letters.items() if source != label and shared & set(letters)
        ]

    def group(self, label: str) -> str | None:
        """Return the letters of a source as one word; None if it has no correlation."""
        letters = self.letters.get(label)
        return (
            None
            if letters is None
            else ("" if all(len(letter) == 1 for letter in letters) else " ").join(letters)
        )

    def save(self, path: str | Path) -> None:
        """Write the study as JSON."""
        files.write_text(path, self.to_json())

    def to_json(self) -> str:
        """Return the study as JSON text with a line for each finding."""
        parts = (f' "{name}": {_lines(value)}' for name, value in self.to_dict().items())
        return "{\n" + ",\n".join(parts) + "\n}\n"

    def to_dict(self) -> dict[str, Any]:
        """Return the study as plain dictionaries and lists, without the number of workers."""
        body = super().to_dict()
        del body["settings"]["workers"]
        return body

    @classmethod
    def load(cls, path: str | Path) -> "Study":
        """Read a study back.

        Raises:
            DataError: If the file is not a study, or was written by another version.
        """
        with files.open_binary(path) as file:
            body = file.read()
        try:
            version = msgspec.json.decode(body, type=_SavedVersion).version
            if version != VERSION:
                message = f"written by another version: found {version!r}, expected {VERSION!r}"
                raise DataError(message, file=path, field="version", fix=AGAIN)
            return msgspec.json.decode(body, type=cls)
        except (ValueError, RecursionError, UsageError) as error:
            message, _, index = str(error).partition(" - at `$")
            field = index.rstrip("`").lstrip(".") or ("settings" if isinstance(error, UsageError) else None)
            raise DataError(f"not a study: {message}", file=path, field=field, fix=AGAIN) from None

    def _table(self) -> tuple[str, list[str], list[list[str]]]:
        """Return the correlations as text, or, without a gold, the means of systems."""
        if self.gold is None:
            means = [
                [row.system, row.source, row.dimension, f"{row.n}", _short(row.mean)] for row in self.systems
            ]
            return "Means per system", ["system", "source", "dimension", "n", "mean"], means
        rows = [
            [row.label, f"{row.n}", *(_short(row.of(method)) for method in METHODS)]
            for row in self.correlations
        ]
        title = f"Correlation with {self.gold_name}, {self.level} level"
        return title, ["source", "n", "Pearson", "Spearman", "Kendall"], rows

    def __str__(self) -> str:
        return display.to_text(*self._table()[1:])

    def _repr_html_(self) -> str:
        return display.to_html(*self._table(), "; ".join(self.notes))

    def plot(self) -> Any:
        """Draw the correlations with their intervals (without a gold: the means of systems) by matplotlib."""
        if self.gold is None:
            rows = [(f"{row.system}: {row.source}/{row.dimension}", row.mean) for row in self.systems]
            return display.plot(rows, "mean")
        lower = {
            row.label: " (lower is better)"
            for row in self.correlations
            if better(self.signatures, row.source, row.dimension) == "lower"
        }
        rows = [(row.label + lower.get(row.label, ""), row.of(self.method)) for row in self.correlations]
        invented = "illustrative ratings, " if self.illustrative else ""
        interval = f"{invented}{100 * self.settings.confidence:g} % interval"
        return display.plot(rows, f"{self.method.capitalize()} with {self.gold_name} ({interval})")


def _short(estimate: Estimate) -> str:
    return "-" if estimate.value is None else f"{estimate.value:.3f}"


class _SavedVersion(msgspec.Struct):
    version: str


def _lines(value: Any) -> str:
    """Return a value as JSON: a list of records with a line for each."""
    if isinstance(value, list | tuple) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(f"  {_lines(record)}" for record in value) + "\n ]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
