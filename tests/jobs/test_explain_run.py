"""Explanations of a run: streamed beside the scores, there when all is there, in the dialogues' order."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from explaining_metric import explanation, registered
from report_cases import talk, talks

from dialeval.dialogues import Dialogue
from dialeval.errors import DataError, UsageError
from dialeval.jobs.runs import EXPLANATIONS, Run
from dialeval.jobs.scoring import score_to
from dialeval.manifests import write_listed


@pytest.fixture(autouse=True)
def toyflow() -> Iterator[None]:
    with registered():
        yield


def test_a_run_keeps_every_explanation_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dialeval.metrics.registry.CHUNK_DIALOGUES", 7)
    said = [*talks(23), Dialogue("nothing", ())]
    specs = ("wide=toyflow:weight=2", "length", "toyflow")
    summary = score_to(iter(said), specs, tmp_path / "run", explain=True)
    assert summary.explanations == []  # on disk, not in memory
    run = Run(tmp_path / "run")
    assert list(run.explanations()) == [
        explanation(one, source) for one in said[:-1] for source in ("wide", "toyflow")
    ]
    values = {(row.dialogue_id, row.source): row.value for row in run.own_scores()}
    assert all(values[found.dialogue_id, found.source] == found.value for found in run.explanations())


def test_scores_are_the_same_with_and_without(tmp_path: Path) -> None:
    for name in ("with", "without"):
        score_to(talks(20), ("toyflow",), tmp_path / name, explain=name == "with")
    for file in ("scores.parquet", "dialogues.jsonl", "run.json"):
        assert (tmp_path / "with" / file).read_bytes() == (tmp_path / "without" / file).read_bytes()
    assert not (tmp_path / "without" / EXPLANATIONS).exists()
    assert list(Run(tmp_path / "without").explanations()) == []


def test_an_error_on_the_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dialeval.metrics.registry.CHUNK_DIALOGUES", 5)

    def stream() -> Iterator[Dialogue]:
        yield from talks(12)
        raise DataError("broken", file="chats.jsonl")

    with pytest.raises(DataError):
        score_to(stream(), ("toyflow",), tmp_path / "run", explain=True)
    assert list(tmp_path.iterdir()) == []


def test_without_a_folder_the_first_are_in_the_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dialeval.metrics.registry.CHUNK_DIALOGUES", 2)
    summary = score_to(talks(9), ("toyflow",), explain=True, most=3)
    assert [found.dialogue_id for found in summary.explanations] == [f"d{number:06}" for number in range(3)]
    assert summary.dialogues == 9
    assert len(score_to(talks(9), ("toyflow",), explain=True).explanations) == 9
    assert score_to(talks(9), ("toyflow",)).explanations == []


def test_what_cannot_be_explained_or_kept_is_refused_before_work(tmp_path: Path) -> None:
    def never() -> Iterator[Dialogue]:
        raise AssertionError("nothing should be read")
        yield talk("d", None)

    with pytest.raises(
        UsageError, match=r"length, turns cannot explain scores; metrics that can: .*\btoyflow"
    ):
        score_to(never(), ("length", "turns"), explain=True)
    for out in ("-", tmp_path / "a.csv", tmp_path / "a.JSONL", tmp_path / "a.parquet"):
        with pytest.raises(UsageError, match="do not fit into a table"):
            score_to(never(), ("toyflow",), out, explain=True)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    score_to(talks(2), ("toyflow",), tmp_path / "run", explain=True)
    path = tmp_path / "run" / EXPLANATIONS
    first = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    write_listed(path.parent, {path.name: json.dumps({**first, "own": 3}).encode()})
    with pytest.raises(DataError, match=r"explanations.jsonl:1: not an explanation.*score again"):
        list(Run(tmp_path / "run").explanations())
