"""Spans → conversations: OpenTelemetry GenAI, OpenInference (Phoenix), OpenLLMetry, MLflow traces.

A span is a call of a model, a tool or a retriever (`TraceCall`). Its messages stand in attributes, as JSON
or under numbered names, in events (conventions up to 1.36), in log records beside it, or are what went in and
came out. Looked up in: semantic conventions 1.37, OpenInference 1.x, names of MLflow 3's attributes, as of
November 2026; log records, Phoenix's annotations and MLflow's assessments are from memory.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from dialeval.dialogues.formats.chats import messages_in
from dialeval.dialogues.formats.records import (
    Joined,
    Lost,
    Record,
    RecordShape,
    at,
    first_of,
    has_list,
    turns_in,
)
from dialeval.dialogues.formats.traces import TraceCall, conversations, dated, rated, retrieved, told_apart
from dialeval.dialogues.formats.values import decoded, moment, passages

_PREFIXES = ("gen_ai.", "llm.", "openinference.", "traceloop.", "mlflow.span", "ai.prompt", "ai.response.")
_SESSIONS = (
    *("gen_ai.conversation.id", "session.id", "langfuse.session.id", "conversation.id", "thread.id"),
    *(f"traceloop.association.properties.{name}_id" for name in ("session", "conversation", "thread")),
    *(f"ai.telemetry.metadata.{name}Id" for name in ("session", "conversation", "thread", "chat")),
    "mlflow.trace.session",
)
_TRACES = (
    *("traceId", "traceID", "trace_id", "TraceId", "context.trace_id", "context.traceId"),
    *("mlflow.traceRequestId", "operation_Id", "OperationId"),
)
_STARTS = (
    *("startTimeUnixNano", "start_time_unix_nano", "start_time_ns", "startTime", "start_time", "Timestamp"),
    *("start", "timeUnixNano", "timestamp", "timestamp [UTC]", "TimeGenerated"),
)
_PARENTS = ("parentSpanId", "parent_span_id", "parent_id", "ParentSpanId", "operation_ParentId")
_ATTRIBUTES = (
    *("attributes", "Attributes", "SpanAttributes", "tags", "fields"),
    *("customDimensions", "customdimensions", "Properties"),  # Azure's Application Insights
)
_GROUPS = ("resourceSpans", "resource_spans", "resourceLogs", "batches")  # the last of Grafana's Tempo
_KINDS = ("openinference.span.kind", "mlflow.spanType")
_GIVEN = (
    *("input.value", "gen_ai.tool.call.arguments", "traceloop.entity.input", "tool.parameters"),
    *("mlflow.spanInputs", "ai.toolCall.args", "ai.toolCall.input", "ai.prompt"),
)
_RETURNED = (
    *("output.value", "gen_ai.tool.call.result", "traceloop.entity.output", "mlflow.spanOutputs"),
    *("ai.toolCall.result", "ai.toolCall.output", "ai.response.text"),
)
_MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "mlflow.llm.model")
_FAILED = ("2", "STATUS_CODE_ERROR", "ERROR")


def _is_span(record: Record) -> bool:
    if any(has_list(record, key) for key in _GROUPS[:3]) or has_list(record, "batches", "resource"):
        return True
    spans = record.get("spans")
    if _is_mlflow(record) or (isinstance(spans, list) and any(map(_is_span, spans[:100]))):
        return True
    return any(key.startswith(_PREFIXES) for key in _attributes(record))


def _is_mlflow(record: Mapping[str, Any]) -> bool:
    return isinstance(at(record, "data.spans"), list) and isinstance(record.get("info"), Mapping)


def _join_spans(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    calls = (_span_call(span, number, lost) for number, record in records for span in _spans(record))
    yield from conversations(calls, lost)


def _spans(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if _is_mlflow(record):
        yield from _mlflow_spans(record)
        return
    groups = first_of(record, *_GROUPS)
    if not isinstance(groups, list):
        held = record.get("spans")
        yield from map(_plain_span, held) if isinstance(held, list) else (record,)
        return
    for group in groups:
        names = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "scopeLogs")
        for scope in first_of(group, *names) or ():
            yield from (span for span in scope.get("spans") or () if isinstance(span, Mapping))
            yield from _logged_spans(scope.get("logRecords") or ())


def _plain_span(span: Mapping[str, Any]) -> dict[str, Any]:
    """Return a span of Jaeger with its parent and its events under the usual names."""
    above = [one.get("spanID") for one in span.get("references") or () if one.get("refType") == "CHILD_OF"]
    parent = {"parentSpanId": above[0]} if above else {}
    said = [{"name": _attributes(one).get("event"), **one} for one in span.get("logs") or ()]
    return {"name": span.get("operationName"), "events": said, **parent, **span}


def _logged_spans(entries: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Put the log records of a span together: newer conventions log its messages as events beside it."""
    spans: dict[tuple[Any, Any], dict[str, Any]] = {}
    for one in entries:
        if isinstance(one, Mapping):
            key = one.get("traceId"), one.get("spanId")
            spans.setdefault(key, {**one, "events": []})["events"].append(
                {**one, "name": one.get("eventName") or _attributes(one).get("event.name")}
            )
    yield from spans.values()


def _mlflow_spans(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the spans of an MLflow trace; what is known of the trace goes to its root."""
    info = record["info"]
    about = {**(info.get("request_metadata") or {}), **(info.get("trace_metadata") or {})}
    name = first_of(info, "trace_id", "request_id")
    for span in at(record, "data.spans"):
        root = first_of(span, *_PARENTS) is None
        known = {key: decoded_text(value) for key, value in _attributes(span).items()}
        rows = [_assessed(one) for one in info.get("assessments") or () if isinstance(one, Mapping)]
        extra = {"annotations": rows} if root else {}
        yield {**span, **extra, "attributes": {**about, **known}, "trace_id": name}


def _assessed(one: Mapping[str, Any]) -> dict[str, Any]:
    name = first_of(one, "assessment_name", "name")
    made = {"name": name, "annotator_kind": at(one, "source.source_type")}
    return {**made, "result": {"score": at(one, "feedback.value")}}


def decoded_text(found: object) -> Any:
    """Return what JSON in a text holds, a text in quotes too.

    >>> decoded_text('"AGENT"')
    'AGENT'
    """
    if isinstance(found, str) and found[:1] == '"':
        try:
            return msgspec.json.decode(found)
        except msgspec.DecodeError:
            return found
    return found


def _attributes(span: Mapping[str, Any]) -> dict[str, Any]:
    """Return a span's attributes under flat names, whether typed (OTLP), nested, or flat columns."""
    found = decoded(next((span[key] for key in _ATTRIBUTES if span.get(key)), None))
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


_HISTORIES = ("pydantic_ai.all_messages", "all_messages_events")
_WHOLE = (
    *_HISTORIES,
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
        elif isinstance(value, list) and value and isinstance(value[0], Mapping) and name not in _WHOLE[:-1]:
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


def _flat_messages(found: Mapping[str, Any], prefix: str, inner: str = "") -> list[dict[str, Any]]:
    messages = []
    for one in _indexed(found, prefix):
        fields = {key.removeprefix(inner): value for key, value in one.items()}
        parts = [_stripped(part, "message_content.") for part in _indexed(fields, "contents")]
        content = fields.get("content")
        raw = (_stripped(call, "tool_call.") for call in _indexed(fields, "tool_calls"))
        calls = [_flat_call(call, call.get("id")) for call in raw]
        if fields.get("function_call.name"):
            calls.append(_flat_call(_stripped(fields, "function_call."), None))
        side = "assistant" if "completion" in prefix or "output" in prefix else "user"
        made = {
            "role": fields.get("role") or side,
            "content": content if content is not None else parts or None,
        }
        kept = {key: fields[key] for key in ("name", "tool_call_id", "finish_reason") if fields.get(key)}
        messages.append({**made, **kept, **({"tool_calls": calls} if calls else {})})
    return messages


def _stripped(found: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {key.removeprefix(prefix): value for key, value in found.items()}


def _flat_call(call: Mapping[str, Any], key: object) -> dict[str, Any]:
    given = first_of(call, "function.arguments", "arguments")
    return {"name": first_of(call, "function.name", "name"), "arguments": given, "id": key}


def _event_messages(span: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the messages in a span's events (conventions up to 1.36): of the input, and of the output."""
    before: list[dict[str, Any]] = []
    after: list[dict[str, Any]] = []
    for event in span.get("events") or span.get("Events") or ():
        if not isinstance(event, Mapping):
            continue
        name = str(event.get("name") or event.get("event.name") or "")
        said = _typed(decoded(event.get("body")))
        body = {**_attributes(event), **(said if isinstance(said, Mapping) else {})}
        plain = _stripped(body, "gen_ai.event.")
        whole = decoded(plain.get("content"))  # Azure: all of the body as JSON in one attribute
        plain |= whole if isinstance(whole, Mapping) else {}
        if name == "gen_ai.choice":
            message = decoded(plain.get("message"))
            said = message or _blocks(plain.get("content"))
            spoken = message if isinstance(message, Mapping) else {"content": said}
            parts = {key: value for key, value in plain.items() if key.startswith("message.")}
            known = {"role": "assistant", "finish_reason": plain.get("finish_reason")}
            after.append({**known, **spoken, **_stripped(parts, "message.")})
        elif name.startswith("gen_ai.") and name.endswith(".message"):
            speaker = name.removeprefix("gen_ai.").removesuffix(".message")
            calls = decoded(plain.get("tool_calls"))
            kept = {"content": _blocks(plain.get("content")), "tool_call_id": plain.get("id")}
            before.append({"role": speaker, **kept, **({"tool_calls": calls} if calls else {})})
        elif name in ("gen_ai.content.prompt", "gen_ai.content.completion"):
            held = decoded(plain.get("gen_ai.prompt") or plain.get("gen_ai.completion"))
            (before if name.endswith("prompt") else after).extend(held if isinstance(held, list) else ())
        elif name == "gen_ai.client.inference.operation.details":
            before += decoded(plain.get("gen_ai.input.messages")) or []
            after += decoded(plain.get("gen_ai.output.messages")) or []
    return before, after


def _blocks(content: object) -> object:
    """Return a content that is a list of blocks as JSON (Strands) as that list."""
    held = decoded(content)
    return held if isinstance(held, list) and all(isinstance(one, Mapping) for one in held) else content


def _messages(span: Mapping[str, Any], found: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Return the messages that went into a call of a model, and those that came out."""
    before, after = _event_messages(span)
    for key, some in (("gen_ai.input.messages", before), ("gen_ai.output.messages", after)):
        held = decoded(found.get(key))
        some.extend(held if isinstance(held, list) and not some else [])
    before += _flat_messages(found, "gen_ai.prompt") + _flat_messages(found, "llm.input_messages", "message.")
    after += _flat_messages(found, "gen_ai.completion")
    after += _flat_messages(found, "llm.output_messages", "message.")
    before += next((held for key in _HISTORIES if (held := decoded(found.get(key)))), [])  # Logfire
    asked, answer = (decoded(found.get(f"gcp.vertex.agent.llm_{side}")) for side in ("request", "response"))
    if isinstance(asked, Mapping) and not (before or after):  # Google's ADK
        prompt = at(asked, "config.system_instruction")
        before += messages_in({**asked, "system_instruction": prompt})
        after += messages_in(answer, "assistant")
    if "ai.prompt.messages" in found:  # Vercel's AI SDK
        before += decoded(found["ai.prompt.messages"])
        calls = decoded(found.get("ai.response.toolCalls"))
        answer = {"role": "assistant", "content": found.get("ai.response.text"), "tool_calls": calls}
        after.append({key: value for key, value in answer.items() if value is not None or key == "content"})
    prompt = decoded(found.get("gen_ai.system_instructions"))
    if prompt:
        before.insert(0, {"role": "system", "content": prompt})
    return before, after


def _is_choice(message: object) -> bool:
    return isinstance(message, Mapping) and bool(message.get("finish_reason"))


def _documents(found: dict[str, Any]) -> tuple[Any, ...]:
    held = (_stripped(one, "document.") for one in _indexed(found, "retrieval.documents"))
    return (
        *(passage for one in held for passage in passages([one])),
        *passages(decoded(found.get("gen_ai.retrieval.documents"))),
    )


def _span_call(span: Mapping[str, Any], number: int, lost: Lost) -> TraceCall:
    found = _attributes(span)
    trace = next((name for key in _TRACES if (name := at(span, key) or found.get(key))), f"record {number}")
    session, time = first_of(found, *_SESSIONS), str(moment(first_of(span, *_STARTS)) or "")
    call = TraceCall("other", number, str(trace), session and str(session), time, str(span.get("name") or ""))
    kind = str(first_of(found, *_KINDS) or span.get("span_kind") or "").upper()
    operation = first_of(found, "gen_ai.operation.name", "llm.request.type", "traceloop.span.kind")
    tools = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name")
    call.given, call.returned = (decoded(first_of(found, *keys)) for keys in (_GIVEN, _RETURNED))
    (before, after), documents = _messages(span, found), _documents(found)
    if len(after) > 1 and all(map(_is_choice, after)):  # answers to choose from, each with its reason to end
        lost(number, "choices after the first")
        after = after[:1]
    if operation == "execute_tool" and (before or after):  # what went in and came out, as messages
        call.given = decoded(before[0].get("content")) if before else call.given
        call.returned = turns_in(after, "tool")[-1].text if after else call.returned
        before, after = [], []
    if before or after:
        call.kind, call.before, call.after = "model", turns_in(before, "user"), turns_in(after, "assistant")
        call.kind = "root" if operation == "invoke_agent" and not first_of(span, *_PARENTS) else "model"
        _end(call, found)
    elif documents or kind == "RETRIEVER" or operation == "retrieval":
        call.kind, call.passages = "retriever", documents or retrieved(call.returned)
    elif kind == "TOOL" or str(operation).lower() in ("execute_tool", "tool") or "ai.toolCall.name" in found:
        call.kind, call.name = "tool", first_of(found, *tools) or call.name
    elif kind in ("LLM", "CHAT_MODEL") or not first_of(span, *_PARENTS):
        call.kind = "model" if kind in ("LLM", "CHAT_MODEL") else "root"
        call.before, call.after = told_apart(
            turns_in(call.given, "user"), turns_in(call.returned, "assistant")
        )
        _end(call, found)
    rows = [_annotated(one) for one in span.get("annotations") or () if isinstance(one, Mapping)]
    events = (one for one in span.get("events") or () if isinstance(one, Mapping))
    judged = (_attributes(one) for one in events if one.get("name") == "gen_ai.evaluation.result")
    rows += [
        {"name": one.get("name"), "value": first_of(one, "score.value", "score.label")}
        for one in (_stripped(some, "gen_ai.evaluation.") for some in judged)
    ]
    call.feedback, call.scores = rated(rows)
    code = at(span, "status.code") or first_of(span, "status_code", "StatusCode")
    call.failed = str(code) in _FAILED
    return call


def _end(call: TraceCall, found: dict[str, Any]) -> None:
    """Say which model wrote the replies of a call, when, and why the last one ended."""
    names = ("gen_ai.response.finish_reasons", "llm.finish_reason", "ai.response.finishReason")
    reasons = decoded(first_of(found, *names))
    reason = reasons[0] if isinstance(reasons, list) and reasons else reasons
    call.after = dated(call.after, call.time, first_of(found, *_MODELS))
    if call.after and isinstance(reason, str) and not call.after[-1].finish_reason:
        call.after[-1] = msgspec.structs.replace(call.after[-1], finish_reason=reason)


def _annotated(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return an annotation of Phoenix as a score: people's and models' are told apart by who made them."""
    result = one.get("result") if isinstance(one.get("result"), Mapping) else one
    value = first_of(result or {}, "score", "label")
    return {"name": one.get("name"), "value": value, "source": one.get("annotator_kind")}


SHAPES = (
    RecordShape(
        "otel",
        "OpenTelemetry GenAI spans, OpenInference and MLflow traces, joined by conversation or session",
        ("resourceSpans", "attributes", "traceId", "spanId", "context"),
        _is_span,
        join=_join_spans,
    ),
)
