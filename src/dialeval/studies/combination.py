"""New sources made of others: the plain average, the average after z-scoring, fitted weights, a fitted line.

FlowEval's "+ SOTA" rows are plain averages of two metrics. Fitted weights come from a ridge regression that
never sees the group it predicts: leave-one-dialogue-out, leave-one-system-out, or k folds of dialogues. A
line is fitted by least squares to one source, by default leave-one-dialogue-out: Voted Appropriateness is
such a line through the number of votes. It says nothing of units that the source is silent about. A line is
fitted once to everything, to be reported and used elsewhere, and once for each conversation to all the other
ones, so that no rating helps to predict itself. Systems that gave the same reply in a context count once, as
in the paper, unless `pairs=all`. Those predictions are scores like any others: a figure for a
system is their mean.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dialeval.errors import UsageError
from dialeval.scores import Score, Scores, Signature, is_human
from dialeval.statistics import kfold_groups, ols, ridge_out_of_group, zscore
from dialeval.studies.findings import FittedLine, StudySettings
from dialeval.studies.units import Column, Floats, Level, Places, Units, align, mean_over

LINE = "line"
METHODS = ("mean", "zmean", "fit", LINE)
DIMENSION = "combined"
Replies = Mapping[tuple[str, int | None, str | None], str]  # dialogue, turn and system: what was said there


@dataclass(frozen=True, slots=True)
class Combination:
    """A recipe for one source of several, as in `both=zmean:floweval+flow`.

    >>> Combination.parse("both=fit:floweval+flow,folds=5")
    Combination(name='both', method='fit', parts=('floweval', 'flow'), folds='5', pairs='distinct')
    """

    name: str
    method: str
    parts: tuple[str, ...]
    folds: str = "10"
    pairs: str = "distinct"
    """Of a line: whether systems that said the same in a context count once (`distinct`) or each (`all`)."""

    @classmethod
    def parse(cls, text: str) -> "Combination":
        """Read `name=method:part+part[,folds=10|dialogue|system][,pairs=distinct|all]`."""
        name, equals, rest = text.partition("=")
        method, colon, rest = rest.partition(":")
        parts, *options = rest.split(",")
        given = dict(one.partition("=")[::2] for one in options)
        folds = given.pop("folds", "") or ("dialogue" if method == LINE else "10")
        pairs = given.pop("pairs", "distinct")
        known = method in METHODS and pairs in ("distinct", "all") and not given
        if not (name and equals and colon and parts and known):
            methods = "|".join(METHODS)
            raise UsageError(
                f"--combine {text!r}: expected name={methods}:part+part[,folds=10|dialogue|system]"
                "[,pairs=distinct|all]"
            )
        if method == LINE and "+" in parts:
            raise UsageError(f"--combine {text!r}: a line goes through one source; fit weighs several")
        return cls(name, method, tuple(parts.split("+")), folds, pairs)

    @property
    def signature(self) -> Signature:
        """The signature of the new source."""
        number = int(self.folds) if self.folds.isdecimal() else self.folds
        folds: dict[str, object] = {"folds": number} if self.method in ("fit", LINE) else {}
        pairs = {"pairs": self.pairs} if self.method == LINE else {}
        return Signature.of("combination.v1", {"method": self.method, "parts": self.parts, **folds, **pairs})


def combine(
    units: Units,
    combination: Combination,
    gold: Floats | None,
    seed: int = 0,
    lower: frozenset[Column] = frozenset(),
    replies: Replies | None = None,
) -> Units:
    """Add a combined source to the units.

    A plain mean takes the parts as they are. A mean of z-scores turns the sign of the columns in `lower`, of
    which less is better; fitted weights find the sign themselves.
    """
    by_label = columns_by_name(units)
    missing = [part for part in combination.parts if part not in by_label]
    if missing:
        raise UsageError(
            f"--combine {combination.name}: no source {missing[0]!r}; there are: {', '.join(by_label)}"
        )
    parts = np.vstack([units.columns[by_label[part]] for part in combination.parts])
    if combination.method == "mean":
        made = np.mean(parts, axis=0)
    elif combination.method == "zmean":
        signs = np.array([-1.0 if by_label[part] in lower else 1.0 for part in combination.parts])
        made = np.mean(signs[:, None] * np.vstack([zscore(part) for part in parts]), axis=0)
    elif gold is None:
        raise UsageError(f"--combine {combination.name}: fitted weights need ratings to fit to")
    elif combination.method == LINE:
        known, first = ~np.isnan(parts[0]), _first_of_pair(units, parts[0], gold, combination, replies)
        groups = _groups(units, combination.folds, seed)
        made, fitted = np.full(len(units), np.nan), known & (first == np.arange(len(units)))
        made[fitted] = ridge_out_of_group(parts.T[fitted], gold[fitted], groups[fitted], alpha=0.0)
        made[known] = made[first[known]]
    else:
        made = ridge_out_of_group(parts.T, gold, _groups(units, combination.folds, seed))
    return units.with_columns({Column(combination.name, DIMENSION): made})


def _first_of_pair(
    units: Units, values: Floats, gold: Floats, one: Combination, replies: Replies | None
) -> Places:
    """Return for each unit the first one that is the same pair of context and reply.

    Scores do not hold replies: where those are not given, what has the same place, the same value and the
    same rating is the same pair. Where systems are left out in turn, each has pairs of its own.
    """
    first: dict[tuple[object, ...], int] = {}
    if one.pairs == "all" or one.folds == "system":
        return np.arange(len(units))
    said = [(replies or {}).get((key.dialogue_id, key.turn, key.system)) for key in units.keys]
    keys = [(key.dialogue_id, key.turn, values[n], gold[n], said[n]) for n, key in enumerate(units.keys)]
    return np.array([first.setdefault(key, number) for number, key in enumerate(keys)], np.intp)


def columns_by_name(units: Units) -> dict[str, Column]:
    """Find columns by their short label or by source/dimension."""
    short = {label: column for column, label in units.labels().items()}
    return short | {f"{column.source}/{column.dimension}": column for column in units.columns}


def _groups(units: Units, folds: str, seed: int) -> Floats:
    if folds == "dialogue":
        groups = units.clusters
    elif folds == "system":
        systems = {key.system: number for number, key in enumerate(units.keys)}
        groups = np.array([systems[key.system] for key in units.keys])
    elif folds.isdecimal() and int(folds) > 1:
        groups = kfold_groups(units.clusters, int(folds), seed)
    else:
        raise UsageError(f"folds={folds}: expected a number above 1, dialogue or system")
    return np.asarray(groups, dtype=float)


def with_lines(
    scores: Scores, settings: StudySettings, replies: Replies | None = None
) -> tuple[Scores, tuple[FittedLine, ...]]:
    """Add what each `line` among the combinations of a study predicts, and describe the line itself.

    Returns:
        The scores with one more source for each line, and for each line its coefficients with intervals and
        p, R², n, and the share of units at the source's lowest value.
    """
    gold, dimension = settings.gold, settings.dimension
    wanted = [one for one in map(Combination.parse, settings.combine) if one.method == LINE]
    if not wanted:
        return scores, ()
    rated = scores.where(source=lambda source: is_gold(gold, source), dimension=dimension)
    at: Level = "turn" if settings.level == "turn" or not len(rated.where(level="dialogue")) else "dialogue"
    units = align(scores, at, settings.aggregate)
    columns = [one for one in units.columns if is_gold(gold, one.source) and one.dimension == dimension]
    target = mean_over(units, columns) if columns else None
    parts, described = [scores], []
    for one in wanted:
        made = combine(units, one, target, settings.seed, replies=replies).columns[
            Column(one.name, DIMENSION)
        ]
        parts.append(_scores(units, made, one))
        if target is not None:
            values = units.columns[columns_by_name(units)[one.parts[0]]]
            once = np.unique(_first_of_pair(units, values, target, one, replies))
            described.append(_describe(one, values[once], target[once], settings.confidence))
    return Scores.concat(parts), tuple(described)


def is_gold(gold: str, source: str) -> bool:
    """Whether a source is among what a study compares with; `human` means every rater."""
    return is_human(source) if gold == "human" else source == gold


def _scores(units: Units, made: Floats, one: Combination) -> Scores:
    rows = (
        Score(key.dialogue_id, key.turn, key.system, one.name, DIMENSION, None, "no prediction")
        if np.isnan(value)
        else Score(key.dialogue_id, key.turn, key.system, one.name, DIMENSION, float(value))
        for key, value in zip(units.keys, made, strict=True)
    )
    return Scores.of(rows, {one.name: one.signature})


def _describe(one: Combination, values: Floats, target: Floats, confidence: float) -> FittedLine:
    fitted = ols(values, target, confidence)
    known = values[~np.isnan(values)]
    lowest = float(known.min()) if known.size else None
    share = float(np.mean(known == lowest)) if known.size else None
    intercept, slope = fitted.coefficients
    return FittedLine(
        one.name, one.parts[0], intercept, slope, fitted.r_squared, fitted.n, fitted.reason, lowest, share
    )
