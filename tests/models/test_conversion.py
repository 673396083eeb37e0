"""Models of every known family, as transformers saves them, give transformers' numbers on our runtime."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dialeval.errors import DataError
from dialeval.models.card import Card
from dialeval.models.conversion import encoder_artefact
from dialeval.models.encoder import Encoder
from dialeval.models.network import FLOAT, Graph

CARD = Card("A tiny model", "For tests.", licence="mit", command="none")
WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    *["the", "a", "train", "goes", "to", "from", "sea", "hill", "and", "!", "?", ".", "hello", "you"],
]
TEXTS = ["hello you !", "the train goes to the sea and to the hill .", "", "a ?", "the " * 80]
SIZES = {
    "vocab_size": len(WORDS),
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
DISTIL = {"vocab_size": len(WORDS), "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 64}
FAMILIES: dict[str, dict[str, Any]] = {
    "Bert": SIZES,
    "Bert:tanh": {**SIZES, "hidden_act": "gelu_new"},
    "Bert:relu": {**SIZES, "hidden_act": "relu", "layer_norm_eps": 1e-5},
    "Electra": {**SIZES, "embedding_size": 32},
    "Roberta": {**SIZES, "max_position_embeddings": 66, "pad_token_id": 1, "type_vocab_size": 1},
    "XLMRoberta": {**SIZES, "max_position_embeddings": 66, "pad_token_id": 1, "type_vocab_size": 1},
    "DistilBert": {**DISTIL, "max_position_embeddings": 64},
}


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    made = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, "[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    made.enable_truncation(8)  # as many published tokenizers have it; ours must not mind
    made.enable_padding(length=16)
    return made


@pytest.fixture(params=list(FAMILIES))
def family(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Path]:
    torch = pytest.importorskip("torch", reason="needs the extra [train]")
    transformers = pytest.importorskip("transformers", reason="needs the extra [train]")
    name = request.param.partition(":")[0]
    torch.manual_seed(1)
    config = getattr(transformers, f"{name}Config")(**FAMILIES[request.param], initializer_range=0.2)
    model = getattr(transformers, f"{name}Model")(config).eval()
    model.save_pretrained(tmp_path)
    tokenizer().save(str(tmp_path / "tokenizer.json"))
    return model, tmp_path


def theirs(model: Any, ids: list[int], layer: int) -> np.ndarray:
    import torch

    with torch.no_grad():
        found = model(input_ids=torch.tensor([ids]), output_hidden_states=True)
    return np.asarray(found.hidden_states[layer][0].numpy())


def test_the_same_states_at_every_layer(family: tuple[Any, Path], tmp_path: Path) -> None:
    model, folder = family
    made = encoder_artefact(folder, tmp_path / "made", name="tiny", card=CARD)
    encoder = Encoder(made)
    assert (encoder.width, encoder.layers, encoder.limit) == (32, 3, 64)
    ids = [one.ids for one in encoder.tokenizer.encode(TEXTS)]
    assert len(ids[-1]) == 64
    for layer in range(4):
        for mine, one in zip(encoder.tokens(TEXTS, layer=layer), ids, strict=True):
            assert np.abs(mine - theirs(model, one, layer)).max() <= 1e-5, layer


def change(folder: Path, **fields: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.mark.parametrize("family", ["Bert"], indirect=True)
def test_what_cannot_be_converted_says_why(family: tuple[Any, Path], tmp_path: Path) -> None:
    folder = family[1]

    def refused(message: str) -> None:
        with pytest.raises(DataError, match=message):
            encoder_artefact(folder, tmp_path / "made", name="tiny", card=CARD)
        assert not (tmp_path / "made").exists()

    change(folder, model_type="gpt2")
    refused("cannot run models of the family 'gpt2'.*supported: bert")
    change(folder, model_type="bert", hidden_act="swish")
    refused("unknown activation 'swish'")
    change(folder, hidden_act="gelu", position_embedding_type="relative_key")
    refused("only absolute positions")
    change(folder, position_embedding_type="absolute", num_hidden_layers=4)
    refused("layer.3.attention.weight is missing")
    change(folder, num_hidden_layers=3, hidden_size=16)
    refused("embeddings.tokens has the sizes")
    change(folder, hidden_size=32)
    (folder / "tokenizer.json").write_text("not JSON")
    refused(r"no readable tokenizer\.json.*use_fast")
    (folder / "model.safetensors").unlink()
    refused(r"no \*\.safetensors")
    (folder / "config.json").write_text("[]")
    refused("not an object")
    (folder / "config.json").unlink()
    refused("no such file")


@pytest.mark.parametrize("family", ["Bert"], indirect=True)
def test_pooling_is_taken_from_a_sentence_encoder(family: tuple[Any, Path], tmp_path: Path) -> None:
    folder = family[1]
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    (folder / "modules.json").write_text('[{"type": "sentence_transformers.models.Normalize"}]')
    encoder = Encoder(encoder_artefact(folder, tmp_path / "made", name="tiny", card=CARD))
    found = encoder.vectors(["hello you"])[0]
    first = encoder.tokens(["hello you"])[0][0]
    assert np.allclose(found, first / np.linalg.norm(first), atol=1e-6)


def test_the_bytes_are_a_model_to_the_onnx_package() -> None:
    onnx = pytest.importorskip("onnx", reason="an oracle of the development group")
    graph = Graph()
    graph.input("x", FLOAT, ["rows", 4])
    graph.weight("w", [4, 300])
    product = graph.node("MatMul", ["x", "w"])
    graph.node("LeakyRelu", [product], output="y", alpha=0.5)
    graph.node("Transpose", ["y"], output="z", perm=[1, 0])
    graph.output("z", FLOAT, [300, "rows"])
    model = onnx.load_from_string(graph.model())
    assert [node.op_type for node in model.graph.node] == ["MatMul", "LeakyRelu", "Transpose"]
    assert model.graph.node[1].attribute[0].f == 0.5
    assert list(model.graph.node[2].attribute[0].ints) == [1, 0]
    sizes = model.graph.output[0].type.tensor_type.shape.dim
    assert [size.dim_value or size.dim_param for size in sizes] == [300, "rows"]
    assert list(model.graph.initializer[0].dims) == [4, 300]
    del model.graph.initializer[0].external_data[:]
    model.graph.initializer[0].data_location = 0
    model.graph.initializer[0].raw_data = np.zeros((4, 300), np.float32).tobytes()
    onnx.checker.check_model(model, full_check=True)
