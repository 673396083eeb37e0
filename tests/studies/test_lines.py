"""Lines through a source: the fit, the predictions without one's own dialogue, and the kind of evaluation."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from dialeval.errors import UsageError
from dialeval.reports import to_html
from dialeval.scores import Score, Scores
from dialeval.studies import Study, StudySettings, study
from dialeval.studies.combination import with_lines

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
COMBINE = ("voted=line:voted-appropriateness/votes",)


def table(
    seed: int = 0, systems: int = 7, static: bool = True, silent: int = 0
) -> tuple[Scores, list[tuple]]:
    """Ratings that are 2 + 0.5 V and noise, in five conversations that all systems answer."""
    rng = np.random.default_rng(seed)
    rows, points = [], []
    for system in range(systems):
        for talk in range(5):
            for turn in range(1, 12, 2):
                votes = float(rng.binomial(4, 0.15 + 0.1 * system))
                rating = 2 + 0.5 * votes + rng.normal(0, 0.4)
                name = f"d{talk}@turn-{turn}" if static else f"d{talk}-{system}"
                place = (name, turn, f"s{system}")
                hidden = len(points) < silent
                rows.append(
                    Score(
                        *place,
                        "voted-appropriateness",
                        "votes",
                        None if hidden else votes,
                        "x" if hidden else None,
                    )
                )
                rows.append(Score(*place, "weak-agreement", "agreement", 5.0 if votes else 1.0))
                rows.append(Score(*place, "human:ann", "appropriateness", rating))
                points.append((f"d{talk}" if static else name, system, votes, rating))
    return Scores.of(rows), points


def made(scores: Scores, **settings: object) -> Study:
    fixed = {"combine": COMBINE, "resamples": 200, "permutations": 200, **settings}
    return study(scores, **fixed)  # type: ignore[arg-type]


def test_the_line_is_least_squares_over_everything() -> None:
    scores, points = table()
    votes, ratings = (np.array([one[place] for one in points]) for place in (2, 3))
    row = made(scores, level="turn").lines[0]
    slope, intercept = np.polyfit(votes, ratings, 1)
    assert row.slope.value == pytest.approx(slope)
    assert row.intercept.value == pytest.approx(intercept)
    assert row.slope.low < 0.5 < row.slope.high
    assert row.slope.p < 0.001
    assert row.r_squared == pytest.approx(np.corrcoef(votes, ratings)[0, 1] ** 2)
    assert row.n == len(points)


def test_predictions_leave_the_conversation_out() -> None:
    scores, points = table()
    predicted = np.empty(len(points))
    for talk in {one[0] for one in points}:
        own = np.array([one[0] == talk for one in points])
        x, y = (np.array([one[place] for one in points]) for place in (2, 3))
        slope, intercept = np.polyfit(x[~own], y[~own], 1)
        predicted[own] = intercept + slope * x[own]
    found = made(scores, level="turn")
    wanted = np.corrcoef(predicted, [one[3] for one in points])[0, 1]
    row = next(row for row in found.correlations if row.label == "voted")
    assert row.pearson.value == pytest.approx(wanted)
    by_system = made(scores, level="system")
    means = [
        [np.mean([v for v, one in zip(values, points, strict=True) if one[1] == s]) for s in range(7)]
        for values in (predicted, [one[3] for one in points])
    ]
    row = next(row for row in by_system.correlations if row.label == "voted")
    assert row.pearson.value == pytest.approx(np.corrcoef(*means)[0, 1])
    assert row.n == 7
    assert by_system.lines == found.lines, "the line is fitted to replies at every level"


def test_a_line_says_nothing_where_its_source_is_silent() -> None:
    found = made(table(silent=30)[0], level="turn")
    row = next(row for row in found.correlations if row.label == "voted")
    assert (row.n, row.n_unscored) == (180, 30)


def test_a_note_where_most_units_have_no_vote() -> None:
    scores, _ = table(systems=2)
    assert not [note for note in made(scores, level="turn").notes if "lowest value" in note]
    rows = [
        row._replace(value=0.0) if row.source.startswith("voted") and row.turn != 1 else row for row in scores
    ]
    notes = made(Scores.of(rows), level="turn").notes
    assert [note for note in notes if "have the lowest value of voted-appropriateness/votes (0)" in note]


@pytest.mark.parametrize("text", ["v=line:a+b", "v=line:"])
def test_a_line_goes_through_one_source(text: str) -> None:
    with pytest.raises(UsageError, match="--combine"):
        made(table()[0], combine=(text,))


def test_without_ratings_there_is_nothing_to_fit() -> None:
    scores = table()[0].where(source=lambda name: not name.startswith("human"))
    with pytest.raises(UsageError, match="need ratings"):
        made(scores, level="turn")


def test_the_report_sees_the_same_line_and_draws_both_figures(tmp_path: Path) -> None:
    scores, _ = table()
    for level in ("turn", "system"):
        found = made(scores, level=level)
        assert not np.isnan(found.units.values("voted")).any()
        found.save(tmp_path / "study.json")
        assert Study.load(tmp_path / "study.json") == found
    page = to_html(made(scores, level="turn"))
    assert page == to_html(made(scores, level="turn")), "jitter is the same every time"
    for piece in (
        "Kind of evaluation",
        "Lines fitted to the ratings",
        "Equal scores are jittered",
        "Systems by weak-agreement and rating",
        "A point is a system",
    ):
        assert piece in page


@pytest.mark.parametrize(
    ("source", "static", "settings", "wanted"),
    [
        ("human:ann", True, {}, ("human and automatic", "static", "bystander")),
        ("human:ann", False, {}, ("human and automatic", "not said", "bystander")),
        ("human:ann", False, {"context": "dynamic"}, ("human and automatic", "dynamic", "bystander")),
        ("human:user", False, {}, ("human and automatic", "dynamic", "participant")),
        ("judge", False, {"gold": "judge"}, ("automatic", "not said", "none")),
    ],
)
def test_the_kind_of_evaluation(source: str, static: bool, settings: dict, wanted: tuple) -> None:
    rows = [
        row._replace(source=source) if row.source == "human:ann" else row for row in table(static=static)[0]
    ]
    found = made(Scores.of(rows), level="turn", combine=(), **settings)
    schema = found.schema
    assert schema is not None
    assert (schema.evaluator, schema.context, schema.participation) == wanted
    assert (schema.metric, schema.level) == ("appropriateness", "turn")
    assert json.loads(found.to_json())["schema"] == asdict(schema)


def test_the_invented_study_recovers_its_line_and_votes_overtake() -> None:
    import votes

    held = votes.coverage(60, seed=1)
    assert min(held[:2]) >= 0.87, "95 % intervals"
    assert held[2:] == pytest.approx((votes.INTERCEPT, votes.SLOPE), abs=0.05)
    rows = {graded: means for graded, means, _ in votes.overtaking(15, seed=1)}
    assert rows[0.0]["weak system"] > rows[0.0]["voted system"] + 0.1
    assert rows[1.0]["voted system"] > rows[1.0]["weak system"] + 0.1


def test_wizards_drawn_from_dbdc3(data_folder: Path) -> None:
    import votes

    if not (data_folder / "dbdc3").is_dir():
        pytest.skip("dbdc3 is not there")
    tables = votes.labelled()
    assert len(tables) == 415
    found = votes.both(votes.drawn(tables, 0))
    assert found["weak response"] == pytest.approx(0.340, abs=0.001)
    assert found["voted response"] == pytest.approx(0.502, abs=0.001)


def test_a_line_counts_equal_replies_of_systems_once() -> None:
    """Two systems say the same in a context: the paper fits its line to distinct pairs."""
    votes, ratings = [0.0, 1.0, 2.0, 3.0, 4.0, 4.0], [1.0, 2.5, 2.0, 3.5, 5.0, 5.0]
    rows = []
    for number, (vote, rating) in enumerate(zip(votes, ratings, strict=True)):
        name = f"d{min(number, 4)}"
        rows.append(Score(name, 1, f"s{number // 5}", "votes", "votes", vote))
        rows.append(Score(name, 1, f"s{number // 5}", "human:ann", "quality", rating))
    scores = Scores.of(rows, {})

    def slope(text: str) -> tuple[float | None, int]:
        _, (line,) = with_lines(scores, StudySettings(combine=(text,), dimension="quality", level="turn"))
        return line.slope.value, line.n

    assert slope("v=line:votes")[1] == 5
    assert slope("v=line:votes")[0] == pytest.approx(np.polyfit(votes[:5], ratings[:5], 1)[0])
    assert slope("v=line:votes,pairs=all")[0] == pytest.approx(np.polyfit(votes, ratings, 1)[0])
    assert slope("v=line:votes,pairs=all")[1] == 6
    said = {(f"d{min(n, 4)}", 1, f"s{n // 5}"): f"reply {n}" for n in range(6)}
    chosen = StudySettings(combine=("v=line:votes",), dimension="quality", level="turn")
    _, (line,) = with_lines(scores, chosen, said)
    assert line.n == 6, "other replies with the same votes and ratings are other pairs"
