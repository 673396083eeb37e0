"""The metric `multiwoz`: Inform and Success of task-oriented dialogues by their goals."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from dialeval.dialogues import Dialogue
from dialeval.dialogues.datasets.task_oriented import canonical_id
from dialeval.dialogues.tasks import Task, open_schema, open_task
from dialeval.dialogues.tasks.task import TaskReader
from dialeval.errors import DialevalError
from dialeval.metrics.explanation import ExplainedTurn, Explanation, Piece, Side
from dialeval.metrics.registry import Rows, metric
from dialeval.metrics.task_success import DialogueOutcome, Domains, GoalJudge, States
from dialeval.scores import Scores

INFORM, SUCCESS = "inform", "success"
_NAMED = 5  # dialogues that a remark names
_RULES = ("venues", "offers", "times", "booked")


@metric("multiwoz.v1")
@dataclass(frozen=True)
class MultiWoz:
    """Inform and Success of delexicalised replies, 0 or 1.

    A reply that names a venue (`[name]`) may mean any that fits the state it knew. `inform` is 1 if, for
    every domain of the dialogue's goal, these fit the goal; `success` is 1 if also every requested slot was
    given. `schema` is a declaration of the task (see docs/tasks.md); `venues`, `offers`, `times` and `booked`
    are rules in place of the declared ones. `states=gold` is the policy-only setting.

    >>> from dialeval.dialogues import Turn, dialogue
    >>> turns = [("user", "a cheap cafe at the harbour?"), Turn("assistant", "[name] . call [phone] .",
    ...     {"state": {"cafe": {"area": "harbour", "pricerange": "cheap"}}})]
    >>> [row.value for row in MultiWoz(schema="example").score([dialogue(turns, "ex01")])]
    [1.0, 1.0]
    """

    schema: str = "multiwoz"
    data: str | None = None
    goals: str | None = None
    states: States = "auto"
    domains: Domains = "auto"
    venues: Literal["all", "any"] | None = None
    offers: Literal["narrowest", "last"] | None = None
    times: Literal["read", "exact"] | None = None
    booked: Literal["logged", "slots", "said"] | None = None
    speaker: str | None = None
    dimensions: ClassVar[tuple[str, ...]] = (INFORM, SUCCESS)

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Judge each dialogue by its goal."""
        rows = Rows(self)
        for outcome in self.judged(dialogues):
            for dimension in self.dimensions:
                value = float(getattr(outcome, dimension)) if outcome.verdicts else None
                rows.add(outcome.dialogue, None, dimension, value, outcome.note)
        return rows.scores()

    def provenance(self) -> dict[str, str]:
        """Name declaration and data by their content, and the rules that were not given by name."""
        try:
            schema, _, sha = open_schema(self.schema)
            named = {"schema": f"{schema.name}@{sha}"}
            rules = {key: getattr(schema.rules, key) for key in _RULES if getattr(self, key) is None}
            return named | rules | {"data": self.task().sha}
        except (DialevalError, OSError, ValueError):  # what is not there keeps its name: nothing is scored
            return {}

    def task(self) -> Task:
        """Open the task that the fields name."""
        rules = {key: str(value) for key in _RULES if (value := getattr(self, key)) is not None}
        return open_task(self.schema, self.data, self.goals, rules)

    def judged(self, dialogues: Iterable[Dialogue]) -> Iterator[DialogueOutcome]:
        """Return the verdicts behind the scores, domain by domain."""
        try:
            judge = GoalJudge(self.task(), self.states, self.domains, self.speaker)
            _ = judge.task.goals, judge.task.venues
        except DialevalError as error:
            if (self.schema, self.data, self.goals) != ("multiwoz", None, None):
                raise
            # MultiWOZ's data do not come with the package: without them there is no goal to judge by
            yield from (DialogueOutcome(dialogue, {}, f"no goals at hand: {error}") for dialogue in dialogues)
            return
        yield from map(judge.judge, dialogues)

    def explain(self, dialogues: Sequence[Dialogue]) -> list[Explanation]:
        """Return for every domain of the goal what was reached, and what not."""
        judged = [outcome for outcome in self.judged(dialogues) if outcome.verdicts]
        if not judged:
            return []
        reader = TaskReader(self.task())
        return [_explained(outcome, reader) for outcome in judged]

    def tally(self) -> "Tally":
        """Return what counts the oddities of a whole file, and finds the dialogues that it lacks."""
        return Tally(self)


def _explained(outcome: DialogueOutcome, reader: TaskReader) -> Explanation:
    parts: dict[str, float | None] = {}
    messages = []
    for domain, verdict in outcome.verdicts.items():
        parts |= {f"{domain} inform": float(verdict.informed), f"{domain} success": float(verdict.success)}
        messages += [f"{domain}: {verdict.why}"] if verdict.why else []
        messages += [f"{domain}: not given: {', '.join(verdict.missing)}"] if verdict.missing else []
    turns = tuple(
        ExplainedTurn(turn.speaker, _labelled(turn.text, reader), number)
        for number, turn in enumerate(outcome.dialogue.turns)
    )
    note = "; ".join([*messages, *([outcome.note] if outcome.note else [])]) or None
    own = Side(outcome.dialogue.id, turns)
    return Explanation(
        outcome.dialogue.id, "multiwoz", float(outcome.success), parts, own, note=note, dimension=SUCCESS
    )


def _labelled(text: str, reader: TaskReader) -> tuple[Piece, ...]:
    """Return a turn as one piece, labelled by the slots that it gives."""
    slots = sorted(reader.placeholders(text, Counter()))
    return (Piece(text, ", ".join(slots) or None),) if text.strip() else ()


class Tally:
    """Oddities of a whole file of predictions: each kind counted, and dialogues that are not there."""

    def __init__(self, metric: MultiWoz) -> None:
        try:
            self._missing = set(metric.task().expected)
        except DialevalError:  # the scores say so
            self._missing = set()
        self._count: Counter[str] = Counter()
        self._first: dict[str, list[str]] = {}
        self._what: dict[str, Counter[str]] = {}

    def add(self, dialogues: Sequence[Dialogue], scores: Scores) -> None:
        """Add the next scored dialogues."""
        self._missing.difference_update(canonical_id(dialogue.id) for dialogue in dialogues)
        for row in scores.where(dimension=INFORM):
            for part in (row.note or "").split("; ") if row.note else ():
                kind, _, details = part.partition(": ")
                self._count[kind] += 1
                if self._count[kind] <= _NAMED:
                    self._first.setdefault(kind, []).append(row.dialogue_id)
                self._what.setdefault(kind, Counter()).update(details.split(", ") if details else ())

    def remarks(self) -> list[str]:
        """Return each oddity once: what, in how many dialogues, and in which."""
        kinds = {
            f"{kind}{_listed(self._what[kind])}": (count, self._first[kind])
            for kind, count in self._count.items()
        }
        if self._missing:
            kinds["no prediction"] = (len(self._missing), sorted(self._missing))
        return [f"{kind}: {_named(*entry)}" for kind, entry in kinds.items()]


def _listed(details: Counter[str]) -> str:
    names = [name for name, _ in details.most_common(_NAMED) if not name.isdigit()]
    return f" ({', '.join(names)})" if names else ""


def _named(count: int, ids: Sequence[str]) -> str:
    """Return how many dialogues, and name the first."""
    more = ", …" if count > _NAMED else ""
    return f"{count} dialogue{'s' * (count > 1)}, {', '.join(ids[:_NAMED])}{more}"
