"""Both kinds of scorer, from artefacts made by hand: no torch here."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dialeval.dialogues import dialogue
from dialeval.errors import DataError, UsageError
from dialeval.jobs.demo import example_dialogues
from dialeval.models import artefact, segment_acts
from dialeval.models.auxiliary_features import AuxiliaryModels
from dialeval.models.card import Card
from dialeval.models.dialogue_scorer import FEATURES, DialogueScorer, turn_features
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.models.pairs import PairScorer
from dialeval.models.shape import EncoderShape, read_weights
from dialeval.models.tensors import write_tensors
from dialeval.models.turn_vectors import turn_vectors

CARD = Card("A scorer", "For tests.", licence="mit", command="none")
HEADS = [
    {"name": "quality", "kind": "regression", "classes": []},
    {"name": "stop", "kind": "binary", "classes": []},
    {"name": "act", "kind": "classes", "classes": ["question", "answer", "other"]},
]
OUTPUTS = {"quality": 1, "stop": 1, "act": 3}
BLOCKS = list(FEATURES)


def head_tensors(width: int) -> dict[str, Any]:
    chance = np.random.default_rng(1)
    found = {}
    for name, outputs in OUTPUTS.items():
        found[f"heads.{name}.weight"] = chance.normal(0, 0.1, (outputs, width)).astype("f4")
        found[f"heads.{name}.bias"] = chance.normal(size=outputs).astype("f4")
    return found


def pair_artefact(folder: Path, limit: int = 40, **change: Any) -> artefact.Artefact:
    """A pair scorer on the weights of the shipped encoder, its heads drawn at random."""
    shipped = artefact.load(DEFAULT)
    shape = EncoderShape.of(shipped.config, "config.json")
    tensors = {**read_weights(shipped.path("model.safetensors"), shape), **head_tensors(shape.width)}
    fields = {
        "name": "pairs",
        "shape": shape.fields(),
        "limit": limit,
        "layout": {"cls": 101, "sep": 102, "pair_separator": [102], "segments": True},
        "heads": HEADS,
        **change,
    }
    files: dict[str, Any] = {
        "model.safetensors": lambda path: write_tensors(path, tensors),
        "tokenizer.json": shipped.path("tokenizer.json").read_bytes(),
    }
    return artefact.save(folder, "pair-scorer.v1", fields, files, CARD)


def vector_artefact(folder: Path, tensors: dict[str, Any] | None = None, **change: Any) -> artefact.Artefact:
    encoder = Encoder.load()
    inputs = 9 * encoder.width + 3 + 2 + 1 + 33 + 121 + 9 + 1 + 2
    chance = np.random.default_rng(2)
    made = {
        "input.mean": chance.normal(0, 0.01, inputs).astype("f4"),
        "input.scale": chance.uniform(0.5, 2, inputs).astype("f4"),
        "layers.0.weight": chance.normal(0, 0.05, (16, inputs)).astype("f4"),
        "layers.0.bias": chance.normal(size=16).astype("f4"),
        **head_tensors(16),
        **(tensors or {}),
    }
    fields = {
        "name": "turns",
        "encoder": {"name": encoder.name, "sha": encoder.sha},
        **AuxiliaryModels.shipped(BLOCKS).fields(),
        "features": BLOCKS,
        "hidden": [16],
        "activation": "gelu",
        "heads": HEADS,
        **change,
    }
    files = {"model.safetensors": lambda path: write_tensors(path, made)}
    return artefact.save(folder, "dialogue-scorer.v1", fields, files, CARD)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> artefact.Artefact:
    return pair_artefact(tmp_path_factory.mktemp("pairs") / "a")


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> artefact.Artefact:
    return vector_artefact(tmp_path_factory.mktemp("turns") / "a")


def some_pairs() -> list[tuple[list[str], str]]:
    return [
        ([turn.text for turn in one.turns[:number]], one.turns[number].text)
        for one in example_dialogues()[:4]
        for number in range(1, len(one.turns), 2)
    ]


def test_all_heads_in_one_pass_in_any_company(pairs: artefact.Artefact) -> None:
    given = some_pairs()
    scorer = PairScorer(pairs)
    found = scorer.score(given)
    assert {name: values.shape for name, values in found.values.items()} == {
        "quality": (len(given),),
        "stop": (len(given),),
        "act": (len(given), 3),
    }
    assert ((found.values["stop"] > 0) & (found.values["stop"] < 1)).all()
    assert np.allclose(found.values["act"].sum(axis=1), 1)
    alone = PairScorer(pairs, threads=1, batch_tokens=1)
    for place in (0, 3, len(given) - 1):
        one = alone.score([given[place]])
        for name, values in one.values.items():
            assert np.abs(values[0] - found.values[name][place]).max() <= 1e-5
    order = list(reversed(range(len(given))))
    turned = scorer.score([given[place] for place in order])
    for name, values in turned.values.items():
        assert np.abs(values - found.values[name][order]).max() <= 1e-5


def test_the_history_is_cut_from_the_left_and_the_response_never(pairs: artefact.Artefact) -> None:
    scorer = PairScorer(pairs)
    long = ["an old tale that nobody remembers any more " * 5, "What do you want to eat?"]
    found = scorer.score(
        [(long, "Fish."), (["something else entirely " * 9, *long], "Fish."), (["Hi"], "Fish.")]
    )
    assert found.history_cut == [True, True, False]
    assert found.response_cut == [False, False, False]
    assert found.values["quality"][0] == found.values["quality"][1]  # what differs lies too far back
    assert found.values["quality"][0] != found.values["quality"][2]
    wordy = scorer.score([(["Hi"], "fish " * 100)])
    assert wordy.response_cut == [True]


def test_no_pairs_empty_texts_and_no_history(pairs: artefact.Artefact) -> None:
    scorer = PairScorer(pairs)
    none = scorer.score([])
    assert none.values["quality"].shape == (0,)
    assert none.values["act"].shape == (0, 3)
    found = scorer.score([([], ""), ([""], ""), ([], "Hello"), (["\ud800"], "\x00")])
    assert all(np.isfinite(values).all() for values in found.values.values())


def test_a_scorer_is_loaded_once(pairs: artefact.Artefact) -> None:
    assert PairScorer.load(pairs.folder) is PairScorer.load(str(pairs.folder))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"limit": 4}, "limit: .*>= 5"),
        ({"limit": 1000}, "limit: .*<= 512"),
        ({"limit": "512"}, "limit: .*got `str`"),
        ({"layout": None}, "layout"),
        ({"heads": []}, "heads: .*length >= 1"),
        ({"heads": [{"name": "x"}]}, "heads.*missing required field `kind`"),
        ({"heads": [HEADS[0], HEADS[0]]}, "the same name"),
        ({"heads": [{"name": "x", "kind": "os.system", "classes": []}]}, "no kind"),
        ({"heads": [{"name": "a/b", "kind": "binary", "classes": []}]}, "not a valid name of a head"),
        ({"heads": [{"name": "other", "kind": "binary", "classes": []}]}, r"heads\.other\.weight"),
        ({"heads": [{"name": "act", "kind": "binary", "classes": []}]}, r"heads\.act\.weight must have"),
    ],
)
def test_hostile_and_broken_pair_scorers(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        PairScorer(pair_artefact(tmp_path / "a", **change))


def test_features_are_what_they_are_called() -> None:
    chat = dialogue(
        [
            ("user", "Do you like jazz?"),
            ("assistant", "I do, very much."),
            ("user", "And blues?"),
            ("assistant", "I do, very much."),
        ]
    )
    found = turn_vectors(Encoder.load(), [chat])[0]
    rows = {name: turn_features(found, [1, 3], [name]) for name in FEATURES}
    vectors = found.vectors
    assert np.array_equal(rows["reply"], vectors[[1, 3]])
    assert np.array_equal(rows["user"], vectors[[0, 2]])
    assert np.allclose(rows["context"], [vectors[0], vectors[:3].mean(axis=0)], atol=1e-6)
    assert np.array_equal(rows["own"], [np.zeros(384), vectors[1]])
    assert np.array_equal(rows["reply*own"][1], vectors[3] * vectors[1])
    assert np.allclose(rows["similarities"][1, 2], 1, atol=1e-5)
    assert np.allclose(rows["lengths"], np.log1p([[4, 4], [4, 2]]))
    assert np.allclose(rows["place"], np.log1p([[1], [3]]))
    with pytest.raises(UsageError, match="no feature 'future'"):
        turn_features(found, [1], ["future"])


def test_what_comes_after_a_turn_does_not_count(turns: artefact.Artefact) -> None:
    whole = example_dialogues()[0]
    scorer = DialogueScorer(turns)
    found = scorer.score([whole])[0]
    for place, turn in enumerate(found.turns[:3]):
        part = dialogue([(one.speaker, one.text) for one in whole.turns[: turn + 1]])
        early = scorer.score([part])[0]
        assert early.turns[-1] == turn
        for name, values in early.values.items():
            assert np.abs(values[-1] - found.values[name][place]).max() <= 1e-5


def test_dialogues_in_any_company(turns: artefact.Artefact) -> None:
    chats = example_dialogues()[:6]
    scorer = DialogueScorer.load(turns.folder)
    together = scorer.score(chats)
    assert [found.dialogue.id for found in together] == [chat.id for chat in chats]
    for chat, found in zip(reversed(chats), reversed(together), strict=True):
        alone = scorer.score([chat])[0]
        for name, values in alone.values.items():
            assert np.abs(values - found.values[name]).max() <= 1e-5
    assert scorer.score([]) == []
    empty = scorer.score([dialogue([])])[0]
    assert empty.turns == []
    assert empty.values["act"].shape == (0, 3)


def test_the_layers_by_hand(turns: artefact.Artefact) -> None:
    """One hidden layer, written out."""
    from math import erf

    from dialeval.models.tensors import read_tensors

    weights = read_tensors(turns.path("model.safetensors"))
    chat = example_dialogues()[1]
    found, aided = turn_vectors(Encoder.load(), [chat])[0], AuxiliaryModels.shipped(BLOCKS).read([chat])[0]
    row = turn_features(found, [1], BLOCKS, aided)[0]
    values = (row - weights["input.mean"]) / weights["input.scale"]
    values = weights["layers.0.weight"] @ values + weights["layers.0.bias"]
    values = np.array([0.5 * one * (1 + erf(one / 2**0.5)) for one in values])
    logit = float((weights["heads.stop.weight"] @ values + weights["heads.stop.bias"])[0])
    said = DialogueScorer(turns).score([chat])[0].values["stop"][0]
    assert said == pytest.approx(1 / (1 + np.exp(-logit)), abs=1e-5)


def test_long_turns_are_noted(turns: artefact.Artefact) -> None:
    chat = dialogue([("user", "Hi"), ("assistant", "Hello"), ("user", "word " * 900), ("assistant", "Oh.")])
    assert DialogueScorer(turns).score([chat])[0].cut == [False, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder": {"name": DEFAULT, "sha": "0" * 64}}, "trained on another"),
        ({"encoder": DEFAULT}, "encoder: Expected `object`, got `str`"),
        ({"acts": {"name": segment_acts.DEFAULT, "sha": "0" * 64}}, "trained on another"),
        ({"acts": {"name": "org/model", "sha": "0" * 64}}, "is not installed"),
        ({"acts": None}, "acts: Expected `object`, got `null`"),
        ({"features": ["reply", "future"]}, "unknown feature 'future'"),
        ({"features": None}, "features: .*got `null`"),
        ({"hidden": [0]}, "hidden.*>= 1"),
        ({"hidden": [16, 16]}, r"layers\.1 must have the sizes"),
        ({"hidden": "16"}, "hidden: .*got `str`"),
        ({"activation": "__import__"}, "activation: .*enum value"),
        ({"tensors": {"input.scale": np.zeros(2694, "f4")}}, "must be above 0"),
        ({"tensors": {"input.mean": np.full(2694, np.nan, "f4")}}, "one finite number"),
        ({"tensors": {"layers.0.bias": np.zeros(3, "f4")}}, r"layers\.0 must have"),
    ],
)
def test_hostile_and_broken_dialogue_scorers(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        DialogueScorer(vector_artefact(tmp_path / "a", **change))
