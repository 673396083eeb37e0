"""A run under way: one step after the other, with looks at the dev examples and checkpoints between them."""

import contextlib
import hashlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic

import numpy as np

from dialeval.errors import DataError, UsageError
from dialeval.models.heads import readable
from dialeval.models.training.batches import Places, parts, plan, steps_of
from dialeval.models.training.checkpoint import Checkpoints, Fingerprint, Look, State, module_arrays
from dialeval.models.training.examples import E, Floats, data_hash, target_arrays
from dialeval.models.training.figures import DevFigure, Figure
from dialeval.models.training.losses import batch_loss, totals
from dialeval.models.training.networks import Network, Prepared
from dialeval.models.training.progress import Step
from dialeval.models.training.settings import Settings

if TYPE_CHECKING:
    import torch


class Run(Generic[E]):
    """All of a run; `state` and the weights are what changes."""

    def __init__(
        self,
        network: Network[E],
        train: Sequence[E],
        dev: Sequence[E],
        settings: Settings,
        figure: Figure | None,
        kept: Checkpoints,
        device: str | None,
    ) -> None:
        import torch

        self.network, self.settings, self.kept = network, settings, kept
        self.figure = figure if dev else None
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.targets, self.dev_targets = (target_arrays(some, network.heads) for some in (train, dev))
        for name, values in self.targets.items():
            if np.isnan(values).all():
                raise DataError(f"no training example has a label for the head {name!r}")
        self.weights = np.array([example.weight for example in train], np.float64)
        hashes = data_hash(train), data_hash(dev)
        self.fingerprint = Fingerprint(
            settings.deciding(), *hashes, network_hash(network), figure_name(self.figure)
        )
        self.train, self.dev = network.prepare(train), network.prepare(dev)
        self.rows = len(train), len(dev)
        self.per_epoch = steps_of(len(train), settings)
        self.steps = self.per_epoch * settings.epochs
        network.module.to(self.device)
        self.optimiser = _optimiser(network.module, settings)
        self.state = State()

    def begin(self, resume: bool) -> int | None:
        """Go to where the last checkpoint was written; return its step, None if there is none."""
        import torch

        if not resume:
            self.kept.clear()
        differences = self.settings.differences
        found = self.kept.load(self.network.module, self.optimiser, self.fingerprint, differences)
        self.state = found or State(threads=torch.get_num_threads())
        self.state.threads = self.settings.threads or self.state.threads
        torch.set_num_threads(self.state.threads)
        return None if found is None else found.step

    def go(self) -> Iterator[Step]:
        """Make the steps that are left; a step is told when its checkpoint, if any, is on disk."""
        state, before, began = self.state, self.state.step, time.monotonic()
        seconds = state.seconds
        if not self.steps and not state.finished:
            state.finished = True
            self._save_if_due(self.figure is not None and self._look(0) is not None)
        self.network.module.train()
        while not state.finished:
            for places in plan(self.train.lengths, self.settings, state.epoch)[state.position :]:
                epoch, rate = state.epoch, self.settings.rate(state.step, self.steps)
                loss = self._move(places, rate)
                figure = self._count(loss)
                spent = time.monotonic() - began
                state.seconds = seconds + spent
                self._save_if_due(figure is not None)
                left = 0.0 if state.finished else spent / (state.step - before) * (self.steps - state.step)
                value = figure.figure if figure else None
                yield Step(state.step, self.steps, epoch, loss, rate, value, left)
                if state.finished:
                    break

    def _move(self, places: Places, rate: float) -> float:
        """Move the weights once, by the examples at these places; return their loss."""
        import torch

        module = self.network.module
        torch.manual_seed(_step_seed(self.settings.seed, self.state.step))
        self.optimiser.zero_grad(set_to_none=True)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        whole, total, norm = totals(self.targets, self.weights, places), 0.0, 0.0
        for part in parts(places, self.settings):
            outputs = self.network.outputs(_on(self.train.tensors(part), self.device))
            targets = {name: values[part] for name, values in self.targets.items()}
            loss = batch_loss(outputs, targets, self.weights[part], self.network.heads, whole)
            if loss is not None:
                torch.autograd.backward(loss)
                total += float(loss.detach())
        if self.settings.clip:
            norm = float(torch.nn.utils.clip_grad_norm_(module.parameters(), self.settings.clip))
        if not math.isfinite(total) or not math.isfinite(norm):
            raise UsageError(
                f"step {self.state.step + 1}: the loss is {total}, its gradient {norm}: "
                "lower learning_rate, or raise warmup"
            )
        self.optimiser.step()
        return total

    def _count(self, loss: float) -> Look | None:
        """Take note of a step; look at the dev examples if it is time."""
        state, settings = self.state, self.settings
        epoch = state.epoch
        state.step += 1
        state.position += 1
        state.loss = loss
        state.sum += loss
        state.count += 1
        ended = state.position == self.per_epoch
        if ended:
            state.epoch, state.position = epoch + 1, 0
        state.finished = state.step == self.steps
        due = state.step % settings.evaluate_every == 0 if settings.evaluate_every else ended
        return self._look(epoch) if self.figure and (due or state.finished) else None

    def _look(self, epoch: int) -> Look:
        state = self.state
        said = predictions(self.network, self.dev, self.settings.batch, self.device)
        self.network.module.train()
        figure = self.figure(said, self.dev_targets) if self.figure else None
        figure = None if figure is None or not math.isfinite(figure) else float(figure)
        look = Look(state.step, epoch, state.sum / max(1, state.count), figure)
        state.history.append(look)
        state.sum, state.count = 0.0, 0
        if figure is not None and (state.best is None or figure > state.best):
            self.kept.save_best(state.step, self.network.module)
            state.best, state.best_step, state.waited = figure, state.step, 0
        else:
            state.waited += 1
            if self.settings.patience and state.waited >= self.settings.patience:
                state.finished = True
        return look

    def _save_if_due(self, looked: bool) -> None:
        state = self.state
        if looked or state.finished or not state.position or state.step % self.settings.save_every == 0:
            self.kept.save(state, self.network.module, self.optimiser, self.fingerprint)


def predictions(
    network: Network[E], prepared: Prepared, batch: int, device: "torch.device | str" = "cpu"
) -> dict[str, Floats]:
    """Return what the network says about prepared examples, in their order, in readable numbers."""
    import torch

    network.module.eval()
    order = np.argsort(-prepared.lengths, kind="stable")
    pieces: dict[str, list[Floats]] = {head.name: [] for head in network.heads}
    with torch.inference_mode():
        for start in range(0, len(order), batch):
            outputs = network.outputs(_on(prepared.tensors(order[start : start + batch]), device))
            for head in network.heads:
                pieces[head.name].append(readable(head, outputs[head.name].cpu().numpy()))
    back = np.argsort(order, kind="stable")
    return {
        head.name: np.concatenate(pieces[head.name])[back] if len(order) else np.zeros(0)
        for head in network.heads
    }


def predict(network: Network[E], examples: Sequence[E], batch: int = 32) -> dict[str, Floats]:
    """Return what a network says: a number, a probability, or a probability for each class, by head."""
    return predictions(network, network.prepare(examples), batch)


def _on(tensors: "Mapping[str, torch.Tensor]", device: "torch.device | str") -> "dict[str, torch.Tensor]":
    return {name: value.to(device) for name, value in tensors.items()}


def _optimiser(module: "torch.nn.Module", settings: Settings) -> "torch.optim.AdamW":
    """AdamW; what has one axis (biases, normalisations) is not decayed.

    Fused: one pass over the weights in place of a dozen, five times as fast on two cores for a BERT.
    """
    import torch

    learned = [weight for weight in module.parameters() if weight.requires_grad]
    groups = [
        {"params": [one for one in learned if one.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [one for one in learned if one.ndim <= 1], "weight_decay": 0.0},
    ]
    used = [group for group in groups if group["params"]]
    return torch.optim.AdamW(used, lr=settings.learning_rate, fused=True)


def _step_seed(seed: int, step: int) -> int:
    return int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0])


def network_hash(network: Network[E]) -> str:
    """Return a hash of a network's weights and heads."""
    made = hashlib.blake2b(digest_size=32)
    for name, values in module_arrays(network.module).items():
        made.update(f"{name}{values.dtype}{values.shape}".encode())
        made.update(values.data)
    made.update(repr(network.heads).encode())
    return made.hexdigest()


def figure_name(figure: Figure | None) -> str:
    """Name a figure for people and for fingerprints.

    >>> from dialeval.models.heads import Head
    >>> figure_name(DevFigure("spearman", (Head("quality", "regression"),)))
    'spearman:quality'
    """
    if isinstance(figure, DevFigure):
        return f"{figure.name}:{','.join(head.name for head in figure.heads)}"
    return "" if figure is None else str(getattr(figure, "__name__", type(figure).__name__))


@contextlib.contextmanager
def untouched_outside() -> Iterator[None]:
    """Give the process its own chance, threads and strictness back after a run."""
    import torch

    threads, strict = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    with torch.random.fork_rng():
        torch.set_deterministic_debug_mode("warn")
        try:
            yield
        finally:
            torch.set_deterministic_debug_mode(strict)
            torch.set_num_threads(threads)
