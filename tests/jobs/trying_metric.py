"""A metric that does as a reply says, for tests of what serves it: `python trying_metric.py serve …`."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.metrics import metric
from dialeval.metrics.registry import Rows
from dialeval.scores import Scores


class Panic(BaseException):
    """As a native library raises it: no `Exception`."""


_broken: list[str] = []


@dataclass(frozen=True)
class Trying:
    """Sleeps for `sleep SECONDS`, fails for `fail`, panics for `panic` (`for ever`: until `mend`).

    For `await FILE` it makes FILE.begun and waits until FILE is there. Else it counts the dialogues that came
    together.
    """

    dimensions: ClassVar[tuple[str, ...]] = ("together",)

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        rows, together = Rows(self), list(dialogues)
        for one in together:
            for turn in scored_turns(one):
                word, _, seconds = one.turns[turn].text.partition(" ")
                if word == "sleep":
                    time.sleep(float(seconds))
                if word == "await":
                    Path(f"{seconds}.begun").touch()
                    while not Path(seconds).exists():
                        time.sleep(0.02)
                if word in ("panic", "mend"):
                    _broken[:] = [word] * (seconds == "for ever")
                if word == "panic" or _broken:
                    raise Panic(word)
                if word == "fail":
                    raise ZeroDivisionError(word)
                rows.add(one, turn, "together", len(together))
        return rows.scores()


if __name__ == "__main__":  # not when doctests are looked for: the tests would find a metric more
    from dialeval.cli import main

    metric("trying.v1")(Trying)
    main()
