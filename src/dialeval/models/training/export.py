"""From a trained network to an artefact that scores without torch, and a card written from the run."""

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dialeval import __version__
from dialeval.models.artefact import Artefact, save
from dialeval.models.card import Card
from dialeval.models.conversion import canonical
from dialeval.models.heads import Head
from dialeval.models.tensors import Array, Storage, shrink, write_tensors
from dialeval.models.training.checkpoint import module_arrays
from dialeval.models.training.loop import Trained
from dialeval.models.training.networks import VectorNetwork
from dialeval.models.training.pair_network import PairNetwork
from dialeval.models.training.progress import readable_time


def export_pair(
    network: PairNetwork,
    target: str | Path,
    card: Card,
    *,
    name: str,
    storage: Storage = "fp32",
    trained: Trained | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Artefact:
    """Write a pair scorer: the encoder under its canonical names, a linear head for each question.

    Args:
        network: What was trained.
        target: The folder.
        card: Its README.
        name: What the scorer is called.
        storage: How weights are kept on disk; only `fp32` scores exactly as the network does.
        trained: The run, whose settings and dev figure are recorded with it.
        fields: More to record, as the metric that will read it needs.
    """
    arrays = module_arrays(network.module)
    prefix = "encoder."
    hub = {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}
    shape, weights = canonical(network.config, hub)
    weights |= head_arrays(arrays, network.heads)
    config = {
        "name": name,
        "shape": shape.fields(),
        "limit": network.limit,
        "layout": network.layout.fields(),
        "heads": [head.fields() for head in network.heads],
        "storage": storage,
        "encoder": Path(network.encoder).name if Path(network.encoder).is_dir() else network.encoder,
        **run_fields(trained),
        **(fields or {}),
    }
    small = shrink(weights, storage)
    files: dict[str, bytes | Callable[[Path], None]] = {
        "model.safetensors": lambda path: write_tensors(path, small),
        "tokenizer.json": network.tokenizer_json,
    }
    return save(target, "pair-scorer.v1", config, files, card)


def export_vectors(
    network: VectorNetwork,
    target: str | Path,
    card: Card,
    *,
    name: str,
    kind: str = "dialogue-scorer.v1",
    storage: Storage = "fp32",
    trained: Trained | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Artefact:
    """Write a head over vectors; `fields` says which encoder and which features it reads."""
    arrays = module_arrays(network.module)
    weights = {"input.mean": arrays["mean"], "input.scale": arrays["scale"]}
    weights |= {key: value for key, value in arrays.items() if key.startswith("layers.")}
    weights |= head_arrays(arrays, network.heads)
    config = {
        "name": name,
        "inputs": len(arrays["mean"]),
        "hidden": list(network.hidden),
        "activation": network.activation,
        "heads": [head.fields() for head in network.heads],
        **run_fields(trained),
        **(fields or {}),
    }
    small = shrink(weights, storage)
    files = {"model.safetensors": lambda path: write_tensors(path, small)}
    return save(target, kind, config, files, card)


def head_arrays(arrays: Mapping[str, Array], heads: Sequence[Head]) -> dict[str, Array]:
    """Name the heads' weights by head; a network counts them."""
    return {
        f"heads.{head.name}.{part}": np.asarray(arrays[f"heads.{number}.{part}"], np.float32)
        for number, head in enumerate(heads)
        for part in ("weight", "bias")
    }


def run_fields(trained: Trained | None) -> dict[str, Any]:
    """Record what the weights depend on: no times, so that the same run gives the same artefact."""
    if trained is None:
        return {}
    return {
        "training": {
            "settings": trained.settings.deciding(),
            "rows": {"train": trained.train_rows, "dev": trained.dev_rows},
            "data": {"train": trained.train_hash, "dev": trained.dev_hash},
            "dev": {"figure": trained.figure, "value": trained.best_figure, "step": trained.best_step},
            "steps": trained.steps,
        }
    }


def card_of(
    trained: Trained,
    title: str,
    what: str,
    *,
    licence: str,
    command: str,
    data: Sequence[tuple[str, str, str]] = (),
    limits: str | Sequence[str] = (),
    figures: Mapping[str, float] | None = None,
    extra: Sequence[tuple[str, str]] = (),
) -> Card:
    """Write a card from a run: rows, settings, seed, dev figure, time, versions.

    Args:
        trained: The run.
        title: The name people read.
        what: What it does, a sentence or two.
        licence: Of the artefact.
        command: What makes it again.
        data: Name, licence and a note for each set it learned from.
        limits: What it cannot do.
        figures: Measured elsewhere, on a test set for example; the dev figure is added.
        extra: More facts.
    """
    found = {} if trained.best_figure is None else {f"dev {trained.figure}": trained.best_figure}
    told = trained.settings.deciding()
    seed = told.pop("seed")
    return Card(
        title,
        what,
        licence=licence,
        command=command,
        data=data,
        limits=limits,
        figures={**found, **(figures or {})},
        extra=[
            ("training examples", f"{trained.train_rows:,}"),
            ("dev examples", f"{trained.dev_rows:,}"),
            ("steps", f"{trained.steps:,}, best at {trained.best_step:,}"),
            ("seed", str(seed)),
            ("settings", json.dumps(told)),
            ("time", readable_time(trained.seconds)),
            ("made with", _versions()),
            *extra,
        ],
    )


def _versions() -> str:
    names = ("torch", "transformers", "tokenizers", "numpy")
    return ", ".join([f"dialeval {__version__}", *(f"{name} {version(name)}" for name in names)])
