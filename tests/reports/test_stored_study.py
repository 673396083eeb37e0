"""A study that comes from a file: whoever wrote it may have put anything where we put words (R17, R18)."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from outlines import check_outline
from payloads import PAYLOADS
from report_cases import QUICK, ordinary, talks

from dialeval.errors import DataError
from dialeval.reports import to_html, to_latex, to_markdown
from dialeval.studies import Study, inspect, study

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


def loaded(body: dict[str, Any], path: Path) -> Study | None:
    """Read a study that may have been changed: it is refused with one error, or all of it can be shown."""
    path.write_text(json.dumps(body), encoding="utf-8")
    try:
        found = Study.load(path)
    except DataError as error:
        assert str(path) in str(error) and "run dialeval study again" in str(error)
        return None
    to_markdown(found)
    to_latex(found)
    return found


@pytest.fixture(scope="module")
def body() -> dict[str, Any]:
    found = study(ordinary(20), combine=("both=zmean:metric-1+metric-2",), by="system", **QUICK)
    made: dict[str, Any] = json.loads(found.to_json())
    return made | {"notes": ["a note"]}


@pytest.mark.parametrize(
    "number", [pytest.param(one, marks=pytest.mark.soak if one % 20 else ()) for one in range(0, 40, 5)]
)
def test_any_word_of_a_stored_study_may_be_hostile(body: dict[str, Any], number: int, tmp_path: Path) -> None:
    made, changed, path = copy.deepcopy(body), 0, tmp_path / "study.json"
    # The settings say what is computed, so most of them cannot be anything; what was asked for is shown.
    places = {place for place, _, _ in texts(body) if place[0] != "settings"}
    for count, where in enumerate(sorted(places)):
        tried = replaced(made, where, PAYLOADS[(number + count) % len(PAYLOADS)])
        if loaded(tried, path) is not None:
            made, changed = tried, changed + 1
    assert changed > 30
    found = loaded(made, path)
    assert found is not None
    page = to_html(found, inspect(found, ordinary(20), talks(20)), title=PAYLOADS[number])
    check_outline(page)
    assert page.count("default-src &#39;none&#39;") + page.count("default-src 'none'") == 1


@pytest.mark.parametrize(
    ("where", "value", "field"),
    [
        (("correlations", 0, "n"), "seven", "correlations[0].n"),
        (("correlations", 0, "pearson", "low"), None, "correlations[0].pearson"),
        (("correlations", 1), {}, "correlations[1]"),
        (("settings", "method"), "cosine", "settings"),
        (("units", "turns"), [], "units"),
        (("matrix", "labels"), ["one"], "matrix"),
        (("agreement", 0, "alpha"), {}, "agreement[0]"),
        (("gold", "colour"), "red", "gold"),
        (("version",), "study.v1", "version"),
    ],
)
def test_a_changed_file_is_refused_by_its_field(
    body: dict[str, Any], where: tuple[Any, ...], value: Any, field: str, tmp_path: Path
) -> None:
    made = copy.deepcopy(body)
    holder: Any = made
    for step in where[:-1]:
        holder = holder[step]
    holder[where[-1]] = value
    (tmp_path / "study.json").write_text(json.dumps(made), encoding="utf-8")
    with pytest.raises(DataError, match="run dialeval study again") as caught:
        Study.load(tmp_path / "study.json")
    assert caught.value.file == tmp_path / "study.json"
    assert caught.value.field == field
