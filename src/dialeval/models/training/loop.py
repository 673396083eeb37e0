"""The training loop: one, plain, for every recipe.

The same seed and data give the same weights, bit for bit on the same machine, whether the run was killed a
dozen times or never: the examples of a step follow from seed and epoch, its dropout from seed and step.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dialeval.errors import DataError
from dialeval.models.training import progress
from dialeval.models.training.checkpoint import Checkpoints, Look
from dialeval.models.training.examples import E
from dialeval.models.training.figures import Figure, resolve
from dialeval.models.training.networks import Network
from dialeval.models.training.progress import OnStep
from dialeval.models.training.run import Run, untouched_outside
from dialeval.models.training.settings import Settings


@dataclass(frozen=True)
class Trained:
    """What came out of a run; the network itself now has the best weights."""

    settings: Settings
    steps: int
    """Made in all, in this process and those before it."""
    loss: float
    """Of the last step."""
    best_step: int
    best_figure: float | None
    figure: str
    history: tuple[Look, ...]
    stopped_early: bool
    train_rows: int
    dev_rows: int
    train_hash: str
    dev_hash: str
    seconds: float
    threads: int
    resumed_at: int | None
    """The step this process began after; None: it began the run."""


def fit(
    network: Network[E],
    train: Sequence[E],
    dev: Sequence[E] = (),
    settings: Settings | None = None,
    *,
    folder: str | Path | None = None,
    figure: str | Figure | None = "negative_loss",
    on_step: OnStep | None = None,
    resume: bool = True,
    device: str | None = None,
) -> Trained:
    """Train a network, keep the weights with the best dev figure, and survive being killed.

    Call it again with the same arguments and a freshly made network, and it goes on where the last checkpoint
    in `folder` was written; a run that has ended is not trained again.

    Args:
        network: What is trained; ends with the best weights, ready to predict.
        train: Examples to learn from.
        dev: Examples to choose by; without any, the last weights are kept.
        settings: All numbers; the defaults suit fine-tuning.
        folder: Where checkpoints go; None: a kill loses all.
        figure: A name (`figures`), or a function from predictions and targets; higher is better.
        on_step: Called after each step, when its checkpoint, if any, is on disk.
        resume: False forgets what is in the folder.
        device: A name that torch knows; None: a GPU if there is one.
    """
    settings = settings or Settings()
    if not train:
        raise DataError("no examples to train on", fix="check what the recipe makes of the dialogues")
    with contextlib.ExitStack() as stack:
        kept = Checkpoints(folder)
        stack.enter_context(kept.alone())
        stack.enter_context(untouched_outside())
        run = Run(network, train, dev, settings, resolve(figure, network.heads), kept, device)
        began = run.begin(resume)
        tell = stack.enter_context(progress.shown(run.state.step, run.steps))
        for step in run.go():
            tell(step)
            if on_step:
                on_step(step)
        kept.load_best(run.state, network.module)
        network.module.eval().to("cpu")
        return _trained(run, began)


def _trained(run: Run[E], began: int | None) -> Trained:
    state = run.state
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
