"""Inform and Success of one file of predictions: turns a second, and where the time goes.

    python benchmarks/multiwoz.py [--system pptod] [--runs 5]

*dialeval*: a file that is read already, judged by the metric; first with everything to be looked up (`cold`:
tables, goals and logs are opened and indexed, too), then again (`warm`: as for the next system).

*plain loop*: the same judge, but every query goes through the whole table row by row and compares every wish
anew, as an evaluator without an index does; goals and tables are in memory. Both must give the same figures.

The public set is needed (`DIALEVAL_DATA`).
"""

import argparse
import cProfile
import functools
import pstats
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from dialeval.dialogues import Dialogue, formats
from dialeval.dialogues.datasets.task_oriented import system_files
from dialeval.dialogues.tasks import task as tasks
from dialeval.dialogues.tasks import venues
from dialeval.dialogues.tasks.venues import minutes
from dialeval.metrics.multiwoz import MultiWoz


@functools.cache
def cells_of(self: venues.Venues) -> list[dict[str, str]]:
    """Give the rows of a table back."""
    rows: list[dict[str, str]] = [{} for _ in self._of_row]
    for slot, held in self._cells.items():
        for value, bits in held.items():
            for place in range(len(rows)):
                if bits >> place & 1:
                    rows[place][slot] = value
    return rows


def scan(self: venues.Venues, wishes: Mapping[str, str]) -> int:
    """Answer a query row by row, remembering nothing."""
    asked = {slot: wish for slot, wish in wishes.items() if slot in self.ways and wish not in self._any}
    found = 0
    for place, row in enumerate(cells_of(self)):
        for slot, wish in asked.items():
            if not (row[slot] == "?" or fits(self, slot, wish, row[slot])):
                break
        else:
            found |= self._of_row[place]
    return found


def fits(self: venues.Venues, slot: str, wish: str, cell: str) -> bool:
    way = self.ways[slot]
    if way == "equal":
        return wish == cell
    if way == "close":
        return venues.close(wish, cell)
    one, other = minutes(cell) or 0, minutes(wish) or 0
    return one >= other if way == "at-least" else one <= other


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    found = run()
    return time.perf_counter() - started, found


def means(dialogues: list[Dialogue]) -> list[float]:
    return [round(100 * row["mean"], 1) for row in MultiWoz().score(dialogues).summary()]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--system", default="pptod")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    path = system_files()[arguments.system]
    reading, dialogues = timed(lambda: list(formats.read(path)))
    turns = sum(len(one.turns) for one in dialogues)
    cold, warm = [], []
    for _ in range(arguments.runs):
        tasks._opened.cache_clear()
        cold.append(timed(lambda: means(dialogues)))
        warm.append(timed(lambda: means(dialogues)))
    print(f"{arguments.system}: {len(dialogues)} dialogues, {turns} turns; read in {reading:.2f} s")
    for name, runs in (("cold", cold), ("warm", warm)):
        seconds = median(one for one, _ in runs)
        print(f"  dialeval, {name}  {seconds:.3f} s  {turns / seconds:,.0f} turns/s  {runs[0][1]}")
    indexed = venues.Venues.query
    venues.Venues.query = scan  # type: ignore[method-assign]
    seconds, found = timed(lambda: means(dialogues))
    venues.Venues.query = indexed  # type: ignore[method-assign]
    assert found == warm[0][1], "the two do not give the same figures"
    print(f"  plain loop      {seconds:.3f} s  {turns / seconds:,.0f} turns/s  {found}")
    ratio = seconds / median(one for one, _ in cold)
    print(f"  plain loop / dialeval cold: {ratio:.1f} (wanted: 3)")
    tasks._opened.cache_clear()
    profile = cProfile.Profile()
    profile.runcall(means, dialogues)
    pstats.Stats(profile).sort_stats("tottime").print_stats(12)


if __name__ == "__main__":
    main()
