"""Train a recipe by its name on whatever dialogues there are, away from all test data that is here."""

import dataclasses
import hashlib
import importlib.util
import shlex
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dialeval.dialogues import Dialogue
from dialeval.errors import DataError, UsageError
from dialeval.jobs.material import Guard, Watch, read_material, source_of
from dialeval.metrics.recipes import recipe

if TYPE_CHECKING:
    from dialeval.models.tensors import Storage
    from dialeval.models.training import Recipe, Result, Settings

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
    storage: "Storage" = "fp32",
    device: str | None = None,
    fresh: bool = False,
    licence: str | None = None,
    without: Sequence[str] = (),
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Train by a recipe's name, write the artefact, and say what came out.

    Args:
        name: A recipe, see `metrics.recipes`.
        sources: What to learn from, see `jobs.material`.
        out: The artefact's folder; checkpoints go to `<out>.training`.
        dev: What to choose by, in place of what the sources set aside.
        encoder: In place of the recipe's own.
        settings: Fields of `Settings` as text, in place of the recipe's.
        share: Of the dialogues to learn from, by a hash of their ids; a smaller one is part of a larger one.
        storage: How the artefact keeps its weights.
        device: A name that torch knows; None: a GPU if there is one.
        fresh: Whether to forget a run that was begun; else the same call goes on with it.
        licence: Of the artefact, for its card; None: whoever passes it on must look at its data.
        without: Sources whose dialogues stay out too, whatever portion of a public set they are.
        watch: Called with what is being done and how many more dialogues; an empty name: counting is over.
    """
    need_training(device)
    _check_names(encoder, out)
    from dialeval.models.training import Provenance, train

    made, watch = recipe(name, encoder).recipe, watch or _ignore
    chosen = settings_of(made.settings, settings or {})
    origins = [source_of(text) for text in sources]
    material = read_material(origins, [source_of(text) for text in dev], watch)
    learn = [one for one in material.learn if _falls(one.id) < share]
    guard = Guard(origins, watch, [source_of(text) for text in without])
    command = command_of(
        name,
        sources,
        out,
        dev=dev,
        encoder=encoder,
        settings=settings or {},
        share=share,
        storage=storage,
        device=device,
        licence=licence,
        without=without,
    )
    result = train(
        typing.cast("Recipe[Any, Any]", _Watched(made, len(learn), watch)),
        learn,
        out,
        Provenance(licence or SEE_DATA, command, material.rows, _LIMITS),
        dev=material.choose or None,
        unseen=guard.dialogues(),
        settings=chosen,
        storage=storage,
        resume=not fresh,
        device=device,
    )
    read = {"recipe": name, "dialogues": len(learn), "in_dev_too": material.in_both}
    return {**read, **_found(result), "guarded": guard.read, "not_here": guard.absent, "folder": str(out)}


def _found(result: "Result") -> dict[str, Any]:
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


def _falls(id: str) -> float:
    """Put an id somewhere between 0 and 1, always the same."""
    return int.from_bytes(hashlib.sha256(f"share|{id}".encode()).digest()[:6], "big") / 2**48


def _ignore(stage: str, count: int) -> None:
    pass


def need_training(device: str | None = None) -> None:
    """Say how to get what training needs, if it is not there, and whether this machine has the device."""
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"training needs {' and '.join(missing)}: pip install 'dialeval[train]'")
    if device:
        import torch

        try:
            torch.zeros(1, device=device).cpu()
        except (RuntimeError, AssertionError) as error:  # not known; or known, and not built or plugged in
            told = str(error).strip().partition("\n")[0]
            raise UsageError(f"--device {device} cannot be used here: {told}") from None


def _check_names(encoder: str | None, out: str | Path) -> None:
    """Refuse before much is read what cannot work; an encoder that may be a name is looked up later."""
    if Path(out).name in ("", ".."):  # checkpoints are kept beside it
        raise UsageError(f"-o {out}: name a new folder")
    plainly_a_path = encoder and (encoder.startswith((".", "/", "~")) or encoder.endswith("/"))
    if encoder and plainly_a_path and not Path(encoder).is_dir():
        raise DataError("no such folder, so no encoder", file=encoder, fix="check the path")


def settings_of(recipes: "Settings", given: Mapping[str, str]) -> "Settings":
    """Put settings given as text in place of a recipe's.

    >>> from dialeval.models.training import Settings
    >>> changed = settings_of(Settings(), {"batch": "8", "learning_rate": "1e-5", "dropout": "none"})
    >>> changed.batch, changed.learning_rate, changed.dropout
    (8, 1e-05, None)
    """
    hints = typing.get_type_hints(type(recipes))
    for key in given:
        if key not in hints:
            raise UsageError(f"there is no setting {key!r}; there are: {', '.join(hints)}")
    return dataclasses.replace(recipes, **{key: _typed(key, text, hints[key]) for key, text in given.items()})


def _typed(key: str, text: str, hint: Any) -> Any:
    choices = typing.get_args(hint)
    if typing.get_origin(hint) is Literal:
        if text in choices:
            return text
        raise UsageError(f"{key}={text}: expected {' or '.join(choices)}")
    if type(None) in choices and text.lower() == "none":
        return None
    try:
        return int(text) if hint is int else float(text)
    except ValueError:
        wanted = ("a whole number" if hint is int else "a number") + (" or none" if choices else "")
        raise UsageError(f"{key}={text}: expected {wanted}") from None


def command_of(
    name: str,
    sources: Sequence[str],
    out: str | Path,
    *,
    dev: Sequence[str] = (),
    encoder: str | None = None,
    settings: Mapping[str, str] | None = None,
    share: float = 1.0,
    storage: str = "fp32",
    device: str | None = None,
    licence: str | None = None,
    without: Sequence[str] = (),
) -> str:
    """Write the command that trains the same again, for a card.

    >>> command_of("segment-act", ["my acts/"], "out", settings={"batch": "8"}, licence="mit")
    "dialeval train segment-act 'my acts/' --set batch=8 --licence mit -o out"
    """
    options = [("--dev", path) for path in dev] + [("--without", path) for path in without]
    options += [("--encoder", encoder)] if encoder else []
    options += [("--set", f"{key}={text}") for key, text in (settings or {}).items()]
    options += [("--share", f"{share:g}")] if share < 1 else []
    options += [("--storage", storage)] if storage != "fp32" else []
    options += [("--device", device)] if device else []
    options += [("--licence", licence)] if licence else []
    words = ["dialeval", "train", name, *sources, *(word for pair in options for word in pair)]
    return shlex.join([*words, "-o", str(out)])


class _Watched:
    """A recipe that tells how far the making of examples is, which may take longer than training."""

    def __init__(self, recipe: "Recipe[Any, Any]", read: int, watch: Watch) -> None:
        self._recipe, self._read, self._watch = recipe, read, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._recipe, name)

    def examples(self, dialogues: Sequence[Dialogue]) -> Iterable[Any]:
        """Make examples, if there is anything left to make them of."""
        if not dialogues:
            raise DataError(
                f"of {self._read} dialogues none is left to learn from, or none to choose by: what shares "
                "its text with a test set is left out, and without --dev one in ten is held out",
                fix="give more dialogues, or others",
            )
        return self._recipe.examples(self._counted(dialogues))

    def _counted(self, dialogues: Iterable[Dialogue]) -> Iterator[Dialogue]:
        for dialogue in dialogues:
            yield dialogue
            self._watch("dialogues made into examples", 1)

    def network(self, *given: Any) -> Any:
        """Make the network; from here on, the loop itself tells how far it is."""
        self._watch("", 0)
        return self._recipe.network(*given)
