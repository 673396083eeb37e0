"""Traces of model calls → conversations, and those of Langfuse and LangSmith.

A trace is one answer, made of calls: of models, tools and retrievers. Calls of one session, in the order of
their times, are one dialogue. A model call carries the history it was given, so that each message comes again
and again: only what is new is added. Passages of retrievers become evidence of the reply of their trace, tool
spans become steps where the messages hold none. A trace without a session is a dialogue of its own.

Looked up in: Langfuse API v3 and export fields, LangSmith run format, both as of November 2026.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dialeval.dialogues.dialogue import Dialogue, Passage, Turn, clean_turn
from dialeval.dialogues.formats.records import (
    Joined,
    Lost,
    Record,
    RecordShape,
    checked_calls,
    first_of,
    has_list,
    turns_in,
)
from dialeval.dialogues.formats.values import (
    decoded,
    feedback,
    feedback_in,
    feedback_name,
    moment,
    passages,
    plain_name,
    tool_calls,
)

_BY_MODELS = ("EVAL", "LLM", "CODE", "LLM_JUDGE", "AI_JUDGE")
_BY_USERS = re.compile(r"user|thumb|feedback|rating|csat|satisf|resolved|helpful|like|nps", re.IGNORECASE)


@dataclass(slots=True)
class Call:
    """One call of a trace: of a model, a tool or a retriever, or the trace itself (`root`)."""

    kind: str
    line: int
    trace: str
    session: str | None = None
    time: str = ""
    name: str | None = None
    before: list[Turn] = field(default_factory=list)
    after: list[Turn] = field(default_factory=list)
    passages: tuple[Passage, ...] = ()
    given: Any = None
    returned: Any = None
    feedback: dict[str, float] = field(default_factory=dict)
    scores: dict[str, Any] = field(default_factory=dict)
    failed: bool = False


def conversations(calls: Iterable[Call], lost: Lost) -> Joined:
    """Yield the dialogues that calls make up, each with the line of its first call."""
    traces: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        traces[call.trace].append(call)
    sessions: dict[str, list[list[Call]]] = defaultdict(list)
    for name, some in traces.items():
        session = next((call.session for call in some if call.session), None)
        sessions[f"session {session}" if session else f"trace {name}"].append(some)
    for key, several in sessions.items():
        several.sort(key=lambda some: min(call.time for call in some))
        kind, _, name = key.partition(" ")
        made = _conversation(name, several, lost)
        if made.turns and kind == "trace":
            made.meta["trace"] = name
            made.meta.setdefault("note", "no session: the trace is a dialogue of its own")
        line = min(call.line for some in several for call in some)
        if made.turns:
            yield line, made
        else:
            lost(line, f"no message in {key}")


def _conversation(name: str, several: list[list[Call]], lost: Lost) -> Dialogue:
    turns: list[Turn] = []
    found: dict[str, float] = {}
    meta: dict[str, Any] = {}
    models = []
    for calls in several:
        calls.sort(key=lambda call: call.time)
        new = _answer(calls, lost)
        turns = _continued(turns, new)
        given = {key: value for call in calls for key, value in call.feedback.items()}
        last = next(
            (place for place in reversed(range(len(turns))) if turns[place].speaker == "assistant"), None
        )
        if last is not None:
            turns[last] = _of_trace(turns[last], calls[0].trace)
        if given and last is not None:
            turns[last] = msgspec.structs.replace(turns[last], feedback={**turns[last].feedback, **given})
        elif given:
            found |= given
        for call in calls:
            meta |= {"scores": {**meta.get("scores", {}), **call.scores}} if call.scores else {}
        models += [turn.model for turn in new if turn.model]
    system = models[-1] if models else None
    return Dialogue(name, tuple(checked_calls(turns)), system, {}, meta, None, (), found)


def _of_trace(turn: Turn, name: str) -> Turn:
    """Keep which trace a reply is of, so that its scores find the way back."""
    return msgspec.structs.replace(turn, meta={**turn.meta, "trace": name})


def _answer(calls: list[Call], lost: Lost) -> list[Turn]:
    """Return what was said in one trace: the chain of its model calls, or what stands at its root."""
    chain: list[Turn] = []
    models = [call for call in calls if call.kind == "model" and (call.before or call.after)]
    roots = [call for call in calls if call.kind == "root" and (call.before or call.after)]
    final = _last_said(roots[0].after) if roots else None
    for place, call in enumerate(models):
        said = _last_said(call.after)
        later = (turn for other in models[place + 1 :] for turn in other.before)
        carried = any(_key(turn) == _key(one) for turn in later for one in call.after)
        if place < len(models) - 1 and not carried and said != final and len(models) > 1:
            lost(call.line, "a model call beside the conversation")
            continue
        chain = _continued(chain, [*call.before, *call.after])
    if not chain and roots:
        chain = [*roots[0].before, *roots[0].after]
    if roots and final and not any(turn.text.strip() == final for turn in chain):
        chain = _continued(chain, roots[0].after)
    return _with_evidence(_with_tools(chain, calls), calls)


def _last_said(turns: list[Turn]) -> str | None:
    return next((turn.text.strip() for turn in reversed(turns) if turn.text.strip()), None)


def _with_tools(chain: list[Turn], calls: list[Call]) -> list[Turn]:
    """Put tool spans before the last reply as steps, where the messages hold no tool calls."""
    spans = [call for call in calls if call.kind == "tool"]
    if not spans or any(turn.tool_calls or turn.speaker == "tool" for turn in chain):
        return chain
    steps: list[Turn] = []
    for number, call in enumerate(spans):
        name, key = call.name or "tool", f"{call.trace}-{number}"
        made = tool_calls(
            {"name": name, "arguments": call.given if call.given is not None else {}, "id": key}
        )
        steps.append(Turn("assistant", "", tool_calls=made))
        result = call.returned if isinstance(call.returned, str) else _json(call.returned)
        meta = {"is_error": True} if call.failed else {}
        steps.append(msgspec.structs.replace(clean_turn("tool", result, meta), tool_call_id=key, name=name))
    at = next(
        (place for place in reversed(range(len(chain))) if chain[place].speaker == "assistant"), len(chain)
    )
    return [*chain[:at], *steps, *chain[at:]]


def _json(value: object) -> str:
    return "" if value is None else msgspec.json.encode(value).decode()


def _with_evidence(chain: list[Turn], calls: list[Call]) -> list[Turn]:
    found = tuple(passage for call in calls if call.kind == "retriever" for passage in call.passages)
    last = next((place for place in reversed(range(len(chain))) if chain[place].speaker == "assistant"), None)
    if found and last is not None:
        chain[last] = msgspec.structs.replace(chain[last], evidence=(*chain[last].evidence, *found))
    return chain


def _key(turn: Turn) -> tuple[Any, ...]:
    calls = tuple((call.name, _json(call.arguments)) for call in turn.tool_calls)
    return turn.speaker, turn.text.strip(), calls


def _continued(turns: list[Turn], new: list[Turn]) -> list[Turn]:
    """Add what is new in a history to what is known: its start may be what was said last, or be left out."""
    prompts = {_key(turn) for turn in turns if turn.speaker == "system"}
    if prompts:
        new = [turn for turn in new if turn.speaker != "system"]
    told = [place for place, turn in enumerate(turns) if turn.speaker != "system"]
    old, keys = [_key(turns[place]) for place in told], [_key(turn) for turn in new]
    overlap = next((n for n in range(min(len(old), len(keys)), 0, -1) if old[-n:] == keys[:n]), 0)
    return [*turns, *new[overlap:]]


# Langfuse

_LANGFUSE_TYPES = (
    *("GENERATION", "SPAN", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EMBEDDING", "EVALUATOR"),
    "GUARDRAIL",
)


def _is_langfuse(record: Record) -> bool:
    if isinstance(record.get("trace"), Mapping) and has_list(record, "observations"):
        return True
    if has_list(record, "traces") and isinstance(decoded(record.get("traces")), list):
        return all("input" in one and "output" in one for one in decoded(record["traces"])[:1])
    if str(record.get("type")) in _LANGFUSE_TYPES and first_of(record, "traceId", "trace_id"):
        return "run_type" not in record
    keys = (
        *("sessionId", "session_id", "userId", "user_id", "htmlPath", "observations", "projectId"),
        "project_id",
    )
    about = ("timestamp", "release", "bookmarked", "environment", "totalCost", "latency", "scores")
    return (
        ("input" in record and "output" in record)
        and any(key in record for key in keys)
        and any(key in record for key in about)
        and "run_type" not in record
    )


def _join_langfuse(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    calls: list[Call] = []
    for number, record in records:
        calls += _langfuse_calls(record, number, lost)
    yield from conversations(calls, lost)


def _langfuse_calls(record: Mapping[str, Any], number: int, lost: Lost) -> Iterator[Call]:
    if isinstance(decoded(record.get("traces")), list):
        for one in decoded(record["traces"]):
            if isinstance(one, Mapping):
                yield from _langfuse_calls({"sessionId": record.get("id"), **one}, number, lost)
        return
    if isinstance(record.get("trace"), Mapping):
        inner = {**record["trace"], "observations": record.get("observations")}
        yield from _langfuse_calls({"scores": record.get("scores"), **inner}, number, lost)
        return
    trace = first_of(record, "traceId", "trace_id")
    kind = str(record.get("type") or "") if trace else "TRACE"
    session = first_of(record, "sessionId", "session_id")
    name = str(trace or record.get("id") or f"record {number}")
    time = moment(first_of(record, "startTime", "start_time", "timestamp", "createdAt", "created_at")) or ""
    kinds = {"TRACE": "root", "GENERATION": "model", "TOOL": "tool", "RETRIEVER": "retriever"}
    call = Call(kinds.get(kind, "other"), number, name, session and str(session), time, record.get("name"))
    call.given, call.returned = decoded(record.get("input")), decoded(record.get("output"))
    if call.kind in ("root", "model"):
        call.before, call.after = turns_in(call.given, "user"), turns_in(call.returned, "assistant")
        model = first_of(record, "model", "providedModelName", "provided_model_name", "internalModel")
        call.after = dated(call.after, time, model)
        call.feedback, call.scores = rated(decoded(record.get("scores")))
        call.feedback |= feedback_in(record)  # the table has a column for each score
    elif call.kind == "retriever" or _looks_retrieved(call):
        call.kind, call.passages = "retriever", retrieved(call.returned)
    call.failed = str(record.get("level")) == "ERROR"
    yield call
    for one in decoded(record.get("observations")) or ():
        if isinstance(one, Mapping):
            yield from _langfuse_calls({"traceId": name, "sessionId": session, **one}, number, lost)
        elif not isinstance(one, str):
            lost(number, "an observation that is no object")


def _looks_retrieved(call: Call) -> bool:
    return call.kind == "other" and bool(re.search(r"retriev|search|lookup", call.name or "", re.IGNORECASE))


def retrieved(found: Any) -> tuple[Passage, ...]:
    """Return the passages among what a retriever returned."""
    if isinstance(found, Mapping):
        inner = first_of(
            found, "documents", "docs", "results", "contexts", "output", "source_documents", "chunks"
        )
        found = inner if isinstance(inner, list) else [found]
    return passages(found)


def rated(scores: Any) -> tuple[dict[str, float], dict[str, Any]]:
    """Return what users said, and what evaluators did; Langfuse keeps both as scores."""
    by_users: dict[str, float] = {}
    others: dict[str, Any] = {}
    if isinstance(scores, Mapping):
        scores = [{"name": key, "value": value} for key, value in scores.items()]
    for one in scores if isinstance(scores, list) else ():
        if not isinstance(one, Mapping):
            continue
        name, value = str(one.get("name")), first_of(one, "value", "stringValue", "string_value")
        value = value[0] if isinstance(value, list) and value else value
        if _BY_USERS.search(name) and str(one.get("source")).upper() not in _BY_MODELS:
            by_users |= feedback(value, feedback_name(name) or plain_name(name))
        elif value is not None:
            others[name] = value
    return by_users, others


def dated(turns: list[Turn], time: str, model: object) -> list[Turn]:
    """Return turns with their time and model, where they have none of their own."""
    known = {"time": time or None, "model": model if isinstance(model, str) else None}
    return [
        msgspec.structs.replace(
            turn, **{key: value for key, value in known.items() if value and not getattr(turn, key)}
        )
        for turn in turns
    ]


# LangSmith


def _is_langsmith(record: Record) -> bool:
    return "run_type" in record and "inputs" in record


def _join_langsmith(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    calls: list[Call] = []
    for number, record in records:
        calls += _langsmith_calls(record, number, None)
    yield from conversations(calls, lost)


def _langsmith_calls(run: Mapping[str, Any], number: int, thread: str | None) -> Iterator[Call]:
    extra = decoded(run.get("extra"))
    about = extra.get("metadata") if isinstance(extra, Mapping) else None
    about = about if isinstance(about, Mapping) else decoded(run.get("metadata"))
    names = ("thread_id", "session_id", "conversation_id")
    thread = (isinstance(about, Mapping) and first_of(about, *names)) or run.get("thread_id") or thread
    trace = str(run.get("trace_id") or run.get("id") or f"record {number}")
    root = not (run.get("parent_run_id") or run.get("parent_run_ids"))
    kinds = {"llm": "model", "tool": "tool", "retriever": "retriever"}
    kind = kinds.get(str(run.get("run_type")), "root" if root else "other")
    time = str(moment(run.get("start_time")) or run.get("dotted_order") or "")
    call = Call(kind, number, trace, thread and str(thread), time, run.get("name"))
    call.given, call.returned = decoded(run.get("inputs")), decoded(run.get("outputs"))
    if kind in ("root", "model"):
        call.before = turns_in(call.given, "user")
        call.after = _only_new(call)
        model = isinstance(about, Mapping) and first_of(about, "ls_model_name", "model_name", "model")
        call.after = dated(call.after, time, model or None)
        stats = decoded(run.get("feedback_stats"))
        rows = decoded(run.get("feedback"))
        scores = (
            [{"name": one.get("key"), "value": first_of(one, "score", "value")} for one in rows or ()]
            if isinstance(rows, list)
            else []
        )
        scores += [
            {"name": key, "value": value.get("avg") if isinstance(value, Mapping) else value}
            for key, value in (stats.items() if isinstance(stats, Mapping) else ())
        ]
        call.feedback, call.scores = rated(scores)
    elif kind == "retriever":
        call.passages = retrieved(call.returned)
    else:
        given = call.given.get("input", call.given) if isinstance(call.given, Mapping) else call.given
        call.given = decoded(given)
        call.returned = (
            call.returned.get("output", call.returned)
            if isinstance(call.returned, Mapping)
            else call.returned
        )
        if isinstance(call.returned, Mapping) and isinstance(call.returned.get("content"), str):
            call.returned = call.returned["content"]
    call.failed = bool(run.get("error"))
    yield call
    for one in run.get("child_runs") or ():
        if isinstance(one, Mapping):
            yield from _langsmith_calls(
                {"parent_run_id": run.get("id"), "trace_id": trace, **one}, number, thread and str(thread)
            )


def _only_new(call: Call) -> list[Turn]:
    """Return the outputs of a run without the inputs, which graphs put in front of them."""
    after = turns_in(call.returned, "assistant")
    keys, given = [_key(turn) for turn in after], [_key(turn) for turn in call.before]
    return after[len(given) :] if given and keys[: len(given)] == given else after


SHAPES = (
    RecordShape(
        "langsmith",
        "LangSmith runs, joined by thread",
        ("run_type", "inputs", "outputs", "trace_id", "dotted_order"),
        _is_langsmith,
        join=_join_langsmith,
    ),
    RecordShape(
        "langfuse",
        "Langfuse traces and observations, joined by session",
        ("traceId", "trace_id", "sessionId", "observations", "input", "output", "htmlPath"),
        _is_langfuse,
        join=_join_langfuse,
    ),
)
