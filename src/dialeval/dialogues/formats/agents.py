"""Runs of agents and live sessions, which are logged as events: one a record, or a list of them in a record.

OpenAI's Realtime API, traces of Bedrock's agents, OpenHands, smolagents, CrewAI, Voiceflow, Copilot's chat in
VS Code. A format says what an event of it looks like, and how a list of them becomes messages. OpenHands and
Voiceflow's traces were looked up in November 2026; the others are from memory.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from dialeval.dialogues.dialogue import Dialogue
from dialeval.dialogues.formats.records import (
    Joined,
    Lost,
    Record,
    RecordShape,
    assemble,
    at,
    first_of,
    found,
    kept_of,
    parse_messages,
)
from dialeval.dialogues.formats.values import as_text

Events = list[Mapping[str, Any]]
Messages = Iterator[dict[str, Any]]
_HOLDERS = (
    *("events", "history", "trajectory", "steps", "traces", "trace", "logs", "transcript.logs", "requests"),
    "tasks_output",
)


class EventLog(NamedTuple):
    """A log of events: its name, one line about it, keys that mark an event, and how events are read.

    `session` are the paths to what joins events that stand in a record each.
    """

    name: str
    what: str
    marks: tuple[tuple[str, ...], ...]
    messages: Callable[[Events], Messages]
    session: tuple[str, ...] = ()

    def is_event(self, record: object) -> bool:
        """Whether a record is one event: it has all keys of one of the sets."""
        if not isinstance(record, Mapping):
            return False
        return any(all(key in record or at(record, key) is not None for key in keys) for keys in self.marks)

    def held(self, record: Mapping[str, Any]) -> tuple[str, Events]:
        """Return the events that a record holds as a list, and where; none if it holds none."""
        lists = ((key, items) for key in _HOLDERS if isinstance(items := at(record, key), list))
        some = ((key, [one for one in items if isinstance(one, Mapping)]) for key, items in lists)
        return next(((key, items) for key, items in some if any(map(self.is_event, items[:3]))), ("", []))

    def fits(self, record: Record) -> bool:
        """Whether a record is an event, or holds some."""
        return self.is_event(record) or bool(self.held(record)[1])

    def join(self, records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
        """Yield a dialogue for each record that holds events, then one for each session of the others."""
        sessions: dict[str, list[tuple[int, Record]]] = defaultdict(list)
        for number, record in records:
            key, events = self.held(record)
            if not events:
                sessions[str(found(record, *self.session) or "")].append((number, record))
                continue
            rest = {name: one for name, one in record.items() if name != key.partition(".")[0]}
            known = {"id": found(record, "instance_id", "transcript.id", *self.session)}
            yield from self._made(number, {**kept_of(known, "id"), **rest}, events, lost)
        for name, some in sessions.items():
            yield from self._made(some[0][0], {"id": name}, [one for _, one in some], lost)

    def _made(self, number: int, about: Record, events: Events, lost: Lost) -> Iterator[tuple[int, Dialogue]]:
        said = list(self.messages(events))
        models = (one.pop("model_of_all", None) for one in said)
        known = {"model": next(filter(None, models), None)}
        if turns := parse_messages([one for one in said if one]):
            yield number, assemble({**kept_of(known, "model"), **about}, "", turns)
        else:
            lost(number, "a session without a message")


def _call(name: object, given: object, key: object, thought: object = None) -> dict[str, Any]:
    call = {"name": str(name), "arguments": given, "id": None if key is None else str(key)}
    known = {"meta": {"reasoning": thought}} if thought else {}
    return {"role": "assistant", "content": None, "tool_calls": [call], **known}


def _result(said: object, key: object, name: object = None) -> dict[str, Any]:
    made = {"role": "tool", "content": as_text(said), "tool_call_id": None if key is None else str(key)}
    return {**made, **({"name": name} if name else {})}


def _realtime(events: Events) -> Messages:
    """Yield the items of a session; what was said to it in speech is known by a later event."""
    heard = {one.get("item_id"): one["transcript"] for one in events if one.get("transcript")}
    seen: set[Any] = set()
    for event in events:
        session = event.get("session")
        if isinstance(session, Mapping) and event.get("type") == "session.created":
            yield {"model_of_all": session.get("model")}
            if session.get("instructions"):
                yield {"role": "system", "content": session["instructions"]}
        ended = event.get("type") == "response.done"
        items = at(event, "response.output") if ended else [event.get("item")]
        for item in items or ():
            if not isinstance(item, Mapping) or item.get("id") in seen or item.get("type") is None:
                continue
            if not ended and (item.get("role") == "assistant" or item["type"] == "function_call"):
                continue  # not complete yet
            seen.add(item.get("id"))
            words = heard.get(item.get("id"))
            yield {**item, "content": words} if words and item.get("role") else dict(item)


def _bedrock(events: Events) -> Messages:
    """Yield what the steps of an agent say: the question stands in the prompt of the first step."""
    for number, event in enumerate(events):
        step = found(event, "trace.orchestrationTrace", "orchestrationTrace") or {}
        prompt = at(step, "modelInvocationInput.text")
        if isinstance(prompt, Mapping) and _is_new(events[:number]):
            yield from ({"role": "system", "content": one} for one in (prompt.get("system"),) if one)
            yield from [one for one in prompt.get("messages") or () if one.get("role") == "user"][-1:]
        key, called = at(step, "invocationInput.traceId"), at(step, "invocationInput") or {}
        group, base = called.get("actionGroupInvocationInput"), called.get("knowledgeBaseLookupInput")
        if isinstance(group, Mapping):
            given = {one.get("name"): one.get("value") for one in group.get("parameters") or ()}
            yield _call(first_of(group, "function", "apiPath", "actionGroupName"), given, key)
        elif isinstance(base, Mapping):
            yield _call("knowledge_base", {"query": base.get("text")}, key)
        seen = step.get("observation") or {}
        if (said := found(seen, "actionGroupInvocationOutput.text")) is not None:
            yield _result(said, seen.get("traceId"))
        if passages := found(seen, "knowledgeBaseLookupOutput.retrievedReferences"):
            texts = [str(found(one, "content.text") or "") for one in passages]
            yield _result("\n\n".join(texts), seen.get("traceId"))
        if said := found(seen, "finalResponse.text", "repromptResponse.text"):
            yield {"role": "assistant", "content": said}


def _is_new(before: Events) -> bool:
    """Whether what comes next is a question: the first, or one after an answer."""
    steps = [
        one for event in before if (one := found(event, "trace.orchestrationTrace", "orchestrationTrace"))
    ]
    return not steps or bool(at(steps[-1], "observation.finalResponse"))


def _openhands(events: Events) -> Messages:
    for event in events:
        args = event.get("args") if isinstance(event.get("args"), Mapping) else {}
        action, observed, when = event.get("action"), event.get("observation"), kept_of(event, "timestamp")
        said = first_of(args or {}, "content", "final_thought", "thought") or event.get("message")
        if isinstance(event.get("llm_message"), Mapping):
            yield {**event["llm_message"], **when}
        elif isinstance(event.get("tool_call"), Mapping):
            call = event["tool_call"]
            yield _call(first_of(call, "name"), call.get("arguments"), call.get("id")) | when
        elif isinstance(observed, Mapping):
            yield _result(first_of(observed, "content", "output") or "", event.get("tool_call_id"))
        elif action in ("message", "finish", "system"):
            who = {"user": "user", "agent": "assistant"}.get(str(event.get("source")), "system")
            yield {"role": "system" if action == "system" else who, "content": said, **when}
        elif action and event.get("source") == "agent" and action not in ("think", "change_agent_state"):
            given = {key: one for key, one in (args or {}).items() if key in _ARGUMENTS}
            yield _call(action, given, event.get("id"), (args or {}).get("thought")) | when
        elif observed and event.get("cause") is not None and event.get("content") not in (None, ""):
            yield _result(event["content"], event["cause"], observed) | when


_ARGUMENTS = ("command", "code", "path", "content", "url", "browser_actions", "name", "arguments", "old_str")


def _smolagents(steps: Events) -> Messages:
    for number, step in enumerate(steps):
        for who, key in (("system", "system_prompt"), ("user", "task")):
            yield from [{"role": who, "content": step[key]}] if step.get(key) else ()
        final = step.get("is_final_answer") or (number == len(steps) - 1 and step.get("action_output"))
        for call in step.get("tool_calls") or () if not final else ():
            function = call.get("function") if isinstance(call.get("function"), Mapping) else call
            yield _call(function.get("name"), {"code": function.get("arguments")}, call.get("id"))
            failed = at(step, "error.message")
            yield _result(step.get("observations") or failed or "", call.get("id"))
        if final and step.get("action_output") is not None:
            yield {"role": "assistant", "content": as_text(step["action_output"])}


def _atif(steps: Events) -> Messages:
    for step in steps:
        who = {"agent": "assistant"}.get(str(step.get("source")), str(step.get("source")))
        known = {"time": step.get("timestamp"), "model": step.get("model_name")}
        called = step.get("tool_calls") or ()
        for call in called:
            key = call.get("tool_call_id")
            yield _call(call.get("function_name"), call.get("arguments"), key, step.get("message")) | known
        for one in at(step, "observation.results") or ():
            yield _result(one.get("content") or "", one.get("source_call_id"))
        if not called:
            yield {"role": who, "content": as_text(step.get("message") or ""), **known}


def _crewai(tasks: Events) -> Messages:
    for task in tasks:
        yield {"role": "user", "content": task["description"]}
        yield {"role": "assistant", "content": task["raw"], "name": task.get("agent")}


def _voiceflow(events: Events) -> Messages:
    for event in events:
        held = event["data"] if isinstance(event.get("data"), Mapping) else event
        inner = (
            found(held, "payload.payload") if isinstance(at(held, "payload.payload"), str | dict) else held
        )
        inner = inner if isinstance(inner, str) else found(inner or {}, "payload", ".")
        known = {"time": first_of(event, "startTime", "createdAt")}
        asked = "request" in (event.get("type"), event.get("format")) or event.get("type") == "action"
        said = inner if isinstance(inner, str) else first_of(inner, "message", "query", "label", "text")
        if isinstance(said, str) and (asked or held.get("type") in ("text", "speak")):
            yield {"role": "user" if asked else "assistant", "content": said, **known}


def _copilot(requests: Events) -> Messages:
    for one in requests:
        yield {"role": "user", "content": at(one, "message.text"), "time": one.get("timestamp")}
        parts = [part for part in one.get("response") or () if isinstance(part, Mapping)]
        for part in parts:
            if str(part.get("kind")).startswith("toolInvocation"):
                yield _call(first_of(part, "toolId", "toolName"), {}, part.get("toolCallId"))
        texts = (
            found(part, "value.value", "value", "inlineReference.name")
            for part in parts
            if "kind" not in part or part["kind"] in ("markdownContent", "inlineReference")
        )
        known = {"model": one.get("modelId"), "feedback": {1: "up", 0: "down"}.get(one.get("vote", -1))}
        yield {
            "role": "assistant",
            "content": "".join(text for text in texts if isinstance(text, str)),
            **known,
        }


LOGS = (
    EventLog(
        "realtime",
        "OpenAI's Realtime API: the events of a session",
        (("event_id", "session.id"), ("event_id", "item.type"), ("event_id", "response.output")),
        _realtime,
    ),
    EventLog(
        "bedrock-agents",
        "Amazon Bedrock's agents: traces of their steps, joined by session",
        (("sessionId", "trace.orchestrationTrace"), ("orchestrationTrace",)),
        _bedrock,
        ("sessionId",),
    ),
    EventLog(
        "openhands",
        "OpenHands: actions and observations of an agent",
        (("source", "action", "args"), ("source", "observation", "cause"), ("source", "llm_message")),
        _openhands,
    ),
    EventLog(
        "smolagents",
        "smolagents: the steps of an agent's memory",
        (("task", "task_images"), ("step_number", "model_output"), ("step_number", "observations")),
        _smolagents,
    ),
    EventLog(
        "atif",
        "trajectories of Harbor (ATIF): steps with source and message",
        (("step_id", "source", "message"),),
        _atif,
        ("session_id",),
    ),
    EventLog(
        "crewai",
        "CrewAI: tasks_output with description and raw",
        (("description", "raw", "agent"),),
        _crewai,
    ),
    EventLog(
        "voiceflow",
        "Voiceflow's transcripts: traces and requests with a payload",
        (("turnID", "payload", "format"), ("data.type", "data.payload", "createdAt")),
        _voiceflow,
        ("sessionID", "transcriptID"),
    ),
    EventLog(
        "copilot",
        "Copilot's chat in VS Code: requests with message and response",
        (("requestId", "message.text", "response"),),
        _copilot,
        ("sessionId",),
    ),
)
SHAPES = tuple(
    RecordShape(
        one.name,
        one.what,
        (*_HOLDERS[:3], *(key for keys in one.marks for key in keys)),
        one.fits,
        join=one.join,
    )
    for one in LOGS
)
