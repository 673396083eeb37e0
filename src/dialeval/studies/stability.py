"""Is a score stable? The same units scored twice: run again, on another date, or in another form."""

import numpy as np

from dialeval.errors import UsageError
from dialeval.scores import Scores, is_human
from dialeval.statistics import Estimate, share
from dialeval.statistics.prediction_powered import mean_of
from dialeval.studies.trust_findings import Change
from dialeval.studies.units import Column, Floats, Key, Units, align


def changes(before: Scores, after: Scores, name: str, confidence: float = 0.95) -> tuple[Change, ...]:
    """Compare every column that both tables have, on the units that both scored.

    Args:
        before: Scores of the dialogues as they were.
        after: Of the same dialogues, changed in a way that should not matter.
        name: What was changed.
        confidence: Of the intervals.
    """
    made: list[Change] = []
    for level in ("dialogue", "turn"):
        sides = [align(side.where(level=level), level) for side in (before, after)]
        labels = sides[0].labels()
        for column, label in labels.items():
            is_new = label not in {one.label for one in made}
            if column in sides[1].columns and not is_human(column.source) and is_new:
                made.append(_change(sides[0], sides[1], column, label, name, confidence))
    return tuple(made)


def drift(new: Scores, old: Scores, confidence: float = 0.95) -> tuple[Change, ...]:
    """Compare two dates of the same sources, which must have been made the same way.

    Raises:
        UsageError: If a source has another signature, or nothing is shared.
    """
    shared = [name for name in new.sources if name in old.sources and not is_human(name)]
    if not shared:
        raise UsageError(f"no source is in both: {', '.join(new.sources)} and {', '.join(old.sources)}")
    for name in shared:
        a, b = new.signatures.get(name), old.signatures.get(name)
        if a is not None and b is not None and a != b:
            raise UsageError(f"{name} was made differently on the two dates: {a} and {b}; that is no drift")
    kept = [one.where(source=shared.__contains__) for one in (old, new)]
    return changes(kept[0], kept[1], "another date", confidence)


def repeated(scores: Scores, sources: list[str], confidence: float = 0.95) -> tuple[Change, ...]:
    """Compare runs of one judge that were exported under several names, each with the first."""
    if missing := [name for name in sources if name not in scores.sources]:
        raise UsageError(f"no source {missing[0]!r}; there are: {', '.join(scores.sources)}")
    first, *others = (scores.where(source=name) for name in sources)
    made: list[Change] = []
    for name, other in zip(sources[1:], others, strict=True):
        same = Scores(other.table.set_column(3, "source", [[sources[0]] * len(other)]), {})
        made += changes(Scores(first.table, {}), same, f"run again: {name}", confidence)
    return tuple(made)


def _change(before: Units, after: Units, column: Column, label: str, name: str, confidence: float) -> Change:
    others: dict[Key, float] = dict(zip(after.keys, after.columns[column].tolist(), strict=True))
    old: Floats = before.columns[column]
    new = np.array([others.get(key, np.nan) for key in before.keys], dtype=np.float64)
    both = ~np.isnan(old + new)
    n = int(both.sum())
    if n < 2:
        return Change(label, name, n, Estimate.undefined(f"{n} units were scored both times", n))
    gap, middle = (new - old)[both], float(np.median(old[both]))
    flipped = int(np.sum((old[both] >= middle) != (new[both] >= middle)))
    if np.isin(old[both], (0, 1)).all():
        flipped = int(np.sum(old[both] != new[both]))
    return Change(
        label,
        name,
        n,
        mean_of(gap, before.clusters[both]).estimate(confidence),
        float(np.sqrt(np.mean(gap**2) / 2)),
        share(flipped, n, confidence),
        float(np.mean(gap == 0)),
        float(np.max(np.abs(gap))),
    )
