"""What was acknowledged is there, once; a full disk changes nothing."""

import json
import sqlite3
import stat
import threading
from pathlib import Path

import pytest
from annotation_server import answer_all, make_study, together

from dialeval.annotation import AnnotationProject, parse_scheme
from dialeval.annotation import assignment as act
from dialeval.annotation.export import scores_of
from dialeval.annotation.project import fingerprint, snapshot
from dialeval.annotation.store import DiskFullError, Store
from dialeval.errors import DataError


@pytest.fixture
def study(tmp_path: Path) -> AnnotationProject:
    return AnnotationProject(make_study(tmp_path / "study"))


def rows(study: AnnotationProject, table: str) -> int:
    with study.store.reading() as db:
        return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def test_the_disk_is_asked_to_be_sure(study: AnnotationProject) -> None:
    with study.store.reading() as db:
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert db.execute("PRAGMA synchronous").fetchone()[0] == 2
    assert stat.S_IMODE((study.folder / "study.db").stat().st_mode) == 0o600


def test_the_same_ticket_is_one_answer(study: AnnotationProject) -> None:
    seat = act.assignment_at(study, "ann", 1)
    assert seat is not None
    results = []

    def send() -> None:
        results.append(act.answer(study, "ann", seat, {"turn-quality": 2}, "ticket", 0.0))

    together(send, *[()] * 8)
    assert sorted(results) == [False] * 7 + [True]
    assert rows(study, "answers") == rows(study, "log") == 1


def test_undo_brings_the_answer_back_and_answering_again_replaces_it(study: AnnotationProject) -> None:
    for value in (0, 1):
        answer_all(study, "ann", {"turn-quality": value}, 1)
    assert act.undo(study, "ann") == 2
    assert act.current(study, "ann") == 2
    assert len(scores_of(snapshot(study))) == 1  # what was taken back does not count
    seat = act.assignment_at(study, "ann", 2)
    assert seat is not None and seat.answers == {"turn-quality": 1}
    act.answer(study, "ann", seat, {"turn-quality": 2}, "t3", 0.0)
    assert act.undo(study, "ann") == 2
    assert act.undo(study, "ann") == 1
    assert act.undo(study, "ann") is None
    assert rows(study, "answers") == 2


def test_a_full_disk_changes_nothing_and_is_got_over(study: AnnotationProject) -> None:
    seat = act.assignment_at(study, "ann", 1)
    assert seat is not None
    with study.store.writing() as db:
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages}")
    long = {"turn-quality": 1, "words": "x" * 50_000}
    with pytest.raises(DiskFullError, match="nothing was changed"):
        act.answer(study, "ann", seat, long, "t1", 0.0)
    assert rows(study, "answers") == rows(study, "log") == 0
    assert act.current(study, "ann") == 1
    with study.store.writing() as db:
        db.execute("PRAGMA max_page_count = 1000000")
    assert act.answer(study, "ann", seat, long, "t1", 0.0)
    assert rows(study, "answers") == 1


def test_the_fingerprint_of_projects_on_disk_stays() -> None:
    """Its value was computed by the first release: a project is resumed by the words that made it."""
    scheme = parse_scheme(
        'name = "known"\ntitle = "Known"\nunit = "turn"\ninstructions = "Judge."\n'
        '[[questions]]\nname = "good"\ntype = "scale"\ntext = "How good?"\n'
        '[[gold]]\ndialogue = "d1"\nturn = 1\nanswers = { good = [4, 5] }\n'
    )
    expected = "489c8fd94b1361405958acac26d913f8d81ba18ce62c8786a07d62aaefc74f19"
    assert fingerprint([], scheme, 0, None, None) == expected


def test_a_reader_sees_one_state_while_others_write(study: AnnotationProject) -> None:
    with study.store.reading() as db:
        before = db.execute("SELECT count(*) FROM answers").fetchone()[0]
        seat = act.Assignment(0, 1, "open", {})
        writer = threading.Thread(target=act.answer, args=(study, "ann", seat, {"turn-quality": 1}, "t", 0.0))
        writer.start()
        writer.join()
        assert db.execute("SELECT count(*) FROM answers").fetchone()[0] == before == 0
    assert rows(study, "answers") == 1


def test_an_error_on_the_way_leaves_nothing(study: AnnotationProject) -> None:
    with pytest.raises(sqlite3.IntegrityError), study.store.writing() as db:
        db.execute("INSERT INTO log (at, who, action, ticket) VALUES (0, 'x', 'x', 'x')")
        db.execute("INSERT INTO seats (item, rater, place, round) VALUES (99, 'nobody', 1, 1)")
    assert rows(study, "log") == 0


def test_files_that_are_no_studies(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no annotation project"):
        Store(tmp_path / "study.db")
    (tmp_path / "study.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(DataError, match="not an annotation project"):
        Store(tmp_path / "study.db")
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("PRAGMA user_version = 77")
    other.execute("CREATE TABLE x (y)")
    other.commit()
    other.close()
    with pytest.raises(DataError, match="version 77"):
        Store(tmp_path / "other.db")


def test_a_project_of_version_1_gets_its_sums_when_it_is_opened(study: AnnotationProject) -> None:
    study.close()
    with sqlite3.connect(study.folder / "study.db") as base:
        base.execute("DROP TABLE sums")
        base.execute("PRAGMA user_version = 1")
    base.close()
    again = AnnotationProject(study.folder)
    seat = act.assignment_at(again, "ann", 1)
    assert seat is not None
    act.answer(again, "ann", seat, {"turn-quality": 2}, "t1", 0.0)
    again.close()
    opened = AnnotationProject(study.folder)
    assert rows(opened, "sums") == 11
    opened.close()


def test_everything_that_happened_is_in_the_log(study: AnnotationProject) -> None:
    seat = act.assignment_at(study, "ann", 1)
    assert seat is not None
    act.answer(study, "ann", seat, {"turn-quality": 2}, "t1", 0.0)
    act.undo(study, "ann")
    act.answer(study, "ann", seat, None, "t2", 0.0)
    with study.store.reading() as db:
        found = [(row["action"], row["body"]) for row in db.execute("SELECT * FROM log ORDER BY number")]
    assert found == [("done", json.dumps({"turn-quality": 2})), ("undo", None), ("skipped", "{}")]


def test_one_that_fails_takes_nothing_of_the_others_with_it(study: AnnotationProject) -> None:
    """Writers at the same time share a commit: half of them fail on the way."""
    start, failed = threading.Barrier(12), []

    def write(number: int) -> None:
        start.wait()
        for turn in range(10):
            try:
                with study.store.writing() as db:
                    row = (0.0, f"w{number}", None, "x", f"{number} {turn}", None)
                    db.execute(
                        "INSERT INTO log (at, who, item, action, ticket, body) VALUES (?,?,?,?,?,?)", row
                    )
                    if number % 2:
                        raise KeyError(number)  # noqa: TRY301
            except KeyError:
                failed.append(number)

    together(write, *[(number,) for number in range(12)])
    assert len(failed) == 60
    with study.store.reading() as db:
        who = [row[0] for row in db.execute("SELECT who FROM log")]
    assert len(who) == 60
    assert {name for name in who if int(name[1:]) % 2} == set()


def test_a_full_disk_is_told_to_everybody_in_the_commit(study: AnnotationProject) -> None:
    with study.store.writing() as db:
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages + 30}")
    start, kept, refused = threading.Barrier(8), [], []

    def write(number: int) -> None:
        start.wait()
        for turn in range(20):
            try:
                with study.store.writing() as db:
                    row = (0.0, f"w{number}", None, "x", f"{number} {turn}", "y" * 9000)
                    db.execute(
                        "INSERT INTO log (at, who, item, action, ticket, body) VALUES (?,?,?,?,?,?)", row
                    )
            except DiskFullError:
                refused.append((number, turn))
            else:
                kept.append(f"{number} {turn}")

    together(write, *[(number,) for number in range(8)])
    assert kept and refused
    with study.store.reading() as db:
        assert {row[0] for row in db.execute("SELECT ticket FROM log")} == set(kept)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_many_short_lived_readers_leave_nothing_open(study: AnnotationProject) -> None:
    """A server's threads come and go; connections must not pile up behind them."""
    for _ in range(30):
        together(act.progress, *[(study, "ann")] * 4)
    open_files = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert sum(name.endswith("study.db") and str(study.folder) in name for name in open_files) <= 6
