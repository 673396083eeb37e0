"""Systems as points: what a source says of each against what people say, one picture a source."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from markupsafe import Markup

from dialeval import statistics
from dialeval.reports.figures import placeholders
from dialeval.reports.svg import BLUE, LINE, SOFT, drawing, to_svg
from dialeval.reports.table import decimal
from dialeval.studies import Study

MOST_SOURCES, MOST_SYSTEMS = 8, 24
Point = tuple[str, dict[str, Any], dict[str, Any]]


def system_pictures(study: Study) -> Iterator[tuple[str, str, Markup, str]]:
    """Draw each source's mean for every system against people's: label, correlation, picture, caption.

    Nothing for fewer than three systems: any two points lie on a line.
    """
    if study.gold is None:
        return
    means: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in study.systems:
        if row["mean"]["value"] is not None:
            means.setdefault((row["source"], row["dimension"]), {})[row["system"]] = row["mean"]
    people = means.get((study.gold["source"], study.gold["dimension"]), {})
    rated = [(row["label"], (row["source"], row["dimension"])) for row in study.correlations]
    for place, (label, column) in enumerate(rated[:MOST_SOURCES]):
        own = means.get(column, {})
        points: list[Point] = [(name, own[name], people[name]) for name in people if name in own]
        if 3 <= len(points) <= MOST_SYSTEMS:
            x, y = [one[1]["value"] for one in points], [one[2]["value"] for one in points]
            found = statistics.pearson(x, y)
            small = f"r {decimal(found.value, 2)}" if found.value is not None else f"r: {found.reason}"
            words = ", ".join(
                f"{name} {decimal(a, 2)} / {decimal(b, 2)}"
                for (name, _, _), a, b in zip(points, x, y, strict=True)
            )
            svg = _picture(points, f"y{place}-", f"Systems by {label} and rating: {words}")
            yield (
                label,
                small,
                svg,
                f"Mean score and mean rating of each system, with intervals. n = {len(points)} systems.",
            )


def _picture(points: list[Point], prefix: str, label: str) -> Markup:
    keys = placeholders([name for name, _, _ in points])
    with drawing(3.6, 2.8) as (fig, axes):
        for key, (_, score, rating) in zip(keys, points, strict=True):
            x, y = score["value"], rating["value"]
            for values, flat in ((score, True), (rating, False)):
                if values["low"] is not None:
                    ends = [values["low"], values["high"]]
                    axes.plot(ends if flat else [x, x], [y, y] if flat else ends, color=LINE, linewidth=1.4)
            axes.plot([x], [y], "o", color=BLUE, markersize=5.4, zorder=3)
            axes.annotate(key, (x, y), (5, 4), textcoords="offset points", color=SOFT, fontsize=8.5)
        axes.set(xlabel="mean score", ylabel="mean rating")
        axes.locator_params(axis="both", nbins=5)
        axes.margins(0.12)
        reach = np.array([one[1]["value"] for one in points])
        if np.ptp(reach) == 0:
            axes.set_xlim(reach[0] - 0.5, reach[0] + 0.5)
        return to_svg(fig, prefix, label, keys)
