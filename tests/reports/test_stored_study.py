"""A study that comes from a file: whoever wrote it may have put anything where we put words (R17, R18)."""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from payloads import PAYLOADS
from report_cases import QUICK, ordinary, talks
from test_page import Outline

from dialeval.reports.latex import to_latex
from dialeval.reports.markdown import to_markdown
from dialeval.reports.page import to_html
from dialeval.studies import Study, study

Where = tuple[str, ...]


def texts(found: Any, where: Where = ()) -> Iterator[tuple[Where, Any, Any]]:
    """Yield every string of a study: its place without the numbers of rows, what holds it, and its key."""
    items = found.items() if isinstance(found, dict) else enumerate(found)
    for key, value in list(items):
        place = (*where, key) if isinstance(key, str) else where
        if isinstance(value, dict | list):
            yield from texts(value, place)
        elif isinstance(value, str):
            yield place, found, key


def replaced(body: dict[str, Any], where: Where, payload: str) -> dict[str, Any]:
    made = copy.deepcopy(body)
    for place, holder, key in texts(made):
        if place == where:
            holder[key] = payload
    return made


def is_shown(body: dict[str, Any]) -> bool:
    """Say whether tables can be made of it; words that we compute with cannot be anything."""
    try:
        to_markdown(Study(**body))
        to_latex(Study(**body))
    except (LookupError, TypeError, ValueError, AttributeError):
        return False
    return True


@pytest.fixture(scope="module")
def body() -> dict[str, Any]:
    found = study(ordinary(20), combine=("both=zmean:metric-1+metric-2",), by="system", **QUICK)
    made: dict[str, Any] = json.loads(found.to_json())
    del made["version"]
    return made | {"notes": ["a note"], "schema": {"what": "quality", "by": "people"}}


@pytest.mark.parametrize("number", range(0, 40, 5))
def test_any_word_of_a_stored_study_may_be_hostile(body: dict[str, Any], number: int) -> None:
    made, changed = copy.deepcopy(body), 0
    # The settings say what is computed, so most of them cannot be anything; what was asked for is shown.
    places = {place for place, _, _ in texts(body) if place[0] != "settings"}
    for count, where in enumerate(sorted(places)):
        tried = replaced(made, where, PAYLOADS[(number + count) % len(PAYLOADS)])
        if is_shown(tried):
            made, changed = tried, changed + 1
    assert changed > 30
    page = to_html(Study(**made), ordinary(20), talks(20), title=PAYLOADS[number])
    outline = Outline(page)
    assert outline.open == []
    assert not outline.tags & {"script", "link", "iframe", "object", "embed", "form", "base", "img"}
    assert not any(name.startswith("on") for name in outline.attributes)
    assert all(link.startswith("#") for link in outline.links)
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", page)
    assert page.count("default-src &#39;none&#39;") + page.count("default-src 'none'") == 1
