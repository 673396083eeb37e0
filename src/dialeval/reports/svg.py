"""Inline SVG from matplotlib figures, in the page's colours.

Matplotlib draws in a few placeholder colours, which become the page's CSS variables, so that one figure
serves light, dark and print. It never gets text from data: names are inserted afterwards, escaped. External
references (metadata, doctype, namespaces) are removed; ids get a prefix, because all figures share one page.
"""

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from markupsafe import Markup

from dialeval.reports.text import one_line, shorten

INK, SOFT, LINE, BLUE, WARM, FILL = "#000001", "#000002", "#000003", "#000004", "#000005", "#000006"
LONGEST = 18
_VARIABLES = {
    INK: "var(--ink)",
    SOFT: "var(--soft)",
    LINE: "var(--line)",
    BLUE: "var(--blue)",
    WARM: "var(--warm)",
    FILL: "var(--fill)",
}
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dialeval",
    "font.size": 9.5,
    "axes.edgecolor": LINE,
    "axes.labelcolor": SOFT,
    "axes.linewidth": 1.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "axes.unicode_minus": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": SOFT,
    "ytick.labelcolor": SOFT,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "figure.constrained_layout.use": True,
}
_DIGITS = re.compile(r"-?\d+\.\d{3,}")
_COLOUR = re.compile("|".join(_VARIABLES))
_FAMILY = re.compile(r"font-family: [^;]*(; )?")


@contextmanager
def drawing(width: float = 3.6, height: float = 2.5) -> Iterator[tuple[Any, Any]]:
    """Yield a figure and its axes, in inches of 72 px, independent of the user's matplotlib settings."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)  # type: ignore[arg-type]
        figure = Figure(figsize=(width, height), facecolor="none")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot(facecolor="none")
        yield figure, axes


def to_svg(figure: Any, prefix: str, label: str, names: Mapping[str, str] | None = None) -> Markup:
    """Return a figure as inline SVG.

    Args:
        figure: A matplotlib figure drawn in this module's colours, without text from data.
        names: Texts from data, by the placeholder that each replaces.
    """
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    root = ET.fromstring(out.getvalue())  # noqa: S314  # matplotlib's own output, no text from data in it
    for parent in list(root.iter()):
        for child in list(parent):
            if _local(child.tag) in ("metadata", "style"):  # the page has a style of its own
                parent.remove(child)
        _share_style(parent)
    used = {
        value[1:] for element in root.iter() for value in element.attrib.values() if value.startswith("#")
    }
    used |= set(re.findall(r"url\(#([^)]+)\)", out.getvalue().decode()))
    for element in root.iter():
        _clean(element, prefix, used, names or {})
    box = root.get("viewBox") or ""
    root.attrib.clear()
    root.attrib.update({"viewBox": box, "role": "img", "aria-label": one_line(label)})
    text = ET.tostring(root, encoding="unicode").replace(" />", "/>")
    return Markup(re.sub(r">\s+<", "><", text))  # noqa: S704  # serialised by ElementTree, which escapes


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _share_style(parent: ET.Element) -> None:
    """Move the style of equal markers to the group around them."""
    styles = {child.get("style") for child in parent}
    if len(styles) == 1 and all(_local(child.tag) == "use" for child in parent):
        parent.set("style", styles.pop() or "")
        for child in parent:
            child.attrib.pop("style", None)


def _clean(element: ET.Element, prefix: str, used: set[str], names: Mapping[str, str]) -> None:
    element.tag = _local(element.tag)
    attributes = {_local(key): value for key, value in element.attrib.items()}
    name = attributes.pop("id", None)
    if name in used:
        attributes["id"] = f"{prefix}{name}"
    if attributes.get("href", "").startswith("#"):
        attributes["href"] = f"#{prefix}{attributes['href'][1:]}"
    if attributes.get("transform", "").startswith("rotate(-0 "):
        del attributes["transform"]
    for key, value in attributes.items():
        text = value.replace("url(#", f"url(#{prefix}")
        text = _COLOUR.sub(lambda match: _VARIABLES[match[0]], _FAMILY.sub("", text))
        text = " ".join(text.split()) if key == "d" else text
        attributes[key] = _DIGITS.sub(_round, text) if key in ("d", "x", "y", "transform", "style") else text
    element.attrib.clear()
    element.attrib.update(attributes)
    if element.tag == "text" and element.text is not None and element.text in names:
        element.text = shorten(one_line(names[element.text]), LONGEST)


def _round(match: re.Match[str]) -> str:
    return f"{float(match[0]):.2f}".rstrip("0").rstrip(".")
