"""What an agent did: its tool calls in order, each with its result and what led to it.

No tool is known by its name. The verb in a name (`get_`, `search…`, `cancelOrder`) says whether a call looks
something up, hands over to a person, or changes something; unknown verbs change something. Text agents that
write `Action: …` are read by `dialogues.formats` and look the same here.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files as resources
from typing import Any, Literal

from dialeval.dialogues import Dialogue, Turn, says_something
from dialeval.metrics.patterns import AnyOf
from dialeval.metrics.rules import HAND_OVER_TOOL, call_text, is_error, is_transient

Kind = Literal["read", "write", "hand-over"]
_WORDS: dict[str, Any] = tomllib.loads(
    (resources("dialeval.metrics") / "agent.toml").read_text(encoding="utf-8")
)
_READS, _READS_LAST, _CHANGES, _NOT_READS = (
    frozenset(_WORDS[name].split()) for name in ("reads", "reads-last", "changes", "not-reads")
)
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_LONGEST = 20_000  # characters of a text that are looked at


def words(name: str) -> AnyOf:
    """Return the patterns of a list of words in `agent.toml`."""
    return AnyOf(_WORDS[name])


YES, NO, WHICH = words("yes"), words("no"), words("which")


def found(pattern: AnyOf, text: str) -> bool:
    """Whether a pattern is in a text, whatever its apostrophes."""
    return bool(pattern.search(text[:_LONGEST].replace("\u2019", "'")))


def is_yes(text: str) -> bool:
    """Whether a user turn agrees to what was proposed.

    >>> is_yes("Yes, please go ahead."), is_yes("Please cancel it."), is_yes("No, wait.")
    (True, False, False)
    """
    return found(YES, text) and not found(NO, text)


def is_choice(asked: str, text: str) -> bool:
    """Whether a user turn names one of several things to act on, as it was asked to.

    >>> [is_choice(asked, "The later one.") for asked in ("Which one shall I book?", "Which one is it?")]
    [True, False]
    """
    return found(WHICH, asked) and not found(NO, text) and "?" not in text


def kind_of(name: str, writes: Sequence[str] = (), reads: Sequence[str] = ()) -> Kind:
    """Read from a tool's name what it does; names or patterns in `writes` and `reads` go first.

    >>> kind_of("get_order"), kind_of("flightSearch"), kind_of("transfer_to_human_agents")
    ('read', 'read', 'hand-over')
    >>> kind_of("cancel_order"), kind_of("check_in"), kind_of("transfer_funds")
    ('write', 'write', 'write')
    >>> kind_of("get_paid", writes=["get_p*"])
    'write'
    """
    if any(fnmatchcase(name, str(one)) for one in writes):
        return "write"
    if any(fnmatchcase(name, str(one)) for one in reads):
        return "read"
    if HAND_OVER_TOOL.search(name):
        return "hand-over"
    parts = [part.lower() for part in _PARTS.findall(name.rpartition(".")[2])]
    if not parts or (parts[-1] in _READS_LAST and parts[0] not in _CHANGES):
        return "read"
    return "read" if parts[0] in _READS and "_".join(parts[:2]) not in _NOT_READS else "write"


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the agent.

    Attributes:
        turn: The message that makes it.
        name: The tool.
        arguments: As logged.
        text: Name and arguments as one text.
        kind: Whether it reads, writes or hands over.
        result: What came back; None where the log has nothing.
        failed: Whether that is an error.
        again: Whether the same call was made before, and did not fail for a passing reason.
        agreed: Whether the user's last turn before it was a yes, or named one of several to act on.
    """

    turn: int
    name: str
    arguments: dict[str, Any] | str
    text: str
    kind: Kind
    result: str | None
    failed: bool
    again: bool
    agreed: bool

    @property
    def changed(self) -> bool:
        """Whether it changed something, as far as the log shows."""
        return self.kind == "write" and not self.failed


def calls_of(
    dialogue: Dialogue, speaker: str = "assistant", writes: Sequence[str] = (), reads: Sequence[str] = ()
) -> list[Call]:
    """Return the calls that an agent makes, in order.

    >>> from dialeval.dialogues import ToolCall
    >>> step = Turn("assistant", "", tool_calls=(ToolCall("cancel", {"id": "A1"}),))
    >>> chat = Dialogue("d", (Turn("user", "Cancel A1."), step, Turn("tool", "Error: no such order")))
    >>> [(call.kind, call.failed, call.agreed) for call in calls_of(chat)]
    [('write', True, False)]
    """
    made: list[Call] = []
    seen: set[str] = set()
    agreed, asked = False, ""
    for number, turn in enumerate(dialogue.turns):
        if turn.speaker != speaker:
            if says_something(turn):
                agreed = is_yes(turn.text) or is_choice(asked, turn.text)
            continue
        asked = turn.text if turn.text.strip() else asked
        for call, result in zip(turn.tool_calls, _results(dialogue, number), strict=True):
            text = call_text(call)
            kind = kind_of(call.name, writes, reads)
            failed = result is not None and is_error(result, record=kind == "read")
            told = None if result is None else result.text
            made.append(
                Call(number, call.name, call.arguments, text, kind, told, failed, text in seen, agreed)
            )
            if not (failed and result is not None and is_transient(result)):
                seen.add(text)
    return made


def _results(dialogue: Dialogue, number: int) -> Iterator[Turn | None]:
    """Yield the result of each call of a turn: by its id, else by its place among the results that follow."""
    turns = dialogue.turns
    following: list[Turn] = []
    for turn in turns[number + 1 :]:
        if turn.speaker != "tool":
            break
        following.append(turn)
    by_id = {turn.tool_call_id: turn for turn in following if turn.tool_call_id}
    for place, call in enumerate(turns[number].tool_calls):
        named = by_id.get(call.id) if call.id else None
        yield named or (following[place] if place < len(following) else None)


def values_in(arguments: object) -> Iterator[str]:
    """Yield the plain values in a call's arguments, as text.

    >>> list(values_in({"id": "A1", "items": [{"size": 3}]}))
    ['A1', '3']
    """
    if isinstance(arguments, dict):
        for value in arguments.values():
            yield from values_in(value)
    elif isinstance(arguments, list):
        for value in arguments:
            yield from values_in(value)
    elif isinstance(arguments, str):
        yield arguments
    elif arguments is not None and not isinstance(arguments, bool):
        yield json.dumps(arguments, default=str)
