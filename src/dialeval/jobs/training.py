"""Train a recipe by its name on dialogues from any source, without dialogues that are in test data."""

import dataclasses
import hashlib
import importlib.util
import shlex
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dialeval.errors import DataError, UsageError
from dialeval.metrics.registry import read_option
from dialeval.models.tensors import Storage
from dialeval.training.data import TestOverlap, read_split, source_of
from dialeval.training.recipe import Provenance, Result, Watch, train
from dialeval.training.registry import recipe
from dialeval.training.settings import TrainingSettings

SEE_DATA = "see data"
_LIMITS = ("It was trained with `dialeval train`; no figure but the dev figure was measured.",)


def train_to(
    name: str,
    sources: Sequence[str],
    out: str | Path,
    *,
    dev: Sequence[str] = (),
    encoder: str | None = None,
    settings: Mapping[str, str] | None = None,
    share: float = 1.0,
    storage: Storage = "fp32",
    device: str | None = None,
    fresh: bool = False,
    licence: str | None = None,
    without: Sequence[str] = (),
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Train by a recipe's name, write the artefact, and return counts, dev figure and hash.

    Args:
        name: A recipe, see `training.registry`.
        sources: The training data, see `training.data`.
        out: The artefact's folder; checkpoints go to `<out>.training`.
        dev: The dev data, in place of the dev portions of the sources.
        encoder: In place of the recipe's own.
        settings: Fields of `TrainingSettings` as text, in place of the recipe's.
        share: Of the training dialogues, by a hash of their ids; a smaller one is part of a larger one.
        device: A name that torch knows; None: a GPU if there is one.
        fresh: Whether to forget a run that was begun; else the same call goes on with it.
        licence: Of the artefact, for its card; None: whoever passes it on must look at its data.
        without: Sources whose dialogues are excluded as well, from every portion of a public set.
        watch: Called with a stage and how many more dialogues it has done; an empty stage ends the count.
    """
    _check_names(encoder, out)
    training_recipe, watch = recipe(name, encoder), watch or (lambda stage, count: None)
    chosen = settings_of(training_recipe.settings, settings or {})
    if chosen.epochs or not training_recipe.ridge:
        need_training(device)
    origins = [source_of(text) for text in sources]
    data = read_split(origins, [source_of(text) for text in dev], watch)
    dialogues = [dialogue for dialogue in data.train if _place(dialogue.id) < share]
    tests = TestOverlap(origins, watch, [source_of(text) for text in without])
    sets = [origin.public for origin in (*origins, *map(source_of, dev)) if origin.public]
    command = command_of(
        name,
        sources,
        out,
        dev=list(dev),
        without=list(without),
        encoder=encoder,
        set=[f"{key}={text}" for key, text in (settings or {}).items()],
        share=share,
        storage=storage,
        device=device,
        licence=licence,
    )
    result = train(
        training_recipe,
        dialogues,
        out,
        Provenance(
            licence or SEE_DATA,
            command,
            data.rows,
            _LIMITS,
            sets=[*dict.fromkeys([*sets, *training_recipe.sets])],
            filtered=[source.removeprefix("set:").partition("/")[0] for source in tests.read],
        ),
        dev=data.dev or None,
        unseen=tests.fingerprints,
        settings=chosen,
        storage=storage,
        resume=not fresh,
        device=device,
        watch=watch,
    )
    read = {"recipe": name, "dialogues": len(dialogues), "in_dev_too": data.in_dev_too}
    return {
        **read,
        **_training_figures(result),
        "guarded": tests.read,
        "not_here": tests.absent,
        "folder": str(out),
    }


def _training_figures(result: Result) -> dict[str, Any]:
    trained = result.trained
    return {
        "dropped": result.dropped,
        "examples": trained.train_rows,
        "dev_examples": trained.dev_rows,
        "figure": trained.figure,
        "dev": trained.best_figure,
        "steps": trained.steps,
        "best_step": trained.best_step,
        "stopped_early": trained.stopped_early,
        "resumed_at": trained.resumed_at,
        "seconds": round(trained.seconds, 1),
        "class": result.artefact.kind,
        "sha": result.artefact.sha,
    }


def _place(id: str) -> float:
    """Map an id to a number between 0 and 1 by its hash."""
    return int.from_bytes(hashlib.sha256(f"share|{id}".encode()).digest()[:6], "big") / 2**48


def need_training(device: str | None = None) -> None:
    """Check that torch and transformers are installed and that this machine has the device.

    Raises:
        UsageError: With how to install what is missing.
    """
    missing = [name for name in ("torch", "transformers") if not _is_installed(name)]
    if missing:
        raise UsageError(f"training needs {' and '.join(missing)}: pip install 'dialeval[train]'")
    if device:
        import torch

        try:
            torch.zeros(1, device=device).cpu()
        except (RuntimeError, AssertionError) as error:  # not known; or known, and not built or plugged in
            message = str(error).strip().partition("\n")[0]
            raise UsageError(f"--device {device} cannot be used here: {message}") from None


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _check_names(encoder: str | None, out: str | Path) -> None:
    """Check folder and encoder before much is read; an encoder that may be a name is looked up later."""
    if Path(out).name in ("", ".."):  # checkpoints are kept beside it
        raise UsageError(f"-o {out}: name a new folder")
    plainly_a_path = encoder and (encoder.startswith((".", "/", "~")) or encoder.endswith("/"))
    if encoder and plainly_a_path and not Path(encoder).is_dir():
        raise DataError("no such encoder folder", file=encoder, fix="check the path")


def settings_of(recipes: TrainingSettings, changes: Mapping[str, str]) -> TrainingSettings:
    """Return a recipe's settings with those replaced that are given as text.

    >>> from dialeval.training import TrainingSettings
    >>> changed = settings_of(TrainingSettings(), {"batch": "8", "learning_rate": "1e-5", "dropout": "none"})
    >>> changed.batch, changed.learning_rate, changed.dropout
    (8, 1e-05, None)
    """
    hints = typing.get_type_hints(type(recipes))
    for key in changes:
        if key not in hints:
            raise UsageError(f"there is no setting {key!r}; there are: {', '.join(hints)}")
    read = {key: read_option(key, text, hints[key]) for key, text in changes.items()}
    return dataclasses.replace(recipes, **read)


def command_of(name: str, sources: Sequence[str], out: str | Path, **options: Any) -> str:
    """Return the command that trains the same again, for a card; options at their defaults are left out.

    >>> command_of("segment-act", ["my acts/"], "out", set=["batch=8"], share=1.0, licence="mit")
    "dialeval train segment-act 'my acts/' --set batch=8 --licence mit -o out"
    """
    words = ["dialeval", "train", name, *sources]
    for option, value in options.items():
        for item in value if isinstance(value, list | tuple) else [value]:
            if item not in (None, 1.0, "fp32"):
                words += [f"--{option}", f"{item:g}" if isinstance(item, float) else str(item)]
    return shlex.join([*words, "-o", str(out)])
