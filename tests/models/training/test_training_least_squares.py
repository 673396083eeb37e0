"""Heads that are solved for: ridge regression beside scikit-learn's, and what it does in a recipe."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from dialeval.errors import UsageError
from dialeval.models.heads import Head
from dialeval.models.training import Settings, VectorExample, VectorRecipe, fit
from dialeval.models.training.least_squares import solve_heads
from dialeval.models.training.networks import VectorNetwork
from dialeval.models.training.run import predict

HEAD = Head("quality", "regression")
RNG = np.random.default_rng(3)
ROWS = RNG.normal(2.0, 3.0, (200, 6)).astype(np.float32)
TARGETS = ROWS @ RNG.normal(size=6) + RNG.normal(size=200)
WEIGHTS = RNG.uniform(0.5, 2.0, 200)


def examples(weights: np.ndarray | None = None) -> list[VectorExample]:
    each = np.ones(len(ROWS)) if weights is None else weights
    return [
        VectorExample(row, {"quality": float(target)}, float(weight))
        for row, target, weight in zip(ROWS, TARGETS, each, strict=True)
    ]


def network(rows: list[VectorExample]) -> VectorNetwork:
    return VectorNetwork.fitting(rows, [HEAD], Settings(), hidden=())


@pytest.mark.parametrize("penalty", [0.01, 1.0, 100.0])
def test_it_is_ridge_regression(penalty: float) -> None:
    made = network(examples())
    solve_heads(made, examples(), penalty)
    standard = (ROWS - ROWS.mean(axis=0)) / ROWS.std(axis=0)
    oracle = Ridge(alpha=penalty * len(ROWS)).fit(standard, TARGETS)
    assert predict(made, examples())["quality"] == pytest.approx(oracle.predict(standard), abs=1e-4)


def test_weights_of_examples_count() -> None:
    some = WEIGHTS > 1.2
    dropped = network(examples())
    solve_heads(dropped, examples(some.astype(float)), 1.0)
    left = network(examples())
    solve_heads(left, [one for one, kept in zip(examples(), some, strict=True) if kept], 1.0)
    said = [predict(made, examples())["quality"] for made in (dropped, left)]
    assert said[0] == pytest.approx(said[1], abs=1e-5)


def test_a_loud_feature_is_spared_by_the_penalty() -> None:
    quiet = VectorRecipe("toy", (HEAD,), list, "pearson", Settings(epochs=0, weight_decay=100.0), hidden=())
    loud = VectorRecipe(
        "toy",
        (HEAD,),
        list,
        "pearson",
        Settings(epochs=0, weight_decay=100.0),
        hidden=(),
        emphasis=(10.0, 1, 1, 1, 1, 1),
        solved=True,
    )
    assert not quiet.solved
    made = loud.network(examples(), loud.settings)
    said = predict(made, examples())["quality"]
    others = [abs(np.corrcoef(said, ROWS[:, column])[0, 1]) for column in range(1, 6)]
    assert abs(np.corrcoef(said, ROWS[:, 0])[0, 1]) > max(others)


def test_a_run_of_no_epochs_measures_the_dev_figure_and_ends() -> None:
    made = network(examples())
    solve_heads(made, examples(), 1.0)
    before = predict(made, examples())["quality"]
    found = fit(made, examples(), examples()[:50], Settings(epochs=0), figure="pearson")
    assert (found.steps, found.best_step) == (0, 0)
    assert found.best_figure == pytest.approx(np.corrcoef(before[:50], TARGETS[:50])[0, 1])
    assert np.array_equal(predict(made, examples())["quality"], before)


def test_layers_and_classes_cannot_be_solved_for() -> None:
    layered = VectorNetwork.fitting(examples(), [HEAD], Settings(), hidden=(4,))
    with pytest.raises(UsageError, match="no layer below"):
        solve_heads(layered, examples(), 1.0)
