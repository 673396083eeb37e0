"""The pictures of a page with their captions: what a study found, drawn; every n is the study's."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from dialeval.reports import figures
from dialeval.reports.source_tables import SYMBOLS
from dialeval.reports.table import decimal, figure
from dialeval.statistics import Estimate
from dialeval.studies import Study
from dialeval.studies.findings import ClassThreshold, Correlation
from dialeval.studies.triage import Triage

MOST_SOURCES = 24
_MOST_POINTS = 6_000
_MOST_BOXES = 8
_MOST_RANKED, _MOST_SYSTEMS = 8, 24


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure, and its caption in words with its n."""

    svg: Markup
    caption: str


@dataclass(frozen=True, slots=True)
class PictureCard:
    """The pictures of one source, or of two."""

    label: str
    small: str
    pictures: list[Picture]


def source_cards(study: Study) -> list[PictureCard]:
    """Draw each source's scatter against the gold, its calibration, and its distribution."""
    labels = list(study.units.columns)[:MOST_SOURCES]
    most = max(50, min(figures.MOST_POINTS, _MOST_POINTS // max(1, len(labels))))
    found = {row.label: row for row in study.correlations}
    made = []
    for place, label in enumerate(labels):
        row = found.get(label)
        pictures = [] if row is None else _scatter(study, row, place, most)
        pictures += [*_calibration(study, label, place), *_distribution(study, label, place)]
        made.append(PictureCard(label, "" if row is None else _small(study, row), pictures))
    return made


def _small(study: Study, row: Correlation) -> str:
    estimate = row.of(study.method)
    why = f" ({estimate.reason})" if estimate.value is None else ""
    return f"{SYMBOLS[study.method]} {decimal(estimate.value, 2)}{why}"


def _scatter(study: Study, row: Correlation, place: int, most: int) -> list[Picture]:
    x, y = study.units.pairs(row.label)
    if not x.size:
        return []
    svg = figures.scatter(x, y, row.fit, f"s{place}-", f"{row.label} against rating, {row.n} units", most)
    caption = f"Score against rating{', line: least squares' if row.fit is not None else ''}. "
    if figures.jittered(x):
        caption += "Equal scores are drawn a little apart. "
    caption += f"n = {row.n:,}, unscored {row.n_unscored:,}."
    if row.n > min(most, x.size):
        shown = min(most, x.size)
        caption += f" {shown:,} points shown, evenly spaced in order of score; the line uses all."
    return [Picture(svg, caption)]


def _calibration(study: Study, label: str, place: int) -> list[Picture]:
    bins = next((curve.bins for curve in study.calibration if curve.label == label), ())
    if not bins:
        return []
    words = f"Calibration of {label}: mean rating in {len(bins)} bins"
    axes = ("mean score of the bin", "mean rating")
    svg = figures.points([(one.x, one.y) for one in bins], f"c{place}-", words, axes)
    total = sum(one.y.n for one in bins)
    return [Picture(svg, f"What a score means: mean rating per bin, 95 % interval; n = {total:,}.")]


def _distribution(study: Study, label: str, place: int) -> list[Picture]:
    values = study.units.values(label)
    scored = values[~np.isnan(values)]
    if not scored.size:
        return []
    svg = figures.histogram(scored, f"h{place}-", f"Scores of {label}: {figures.describe(scored)}")
    n = study.units.scored[label]
    caption = f"Scores; dashed: median. n = {n:,}, unscored {study.units.n - n:,}.{_sampled(study)}"
    return [Picture(svg, caption)]


def _sampled(study: Study) -> str:
    """Return what a caption must say if the study carries a part of its units."""
    if len(study.units) >= study.units.n:
        return ""
    return f" Drawn from a sample of {len(study.units):,} units, rated ones first."


def gold_pictures(study: Study) -> list[Picture]:
    """Draw how the ratings spread, over all and per system."""
    gold = study.units.ratings
    rated = np.array([]) if gold is None else gold[~np.isnan(gold)]
    if study.gold is None or not rated.size:
        return []
    svg = figures.histogram(rated, "g-", f"Ratings: {figures.describe(rated)}", "mean rating")
    counts = f"n = {study.gold.n:,}, unrated {study.gold.n_unrated:,}."
    made = [Picture(svg, f"All ratings; dashed: median. {counts}{_sampled(study)}")]
    boxes = study.gold.by_system[:_MOST_BOXES]
    if boxes:
        svg = figures.boxes(boxes, "gs-", "Ratings per system", "mean rating", "")
        numbers = ", ".join(f"{one.n:,}" for one in boxes)
        made.append(Picture(svg, f"Ratings per system: median, quartiles, 5 % and 95 %. n = {numbers}."))
    return made


def class_cards(study: Study) -> list[PictureCard]:
    """Draw each source's scores per class, with its threshold."""
    made = []
    for place, row in enumerate(study.classes[:MOST_SOURCES]):
        if not row.distributions:
            continue
        threshold = row.threshold
        label = f"Scores of {row.label} per label{_told(threshold)}"
        svg = figures.boxes(row.distributions, f"b{place}-", label, mark=threshold.value)
        numbers = ", ".join(f"{one.n:,}" for one in row.distributions)
        caption = f"Median, quartiles, 5 % and 95 %{_told(threshold, 'dashed: ')}. n = {numbers}."
        made.append(PictureCard(row.label, "", [Picture(svg, caption)]))
    return made


def _told(threshold: ClassThreshold, dash: str = "") -> str:
    if threshold.value is None:
        return ""
    accuracy = threshold.accuracy.value
    held_out = "" if accuracy is None else f", balanced accuracy {decimal(accuracy, 2)} on other dialogues"
    value = figure(threshold.value).replace("-", "\N{MINUS SIGN}")
    return f"; {dash}threshold {value}{held_out}"


def angle_cards(study: Study) -> list[PictureCard]:
    """Draw the best source beside each of the next three, with people between them."""
    names = study.matrix.labels[:-1]
    if study.gold is None or len(names) < 2:
        return []
    degrees, last = study.matrix.angles, len(names)
    places = {label: place for place, label in enumerate(names)}
    order = [places[row.label] for row in study.correlations if row.label in places]
    order = [place for place in order if degrees[place][last] is not None]
    made = []
    for number, other in enumerate(order[1:4]):
        best = order[0]
        first, second, between = degrees[best][last], degrees[other][last], degrees[best][other]
        if first is None or second is None or between is None:
            continue
        found, three = (first, second, between), (study.gold_name, names[best], names[other])
        words = (
            f"{names[best]} to people {first:.0f}°, {names[other]} to people {second:.0f}°, "
            f"between the two {between:.0f}°"
        )
        apart = figures.drawn_apart(found)
        flat = "" if abs(apart - between) <= 10 else " Not to scale: the three do not lie in one plane."
        svg = figures.angles(three, found, f"a{number}-", f"Angles: {words}")
        made.append(PictureCard(f"{names[best]} and {names[other]}", "", [Picture(svg, f"{words}.{flat}")]))
    return made


def system_cards(study: Study) -> Iterator[PictureCard]:
    """Draw each source's mean for every system against people's; nothing for fewer than three systems."""
    if study.gold is None:
        return
    means: dict[tuple[str, str], dict[str, Estimate]] = {}
    for row in study.systems:
        if row.mean.value is not None:
            means.setdefault((row.source, row.dimension), {})[row.system] = row.mean
    people = means.get((study.gold.source, study.gold.dimension), {})
    for place, one in enumerate(study.correlations[:_MOST_RANKED]):
        own, r = means.get((one.source, one.dimension), {}), one.over_systems
        points = [(name, own[name], people[name]) for name in people if name in own]
        if r is None or not 3 <= len(points) <= _MOST_SYSTEMS:
            continue
        words = ", ".join(f"{name} {decimal(a.value, 2)} / {decimal(b.value, 2)}" for name, a, b in points)
        svg = figures.systems(points, f"y{place}-", f"Systems by {one.label} and rating: {words}")
        n = f"n = {len(points)} systems."
        caption = f"Mean score and mean rating of each system, with intervals. {n}"
        small = f"r {decimal(r.value, 2)}" if r.value is not None else f"r: {r.reason}"
        yield PictureCard(one.label, small, [Picture(svg, caption)])


def triage_picture(found: Triage) -> Picture | None:
    """Draw the mean score of the first, second, … reply; None if nothing is scored."""
    shown = [one for one in found.by_index if one.mean.value is not None]
    if not shown:
        return None
    ends = (end for one in shown for end in (one.mean.low, one.mean.value, one.mean.high))
    size = max(abs(end) for end in ends if end is not None)
    words = ", ".join(f"{one.label}: {figure(one.mean.value, size)}" for one in shown)
    label = f"Mean of {found.score.label} for each reply of a dialogue. {words}"
    ns = ", ".join(f"{one.mean.n:,}" for one in shown)
    caption = (
        "Mean score of the first, second, … reply, 95 % interval over dialogues. Only long dialogues have "
        f"late replies. n = {ns}; unscored {found.n_unscored:,}."
    )
    means = [(place, one.mean) for place, one in enumerate(found.by_index, 1) if one.mean.value is not None]
    axes, ticks = ("reply of the dialogue", "mean score"), [one.label for one in found.by_index]
    return Picture(figures.points(means, "o-", label, axes, ticks, (4.6, 2.5)), caption)
