"""Triage: which replies to look at first, and what goes wrong again and again.

One automatic score of turns says which replies are bad, the rules of `failures` say what they look like, and
the two are held against each other. The dialogues may come as a stream of any length: it is read once, each
in time that grows with its length, and only what is shown is kept.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dialeval.dialogues import Dialogue, takes_part
from dialeval.dialogues.signals import Next, next_turns
from dialeval.reports.bad_turns import EACH, MOST, MOST_CHARACTERS, BadTurn, WorstTurns, surroundings
from dialeval.reports.failures import FEWEST_WORDS, RECURS, RULES, Rule
from dialeval.reports.strips import Palette
from dialeval.reports.turn_rows import (
    IndexMean,
    TurnRows,
    choose_score,
    clustered_difference,
    clustered_mean,
    means_by_index,
)
from dialeval.reports.utterances import Before, Spoken, is_english
from dialeval.scores import Scores
from dialeval.statistics import Estimate
from dialeval.studies.units import with_systems

_MOST_REPLIES = 200_000  # different ones that are followed through the run
_BITS = [1 << place for place in range(len(RULES))]
_ANY_RULE = sum(_BITS)
_READ, _ENGLISH, _ANSWERED = (_ANY_RULE + 1 << place for place in range(3))


class Example(NamedTuple):
    """A reply and where it stands."""

    dialogue_id: str
    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class Failure:
    """How often a rule found something, and whether the score is worse there than elsewhere.

    Attributes:
        rule: The rule.
        found: Replies it fired on.
        read: Replies it can say something about: in its language, and answered if it needs the answer.
        here: Mean score where it fired.
        elsewhere: Mean score where it did not.
        difference: The first less the second.
        example: The worst scored reply it fired on.
    """

    rule: Rule
    found: int
    read: int
    here: Estimate
    elsewhere: Estimate
    difference: Estimate
    example: Example | None


@dataclass(frozen=True, slots=True)
class Triage:
    """What was found.

    Attributes:
        score: The score that it goes by.
        worst: The worst replies, the worst first.
        failures: One for each rule, the most frequent first.
        by_index: The mean score of the first, second, … reply.
        n: Replies with a score.
        n_unscored: Replies without.
        dialogues: Dialogues that were read.
        english: Those of them that rules about English words apply to.
    """

    score: Palette
    worst: list[BadTurn]
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
    >>> [(turn.number, turn.value, [rule.name for rule in turn.failures]) for turn in found.worst]
    [(1, 0.25, ['empty or cut off'])]
    """
    survey = Survey(with_systems(scores), most)
    for _ in survey.reading(dialogues):
        pass
    return survey.findings()


class Survey:
    """Looks at each dialogue as it passes by, for whoever reads the stream anyway."""

    def __init__(self, scores: Scores, most: int = MOST) -> None:
        self._score = choose_score(scores)
        self._kept = WorstTurns(most)
        self._examples: dict[int, tuple[float, Example]] = {}
        self._replies: dict[int, int] = {}
        self._recurring: tuple[int, Example] | None = None
        self._dialogues = self._english = 0
        self._opened: set[int] = set()
        if self._score is not None:
            self._rows = TurnRows(scores, self._score)
            self._flags = np.zeros(len(self._rows), np.uint16)
            self._said = np.zeros(len(self._rows), np.int64)
            self._badness = self._rows.value * (-1.0 if self._score.lower_is_better else 1.0)

    def reading(self, dialogues: Iterable[Dialogue]) -> Iterator[Dialogue]:
        """Pass dialogues on, looking at each."""
        for dialogue in dialogues:
            rows = None if self._score is None else self._rows.of(dialogue)
            if rows is not None and rows[0] not in self._opened:
                self._opened.add(rows[0])
                self._read(dialogue, *rows)
            yield dialogue

    def _read(self, dialogue: Dialogue, start: int, stop: int) -> None:
        numbers = self._rows.turn[start:stop].tolist()
        wanted = {n: start + place for place, n in enumerate(numbers) if 0 <= n < len(dialogue.turns)}
        english = is_english(turn.text for turn in dialogue.turns)
        following, replies = next_turns(dialogue), dict[int, int]()
        for number, flags, spoken in _judged(dialogue, wanted, following, english):
            row = wanted[number]
            self._flags[row] = flags
            self._note_examples(dialogue, number, flags, row)
            if len(spoken.words) >= FEWEST_WORDS:
                self._said[row] = hash((dialogue.system, spoken.plain))
                replies.setdefault(int(self._said[row]), number)
        self._dialogues += 1
        self._english += english
        self._follow(dialogue, replies)
        self._pick(dialogue, wanted, following)

    def _note_examples(self, dialogue: Dialogue, number: int, flags: int, row: int) -> None:
        """Keep the worst scored reply of each rule; an unscored one only for want of others."""
        if not flags & _ANY_RULE:
            return
        badness = float(np.nan_to_num(self._badness[row], nan=np.inf))
        for bit in _BITS:
            if flags & bit and (bit not in self._examples or badness < self._examples[bit][0]):
                self._examples[bit] = (badness, _example(dialogue, number))

    def _follow(self, dialogue: Dialogue, replies: dict[int, int]) -> None:
        """Count in how many dialogues each reply was given; the most frequent one is the example."""
        for key, number in replies.items():
            if key in self._replies or len(self._replies) < _MOST_REPLIES:
                times = self._replies[key] = self._replies.get(key, 0) + 1
                if times >= RECURS and (self._recurring is None or times > self._recurring[0]):
                    self._recurring = (times, _example(dialogue, number))

    def _pick(self, dialogue: Dialogue, wanted: dict[int, int], following: Sequence[Next]) -> None:
        """Offer the worst replies of a dialogue to the list."""
        ranked = sorted(
            (float(self._badness[row]), -(int(self._flags[row]) & _ANY_RULE).bit_count(), number)
            for number, row in wanted.items()
            if not np.isnan(self._badness[row])
        )
        for badness, found, number in ranked[:EACH]:
            if badness <= self._kept.limit:
                turns = surroundings(dialogue, number, following[number].turn)
                value = float(self._rows.value[wanted[number]])
                bad = BadTurn(dialogue.id, dialogue.system, number, value, turns)
                self._kept.take(badness, -found, wanted[number], bad)

    def findings(self) -> Triage | None:
        """Say what was found in the dialogues read so far."""
        if self._score is None:
            return None
        recurring = [key for key, times in self._replies.items() if times >= RECURS]
        self._flags[np.isin(self._said, np.array(recurring, np.int64))] |= _of_run()
        if self._recurring is not None:
            self._examples[_of_run()] = (0.0, self._recurring[1])
        self._kept.cut()
        worst = [
            replace(turn, failures=_rules_of(int(self._flags[row]))) for *_, row, turn in self._kept.ranked
        ]
        failures = [self._failure(rule, bit) for rule, bit in zip(RULES, _BITS, strict=True)]
        failures.sort(key=lambda failure: -failure.found)
        unscored = int(np.isnan(self._rows.value).sum())
        return Triage(
            self._score,
            worst,
            failures if self._dialogues else [],
            means_by_index(self._rows),
            len(self._rows) - unscored,
            unscored,
            self._dialogues,
            self._english,
        )

    def _failure(self, rule: Rule, bit: int) -> Failure:
        needed = _READ | (_ENGLISH if rule.english else 0) | (_ANSWERED if rule.reaction else 0)
        read = (self._flags & needed) == needed
        here = (self._flags[read] & bit) > 0
        values, clusters = self._rows.value[read], self._rows.cluster[read]
        example = self._examples.get(bit)
        return Failure(
            rule,
            int(here.sum()),
            int(read.sum()),
            clustered_mean(values[here], clusters[here]),
            clustered_mean(values[~here], clusters[~here]),
            clustered_difference(values, here, clusters),
            None if example is None else example[1],
        )


def _judged(
    dialogue: Dialogue, wanted: dict[int, int], following: Sequence[Next], english: bool
) -> Iterator[tuple[int, int, Spoken]]:
    """Go through a dialogue and say for each wanted turn which rules fired."""
    before, ready = Before(english=english), dict[int, Spoken]()
    for number, turn in enumerate(dialogue.turns):
        if number not in wanted and not takes_part(turn):
            continue
        spoken = ready.pop(number, None) or Spoken(turn.speaker, turn.text)
        if number in wanted:
            after, answer = None, following[number].turn
            if answer is not None:
                after = ready.setdefault(answer, _spoken(dialogue, answer))
            yield number, _flags_of(before, spoken, after), spoken
        before.add(spoken)


def _spoken(dialogue: Dialogue, number: int) -> Spoken:
    return Spoken(dialogue.turns[number].speaker, dialogue.turns[number].text)


def _flags_of(before: Before, reply: Spoken, after: Spoken | None) -> int:
    flags = _READ | (_ENGLISH if before.english else 0) | (_ANSWERED if after is not None else 0)
    for rule, bit in zip(RULES, _BITS, strict=True):
        if rule.finds is not None and (before.english or not rule.english):
            flags |= bit if rule.finds(before, reply, after) else 0
    return flags


def _of_run() -> int:
    """The bit of the rule that only the whole run can tell."""
    return next(bit for rule, bit in zip(RULES, _BITS, strict=True) if rule.finds is None)


def _rules_of(flags: int) -> tuple[Rule, ...]:
    return tuple(rule for rule, bit in zip(RULES, _BITS, strict=True) if flags & bit)


def _example(dialogue: Dialogue, number: int) -> Example:
    return Example(dialogue.id, number, dialogue.turns[number].text[:MOST_CHARACTERS])
