"""Figures as SVG: scatter with fit, histograms, calibration, boxes, angles, systems, scores over turns."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from dialeval.reports.svg import BLUE, FILL, INK, LINE, LONGEST, SOFT, WARM, drawing, to_svg
from dialeval.reports.table import figure
from dialeval.statistics import Estimate
from dialeval.statistics.estimate import Floats
from dialeval.studies.findings import LeastSquares, ScoreSpread

SystemPoint = tuple[str, Estimate, Estimate]
MOST_POINTS = 400


def thin(x: Floats, y: Floats, most: int) -> tuple[Floats, Floats]:
    """Return at most `most` points, evenly spaced in the order of the scores."""
    if x.size <= most:
        return x, y
    order = np.lexsort((y, x))
    sample = order[np.linspace(0, x.size - 1, most).round().astype(int)]
    return x[sample], y[sample]


def jittered(x: Floats) -> bool:
    """Return whether scores take so few values that their points would overlap.

    >>> jittered(np.array([0.0, 1, 2] * 20)), jittered(np.linspace(0, 1, 60))
    (True, False)
    """
    return 1 < np.unique(x).size <= 12 and x.size > 3 * np.unique(x).size


def jitter(x: Floats) -> Floats:
    """Return small deterministic offsets for points that would overlap."""
    if not jittered(x):
        return np.zeros_like(x)
    reach = min(0.15 * float(np.diff(np.unique(x)).min()), 0.04 * float(np.ptp(x)))
    return np.random.default_rng(0).uniform(-reach, reach, x.size)


def scatter(
    x: Floats, y: Floats, fit: LeastSquares | None, prefix: str, label: str, most: int = MOST_POINTS
) -> Markup:
    """Draw score against rating, a point per unit, with the least-squares line of the study."""
    shown_x, shown_y = thin(x, y, most)
    with drawing() as (fig, axes):
        few = shown_x.size <= 60
        marker = {"markersize": 5.4 if few else 4.4, "markeredgewidth": 0, "alpha": 0.7 if few else 0.45}
        axes.plot(shown_x + jitter(shown_x), shown_y, "o", color=BLUE, zorder=2, **marker)
        if fit is not None:
            reach = np.array([x.min(), x.max()])
            axes.plot(reach, fit.intercept + fit.slope * reach, color=WARM, linewidth=2, zorder=3)
        axes.set(xlabel="score", ylabel="rating")
        _few_ticks(axes)
        return to_svg(fig, prefix, label)


def histogram(values: Floats, prefix: str, label: str, quantity: str = "score") -> Markup:
    """Draw a histogram with the median."""
    distinct = np.unique(values)
    with drawing() as (fig, axes):
        if distinct.size <= 12 and np.allclose(distinct, np.round(distinct)):
            counts = [int((values == value).sum()) for value in distinct]
            axes.bar(distinct, counts, width=0.7, color=FILL, edgecolor=BLUE, linewidth=1)
            axes.set_xticks(distinct, [f"{value:g}" for value in distinct])
        else:
            bins = int(np.clip(np.sqrt(values.size) * 1.4, 8, 30))
            axes.hist(values, bins=bins, color=FILL, edgecolor=BLUE, linewidth=1)
            _few_ticks(axes)
        axes.axvline(float(np.median(values)), color=WARM, linewidth=1.6, linestyle=(0, (4, 2)))
        axes.set(xlabel=quantity, ylabel="units")
        axes.grid(visible=False, axis="x")
        axes.locator_params(axis="y", nbins=5, integer=True)
        return to_svg(fig, prefix, label)


def points(
    means: Sequence[tuple[float, Estimate]],
    prefix: str,
    label: str,
    names: tuple[str, str],
    ticks: Sequence[str] | None = None,
    size: tuple[float, float] = (3.6, 2.5),
) -> Markup:
    """Draw means with intervals, joined by a line; `names` are those of the axes, `ticks` of the points."""
    with drawing(*size) as (fig, axes):
        for index, mean in means:
            if mean.low is not None:
                axes.plot([index] * 2, [mean.low, mean.high], color=BLUE, linewidth=1.4)
        values = [mean.value for _, mean in means]
        axes.plot([index for index, _ in means], values, "-o", color=BLUE, markersize=5, linewidth=1.6)
        axes.set(xlabel=names[0], ylabel=names[1])
        _few_ticks(axes)
        if ticks is not None:
            axes.set_xticks(range(1, len(ticks) + 1), list(ticks))
            axes.grid(visible=False, axis="x")
        return to_svg(fig, prefix, label)


def boxes(
    distributions: Sequence[ScoreSpread],
    prefix: str,
    label: str,
    quantity: str = "score",
    which: str = "label",
    mark: float | None = None,
) -> Markup:
    """Draw a box per group: median, quartiles, 5 % and 95 %; and a dashed line at `mark`."""
    with drawing(height=max(1.6, 0.9 + 0.42 * len(distributions))) as (fig, axes):
        for index, spread in enumerate(distributions):
            low, quarter, middle, three_quarters, high = spread.quantiles
            axes.plot([low, high], [index, index], color=BLUE, linewidth=1.4, zorder=2)
            width = three_quarters - quarter
            box = {"left": quarter, "height": 0.5, "color": FILL, "edgecolor": BLUE, "linewidth": 1.2}
            axes.barh(index, width, zorder=3, **box)
            axes.plot([middle, middle], [index - 0.25, index + 0.25], color=WARM, linewidth=2.2, zorder=4)
        if mark is not None:
            axes.axvline(mark, color=INK, linewidth=1.4, linestyle=(0, (4, 2)), zorder=5)
        keys = placeholders([spread.name for spread in distributions])
        axes.set_yticks(range(len(keys)), list(keys))
        axes.set(xlabel=quantity, ylabel=which, ylim=(len(keys) - 0.4, -0.6))
        axes.grid(visible=False, axis="y")
        axes.locator_params(axis="x", nbins=5)
        return to_svg(fig, prefix, label, keys)


def angles(
    names: tuple[str, str, str], degrees: tuple[float, float, float], prefix: str, label: str
) -> Markup:
    """Draw three arrows: people upwards, two sources at their measured angles to people.

    Args:
        names: People, first source, second source.
        degrees: First source to people, second to people, first to second. If the last is large, the sources
            are drawn on either side of people, otherwise on the same.
    """
    first, second, between = degrees
    same_side = drawn_apart(degrees) != first + second
    at = [90.0, 90.0 + first, 90.0 + (second if same_side else -second)]
    ends = np.array([[np.cos(np.radians(angle)), np.sin(np.radians(angle))] for angle in at])
    low, high = min(-0.06, ends[:, 1].min() - 0.15), max(1.2, ends[:, 1].max() + 0.15)
    keys = placeholders(names)
    with drawing(3.6, 3.6 * (high - low) / 2.7) as (fig, axes):
        axes.set_axis_off()
        axes.set_aspect("equal")
        for (x, y), colour in zip(ends, (INK, BLUE, WARM), strict=True):
            arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 2.2, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", (x, y), (0, 0), arrowprops=arrow)
        close = np.linalg.norm(ends[1] - ends[2]) < 0.2
        drops = (0.0, 0.05, -0.09 if close else 0.05)
        for (x, y), colour, key, drop in zip(ends, (INK, BLUE, WARM), keys, drops, strict=True):
            side = "center" if abs(x) < 0.25 else "left" if x > 0 else "right"
            axes.text(1.08 * x, 1.1 * y + drop, key, color=colour, va="center", ha=side)
        _arc(axes, 0.32, (90.0, at[1]), 0.5, f"{first:.0f}°", BLUE)
        _arc(axes, 0.54, (90.0, at[2]), 0.3 if same_side else 0.5, f"{second:.0f}°", WARM)
        if abs(at[1] - at[2]) > 25:
            _arc(axes, 0.76, (at[1], at[2]), 0.5 if same_side else 0.25, f"{between:.0f}°", SOFT)
        axes.set(xlim=(-1.35, 1.35), ylim=(low, high))
        return to_svg(fig, prefix, label, keys)


def drawn_apart(degrees: tuple[float, float, float]) -> float:
    """Return the angle between two sources as drawn: their sum or difference, whichever is nearer the truth.

    >>> drawn_apart((36, 66, 69)), drawn_apart((36, 37, 14))
    (102, 1)
    """
    first, second, between = degrees
    choices = (first + second, abs(first - second))
    return min(choices, key=lambda drawn: abs(drawn - between))


def placeholders(names: Sequence[str]) -> dict[str, str]:
    """Return placeholders as wide as the names, so that matplotlib leaves room but parses no data."""
    return {f"§{index}".ljust(min(LONGEST, len(name)), "n"): name for index, name in enumerate(names)}


def _arc(axes: Any, reach: float, ends: tuple[float, float], share: float, text: str, colour: str) -> None:
    """Draw an arc between two angles, dashed between sources, its label at a share of the way."""
    turn = np.radians(np.linspace(*ends, 40))
    style = (0, (3, 3)) if colour == SOFT else "-"
    axes.plot(reach * np.cos(turn), reach * np.sin(turn), color=colour, linewidth=1.1, linestyle=style)
    middle = np.radians(ends[0] + share * (ends[1] - ends[0]))
    x, y = (reach + 0.14) * np.cos(middle), (reach + 0.12) * np.sin(middle)
    axes.text(x, y, text, color=SOFT, ha="center", va="center", fontsize=8.5)


def _few_ticks(axes: Any) -> None:
    axes.locator_params(axis="both", nbins=5)
    axes.margins(0.06)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(LINE)


def describe(x: Floats) -> str:
    """Return the five-number summary in words, the text alternative of a histogram."""
    quantiles = [figure(float(q)) for q in np.quantile(x, (0, 0.25, 0.5, 0.75, 1))]
    return "minimum {}, lower quartile {}, median {}, upper quartile {}, maximum {}".format(*quantiles)


def systems(points: Sequence[SystemPoint], prefix: str, label: str) -> Markup:
    """Draw the mean score and mean rating of each system as a point with its intervals."""
    keys = placeholders([name for name, _, _ in points])
    with drawing(3.6, 2.8) as (fig, axes):
        for key, (_, score, rating) in zip(keys, points, strict=True):
            x, y = score.value, rating.value
            for values, flat in ((score, True), (rating, False)):
                if values.low is not None:
                    ends = [values.low, values.high]
                    axes.plot(ends if flat else [x, x], [y, y] if flat else ends, color=LINE, linewidth=1.4)
            axes.plot([x], [y], "o", color=BLUE, markersize=5.4, zorder=3)
            axes.annotate(key, (x, y), (5, 4), textcoords="offset points", color=SOFT, fontsize=8.5)
        axes.set(xlabel="mean score", ylabel="mean rating")
        axes.locator_params(axis="both", nbins=5)
        axes.margins(0.12)
        reach = np.array([point[1].value for point in points])
        if np.ptp(reach) == 0:
            axes.set_xlim(reach[0] - 0.5, reach[0] + 0.5)
        return to_svg(fig, prefix, label, keys)
