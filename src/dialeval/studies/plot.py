"""Estimates as points with their intervals, for a notebook."""

from collections.abc import Sequence
from typing import Any

from dialeval.statistics import Estimate


def plot(rows: Sequence[tuple[str, Estimate]], what: str) -> Any:
    """Draw named estimates below each other, the first on top; what is undefined is left out.

    Returns:
        A matplotlib figure, which a notebook shows and `savefig` writes.
    """
    from matplotlib.figure import Figure

    known = [(label, found) for label, found in rows if found.value is not None][::-1]
    figure = Figure(figsize=(6, 1 + 0.3 * len(known)), layout="constrained")
    axes: Any = figure.add_subplot()
    for place, (_, found) in enumerate(known):
        if found.low is not None:
            axes.plot([found.low, found.high], [place, place], color="C0", alpha=0.5, linewidth=3)
        axes.plot([found.value], [place], "o", color="C0")
    axes.set_yticks(range(len(known)), [label for label, _ in known], parse_math=False)
    axes.set_xlabel(what, parse_math=False)
    axes.axvline(0, color="0.7", linewidth=1, zorder=0)
    return figure
