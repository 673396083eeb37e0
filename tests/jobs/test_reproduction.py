"""The papers as data: rows can be read, marks follow from figures, and a run goes on where it stopped."""

import json
from pathlib import Path
from typing import Any

import pytest

from dialeval.errors import UsageError
from dialeval.jobs import reproduction
from dialeval.jobs.paper_figures import WAYS
from dialeval.jobs.reproduction import MARKS, PAPERS, PaperRow, Reproduced, paper_tables, reproduce
from dialeval.statistics import Estimate

WANTED = {
    "floweval": [*(f"Table {n}" for n in range(1, 8)), "Figure 1", "Figure 2", "Figure 3"],
    "voted-appropriateness": [f"Figure {n}" for n in range(1, 5)],
    "next-user-sentiment": [*(f"Table {n}" for n in range(1, 6)), *(f"Figure {n}" for n in range(1, 9))],
    "dialoguescore": [*(f"Figure {n}" for n in range(1, 4)), *(f"Table {n}" for n in range(1, 5))],
}


@pytest.mark.parametrize("paper", PAPERS)
def test_no_table_or_figure_is_absent(paper: str) -> None:
    _, tables = paper_tables(paper)
    assert set(WANTED[paper]) <= {table.name for table in tables}
    for table in tables:
        assert table.rows, table.name
        for row in table.rows:
            assert row.how.get("way") in (None, *WAYS)
            assert row.mark in (None, *MARKS)
            assert row.note, f"{row.what} says nothing"
    keys = [(row.table, row.what) for table in tables for row in table.rows]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("ours", "mark"),
    [
        (Estimate(0.28, 90, 0.1, 0.5), "reproduced"),
        (Estimate(0.31, 60, 0.1, 0.5), "differs"),  # an interval that wide contains anything
        (Estimate(0.21, 9000, 0.205, 0.215), "differs"),
        (Estimate(0.45, 90, 0.4, 0.5), "differs"),
        (Estimate(0.22, 90), "reproduced"),
        (Estimate(0.24, 90), "differs"),
        (Estimate.undefined("no set"), "not at hand"),
    ],
)
def test_marks(ours: Estimate, mark: str) -> None:
    row = PaperRow("Table 1", "r", 0.2, {"way": "correlation"})
    assert reproduction._marked(row, ours, "").mark == mark


def test_a_row_may_say_how_near_is_near() -> None:
    row = PaperRow("Table 1", "r", 87.8, {"way": "task"}, near=2.0, far=10.0)
    marks = [Estimate(86.0, 9, 85.0, 87.0), Estimate(83.0, 9, 78.0, 88.0), Estimate(83.0, 9, 80.0, 86.0)]
    told = [reproduction._marked(row, one, "").mark for one in marks]
    assert told == ["reproduced", "reproduced", "differs"]


Done = tuple[Path, list[Reproduced]]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("paper")
    return folder, reproduce("voted-appropriateness", folder)


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def letters(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())


def test_the_page_of_the_paper_is_made_of_a_wizard_study(done: Done) -> None:
    folder, found = done
    _, tables = paper_tables("voted-appropriateness")
    assert len(found) == sum(len(table.rows) for table in tables)
    assert [one.row.what for one in found if one.ours.value is None and one.mark != "illustration"] == []
    ours = {one.row.what: one.ours for one in found}
    chosen = {
        (vote["dialogue_id"], vote["turn"], letters(vote["utterance"]))
        for vote in records(folder / "wizard-study" / "votes.jsonl")
        if vote["utterance"] is not None
    }
    for one in records(folder / "wizard-study" / "wizard-random.jsonl"):
        at = one["meta"]["context"]
        assert (at["dialogue"], at["turn"], letters(one["messages"][-1]["content"])) in chosen
    assert ours["Wizard Random, weak agreement"].value == 5.0
    assert ours["equation 1, a reply that none chose"].value == 1.0
    assert (ours["Wizard Max Voted above Wizard Random, ratings"].low or 0) > 0
    assert ours["equation 2 with the published line, V = 4"].value == pytest.approx(5.345)


def test_a_run_goes_on_where_it_stopped(done: Done) -> None:
    folder, first = done
    page = (folder / "page.md").read_text()
    lines = (folder / "rows.jsonl").read_text().splitlines()
    (folder / "rows.jsonl").write_text("\n".join(lines[:-1]) + '\n{"key": "broken')
    asked: list[str] = []
    again = reproduce("voted-appropriateness", folder, say=asked.append)
    assert len(asked) <= 1
    assert [one.ours for one in again] == [one.ours for one in first]
    assert (folder / "page.md").read_text() == page
    assert all(set(json.loads(line)) == {"key", "ours", "signature"} for line in lines)
    assert "<script" not in (folder / "page.html").read_text()


def test_sets_that_are_not_there_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path / "nowhere"))
    done = reproduce("next-user-sentiment", tmp_path / "out")
    missing = [one for one in done if one.mark == "not at hand" and "way" in one.row.how]
    assert missing
    names = ("conture", "dbdc3", "convai2_wild")
    assert all(any(name in (one.ours.reason or "") for name in names) for one in missing)


def test_unknown_papers_are_refused() -> None:
    with pytest.raises(UsageError, match="known: floweval"):
        paper_tables("bleu")
