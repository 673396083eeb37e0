"""What is said while a run goes on: a record for each step, and a bar for people who look."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dialeval.files import is_terminal


@dataclass(frozen=True)
class Step:
    """One movement of the weights, the first being step 1.

    `figure` is the dev figure where this step was followed by a look, else None.
    """

    step: int
    steps: int
    epoch: int
    loss: float
    learning_rate: float
    figure: float | None
    seconds_left: float

    def numbers(self) -> dict[str, float]:
        """Return what a logger wants, without what is not there.

        >>> Step(3, 10, 0, 0.5, 2e-5, None, 60.0).numbers()
        {'epoch': 0, 'loss': 0.5, 'learning_rate': 2e-05}
        """
        plain = {"epoch": self.epoch, "loss": self.loss, "learning_rate": self.learning_rate}
        return plain if self.figure is None else plain | {"figure": self.figure}


OnStep = Callable[[Step], object]


@contextlib.contextmanager
def shown(done: int, steps: int) -> Iterator[OnStep]:
    """Draw a bar with the time left on a terminal's standard error, and nothing elsewhere."""
    if not is_terminal(sys.stderr):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[told]}"),
    )
    best = ""
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("training", total=steps, completed=done, told="")

        def tell(step: Step) -> None:
            nonlocal best
            best = best if step.figure is None else f", dev {step.figure:.4f}"
            told = f"loss {step.loss:.4f}{best}, {readable_time(step.seconds_left)} left"
            bar.update(task, completed=step.step, told=told)

        yield tell


def readable_time(seconds: float) -> str:
    """Write a duration for people.

    >>> readable_time(42.4), readable_time(5025), readable_time(200_000)
    ('42 s', '1 h 23 min', '2 d 7 h')
    """
    whole = round(seconds)
    for large, name, small, under in ((86400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if whole >= large:
            return f"{whole // large} {name} {whole % large // small} {under}"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"
