"""Conversion of Hugging Face models to the canonical weights of `shape`, and back.

Families differ in names and details: RoBERTa counts positions from 2, DistilBERT has no segments and other
names for query, key and value.
"""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dialeval.errors import DataError
from dialeval.manifests import SUMS
from dialeval.models.artefact import Artefact, save, verify
from dialeval.models.card import Card
from dialeval.models.shape import Activation, EncoderShape, check_sizes, read_weights
from dialeval.models.tensors import Storage, read_tensors, shrink, write_tensors
from dialeval.models.untrusted import parse_object, read_small

Floats = npt.NDArray[np.float32]
_BERT = {
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "attended",
    "attention.output.LayerNorm": "attended.norm",
    "intermediate.dense": "inner",
    "output.dense": "outer",
    "output.LayerNorm": "outer.norm",
}
_DISTILBERT = {
    "attention.q_lin": "query",
    "attention.k_lin": "key",
    "attention.v_lin": "value",
    "attention.out_lin": "attended",
    "sa_layer_norm": "attended.norm",
    "ffn.lin1": "inner",
    "ffn.lin2": "outer",
    "output_layer_norm": "outer.norm",
}
_FAMILIES = {
    "bert": _BERT,
    "electra": _BERT,
    "roberta": _BERT,
    "xlm-roberta": _BERT,
    "camembert": _BERT,
    "distilbert": _DISTILBERT,
}
_FROM_PADDING = ("roberta", "xlm-roberta", "camembert")  # positions count from the padding token
_ACTIVATIONS: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}
_EMBEDDING = re.compile(r"(?:[a-z_]+\.)?embeddings\.(.+)")
_LAYER = re.compile(r"(?:[a-z_]+\.)?(?:encoder|transformer)\.layer\.(\d+)\.(.+)\.(weight|bias)")
_EMBEDDINGS = {
    "word_embeddings.weight": "tokens",
    "position_embeddings.weight": "positions",
    "token_type_embeddings.weight": "segments",
    "LayerNorm.weight": "norm.weight",
    "LayerNorm.bias": "norm.bias",
}


def canonical(
    config: Mapping[str, Any], tensors: Mapping[str, Floats], file: str | Path = "config.json"
) -> tuple[EncoderShape, dict[str, Floats]]:
    """Return shape and canonical weights of a transformers model; `file` is named in errors."""
    family = str(config.get("model_type"))
    if family not in _FAMILIES:
        families = ", ".join(sorted(_FAMILIES))
        raise DataError(
            f"cannot run models of the family {family!r}",
            file=file,
            field="model_type",
            fix=f"supported: {families}",
        )
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise DataError("only absolute positions are supported", file=file, field="position_embedding_type")
    weights = _renamed(tensors, _FAMILIES[family])
    if family in _FROM_PADDING and "embeddings.positions" in weights:
        weights["embeddings.positions"] = weights["embeddings.positions"][_first_position(config, file) :]
    shape = _shape(config, weights, family, file)
    if "embeddings.segments" not in weights:
        weights["embeddings.segments"] = np.zeros((1, shape.width), np.float32)
    for number in range(shape.layers):
        for part in ("weight", "bias"):
            names = [f"layer.{number}.{which}.{part}" for which in ("query", "key", "value")]
            if all(name in weights for name in names):
                weights[f"layer.{number}.attention.{part}"] = np.concatenate(
                    [weights.pop(name) for name in names]
                )
    expected = shape.weights()
    check_sizes(weights, expected, file)
    return shape, {name: weights[name] for name in expected}


def as_bert(shape: EncoderShape, weights: Mapping[str, Floats]) -> tuple[dict[str, Any], dict[str, Floats]]:
    """Return config and weights in the naming of transformers' BERT, from any family."""
    bert_names = {canonical_name: name for name, canonical_name in _BERT.items()}
    named = {
        f"embeddings.{canonical_name}": f"embeddings.{name}" for name, canonical_name in _EMBEDDINGS.items()
    }
    tensors: dict[str, Floats] = {}
    for name, value in weights.items():
        if name in named:
            tensors[named[name]] = value
            continue
        _, number, part, kind = (*name.split(".", 2)[:2], *name.split(".", 2)[2].rsplit(".", 1))
        split = {"query": 0, "key": 1, "value": 2} if part == "attention" else {part: None}
        for projection, third in split.items():
            array = value if third is None else np.split(value, 3)[third]
            tensors[f"encoder.layer.{number}.{bert_names[projection]}.{kind}"] = array
    config = {
        "model_type": "bert",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.inner,
        "max_position_embeddings": shape.positions,
        "type_vocab_size": shape.segments,
        "hidden_act": next(
            name for name, canonical_name in _ACTIVATIONS.items() if canonical_name == shape.activation
        ),
        "layer_norm_eps": shape.epsilon,
    }
    return config, tensors


def _first_position(config: Mapping[str, Any], file: str | Path) -> int:
    padding = config.get("pad_token_id", 1)
    if type(padding) is not int or padding < 0:
        raise DataError(f"{padding!r} is not a token number", file=file, field="pad_token_id")
    return padding + 1


def _renamed(tensors: Mapping[str, Floats], names: Mapping[str, str]) -> dict[str, Floats]:
    """Return the encoder's weights under canonical names, without heads and prefixes."""
    weights: dict[str, Floats] = {}
    for name, value in tensors.items():
        if (match := _EMBEDDING.fullmatch(name)) and (canonical_name := _EMBEDDINGS.get(match[1])):
            weights[f"embeddings.{canonical_name}"] = value
        elif (match := _LAYER.fullmatch(name)) and (canonical_name := names.get(match[2])):
            weights[f"layer.{match[1]}.{canonical_name}.{match[3]}"] = value
    return weights


def _shape(
    config: Mapping[str, Any], weights: Mapping[str, Floats], family: str, file: str | Path
) -> EncoderShape:
    distil = family == "distilbert"
    needed = ("embeddings.tokens", "embeddings.positions", "layer.0.inner.weight")
    for name in needed:
        if name not in weights:
            raise DataError(f"{name} is missing from the weights", file=file)
    activation = str(config.get("activation" if distil else "hidden_act", "gelu"))
    if activation not in _ACTIVATIONS:
        raise DataError(f"unknown activation {activation!r}", file=file, field="hidden_act")
    segments = weights.get("embeddings.segments")
    try:
        sizes = {
            "vocabulary": len(weights["embeddings.tokens"]),
            "width": config["dim" if distil else "hidden_size"],
            "layers": config["n_layers" if distil else "num_hidden_layers"],
            "heads": config["n_heads" if distil else "num_attention_heads"],
            "inner": len(weights["layer.0.inner.weight"]),
            "positions": len(weights["embeddings.positions"]),
            "segments": 1 if segments is None else len(segments),
            "activation": _ACTIVATIONS[activation],
            "epsilon": config.get("layer_norm_eps", 1e-12),
        }
    except KeyError as error:
        raise DataError(f"{error} is missing", file=file) from None
    return EncoderShape.of({"shape": sizes}, str(file))  # refuses impossible sizes


def plain_tokenizer(path: Path) -> bytes:
    """Return the content of a `tokenizer.json` with truncation and padding switched off."""
    try:
        content = json.loads(path.read_bytes())
        content = content | {"truncation": None, "padding": None}
    except (OSError, ValueError, TypeError, RecursionError):
        raise DataError(
            "no readable tokenizer.json",
            file=path,
            fix="save the tokenizer with transformers' AutoTokenizer(..., use_fast=True).save_pretrained",
        ) from None
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")


def encoder_artefact(
    source: Path, target: Path, *, name: str, card: Card, storage: Storage = "fp32"
) -> Artefact:
    """Write an encoder artefact from a transformers folder, or from another artefact."""
    if (source / SUMS).is_file():
        artefact = verify(source, "encoder.v1")
        shape = EncoderShape.of(artefact.config, str(source / "config.json"))
        weights = read_weights(artefact.path("model.safetensors"), shape)
        pooling = {key: artefact.config.get(key) for key in ("pooling", "unit")}
    else:
        config, tensors = read_hub_folder(source)
        shape, weights = canonical(config, tensors, source / "config.json")
        pooling = _pooling(source)
    small = shrink(weights, storage)
    return save(
        target,
        "encoder.v1",
        {"name": name, "shape": shape.fields(), "storage": storage, **pooling},
        {
            "model.safetensors": lambda path: write_tensors(path, small),
            "tokenizer.json": plain_tokenizer(source / "tokenizer.json"),
        },
        card,
    )


def read_hub_folder(source: Path) -> tuple[dict[str, Any], dict[str, Floats]]:
    """Return config and weights of a transformers folder; weights may be in several files."""
    config = parse_object(read_small(source / "config.json", follow=True), source / "config.json")
    files = sorted(source.glob("*.safetensors"))
    if not files:
        raise DataError(
            "no *.safetensors in this folder",
            file=source,
            fix="save the model with save_pretrained(folder, safe_serialization=True)",
        )
    tensors: dict[str, Floats] = {}
    for file in files:
        tensors |= {
            name: value.astype(np.float32, copy=False)
            for name, value in read_tensors(file).items()
            if value.dtype.kind == "f"
        }
    return config, tensors


def _pooling(source: Path) -> dict[str, Any]:
    """Return the pooling of a sentence encoder; by default the mean, not normalised."""
    path = source / "1_Pooling" / "config.json"
    settings = parse_object(read_small(path, follow=True), path) if path.is_file() else {}
    if settings.get("pooling_mode_cls_token"):
        pooling = "first"
    elif settings.get("pooling_mode_max_tokens"):
        pooling = "max"
    else:
        pooling = "mean"
    modules = source / "modules.json"
    unit = modules.is_file() and b"models.Normalize" in modules.read_bytes()
    return {"pooling": pooling, "unit": unit}


@contextlib.contextmanager
def reading_by_transformers(name: str, model: str, of_hub: str) -> Iterator[None]:
    """Turn off its progress bars and reports, and turn its errors into ours: `name` is not a `model`."""
    from transformers.utils import logging as theirs

    logging: Any = theirs
    loud, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    except (OSError, ValueError) as error:
        first = str(error).strip().partition("\n")[0]
        fix = f"name a folder with config.json, *.safetensors and tokenizer.json, or {of_hub} of the Hub"
        raise DataError(f"not {model}: {first}", file=name, fix=fix) from None
    finally:
        logging.set_verbosity(loud)
        if bars:
            logging.enable_progress_bar()
