"""Chats as model providers and chat libraries write them.

OpenAI chat messages (with tools), stored completions and logged requests, the Responses API, Anthropic's
Messages API, Gemini's contents, LangChain messages, Claude's own export, ShareGPT. Looked up in the API
references of November 2026 (OpenAI 2.x, Anthropic 2023-06-01, Gemini v1beta, langchain-core 1.x).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from dialeval.dialogues.dialogue import Dialogue, Turn
from dialeval.dialogues.formats.chats import plain_message
from dialeval.dialogues.formats.messages import parse_message
from dialeval.dialogues.formats.records import (
    Joined,
    Lost,
    Record,
    RecordShape,
    assemble,
    at,
    checked_calls,
    first_of,
    has_list,
    items_of,
    kept_of,
    parse_messages,
    turns_in,
)
from dialeval.dialogues.formats.values import decoded
from dialeval.errors import DataError

_NO_INPUT = "only the reply is in the log, not what it answers"


_BESIDE = ("completion", "response", "output", "reply", "generated_text", "assistant_response")


def _from_messages(record: Record) -> Dialogue:
    items = items_of(record, "messages")
    known = [one for one in items if not isinstance(one, Mapping) or "role" in one or plain_message(one)]
    if items and not known:
        raise DataError("no message says who spoke", field="messages", fix='{"role": …, "content": …}')
    turns = parse_messages(items)
    beside = next((key for key in _BESIDE if record.get(key)), None)
    if beside and turns and turns[-1].speaker in ("user", "tool"):  # the reply stands beside what was asked
        turns += turns_in(record[beside], "assistant")
        record = {key: value for key, value in record.items() if key != beside}
    return assemble(record, "messages", checked_calls(turns))


def _message_items(record: Record) -> list[Mapping[str, Any]]:
    items = decoded(record.get("messages"))
    return [one for one in items if isinstance(one, Mapping)] if isinstance(items, list) else []


def _is_langchain(record: Record) -> bool:
    kinds = ("human", "ai", "HumanMessage", "AIMessage", "constructor")
    return any(one.get("type") in kinds and "role" not in one for one in _message_items(record))


def _is_anthropic(record: Record) -> bool:
    blocks = (
        part
        for one in _message_items(record)
        if isinstance(one.get("content"), list)
        for part in one["content"]
        if isinstance(part, Mapping)
    )
    return "messages" in record and (
        isinstance(record.get("system"), list)
        or "anthropic_version" in record
        or any(
            part.get("type") in ("tool_use", "tool_result", "thinking") or "toolUse" in part
            for part in blocks
        )
    )


def _holds_messages(record: Record, key: str) -> bool:
    items = decoded(record.get(key))
    if not isinstance(items, list):
        return False
    return not items or not isinstance(items[0], Mapping) or plain_message(items[0]) is not None


def _from_sharegpt(record: Record) -> Dialogue:
    key = "conversations" if "conversations" in record else "conversation"
    turns = parse_messages(items_of(record, key))
    record = {("system_prompt" if name == "system" else name): value for name, value in record.items()}
    return assemble(record, key, turns)


def _holds_chat(found: object) -> bool:
    return isinstance(found, Mapping) and any(
        key in found for key in ("messages", "contents", "input", "prompt")
    )


def _is_exchange(record: Record) -> bool:
    asked = decoded(first_of(record, "request", "body", "full_request"))
    return _holds_chat(asked) and any(key in record for key in ("response", "full_response", "request"))


def _from_exchange(record: Record) -> Dialogue:
    asked = decoded(first_of(record, "request", "body", "full_request"))
    answer = decoded(first_of(record, "response", "full_response"))
    if isinstance(answer, Mapping) and isinstance(answer.get("body"), Mapping):
        answer = answer["body"]
    return _exchange(record, ("request", "body", "full_request", "response", "full_response"), asked, answer)


def _exchange(record: Record, used: tuple[str, ...], asked: object, answer: object) -> Dialogue:
    before, after = turns_in(asked, "user"), turns_in(answer, "assistant")
    known = [part for part in (asked, answer) if isinstance(part, Mapping)]
    models = (first_of(part, "model", "modelVersion") for part in reversed(known))
    model = next((one for one in models if isinstance(one, str)), None)
    rest = {key: value for key, value in record.items() if key not in used}
    rest.setdefault("id", first_of(record, "custom_id", "request_id") or _named(known))
    if model and "model" not in rest:
        rest["model"] = model
    if not before:
        rest["meta"] = {**(rest.get("meta") or {}), "note": _NO_INPUT}
    return assemble(rest, "", checked_calls(before + after))


def _named(parts: list[Mapping[str, Any]]) -> Any:
    return next((part["id"] for part in reversed(parts) if isinstance(part.get("id"), str)), None)


def _is_completion(record: Record) -> bool:
    answer = record.get("response")
    inside: Any = answer.get("body", answer) if isinstance(answer, Mapping) else record
    return isinstance(inside, Mapping) and (
        str(inside.get("object")) == "chat.completion"
        or (has_list(inside, "choices", "message") and not record.get("messages"))
        or (isinstance(answer, Mapping) and has_list(inside, "choices", "message"))
    )


def _from_completion(record: Record) -> Dialogue:
    answer = record.get("response")
    inside = answer.get("body", answer) if isinstance(answer, Mapping) else record
    asked = first_of(record, "messages", "input", "request", "prompt")
    used = ("choices", "messages", "input", "request", "prompt", "response", "object")
    about = record.get("metadata")
    made = _exchange(record, used, {"messages": asked} if isinstance(asked, list) else asked, inside)
    named = isinstance(about, Mapping) and first_of(about, "conversation_id", "session_id", "thread_id")
    return made if not named else assemble({**record, "id": record.get("id")}, "choices", list(made.turns))


def _is_gemini(record: Record) -> bool:
    return (
        isinstance(record.get("contents"), list | Mapping)
        or has_list(record, "candidates", "content")
        or isinstance(at(record, "chunkedPrompt.chunks"), list)
    )


def _from_gemini(record: Record) -> Dialogue:
    chunks = at(record, "chunkedPrompt.chunks")  # AI Studio's own files
    if isinstance(chunks, list):
        said = [one for one in chunks if isinstance(one, Mapping) and not one.get("isThought")]
        model = at(record, "runSettings.model")
        record = {"contents": [{"parts": [dict(one)], **one} for one in said], "model": model, **record}
        record.pop("chunkedPrompt")
    asked = {
        key: record[key] for key in ("contents", "systemInstruction", "system_instruction") if key in record
    }
    answer = {key: record[key] for key in ("candidates", "modelVersion") if key in record}
    return _exchange(record, (*asked, *answer, "candidates"), asked, answer)


def _from_claude(record: Record) -> Dialogue:
    turns: list[Turn] = []
    for number, item in enumerate(items_of(record, "chat_messages")):
        content = item.get("content") or item.get("text")
        kept = kept_of(item, "created_at", "feedback", "attachments")
        kept["evidence"] = [
            {"text": one["extracted_content"], "source": one.get("file_name")}
            for one in kept.pop("attachments", ())
            if isinstance(one, Mapping) and one.get("extracted_content")
        ]
        turns += parse_message({"role": item.get("sender"), "content": content, **kept}, number)
    return assemble(record, "chat_messages", turns)


# The Responses API: a conversation is a chain of responses


def _is_response(record: Record) -> bool:
    inner = record.get("response")
    found = inner if isinstance(inner, Mapping) and "output" in inner else record
    output = found.get("output")
    return found.get("object") == "response" or (
        isinstance(output, list)
        and bool(output)
        and all(isinstance(one, Mapping) and "type" in one for one in output)
        and any(str(one["type"]) in ("message", "function_call", "reasoning") for one in output)
    )


def _join_responses(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    """Put responses behind those they continue (`previous_response_id`, `conversation`)."""
    chains: dict[str, tuple[int, Record, list[Turn]]] = {}
    heads: dict[str, str] = {}
    for number, record in records:
        inner = record.get("response") if isinstance(record.get("response"), Mapping) else record
        key = str(inner.get("id") or number) if isinstance(inner, Mapping) else str(number)
        if not isinstance(inner, Mapping):
            lost(number, "no response")
            continue
        asked = first_of(record, "input", "input_items", "request") or inner.get("input")
        if isinstance(asked, Mapping) and isinstance(asked.get("data"), list):
            asked = asked["data"]
        before, after = turns_in(asked, "user"), _answered(inner)
        conversation = inner.get("conversation")
        if isinstance(conversation, Mapping):
            conversation = conversation.get("id")
        earlier = str(inner.get("previous_response_id") or "")
        head = str(conversation) if conversation else heads.get(earlier, key)
        if earlier and earlier not in heads and not conversation:
            lost(number, "the response before it is not in the file: what was said earlier is missing")
        heads[key] = head
        if head in chains:
            chains[head][2].extend([*before, *after])
        else:
            chains[head] = number, {**inner, "id": head}, [*before, *after]
    for number, record, turns in chains.values():
        kept = kept_of(record, "id", "model", "metadata", "instructions")
        if not any(turn.speaker == "user" for turn in turns):
            kept["meta"] = {"note": _NO_INPUT}
        yield number, assemble(kept, "output", checked_calls(turns))


def _answered(response: Mapping[str, Any]) -> list[Turn]:
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, Mapping) else None
    plain = [one for item in response.get("output") or () if (one := plain_message(item)) is not None]
    plain = [{**one, **kept_of(response, "model", "created_at")} for one in plain]
    if plain and reason:
        plain[-1]["finish_reason"] = reason
    return [turn for number, one in enumerate(plain) for turn in parse_message(one, number)]


SHAPES = (
    RecordShape(
        "claude",
        "Claude's own export: chat_messages with sender and text",
        ("chat_messages",),
        lambda record: has_list(record, "chat_messages"),
        _from_claude,
    ),
    RecordShape(
        "exchange",
        "logged requests with their responses (OpenAI, Anthropic, Gemini, batch files)",
        ("request", "response"),
        _is_exchange,
        _from_exchange,
    ),
    RecordShape(
        "completions",
        "OpenAI's stored chat completions: choices with a message",
        ("choices", "object"),
        _is_completion,
        _from_completion,
        general=True,
    ),
    RecordShape(
        "responses",
        "OpenAI's Responses API: output items, joined by previous_response_id or conversation",
        ("output", "previous_response_id", "object"),
        _is_response,
        join=_join_responses,
    ),
    RecordShape(
        "gemini",
        "Gemini: contents with role and parts",
        ("contents", "candidates", "systemInstruction"),
        _is_gemini,
        _from_gemini,
    ),
    RecordShape(
        "langchain",
        "LangChain messages: human and ai, or the constructor form",
        ("messages",),
        _is_langchain,
        _from_messages,
    ),
    RecordShape(
        "anthropic",
        "Anthropic messages: blocks of text, tool_use and tool_result, a prompt under system",
        ("messages", "system"),
        _is_anthropic,
        _from_messages,
    ),
    RecordShape(
        "messages",
        "ours and OpenAI's chat JSONL: messages with role and content, tool_calls and tools' results",
        ("messages",),
        lambda record: "messages" in record,
        _from_messages,
        column=True,
        general=True,
    ),
    RecordShape(
        "sharegpt",
        "ShareGPT: conversations with from and value",
        ("conversations", "conversation"),
        lambda record: _holds_messages(record, "conversations") or _holds_messages(record, "conversation"),
        _from_sharegpt,
        column=True,
        general=True,
    ),
)
