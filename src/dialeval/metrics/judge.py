"""A language model as judge: the metric `judge`, over an address that answers like OpenAI's chat completions.

A judge costs money, changes its mind and can be talked to. So: what it will cost is said before it starts and
bounded; it is asked several times and the spread is kept; where the server gives probabilities, the answer is
weighed by them; an answer that is no number of the scale is no score; and the dialogue is data, never text.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from statistics import fmean, pstdev
from typing import Any, ClassVar, Literal

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.dialogues.dialogue import takes_part
from dialeval.errors import DialevalError, UsageError
from dialeval.metrics.registry import Better, Rows, metric
from dialeval.metrics.rubric import SHIPPED, AnswerForm, Rubric, load_rubrics, rubrics_mark
from dialeval.models.answers import Answered, AnswerStore, ask, question_name, rating_format
from dialeval.models.endpoint import Endpoint, EndpointError
from dialeval.scores import Scores

NO_ADDRESS = "no judge: name an address, address=http://localhost:8000/v1"
SPREAD = "-spread"
_AT_ONCE = 64  # dialogues asked about together
_IN_A_ROW = 5  # failures after which no more is asked
_LETTERS = 4  # of a token, about
_ANSWER = 16  # tokens of an answer, at most


class _Dimensions:
    """Each aspect, and how far the runs are apart on it."""

    def __get__(self, made: Any, cls: type) -> tuple[str, ...]:
        try:
            found = load_rubrics(made.rubrics, made.aspects) if made else load_rubrics(SHIPPED, "quality")
        except DialevalError:
            return ("quality", "quality" + SPREAD)
        return tuple(name for one in found for name in (one.aspect, one.aspect + SPREAD))


class _Directions:
    """A spread is neither good nor bad."""

    def __get__(self, made: Any, cls: Any) -> Mapping[str, Better]:
        names: tuple[str, ...] = (made or cls).dimensions
        return {name: "neither" for name in names if name.endswith(SPREAD)}


@metric("judge.v1")
@dataclass(frozen=True)
class Judge:
    """What a language model behind an address says when asked to rate, by rubric: mean of several runs.

    `address` is the only place that anything is sent to; a key comes from `DIALEVAL_API_KEY`. At most
    `max_calls` calls are made. `price` is what a million tokens cost, for the estimate. Answers are kept on
    disk (`cache`). Each aspect has a second dimension, `-spread`: the standard deviation over the runs.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hi"), ("assistant", "Hello!")], "d1")
    >>> Judge(runs=3, price=2.0).estimate([chat])
    'judge: 1 unit, 3 calls, about 800 tokens, about 0.00 at 2 per million tokens'
    >>> [row.dimension for row in Judge().score([chat])]
    ['quality', 'quality-spread']
    """

    address: str | None = None
    model: str | None = None
    rubrics: str = SHIPPED
    aspects: str = "quality"
    level: Literal["dialogue", "turn", "both"] = "dialogue"
    runs: int = 3
    temperature: float = 0.7
    answer: AnswerForm = "number"
    weighted: bool = True
    at_once: int = 4
    max_calls: int = 1000
    price: float | None = None
    timeout: float = 60.0
    tries: int = 3
    cache: bool = True
    speaker: str | None = None
    dimensions: ClassVar[Any] = _Dimensions()
    better: ClassVar[Any] = _Directions()

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Ask about every unit, several at once, and bring the runs together."""
        if self.runs < 1 or self.at_once < 1 or self.max_calls < 0:
            raise UsageError("judge: runs and at_once must be at least 1, max_calls not negative")
        rows, rubrics, stream = Rows(self), load_rubrics(self.rubrics, self.aspects), iter(dialogues)
        bench = self._bench()
        while some := list(islice(stream, _AT_ONCE)):
            units = [(one, turn) for one in some for turn in self._turns(one)]
            asked = [(*unit, rubric) for unit in units for rubric in rubrics]
            found = self._ask_all(bench, asked)
            for (dialogue, turn, rubric), (value, spread, note) in zip(asked, found, strict=True):
                rows.add(dialogue, turn, rubric.aspect, value, note)
                alone = note if value is None else "one run" if spread is None else None
                rows.add(dialogue, turn, rubric.aspect + SPREAD, spread, alone)
        return rows.scores()

    def provenance(self) -> dict[str, str]:
        """Name rubrics by their content."""
        return {"rubrics": rubrics_mark(self.rubrics, self.aspects)}

    def estimate(self, dialogues: Iterable[Dialogue]) -> str:
        """Say what scoring will cost, before anything is sent; answers that are kept already cost nothing."""
        rubrics = load_rubrics(self.rubrics, self.aspects)
        units = calls = letters = 0
        for dialogue in dialogues:
            for turn in self._turns(dialogue):
                units += 1
                for rubric in rubrics if _reason(dialogue, turn) is None else ():
                    messages, _ = rubric.messages(dialogue, turn, self.answer)
                    calls += self.runs
                    letters += self.runs * sum(len(one["content"]) for one in messages)
        tokens = letters // _LETTERS + calls * _ANSWER
        rounded = round(tokens, -2)
        said = f"judge: {units} unit{'' if units == 1 else 's'}, {calls} calls, about {rounded:,} tokens"
        if self.price is not None:
            said += f", about {tokens * self.price / 1e6:.2f} at {self.price:g} per million tokens"
        if calls > self.max_calls:
            said += f"; max_calls={self.max_calls} stops it before the end"
        return said

    def _bench(self) -> "Bench | None":
        """Return who is asked, the same for all chunks of a stream: the budget is one for all of them."""
        if self.address is None:
            return None
        if (kept := self.__dict__.get("_kept")) is None:
            endpoint = Endpoint(self.address, self.model, self.temperature, _ANSWER, self.timeout, self.tries)
            kept = Bench(
                endpoint, self.answer, self.weighted, self.max_calls, AnswerStore() if self.cache else None
            )
            object.__setattr__(self, "_kept", kept)
        return kept

    def _turns(self, dialogue: Dialogue) -> list[int | None]:
        turns: list[int | None] = [] if self.level == "dialogue" else [*scored_turns(dialogue, self.speaker)]
        return turns + ([] if self.level == "turn" else [None])

    def _ask_all(
        self, bench: "Bench | None", asked: Sequence[tuple[Dialogue, int | None, Rubric]]
    ) -> list[tuple[float | None, float | None, str | None]]:
        if bench is None:
            return [(None, None, _reason(one, turn) or NO_ADDRESS) for one, turn, _ in asked]
        with ThreadPoolExecutor(self.at_once) as pool:
            jobs = [
                [pool.submit(bench.ask, one, turn, rubric, run) for run in range(self.runs)]
                if _reason(one, turn) is None
                else []
                for one, turn, rubric in asked
            ]
            answers = [[job.result() for job in some] for some in jobs]
        return [
            _together(some) if some else (None, None, _reason(one, turn))
            for some, (one, turn, _) in zip(answers, asked, strict=True)
        ]


class Bench:
    """Who is asked, how often that may still be, and what was answered before."""

    def __init__(
        self, endpoint: Endpoint, answer: AnswerForm, weighted: bool, calls: int, store: AnswerStore | None
    ) -> None:
        self._endpoint, self._answer, self._weighted = endpoint, answer, weighted
        self._calls, self._store = calls, store
        self._left, self._failures, self._last = calls, 0, ""
        self._lock = threading.Lock()

    def ask(self, dialogue: Dialogue, turn: int | None, rubric: Rubric, run: int) -> tuple[float | None, str]:
        """Give one run's value and what is to be noted; without a value, why there is none."""
        messages, cut = rubric.messages(dialogue, turn, self._answer)
        form = rating_format(rubric.low, rubric.high) if self._answer == "json" else None
        name = question_name(self._endpoint, messages, run, self._weighted, form)
        kept = self._store.fetch(name) if self._store else None
        answered = kept or self._call(messages, form)
        if isinstance(answered, str):
            return None, answered
        number = answered.number(rubric.low, rubric.high)
        if number is None:
            said = " ".join(answered.text.split())[:60]
            return None, f"the answer is no whole number from {rubric.low} to {rubric.high}: {said!a}"
        if self._store:
            self._store.store(name, answered)
        mean = answered.weighted(rubric.low, rubric.high) if self._weighted else None
        return float(number) if mean is None else mean, "truncated" if cut else ""

    def _call(self, messages: Sequence[Mapping[str, str]], form: Mapping[str, Any] | None) -> Answered | str:
        with self._lock:
            if self._failures >= _IN_A_ROW:
                return f"not asked: {_IN_A_ROW} calls failed in a row, the last: {self._last}"
            if self._left <= 0:
                return f"not asked: max_calls={self._calls} is used up"
            self._left -= 1
        try:
            found = ask(self._endpoint, messages, probabilities=self._weighted, form=form)
        except EndpointError as error:
            self._failures, self._last = self._failures + 1, error.what
            return f"no answer: {error.what}"
        self._failures = 0
        return found


def _reason(dialogue: Dialogue, turn: int | None) -> str | None:
    if turn is None:
        spoken = any(takes_part(one) and one.text.strip() for one in dialogue.turns)
        return None if spoken else "nobody says anything"
    if not takes_part(dialogue.turns[turn]):
        return "no part of the conversation"
    return None if dialogue.turns[turn].text.strip() else "empty reply"


def _together(runs: Sequence[tuple[float | None, str]]) -> tuple[float | None, float | None, str | None]:
    """Bring runs to a mean and a spread; a run that said nothing usable is left out, and that is noted."""
    values = [value for value, _ in runs if value is not None]
    if not values:
        return None, None, runs[0][1]
    lost = next((note for value, note in runs if value is None), "")
    note = f"{len(values)} of {len(runs)} runs; {lost}" if lost else runs[0][1] or None
    return fmean(values), pstdev(values) if len(values) > 1 else None, note
