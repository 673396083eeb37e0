"""New sources made of others: the plain average, the average after z-scoring, fitted weights, a fitted line.

FlowEval's "+ SOTA" rows are plain averages of two metrics. Fitted weights come from a ridge regression that
never sees the group it predicts: leave-one-dialogue-out, leave-one-system-out, or k folds of dialogues. A
line is fitted by least squares to one source, by default leave-one-dialogue-out: Voted Appropriateness is
such a line through the number of votes. It says nothing of units that the source is silent about.
"""

from dataclasses import dataclass

import numpy as np

from dialeval.errors import UsageError
from dialeval.scores import Signature
from dialeval.statistics import kfold_groups, ridge_out_of_group, zscore
from dialeval.studies.units import Column, Floats, Units

LINE = "line"
METHODS = ("mean", "zmean", "fit", LINE)
DIMENSION = "combined"


@dataclass(frozen=True, slots=True)
class Combination:
    """How to make one source of several, as in `both=zmean:floweval+flow`.

    >>> Combination.parse("both=fit:floweval+flow,folds=5")
    Combination(name='both', method='fit', parts=('floweval', 'flow'), folds='5')
    """

    name: str
    method: str
    parts: tuple[str, ...]
    folds: str = "10"

    @classmethod
    def parse(cls, text: str) -> "Combination":
        """Read `name=method:part+part[,folds=10|dialogue|system]`."""
        name, equals, rest = text.partition("=")
        method, colon, rest = rest.partition(":")
        parts, _, options = rest.partition(",")
        folds = options.removeprefix("folds=") or ("dialogue" if method == LINE else "10")
        if not (name and equals and colon and parts) or method not in METHODS or "=" in folds:
            methods = "|".join(METHODS)
            raise UsageError(
                f"--combine {text!r}: expected name={methods}:part+part[,folds=10|dialogue|system]"
            )
        if method == LINE and "+" in parts:
            raise UsageError(f"--combine {text!r}: a line goes through one source; fit weighs several")
        return cls(name, method, tuple(parts.split("+")), folds)

    @property
    def signature(self) -> Signature:
        """How the new source was made."""
        number = int(self.folds) if self.folds.isdecimal() else self.folds
        folds = {"folds": number} if self.method in ("fit", LINE) else {}
        return Signature.of("combination.v1", {"method": self.method, "parts": self.parts, **folds})


def combine(
    units: Units,
    combination: Combination,
    gold: Floats | None,
    seed: int = 0,
    lower: frozenset[Column] = frozenset(),
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
        known = ~np.isnan(parts[0])
        groups = _groups(units, combination.folds, seed)
        made = np.full(len(units), np.nan)
        made[known] = ridge_out_of_group(parts.T[known], gold[known], groups[known], alpha=0.0)
    else:
        made = ridge_out_of_group(parts.T, gold, _groups(units, combination.folds, seed))
    return units.with_columns({Column(combination.name, DIMENSION): made})


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
