"""Golden scores: equal here, and a change is found."""

import json
from pathlib import Path

import pytest

from dialeval.jobs import demo, verify
from dialeval.metrics import metric_names


def test_every_metric_has_golden_scores_that_hold() -> None:
    """R3: four decimals on the bundled dialogues; a change needs a new version name."""
    rows = {row["metric"]: row for row in verify.verify()}
    assert {name.rpartition(".v")[0] for name in rows} >= set(metric_names()) - set(verify.ELSEWHERE)
    for row in rows.values():
        assert row["differing"] == 0
        assert row["n"] >= 60


def test_a_change_is_found_and_not_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = json.loads(verify.golden_path().read_text())
    unit = next(iter(golden["length.v1"]))
    golden["length.v1"][unit] += 1
    del golden["turns.v1"]
    path = tmp_path / "golden.json"
    path.write_text(json.dumps(golden))
    monkeypatch.setattr(verify, "golden_path", lambda: path)
    rows = {row["metric"]: row for row in verify.verify()}
    assert rows["length.v1"]["differing"] == 1
    assert rows["length.v1"]["first"] == unit
    assert rows["turns.v1"]["differing"] == 60
    assert verify.accept() == ["turns.v1"]
    rows = {row["metric"]: row for row in verify.verify()}
    assert (rows["turns.v1"]["differing"], rows["length.v1"]["differing"]) == (0, 1)


def test_the_demo_is_the_same_every_time(tmp_path: Path) -> None:
    demo.run_demo(tmp_path / "a")
    demo.run_demo(tmp_path / "b")
    for name in ("scores.parquet", "study.json", "report.html", "dialogues.jsonl"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
