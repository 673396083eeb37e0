"""The training loop of every recipe that is trained in steps.

The same seed and data give the same weights, bit for bit on the same machine, however often the run was
killed and resumed: the examples of a step depend on seed and epoch, its dropout on seed and step.
"""

import contextlib
import hashlib
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dialeval.errors import DataError, UsageError
from dialeval.files import is_terminal
from dialeval.models.heads import readable
from dialeval.training.checkpoint import (
    Checkpoints,
    DevResult,
    Fingerprint,
    State,
    Trained,
    module_arrays,
    readable_time,
)
from dialeval.training.examples import (
    Floats,
    Places,
    TrainingExample,
    data_hash,
    parts,
    plan,
    steps_of,
    target_arrays,
)
from dialeval.training.figures import Figure, batch_loss, figure_name, resolve, totals
from dialeval.training.networks import Prepared, Trainable
from dialeval.training.settings import TrainingSettings

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Step:
    """One update of the weights, the first being step 1.

    `figure` is the dev figure where this step was followed by an evaluation, else None.
    """

    step: int
    steps: int
    epoch: int
    loss: float
    learning_rate: float
    figure: float | None
    seconds_left: float

    def numbers(self) -> dict[str, float]:
        """Return the numbers for a logger, without those that are None.

        >>> Step(3, 10, 0, 0.5, 2e-5, None, 60.0).numbers()
        {'epoch': 0, 'loss': 0.5, 'learning_rate': 2e-05}
        """
        plain = {"epoch": self.epoch, "loss": self.loss, "learning_rate": self.learning_rate}
        return plain if self.figure is None else plain | {"figure": self.figure}


OnStep = Callable[[Step], object]


@contextlib.contextmanager
def shown(done: int, steps: int) -> Iterator[OnStep]:
    """Show a progress bar with the time left if standard error is a terminal."""
    if not is_terminal(sys.stderr):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[status]}"))
    best = ""
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("training", total=steps, completed=done, status="")

        def show(step: Step) -> None:
            nonlocal best
            best = best if step.figure is None else f", dev {step.figure:.4f}"
            status = f"loss {step.loss:.4f}{best}, {readable_time(step.seconds_left)} left"
            bar.update(task, completed=step.step, status=status)

        yield show


class TrainingRun:
    """A training run in progress; only `state` and the weights change."""

    def __init__(
        self,
        network: Trainable,
        train: Sequence[TrainingExample],
        dev: Sequence[TrainingExample],
        settings: TrainingSettings,
        figure: Figure | None,
        checkpoints: Checkpoints,
        device: str | None,
    ) -> None:
        import torch

        self.network, self.settings, self.kept = network, settings, checkpoints
        self.figure = figure if dev else None
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.targets, self.dev_targets = (target_arrays(examples, network.heads) for examples in (train, dev))
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
        self.steps = min(self.per_epoch * settings.epochs, settings.steps or sys.maxsize)
        network.module.to(self.device)
        self.optimiser = _optimiser(network.module, settings)
        self.state = State()

    def begin(self, resume: bool) -> int | None:
        """Restore the last checkpoint and return its step; None if there is none."""
        import torch

        if not resume:
            self.kept.clear()
        differences = self.settings.differences
        restored = self.kept.load(self.network.module, self.optimiser, self.fingerprint, differences)
        self.state = restored or State(threads=torch.get_num_threads())
        self.state.threads = self.settings.threads or self.state.threads
        torch.set_num_threads(self.state.threads)
        return None if restored is None else restored.step

    def go(self) -> Iterator[Step]:
        """Run the remaining steps; each is yielded when its checkpoint, if any, is on disk."""
        state, before, began = self.state, self.state.step, time.monotonic()
        seconds = state.seconds
        if not self.steps and not state.finished:
            state.finished = True
            self._save_if_due(self.figure is not None and self._evaluate(0) is not None)
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
        """Update the weights once with the examples at these places and return their loss."""
        import torch

        module = self.network.module
        seed = np.random.SeedSequence([self.settings.seed, self.state.step])
        torch.manual_seed(int(seed.generate_state(1, np.uint64)[0]))
        self.optimiser.zero_grad(set_to_none=True)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        step_totals, total, norm = totals(self.targets, self.weights, places), 0.0, 0.0
        for part in parts(places, self.settings):
            outputs = self._outputs(_on(self.train.tensors(part), self.device))
            targets = {name: values[part] for name, values in self.targets.items()}
            loss = batch_loss(outputs, targets, self.weights[part], self.network.heads, step_totals)
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

    def _outputs(self, batch: "Mapping[str, torch.Tensor]") -> "dict[str, torch.Tensor]":
        """Run the network in the precision of the settings; outputs are fp32."""
        import torch

        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.precision == "bf16"):
            return {name: values.float() for name, values in self.network.outputs(batch).items()}

    def _count(self, loss: float) -> DevResult | None:
        """Count a step; if an evaluation on the dev set is due, return its result."""
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
        return self._evaluate(epoch) if self.figure and (due or state.finished) else None

    def _evaluate(self, epoch: int) -> DevResult:
        state = self.state
        predicted = predictions(self.network, self.dev, self.settings.batch, self.device)
        self.network.module.train()
        figure = self.figure(predicted, self.dev_targets) if self.figure else None
        figure = None if figure is None or not math.isfinite(figure) else float(figure)
        result = DevResult(state.step, epoch, state.sum / max(1, state.count), figure)
        state.history.append(result)
        state.sum, state.count = 0.0, 0
        if figure is not None and (state.best is None or figure > state.best):
            self.kept.save_best(state.step, self.network.module)
            state.best, state.best_step, state.waited = figure, state.step, 0
        else:
            state.waited += 1
            if self.settings.patience and state.waited >= self.settings.patience:
                state.finished = True
        return result

    def _save_if_due(self, evaluated: bool) -> None:
        state = self.state
        if evaluated or state.finished or not state.position or state.step % self.settings.save_every == 0:
            self.kept.save(state, self.network.module, self.optimiser, self.fingerprint)


def predictions(
    network: Trainable, prepared: Prepared, batch: int, device: "torch.device | str" = "cpu"
) -> dict[str, Floats]:
    """Return the predictions for prepared examples, in their order."""
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


def predict(network: Trainable, examples: Sequence[TrainingExample], batch: int = 32) -> dict[str, Floats]:
    """Return predictions by head: a number, a probability, or a probability for each class."""
    return predictions(network, network.prepare(examples), batch)


def _on(tensors: "Mapping[str, torch.Tensor]", device: "torch.device | str") -> "dict[str, torch.Tensor]":
    return {name: value.to(device) for name, value in tensors.items()}


def _optimiser(module: "torch.nn.Module", settings: TrainingSettings) -> "torch.optim.AdamW":
    """Return AdamW; parameters with one axis (biases, normalisations) are not decayed.

    Fused: one pass over the weights instead of a dozen, five times as fast on two cores for a BERT.
    """
    import torch

    learned = [weight for weight in module.parameters() if weight.requires_grad]
    groups = [
        {"params": [weight for weight in learned if weight.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [weight for weight in learned if weight.ndim <= 1], "weight_decay": 0.0},
    ]
    used = [group for group in groups if group["params"]]
    return torch.optim.AdamW(used, lr=settings.learning_rate, fused=True)


def network_hash(network: Trainable) -> str:
    """Return a hash of a network's weights and heads."""
    digest = hashlib.blake2b(digest_size=32)
    for name, values in module_arrays(network.module).items():
        digest.update(f"{name}{values.dtype}{values.shape}".encode())
        digest.update(values.data)
    digest.update(repr(network.heads).encode())
    return digest.hexdigest()


@contextlib.contextmanager
def untouched_outside() -> Iterator[None]:
    """Restore random state, threads and determinism of the process after a run."""
    import torch

    threads, strict = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    with torch.random.fork_rng():
        torch.set_deterministic_debug_mode("warn")
        try:
            yield
        finally:
            torch.set_deterministic_debug_mode(strict)
            torch.set_num_threads(threads)


def fit(
    network: Trainable,
    train: Sequence[TrainingExample],
    dev: Sequence[TrainingExample] = (),
    settings: TrainingSettings | None = None,
    *,
    folder: str | Path | None = None,
    figure: str | Figure | None = "negative_loss",
    on_step: OnStep | None = None,
    resume: bool = True,
    device: str | None = None,
) -> Trained:
    """Train a network and keep the weights with the best dev figure; the same call resumes after a kill.

    Called again with the same arguments and a new network, it resumes from the last checkpoint in `folder`; a
    finished run is not trained again.

    Args:
        network: The network to train; it ends with the best weights, ready to predict.
        dev: Dev examples; without any, the last weights are kept.
        settings: Hyperparameters; the defaults suit fine-tuning.
        folder: Folder of checkpoints; None: no checkpoints.
        figure: A name (`figures`), or a function from predictions and targets; higher is better.
        on_step: Called after each step, when its checkpoint, if any, is on disk.
        resume: False deletes the checkpoints in the folder.
        device: A torch device; None: a GPU if there is one.
    """
    settings = settings or TrainingSettings()
    if not train:
        raise DataError("no training examples", fix="check that the recipe fits the dialogues")
    with contextlib.ExitStack() as stack:
        checkpoints = Checkpoints(folder)
        stack.enter_context(checkpoints.alone())
        stack.enter_context(untouched_outside())
        run = TrainingRun(network, train, dev, settings, resolve(figure, network.heads), checkpoints, device)
        began = run.begin(resume)
        show = stack.enter_context(shown(run.state.step, run.steps))
        for step in run.go():
            show(step)
            if on_step:
                on_step(step)
        state = run.state
        checkpoints.load_best(state, network.module)
        network.module.eval().to("cpu")
        return Trained(
            settings=run.settings,
            steps=state.step,
            loss=state.loss,
            best_step=state.step if state.best is None else state.best_step,
            best_figure=state.best,
            figure=run.fingerprint.figure,
            history=tuple(state.history),
            stopped_early=state.step < run.steps,
            train_rows=run.rows[0],
            dev_rows=run.rows[1],
            train_hash=run.fingerprint.train,
            dev_hash=run.fingerprint.dev,
            seconds=state.seconds,
            threads=state.threads,
            resumed_at=began,
        )
