"""The recipe `outcome`: it learns within agents, never from what only tells agents apart."""

from pathlib import Path

import numpy as np
import pytest

from dialeval.dialogues import Dialogue, ToolCall, Turn, formats
from dialeval.errors import DataError, UsageError
from dialeval.jobs.training import train_to
from dialeval.metrics.outcome import FEATURES, HEAD, Outcome
from dialeval.training.data import source_of
from dialeval.training.outcome_recipe import OutcomeExample, fit_outcome, outcome_of
from dialeval.training.registry import recipe


def example(agent: str, success: int, **values: float) -> OutcomeExample:
    row = np.array([values.get(name.replace("-", "_"), 0.0) for name in FEATURES], np.float32)
    return OutcomeExample(row, {HEAD.name: float(success)}, agent=agent)


def test_weights_are_learned_within_agents() -> None:
    """`few-errors` tells dialogues of one agent apart, `grounded` only a good agent from a bad one."""
    chance, made = np.random.default_rng(0), []
    for agent, rate in (("good", 0.8), ("bad", 0.2), ("middling", 0.5)):
        for _ in range(300):
            success = int(chance.random() < rate)
            made.append(example(agent, success, few_errors=success + chance.normal(), grounded=rate))
    found = fit_outcome(made, 0.01)
    weights = dict(zip(FEATURES, found.weights[HEAD.name], strict=True))
    assert weights["few-errors"] > 0.5
    assert abs(weights["grounded"]) < 0.1 * weights["few-errors"]
    assert all(weight >= 0 for weight in weights.values())
    chances = found.predict(made)[HEAD.name]
    assert abs(chances.mean() - np.mean([one.targets[HEAD.name] for one in made])) < 0.03, "calibrated"


def test_all_alike_is_refused() -> None:
    with pytest.raises(DataError, match="all outcomes"):
        fit_outcome([example("a", 1) for _ in range(20)], 0.1)


def chat(number: int) -> Dialogue:
    """A log of one shop: what fails ends in an error and without thanks."""
    success = number % 3 > 0
    call = Turn("assistant", "", tool_calls=(ToolCall("cancel", {"order": f"A{number}"}),))
    told = Turn("tool", "ok" if success else "Error: no such order")
    end = "Great, thank you!" if success else "No, that's not what I wanted."
    asked = Turn("user", f"Cancel order A{number}, please.")
    turns = (asked, call, told, Turn("assistant", "Done."), Turn("user", end))
    return Dialogue(f"c{number}", turns, f"bot-{number % 4}", feedback={"resolved": float(success)})


def test_a_model_of_your_own_outcomes(tmp_path: Path) -> None:
    formats.write([chat(number) for number in range(120)], tmp_path / "log.jsonl")
    done = train_to("outcome", [str(tmp_path / "log.jsonl")], tmp_path / "own")
    assert done["dev"] > 0.9
    made = Outcome(model=str(tmp_path / "own"))
    good, bad = (row.value for row in made.score([chat(1), chat(3)]))
    assert good > 0.6 > 0.4 > bad


@pytest.mark.parametrize(
    ("feedback", "meta", "outcome"),
    [
        ({"success": 0.0}, {"reward": 1}, 0.0),
        ({}, {"reward": 0.99999999}, 1.0),
        ({}, {"reward": 0.5}, 0.0),
        ({}, {}, None),
    ],
)
def test_where_an_outcome_stands(
    feedback: dict[str, float], meta: dict[str, float], outcome: float | None
) -> None:
    assert outcome_of(Dialogue("d", (), feedback=feedback, meta=meta)) == outcome


def test_only_a_set_without_a_training_portion_is_taken_whole() -> None:
    with pytest.raises(UsageError, match="use set:sgd"):
        source_of("set:sgd/all")
    with pytest.raises(UsageError, match="leave --encoder out"):
        recipe("outcome", "bert-base-uncased")
