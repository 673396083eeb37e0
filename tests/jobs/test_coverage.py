"""Coverage: distances, axes and interval against other implementations; what is compared, and what is not."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dialeval.dialogues import Dialogue, dialogue
from dialeval.dialogues.formats.writing import to_json
from dialeval.errors import DataError, UsageError
from dialeval.jobs import coverage
from dialeval.jobs.coverage import cover, nearest, principal_axes
from dialeval.jobs.demo import example_dialogues
from dialeval.models.encoder import Encoder
from dialeval.models.index import Index, features
from dialeval.statistics import share


def unit_rows(count: int, width: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(count, width))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


# --- numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("own", [False, True])
def test_nearest_equals_the_whole_matrix(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "_ROWS", 7)
    monkeypatch.setattr(coverage, "_QUERIES", 5)
    stored = unit_rows(53, 6, 0)
    rows = np.flatnonzero(np.arange(53) % 4)
    queries = stored[rows] if own else unit_rows(18, 6, 1)
    distance, found = nearest(stored, rows, queries, own=rows if own else None)
    cosines = queries.astype(np.float64) @ stored[rows].astype(np.float64).T
    if own:
        np.fill_diagonal(cosines, -np.inf)
    assert found.tolist() == rows[cosines.argmax(axis=1)].tolist()
    assert distance == pytest.approx(1 - cosines.max(axis=1), abs=1e-6)


def test_axes_equal_those_of_another_implementation(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.decomposition import PCA

    monkeypatch.setattr(coverage, "_ROWS", 16)
    stored, others = unit_rows(60, 9, 2) * np.arange(1, 10), unit_rows(20, 9, 3) + 0.5
    rows = np.arange(5, 60)
    project, explained = principal_axes(stored, rows, others)
    both = np.vstack([stored[rows], others]).astype(np.float64)
    oracle = PCA(2, svd_solver="full").fit(both)
    wanted, found = oracle.transform(both), project(both)
    assert np.abs(found) == pytest.approx(np.abs(wanted), abs=1e-9)
    assert explained == pytest.approx(tuple(oracle.explained_variance_ratio_), abs=1e-9)
    mirrored, _ = principal_axes(-stored, rows, -others)  # a picture flips with the data, not by chance
    assert mirrored(-both) == pytest.approx(found, abs=1e-9) or mirrored(-both) == pytest.approx(
        -found, abs=1e-9
    )
    weights = project(np.eye(9)) - project(np.zeros((9, 9)))
    assert (weights[np.abs(weights).argmax(axis=0), [0, 1]] > 0).all()


def test_axes_of_one_dimension_and_of_one_point() -> None:
    project, explained = principal_axes(np.array([[1.0], [3.0]]), np.arange(2), np.array([[2.0]]))
    assert (project(np.array([[3.0]])).tolist(), explained) == ([[1.0, 0.0]], (1.0, 0.0))
    project, explained = principal_axes(np.ones((3, 4)), np.arange(3), np.ones((1, 4)))
    assert (np.abs(project(np.ones((1, 4)))).max(), explained) == (0.0, (0.0, 0.0))


# --- a corpus of our own ------------------------------------------------------------------------------------


def said(name: str, degrees: float | None) -> Dialogue:
    return dialogue([("user", f"So, {name}?"), ("assistant", "Indeed.")], name, meta={"at": degrees})


def at(chats: Sequence[Dialogue]) -> np.ndarray:
    """A feature that can be checked by hand: a direction in the plane, or none."""
    turns = [np.nan if one.meta["at"] is None else np.radians(one.meta["at"]) for one in chats]
    return np.nan_to_num(np.column_stack([np.cos(turns), np.sin(turns)])) * 3


@pytest.fixture
def circle(tmp_path: Path) -> Path:
    """Corpus dialogues at 0, 10, 20, … 90 degrees: every one has its nearest at 10 degrees."""
    chats = [said(f"c{degrees}", degrees) for degrees in range(0, 100, 10)] + [said("silent", None)]
    documents = [to_json(one) for one in chats]
    ids = [one.id for one in chats]
    Index.build(tmp_path / "circle", ids, {"at": at(chats), "words": ids}, documents=documents)
    return tmp_path / "circle"


def distance(degrees: float) -> float:
    return 1 - float(np.cos(np.radians(degrees)))


def test_covered_is_what_is_as_near_as_half_of_the_corpus(circle: Path) -> None:
    tests = [said("t43", 43), said("t97", 97), said("t101", 101), said("mute", None), said("t180", 180)]
    found = cover(tests, circle, "at", features=at)
    assert found.limit == pytest.approx(distance(10), abs=1e-6)
    assert [(place.id, place.nearest, place.covered) for place in found.places] == [
        ("t43", "c40", True),
        ("t97", "c90", True),
        ("t101", "c90", False),
        ("t180", "c90", False),
    ]
    assert [place.distance for place in found.places] == pytest.approx(
        [distance(gap) for gap in (3, 7, 11, 90)], abs=1e-6
    )
    assert (found.share.value, found.share.n) == (0.5, 4)
    wanted = share(2, 4)
    assert (found.share.low, found.share.high) == (wanted.low, wanted.high)
    assert (found.n_test, found.n_without, found.n_corpus, found.n_left_out) == (5, 1, 10, 0)
    assert sum(found.explained) == pytest.approx(1)
    assert len(found.corpus) == 10


def test_equal_dialogues_are_left_out_of_the_corpus(circle: Path) -> None:
    copy = dialogue([("A", "so C40"), ("B", "INDEED")], "other-id", meta={"at": 40})
    found = cover([copy], circle, "at", features=at)
    assert (found.n_left_out, found.n_corpus) == (1, 9)
    assert found.places[0].nearest in ("c30", "c50")


def test_a_corpus_of_copies_covers_what_is_equal_to_them(tmp_path: Path) -> None:
    chats = [said(f"c{number}", 30 * (number // 2)) for number in range(6)]
    ids = [one.id for one in chats]
    Index.build(tmp_path / "i", ids, {"at": at(chats)})
    found = cover([said("t", 30), said("u", 31)], tmp_path / "i", "at", features=at)
    assert found.limit == 0
    assert [place.covered for place in found.places] == [True, False]
    assert found.notes == ["the index holds no dialogues: equal ones could not be left out"]


def test_large_corpora_are_sampled_the_same_way_every_time(
    circle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coverage, "SAMPLE", 4)
    monkeypatch.setattr(coverage, "SHOWN", 3)
    monkeypatch.setattr(coverage, "_DIALOGUES", 3)
    tests = [said("t43", 43), said("t97", 97), said("t101", 101), said("t180", 180)]
    found = cover(tests, circle, "at", features=at)
    assert (found.n_sampled, len(found.corpus), found.n_corpus) == (4, 3, 10)
    assert found.limit == pytest.approx(distance(10), abs=1e-6)
    assert json.dumps(found.to_dict()) == json.dumps(cover(tests, circle, "at", features=at).to_dict())
    assert found.corpus != cover(tests, circle, "at", features=at, seed=1).corpus


# --- the column text ----------------------------------------------------------------------------------------


def test_text_is_made_as_the_index_made_it(tmp_path: Path) -> None:
    chats, encoder = example_dialogues(), Encoder.load()
    corpus, tests = chats[:40], chats[40:]
    index = Index.of_dialogues(tmp_path / "i", corpus, encoder)
    found = cover(tests, tmp_path / "i")
    assert (found.column, found.n_test, found.n_corpus) == ("text", 20, 40)
    assert found.index == index.sha
    hits = index.search(features(tests, encoder)["text"], 1, exact=True)
    for place, (hit,) in zip(found.places, hits, strict=True):
        assert place.distance == pytest.approx(1 - hit.score, abs=1e-6)
        assert place.nearest == hit.id
    with pytest.raises(DataError, match="40 of 40 dialogues say the same as a test dialogue"):
        cover(corpus, tmp_path / "i", "text", encoder="dialeval-encoder-small")


@pytest.mark.parametrize("column", ["acts", "content"])
def test_columns_of_a_consensus_corpus(tmp_path: Path, column: str) -> None:
    from dialeval.models.consensus import Description, corpus_blocks

    how = Description(h=2, l=3)
    try:
        name = how.names[column]
    except UsageError:
        pytest.skip("the models of segment acts are not there")
    chats, encoder = example_dialogues(), Encoder.load()
    index = Index.build_from(tmp_path / "i", corpus_blocks(chats[:20], how), encoder=encoder)
    found = cover(chats[20:30], tmp_path / "i", column)
    assert (found.column, found.n_corpus, found.n_test) == (name, 20, 10)
    hits = index.search(getattr(how.describe(chats[20:30]), column), 1, column=name, exact=True)
    for place, (hit,) in zip(found.places, hits, strict=True):
        assert place.distance == pytest.approx(1 - hit.score, abs=1e-5)
    if column == "acts":
        assert cover(chats[20:30], tmp_path / "i").column == name
    elsewhere = {f"{column}-1234": np.ones((3, 4))}
    Index.build(tmp_path / "other", ["a", "b", "c"], elsewhere)
    with pytest.raises(UsageError, match="made by other models"):
        cover(chats[20:30], tmp_path / "other", column)


def test_refusals(circle: Path, tmp_path: Path) -> None:
    tests = [said("t", 1)]
    with pytest.raises(UsageError, match="name a column of vectors; this index has: at"):
        cover(tests, circle)
    with pytest.raises(UsageError, match="the column 'at' cannot be computed"):
        cover(tests, circle, "at")
    for name in ("words", "none"):
        with pytest.raises(UsageError, match=f"no column of vectors called '{name}'; this index has: at"):
            cover(tests, circle, name, features=at)
    with pytest.raises(DataError, match="no test dialogue has features"):
        cover([said("mute", None)], circle, "at", features=at)
    with pytest.raises(DataError, match="no test dialogue has features"):
        cover([], circle, "at", features=at)
    with pytest.raises(UsageError, match="vectors are 3 wide, those of the index 2"):
        cover(tests, circle, "at", features=lambda chats: np.ones((len(chats), 3)))
    with pytest.raises(DataError, match="nowhere"):
        cover(tests, tmp_path / "nowhere")
    everything = [said(f"c{degrees}", degrees) for degrees in range(0, 90, 10)]
    with pytest.raises(DataError, match="fewer than two dialogues of the corpus"):
        cover(everything, circle, "at", features=at)
    Index.build(tmp_path / "others", ["d1"], {"text": np.ones((1, 384))})
    with pytest.raises(DataError, match="built without an encoder"):
        cover(tests, tmp_path / "others")
