"""Encoders as the Hub has them: families, what is refused, and that loading says nothing and calls nobody."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import toy_training as toy

from dialeval.errors import DataError, UsageError
from dialeval.training import Head, PairExample, PairNetwork, TrainingSettings, fit, predict

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
HEADS = (Head("quality", "regression"),)
QUICK = TrainingSettings(batch=8, epochs=1, learning_rate=1e-3, threads=1)


@pytest.fixture
def copied(home: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(home / "encoder", tmp_path / "encoder"))


@pytest.mark.parametrize("family", ["encoder", "roberta", "distilbert"])
def test_outputs_are_those_of_transformers(family: str, home: Path) -> None:
    """The oracle reads a pair with the model's own tokenizer and forward pass."""
    network = PairNetwork(home / family, HEADS, QUICK)
    network.module.eval()
    model = transformers.AutoModel.from_pretrained(home / family).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(home / family)
    examples = [
        PairExample((history,), response, {}) for history, response in zip(toy.ASKED, toy.GOOD, strict=True)
    ]
    found = predict(network, examples, batch=3)["quality"]
    top = network.tops[0]
    for example, value in zip(examples, found, strict=True):
        segments = {"return_token_type_ids": family == "encoder"}
        given = tokenizer(example.history[0], example.response, return_tensors="pt", **segments)
        with torch.inference_mode():
            expected = top(model(**given).last_hidden_state[:, 0]).item()
        assert value == pytest.approx(expected, abs=1e-5)


def test_what_was_trained_before_goes_on(home: Path, tmp_path: Path) -> None:
    """A cross-encoder, exported and read again, has the states that it had; so has a shipped encoder."""
    from dialeval.models.card import Card
    from dialeval.models.encoder import Encoder
    from dialeval.training.export import export

    for family in ("encoder", "roberta"):
        first = PairNetwork(home / family, toy.HEADS, QUICK)
        fit(first, toy.pair_examples(10), settings=QUICK)
        card = Card("toy", "A test.", licence="mit", command="a test")
        made = export(first, tmp_path / family, card, name=family)
        again = PairNetwork(made.folder, toy.HEADS, QUICK)
        assert (again.layout, again.shape) == (first.layout, first.shape)
        with torch.no_grad():
            again.tops.load_state_dict(first.tops.state_dict())
        examples = toy.pair_examples(20)
        np.testing.assert_allclose(
            predict(again, examples)["quality"], predict(first, examples)["quality"], atol=1e-5
        )
    shipped = PairNetwork("dialeval-encoder-small", HEADS, QUICK)
    ids = shipped.tokenizer.bare(["Is there a train at noon?"])[0]
    whole = torch.tensor([[shipped.layout.cls, *ids, shipped.layout.sep]])
    states = shipped.model.eval()(input_ids=whole).last_hidden_state[0].detach().numpy()
    known = Encoder.load().tokens(["Is there a train at noon?"])[0]
    np.testing.assert_allclose(states, known, atol=1e-4)


def test_predictions_do_not_depend_on_company(home: Path) -> None:
    network = PairNetwork(home / "roberta", toy.HEADS, QUICK)
    examples = toy.pair_examples(30)
    alone, together = predict(network, examples, batch=1), predict(network, examples, batch=30)
    for name in alone:
        assert np.abs(alone[name] - together[name]).max() < 1e-5


def test_awkward_text_is_read(home: Path) -> None:
    texts = ["", " ", "\ud800", "\0", "🙂" * 50, "[SEP] <pad> </s>", "the " * 10_000]
    examples = [PairExample(tuple(texts), text, {"quality": 1.0}) for text in texts]
    for family in ("encoder", "roberta"):
        network = PairNetwork(home / family, HEADS, QUICK)
        fit(network, examples, settings=QUICK)
        assert np.isfinite(predict(network, examples)["quality"]).all()
    assert predict(network, [])["quality"].shape == (0,)


def test_the_limit_is_the_smaller_of_two(home: Path) -> None:
    assert PairNetwork(home / "encoder", HEADS, TrainingSettings()).limit == 48
    assert (
        PairNetwork(home / "roberta", HEADS, TrainingSettings()).limit == 48
    )  # 50 positions, of which 2 are not used
    network = PairNetwork(home / "encoder", HEADS, TrainingSettings(max_length=20))
    prepared = network.prepare([PairExample(("the train",) * 30, "banana", {})])
    assert prepared.lengths.tolist() == [20]
    assert prepared.tensors(np.array([0]))["ids"].shape == (1, 20)
    with pytest.raises(UsageError, match="too short for a pair"):
        PairNetwork(home / "encoder", HEADS, TrainingSettings(max_length=4))


@pytest.mark.parametrize(("dropout", "same"), [(0.0, True), (None, False), (0.3, False)])
@pytest.mark.parametrize("family", ["encoder", "distilbert"])
def test_dropout_is_that_of_the_settings(family: str, dropout: float | None, same: bool, home: Path) -> None:
    network = PairNetwork(home / family, HEADS, TrainingSettings(dropout=dropout))
    batch = network.prepare(toy.pair_examples(4)).tensors(np.arange(4))
    network.module.train()
    one, other = (network.outputs(batch)["quality"] for _ in range(2))
    assert torch.equal(one, other) == same


def test_weights_stored_in_half_precision_are_trained_in_full(copied: Path) -> None:
    transformers.AutoModel.from_pretrained(copied).half().save_pretrained(copied)
    network = PairNetwork(copied, HEADS, QUICK)
    assert {weight.dtype for weight in network.module.parameters()} == {torch.float32}


def test_nothing_is_said_and_nothing_changed(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled(), torch.get_rng_state()
    PairNetwork(home / "encoder", HEADS, QUICK)
    after = logging.get_verbosity(), logging.is_progress_bar_enabled(), torch.get_rng_state()
    assert before[:2] == after[:2]
    assert torch.equal(before[2], after[2])
    assert capfd.readouterr() == ("", "")


def test_first_weights_follow_from_the_seed(home: Path) -> None:
    def first(seed: int) -> torch.Tensor:
        return PairNetwork(home / "encoder", HEADS, TrainingSettings(seed=seed)).tops[0].weight

    assert torch.equal(first(1), first(1))
    assert not torch.equal(first(1), first(2))


# --- what is refused ----------------------------------------------------------------------------------------


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing-here: not an encoder"):
        PairNetwork(tmp_path / "nothing-here", HEADS, QUICK)


def test_weights_that_are_missing(copied: Path) -> None:
    from dialeval.models.tensors import read_tensors, write_tensors

    tensors = {name: np.array(value) for name, value in read_tensors(copied / "model.safetensors").items()}
    del tensors["encoder.layer.1.output.dense.weight"]
    write_tensors(copied / "model.safetensors", tensors, layout="pt")
    with pytest.raises(
        DataError, match=r"weights are missing, such as encoder\.layer\.1\.output\.dense\.weight"
    ):
        PairNetwork(copied, HEADS, QUICK)


def test_pickled_weights(copied: Path) -> None:
    (copied / "model.safetensors").rename(copied / "pytorch_model.bin")
    with pytest.raises(DataError, match="not an encoder"):
        PairNetwork(copied, HEADS, QUICK)


def test_code_that_comes_with_a_model(copied: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config", "AutoModel": "mine.Model"}}
    (copied / "config.json").write_text(json.dumps(config))
    (copied / "mine.py").write_text("raise SystemExit('ran')")
    with pytest.raises(DataError, match="not an encoder"):
        PairNetwork(copied, HEADS, QUICK)


def test_positions_that_begin_elsewhere(home: Path, tmp_path: Path) -> None:
    """The runtime knows families that count from 0 or from 2; a silent shift would ruin every score."""
    folder = Path(shutil.copytree(home / "roberta", tmp_path / "roberta"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"pad_token_id": 0}))
    with pytest.raises(DataError, match="positions start at 1"):
        PairNetwork(folder, HEADS, QUICK)


def test_a_family_that_could_not_be_exported(tmp_path: Path, home: Path) -> None:
    """Refused before days of training, not after."""
    shutil.copytree(home / "encoder", tmp_path / "albert")
    config = transformers.AlbertConfig(
        vocab_size=60, hidden_size=32, num_attention_heads=2, intermediate_size=64, embedding_size=32
    )
    transformers.AlbertModel(config).save_pretrained(tmp_path / "albert")
    with pytest.raises(DataError, match="cannot run models of the family 'albert'"):
        PairNetwork(tmp_path / "albert", HEADS, QUICK)
