"""Heads by ridge regression: beside scikit-learn's, in a recipe, and without torch."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from dialeval.errors import DataError, UsageError
from dialeval.models.heads import Head
from dialeval.training import Provenance, TrainingSettings, VectorExample, fit, vector_recipe
from dialeval.training.checkpoint import module_arrays
from dialeval.training.loop import predict
from dialeval.training.networks import VectorNetwork
from dialeval.training.recipe import train
from dialeval.training.ridge import fit_ridge

HEAD = Head("quality", "regression")
RNG = np.random.default_rng(3)
ROWS = RNG.normal(2.0, 3.0, (200, 6)).astype(np.float32)
TARGETS = ROWS @ RNG.normal(size=6) + RNG.normal(size=200)
WEIGHTS = RNG.uniform(0.5, 2.0, 200)
NO_EPOCHS = TrainingSettings(epochs=0, weight_decay=100.0)


def examples(weights: np.ndarray | None = None) -> list[VectorExample]:
    each = np.ones(len(ROWS)) if weights is None else weights
    return [
        VectorExample(row, {"quality": float(target)}, float(weight))
        for row, target, weight in zip(ROWS, TARGETS, each, strict=True)
    ]


@pytest.mark.parametrize("penalty", [0.01, 1.0, 100.0])
def test_it_is_ridge_regression(penalty: float) -> None:
    made = fit_ridge(examples(), [HEAD], penalty)
    standard = (ROWS - ROWS.mean(axis=0)) / ROWS.std(axis=0)
    oracle = Ridge(alpha=penalty * len(ROWS)).fit(standard, TARGETS)
    assert made.predict(examples())["quality"] == pytest.approx(oracle.predict(standard), abs=1e-4)


def test_weights_of_examples_count() -> None:
    counted = np.where(np.arange(200) < 100, WEIGHTS, 0.0)
    made = fit_ridge(examples(counted), [HEAD], 1.0)
    centre = np.average(TARGETS, weights=counted)
    assert made.intercepts["quality"] == pytest.approx(centre)
    oracle = Ridge(alpha=counted.sum(), fit_intercept=False)
    oracle.fit((ROWS - made.mean) / made.scale, TARGETS - centre, sample_weight=counted)
    assert made.weights["quality"] == pytest.approx(oracle.coef_, abs=1e-5)


def test_a_large_feature_is_spared_by_the_penalty() -> None:
    plain = fit_ridge(examples(), [HEAD], 100.0).predict(examples())["quality"]
    large = fit_ridge(examples(), [HEAD], 100.0, (10.0, 1, 1, 1, 1, 1)).predict(examples())["quality"]
    of_first = [abs(np.corrcoef(said, ROWS[:, 0])[0, 1]) for said in (plain, large)]
    others = [abs(np.corrcoef(large, ROWS[:, column])[0, 1]) for column in range(1, 6)]
    assert of_first[1] > max(of_first[0], *others)


def test_torch_computes_the_same(tmp_path: Path) -> None:
    """The network that begins with fitted weights, trained for no epoch: same figure, same predictions."""
    pytest.importorskip("torch")
    fitted = fit_ridge(examples(), [HEAD], 1.0)
    network = VectorNetwork.of_ridge(fitted, NO_EPOCHS)
    found = fit(network, examples(), examples()[:50], NO_EPOCHS, figure="pearson")
    assert (found.steps, found.best_step) == (0, 0)
    said = fitted.predict(examples())["quality"]
    assert predict(network, examples())["quality"] == pytest.approx(said, abs=1e-6, rel=1e-6)
    assert found.best_figure == pytest.approx(np.corrcoef(said[:50], TARGETS[:50])[0, 1], abs=1e-6)
    assert {name: value.tolist() for name, value in module_arrays(network.module).items()} == {
        name: value.tolist() for name, value in fitted.arrays().items()
    }


def test_what_has_layers_classes_or_no_label_is_refused() -> None:
    with pytest.raises(UsageError, match="no hidden layers"):
        vector_recipe("toy", (HEAD,), list, "pearson", NO_EPOCHS, hidden=(4,), ridge=True)
    with pytest.raises(UsageError, match="regression heads only"):
        fit_ridge(examples(), [Head("quality", "binary")], 1.0)
    with pytest.raises(DataError, match="no training example has a label for the head 'other'"):
        fit_ridge(examples(), [HEAD, Head("other", "regression")], 1.0)


def test_train_writes_no_checkpoint_of_what_has_no_steps(tmp_path: Path) -> None:
    from dialeval.dialogues import dialogue

    def made(dialogues: object) -> list[VectorExample]:
        return examples()

    recipe = vector_recipe("toy", (HEAD,), made, "pearson", NO_EPOCHS, hidden=(), ridge=True)
    chats = [dialogue([("user", "Hi")], f"d{number}") for number in range(30)]
    result = train(recipe, chats, tmp_path / "out", Provenance("mit", "make"))
    assert result.trained.steps == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert "torch" not in (tmp_path / "out" / "README.md").read_text()


BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import dialeval.cli
"""


def test_ridge_heads_are_trained_without_torch(tmp_path: Path) -> None:
    from dialeval.dialogues.formats import write
    from dialeval.jobs.demo import example_dialogues

    write(list(example_dialogues())[:24], tmp_path / "chats.jsonl")
    code = f"""{BLOCKED}
from dialeval.jobs.training import train_to
for number, recipe in enumerate(sys.argv[1:]):
    print(train_to(recipe, ["chats.jsonl"], str(number))["class"])
"""
    recipes = ("turn-quality", "student:teacher=length", "student:teacher=turns")
    nowhere = {**os.environ, "DIALEVAL_DATA": str(tmp_path / "nowhere")}
    command = [sys.executable, "-c", code, *recipes]
    done = subprocess.run(command, cwd=tmp_path, env=nowhere, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["dialogue-scorer.v1"] * len(recipes), done.stderr


def test_networks_still_say_that_they_need_torch(tmp_path: Path) -> None:
    (tmp_path / "chats.jsonl").write_text('{"id":"d","messages":[{"role":"user","content":"Hi"}]}\n')
    code = f"{BLOCKED}dialeval.cli.main()"
    command = [sys.executable, "-c", code, "train", "user-reaction", "chats.jsonl", "-o", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'dialeval[train]'" in done.stderr
