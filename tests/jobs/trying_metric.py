"""A metric that does as a reply says, for tests of what serves it: `python trying_metric.py serve …`."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.metrics import metric
from dialeval.metrics.registry import Rows
from dialeval.scores import Scores


@dataclass(frozen=True)
class Trying:
    """Sleeps for `sleep SECONDS`, fails for `fail`, else counts the dialogues that came together."""

    dimensions: ClassVar[tuple[str, ...]] = ("together",)

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        rows, together = Rows(self), list(dialogues)
        for one in together:
            for turn in scored_turns(one):
                word, _, seconds = one.turns[turn].text.partition(" ")
                if word == "sleep":
                    time.sleep(float(seconds))
                if word == "fail":
                    raise ZeroDivisionError(word)
                rows.add(one, turn, "together", len(together))
        return rows.scores()


if __name__ == "__main__":  # not when doctests are looked for: the tests would find a metric more
    from dialeval.cli import main

    metric("trying.v1")(Trying)
    main()
