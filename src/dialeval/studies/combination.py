"""Combined sources: the mean of several, the mean of their z-scores, ridge regression, or a fitted line.

FlowEval's "+ SOTA" rows are plain means of two metrics. Weights are fitted by ridge regression on held-out
groups: leave-one-dialogue-out, leave-one-system-out, or k folds of dialogues. A line is a least-squares fit
to one source, by default leave-one-dialogue-out; Voted Appropriateness is such a line over the number of
votes. Units that the source did not score get no prediction. The line that is reported is fitted to all
units; predictions come from fits that leave their own conversation out. Systems that gave the same reply in
a context count once, as in the paper, unless `pairs=all`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dialeval.errors import UsageError
from dialeval.scores import Scores, Signature, is_human
from dialeval.statistics import kfold_groups, ols, ridge_out_of_group, zscore
from dialeval.studies.findings import FittedLine, StudySettings
from dialeval.studies.units import Column, Floats, Level, Places, Units, align, mean_over, score_rows

LINE = "line"
METHODS = ("mean", "zmean", "fit", LINE)
DIMENSION = "combined"
Replies = Mapping[tuple[str, int | None, str | None], str]  # by dialogue, turn and system


@dataclass(frozen=True, slots=True)
class Combination:
    """How to combine sources into a new one, as in `both=zmean:floweval+flow`.

    >>> Combination.parse("both=fit:floweval+flow,folds=5")
    Combination(name='both', method='fit', parts=('floweval', 'flow'), folds='5', pairs='distinct')
    """

    name: str
    method: str
    parts: tuple[str, ...]
    folds: str = "10"
    pairs: str = "distinct"
    """For a line: whether equal replies of several systems count once (`distinct`) or each (`all`)."""

    @classmethod
    def parse(cls, text: str) -> "Combination":
        """Parse `name=method:part+part[,folds=10|dialogue|system][,pairs=distinct|all]`."""
        name, equals, rest = text.partition("=")
        method, colon, rest = rest.partition(":")
        parts, *options = rest.split(",")
        fields = dict(option.partition("=")[::2] for option in options)
        folds = fields.pop("folds", "") or ("dialogue" if method == LINE else "10")
        pairs = fields.pop("pairs", "distinct")
        valid = method in METHODS and pairs in ("distinct", "all") and not fields
        if not (name and equals and colon and parts and valid):
            methods = "|".join(METHODS)
            raise UsageError(
                f"--combine {text!r}: expected name={methods}:part+part[,folds=10|dialogue|system]"
                "[,pairs=distinct|all]"
            )
        if method == LINE and "+" in parts:
            raise UsageError(f"--combine {text!r}: a line takes one source; use fit for several")
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
    """Return the units with the combined source as a new column.

    `mean` takes the parts as they are, `zmean` negates the columns in `lower`, of which less is better, and
    fitted weights find the sign themselves.
    """
    by_label = columns_by_name(units)
    missing = [part for part in combination.parts if part not in by_label]
    if missing:
        raise UsageError(
            f"--combine {combination.name}: no source {missing[0]!r}; there are: {', '.join(by_label)}"
        )
    parts = np.vstack([units.columns[by_label[part]] for part in combination.parts])
    if combination.method == "mean":
        combined = np.mean(parts, axis=0)
    elif combination.method == "zmean":
        signs = np.array([-1.0 if by_label[part] in lower else 1.0 for part in combination.parts])
        combined = np.mean(signs[:, None] * np.vstack([zscore(part) for part in parts]), axis=0)
    elif gold is None:
        raise UsageError(f"--combine {combination.name}: fitted weights need ratings to fit to")
    elif combination.method == LINE:
        scored, first = ~np.isnan(parts[0]), _first_of_pair(units, parts[0], gold, combination, replies)
        groups = _groups(units, combination.folds, seed)
        combined, fitted = np.full(len(units), np.nan), scored & (first == np.arange(len(units)))
        combined[fitted] = ridge_out_of_group(parts.T[fitted], gold[fitted], groups[fitted], alpha=0.0)
        combined[scored] = combined[first[scored]]
    else:
        combined = ridge_out_of_group(parts.T, gold, _groups(units, combination.folds, seed))
    return units.with_columns({Column(combination.name, DIMENSION): combined})


def _first_of_pair(
    units: Units, values: Floats, gold: Floats, combination: Combination, replies: Replies | None
) -> Places:
    """Return for each unit the index of the first unit with the same context and reply.

    Without `replies`, units of the same turn with equal score and equal rating are taken for the same reply.
    With leave-one-system-out folds, every system keeps its own pairs.
    """
    first: dict[tuple[object, ...], int] = {}
    if combination.pairs == "all" or combination.folds == "system":
        return np.arange(len(units))
    texts = [(replies or {}).get((key.dialogue_id, key.turn, key.system)) for key in units.keys]
    keys = [(key.dialogue_id, key.turn, values[n], gold[n], texts[n]) for n, key in enumerate(units.keys)]
    return np.array([first.setdefault(key, number) for number, key in enumerate(keys)], np.intp)


def columns_by_name(units: Units) -> dict[str, Column]:
    """Return the columns by their short label and by source/dimension."""
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
    """Fit the `line` combinations of a study.

    Returns:
        The scores with the predictions of each line as a new source, and for each line its coefficients with
        intervals and p, R², n, and the share of units at the source's lowest value.
    """
    gold, dimension = settings.gold, settings.dimension
    lines = [line for line in map(Combination.parse, settings.combine) if line.method == LINE]
    if not lines:
        return scores, ()
    rated = scores.where(source=lambda source: is_gold(gold, source), dimension=dimension)
    at: Level = "turn" if settings.level == "turn" or not len(rated.where(level="dialogue")) else "dialogue"
    units = align(scores, at, settings.aggregate)
    columns = [c for c in units.columns if is_gold(gold, c.source) and c.dimension == dimension]
    target = mean_over(units, columns) if columns else None
    parts, described = [scores], []
    for line in lines:
        combined = combine(units, line, target, settings.seed, replies=replies)
        predictions = combined.columns[Column(line.name, DIMENSION)]
        rows = score_rows(units.keys, predictions, line.name, DIMENSION, "no prediction")
        parts.append(Scores.of(rows, {line.name: line.signature}))
        if target is not None:
            values = units.columns[columns_by_name(units)[line.parts[0]]]
            once = np.unique(_first_of_pair(units, values, target, line, replies))
            described.append(_describe(line, values[once], target[once], settings.confidence))
    return Scores.concat(parts), tuple(described)


def is_gold(gold: str, source: str) -> bool:
    """Return whether a source is part of the gold; the gold `human` is every rater."""
    return is_human(source) if gold == "human" else source == gold


def _describe(line: Combination, values: Floats, target: Floats, confidence: float) -> FittedLine:
    fitted = ols(values, target, confidence)
    scored = values[~np.isnan(values)]
    lowest = float(scored.min()) if scored.size else None
    share = float(np.mean(scored == lowest)) if scored.size else None
    intercept, slope = fitted.coefficients
    return FittedLine(
        line.name, line.parts[0], intercept, slope, fitted.r_squared, fitted.n, fitted.reason, lowest, share
    )
