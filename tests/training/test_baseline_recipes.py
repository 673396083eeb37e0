"""Recipes of the baselines: what they learn from, end to end on dialogues of the package."""

from pathlib import Path

import pytest

from dialeval.dialogues import Dialogue, Turn
from dialeval.jobs.demo import example_dialogues
from dialeval.metrics import build
from dialeval.training.baseline_recipes import dialogue_rating
from dialeval.training.recipe import Provenance, train
from dialeval.training.registry import recipe
from dialeval.training.segment_recipes import damaged
from dialeval.training.settings import TrainingSettings

RECIPES = ("ruber", "bert-ruber", "pone", "dynaeval", "flow-score", "predictive-engagement")


def rated() -> list[Dialogue]:
    return [
        Dialogue(one.id, one.turns, one.system, meta={"rating": float(number % 5)})
        for number, one in enumerate(example_dialogues())
    ]


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_makes_what_its_metric_reads(name: str, tmp_path: Path) -> None:
    made = recipe(name)
    short = TrainingSettings(batch=16, learning_rate=1e-3, epochs=0 if made.ridge else 1, weight_decay=1.0)
    train(made, rated(), tmp_path / "model", Provenance("apache-2.0", "test"), settings=short)
    metric = build(f"{name}:model={tmp_path / 'model'}")
    found = metric.score(example_dialogues()[:3])
    assert sum(row.value is not None for row in found) > 3
    assert str(metric.provenance()["model"]) in str(found.signatures[name])


def test_a_dialogue_is_rated_by_itself_or_by_its_turns() -> None:
    turns = (Turn("user", "Hi", {"label": 1.0}), Turn("assistant", "Ho", {"label": 0.0}))
    assert dialogue_rating(Dialogue("d", turns)) == 0.5
    assert dialogue_rating(Dialogue("d", turns, meta={"rating": 4})) == 4.0
    assert dialogue_rating(Dialogue("d", (Turn("user", "Hi"),))) is None


@pytest.mark.parametrize("number", range(12))
def test_damage_keeps_words_and_ends(number: int) -> None:
    """Whatever marks are lost, the words stay, and a segment ends where it ended."""
    text = f"Well, I have {number} cats. Do you like them, too?"
    made, ends = damaged(text)
    assert [word.strip(".,?") for word in made.split()] == [word.strip(".,?") for word in text.split()]
    said = [made[:end].split()[-1].strip(".,?") for end in sorted(ends)]
    assert list(dict.fromkeys(said)) == ["Well", "cats", "them", "too"]
