"""True replies against negatives and against systems: figures whose answer is known, and a study after it."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import dialeval
from dialeval.dialogues import Dialogue, dialogue, scored_turns
from dialeval.errors import UsageError
from dialeval.jobs.contrast import combined, contrast_negatives, contrast_systems
from dialeval.jobs.demo import example_dialogues
from dialeval.metrics import registry
from dialeval.metrics.registry import Rows, metric
from dialeval.scores import Score, Scores


@pytest.fixture(autouse=True)
def knows_order() -> Iterator[None]:
    """A metric that knows the answer, only while a test of this file runs."""

    @metric("knows-order.v1")
    @dataclass(frozen=True)
    class KnowsOrder:
        """One where the number in a reply is that of its user turn, else zero.

        >>> KnowsOrder().dimensions
        ('right', 'never')
        """

        dimensions: ClassVar[tuple[str, ...]] = ("right", "never")

        def score(self, dialogues: Iterable[Dialogue]) -> Scores:
            """Compare the last words."""
            rows = Rows(self)
            for one in dialogues:
                for turn in scored_turns(one):
                    told, asked = (one.turns[n].text.split()[-1] for n in (turn, turn - 1))
                    rows.add(one, turn, "right", float(told == asked))
                    rows.add(one, turn, "never", 0.25)
            return rows.scores()

    yield
    registry._REGISTERED.pop("knows-order.v1", None)


ANIMALS = ("ant", "bee", "cat", "dog", "elk", "fox")


def logs() -> list[Dialogue]:
    made = []
    for number in range(12):
        turns = []
        for place, animal in enumerate(ANIMALS):
            turns += [("user", f"a hotel, please, {animal}"), ("assistant", f"{'so ' * place} {animal}")]
        made.append(dialogue(turns, f"sng{number:04}"))
    return made


def test_a_metric_that_knows_is_right_and_one_that_does_not_is_at_chance() -> None:
    found = contrast_negatives(logs(), ["knows-order"], ["session", "domain"], resamples=200)
    rows = {(row["negatives"], row["dimension"]): row for row in found.rows}
    assert rows["session", "right"]["n"] == 12 * 6
    for figure in ("pairs", "accuracy"):
        assert rows["session", "right"][figure]["value"] == 1
        assert rows["session", "never"][figure]["value"] == 0.5
    assert (rows["session", "right"]["auc"], rows["session", "never"]["auc"]) == (1, 0.5)
    assert ("domain", "right") not in rows  # all dialogues say the same at the same place
    assert found.notes == ["no domain negatives can be drawn from these dialogues"]


def test_a_sample_is_part_of_a_larger_one_and_comes_again() -> None:
    few, many, again = (
        contrast_negatives(logs(), ["knows-order"], ["random"], sample=n, resamples=100).rows
        for n in (9, None, 9)
    )
    assert few == again
    assert [row["n"] for row in few] == [9, 9]
    assert many[0]["n"] > 50


def test_shipped_metrics_tell_true_replies_from_random_ones() -> None:
    found = contrast_negatives(
        example_dialogues()[:30], ["coherence", "dialoguescore"], ["random"], sample=60, resamples=100
    )
    rows = {(row["source"], row["dimension"]): row["pairs"]["value"] for row in found.rows}
    assert rows["coherence", "ur"] > 0.7
    assert rows["dialoguescore", "ur"] > 0.6
    history = {row["dimension"]: row["n"] for row in found.rows if row["source"] == "dialoguescore"}
    assert history["ur0"] > history["ur2"]  # only where there is as much history


@pytest.mark.parametrize(
    ("specs", "kinds", "message"),
    [([], ["session"], "name a metric"), (["length"], ["odd"], "unknown kind of negatives")],
)
def test_calls_that_make_no_sense(specs: list[str], kinds: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        contrast_negatives(logs(), specs, kinds)


@pytest.fixture
def predictions(tmp_path: Path) -> list[Path]:
    """A system that is always right, and one that is right in half of the dialogues; one reply is missing."""
    right = {one.id.upper(): [one.turns[n].text for n in scored_turns(one)] for one in logs()}
    half = {name: said if n % 2 else said[1:] + said[:1] for n, (name, said) in enumerate(right.items())}
    half["SNG0001"] = half["SNG0001"][:-1]
    for name, said in (("perfect", right), ("shifted", half)):
        (tmp_path / f"{name}.json").write_text(
            json.dumps({key: [{"response": text} for text in some] for key, some in said.items()})
        )
    return [tmp_path / "perfect.json", tmp_path / "shifted.json"]


def test_gaps_between_systems_and_the_log(predictions: list[Path]) -> None:
    found = contrast_systems(logs(), predictions, ["length", "similarity"], resamples=200)
    rows = {(row["system"], row["source"], row["dimension"]): row for row in found.rows}
    assert rows["perfect", "length", "words"]["gap"]["value"] == 0
    assert rows["reference", "length", "words"]["gap"] is None
    assert rows["reference", "length", "words"]["n"] == rows["perfect", "length", "words"]["n"] == 72
    bad, good = (rows[name, "similarity", "user"]["mean"]["value"] for name in ("shifted", "perfect"))
    assert bad < good
    gap = rows["shifted", "similarity", "user"]["gap"]
    assert gap["high"] < 0
    assert found.notes == ["shifted: 1 replies missing"]
    parts = [rows["shifted", "similarity", "user"][name] for name in ("gap_alike", "gap_unlike")]
    assert gap["n"] == sum(one["n"] for one in parts)
    weighed = sum(one["n"] * (one["value"] or 0.0) for one in parts) / gap["n"]
    assert gap["value"] == pytest.approx(weighed)
    assert rows["perfect", "similarity", "user"]["gap_unlike"]["n"] == 0


def test_order_of_systems_beside_combined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path))
    (tmp_path / "multiwoz").mkdir()
    board = tmp_path / "multiwoz" / "leaderboard.json"
    board.write_text('{"systems": {"a": {"combined": 90.0}, "b": {"combined": 80.5}, "c": {"combined": 70}}}')
    rows = [
        {"system": name, "source": "m", "dimension": "d", "mean": {"value": value}}
        for name, value in (("reference", 0.9), ("a", 0.3), ("b", 0.2), ("c", 0.1))
    ]
    found = combined(rows)
    assert found["combined"]["b"] == 80.5
    assert found["spearman"][0]["spearman"]["value"] == pytest.approx(1)
    board.unlink()
    assert combined(rows) == {"combined": {}, "spearman": []}


def test_a_study_with_ratings_of_a_known_answer(predictions: list[Path], tmp_path: Path) -> None:
    """Table 2 of the paper: ratings that follow `ru0` are found to do so, also where BLEU is low."""
    out = tmp_path / "run"
    contrast_systems(logs(), predictions, ["dialoguescore", "bleu"], out=out, resamples=100)
    scores = Scores.read(out / "scores.parquet")
    chance = np.random.default_rng(0)
    rows = [
        Score(
            row.dialogue_id, row.turn, row.system, "human:r1", "natural", row.value + chance.normal(0, 0.01)
        )
        for row in scores.where(source="dialoguescore", dimension="ru0", level="turn")
        if row.value is not None
    ]
    assert {row.system for row in rows} == {"reference", "perfect", "shifted"}
    both = Scores.concat([scores, Scores.of(rows)])
    for where in (None, "bleu<99"):
        found = dialeval.study(both, level="turn", dimension="natural", where=where, resamples=200)
        by = {row.label: row.spearman.value for row in found.correlations}
        assert by["dialoguescore/ru0"] > 0.9
        assert by["dialoguescore/ru0"] > by["bleu"] if by["bleu"] is not None else True
