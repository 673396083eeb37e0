"""Triage: the worst replies, and recurring failures.

One automatic score of turns ranks the replies. Failures are the faults that metrics found (the sources
`rules` and `faults`: 1, 0 or a probability for each reply) or, if the table has none, those that the caller's
function finds. The dialogues may be a stream of any length: it is read once, and only what is shown is
stored.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from dialeval.dialogues import Dialogue, in_blocks, takes_part
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
from dialeval.studies.units import Column, Floats, Key, Units, align, distinct_faults, with_systems

MOST = 20  # turns shown
EACH = 2  # of one dialogue, and with the same text
AROUND = 2  # turns shown before a bad one
MOST_CHARACTERS = 1_500
_CHUNK = 64  # dialogues whose faults are looked for at a time
MOST_SEARCHED = 5_000  # dialogues in which faults are looked for; of more, every second, third, …
_RankedTurn = tuple[float, int, int, Excerpt]
FaultFinder = Callable[[Sequence[Dialogue]], Scores]
"""Scores the faults of dialogues, as the metric `rules` does."""


@dataclass(slots=True)
class WorstTurns:
    """The worst replies so far, ordered by oriented score, then by number of faults."""

    most: int
    ranked: list[_RankedTurn] = field(default_factory=list)
    seen: int = 0
    limit: float = np.inf

    def add(self, badness: float, faults: int, turn: Excerpt) -> None:
        """Add a reply, and drop the better ones now and then."""
        self.seen += 1
        self.ranked.append((badness, -faults, self.seen, turn))
        if len(self.ranked) >= 4 * self.most:
            self.trim()

    def trim(self) -> None:
        """Sort the replies and keep the worst; a third one with the same text only if there are too few."""
        self.ranked.sort(key=lambda entry: entry[:3])
        seen, distinct, repeated = Counter[str](), list[_RankedTurn](), list[_RankedTurn]()
        for entry in self.ranked:
            text = entry[3].reply.text.strip().casefold()
            seen[text] += 1
            (distinct if seen[text] <= EACH else repeated).append(entry)
        if len(distinct) >= self.most:
            self.limit = distinct[self.most - 1][0] if self.most else -np.inf
        self.ranked = sorted([*distinct, *repeated][: self.most], key=lambda entry: entry[:3])


class FailureExample(NamedTuple):
    """A reply, its dialogue and its turn."""

    dialogue_id: str
    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class Failure:
    """The frequency of a fault, and the difference in score between replies with and without it.

    Attributes:
        name: The source and dimension that found it.
        found: Replies with the fault; of a probability, those at its threshold or above.
        read: Replies that were checked for it.
        by_system: The percentage of each system's replies that have it, with an interval.
        here: Mean score of replies with the fault.
        elsewhere: Mean score of replies without.
        difference: The first minus the second.
        example: The reply with the worst score that has it.
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
    """The worst replies of a run, and its recurring failures.

    Attributes:
        score: The score that ranks replies.
        worst: The worst replies, the worst first.
        failures: One for each fault, the most frequent first.
        faulty: The percentage of each system's replies with at least one of these faults.
        by_index: The mean score of the first, second, … reply.
        n: Replies with a score.
        n_unscored: Replies without.
        dialogues: Number of dialogues read.
    """

    score: TurnScale
    worst: list[Excerpt]
    failures: list[Failure]
    faulty: dict[str | None, Estimate]
    by_index: list[IndexMean]
    n: int
    n_unscored: int
    dialogues: int


def triage(
    scores: Scores, dialogues: Iterable[Dialogue], most: int = MOST, find_faults: FaultFinder | None = None
) -> Triage | None:
    """Return the worst turns of a run and its failures; None if no automatic turn score has a direction.

    >>> from dialeval.dialogues import dialogue
    >>> from dialeval.scores import Score
    >>> chat = dialogue([("user", "Which planet is largest?"), ("assistant", "I went to the")], "d1")
    >>> rows = [Score("d1", 1, None, "mine", "quality", 0.25), Score("d1", 1, None, "rules", "cut-off", 1.0)]
    >>> result = triage(Scores.of(rows), [chat])
    >>> [(turn.reply.number, turn.reply.score.value, turn.faults) for turn in result.worst]
    [(1, 0.25, ('rules/cut-off',))]
    """
    reader = TriageReader(with_systems(scores), most, find_faults)
    for _ in reader.read(dialogues):
        pass
    return reader.findings()


class TriageReader:
    """Triage of a stream of dialogues that is passed on to another reader.

    Args:
        scores: The score of turns, and the faults that metrics found.
        most: How many of the worst replies to keep.
        find_faults: Finds faults if the scores have none.
    """

    def __init__(self, scores: Scores, most: int = MOST, find_faults: FaultFinder | None = None) -> None:
        self._score = choose_score(scores)
        self._worst = WorstTurns(most)
        self._examples: dict[str, tuple[float, FailureExample]] = {}
        self._dialogues = 0
        self._opened: set[int] = set()
        self._marks: dict[str, Floats] = {}  # 1 for a fault, else 0; NaN: not checked
        if self._score is not None:
            self._prepare(scores, self._score)
        self._find_faults = None if self._marks else find_faults

    def _prepare(self, scores: Scores, score: TurnScale) -> None:
        """Align the score, and the faults that metrics found, over turns."""
        sources = {score.source, *FAULT_SOURCES}
        self._units = align(scores.where(source=sources.__contains__, level="turn"), "turn")
        self._value = self._units.columns[Column(score.source, score.dimension)]
        self._badness = self._value * (-1.0 if score.lower_is_better else 1.0)
        self._marks = _marks(self._units, scores)
        self._places = dialogue_spans(self._units)

    def read(self, dialogues: Iterable[Dialogue]) -> Iterator[Dialogue]:
        """Yield the dialogues after reading each."""
        if self._score is None:
            yield from dialogues
            return
        for chunk in in_blocks(dialogues, _CHUNK if self._find_faults else 1):
            new = dict[int, tuple[Dialogue, int]]()
            for dialogue in chunk:
                rows = find_rows(dialogue, self._places)
                if rows is not None and rows[0] not in self._opened:
                    self._opened.add(rows[0])
                    new[rows[0]] = dialogue, rows[1]
            self._search({start: entry for start, entry in new.items() if self._is_searched(start)})
            for start, (dialogue, stop) in new.items():
                self._read_dialogue(dialogue, start, stop)
            yield from chunk

    def _is_searched(self, start: int) -> bool:
        step = -(-len(self._places) // MOST_SEARCHED)
        return self._find_faults is not None and self._units.clusters[start] % step == 0

    def _search(self, chunk: dict[int, tuple[Dialogue, int]]) -> None:
        """Find the faults of some dialogues and store them beside their scores."""
        if self._find_faults is None or not chunk:
            return
        faults = self._find_faults([dialogue for dialogue, _ in chunk.values()])
        units = align(faults.where(level="turn"), "turn")
        indices = {key: index for index, key in enumerate(units.keys)}
        pairs = [
            (row, indices[key])
            for start, (dialogue, stop) in chunk.items()
            for row in range(start, stop)
            if (key := Key(dialogue.id, dialogue.system, self._units.keys[row].turn)) in indices
        ]
        rows, positions = np.array(pairs, np.intp).reshape(-1, 2).T
        for name, values in _marks(units, faults).items():
            marks = self._marks.setdefault(name, np.full(len(self._units), np.nan))
            marks[rows] = values[positions]

    def _read_dialogue(self, dialogue: Dialogue, start: int, stop: int) -> None:
        numbers = [key.turn or 0 for key in self._units.keys[start:stop]]
        rows = {n: start + index for index, n in enumerate(numbers) if 0 <= n < len(dialogue.turns)}
        self._dialogues += 1
        faults = {number: self._faults(row) for number, row in rows.items()}
        for number, names in faults.items():
            badness = float(np.nan_to_num(self._badness[rows[number]], nan=np.inf))
            for name in names:  # an unscored reply is an example only if there is no other
                if name not in self._examples or badness < self._examples[name][0]:
                    text = dialogue.turns[number].text[:MOST_CHARACTERS]
                    self._examples[name] = badness, FailureExample(dialogue.id, number, text)
        self._pick(dialogue, rows, faults)

    def _faults(self, row: int) -> tuple[str, ...]:
        return tuple(name for name, marks in self._marks.items() if marks[row] == 1)

    def _pick(self, dialogue: Dialogue, rows: dict[int, int], faults: dict[int, tuple[str, ...]]) -> None:
        """Add the worst replies of a dialogue to the list."""
        ranked = sorted(
            (float(self._badness[row]), -len(faults[number]), number)
            for number, row in rows.items()
            if not np.isnan(self._badness[row])
        )
        following: Sequence[Next] = ()
        for badness, negative_faults, number in ranked[:EACH]:
            if badness <= self._worst.limit:
                following = following or next_turns(dialogue)
                earlier = (index for index in range(number - 1, -1, -1) if takes_part(dialogue.turns[index]))
                before = list(islice(earlier, AROUND))[::-1]
                score = TurnValue(float(self._value[rows[number]]))
                turns = turns_around(dialogue, number, before, following[number].turn, MOST_CHARACTERS, score)
                shown = Excerpt(dialogue.id, dialogue.system, turns, faults=faults[number])
                self._worst.add(badness, -negative_faults, shown)

    def findings(self) -> Triage | None:
        """Return the findings of the dialogues read so far."""
        if self._score is None:
            return None
        self._worst.trim()
        unscored = int(np.isnan(self._value).sum())
        return Triage(
            self._score,
            [turn for *_, turn in self._worst.ranked],
            sorted(map(self._failure, self._marks), key=lambda failure: -failure.found),
            self._shares(np.fmax.reduce(list(self._marks.values()))) if self._marks else {},
            means_by_index(self._value, self._units),
            len(self._units) - unscored,
            unscored,
            self._dialogues,
        )

    def _shares(self, marks: Floats) -> dict[str | None, Estimate]:
        """Return the percentage of each system's replies that are marked."""
        groups: list[tuple[str | None, Any]] = [*self._units.by_system().items()] or [(None, slice(None))]
        return {
            system: clustered_mean(100 * marks[indices], self._units.clusters[indices])
            for system, indices in groups
        }

    def _failure(self, name: str) -> Failure:
        marks = self._marks[name]
        read = ~np.isnan(marks)
        here, values, clusters = marks[read] == 1, self._value[read], self._units.clusters[read]
        example = self._examples.get(name)
        return Failure(
            name,
            int(here.sum()),
            int(read.sum()),
            self._shares(marks),
            clustered_mean(values[here], clusters[here]),
            clustered_mean(values[~here], clusters[~here]),
            clustered_difference(values, here, clusters),
            None if example is None else example[1],
        )


def _marks(units: Units, scores: Scores) -> dict[str, Floats]:
    """Return for each fault 1 for replies at its threshold or above, 0 for others, NaN if not checked."""
    return {
        "/".join(column): np.where(
            np.isnan(units.columns[column]),
            np.nan,
            units.columns[column] >= threshold(scores.signatures, *column),
        )
        for column in distinct_faults(units.columns)
        if is_fault(*column)
    }


Spans = dict[str, list[tuple[str | None, int, int]]]
"""For each dialogue its systems, with the first row of each and the one after its last."""


def dialogue_spans(units: Units) -> Spans:
    """Return the rows of every dialogue among turns, which are sorted by dialogue and system."""
    spans: Spans = {}
    start = 0
    for index, key in enumerate(units.keys, 1):
        if index == len(units) or units.keys[index][:2] != key[:2]:
            spans.setdefault(key.dialogue_id, []).append((key.system, start, index))
            start = index
    return spans


def find_rows(dialogue: Dialogue, spans: Spans) -> tuple[int, int] | None:
    """Return the rows of a dialogue; if one side does not name the system, the match must be unique."""
    groups = spans.get(dialogue.id, [])
    exact = [group for group in groups if group[0] == dialogue.system]
    loose = [group for group in groups if group[0] is None or dialogue.system is None]
    chosen = exact or loose
    return chosen[0][1:] if len(chosen) == 1 else None
