"""A figure of the feature space of a corpus, with test dialogues."""

import re
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from dialeval.reports.page import render
from dialeval.reports.svg import BLUE, INK, LINE, SOFT, WARM, drawing, to_svg

Points = NDArray[np.float64]
MOST, MOST_TEST = 3_000, 1_100  # points of the corpus, and of either kind of test dialogue: 300 KB in all
_INK = {
    "var(--ink)": "#1b2330",
    "var(--soft)": "#566070",
    "var(--line)": "#dedad0",
    "var(--blue)": "#0a5c9e",
    "var(--warm)": "#b04307",
    "var(--fill)": "#cfe3f3",
}  # for a picture without a page that defines the colours


def space(
    corpus: Sequence[tuple[float, float]],
    near: Sequence[tuple[float, float]],
    far: Sequence[tuple[float, float]],
    explained: tuple[float, float],
    *,
    drawn_of: int | None = None,
) -> Markup:
    """Draw corpus dialogues as pale dots, and test dialogues over them: near ones filled, far ones hollow.

    Blue and orange are safe for colour-blind readers, and shapes show the same without colours.

    Args:
        corpus: Points of the corpus.
        near: Test dialogues that the corpus covers.
        far: Test dialogues that it does not.
        explained: Share of variance explained by each axis.
        drawn_of: Number of dialogues in the corpus, if the points are a sample of them.
    """
    label = (
        f"Feature space in two dimensions: {len(corpus)} corpus dialogues, "
        f"{len(near)} test dialogues near to one, {len(far)} far from all"
    )
    large = 5.0 if len(near) + len(far) <= 400 else 3.4
    dots = {"color": BLUE, "markersize": 3.0, "markeredgewidth": 0, "alpha": 0.4}
    solid = {"color": WARM, "markersize": large, "markeredgewidth": 0, "alpha": 0.8}
    hollow = {"markerfacecolor": "none", "markeredgecolor": INK, "markersize": large, "markeredgewidth": 1.0}
    with drawing(7.2, 5.2) as (figure, axes):
        axes.plot(
            *_columns(corpus, MOST), "o", label=_named("corpus", len(corpus), MOST, drawn_of or 0), **dots
        )
        axes.plot(*_columns(near, MOST_TEST), "^", label=_named("test, near", len(near), MOST_TEST), **solid)
        axes.plot(*_columns(far, MOST_TEST), "s", label=_named("test, far", len(far), MOST_TEST), **hollow)
        first, second = (f"{share:.0%} of variance" for share in explained)
        axes.set(xlabel=f"first principal axis, {first}", ylabel=f"second principal axis, {second}")
        axes.set_aspect("equal", adjustable="datalim")
        axes.locator_params(axis="both", nbins=6)
        axes.margins(0.05)
        legend = figure.legend(loc="outside upper center", ncols=3, frameon=False, markerscale=1.5)
        for text in legend.get_texts():
            text.set_color(SOFT)
        for side in ("left", "bottom"):
            axes.spines[side].set_color(LINE)
        return to_svg(figure, "space-", label)


def _named(name: str, points: int, most: int, total: int = 0) -> str:
    """Return the name of points, with how many there are and how many of them are shown."""
    shown, total = min(points, most), max(points, total)
    return f"{name}: {total:,}" if shown == total else f"{name}: {shown:,} of {total:,}"


def _columns(points: Sequence[tuple[float, float]], most: int) -> tuple[Points, Points]:
    """Return the coordinates of at most `most` evenly spaced points."""
    coordinates = np.array(points, dtype=np.float64).reshape(-1, 2)
    if len(coordinates) > most:
        coordinates = coordinates[np.linspace(0, len(coordinates) - 1, most).round().astype(int)]
    return coordinates[:, 0], coordinates[:, 1]


def to_file(svg: Markup) -> str:
    """Return the picture as a file of its own, with fixed colours on white."""
    text = str(svg)
    for variable, colour in _INK.items():
        text = text.replace(variable, colour)
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)
    size = f'width="{1.5 * float(box[1]):g}" height="{1.5 * float(box[2]):g}" ' if box else ""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}font-family="sans-serif" style="background:#fff" '
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + text.replace("<svg ", head, 1) + "\n"


def to_page(svg: Markup, title: str, sentences: Sequence[str], caption: str) -> str:
    """Return an HTML page with the picture."""
    context = {"title": title, "svg": svg, "sentences": sentences, "caption": caption}
    return render("picture.html.jinja", context)
