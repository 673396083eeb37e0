"""Checkpoints of a training run.

`checkpoint/` has the weights, the state of the optimiser and the progress of the run; `best-<step>/` the
weights with the best dev figure so far. Both are written beside their place and renamed, and a checkpoint
names its best weights, so the folder always has one complete state of the run. Order of examples and dropout
depend on the seed and the step alone and are not stored.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from dialeval.errors import DataError
from dialeval.files import locked, replacing_folder, sweep, write_text
from dialeval.manifests import check_sums, write_sums
from dialeval.models.tensors import Array, read_tensors, write_tensors
from dialeval.training.settings import TrainingSettings

if TYPE_CHECKING:
    import torch

_CHECKPOINT, _STATE = "checkpoint", "state.json"
_MODEL, _OPTIMISER = "model.safetensors", "optimiser.safetensors"
_AFRESH = "choose another folder, or start again (--fresh, or resume=False)"


@dataclass(frozen=True)
class DevResult:
    """One evaluation on the dev set: the mean loss since the one before, and the figure (None: undefined)."""

    step: int
    epoch: int
    loss: float
    figure: float | None


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The record of a training run; the network itself now has the best weights. Ridge has no steps."""

    settings: TrainingSettings
    steps: int = 0
    """Made in all, in this process and those before it."""
    loss: float = 0.0
    """Of the last step."""
    best_step: int = 0
    best_figure: float | None
    figure: str
    history: tuple[DevResult, ...]
    stopped_early: bool = False
    train_rows: int
    dev_rows: int
    train_hash: str
    dev_hash: str
    seconds: float
    threads: int = 1
    resumed_at: int | None = None
    """The step this process began after; None: it began the run."""
    sets: tuple[str, ...] | None = None
    """Public sets among the data, as `NAME/portion`; None: not known."""
    filtered: tuple[str, ...] = ()
    """Public sets whose dialogues were kept out of the data by their text."""


def readable_time(seconds: float) -> str:
    """Return a duration in readable units.

    >>> readable_time(42.4), readable_time(5025), readable_time(200_000)
    ('42 s', '1 h 23 min', '2 d 7 h')
    """
    rounded = round(seconds)
    for large, name, small, under in ((86400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if rounded >= large:
            return f"{rounded // large} {name} {rounded % large // small} {under}"
    return f"{rounded // 60} min {rounded % 60} s" if rounded >= 60 else f"{rounded} s"


@dataclass
class State:
    """The progress of a run. `position` is the number of finished steps of the current epoch."""

    step: int = 0
    epoch: int = 0
    position: int = 0
    loss: float = 0.0
    sum: float = 0.0
    """Of the losses since the last evaluation; `count` of them."""
    count: int = 0
    best: float | None = None
    best_step: int = 0
    waited: int = 0
    """Evaluations since the best one."""
    finished: bool = False
    seconds: float = 0.0
    threads: int = 1
    history: list[DevResult] = field(default_factory=list)


@dataclass(frozen=True)
class Fingerprint:
    """Everything that the result of a run depends on; a checkpoint of another run is never resumed."""

    settings: Mapping[str, Any]
    train: str
    dev: str
    network: str
    """A hash of the first weights and of the heads."""
    figure: str

    def refuse(self, stored: "Fingerprint", file: Path, differences: list[str]) -> None:
        """Raise an error that names the differences to a stored fingerprint, if there are any."""
        messages = {
            "train": "the training examples differ",
            "dev": "the dev examples differ",
            "network": "encoder or heads differ, or the network was trained before",
            "figure": f"the dev figure was {stored.figure}, is {self.figure}",
        }
        changed = [name for name in messages if getattr(stored, name) != getattr(self, name)]
        problems = differences + [messages[name] for name in changed]
        if problems:
            raise DataError(f"a checkpoint of another run: {'; '.join(problems)}", file=file, fix=_AFRESH)


@dataclass(frozen=True)
class _Stored:
    state: State
    fingerprint: Fingerprint


class Checkpoints:
    """The folder of one run; without a folder, only the best weights are kept, in memory."""

    def __init__(self, folder: str | Path | None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._memory: dict[str, Array] = {}

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder for this process; remove incomplete files of a killed one."""
        if self.folder is None:
            yield
            return
        with locked(self.folder / ".lock", "another run is writing here"):
            sweep(self.folder)
            yield

    def save(
        self, state: State, module: "torch.nn.Module", optimiser: "torch.optim.Optimizer", whose: Fingerprint
    ) -> None:
        """Write a checkpoint in place of the last one."""
        if self.folder is None:
            return
        content = msgspec.json.format(msgspec.json.encode(_Stored(state, whose)), indent=1)
        with replacing_folder(self.folder / _CHECKPOINT) as fresh:
            remembered = {} if state.finished else _remembered(module, optimiser)  # no step will follow
            write_tensors(fresh / _MODEL, module_arrays(module))
            write_tensors(fresh / _OPTIMISER, remembered)
            write_text(fresh / _STATE, content.decode())
            write_sums(fresh)
        for old in self.folder.glob("best-*"):
            if old.name != f"best-{state.best_step}":
                shutil.rmtree(old, ignore_errors=True)

    def save_best(self, step: int, module: "torch.nn.Module") -> None:
        """Store these weights; they become the best ones with the next checkpoint."""
        if self.folder is None:
            self._memory = {name: value.copy() for name, value in module_arrays(module).items()}
            return
        with replacing_folder(self.folder / f"best-{step}") as fresh:
            write_tensors(fresh / _MODEL, module_arrays(module))
            write_sums(fresh)

    def load(
        self,
        module: "torch.nn.Module",
        optimiser: "torch.optim.Optimizer",
        whose: Fingerprint,
        differences: Callable[[Mapping[str, Any]], list[str]],
    ) -> State | None:
        """Restore module and optimiser, and return the state; None if there is no checkpoint.

        `differences` names what differs between the settings now and those it is given.
        """
        if self.folder is None or not (self.folder / _CHECKPOINT).is_dir():
            return None
        place = self.folder / _CHECKPOINT
        stored = _read(place / _STATE)
        whose.refuse(stored.fingerprint, place / _STATE, differences(stored.fingerprint.settings))
        check_sums(place, fix=_AFRESH)
        _into(module, read_tensors(place / _MODEL), place / _MODEL)
        _remember(module, optimiser, read_tensors(place / _OPTIMISER), place / _OPTIMISER)
        return stored.state

    def load_best(self, state: State, module: "torch.nn.Module") -> None:
        """Load the best weights into the module; the last ones, if no dev figure was ever defined."""
        if state.best is None:
            return
        file = (self.folder or Path()) / f"best-{state.best_step}" / _MODEL
        if self.folder:
            check_sums(file.parent, fix=_AFRESH)
        _into(module, read_tensors(file) if self.folder else self._memory, file)

    def clear(self) -> None:
        """Delete the checkpoints of the run."""
        for old in (self.folder / _CHECKPOINT, *self.folder.glob("best-*")) if self.folder else ():
            shutil.rmtree(old, ignore_errors=True)


def _read(file: Path) -> _Stored:
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Stored)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"not a checkpoint: {error}", file=file, fix=_AFRESH) from None


def module_arrays(module: "torch.nn.Module") -> dict[str, Array]:
    """Return all weights, as they are written."""
    return {name: value.cpu().contiguous().numpy() for name, value in module.state_dict().items()}


def _remembered(module: "torch.nn.Module", optimiser: "torch.optim.Optimizer") -> dict[str, Array]:
    return {
        f"{name}/{key}": value.cpu().numpy()
        for name, weight in module.named_parameters()
        for key, value in optimiser.state.get(weight, {}).items()
    }


def _remember(
    module: "torch.nn.Module", optimiser: "torch.optim.Optimizer", arrays: Mapping[str, Array], file: Path
) -> None:
    import torch

    weights = dict(module.named_parameters())
    for key, value in arrays.items():
        name, _, field = key.rpartition("/")
        if name not in weights or value.shape != (() if field == "step" else tuple(weights[name].shape)):
            raise DataError("not a state of this network's optimiser", file=file, field=key, fix=_AFRESH)
        optimiser.state[weights[name]][field] = torch.from_numpy(np.array(value)).to(weights[name].device)


def _into(module: "torch.nn.Module", arrays: Mapping[str, Array], file: Path) -> None:
    import torch

    weights = module.state_dict()
    shapes = {name: tuple(value.shape) for name, value in weights.items()}
    if {name: value.shape for name, value in arrays.items()} != shapes:
        raise DataError("not the weights of this network", file=file, fix=_AFRESH)
    with torch.no_grad():
        for name, value in weights.items():
            value.copy_(torch.from_numpy(np.array(arrays[name])))
