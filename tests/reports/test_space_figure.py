"""The picture of a feature space: well-formed, small, the same every time, nothing from data as markup."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from dialeval.reports.space import MOST, MOST_TEST, space, to_file, to_page


def points(count: int, seed: int = 0) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in np.random.default_rng(seed).normal(size=(count, 2))]


def test_every_point_is_drawn_and_counted_in_the_legend() -> None:
    svg = str(space(points(40), points(7, 1), points(5, 2), (0.31, 0.124)))
    drawing = ET.fromstring(svg)
    said = [text.text for text in drawing.iter("text")]
    assert {"corpus: 40", "test, near: 7", "test, far: 5"} <= set(said)
    assert {
        "first principal axis, 31% of variance",
        "second principal axis, 12% of variance",
    } <= set(said)
    markers: dict[str, int] = {}
    for use in drawing.iter("use"):
        markers[use.attrib["href"]] = markers.get(use.attrib["href"], 0) + 1
    assert {40, 7, 5} <= set(markers.values())
    assert "40 corpus dialogues, 7 test dialogues near to one, 5 far from all" in drawing.attrib["aria-label"]
    assert svg == str(space(points(40), points(7, 1), points(5, 2), (0.31, 0.124)))


def test_a_large_picture_stays_small_and_says_what_it_left_out() -> None:
    svg = str(space(points(4_000), points(3_000, 1), points(2_000, 2), (0.5, 0.1), drawn_of=100_000))
    assert len(to_file(space(points(3_000), points(2_000), points(2_000), (0.5, 0.1)))) < 300_000
    assert f"corpus: {MOST:,} of 100,000" in svg
    assert f"test, near: {MOST_TEST:,} of 3,000" in svg
    assert f"test, far: {MOST_TEST:,} of 2,000" in svg


@pytest.mark.parametrize("count", [0, 1])
def test_few_points_and_no_variance(count: int) -> None:
    svg = space([(0.0, 0.0)] * 2, [(0.0, 0.0)] * count, [], (0.0, 0.0))
    assert f"test, near: {count}" in svg
    ET.fromstring(to_file(svg))


def test_a_file_of_its_own_has_its_own_colours() -> None:
    text = to_file(space(points(9), points(3), points(2), (0.5, 0.1)))
    assert "var(--" not in text
    root = ET.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert float(root.attrib["width"]) > 700
    assert not re.search(r"<script|https?://(?!www\.w3\.org/2000/svg)", text)


def test_a_page_escapes_what_comes_from_data() -> None:
    svg = space(points(9), points(3), points(2), (0.5, 0.1))
    page = to_page(svg, "<script>alert(1)</script>{0}", ["a & b < c", "{title}"], '"><img src=x>')
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;{0}" in page
    assert "<p>a &amp; b &lt; c</p>" in page
    assert "<p>{title}</p>" in page
    assert "<img" not in page
    assert "default-src 'none'" in page
    assert page.count("<svg") == 1
    assert not re.search(r"https?://", page)
