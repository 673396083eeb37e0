"""Triage: which replies to look at first, and what goes wrong again and again.

One automatic score of turns says which replies are bad. What they look like is said by the faults that
metrics found (the sources `rules` and `faults`: 1, 0 or a probability for each reply) or, where no such
metric ran, by the rules of `failures`; both are held against the score. The dialogues may come as a stream of
any length: it is read once, each in time that grows with its length, and only what is shown is kept.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from dialeval.dialogues import Dialogue, takes_part
from dialeval.dialogues.signals import Next, next_turns
from dialeval.scores import FAULT_SOURCES, Scores, is_fault
from dialeval.statistics import Estimate
from dialeval.studies.excerpts import Excerpt, TurnValue, turns_around
from dialeval.studies.failures import FEWEST_WORDS, RECURS, RULES, FailureRule
from dialeval.studies.turn_scores import (
    IndexMean,
    TurnScale,
    choose_score,
    clustered_difference,
    clustered_mean,
    means_by_index,
)
from dialeval.studies.units import Column, Floats, Units, align, with_systems
from dialeval.studies.utterances import EarlierTurns, Utterance, is_english

MOST = 20  # turns shown
EACH = 2  # of one dialogue
AROUND = 2  # turns shown before a bad one
MOST_CHARACTERS = 1_500
_MOST_REPLIES = 200_000  # different ones that are followed through the run
_READ, _ENGLISH, _ANSWERED = 1, 2, 4
_FIRST = 8  # the bit of the first rule


@dataclass(slots=True)
class WorstTurns:
    """The replies that may yet be shown: the lower the first number the worse; then come more faults."""

    most: int
    ranked: list[tuple[float, int, int, int, Excerpt]] = field(default_factory=list)
    seen: int = 0
    limit: float = np.inf

    def take(self, badness: float, faults: int, row: int, turn: Excerpt) -> None:
        """Take one more, and forget the better ones now and then."""
        self.seen += 1
        self.ranked.append((badness, -faults, self.seen, row, turn))
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
        rule: The rule, or the metric's dimension.
        found: Replies it was found in; of a probability, those with one half or more.
        read: Replies it can say something about: in its language, and answered if it needs the answer.
        by_system: For each system how many in a hundred of its replies have it, with an interval.
        here: Mean score where it was found.
        elsewhere: Mean score where it was not.
        difference: The first less the second.
        example: The worst scored reply it was found in.
    """

    rule: FailureRule
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
        english: Those of them that rules about English words apply to.
    """

    score: TurnScale
    worst: list[Excerpt]
    failures: list[Failure]
    by_index: list[IndexMean]
    n: int
    n_unscored: int
    dialogues: int
    english: int


def triage(scores: Scores, dialogues: Iterable[Dialogue], most: int = MOST) -> Triage | None:
    """Read a run once and find its bad turns; None if no automatic score of turns says which way is bad.

    >>> from dialeval.dialogues import dialogue
    >>> from dialeval.scores import Score
    >>> chat = dialogue([("user", "Which planet is largest?"), ("assistant", "I went to the")], "d1")
    >>> found = triage(Scores.of([Score("d1", 1, None, "mine", "quality", 0.25)]), [chat])
    >>> [(turn.reply.number, turn.reply.score.value, turn.faults) for turn in found.worst]
    [(1, 0.25, ('empty or cut off',))]
    """
    survey = TriageReader(with_systems(scores), most)
    for _ in survey.reading(dialogues):
        pass
    return survey.findings()


def fault_rule(column: Column) -> FailureRule:
    """Describe a metric's column of faults as a rule that somebody else has applied."""
    return FailureRule(f"{column.source}/{column.dimension}", "", None)


class TriageReader:
    """Looks at each dialogue as it passes by, for whoever reads the stream anyway."""

    def __init__(self, scores: Scores, most: int = MOST) -> None:
        self._score = choose_score(scores)
        self._kept = WorstTurns(most)
        self._examples: dict[int, tuple[float, FailureExample]] = {}
        self._replies: dict[int, int] = {}
        self._recurring: tuple[int, FailureExample] | None = None
        self._dialogues = self._english = 0
        self._opened: set[int] = set()
        if self._score is not None:
            self._prepare(scores, self._score)

    def _prepare(self, scores: Scores, score: TurnScale) -> None:
        """Bring the score, and the faults that metrics found, into the order of turns."""
        wanted = {score.source, *FAULT_SOURCES}
        self._units = align(scores.where(source=wanted.__contains__, level="turn"), "turn")
        self._value = self._units.columns[Column(score.source, score.dimension)]
        self._badness = self._value * (-1.0 if score.lower_is_better else 1.0)
        self._columns = [column for column in self._units.columns if is_fault(*column)]
        self._rules = [fault_rule(column) for column in self._columns] or list(RULES)
        self._bits = [_FIRST << place for place in range(len(self._rules))]
        self._flags = np.zeros(len(self._units), np.uint64)
        for bit, column in zip(self._bits, self._columns, strict=False):
            self._flags |= np.where(self._units.columns[column] >= 0.5, np.uint64(bit), np.uint64(0))
        self._said = np.zeros(len(self._units), np.int64)
        self._places = places_of(self._units)

    def reading(self, dialogues: Iterable[Dialogue]) -> Iterator[Dialogue]:
        """Pass dialogues on, looking at each."""
        for dialogue in dialogues:
            rows = None if self._score is None else rows_of(dialogue, self._places)
            if rows is not None and rows[0] not in self._opened:
                self._opened.add(rows[0])
                self._read(dialogue, *rows)
            yield dialogue

    def _read(self, dialogue: Dialogue, start: int, stop: int) -> None:
        numbers = [key.turn or 0 for key in self._units.keys[start:stop]]
        wanted = {n: start + place for place, n in enumerate(numbers) if 0 <= n < len(dialogue.turns)}
        following = next_turns(dialogue)
        self._dialogues += 1
        if not self._columns:
            self._judge(dialogue, wanted, following)
        for number, row in wanted.items():
            self._note_examples(dialogue, number, row)
        self._pick(dialogue, wanted, following)

    def _judge(self, dialogue: Dialogue, wanted: dict[int, int], following: Sequence[Next]) -> None:
        """Apply the rules of `failures`, and follow replies that come again in other dialogues."""
        english, replies = is_english(turn.text for turn in dialogue.turns), dict[int, int]()
        self._english += english
        for number, flags, spoken in _judged(dialogue, wanted, following, english):
            self._flags[wanted[number]] = flags
            if len(spoken.words) >= FEWEST_WORDS:
                said = self._said[wanted[number]] = hash((dialogue.system, spoken.plain))
                replies.setdefault(int(said), number)
        for key, number in replies.items():
            if key in self._replies or len(self._replies) < _MOST_REPLIES:
                times = self._replies[key] = self._replies.get(key, 0) + 1
                if times >= RECURS and (self._recurring is None or times > self._recurring[0]):
                    self._recurring = (times, _example(dialogue, number))

    def _note_examples(self, dialogue: Dialogue, number: int, row: int) -> None:
        """Keep the worst scored reply of each fault; an unscored one only for want of others."""
        flags = int(self._flags[row])
        if flags < _FIRST:
            return
        badness = float(np.nan_to_num(self._badness[row], nan=np.inf))
        for bit in self._bits:
            if flags & bit and (bit not in self._examples or badness < self._examples[bit][0]):
                self._examples[bit] = (badness, _example(dialogue, number))

    def _pick(self, dialogue: Dialogue, wanted: dict[int, int], following: Sequence[Next]) -> None:
        """Offer the worst replies of a dialogue to the list."""
        ranked = sorted(
            (float(self._badness[row]), -(int(self._flags[row]) // _FIRST).bit_count(), number)
            for number, row in wanted.items()
            if not np.isnan(self._badness[row])
        )
        for badness, found, number in ranked[:EACH]:
            if badness <= self._kept.limit:
                earlier = (place for place in range(number - 1, -1, -1) if takes_part(dialogue.turns[place]))
                before = list(islice(earlier, AROUND))[::-1]
                score = TurnValue(float(self._value[wanted[number]]))
                turns = turns_around(dialogue, number, before, following[number].turn, MOST_CHARACTERS, score)
                self._kept.take(badness, -found, wanted[number], Excerpt(dialogue.id, dialogue.system, turns))

    def findings(self) -> Triage | None:
        """Return what was found in the dialogues read so far."""
        if self._score is None:
            return None
        if not self._columns:
            recurring = [key for key, times in self._replies.items() if times >= RECURS]
            self._flags[np.isin(self._said, np.array(recurring, np.int64))] |= np.uint64(self._of_run())
            if self._recurring is not None:
                self._examples[self._of_run()] = (0.0, self._recurring[1])
        self._kept.cut()
        worst = [
            replace(turn, faults=self._faults(int(self._flags[row]))) for *_, row, turn in self._kept.ranked
        ]
        failures = [self._failure(place) for place in range(len(self._rules))]
        failures.sort(key=lambda failure: -failure.found)
        unscored = int(np.isnan(self._value).sum())
        return Triage(
            self._score,
            worst,
            failures if self._dialogues or self._columns else [],
            means_by_index(self._value, self._units),
            len(self._units) - unscored,
            unscored,
            self._dialogues,
            self._english,
        )

    def _of_run(self) -> int:
        """The bit of the rule that only the whole run can tell."""
        return next(bit for rule, bit in zip(RULES, self._bits, strict=True) if rule.finds is None)

    def _faults(self, flags: int) -> tuple[str, ...]:
        return tuple(rule.name for rule, bit in zip(self._rules, self._bits, strict=True) if flags & bit)

    def _marks(self, place: int) -> Floats:
        """Return 1 (or a probability) where a fault was found, 0 where not, NaN where nobody looked."""
        if self._columns:
            return self._units.columns[self._columns[place]]
        rule, bit = self._rules[place], np.uint64(self._bits[place])
        needed = np.uint64(_READ | (_ENGLISH if rule.english else 0) | (_ANSWERED if rule.reaction else 0))
        return np.where((self._flags & needed) == needed, (self._flags & bit) > 0, np.nan)

    def _failure(self, place: int) -> Failure:
        marks = self._marks(place)
        read = ~np.isnan(marks)
        here, values, clusters = marks[read] >= 0.5, self._value[read], self._units.clusters[read]
        example = self._examples.get(self._bits[place])
        groups: list[tuple[str | None, Any]] = [*self._units.by_system().items()] or [(None, slice(None))]
        return Failure(
            self._rules[place],
            int(here.sum()),
            int(read.sum()),
            {name: clustered_mean(100 * marks[own], self._units.clusters[own]) for name, own in groups},
            clustered_mean(values[here], clusters[here]),
            clustered_mean(values[~here], clusters[~here]),
            clustered_difference(values, here, clusters),
            None if example is None else example[1],
        )


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


def _judged(
    dialogue: Dialogue, wanted: dict[int, int], following: Sequence[Next], english: bool
) -> Iterator[tuple[int, int, Utterance]]:
    """Go through a dialogue and say for each wanted turn which rules fired."""
    before, ready = EarlierTurns(english=english), dict[int, Utterance]()
    for number, turn in enumerate(dialogue.turns):
        if number not in wanted and not takes_part(turn):
            continue
        spoken = ready.pop(number, None) or Utterance(turn.speaker, turn.text)
        if number in wanted:
            after, answer = None, following[number].turn
            if answer is not None:
                said = dialogue.turns[answer]
                after = ready.setdefault(answer, Utterance(said.speaker, said.text))
            yield number, _flags_of(before, spoken, after), spoken
        before.add(spoken)


def _flags_of(before: EarlierTurns, reply: Utterance, after: Utterance | None) -> int:
    flags = _READ | (_ENGLISH if before.english else 0) | (_ANSWERED if after is not None else 0)
    for place, rule in enumerate(RULES):
        if rule.finds is not None and (before.english or not rule.english):
            flags |= _FIRST << place if rule.finds(before, reply, after) else 0
    return flags


def _example(dialogue: Dialogue, number: int) -> FailureExample:
    return FailureExample(dialogue.id, number, dialogue.turns[number].text[:MOST_CHARACTERS])
