"""How an agent works with its tools: deterministic rules over whole dialogues, each with evidence.

The rules about replies are those of `rules`, counted; the others look at the calls (`agent_calls`). Whether a
call changes something is read from the verb in its name; `writes` and `reads` say it for tools of your own.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from dialeval.dialogues import Dialogue, takes_part
from dialeval.metrics.agent_calls import Call, calls_of, found, words
from dialeval.metrics.explanation import ExplainedTurn, Explanation, Piece, Side
from dialeval.metrics.goal import Goals, Verdict, open_goals
from dialeval.metrics.registry import Better, OpensModels, Rows, metric, model_field
from dialeval.metrics.rules import RULES, replies
from dialeval.scores import Scores

ERROR, AGAIN, EARLY, HAND_OVER = "tool-error-ignored", "same-call-again", "action-before-yes", "hand-over"
TURNS, CALLS, UNANSWERED = "turns-to-goal", "calls-to-goal", "unanswered-request"
Evidence = Mapping[str, Mapping[int, str]]
"""For each rule, what was found, by the message it was found in."""
_PARTING, _ASKS = words("parting"), words("asks")


@metric("agent.v1")
@dataclass(frozen=True)
class Agent(OpensModels):
    """How an agent works with its tools: errors ignored, calls repeated, actions before a yes, and more.

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
    """Return the user's last turn, if it asks for something and does not take leave."""
    said = [
        (n, one.text) for n, one in enumerate(dialogue.turns) if takes_part(one) and one.speaker != speaker
    ]
    number, text = next(((n, text) for n, text in reversed(said) if text.strip()), (None, ""))
    return number if found(_ASKS, text) and not found(_PARTING, text) else None


def _goal_reached(calls: list[Call], verdict: Verdict | None) -> tuple[int | None, str | None]:
    """Return the message that completed the goal, or why there is none."""
    if verdict is not None:
        if verdict.success is None:
            return None, verdict.note
        return (verdict.last, None) if verdict.success else (None, "the goal was not reached")
    changed = [call.turn for call in calls if call.changed]
    return (changed[-1], None) if changed else (None, "no call changed anything")
