"""Where does a judge fail? What moves its score beside the rating, where it is most wrong, is it stable?"""

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from dialeval import statistics
from dialeval.errors import UsageError
from dialeval.scores import Scores, is_human
from dialeval.statistics import Estimate, share
from dialeval.statistics import prediction_powered as powered
from dialeval.statistics.estimate import Booleans
from dialeval.statistics.prediction_powered import ClusteredFigure, mean_of
from dialeval.studies.labels import Labels
from dialeval.studies.trust_findings import Bias, Change, Disagreement
from dialeval.studies.units import Column, Floats, Key, Units, align

MOST_CASES = 5
Traits = Mapping[str, Mapping[Key, float | str]]
"""By name, a number or a kind of each unit: what a score might follow beside quality."""


def find_biases(labels: Labels, said: Floats, traits: Traits, confidence: float) -> tuple[Bias, ...]:
    """Look for what moves the score apart from the rating: traits that are numbers, and parts."""
    units = labels.units
    both = labels.known & ~np.isnan(said)
    parts: dict[str, Booleans] = {}
    numbers: dict[str, Floats] = {}
    if len(units.by_system()) > 1:
        parts |= {f"system {n}": np.isin(np.arange(len(units)), own) for n, own in units.by_system().items()}
    if units.level == "turn":
        numbers["turn"] = np.array([key.turn for key in units.keys], dtype=np.float64)
    for name, by_key in traits.items():
        found = [by_key.get(key) for key in units.keys]
        if any(isinstance(one, str) for one in found):
            kinds = sorted({one for one in found if isinstance(one, str)})
            parts |= {f"{name} {kind}": np.array([one == kind for one in found]) for kind in kinds}
        else:
            numbers[name] = np.array([np.nan if one is None else one for one in found], dtype=np.float64)
    made = [_trait(labels, said, name, own, confidence) for name, own in numbers.items()]
    made += [_part(labels, said, name, own & both, both, confidence) for name, own in parts.items()]
    corrected = statistics.holm([one.estimate.p for one in made])
    return tuple(replace(one, p_holm=p) for one, p in zip(made, corrected, strict=True))


def _trait(labels: Labels, said: Floats, name: str, trait: Floats, confidence: float) -> Bias:
    """Correlate score and trait, in ranks, given the rating; the interval is over dialogues."""
    from scipy import stats

    both = ~np.isnan(labels.mean + said + trait)
    if both.sum() < powered.FEWEST or np.ptp(trait[both]) == 0 or np.ptp(said[both]) == 0:
        return Bias("correlation", name, Estimate.undefined("constant, or too few", int(both.sum())))
    rating, score, other = (stats.rankdata(each[both]) for each in (labels.mean, said, trait))
    design = np.column_stack([np.ones(rating.size), rating])
    a, b = (each - design @ np.linalg.lstsq(design, each, rcond=None)[0] for each in (score, other))
    if min(np.std(a), np.std(b)) < 1e-9:
        return Bias("correlation", name, Estimate.undefined("explained by the rating", int(both.sum())))
    a, b = a / np.std(a), b / np.std(b)
    r = float(np.clip(np.mean(a * b), -0.999, 0.999))
    pull = powered.mean_of(a * b - r * (a**2 + b**2) / 2, labels.units.clusters[both])
    # Fisher's transformation keeps the ends between -1 and 1.
    found = ClusteredFigure(np.arctanh(r), pull.pulls / (1 - r**2), rating.size, pull.df).estimate(confidence)
    low, high = (None if end is None else float(np.tanh(end)) for end in (found.low, found.high))
    return Bias("correlation", name, Estimate(r, rating.size, low, high, found.p, found.reason))


def _part(labels: Labels, said: Floats, name: str, own: Booleans, both: Booleans, confidence: float) -> Bias:
    """Compare what the score adds to the rating in one part with the rest."""
    clusters, gap, rest = labels.units.clusters, said - labels.mean, both & ~own
    fewest = min(np.unique(clusters[each]).size for each in (own, rest))
    if fewest < powered.FEWEST:
        return Bias("difference", name, Estimate.undefined(f"{fewest} labelled dialogues", int(own.sum())))
    a, b = (powered.mean_of(np.where(each, gap, np.nan), clusters) for each in (own, rest))
    return Bias("difference", name, (a - b).estimate(confidence))


def find_disagreements(labels: Labels, values: Floats, curve: Floats) -> tuple[Disagreement, ...]:
    """Return the units that are judged too kindly, then those judged too strictly, worst first."""
    gap = np.where(np.isnan(curve - labels.mean), 0.0, curve - labels.mean)
    order = np.argsort(-gap, kind="stable").tolist()
    chosen = [place for place in order[:MOST_CASES] if gap[place] > 0]
    chosen += [place for place in order[: -MOST_CASES - 1 : -1] if gap[place] < 0]
    keys = labels.units.keys
    return tuple(
        Disagreement(*key, *map(float, (values[place], curve[place], labels.mean[place])))
        for place, key in ((place, keys[place]) for place in chosen)
    )


# --- the same units scored twice: run again, on another date, or in another form ----------------------------


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
