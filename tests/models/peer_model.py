"""An encoder of ours as a folder of transformers: what a peer library needs to run the very same weights."""

import json
from pathlib import Path

import numpy as np

from dialeval.models.artefact import Artefact
from dialeval.models.shape import EncoderShape, read_weights
from dialeval.models.tensors import write_tensors

EMBEDDINGS = {
    "tokens": "word_embeddings.weight",
    "positions": "position_embeddings.weight",
    "segments": "token_type_embeddings.weight",
    "norm.weight": "LayerNorm.weight",
    "norm.bias": "LayerNorm.bias",
}
LAYER = {
    "attended": "attention.output.dense",
    "attended.norm": "attention.output.LayerNorm",
    "inner": "intermediate.dense",
    "outer": "output.dense",
    "outer.norm": "output.LayerNorm",
}


def as_transformers(artefact: Artefact, folder: Path, longest: int | None = None) -> Path:
    """Write a BERT that gives the numbers of `artefact`; `longest` tells its tokenizer where to cut."""
    shape = EncoderShape.of(artefact.config, "config.json")
    tensors = {}
    for name, value in read_weights(artefact.path("model.safetensors"), shape).items():
        room, _, rest = name.partition(".")
        if room == "embeddings":
            tensors[f"embeddings.{EMBEDDINGS[rest]}"] = value
            continue
        number, _, rest = rest.partition(".")
        part, _, kind = rest.rpartition(".")
        prefix = f"encoder.layer.{number}"
        if part == "attention":
            for which, piece in zip(("query", "key", "value"), np.split(value, 3), strict=True):
                tensors[f"{prefix}.attention.self.{which}.{kind}"] = np.ascontiguousarray(piece)
        else:
            tensors[f"{prefix}.{LAYER[part]}.{kind}"] = value
    for kind, size in (("weight", (shape.width, shape.width)), ("bias", (shape.width,))):
        tensors[f"pooler.dense.{kind}"] = np.zeros(size, np.float32)  # not used, but missed
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(folder / "model.safetensors", tensors, layout="pt")
    (folder / "config.json").write_text(json.dumps(_config(shape)))
    (folder / "tokenizer.json").write_bytes(artefact.path("tokenizer.json").read_bytes())
    marks = {f"{name.lower()}_token": f"[{name}]" for name in ("CLS", "SEP", "PAD", "UNK", "MASK")}
    limit = {} if longest is None else {"model_max_length": longest}
    # As ours does, take marks that a user typed for text.
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "split_special_tokens": True, **marks, **limit}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def _config(shape: EncoderShape) -> dict[str, object]:
    return {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.inner,
        "max_position_embeddings": shape.positions,
        "type_vocab_size": shape.segments,
        "hidden_act": shape.activation,
        "layer_norm_eps": shape.epsilon,
    }
