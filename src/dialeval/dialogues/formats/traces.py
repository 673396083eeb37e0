"""Traces of model calls → conversations: Langfuse, LangSmith, OpenTelemetry GenAI and OpenInference.

A trace is one answer, made of calls: of models, tools and retrievers. Calls of one session, in the order of
their times, are one dialogue. A model call carries the history it was given, so that each message comes again
and again: only what is new is added. Passages of retrievers become evidence of the reply of their trace, tool
spans become steps where the messages hold none. A trace without a session is a dialogue of its own.

Looked up in: Langfuse API v3 and export fields, LangSmith run format, OpenTelemetry semantic conventions 1.37
(and 1.36 with events, OpenLLMetry's `gen_ai.prompt.0.…`), OpenInference 1.x, all as of November 2026.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dialeval.dialogues.dialogue import Dialogue, Passage, Turn, clean_turn
from dialeval.dialogues.formats.messages import decoded, feedback, moment, passages, tool_calls
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

_BY_USERS = re.compile(r"user|thumb|feedback|rating|csat|satisf|resolved|helpful|like|nps", re.IGNORECASE)
_SCORE_COLUMN = re.compile(
    r"feedback|thumb|rating|csat|satisf|resolved|helpful|user[-_ ]score", re.IGNORECASE
)


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
    "GENERATION",
    "SPAN",
    "EVENT",
    "AGENT",
    "TOOL",
    "CHAIN",
    "RETRIEVER",
    "EMBEDDING",
    "EVALUATOR",
)


def _is_langfuse(record: Record) -> bool:
    if isinstance(record.get("trace"), Mapping) and has_list(record, "observations"):
        return True
    if has_list(record, "traces") and isinstance(decoded(record.get("traces")), list):
        return any(_is_langfuse(one) for one in record["traces"][:1] if isinstance(one, dict))
    if str(record.get("type")) in (*_LANGFUSE_TYPES, "GUARDRAIL") and first_of(record, "traceId", "trace_id"):
        return "run_type" not in record
    keys = (
        "sessionId",
        "session_id",
        "userId",
        "user_id",
        "htmlPath",
        "observations",
        "projectId",
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
        call.after = _dated(call.after, time, model)
        call.feedback, call.scores = _rated(decoded(record.get("scores")))
        for key, value in record.items():  # the table has a column for each score
            if _SCORE_COLUMN.search(key) and isinstance(value, str | int | float):
                call.feedback |= feedback(value, _feedback_name(key))
    elif call.kind == "retriever" or _looks_retrieved(call):
        call.kind, call.passages = "retriever", _retrieved(call.returned)
    call.failed = str(record.get("level")) == "ERROR"
    yield call
    for one in decoded(record.get("observations")) or ():
        if isinstance(one, Mapping):
            yield from _langfuse_calls({"traceId": name, "sessionId": session, **one}, number, lost)
        elif not isinstance(one, str):
            lost(number, "an observation that is no object")


def _looks_retrieved(call: Call) -> bool:
    return call.kind == "other" and bool(re.search(r"retriev|search|lookup", call.name or "", re.IGNORECASE))


def _retrieved(found: Any) -> tuple[Passage, ...]:
    if isinstance(found, Mapping):
        inner = first_of(
            found, "documents", "docs", "results", "contexts", "output", "source_documents", "chunks"
        )
        found = inner if isinstance(inner, list) else [found]
    return passages(found)


def _rated(scores: Any) -> tuple[dict[str, float], dict[str, Any]]:
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
        if _BY_USERS.search(name) and str(one.get("source")) != "EVAL":
            by_users |= feedback(value, _feedback_name(name))
        elif value is not None:
            others[name] = value
    return by_users, others


def _feedback_name(name: str) -> str:
    found = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return "feedback" if found in ("user_feedback", "user_score", "feedback", "thumbs", "like") else found


def _dated(turns: list[Turn], time: str, model: object) -> list[Turn]:
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
        call.after = _dated(call.after, time, model or None)
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
        call.feedback, call.scores = _rated(scores)
    elif kind == "retriever":
        call.passages = _retrieved(call.returned)
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


# OpenTelemetry and OpenInference


def _is_span(record: Record) -> bool:
    if has_list(record, "resourceSpans") or has_list(record, "resource_spans"):
        return True
    found = _attributes(record)
    return any(key.startswith(("gen_ai.", "llm.", "openinference.", "traceloop.")) for key in found)


def _join_spans(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    calls = (_span_call(span, number) for number, record in records for span in _spans(record))
    yield from conversations(calls, lost)


def _spans(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    groups = record.get("resourceSpans") or record.get("resource_spans")
    if not isinstance(groups, list):
        yield record
        return
    for group in groups:
        scopes = first_of(group, "scopeSpans", "scope_spans", "instrumentationLibrarySpans") or ()
        for scope in scopes:
            yield from (span for span in scope.get("spans") or () if isinstance(span, Mapping))


def _attributes(span: Mapping[str, Any]) -> dict[str, Any]:
    """Return a span's attributes under flat names, whether typed (OTLP), nested, or flat columns."""
    found = decoded(
        span.get("attributes") or span.get("Attributes") or span.get("SpanAttributes") or span.get("tags")
    )
    made: dict[str, Any] = {}
    if isinstance(found, list):  # OTLP: [{"key": …, "value": {"stringValue": …}}]
        for one in found:
            if isinstance(one, Mapping) and "key" in one:
                made[str(one["key"])] = _typed(one.get("value"))
    elif isinstance(found, Mapping):
        _flatten(found, "", made)
    for key, value in span.items():  # a table with a column for each attribute
        if key.startswith("attributes.") and value is not None:
            _flatten({key.removeprefix("attributes."): decoded(value)}, "", made)
    return made


def _typed(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    for key, inner in value.items():
        if key in ("arrayValue", "array_value"):
            return [_typed(one) for one in (inner or {}).get("values") or ()]
        if key in ("kvlistValue", "kvlist_value"):
            return {one["key"]: _typed(one.get("value")) for one in (inner or {}).get("values") or ()}
        if key.endswith(("Value", "_value")):
            return inner
    return dict(value)


_WHOLE = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "llm.input_messages",
)


def _flatten(found: Mapping[str, Any], prefix: str, made: dict[str, Any]) -> None:
    for key, value in found.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and name not in _WHOLE:
            _flatten(value, f"{name}.", made)
        elif isinstance(value, list) and value and isinstance(value[0], Mapping) and name not in _WHOLE[:3]:
            for place, one in enumerate(value):
                _flatten(one if isinstance(one, Mapping) else {"value": one}, f"{name}.{place}.", made)
        else:
            made[name] = value


def _indexed(found: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Return the objects behind `prefix.0.…`, `prefix.1.…`, with what stands below each."""
    made: dict[int, dict[str, Any]] = defaultdict(dict)
    for key, value in found.items():
        if key.startswith(f"{prefix}."):
            place, _, rest = key.removeprefix(f"{prefix}.").partition(".")
            if place.isdigit() and rest:
                made[int(place)][rest] = value
    return [made[place] for place in sorted(made)]


def _flat_messages(found: Mapping[str, Any], prefix: str, inner: str) -> list[dict[str, Any]]:
    messages = []
    for one in _indexed(found, prefix):
        fields = {key.removeprefix(inner): value for key, value in one.items()}
        parts = [part.get("message_content.text") for part in _indexed(fields, "contents")]
        content = (
            fields.get("content")
            if fields.get("content") is not None
            else "\n".join(filter(None, parts)) or None
        )
        calls = [
            {
                "name": first_of(call, "function.name", "name"),
                "arguments": first_of(call, "function.arguments", "arguments"),
                "id": call.get("id"),
            }
            for raw in _indexed(fields, "tool_calls")
            for call in [{key.removeprefix("tool_call."): value for key, value in raw.items()}]
        ]
        if fields.get("function_call.name"):
            calls.append(
                {"name": fields["function_call.name"], "arguments": fields.get("function_call.arguments")}
            )
        made = {
            "role": fields.get("role")
            or ("assistant" if "completion" in prefix or "output" in prefix else "user"),
            "content": content,
        }
        kept = {key: fields[key] for key in ("name", "tool_call_id", "finish_reason") if fields.get(key)}
        messages.append({**made, **kept, **({"tool_calls": calls} if calls else {})})
    return messages


def _event_messages(span: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the messages in a span's events (conventions up to 1.36): of the input, and of the output."""
    before, after = [], []
    for event in span.get("events") or span.get("Events") or ():
        if not isinstance(event, Mapping):
            continue
        name = str(event.get("name") or event.get("event.name") or "")
        said = decoded(event.get("body"))
        body = {**_attributes(event), **(said if isinstance(said, Mapping) else {})}
        plain = {key.removeprefix("gen_ai.event."): value for key, value in body.items()}
        if name == "gen_ai.choice":
            message = decoded(plain.get("message"))
            inner = (
                dict(message)
                if isinstance(message, Mapping)
                else {"content": message or plain.get("content")}
            )
            inner |= {
                key.removeprefix("message."): value
                for key, value in plain.items()
                if key.startswith("message.")
            }
            after.append({"role": "assistant", "finish_reason": plain.get("finish_reason"), **inner})
        elif name.startswith("gen_ai.") and name.endswith(".message"):
            speaker = name.removeprefix("gen_ai.").removesuffix(".message")
            calls = decoded(plain.get("tool_calls"))
            kept = {"content": plain.get("content"), "tool_call_id": plain.get("id")}
            before.append({"role": speaker, **kept, **({"tool_calls": calls} if calls else {})})
        elif name in ("gen_ai.content.prompt", "gen_ai.content.completion"):
            held = decoded(plain.get("gen_ai.prompt") or plain.get("gen_ai.completion"))
            (before if name.endswith("prompt") else after).extend(held if isinstance(held, list) else ())
        elif name == "gen_ai.client.inference.operation.details":
            before += decoded(plain.get("gen_ai.input.messages")) or []
            after += decoded(plain.get("gen_ai.output.messages")) or []
    return before, after


def _span_call(span: Mapping[str, Any], number: int) -> Call:
    found = _attributes(span)
    context = span.get("context") if isinstance(span.get("context"), Mapping) else {}
    trace = (
        first_of(span, "traceId", "trace_id", "TraceId", "context.trace_id")
        or (context or {}).get("trace_id")
        or (context or {}).get("traceId")
    )
    names = (
        "gen_ai.conversation.id",
        "session.id",
        "langfuse.session.id",
        "traceloop.association.properties.session_id",
        "traceloop.association.properties.conversation_id",
        "traceloop.association.properties.thread_id",
        "conversation.id",
        "thread.id",
    )
    session = first_of(found, *names)
    time = str(
        moment(
            first_of(
                span,
                "startTimeUnixNano",
                "start_time_unix_nano",
                "startTime",
                "start_time",
                "Timestamp",
                "start",
            )
        )
        or ""
    )
    operation = str(
        first_of(found, "gen_ai.operation.name", "llm.request.type", "traceloop.span.kind") or ""
    ).lower()
    kind = str(found.get("openinference.span.kind") or span.get("span_kind") or "").upper()
    call = Call(
        "other",
        number,
        str(trace or f"record {number}"),
        session and str(session),
        time,
        str(span.get("name") or ""),
    )
    before, after = _event_messages(span)
    for key, some in (("gen_ai.input.messages", before), ("gen_ai.output.messages", after)):
        held = decoded(found.get(key))
        some.extend(held if isinstance(held, list) else [])
    before += _flat_messages(found, "gen_ai.prompt", "") + _flat_messages(
        found, "llm.input_messages", "message."
    )
    after += _flat_messages(found, "gen_ai.completion", "") + _flat_messages(
        found, "llm.output_messages", "message."
    )
    prompt = decoded(found.get("gen_ai.system_instructions"))
    if prompt:
        before.insert(0, {"role": "system", "content": prompt})
    call.given = decoded(
        first_of(
            found, "input.value", "gen_ai.tool.call.arguments", "traceloop.entity.input", "tool.parameters"
        )
    )
    call.returned = decoded(
        first_of(found, "output.value", "gen_ai.tool.call.result", "traceloop.entity.output")
    )
    documents = tuple(
        passage
        for one in _indexed(found, "retrieval.documents")
        for passage in passages([{key.removeprefix("document."): value for key, value in one.items()}])
    )
    documents += passages(decoded(found.get("gen_ai.retrieval.documents")))
    if before or after:
        call.kind, call.before, call.after = "model", turns_in(before, "user"), turns_in(after, "assistant")
        reasons = decoded(first_of(found, "gen_ai.response.finish_reasons", "llm.finish_reason"))
        reason = reasons[0] if isinstance(reasons, list) and reasons else reasons
        model = first_of(found, "gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
        call.after = _dated(call.after, time, model)
        if call.after and isinstance(reason, str) and not call.after[-1].finish_reason:
            call.after[-1] = msgspec.structs.replace(call.after[-1], finish_reason=reason)
    elif documents or kind == "RETRIEVER" or operation == "retrieval":
        call.kind, call.passages = "retriever", documents or _retrieved(call.returned)
    elif kind == "TOOL" or operation in ("execute_tool", "tool"):
        call.kind, call.name = (
            "tool",
            first_of(found, "gen_ai.tool.name", "tool.name", "traceloop.entity.name") or call.name,
        )
    elif kind == "LLM" or not first_of(span, "parentSpanId", "parent_span_id", "parent_id", "ParentSpanId"):
        call.kind = "model" if kind == "LLM" else "root"
        call.before, call.after = turns_in(call.given, "user"), turns_in(call.returned, "assistant")
    status = span.get("status")
    call.failed = str(
        status.get("code") if isinstance(status, Mapping) else first_of(span, "status_code", "StatusCode")
    ) in ("2", "STATUS_CODE_ERROR", "ERROR")
    return call


SHAPES = (
    RecordShape(
        "langsmith",
        "LangSmith runs, joined by thread",
        ("run_type", "inputs", "outputs", "trace_id", "dotted_order"),
        _is_langsmith,
        join=_join_langsmith,
    ),
    RecordShape(
        "otel",
        "OpenTelemetry GenAI spans and OpenInference, joined by conversation or session",
        ("resourceSpans", "attributes", "traceId", "spanId", "context"),
        _is_span,
        join=_join_spans,
    ),
    RecordShape(
        "langfuse",
        "Langfuse traces and observations, joined by session",
        ("traceId", "trace_id", "sessionId", "observations", "input", "output", "htmlPath"),
        _is_langfuse,
        join=_join_langfuse,
    ),
)
