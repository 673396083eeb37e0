"""How an agent works with its tools, and whether it did what was asked: the metrics `agent` and `goal`.

`agent` is deterministic rules over whole dialogues, each with evidence. The rules about replies are those of
`rules`, counted; the others look at the calls (`agent_calls`). Whether a call changes something is read from
the verb in its name; `writes` and `reads` say it for tools of your own.

`goal` compares what a log shows with what was declared: calls, words and a final state. Only calls that
change something count, and only those that did not fail: how an agent looks things up is its own affair.
Values are compared as people write them: case, spaces around a text and the order within a list make no
difference, and 5 is "5".
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from dialeval.dialogues import Dialogue, takes_part
from dialeval.dialogues.tasks.goals import AgentGoal, ExpectedCall, GoalFile, read_goals
from dialeval.metrics.agent_calls import Call, calls_of, found, words
from dialeval.metrics.explanation import ExplainedTurn, Explanation, Piece, Side
from dialeval.metrics.registry import Better, OpensModels, Rows, metric, model_field
from dialeval.metrics.rules import RULES, replies
from dialeval.scores import Scores

ERROR, AGAIN, EARLY, HAND_OVER = "tool-error-ignored", "same-call-again", "action-before-yes", "hand-over"
TURNS, CALLS, UNANSWERED = "turns-to-goal", "calls-to-goal", "unanswered-request"
Evidence = Mapping[str, Mapping[int, str]]
"""For each rule, what was found, by the message it was found in."""
_PARTING, _ASKS, _WITHDRAWS = words("parting"), words("asks"), words("withdraws")
SUCCESS = "success"
NO_GOAL = "no goal is known for this dialogue"
_SHOWN = 120
_DEEPEST = 50


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a goal was reached (None: there is none), what is missing or wrong, and the last call of it."""

    success: bool | None
    wrong: tuple[str, ...] = ()
    note: str | None = None
    last: int | None = None


@dataclass(frozen=True)
class Goals:
    """Goals by name, and how they are found and judged."""

    file: GoalFile
    sha: str

    def goal_of(self, dialogue: Dialogue) -> AgentGoal | None:
        """Return the goal of a dialogue: by the file, else the one in its meta.

        Raises:
            ValueError: If what stands in the meta is no goal.
        """
        names = [dialogue.meta.get(self.file.by)] if self.file.by else [dialogue.id]
        names += [] if self.file.by else [dialogue.meta.get(key) for key in ("scenario", "task_id")]
        for name in names:
            if name is not None and str(name) in self.file.goal:
                return self.file.goal[str(name)]
        own = dialogue.meta.get("goal")
        return None if not isinstance(own, Mapping) else msgspec.convert(own, AgentGoal)

    def calls_of(self, dialogue: Dialogue, speaker: str | None = None) -> list[Call]:
        """Return the calls of a dialogue, read as the file of goals says."""
        return calls_of(dialogue, speaker or "assistant", self.file.writes, self.file.reads)

    def judge(
        self, dialogue: Dialogue, calls: list[Call] | None = None, speaker: str | None = None
    ) -> Verdict:
        """Compare a dialogue with its goal."""
        try:
            goal = self.goal_of(dialogue)
        except ValueError as error:  # msgspec's are
            return Verdict(None, note=f"its goal cannot be read: {error}")
        if goal is None:
            return Verdict(None, note=NO_GOAL)
        calls = self.calls_of(dialogue, speaker) if calls is None else calls
        changed = [call for call in calls if call.changed]
        wrong, used = self._against(goal, changed)
        wrong += [f"not said: {text}" for text in _unsaid(goal, dialogue, speaker or "assistant")]
        wrong += _other_states(goal, dialogue)
        last = max((call.turn for call in used or changed), default=len(dialogue.turns) - 1)
        return Verdict(not wrong, tuple(wrong), "; ".join(wrong) or None, last)

    def _against(self, goal: AgentGoal, changed: list[Call]) -> tuple[list[str], list[Call]]:
        """Pair expected calls with those that were made; return what is wrong, and the pairs' calls."""
        left, used, wrong = list(changed), list[Call](), list[str]()
        for expected in goal.calls or ():
            fits = next((call for call in left if self._is(expected, call)), None)
            if fits is None:
                wrong.append(f"missing: {_text(expected)}")
            else:
                left.remove(fits)
                used.append(fits)
        if goal.calls is not None and self.file.extra == "fail":
            wrong += [f"not expected: {call.text[:_SHOWN]}" for call in left]
        return wrong, used

    def _is(self, expected: ExpectedCall, call: Call) -> bool:
        given = call.arguments if isinstance(call.arguments, dict) else {}
        asked = {key: value for key, value in expected.arguments.items() if key not in self.file.free}
        return expected.name == call.name and _holds(asked, given)


def open_goals(path: str | None) -> Goals:
    """Open a file of goals; None: goals are in the dialogues' meta."""
    return Goals(*read_goals(path)) if path is not None else Goals(GoalFile({}), "-")


def _text(expected: ExpectedCall) -> str:
    return f"{expected.name} {json.dumps(expected.arguments, sort_keys=True, default=str)}"[:_SHOWN]


def plain(value: Any) -> Any:
    """Bring a value to the form in which two are compared.

    >>> plain([" B", 5.0, True]) == plain([True, "5", "b"])
    True
    """
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return sorted((plain(inner) for inner in value), key=lambda one: json.dumps(one, sort_keys=True))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return " ".join(str(value).casefold().split())


def _holds(asked: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    return all(key in given and plain(value) == plain(given[key]) for key, value in asked.items())


def _unsaid(goal: AgentGoal, dialogue: Dialogue, speaker: str) -> Iterator[str]:
    said = (
        [one.text for one in dialogue.turns if one.speaker == speaker and takes_part(one)]
        if goal.said
        else []
    )
    texts = [text.casefold().replace(",", "") for text in said]
    for wanted in goal.said:
        if not any(wanted.casefold().replace(",", "") in text for text in texts):
            yield wanted


def _other_states(goal: AgentGoal, dialogue: Dialogue) -> list[str]:
    """Return the records that are not as they must be in the end."""
    wrong = []
    seen = list(_records(dialogue)) if goal.state else []
    for record in goal.state:
        last = next((one for one in reversed(seen) if _holds(record.where, one)), None)
        where = json.dumps(record.where, sort_keys=True, default=str)[:_SHOWN]
        if last is None:
            wrong.append(f"never seen: {where}")
            continue
        wrong += [
            f"{where}: {key} is {json.dumps(last.get(key), default=str)[:_SHOWN]}"
            for key, value in record.then.items()
            if not _holds({key: value}, last)
        ]
    return wrong


def _records(dialogue: Dialogue) -> Iterator[Mapping[str, Any]]:
    """Yield every record that tools returned, and those of a logged `state`, which come last."""
    for turn in dialogue.turns:
        if turn.speaker == "tool" and turn.text.lstrip()[:1] in ("{", "["):
            try:
                yield from _objects(json.loads(turn.text))
            except (ValueError, RecursionError):
                continue
    yield from _objects(dialogue.meta.get("state"))


def _objects(value: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    if depth > _DEEPEST or not isinstance(value, Mapping | list):
        return
    if isinstance(value, Mapping):
        yield value
    for inner in value.values() if isinstance(value, Mapping) else value:
        yield from _objects(inner, depth + 1)


@metric("goal.v1")
@dataclass(frozen=True)
class GoalSuccess(OpensModels):
    """Whether an agent reached the declared goal, 1 or 0.

    The note says what is missing or wrong.

    Goals are expected calls, words to be said and a final state, in a TOML file, or in a dialogue's meta
    under `goal`. It works on any log with tool calls, and looks at nothing but what the log shows.

    >>> from dialeval.dialogues import ToolCall, Turn, dialogue
    >>> call = Turn("assistant", "", tool_calls=(ToolCall("refund", {"order": "A1"}),))
    >>> goal = {"calls": [{"name": "refund", "arguments": {"order": "A2"}}]}
    >>> chat = dialogue([Turn("user", "Refund A2."), call, Turn("tool", "done")], "d1", meta={"goal": goal})
    >>> [(row.value, row.note) for row in GoalSuccess().score([chat])]
    [(0.0, 'missing: refund {"order": "A2"}; not expected: refund {"order": "A1"}')]
    """

    goals: str | None = model_field(None, open_goals)
    speaker: str | None = None
    dimensions: ClassVar[tuple[str, ...]] = (SUCCESS,)

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Judge each dialogue by its goal."""
        rows, goals = Rows(self), open_goals(self.goals)
        for dialogue in dialogues:
            found = goals.judge(dialogue, speaker=self.speaker)
            rows.add(dialogue, None, SUCCESS, None if found.success is None else found.success, found.note)
        return rows.scores()


@metric("agent.v1")
@dataclass(frozen=True)
class Agent(OpensModels):
    """Tool use of an agent: ignored errors, repeated calls, and more.

    Counts in a dialogue, but 1 or 0 for `hand-over` and `unanswered-request`. `turns-to-goal` and
    `calls-to-goal` count up to the call that completed the goal, with `goals` (see `goal`), else up to the
    last call that changed something. `explain` gives the evidence.

    >>> from dialeval.dialogues import ToolCall, Turn, dialogue
    >>> call = Turn("assistant", "", tool_calls=(ToolCall("cancel_order", {"order": "A1"}),))
    >>> chat = dialogue([Turn("user", "Cancel A1."), call, Turn("tool", "done"), Turn("assistant", "Done.")])
    >>> {row.dimension: row.value for row in Agent().score([chat]) if row.value}
    {'action-before-yes': 1.0, 'turns-to-goal': 1.0, 'calls-to-goal': 1.0}
    """

    goals: str | None = model_field(None, open_goals)
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    speaker: str | None = None
    dimensions: ClassVar[tuple[str, ...]] = (ERROR, AGAIN, EARLY, HAND_OVER, TURNS, CALLS, UNANSWERED)
    better: ClassVar[Better] = "lower"

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Return a row for each dialogue and rule."""
        rows, goals = Rows(self), self._goals()
        for dialogue in dialogues:
            for name, (value, note) in self._figures(dialogue, goals).items():
                rows.add(dialogue, None, name, value, note)
        return rows.scores()

    def explain(self, dialogues: Iterable[Dialogue]) -> list[Explanation]:
        """Return, for each dialogue, its turns and calls with what the rules found in them."""
        return [self._explain(dialogue) for dialogue in dialogues]

    def _goals(self) -> Goals | None:
        return None if self.goals is None else open_goals(self.goals)

    def _calls(self, dialogue: Dialogue) -> list[Call]:
        return calls_of(dialogue, self.speaker or "assistant", self.writes, self.reads)

    def evidence(self, dialogue: Dialogue, calls: list[Call]) -> Evidence:
        """Return what each rule found, and where."""
        held: dict[str, dict[int, str]] = defaultdict(dict)
        last = None
        for number, reply in replies(dialogue, self.speaker):
            last = number, reply
            for name in (ERROR, HAND_OVER):
                if why := RULES[name](reply):
                    held[name][number] = why
        for call in calls:
            if call.again:
                held[AGAIN][call.turn] = call.text[:80]
            if call.kind == "write" and not call.agreed:
                held[EARLY][call.turn] = f"{call.name} without a yes of the user before it"
            if call.kind == "hand-over":
                held[HAND_OVER][call.turn] = f"tool {call.name}"
        asked = _last_request(dialogue, self.speaker or "assistant")
        if asked is not None and (last is None or last[0] < asked):
            held[UNANSWERED][asked] = "nothing was said to it"
        elif asked is not None and last and (why := RULES["unanswered-question"](last[1])):
            held[UNANSWERED][last[0]] = why
        return held

    def _figures(self, dialogue: Dialogue, goals: Goals | None) -> dict[str, tuple[float | None, str | None]]:
        calls = self._calls(dialogue)
        held = self.evidence(dialogue, calls)
        some = any(takes_part(turn) for turn in dialogue.turns)
        made: dict[str, tuple[float | None, str | None]] = {}
        counts = {ERROR: len(held[ERROR]), AGAIN: sum(call.again for call in calls)}
        counts[EARLY] = sum(call.kind == "write" and not call.agreed for call in calls)
        for name, count in counts.items():
            made[name] = (float(count), None) if calls else (None, "no tool call in it")
        end, why = _goal_reached(calls, goals.judge(dialogue, calls) if goals else None)
        users = {n for n, turn in enumerate(dialogue.turns) if takes_part(turn) and turn.speaker == "user"}
        reached = end is not None
        made[TURNS] = (float(sum(n <= (end or 0) for n in users)), None) if reached else (None, why)
        made[CALLS] = (float(sum(one.turn <= (end or 0) for one in calls)), None) if reached else (None, why)
        for name in (HAND_OVER, UNANSWERED):
            made[name] = (float(bool(held[name])), None) if some else (None, "nothing was said in it")
        return {name: made[name] for name in self.dimensions}

    def _explain(self, dialogue: Dialogue) -> Explanation:
        calls = self._calls(dialogue)
        held = self.evidence(dialogue, calls)
        counts = {name: float(len(some)) for name, some in held.items() if some}
        turns = tuple(explained_turns(dialogue, calls, held))
        return Explanation(
            dialogue.id, "agent", float(sum(counts.values())), counts, Side(dialogue.id, turns)
        )


def explained_turns(dialogue: Dialogue, calls: Iterable[Call], held: Evidence) -> Iterator[ExplainedTurn]:
    """Yield what was said and which tools were called, with the evidence beside each."""
    by_turn: dict[int, list[str]] = defaultdict(list)
    for call in calls:
        by_turn[call.turn].append(call.text)
    for number, turn in enumerate(dialogue.turns):
        if takes_part(turn) or number in by_turn:
            told = "; ".join(f"{name}: {some[number]}" for name, some in held.items() if number in some)
            shown = [text for text in (turn.text, *by_turn.get(number, ())) if text.strip()]
            yield ExplainedTurn(turn.speaker, (Piece("\n".join(shown), told or None),), number)


def _last_request(dialogue: Dialogue, speaker: str) -> int | None:
    """Return the user's last turn, if it asks for something, withdraws nothing and does not take leave."""
    said = [
        (n, one.text) for n, one in enumerate(dialogue.turns) if takes_part(one) and one.speaker != speaker
    ]
    number, text = next(((n, text) for n, text in reversed(said) if text.strip()), (None, ""))
    ended = found(_PARTING, text) or found(_WITHDRAWS, text)
    return number if found(_ASKS, text) and not ended else None


def _goal_reached(calls: list[Call], verdict: Verdict | None) -> tuple[int | None, str | None]:
    """Return the message that completed the goal, or why there is none."""
    if verdict is not None:
        if verdict.success is None:
            return None, verdict.note
        return (verdict.last, None) if verdict.success else (None, "the goal was not reached")
    changed = [call.turn for call in calls if call.changed]
    return (changed[-1], None) if changed else (None, "no call changed anything")
