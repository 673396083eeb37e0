"""Triage: which replies to look at first, and what goes wrong again and again.

One automatic score of turns says which replies are bad. What they look like is said by the faults that
metrics found (the sources `rules` and `faults`: 1, 0 or a probability for each reply), or, where the table
has none, by whatever the caller finds them with; both are held against the score. The dialogues may come as a
stream of any length: it is read once, and only what is shown is kept.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from dialeval.dialogues import Dialogue, takes_part
from dialeval.dialogues.signals import Next, next_turns
from dialeval.scores import FAULT_SOURCES, Scores, is_fault
from dialeval.scores.signature import threshold
from dialeval.statistics import Estimate
from dialeval.studies.excerpts import Excerpt, TurnValue, turns_around
from dialeval.studies.turn_scores import (
    IndexMean,
    TurnScale,
    choose_score,
    clustered_difference,
    clustered_mean,
    means_by_index,
)
from dialeval.studies.units import Column, Floats, Key, Units, align, with_systems

MOST = 20  # turns shown
EACH = 2  # of one dialogue
AROUND = 2  # turns shown before a bad one
MOST_CHARACTERS = 1_500
_CHUNK = 64  # dialogues whose faults are looked for at a time
MOST_SEARCHED = 5_000  # dialogues in which faults are looked for; of more, every second, third, …
FaultFinder = Callable[[Sequence[Dialogue]], Scores]
"""Scores the faults of dialogues, as the metric `rules` does."""


@dataclass(slots=True)
class WorstTurns:
    """The replies that may yet be shown: the lower the first number the worse; then come more faults."""

    most: int
    ranked: list[tuple[float, int, int, Excerpt]] = field(default_factory=list)
    seen: int = 0
    limit: float = np.inf

    def take(self, badness: float, faults: int, turn: Excerpt) -> None:
        """Take one more, and forget the better ones now and then."""
        self.seen += 1
        self.ranked.append((badness, -faults, self.seen, turn))
        if len(self.ranked) >= 4 * self.most:
            self.cut()

    def cut(self) -> None:
        """Keep the worst, in order."""
        self.ranked = sorted(self.ranked, key=lambda one: one[:3])[: self.most]
        if len(self.ranked) == self.most:
            self.limit = self.ranked[-1][0] if self.most else -np.inf


class FailureExample(NamedTuple):
    """A reply and where it stands."""

    dialogue_id: str
    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class Failure:
    """How often a fault was found, and whether the score is worse there than elsewhere.

    Attributes:
        name: The source and dimension that found it.
        found: Replies it was found in; of a probability, those with its threshold or more.
        read: Replies it was looked for in.
        by_system: For each system how many in a hundred of its replies have it, with an interval.
        here: Mean score where it was found.
        elsewhere: Mean score where it was not.
        difference: The first less the second.
        example: The worst scored reply it was found in.
    """

    name: str
    found: int
    read: int
    by_system: dict[str | None, Estimate]
    here: Estimate
    elsewhere: Estimate
    difference: Estimate
    example: FailureExample | None


@dataclass(frozen=True, slots=True)
class Triage:
    """The worst replies of a run, and what goes wrong again and again.

    Attributes:
        score: The score that it goes by.
        worst: The worst replies, the worst first.
        failures: One for each fault, the most frequent first.
        by_index: The mean score of the first, second, … reply.
        n: Replies with a score.
        n_unscored: Replies without.
        dialogues: Dialogues that were read.
    """

    score: TurnScale
    worst: list[Excerpt]
    failures: list[Failure]
    by_index: list[IndexMean]
    n: int
    n_unscored: int
    dialogues: int


def triage(
    scores: Scores, dialogues: Iterable[Dialogue], most: int = MOST, find_faults: FaultFinder | None = None
) -> Triage | None:
    """Read a run once and find its bad turns; None if no automatic score of turns says which way is bad.

    >>> from dialeval.dialogues import dialogue
    >>> from dialeval.scores import Score
    >>> chat = dialogue([("user", "Which planet is largest?"), ("assistant", "I went to the")], "d1")
    >>> rows = [Score("d1", 1, None, "mine", "quality", 0.25), Score("d1", 1, None, "rules", "cut-off", 1.0)]
    >>> found = triage(Scores.of(rows), [chat])
    >>> [(turn.reply.number, turn.reply.score.value, turn.faults) for turn in found.worst]
    [(1, 0.25, ('rules/cut-off',))]
    """
    survey = TriageReader(with_systems(scores), most, find_faults)
    for _ in survey.reading(dialogues):
        pass
    return survey.findings()


class TriageReader:
    """Looks at each dialogue as it passes by, for whoever reads the stream anyway.

    Args:
        scores: The score of turns, and the faults that metrics found.
        most: How many of the worst replies to keep.
        find_faults: Finds faults where the scores have none.
    """

    def __init__(self, scores: Scores, most: int = MOST, find_faults: FaultFinder | None = None) -> None:
        self._score = choose_score(scores)
        self._kept = WorstTurns(most)
        self._examples: dict[str, tuple[float, FailureExample]] = {}
        self._dialogues = 0
        self._opened: set[int] = set()
        self._marks: dict[str, Floats] = {}  # 1 where there is a fault, else 0; NaN: not looked for
        if self._score is not None:
            self._prepare(scores, self._score)
        self._find_faults = None if self._marks else find_faults

    def _prepare(self, scores: Scores, score: TurnScale) -> None:
        """Bring the score, and the faults that metrics found, into the order of turns."""
        wanted = {score.source, *FAULT_SOURCES}
        self._units = align(scores.where(source=wanted.__contains__, level="turn"), "turn")
        self._value = self._units.columns[Column(score.source, score.dimension)]
        self._badness = self._value * (-1.0 if score.lower_is_better else 1.0)
        self._marks = _marks(self._units, scores)
        self._places = places_of(self._units)

    def reading(self, dialogues: Iterable[Dialogue]) -> Iterator[Dialogue]:
        """Pass dialogues on, looking at each."""
        if self._score is None:
            yield from dialogues
            return
        stream, size = iter(dialogues), _CHUNK if self._find_faults else 1
        while chunk := list(islice(stream, size)):
            new = dict[int, tuple[Dialogue, int]]()
            for dialogue in chunk:
                rows = rows_of(dialogue, self._places)
                if rows is not None and rows[0] not in self._opened:
                    self._opened.add(rows[0])
                    new[rows[0]] = dialogue, rows[1]
            self._search({start: one for start, one in new.items() if self._is_searched(start)})
            for start, (dialogue, stop) in new.items():
                self._read(dialogue, start, stop)
            yield from chunk

    def _is_searched(self, start: int) -> bool:
        step = -(-len(self._places) // MOST_SEARCHED)
        return self._find_faults is not None and self._units.clusters[start] % step == 0

    def _search(self, chunk: dict[int, tuple[Dialogue, int]]) -> None:
        """Look for the faults of some dialogues, and note them beside their scores."""
        if self._find_faults is None or not chunk:
            return
        faults = self._find_faults([dialogue for dialogue, _ in chunk.values()])
        units = align(faults.where(level="turn"), "turn")
        places = {key: place for place, key in enumerate(units.keys)}
        pairs = [
            (row, places[key])
            for start, (dialogue, stop) in chunk.items()
            for row in range(start, stop)
            if (key := Key(dialogue.id, dialogue.system, self._units.keys[row].turn)) in places
        ]
        rows, own = np.array(pairs, np.intp).reshape(-1, 2).T
        for name, values in _marks(units, faults).items():
            marks = self._marks.setdefault(name, np.full(len(self._units), np.nan))
            marks[rows] = values[own]

    def _read(self, dialogue: Dialogue, start: int, stop: int) -> None:
        numbers = [key.turn or 0 for key in self._units.keys[start:stop]]
        wanted = {n: start + place for place, n in enumerate(numbers) if 0 <= n < len(dialogue.turns)}
        self._dialogues += 1
        faults = {number: self._faults(row) for number, row in wanted.items()}
        for number, found in faults.items():
            badness = float(np.nan_to_num(self._badness[wanted[number]], nan=np.inf))
            for name in found:  # an unscored reply is an example only for want of others
                if name not in self._examples or badness < self._examples[name][0]:
                    text = dialogue.turns[number].text[:MOST_CHARACTERS]
                    self._examples[name] = badness, FailureExample(dialogue.id, number, text)
        self._pick(dialogue, wanted, faults)

    def _faults(self, row: int) -> tuple[str, ...]:
        return tuple(name for name, marks in self._marks.items() if marks[row] == 1)

    def _pick(self, dialogue: Dialogue, wanted: dict[int, int], faults: dict[int, tuple[str, ...]]) -> None:
        """Offer the worst replies of a dialogue to the list."""
        ranked = sorted(
            (float(self._badness[row]), -len(faults[number]), number)
            for number, row in wanted.items()
            if not np.isnan(self._badness[row])
        )
        following: Sequence[Next] = ()
        for badness, found, number in ranked[:EACH]:
            if badness <= self._kept.limit:
                following = following or next_turns(dialogue)
                earlier = (place for place in range(number - 1, -1, -1) if takes_part(dialogue.turns[place]))
                before = list(islice(earlier, AROUND))[::-1]
                score = TurnValue(float(self._value[wanted[number]]))
                turns = turns_around(dialogue, number, before, following[number].turn, MOST_CHARACTERS, score)
                shown = Excerpt(dialogue.id, dialogue.system, turns, faults=faults[number])
                self._kept.take(badness, -found, shown)

    def findings(self) -> Triage | None:
        """Return what was found in the dialogues read so far."""
        if self._score is None:
            return None
        self._kept.cut()
        unscored = int(np.isnan(self._value).sum())
        return Triage(
            self._score,
            [turn for *_, turn in self._kept.ranked],
            sorted(map(self._failure, self._marks), key=lambda failure: -failure.found),
            means_by_index(self._value, self._units),
            len(self._units) - unscored,
            unscored,
            self._dialogues,
        )

    def _failure(self, name: str) -> Failure:
        marks = self._marks[name]
        read = ~np.isnan(marks)
        here, values, clusters = marks[read] == 1, self._value[read], self._units.clusters[read]
        example = self._examples.get(name)
        groups: list[tuple[str | None, Any]] = [*self._units.by_system().items()] or [(None, slice(None))]
        return Failure(
            name,
            int(here.sum()),
            int(read.sum()),
            {system: clustered_mean(100 * marks[own], self._units.clusters[own]) for system, own in groups},
            clustered_mean(values[here], clusters[here]),
            clustered_mean(values[~here], clusters[~here]),
            clustered_difference(values, here, clusters),
            None if example is None else example[1],
        )


def _marks(units: Units, scores: Scores) -> dict[str, Floats]:
    """Return 1 for each reply in which a fault counts, 0 for others, NaN where it was not looked for."""
    return {
        "/".join(column): np.where(np.isnan(values), np.nan, values >= threshold(scores.signatures, *column))
        for column, values in units.columns.items()
        if is_fault(*column)
    }


Spans = dict[str, list[tuple[str | None, int, int]]]
"""For each dialogue its systems, and where the rows of each begin and end."""


def places_of(units: Units) -> Spans:
    """Find the rows of every dialogue among turns, which are sorted by dialogue and system."""
    found: Spans = {}
    start = 0
    for place, key in enumerate(units.keys, 1):
        if place == len(units) or units.keys[place][:2] != key[:2]:
            found.setdefault(key.dialogue_id, []).append((key.system, start, place))
            start = place
    return found


def rows_of(dialogue: Dialogue, places: Spans) -> tuple[int, int] | None:
    """Find the rows of a dialogue; where one side does not name the system, only one may be meant."""
    groups = places.get(dialogue.id, [])
    exact = [group for group in groups if group[0] == dialogue.system]
    loose = [group for group in groups if group[0] is None or dialogue.system is None]
    chosen = exact or loose
    return chosen[0][1:] if len(chosen) == 1 else None
