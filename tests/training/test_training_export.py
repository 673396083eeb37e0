"""What is exported scores as the network did, without torch; the card says how it was made."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import toy_training as toy

from dialeval.models.artefact import verify
from dialeval.models.card import Card
from dialeval.models.heads import VectorHead
from dialeval.models.pairs import PairScorer
from dialeval.training import (
    PairNetwork,
    VectorNetwork,
    card_of,
    export,
    fit,
    predict,
)

pytest.importorskip("torch")
pytest.importorskip("transformers")
CARD = Card("Toy", "A toy.", licence="mit", command="none")


def trained_pair(home: Path, family: str, epochs: int = 1):
    settings = dataclasses.replace(toy.SETTINGS["pair"], epochs=epochs)
    train, dev = toy.data_of("pair")
    network = PairNetwork(home / family, toy.HEADS, settings)
    return network, fit(network, train, dev, settings, figure="spearman:quality")


@pytest.mark.parametrize("family", ["encoder", "roberta", "distilbert"])
def test_a_pair_scorer_scores_as_torch_did(family: str, home: Path, tmp_path: Path) -> None:
    network, trained = trained_pair(home, family)
    examples = [
        *toy.pair_examples(80, seed=9),
        toy.PairExample(("how do i get to rome",) * 40, "the train " * 3, {}),
        toy.PairExample(("thank you",), "banana " * 100, {}),
        toy.PairExample((), "", {}),
        toy.PairExample(("", "🙂\ud800", "<pad> [PAD]"), "no [SEP] </s> no", {}),
    ]
    for top in network.tops:
        top.weight.data *= 20  # loud answers, so that agreement is not that of two murmurs
    made = export(network, tmp_path / "scorer", CARD, name="toy", trained=trained)
    found = PairScorer(made, threads=1).score([(one.history, one.response) for one in examples])
    expected = predict(network, examples)
    worst = {name: float(np.abs(found.values[name] - expected[name]).max()) for name in expected}
    assert max(worst.values()) <= 1e-4, worst
    assert found.values["act"].shape == (len(examples), 3)
    assert np.ptp(found.values["quality"]) > 0.1
    assert [found.history_cut[80], found.response_cut[80], found.response_cut[81]] == [True, False, True]


def test_the_same_run_gives_the_same_artefact(home: Path, tmp_path: Path) -> None:
    shas = []
    for name in ("one", "other"):
        network, trained = trained_pair(home, "encoder")
        card = card_of(trained, "Toy", "A toy.", licence="mit", command="none")
        made = export(network, tmp_path / name, card, name="toy", trained=trained)
        shas.append(verify(made.folder).sha)
    assert shas[0] == shas[1]
    network.tops[0].bias.data += 1e-3
    assert export(network, tmp_path / "third", CARD, name="toy", trained=trained).sha != shas[0]


def test_what_is_recorded(home: Path, tmp_path: Path) -> None:
    network, trained = trained_pair(home, "encoder")
    card = card_of(
        trained,
        "Toy",
        "A toy.",
        licence="mit",
        command="python toy.py",
        data=[("invented", "mit", "100 pairs")],
        limits=["It knows twenty words."],
        figures={"test accuracy": 0.75},
    )
    made = export(
        network, tmp_path / "scorer", card, name="toy", trained=trained, fields={"turns": 3}, storage="int8"
    )
    config = json.loads((made.folder / "config.json").read_text())
    assert config["encoder"] == "encoder"  # a name, not a path of this machine
    assert (config["storage"], config["turns"], config["limit"]) == ("int8", 3, 32)
    run = config["training"]
    assert run["settings"]["learning_rate"] == toy.SETTINGS["pair"].learning_rate
    assert run["rows"] == {"train": 100, "dev": 60}
    assert run["dev"] == {
        "figure": "spearman:quality",
        "value": trained.best_figure,
        "step": trained.best_step,
    }
    told = (made.folder / "README.md").read_text()
    for piece in (
        "| training examples | 100 |",
        "| seed | 3 |",
        f"{trained.best_figure:.5g}",
        "invented",
        "torch 2",
        "python toy.py",
        "test accuracy",
        "twenty words",
    ):
        assert piece in told


def test_a_scorer_runs_where_torch_is_not(home: Path, tmp_path: Path) -> None:
    network, trained = trained_pair(home, "encoder")
    export(network, tmp_path / "scorer", CARD, name="toy", trained=trained)
    code = (
        "import sys\n"
        "sys.modules['torch'] = sys.modules['transformers'] = None\n"
        "from dialeval.models.pairs import PairScorer\n"
        f"scorer = PairScorer.load({str(tmp_path / 'scorer')!r})\n"
        "print(scorer.score([(['thank you'], 'banana')]).values['stop'][0])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    expected = predict(network, [toy.PairExample(("thank you",), "banana", {})])["stop"][0]
    assert float(done.stdout) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("activation", ["relu", "gelu", "tanh"])
def test_a_vector_head_answers_as_torch_did(activation: str, tmp_path: Path) -> None:
    train, dev = toy.data_of("vector")
    settings = toy.SETTINGS["vector"]
    network = VectorNetwork.fitting(train, toy.HEADS, settings, hidden=(16, 8), activation=activation)
    trained = fit(network, train, dev, settings, figure="spearman:quality")
    made = export(network, tmp_path / "head", CARD, name="toy", trained=trained)
    found = VectorHead(made).answers(np.stack([one.features for one in dev]).astype(np.float32))
    expected = predict(network, dev)
    assert found["act"].shape == (60, 3)
    assert max(float(np.abs(found[name] - expected[name]).max()) for name in expected) <= 1e-4


def test_importing_the_room_does_not_import_torch() -> None:
    code = "import sys, dialeval.training\nprint({'torch', 'transformers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "set()"
