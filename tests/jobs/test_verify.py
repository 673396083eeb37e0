"""Golden scores: equal here, and a change is found."""

import json
from pathlib import Path

import pytest

from dialeval.jobs import demo as verify
from dialeval.metrics import metric_names
from dialeval.metrics.registry import parse_spec

CHEAP = ("length", "turns", "repetition")


def test_every_metric_is_verified() -> None:
    """R3: that their golden scores hold is seen where the documentation is run: once, it takes a minute."""
    named = {parse_spec(spec)[1].partition(".v")[0] for spec in verify.ALL}
    assert named == set(metric_names()) - set(verify.ELSEWHERE)
    page = Path(__file__).parents[2] / "docs" / "verify.md"
    assert "```console\n$ dialeval verify\n" in page.read_text(encoding="utf-8")


def test_a_change_is_found_and_not_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "ALL", CHEAP)
    golden = json.loads(verify.golden_path().read_text())
    golden = {name: rows for name, rows in golden.items() if name.partition(".")[0] in CHEAP}
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
