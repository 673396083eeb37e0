"""Records that are a question and its answer: tables of prompts, logged requests of gateways and bots.

Most say under which names the two stand; those of a product are described in `LOGGED`, by paths. What belongs
to one session is joined in the order of its times, where a request repeats the history only what is new is
added (`traces.conversations`).

Dialogflow CX conversations were looked up (v3beta1, November 2026). Those of Helicone, Amazon Bedrock and
Amazon Lex, and Dialogflow ES, were written from memory of their logs and not checked against a real export.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from dialeval.dialogues.dialogue import Dialogue, Turn, clean_turn
from dialeval.dialogues.formats.messages import role
from dialeval.dialogues.formats.records import (
    Joined,
    Lost,
    Record,
    RecordShape,
    assemble,
    checked_calls,
    described,
    first_of,
    found,
    has_list,
    plain_text,
    turns_in,
)
from dialeval.dialogues.formats.traces import TraceCall, conversations, dated, told_apart
from dialeval.dialogues.formats.values import (
    decoded,
    evidence_in,
    feedback,
    feedback_in,
    is_evidence,
    moment,
    named_column,
    plain_name,
)

SESSIONS = (
    *("conversation_id", "conversationId", "session_id", "sessionId", "dialogue_id", "dialog_id"),
    *("thread_id", "threadId", "chat_id", "chatId", "conversation", "session", "contactId", "ContactId"),
)
_ABOUT = (*SESSIONS, *(f"metadata.{key}" for key in SESSIONS))
TIMES = (
    *("timestamp", "time", "created_at", "createdAt", "request_created_at", "request_time", "createTime"),
    "request_timestamp",
    *("date", "startTime"),
)
MODELS = (
    *("model", "modelId", "model_name", "model_id"),
    *("response.modelVersion", "response.model", "request.model", "params.model", "body.model"),
    "provider.id",
    "sample.model",
)
NO_INPUT = "only the reply is in the log, not what it answers"


def session_key(record: Mapping[str, Any]) -> str | None:
    """Return the key under which a record names its conversation."""
    names = [key for key, value in record.items() if isinstance(value, str | int) and value != ""]
    return next((key for key in SESSIONS if key in names), None) or named_column(names, "id", 2)


@dataclass(frozen=True, slots=True)
class Logged:
    """Where a log of requests keeps what; the first path that leads somewhere counts, `.` is the record.

    Attributes:
        name: The format.
        what: One line for `dialeval list formats`.
        asked: What the user said.
        answered: What was answered.
        session: What joins requests to a dialogue, before the usual names of one.
        feedback: What users said of the answer.
        tools: The calls of tools with their results.
        single: Whether a record is whole by itself: no session is no surprise, an answer alone is read.
        spoken: Whether one side may say nothing: a bot greets, or does not answer.
        html: Whether answers are written in HTML.
        lead: What stands before a question that is no part of it.
        marks: Paths of which one leads somewhere, where both sides alone would say too little.
    """

    name: str
    what: str
    asked: tuple[str, ...]
    answered: tuple[str, ...]
    session: tuple[str, ...] = ()
    feedback: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    single: bool = False
    spoken: bool = False
    html: bool = False
    lead: str = ""
    marks: tuple[str, ...] = (".",)

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Whether a record holds both sides where this log keeps them."""
        return all(found(record, *paths) is not None for paths in (self.asked, self.answered, self.marks))

    def join(self, records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
        """Yield the dialogues of all records; those of no session as they come, the others at the end."""
        kept: list[TraceCall] = []
        for number, record in records:
            held = _interactions(record)
            for place, one in enumerate(held):
                trace = _name(record, number) + (f"-{place}" if held[1:] else "")
                calls = list(self._calls(one, number, trace, lost))
                if any(call.session for call in calls):
                    kept += calls
                else:
                    yield from conversations(calls, lost, single=self.single)
        yield from conversations(kept, lost)

    def _calls(self, record: Mapping[str, Any], number: int, trace: str, lost: Lost) -> Iterator[TraceCall]:
        when = found(record, *TIMES) or record.get(named_column(record, "time") or "")
        session, time = found(record, *self.session, *_ABOUT), str(moment(when) or "")
        session = str(session).rpartition("/")[2] if isinstance(session, str | int) else None
        call = TraceCall("root", number, trace, session, time)
        asked = found(record, *self.asked)
        call.before = turns_in(re.sub(self.lead, "", asked) if isinstance(asked, str) else asked, "user")
        answer = found(record, *self.answered)
        failed = found(record, *_ERRORS)
        asked_only = answer is record and "choices" not in record
        after = [] if failed or asked_only else turns_in(answer, "assistant")
        call.before, after = told_apart(call.before, after)
        if self.html:
            after = [msgspec.structs.replace(turn, text=plain_text(turn.text) or "") for turn in after]
        heard = call.before or after if self.spoken else after and (call.before or self.single)
        if not heard:
            lost(
                number, f"the request failed{_reason(failed)}" if failed else "no question or no answer in it"
            )
            return
        if any(
            len(answer.get(key) or ()) > 1 for key in ("choices", "candidates") if isinstance(answer, Mapping)
        ):
            lost(number, "choices after the first")
        call.after = dated(after, time, found(record, *MODELS))
        if after and not call.after[-1].finish_reason and isinstance(ended := found(record, *_FINISHES), str):
            call.after[-1] = msgspec.structs.replace(call.after[-1], finish_reason=ended)
        about = record.get("metadata")
        call.feedback = feedback(found(record, *self.feedback)) | feedback_in(record)
        call.feedback |= feedback_in(about) if isinstance(about, Mapping) else {}
        held = (one for one in (record, asked) if isinstance(one, Mapping))
        evidence = tuple(dict.fromkeys(passage for one in held for passage in evidence_in(one)))
        if after and evidence:
            call.after[-1] = msgspec.structs.replace(call.after[-1], evidence=evidence)
        if self.single:
            used = {path.partition(".")[0] for path in (*self.asked, *self.answered)} | {
                "choices",
                "object",
                "id",
            }
            call.meta = {key: value for key, value in record.items() if key not in used and value is not None}
            call.meta |= {} if call.before else {"note": NO_INPUT}
        yield call
        yield from self._steps(record, call)

    def _steps(self, record: Mapping[str, Any], call: TraceCall) -> Iterator[TraceCall]:
        for one in found(record, *self.tools) or ():
            used = first_of(one, "toolUse", "toolCall") if isinstance(one, Mapping) else None
            if isinstance(used, Mapping):
                name = first_of(used, "action", "displayName", "tool")
                step = TraceCall("tool", call.line, call.trace, call.session, call.time, name)
                step.given = used.get("inputActionParameters")
                step.returned = used.get("outputActionParameters")
                yield step


def _interactions(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the exchanges of a record: itself, or those of a whole conversation of Dialogflow."""
    held = record.get("interactions")
    if not isinstance(held, list):
        return [record]
    return [{"session": record.get("name"), **one} for one in held if isinstance(one, Mapping)]


def _name(record: Mapping[str, Any], number: int) -> str:
    return str(found(record, *_NAMES) or f"record {number}")


def _reason(failed: object) -> str:
    """Return the kind of an error, not its message: losses are counted by kind."""
    while isinstance(failed, Mapping) and isinstance(failed.get("error"), Mapping):
        failed = failed["error"]
    kind = first_of(failed, "code", "type", "status") if isinstance(failed, Mapping) else str(failed)[:40]
    return f" ({kind})" if kind else ""


_NAMES = (
    *("custom_id", "key", "id", "request_id", "requestId", "responseId", "name"),
    *("response.id", "response.body.id", "full_response.id"),
)
_ERRORS = (
    *("error", "response.error", "response.body.error", "response_body.error", "result.error"),
    *("output.outputBodyJson.error", "errorCode", "error_str"),
)
_CHATS = ("messages", "contents", "input", "prompt")


def _is_exchange(record: Record) -> bool:
    asked, answer = found(record, *EXCHANGE.asked), found(record, *EXCHANGE.answered)
    if isinstance(answer, Mapping) and answer.get("object") == "response":
        return False
    if isinstance(asked, Mapping) and any(isinstance(asked.get(key), str | list) for key in _CHATS):
        return any(key in record for key in ("response", "full_response", "request", "result", "resp"))
    named = "custom_id" in record or "key" in record  # what a batch gives back: answers without questions
    return named and any(isinstance(record.get(key), Mapping) for key in ("response", "result", "error"))


def _is_completion(record: Record) -> bool:
    answer = found(record, "response.body", "response", ".")
    return isinstance(answer, Mapping) and (
        answer.get("object") == "chat.completion"
        or (has_list(answer, "choices", "message") and (answer is not record or not record.get("messages")))
    )


_FINISHES = ("response.finishReason", "finish_reason", "stop_reason", "sample.finish_reason")
LOGGED = tuple(Logged(**one) for one in described("requests"))
EXCHANGE = next(one for one in LOGGED if one.name == "exchange")


def _is_logged(one: Logged, record: Record) -> bool:
    return any(map(one.fits, _interactions(record)[:3]))


# Prompts with responses

_ASKED = (
    *("prompt", "question", "instruction", "query", "user_message", "user_input", "input", "human", "user"),
    *("chat_input", "frage", "pregunta", "domanda", "pergunta"),
)
_ANSWERED = (
    *("response", "answer", "completion", "output", "assistant_message", "reply", "generation", "bot"),
    *("assistant", "generated_text", "completions", "responses"),
    *("antwort", "reponse", "respuesta", "risposta"),
)
_USERS = re.compile(
    r"(user|human|customer|client|visitor)_(prompt|question|query|message|text|utterance|request|turn)"
)
_BOTS = re.compile(
    r"(assistant|bot|chatbot|agent|ai|model|llm|gpt|system|generated|actual)_"
    r"(response|answer|reply|output|message|text|completion|utterance|turn)"
)
_HISTORY = ("history", "chat_history", "conversation_history")
_EXPECTED = ("reference", "ground_truth", "expected_output", "expected", "reference_answer")
_BOTH = (("chosen", "rejected"), ("preferred_output", "non_preferred_output"))


def pair_keys(record: Record) -> tuple[str, str] | None:
    """Return the names of the question and the answer of a record."""
    plain = {plain_name(str(key)): key for key in record}
    asked = _key_of(record, plain, _ASKED, _USERS, said=True)
    answered = _key_of({k: v for k, v in record.items() if k != asked}, plain, _ANSWERED, _BOTS, said=False)
    if (asked is None or answered is None) and has_history(record):  # Cohere's chat
        asked, answered = asked or plain.get("message"), answered or plain.get("text")
    return (asked, answered) if asked is not None and answered is not None else None


def _key_of(
    record: Record, plain: dict[str, str], names: tuple[str, ...], pattern: re.Pattern[str], *, said: bool
) -> str | None:
    usual = [plain[name] for name in names if plain.get(name) in record]
    others = [key for name, key in plain.items() if key in record and pattern.fullmatch(name)]
    return next((key for key in (*usual, *others) if not said or _is_said(record[key])), None)


def _is_said(value: object) -> bool:
    held = decoded(value)
    return bool(value) and (
        isinstance(held, str | list) or (isinstance(held, Mapping) and bool(turns_in(held)))
    )


def has_history(record: Mapping[str, Any]) -> bool:
    """Whether earlier turns stand beside a prompt."""
    return any(isinstance(decoded(record.get(key)), list) for key in _HISTORY)


def _from_prompt(record: Record) -> Dialogue | list[Dialogue]:
    keys = pair_keys(record)
    if keys is None:
        raise KeyError("prompt")
    asked, answer = (decoded(record[key]) for key in keys)
    more = record.get("input") if keys[0] == "instruction" else None
    if isinstance(asked, str) and isinstance(more, str) and more:
        asked = f"{asked}\n\n{more}"
    history = next((held for key in _HISTORY if (held := decoded(record.get(key)))), None)
    before = [*turns_in(history), *turns_in(asked, "user")]
    used = {*keys, *_HISTORY, *filter(is_evidence, record)}
    rest = {key: value for key, value in record.items() if key not in used}
    record = {**asked, **record} if isinstance(asked, Mapping) else record  # passages beside the question
    if isinstance(answer, list) and keys[1] in ("completions", "responses"):
        name = first_of(record, "id", "prompt_id")
        several = [_answered(before, one, {**rest, **_model_of(one), "id": ""}, record) for one in answer]
        ids = (f"{name}-{number}" if name else "" for number in range(len(several)))
        return [msgspec.structs.replace(one, id=key) for one, key in zip(several, ids, strict=True)]
    return _answered(before, answer, rest, record)


def _model_of(answer: object) -> dict[str, Any]:
    model = first_of(answer, *MODELS) if isinstance(answer, Mapping) else None
    return {"model": model} if model else {}


def _answered(before: list[Turn], answer: object, rest: Record, record: Record) -> Dialogue:
    if answer is None or isinstance(answer, str):
        after = [clean_turn("assistant", answer)]
    else:
        after = turns_in(answer, "assistant")
    if after and (evidence := evidence_in(record)):
        after[-1] = msgspec.structs.replace(after[-1], evidence=evidence)
    expected = first_of(record, *_EXPECTED)
    if isinstance(expected, str) and after:
        rest = {**rest, "references": {str(len(before) + len(after) - 1): [expected]}}
    return assemble({**_model_of(record), **rest}, "", checked_calls([*before, *after]))


def _is_session(record: Record) -> bool:
    """Whether a prompt and its response belong to a session of several."""
    return session_key(record) is not None and "messages" not in record and pair_keys(record) is not None


def _join_sessions(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    rows = [(number, record) for number, record in records]
    keys = next((pair for _, record in rows if (pair := pair_keys(record))), ("prompt", "response"))
    name = next((key for _, record in rows if (key := session_key(record))), SESSIONS[0])
    asked = "." if any(has_history(record) for _, record in rows) else str(keys[0])
    table = Logged("sessions", "", (asked,), (str(keys[1]),), (name,))
    yield from table.join(rows, lost)


# Preferences: one question, a better and a worse answer


def _from_preference(record: Record) -> list[Dialogue]:
    name = str(first_of(record, "id", "prompt_id") or "")
    made = []
    better, worse = next(both for both in _BOTH if both[0] in record)
    for side in (better, worse):
        asked, answer = decoded(first_of(record, "prompt", "input")), decoded(record[side])
        held = turns_in(answer, "assistant")
        whole = held if held and held[0].speaker == "user" else [*turns_in(asked, "user"), *held]
        if isinstance(answer, str) and asked is None:
            whole = _spoken(answer)
        rest = {"id": f"{name}-{side}", "pair": name} if name else {}
        made.append(assemble(rest, "", whole, feedback={"preferred": float(side == better)}))
    return made


def _spoken(text: str) -> list[Turn]:
    """Split a transcript in one text (`Human: … Assistant: …`, as in HH-RLHF)."""
    parts = re.split(r"\n*\b(Human|Assistant|User|AI|Bot):\s*", text)
    return [clean_turn(role(who), said.strip()) for who, said in zip(parts[1::2], parts[2::2], strict=True)]


_MATCHES = {"exchange": _is_exchange, "completions": _is_completion}
SHAPES = (
    *(
        RecordShape(
            one.name,
            one.what,
            tuple(path.partition(".")[0] for path in (*one.asked, *one.answered)),
            _MATCHES.get(one.name) or partial(_is_logged, one),
            join=one.join,
            general=one.name == "completions",
        )
        for one in LOGGED
    ),
    RecordShape(
        "preferences",
        "a prompt with a chosen and a rejected answer: two dialogues and a vote",
        _BOTH[0],
        lambda record: any(all(key in record for key in both) for both in _BOTH),
        _from_preference,
    ),
    RecordShape(
        "sessions",
        "a prompt and a response a record, joined by session",
        ("session_id", "prompt", "response"),
        _is_session,
        join=_join_sessions,
        general=True,
    ),
    RecordShape(
        "prompts",
        "a prompt and a response a record",
        ("prompt", "response", "question", "answer", "instruction", "output"),
        lambda record: pair_keys(record) is not None,
        _from_prompt,
        general=True,
    ),
)
