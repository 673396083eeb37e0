"""Which examples go together: shuffled by the seed, of similar length, the same on every machine and day."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dialeval.models.training.settings import Settings

Places = npt.NDArray[np.intp]


def plan(lengths: Sequence[int] | npt.NDArray[np.integer], settings: Settings, epoch: int) -> list[Places]:
    """Return, for each step of an epoch, the places of its examples.

    All examples are shuffled; then `group` steps' worth at a time are sorted by length and cut into steps,
    whose order is shuffled again. How a step is divided into batches (`settings.accumulate`) changes nothing
    here, so that a step is the same whatever fits into memory. The longest step comes first: a run that will
    not fit into memory fails at once.

    >>> steps = plan([3, 9, 4, 8, 3, 9], Settings(batch=2), epoch=0)
    >>> [step.tolist() for step in steps]
    [[5, 1], [2, 3], [4, 0]]
    """
    sizes = np.asarray(lengths)
    chance = np.random.default_rng([settings.seed, epoch])
    order = chance.permutation(len(sizes))
    size, together = settings.step_size, settings.step_size * settings.group
    steps: list[Places] = []
    for start in range(0, len(order), together):
        pool = order[start : start + together]
        if settings.group > 1:
            pool = pool[np.argsort(sizes[pool], kind="stable")]
        steps += [pool[at : at + size] for at in range(0, len(pool), size)]
    shuffled = [steps[place] for place in chance.permutation(len(steps))]
    longest = max(range(len(shuffled)), key=lambda place: int(sizes[shuffled[place]].max()), default=0)
    shuffled[:1], shuffled[longest : longest + 1] = shuffled[longest : longest + 1], shuffled[:1]
    return shuffled


def parts(step: Places, settings: Settings) -> list[Places]:
    """Divide a step into the batches that go through the network one after the other.

    >>> [part.tolist() for part in parts(np.arange(5), Settings(batch=2, accumulate=3))]
    [[0, 1], [2, 3], [4]]
    """
    return [step[at : at + settings.batch] for at in range(0, len(step), settings.batch)]


def steps_of(examples: int, settings: Settings) -> int:
    """Return how many steps an epoch has; one of them may be smaller.

    >>> steps_of(10, Settings(batch=4))
    3
    """
    return -(-examples // settings.step_size)
