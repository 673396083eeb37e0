"""Chats as model providers and chat libraries write them.

OpenAI chat messages (with tools), the Responses API, Anthropic's Messages API, Gemini's contents, LangChain
messages, exports of Claude, Open WebUI and LibreChat, ShareGPT. Looked up in the API references of November
2026 (OpenAI 2.x, Anthropic 2023-06-01, Gemini v1beta, langchain-core 1.x).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from dialeval.dialogues.dialogue import Dialogue, Turn
from dialeval.dialogues.formats.chats import is_chunk, is_internal, is_messages, oldest_first, plain_message
from dialeval.dialogues.formats.exchanges import NO_INPUT
from dialeval.dialogues.formats.messages import parse_message
from dialeval.dialogues.formats.records import (
    Joined,
    Lost,
    Record,
    RecordShape,
    assemble,
    at,
    branch,
    checked_calls,
    first_of,
    found,
    has_list,
    items_of,
    kept_of,
    parse_messages,
    turns_in,
)
from dialeval.dialogues.formats.values import decoded, moment
from dialeval.errors import DataError

_BESIDE = ("completion", "response", "output", "reply", "generated_text", "assistant_response", "choices")


def _from_messages(record: Record) -> Dialogue:
    items = items_of(record, "messages")
    known = [one for one in items if not isinstance(one, Mapping) or "role" in one or plain_message(one)]
    if items and not known:
        raise DataError("no message says who spoke", field="messages", fix='{"role": …, "content": …}')
    said = [one for one in items if not (isinstance(one, Mapping) and is_internal(one))]
    if said and len(said) < len(items):
        items, record = said, {"note": "internal notes left out", **record}
    turns = parse_messages(oldest_first(items))
    beside = next((key for key in _BESIDE if record.get(key)), None)
    if beside and turns and turns[-1].speaker in ("user", "tool"):  # the reply stands beside what was asked
        turns += turns_in({beside: decoded(record[beside])}, "assistant")
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


_ANSWERED = ("candidates", "modelVersion", "promptFeedback")


def _is_gemini(record: Record) -> bool:
    return (
        isinstance(record.get("contents"), list | Mapping)
        or (has_list(record, "candidates", "content") and not is_chunk(record))
        or isinstance(at(record, "chunkedPrompt.chunks"), list)
    )


def _from_gemini(record: Record) -> Dialogue:
    chunks = at(record, "chunkedPrompt.chunks")  # AI Studio's own files
    if isinstance(chunks, list):
        said = [one for one in chunks if isinstance(one, Mapping) and not one.get("isThought")]
        model = at(record, "runSettings.model")
        record = {"contents": [{"parts": [dict(one)], **one} for one in said], "model": model, **record}
        record.pop("chunkedPrompt")
    asked = kept_of(record, "contents", "systemInstruction", "system_instruction")
    before, after = (
        turns_in(asked, "user"),
        turns_in(kept_of(record, *_ANSWERED), "assistant"),
    )
    rest = {key: value for key, value in record.items() if key not in (*asked, *_ANSWERED)}
    rest |= {} if before else {"note": NO_INPUT}
    known = {"id": record.get("responseId"), "model": record.get("modelVersion")}
    return assemble(kept_of(known, *known) | rest, "", checked_calls(before + after))


# LangGraph: states of a thread, of which the last holds what those before it do

_STATES = ("values.messages", "checkpoint.channel_values.messages", "channel_values.messages")
_THREADS = (
    *("thread_id", "checkpoint.thread_id", "metadata.thread_id", "config.configurable.thread_id"),
    *("config.metadata.thread_id", "checkpoint_id", "checkpoint.id"),
)


def _is_state(record: Record) -> bool:
    beside = ("checkpoint", "thread_id", "next", "config", "channel_values")
    return any(key in record for key in beside) and is_messages(found(record, *_STATES))


def _join_states(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    threads: dict[str, list[tuple[int, list[Any], Record]]] = defaultdict(list)
    for number, record in records:
        messages = found(record, *_STATES)
        if isinstance(messages, list):
            name = str(found(record, *_THREADS) or "")
            threads[name or f"record {number}"].append((number, messages, {"id": name}))
        else:
            lost(number, "a state without messages")
    for states in threads.values():
        number, last, known = max(states, key=lambda one: len(one[1]))
        for other, messages, _ in states:
            if last[: len(messages)] != messages:
                lost(other, "a state of another branch of its thread")
        yield number, assemble(known, "", parse_messages(last))


# Chat applications: a conversation is a tree, of which the branch to one message was seen last


class ChatApp(NamedTuple):
    """Where an application's export keeps what, by path: messages, their key and parent, the last one."""

    what: str
    items: str
    key: str
    parent: str
    last: str = "-"

    def fits(self, record: Record) -> bool:
        """Whether a record is a conversation of this application."""
        items = list(_app_items(at(record, self.items)))
        marks = (self.key,) if self.items != "messages" else (self.key, self.parent)
        return all(one in items[0] for one in marks) if items else self.items in record and marks[1:] == ()

    def parse(self, record: Record) -> list[Dialogue]:
        """Return the branch that was seen last; nothing where nobody said anything."""
        items = list(_app_items(at(record, self.items)))
        nodes = {one[self.key]: one for one in items if one.get(self.key)}
        top = self.items.partition(".")[0]
        known = {key: value for key, value in record.items() if key not in (top, "options")}
        options = record.get("options")
        if isinstance(options, Mapping):  # LibreChat
            known |= {"model": options.get("model"), "instructions": options.get("promptPrefix")}
        if any(one.get(self.parent) in nodes for one in items):
            path = branch(nodes, self.parent, at(record, self.last) or items[-1].get(self.key))
            known |= {"note": "other branches left out"} if len(path) < len(items) else {}
            items = path
        turns = [turn for n, item in enumerate(items) for turn in parse_message(_app_message(item), n)]
        model = next((turn.model for turn in reversed(turns) if turn.model), None)
        return [assemble({"model": model, **kept_of(known, *known)}, "", turns)] if turns else []


def _app_items(held: object) -> Iterator[Mapping[str, Any]]:
    """Yield the messages of a list, of an object, or one below the other (`children`)."""
    for one in held.values() if isinstance(held, Mapping) else held if isinstance(held, list) else ():
        if isinstance(one, Mapping):
            yield one
            yield from _app_items(one.get("children"))


def _app_message(item: Mapping[str, Any]) -> dict[str, Any]:
    kept = kept_of(item, "created_at", "createdAt", "timestamp", "model", "feedback", "finish_reason")
    kept["content"] = item.get("content") or item.get("text")
    kept["role"] = first_of(item, "role", "sender")
    if isinstance(item.get("isCreatedByUser"), bool):  # the sender is a name
        kept["role"] = "user" if item["isCreatedByUser"] else "assistant"
    if (rating := at(item, "annotation.rating")) is not None:
        kept["feedback"] = rating
    kept["evidence"] = item.get("sources") or [
        {"text": one["extracted_content"], "source": one.get("file_name")}
        for one in item.get("attachments") or ()
        if isinstance(one, Mapping) and one.get("extracted_content")
    ]
    return kept


APPS = {
    "claude": ChatApp(
        "Claude's own export: chat_messages with sender and text",
        *("chat_messages", "uuid", "parent_message_uuid"),
    ),
    "openwebui": ChatApp(
        "Open WebUI's export of chats: chat.history with messages",
        *("chat.history.messages", "id", "parentId", "chat.history.currentId"),
    ),
    "librechat": ChatApp(
        "LibreChat's export of a conversation: messages with messageId",
        *("messages", "messageId", "parentMessageId"),
    ),
}


# The Responses API: a conversation is a chain of responses


def _response(record: Record) -> Mapping[str, Any]:
    """Return the response itself, which logs and batches wrap."""
    held = (at(record, path) for path in ("response.body", "response"))
    return next((one for one in held if isinstance(one, Mapping) and "output" in one), record)


def _is_response(record: Record) -> bool:
    inner = _response(record)
    output = inner.get("output")
    return inner.get("object") == "response" or (
        isinstance(output, list)
        and bool(output)
        and all(isinstance(one, Mapping) and "type" in one for one in output)
        and any(str(one["type"]) in ("message", "function_call", "reasoning") for one in output)
    )


def _join_responses(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    """Put responses behind those they continue (`previous_response_id`, `conversation`), oldest first.

    Where two continue the same one, each is the end of a dialogue of its own.
    """
    held = [(number, record, _response(record)) for number, record in records]
    times = {number: moment(inner.get("created_at")) or "" for number, _, inner in held}
    if all(times.values()):
        held.sort(key=lambda one: times[one[0]])
    chains: dict[str, tuple[int, str, dict[str, Any], list[Turn]]] = {}
    last: dict[str, str] = {}
    ends: dict[str, None] = {}
    for number, record, inner in held:
        key, named = str(inner.get("id") or record.get("custom_id") or number), inner.get("conversation")
        named = str(named.get("id") if isinstance(named, Mapping) else named or "")
        earlier = str(inner.get("previous_response_id") or last.get(named, ""))
        after = _answered(inner)
        if not after:
            lost(number, f"a response without an answer ({inner.get('status') or 'no output'})")
            continue
        if earlier and earlier not in chains:
            lost(number, "the response before it is not in the file: what was said earlier is missing")
        first, head, kept, before = chains.get(earlier, (number, named or key, {}, []))
        ends.pop(earlier, None)
        kept = {**kept, **kept_of(inner, "model", "metadata", "instructions")}
        chains[key] = first, head, kept, [*before, *_asked(record, inner), *after]
        ends[key] = None
        last |= {named: key} if named else {}
    heads = Counter(chains[key][1] for key in ends)
    for key in ends:
        number, head, kept, turns = chains[key]
        kept["id"] = head if heads[head] == 1 else f"{head}-{key}"
        if not any(turn.speaker == "user" for turn in turns):
            kept["meta"] = {"note": NO_INPUT}
        yield number, assemble(kept, "output", checked_calls(turns))


def _asked(record: Record, inner: Mapping[str, Any]) -> list[Turn]:
    """Return what a response answers; a page of input items lists the newest first if not asked otherwise."""
    asked = first_of(record, "input", "input_items", "request", "body") or inner.get("input")
    if isinstance(asked, Mapping) and isinstance(asked.get("data"), list):
        asked = oldest_first(asked["data"])
    return turns_in(asked, "user")


def _answered(response: Mapping[str, Any]) -> list[Turn]:
    reason = at(response, "incomplete_details.reason")
    plain = [one for item in response.get("output") or () if (one := plain_message(item)) is not None]
    plain = [{**one, **kept_of(response, "model", "created_at")} for one in plain]
    if plain and reason:
        plain[-1]["finish_reason"] = reason
    return [turn for number, one in enumerate(plain) for turn in parse_message(one, number)]


SHAPES = (
    *(
        RecordShape(name, app.what, (app.items.partition(".")[0], app.key), app.fits, app.parse)
        for name, app in APPS.items()
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
        "langgraph",
        "LangGraph threads, states and checkpoints: values with messages, joined by thread",
        ("values", "checkpoint", "channel_values", "thread_id"),
        _is_state,
        join=_join_states,
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
