"""The figures of a page with their captions; every n is the study's."""

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
    """A figure and its caption."""

    svg: Markup
    caption: str


@dataclass(frozen=True, slots=True)
class PictureCard:
    """The pictures of one source, or of two."""

    label: str
    small: str
    pictures: list[Picture]


def source_cards(study: Study) -> list[PictureCard]:
    """Return for each source the scatter against the gold, calibration, and histogram."""
    labels = list(study.units.columns)[:MOST_SOURCES]
    most = max(50, min(figures.MOST_POINTS, _MOST_POINTS // max(1, len(labels))))
    correlation_of = {row.label: row for row in study.correlations}
    cards = []
    for index, label in enumerate(labels):
        row = correlation_of.get(label)
        pictures = [] if row is None else _scatter(study, row, index, most)
        pictures += [*_calibration(study, label, index), *_distribution(study, label, index)]
        cards.append(PictureCard(label, "" if row is None else _small(study, row), pictures))
    return cards


def _small(study: Study, row: Correlation) -> str:
    estimate = row.of(study.method)
    why = f" ({estimate.reason})" if estimate.value is None else ""
    return f"{SYMBOLS[study.method]} {decimal(estimate.value, 2)}{why}"


def _scatter(study: Study, row: Correlation, index: int, most: int) -> list[Picture]:
    x, y = study.units.pairs(row.label)
    if not x.size:
        return []
    svg = figures.scatter(x, y, row.fit, f"s{index}-", f"{row.label} against rating, {row.n} units", most)
    caption = f"Score against rating{', line: least squares' if row.fit is not None else ''}. "
    if figures.jittered(x):
        caption += "Equal scores are jittered. "
    caption += f"n = {row.n:,}, unscored {row.n_unscored:,}."
    if row.n > min(most, x.size):
        shown = min(most, x.size)
        caption += f" {shown:,} points shown, evenly spaced in order of score; the line uses all."
    return [Picture(svg, caption)]


def _calibration(study: Study, label: str, index: int) -> list[Picture]:
    bins = next((curve.bins for curve in study.calibration if curve.label == label), ())
    if not bins:
        return []
    description = f"Calibration of {label}: mean rating in {len(bins)} bins"
    axes = ("mean score of the bin", "mean rating")
    svg = figures.points([(bin_.x, bin_.y) for bin_ in bins], f"c{index}-", description, axes)
    total = sum(bin_.y.n for bin_ in bins)
    return [Picture(svg, f"Calibration: mean rating per bin, 95 % interval; n = {total:,}.")]


def _distribution(study: Study, label: str, index: int) -> list[Picture]:
    values = study.units.values(label)
    scored = values[~np.isnan(values)]
    if not scored.size:
        return []
    svg = figures.histogram(scored, f"h{index}-", f"Scores of {label}: {figures.describe(scored)}")
    n = study.units.scored[label]
    caption = f"Scores; dashed: median. n = {n:,}, unscored {study.units.n - n:,}.{_sampled(study)}"
    return [Picture(svg, caption)]


def _sampled(study: Study) -> str:
    """Return the sentence for a caption if the study stores only a sample of its units."""
    if len(study.units) >= study.units.n:
        return ""
    return f" Drawn from a sample of {len(study.units):,} units, rated ones first."


def gold_pictures(study: Study) -> list[Picture]:
    """Return the distributions of ratings, over all and per system."""
    gold = study.units.ratings
    rated = np.array([]) if gold is None else gold[~np.isnan(gold)]
    if study.gold is None or not rated.size:
        return []
    svg = figures.histogram(rated, "g-", f"Ratings: {figures.describe(rated)}", "mean rating")
    counts = f"n = {study.gold.n:,}, unrated {study.gold.n_unrated:,}."
    pictures = [Picture(svg, f"All ratings; dashed: median. {counts}{_sampled(study)}")]
    boxes = study.gold.by_system[:_MOST_BOXES]
    if boxes:
        svg = figures.boxes(boxes, "gs-", "Ratings per system", "mean rating", "")
        numbers = ", ".join(f"{box.n:,}" for box in boxes)
        pictures.append(Picture(svg, f"Ratings per system: median, quartiles, 5 % and 95 %. n = {numbers}."))
    return pictures


def class_cards(study: Study) -> list[PictureCard]:
    """Return each source's scores per class, with its threshold."""
    cards = []
    for index, row in enumerate(study.classes[:MOST_SOURCES]):
        if not row.distributions:
            continue
        threshold = row.threshold
        label = f"Scores of {row.label} per label{_threshold_text(threshold)}"
        svg = figures.boxes(row.distributions, f"b{index}-", label, mark=threshold.value)
        numbers = ", ".join(f"{spread.n:,}" for spread in row.distributions)
        caption = f"Median, quartiles, 5 % and 95 %{_threshold_text(threshold, 'dashed: ')}. n = {numbers}."
        cards.append(PictureCard(row.label, "", [Picture(svg, caption)]))
    return cards


def _threshold_text(threshold: ClassThreshold, dash: str = "") -> str:
    if threshold.value is None:
        return ""
    accuracy = threshold.accuracy.value
    held_out = "" if accuracy is None else f", balanced accuracy {decimal(accuracy, 2)} on other dialogues"
    value = figure(threshold.value).replace("-", "\N{MINUS SIGN}")
    return f"; {dash}threshold {value}{held_out}"


def angle_cards(study: Study) -> list[PictureCard]:
    """Return the angles between people, the best source, and each of the next three."""
    names = study.matrix.labels[:-1]
    if study.gold is None or len(names) < 2:
        return []
    degrees, last = study.matrix.angles, len(names)
    indices = {label: index for index, label in enumerate(names)}
    order = [indices[row.label] for row in study.correlations if row.label in indices]
    order = [index for index in order if degrees[index][last] is not None]
    cards = []
    for number, other in enumerate(order[1:4]):
        best = order[0]
        first, second, between = degrees[best][last], degrees[other][last], degrees[best][other]
        if first is None or second is None or between is None:
            continue
        a, b, measured = names[best], names[other], (first, second, between)
        text = f"{a} to people {first:.0f}°, {b} to people {second:.0f}°, between the two {between:.0f}°"
        apart = figures.drawn_apart(measured)
        flat = "" if abs(apart - between) <= 10 else " Not to scale: the three do not lie in one plane."
        svg = figures.angles((study.gold_name, a, b), measured, f"a{number}-", f"Angles: {text}")
        cards.append(PictureCard(f"{a} and {b}", "", [Picture(svg, f"{text}.{flat}")]))
    return cards


def system_cards(study: Study) -> Iterator[PictureCard]:
    """Yield each source's mean against people's for every system, if there are at least three systems."""
    if study.gold is None:
        return
    means: dict[tuple[str, str], dict[str, Estimate]] = {}
    for mean in study.systems:
        if mean.mean.value is not None:
            means.setdefault((mean.source, mean.dimension), {})[mean.system] = mean.mean
    people = means.get((study.gold.source, study.gold.dimension), {})
    for index, row in enumerate(study.correlations[:_MOST_RANKED]):
        scores, r = means.get((row.source, row.dimension), {}), row.over_systems
        points = [(name, scores[name], people[name]) for name in people if name in scores]
        if r is None or not 3 <= len(points) <= _MOST_SYSTEMS:
            continue
        values = ", ".join(f"{name} {decimal(a.value, 2)} / {decimal(b.value, 2)}" for name, a, b in points)
        svg = figures.systems(points, f"y{index}-", f"Systems by {row.label} and rating: {values}")
        n = f"n = {len(points)} systems."
        caption = f"Mean score and mean rating of each system, with intervals. {n}"
        small = f"r {decimal(r.value, 2)}" if r.value is not None else f"r: {r.reason}"
        yield PictureCard(row.label, small, [Picture(svg, caption)])


def triage_picture(triage: Triage) -> Picture | None:
    """Return the mean score of the first, second, … reply as a figure; None if nothing is scored."""
    shown = [row for row in triage.by_index if row.mean.value is not None]
    if not shown:
        return None
    ends = (end for row in shown for end in (row.mean.low, row.mean.value, row.mean.high))
    size = max(abs(end) for end in ends if end is not None)
    values = ", ".join(f"{row.label}: {figure(row.mean.value, size)}" for row in shown)
    label = f"Mean of {triage.score.label} for each reply of a dialogue. {values}"
    ns = ", ".join(f"{row.mean.n:,}" for row in shown)
    caption = (
        "Mean score of the first, second, … reply, 95 % interval over dialogues. Only long dialogues have "
        f"late replies. n = {ns}; unscored {triage.n_unscored:,}."
    )
    means = [(index, row.mean) for index, row in enumerate(triage.by_index, 1) if row.mean.value is not None]
    axes, ticks = ("reply of the dialogue", "mean score"), [row.label for row in triage.by_index]
    return Picture(figures.points(means, "o-", label, axes, ticks, (4.6, 2.5)), caption)
