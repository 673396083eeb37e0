"""Export of a trained network as an artefact that scores without torch, with a card of the run."""

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from dialeval import __version__
from dialeval.models.artefact import Artefact, save
from dialeval.models.card import Card
from dialeval.models.conversion import canonical
from dialeval.models.heads import Head
from dialeval.models.tensors import Array, Storage, shrink, write_tensors
from dialeval.training.checkpoint import Trained, readable_time


class ArtefactParts(NamedTuple):
    """A network's part of its artefact: the class, fields of the configuration, weights, other files."""

    kind: str
    config: dict[str, Any]
    weights: dict[str, Array]
    files: Mapping[str, bytes] = {}


class Exportable(Protocol):
    """A trained network, or heads fitted by ridge regression."""

    def parts(self, storage: Storage) -> ArtefactParts:
        """Return what its artefact is made of."""


def export(
    network: Exportable,
    target: str | Path,
    card: Card,
    *,
    name: str,
    kind: str | None = None,
    storage: Storage = "fp32",
    trained: Trained | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Artefact:
    """Write a trained network as an artefact that scores without torch.

    Args:
        kind: The class of the artefact; None: the network's own.
        storage: The format of weights on disk; only `fp32` scores exactly as the network does.
        trained: The run, whose settings and dev figure are recorded.
        fields: More fields of the configuration that the metric needs, such as encoder and features.
    """
    parts = network.parts(storage)
    small = shrink(parts.weights, storage)
    files: dict[str, bytes | Callable[[Path], None]] = {
        "model.safetensors": lambda path: write_tensors(path, small),
        **parts.files,
    }
    config = {"name": name, **parts.config, **run_fields(trained), **(fields or {})}
    return save(target, kind or parts.kind, config, files, card)


def vector_parts(
    arrays: Mapping[str, Array], heads: Sequence[Head], hidden: Sequence[int] = (), activation: str = "relu"
) -> ArtefactParts:
    """Return the artefact parts of heads over feature vectors."""
    weights = {"input.mean": arrays["mean"], "input.scale": arrays["scale"]}
    weights |= {key: value for key, value in arrays.items() if key.startswith("layers.")}
    config = {
        "inputs": len(arrays["mean"]),
        "hidden": list(hidden),
        "activation": activation,
        "heads": [head.fields() for head in heads],
    }
    return ArtefactParts("dialogue-scorer.v1", config, weights | head_arrays(arrays, heads))


def encoder_parts(
    config: dict[str, Any], arrays: Mapping[str, Array], heads: Sequence[Head]
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the shape and the weights of an encoder with heads, under their canonical names."""
    prefix = "encoder."
    hub = {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}
    shape, weights = canonical(config, hub)
    return shape.fields(), weights | head_arrays(arrays, heads)


def head_arrays(arrays: Mapping[str, Array], heads: Sequence[Head]) -> dict[str, Array]:
    """Return the heads' weights by the names of the heads; a network numbers them."""
    return {
        f"heads.{head.name}.{part}": np.asarray(arrays[f"heads.{number}.{part}"], np.float32)
        for number, head in enumerate(heads)
        for part in ("weight", "bias")
    }


def run_fields(trained: Trained | None) -> dict[str, Any]:
    """Return the record of a run, without times, so that the same run gives the same artefact."""
    if trained is None:
        return {}
    return {
        "training": {
            "settings": trained.settings.deciding(),
            "rows": {"train": trained.train_rows, "dev": trained.dev_rows},
            "data": {"train": trained.train_hash, "dev": trained.dev_hash},
            "dev": {"figure": trained.figure, "value": trained.best_figure, "step": trained.best_step},
            "steps": trained.steps,
            **({} if trained.sets is None else {"sets": list(trained.sets)}),
            **({"filtered": list(trained.filtered)} if trained.filtered else {}),
        }
    }


def card_of(
    trained: Trained, title: str, description: str, *, extra: Sequence[tuple[str, str]] = (), **more: Any
) -> Card:
    """Return the card of a run: rows, settings, seed, dev figure, time, versions.

    Args:
        description: What the scorer does, a sentence or two.
        extra: More facts.
        **more: Other fields of the `Card`: licence, command, data, limits; `figures` are put after the dev
            figure.
    """
    dev_figures = {} if trained.best_figure is None else {f"dev {trained.figure}": trained.best_figure}
    settings = trained.settings.deciding()
    seed = settings.pop("seed")
    facts = [
        ("training examples", f"{trained.train_rows:,}"),
        ("dev examples", f"{trained.dev_rows:,}"),
        ("steps", f"{trained.steps:,}, best at {trained.best_step:,}"),
        ("seed", str(seed)),
        ("settings", json.dumps(settings)),
        ("time", readable_time(trained.seconds)),
        ("made with", _versions(trained.steps)),
    ]
    figures = dev_figures | more.pop("figures", {})
    return Card(title, description, figures=figures, extra=[*facts, *extra], **more)


def _versions(steps: int) -> str:
    """Return the versions of the libraries used; torch only for runs with steps."""
    names = ("torch", "transformers", "tokenizers", "numpy") if steps else ("tokenizers", "numpy")
    return ", ".join([f"dialeval {__version__}", *(f"{name} {version(name)}" for name in names)])
