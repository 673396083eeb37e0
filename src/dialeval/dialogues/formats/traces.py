"""Traces of model calls → conversations, and those of Langfuse and LangSmith.

A trace is one answer, made of calls: of models, tools and retrievers. Calls of one session, in the order of
their times, are one dialogue. A model call carries the history it was given, so that each message comes again
and again: only what is new is added. Passages of retrievers become evidence of the reply of their trace, tool
spans become steps where the messages hold none. A trace without a session is a dialogue of its own.

Looked up in: Langfuse API v3 and export fields, LangSmith run format, both as of November 2026.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dialeval.dialogues.dialogue import Dialogue, Passage, Turn, clean_turn
from dialeval.dialogues.formats.chats import is_messages
from dialeval.dialogues.formats.records import (
    Joined,
    Lost,
    Record,
    RecordShape,
    at,
    checked_calls,
    described,
    first_of,
    found,
    has_list,
    turns_in,
)
from dialeval.dialogues.formats.values import (
    decoded,
    feedback,
    feedback_in,
    feedback_name,
    instant,
    moment,
    passages,
    plain_name,
    reactions,
    tool_calls,
)

_UNNAMED = re.compile(r"record \d+")  # a record without an id: its content is its name
_BY_MODELS = ("EVAL", "LLM", "CODE", "LLM_JUDGE", "AI_JUDGE", "ONLINE_SCORING")
_BY_USERS = re.compile(r"user|thumb|feedback|rating|csat|satisf|resolved|helpful|like|nps", re.IGNORECASE)


@dataclass(slots=True)
class TraceCall:
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
    meta: dict[str, Any] = field(default_factory=dict)


def conversations(calls: Iterable[TraceCall], lost: Lost, *, single: bool = False) -> Joined:
    """Yield the dialogues that calls make up, each with the line of its first call.

    Args:
        calls: Those of one trace need not stand together.
        lost: Told what is in no dialogue.
        single: Whether it is usual that a trace belongs to no session.
    """
    traces: dict[str, list[TraceCall]] = defaultdict(list)
    for call in calls:
        traces[call.trace].append(call)
    sessions: dict[str, list[list[TraceCall]]] = defaultdict(list)
    for name, some in traces.items():
        session = next((call.session for call in some if call.session), None)
        sessions[f"session {session}" if session else f"trace {name}"].append(some)
    for key, several in sessions.items():
        several.sort(key=lambda some: min(instant(call.time) for call in some))
        kind, _, name = key.partition(" ")
        made = _conversation("" if _UNNAMED.fullmatch(name) else name, several, lost)
        if made.turns and kind == "trace":
            made.meta.update(several[0][0].meta)
            if not single:
                made.meta["trace"] = name
                made.meta.setdefault("note", "no session: the trace is a dialogue of its own")
        line = min(call.line for some in several for call in some)
        if made.turns:
            yield line, made
        else:
            lost(line, f"no message in {key}")


def _conversation(name: str, several: list[list[TraceCall]], lost: Lost) -> Dialogue:
    turns: list[Turn] = []
    found: dict[str, float] = {}
    meta: dict[str, Any] = {}
    models = []
    for calls in several:
        calls.sort(key=lambda call: instant(call.time))
        new, known = _answer(calls, lost), len(turns)
        turns = _continued(turns, new)
        given = {key: value for call in calls for key, value in call.feedback.items()}
        last = next((n for n in reversed(range(known, len(turns))) if turns[n].speaker == "assistant"), None)
        if last is not None and not _UNNAMED.fullmatch(calls[0].trace):
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


def _answer(calls: list[TraceCall], lost: Lost) -> list[Turn]:
    """Return what was said in one trace: the chain of its model calls, or what stands at its root."""
    chain: list[Turn] = []
    models = [call for call in calls if call.kind == "model" and (call.before or call.after)]
    roots = [call for call in calls if call.kind == "root" and (call.before or call.after)]
    final = _last_said(roots[0].after) if roots else None
    for place, call in enumerate(models):
        if call.failed and not call.after:
            lost(call.line, "a call that failed, without an answer")
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


def _with_tools(chain: list[Turn], calls: list[TraceCall]) -> list[Turn]:
    """Put tool spans before the last reply as steps, where the messages hold no tool calls."""
    spans = [call for call in calls if call.kind == "tool"]
    if not spans or any(turn.tool_calls or turn.speaker == "tool" for turn in chain):
        return _with_results(chain, spans)
    steps: list[Turn] = []
    for number, call in enumerate(spans):
        name, key = call.name or "tool", f"{call.trace}-{number}"
        made = tool_calls(
            {"name": name, "arguments": call.given if call.given is not None else {}, "id": key}
        )
        steps += [Turn("assistant", "", tool_calls=made), _result(call, key, name)]
    at = next(
        (place for place in reversed(range(len(chain))) if chain[place].speaker == "assistant"), len(chain)
    )
    return [*chain[:at], *steps, *chain[at:]]


def _with_results(chain: list[Turn], spans: list[TraceCall]) -> list[Turn]:
    """Put what tools returned behind their calls, where no message says it and a span of that name does."""
    answered, left, made = {turn.tool_call_id for turn in chain}, list(spans), list[Turn]()
    for turn in chain:
        made.append(turn)
        for call in turn.tool_calls:
            span = next((one for one in left if one.name == call.name), None)
            if span is not None:
                left.remove(span)
            if span is not None and call.id and call.id not in answered:
                made.append(_result(span, call.id, call.name))
    return made


def _result(call: TraceCall, key: str, name: str) -> Turn:
    text = call.returned if isinstance(call.returned, str) else _json(call.returned)
    made = clean_turn("tool", text, {"is_error": True} if call.failed else {})
    return msgspec.structs.replace(made, tool_call_id=key, name=name)


def _json(value: object) -> str:
    return "" if value is None else msgspec.json.encode(value).decode()


def _with_evidence(chain: list[Turn], calls: list[TraceCall]) -> list[Turn]:
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


def retrieved(found: Any) -> tuple[Passage, ...]:
    """Return the passages among what a retriever returned."""
    if isinstance(found, Mapping):
        inner = first_of(
            found, "documents", "docs", "results", "contexts", "output", "source_documents", "chunks"
        )
        found = inner if isinstance(inner, list) else [found]
    return passages(found)


def rated(*found: Any) -> tuple[dict[str, float], dict[str, Any]]:
    """Return what users said, and what evaluators did; products keep both as scores."""
    by_users: dict[str, float] = {}
    others: dict[str, Any] = {}
    for scores in found:
        if isinstance(scores, Mapping):
            scores = [{"name": key, "value": value} for key, value in scores.items()]  # noqa: PLW2901
        for one in scores if isinstance(scores, list) else ():
            if not isinstance(one, Mapping):
                continue
            if emoji := at(one, "payload.emoji"):  # a reaction in Weave
                by_users |= reactions([emoji])
                continue
            name, value = str(first_of(one, "name", "key")), first_of(one, *_VALUES)
            value = first_of(value, "avg", *_VALUES) if isinstance(value, Mapping) else value
            value = value[0] if isinstance(value, list) and value else value
            if _BY_USERS.search(name) and str(one.get("source")).upper() not in _BY_MODELS:
                by_users |= feedback(value, feedback_name(name) or plain_name(name))
            elif value is not None:
                others[name] = value
    return by_users, others


_VALUES = ("value", "stringValue", "string_value", "score")


def dated(turns: list[Turn], time: str, model: object) -> list[Turn]:
    """Return turns with their time and model, where they have none of their own."""
    known = {"time": time or None, "model": model if isinstance(model, str) else None}
    return [
        msgspec.structs.replace(
            turn, **{key: value for key, value in known.items() if value and not getattr(turn, key)}
        )
        for turn in turns
    ]


# Products that log calls as records: only names differ


@dataclass(frozen=True, slots=True)
class Traced:
    """Where a product's log of calls keeps what; the first path that leads somewhere counts.

    Attributes:
        name: The format.
        what: One line for `dialeval list formats`.
        keys: Names that mark it.
        kind: What kind of call it is, as the product says.
        kinds: Patterns of these names, and what they mean: `model`, `tool`, `retriever`, `root` or `other`.
        trace: What joins calls to an answer.
        session: What joins answers to a dialogue.
        parent: The call above; one without any that is nothing else is the root of its trace.
        inside: Keys of records below, and what these inherit, by path.
        marks: Sets of names, of which a record has one.
        by_content: Whether what is given messages is a call of a model, whatever it is called.
    """

    name: str
    what: str
    keys: tuple[str, ...]
    kind: tuple[str, ...]
    kinds: tuple[tuple[str, str], ...]
    trace: tuple[str, ...]
    session: tuple[str, ...]
    parent: tuple[str, ...]
    inside: tuple[tuple[str, dict[str, str]], ...] = ()
    by_content: bool = False
    marks: tuple[tuple[str, ...], ...] = ()

    def fits(self, record: Record) -> bool:
        """Whether a record has all names of one of the sets that mark such a call."""
        return any(all(at(record, key) is not None for key in names) for names in self.marks)

    def join(self, records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
        """Yield the dialogues of all records."""
        calls = (self._call(one, number) for number, record in records for one in self._unfolded(record))
        yield from conversations(calls, lost)

    def _unfolded(self, record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        if isinstance(record.get("trace"), Mapping):  # Langfuse's download of one trace
            record = {**record["trace"], **{key: value for key, value in record.items() if key != "trace"}}
        if not any(isinstance(at(record, key), list) for key in _PAGES):  # a session, a page: nothing else
            yield record
        for key, inherited in self.inside:
            known = {name: value for name, path in inherited.items() if (value := at(record, path))}
            held = at(record, key)
            for one in held if isinstance(held, list) else ():
                if isinstance(one, Mapping):  # a list of the API has only the ids of what is below
                    yield from self._unfolded({**known, **one})

    def _call(self, record: Mapping[str, Any], number: int) -> TraceCall:
        trace, name = found(record, *self.trace), str(found(record, *_CALLED) or "")
        session, time = found(record, *self.session), str(moment(found(record, *_STARTED)) or "")
        said = str(found(record, *self.kind) or "")
        kind = next((kind for pattern, kind in self.kinds if re.search(pattern, said)), "other")
        if kind == "other" and self.by_content and is_messages(at(record, "inputs.messages")):
            kind = "model"
        elif kind == "other" and re.search(r"retriev|search|lookup", name, re.IGNORECASE):
            kind = "retriever"
        elif kind == "other" and not found(record, *self.parent):
            kind = "root"
        call = TraceCall(kind, number, str(trace or f"record {number}"), session and str(session), time, name)
        call.given, call.returned = found(record, *_WENT_IN), found(record, *_CAME_OUT)
        if kind in ("root", "model"):
            given, returned = turns_in(call.given, "user"), turns_in(call.returned, "assistant")
            call.before, after = told_apart(given, returned)
            call.after = dated(after, time, found(record, *_MODELS))
            call.feedback, call.scores = rated(*(at(record, path) for path in _SCORES))
            call.feedback |= feedback_in(record)  # the table has a column for each score
        elif kind == "retriever":
            call.passages = retrieved(call.returned)
        elif kind == "tool":
            call.given = decoded(_inner(call.given, "input"))
            call.returned = _inner(_inner(call.returned, "output"), "content")
        failed = found(record, "error", "exception", "properties.$ai_error")
        call.failed = bool(failed) or record.get("level") == "ERROR"
        return call


def _inner(found: Any, key: str) -> Any:
    """Return what a tool was given or said, which libraries wrap with a name, or as a message."""
    if isinstance(found, Mapping) and found.get("lc"):
        found = found.get("kwargs")
    return found[key] if isinstance(found, Mapping) and found.get(key) is not None else found


def told_apart(before: list[Turn], after: list[Turn]) -> tuple[list[Turn], list[Turn]]:
    """Return what went into a call and what came out; graphs put the inputs, and all before, into both."""
    keys, given = [_key(turn) for turn in after], [_key(turn) for turn in before]
    ends = (end for end in range(len(keys), 0, -1) if given and keys[max(0, end - len(given)) : end] == given)
    end = next(ends, None)
    return (before, after) if end is None else (after[:end], after[end:])


_PAGES = ("traces", "data.attributes.spans")
_ABOUT = ("extra.metadata", "metadata")
_CALLED = ("span_data.name", "name", "op_name", "attributes.name")
_STARTED = (
    *("startTime", "start_time", "started_at", "timestamp", "createdAt", "created_at", "dotted_order"),
    *("start_ns", "attributes.start_ns", "timestamps.started_at"),
)
_WENT_IN = (
    *("input.value", "input", "inputs", "span_data.input", "meta.input.value", "attributes.input.value"),
    *("meta.input", "attributes.input"),
    *("properties.$ai_input", "properties.$ai_input_state"),
)
_CAME_OUT = (
    *("output.value", "output", "outputs", "span_data.output", "meta.output.value"),
    *("attributes.output.value", "meta.output", "attributes.output"),
    *("properties.$ai_output_choices", "properties.$ai_output", "properties.$ai_output_state"),
)
_MODELS = (
    *(
        "model",
        "providedModelName",
        "provided_model_name",
        "internalModel",
        "span_data.model",
        "inputs.model",
        "meta.model_name",
        "attributes.model_name",
        "meta.metadata.model_name",
        "properties.$ai_model",
        "config.model",
    ),
    *(f"{where}.{key}" for where in _ABOUT for key in ("ls_model_name", "model_name", "model")),
)
_SCORES = ("scores", "feedback", "feedback_stats", "feedback_scores", "summary.weave.feedback")


def _is_langfuse(record: Record) -> bool:
    if any(one.fits(record) for one in TRACED):
        return False
    if isinstance(record.get("trace"), Mapping) and has_list(record, "observations"):
        return True
    if has_list(record, "traces") and isinstance(decoded(record.get("traces")), list):
        return all("input" in one and "output" in one for one in decoded(record["traces"])[:1])
    if re.fullmatch(_LANGFUSE_TYPES, str(record.get("type"))) and first_of(record, "traceId", "trace_id"):
        return True
    keys = (
        *("sessionId", "session_id", "userId", "user_id", "htmlPath", "observations", "projectId"),
        "project_id",
    )
    about = ("timestamp", "release", "bookmarked", "environment", "totalCost", "latency", "scores")
    return (
        ("input" in record and "output" in record)
        and any(key in record for key in keys)
        and any(key in record for key in about)
    )


_LANGFUSE_TYPES = "GENERATION|SPAN|EVENT|AGENT|TOOL|CHAIN|RETRIEVER|EMBEDDING|EVALUATOR|GUARDRAIL"
_FITS: dict[str, Callable[[Record], Any]] = {"langfuse": _is_langfuse}
TRACED = tuple(Traced(**one) for one in described("traces"))
SHAPES = tuple(
    RecordShape(one.name, one.what, one.keys, _FITS.get(one.name, one.fits), join=one.join) for one in TRACED
)
