"""Scores in notebooks: data frames both ways, and what a notebook shows."""

import pytest

from dialeval.errors import DataError
from dialeval.scores import Score, Scores, Signature

ROWS = [
    Score("d1", 1, "bot", "m", "x", 0.5),
    Score("d1", None, None, "m", "x", None, "empty"),
    Score("<b>", 3, "bot", "judge", "y", 2.0, "warned"),
]
SCORES = Scores.of(ROWS, {"m": Signature.parse("m.v1|k:1")})


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_and_back(library: str) -> None:
    pytest.importorskip(library)
    back = Scores.from_pandas(getattr(SCORES, f"to_{library}")())
    assert list(back) == ROWS
    assert back.signatures == (SCORES.signatures if library == "pandas" else {})


def test_a_frame_of_somebody_else() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"dialogue_id": ["a", "b"], "source": ["j", "j"], "value": [1, float("nan")]})
    assert [row[3:] for row in Scores.from_pandas(frame)] == [
        ("j", "j", 1.0, None),
        ("j", "j", None, "unscored"),
    ]
    with pytest.raises(DataError, match="no column 'value'"):
        Scores.from_pandas(frame.drop(columns="value"))
    with pytest.raises(DataError, match="the data frame"):
        Scores.from_pandas(frame.assign(turn=["x", "y"]))


def test_scores_print_as_their_means() -> None:
    scores = Scores.of([Score("d1", 1, "bot", "m", "x", 1.0), Score("d2", 1, "bot", "m", "x", None)])
    assert str(scores).splitlines() == [
        "source  dimension  level  system  mean  n  unscored",
        "m       x          turn   bot        1  1         1",
    ]
    assert repr(scores) == "<Scores: 2 of m>"
    assert repr(Scores.of([])) == "<Scores: 0 of nothing>" and str(Scores.of([])).startswith("source")


def test_what_a_notebook_shows_is_escaped() -> None:
    shown = Scores.of([*ROWS, Score("d", None, "<script>", "m", "x", 1.0)])._repr_html_()
    assert (
        shown.startswith("<table><caption>4 scores") and "&lt;script&gt;" in shown and "<script" not in shown
    )
