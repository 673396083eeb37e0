"""Systems against each other: means with intervals, and tests of every pair."""

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from dialeval import statistics
from dialeval.scores import is_human
from dialeval.statistics import Estimate
from dialeval.studies.against_gold import plain
from dialeval.studies.comparison import compare, items
from dialeval.studies.units import Column, Floats, Units, human_columns, mean_over

if TYPE_CHECKING:
    from dialeval.studies.meta_evaluation import Settings

_MOST_TESTS = 200


def findings(
    units: Units, columns: list[Column], gold_columns: list[Column], settings: "Settings"
) -> dict[str, Any]:
    """Means per system and column over turns or dialogues, and comparisons of systems on them."""
    shown = {column: units.columns[column] for column in columns if column in units.columns}
    gold = _gold_name(gold_columns, settings)
    for name in dict.fromkeys(c.dimension for c in units.columns if is_human(c.source)):
        shown[Column("human", name)] = mean_over(units, human_columns(units, name))
    if gold is not None and gold not in shown:
        shown[gold] = mean_over(units, gold_columns)
    systems = sorted({key.system for key in units.keys if key.system is not None})
    masks = {name: np.array([key.system == name for key in units.keys], dtype=bool) for name in systems}
    return {
        "systems": [
            _mean(units, name, masks[name], column, values, settings)
            for column, values in shown.items()
            for name in systems
        ],
        "comparisons": _comparisons(units, masks, shown, gold, settings),
    }


def _gold_name(gold_columns: list[Column], settings: "Settings") -> Column | None:
    if not gold_columns:
        return None
    return Column("human", gold_columns[0].dimension) if settings.gold == "human" else gold_columns[0]


def _mean(
    units: Units, system: str, mask: Any, column: Column, values: Floats, settings: "Settings"
) -> dict[str, Any]:
    part, clusters = values[mask], units.clusters[mask]
    n = int((~np.isnan(part)).sum())
    mean = (
        Estimate.undefined("nothing scored")
        if n == 0
        else statistics.bootstrap_means(
            part,
            clusters,
            resamples=min(2_000, settings.resamples),
            confidence=settings.confidence,
            seed=settings.seed,
        )
    )
    row = {"system": system, "source": column.source, "dimension": column.dimension}
    return row | {"n": n, "n_unscored": int(part.size - n), "mean": plain(mean)}


def _comparisons(
    units: Units,
    masks: dict[str, Any],
    shown: dict[Column, Floats],
    gold: Column | None,
    settings: "Settings",
) -> list[dict[str, Any]]:
    """Test all pairs of systems on the gold, and on every column while that stays a readable number."""
    pairs = list(combinations(masks, 2))
    columns = [gold] if gold is not None else []
    columns += [c for c in shown if c != gold and len(pairs) * (len(shown)) <= _MOST_TESTS]
    rows = []
    for column in columns:
        values = shown[column]
        tests = [
            compare(
                f"{column.source}/{column.dimension}",
                *(
                    items(
                        tuple(k for k, m in zip(units.keys, masks[name], strict=True) if m),
                        values[masks[name]],
                    )
                    for name in pair
                ),
                resamples=min(5_000, settings.permutations),
                confidence=settings.confidence,
                seed=settings.seed,
            )
            for pair in pairs
        ]
        adjusted = statistics.holm([test.p for test in tests])
        for (first, second), test, p in zip(pairs, tests, adjusted, strict=True):
            rows.append(
                {
                    "source": column.source,
                    "dimension": column.dimension,
                    "first": first,
                    "second": second,
                    "paired": test.paired,
                    "difference": plain(test.difference),
                    "p": test.p,
                    "p_holm": p,
                }
            )
    return rows
