"""One message of any chat API → turns, with its tool calls, results, evidence and feedback.

Messages differ in where things stand, not in what they say. Text is a string or a list of parts; a tool call
is a part (Anthropic `tool_use`, Gemini `functionCall`, OpenTelemetry `tool_call`) or stands beside the text
(OpenAI `tool_calls`); a tool's result is a message of its own or a part of the user's. A message with results
in it becomes a turn for each result, then one for the rest. What has no field of `Turn` stays in `meta`.
"""

import json
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from dialeval.dialogues.dialogue import Passage, ToolCall, Turn, clean_text, clean_turn
from dialeval.dialogues.languages import language_code
from dialeval.errors import DataError

_ROLES = {
    **dict.fromkeys(
        (
            *("user", "human", "customer", "client", "usr", "prompter", "you", "u"),
            *("visitor", "end-user", "end_user", "enduser", "requester", "lead", "contact", "guest"),
        ),
        "user",
    ),
    **dict.fromkeys(
        (
            *("assistant", "bot", "chatbot", "gpt", "chatgpt", "agent", "ai", "model", "bing", "bard", "sys"),
            *("admin", "operator", "business", "virtual agent", "virtual assistant"),
        ),
        "assistant",
    ),
    **dict.fromkeys(
        ("tool", "function", "observation", "function_call", "tool_call", "tool_response"), "tool"
    ),
    **dict.fromkeys(("system", "developer"), "system"),
}
_TIMES = ("time", "timestamp", "created_at", "createdAt", "create_time", "created")
_FINISHES = ("finish_reason", "stop_reason", "finishReason", "stopReason")
_EVIDENCE = ("evidence", "retrieved_contexts", "retrieval_context", "retrieved_documents", "documents")
_FEEDBACK = ("feedback", "rating", "thumbs")
_CALLS = ("tool_calls", "toolCalls", "function_call", "functionCall", "tools_called")
_LIFTED = frozenset((*_TIMES, *_FINISHES, *_EVIDENCE, *_FEEDBACK, *_CALLS))
_OURS = frozenset(("role", "content", "meta", "tool_call_id", "name", "model", "language", "refusal"))
_GOOD = frozenset(
    ("up", "thumbs_up", "thumbsup", "positive", "good", "like", "liked", "helpful", "yes", "true")
)
_BAD = frozenset(
    (
        "down",
        "thumbs_down",
        "thumbsdown",
        "negative",
        "bad",
        "dislike",
        "disliked",
        "unhelpful",
        "no",
        "false",
    )
)


def role(name: object) -> str:
    """Map the many names of the two sides onto `user` and `assistant`; other names stay.

    >>> role("Human"), role("gpt"), role("Alice")
    ('user', 'assistant', 'Alice')
    """
    text = clean_text(str(name))[0]
    return _ROLES.get(text.strip().lower(), text)


def parse_message(item: object, number: int) -> list[Turn]:
    """Return the turns that a message holds: `role` and `content`, or `from` and `value` as in ShareGPT.

    >>> result = {"type": "tool_result", "tool_use_id": "c1", "content": "3 left"}
    >>> said = {"role": "user", "content": [result]}
    >>> [(turn.speaker, turn.text, turn.tool_call_id) for turn in parse_message(said, 0)]
    [('tool', '3 left', 'c1')]
    """
    if not isinstance(item, Mapping):
        raise DataError("not an object", field=f"messages[{number}]", fix='{"role": …, "content": …}')
    if "role" not in item and "from" in item and "value" in item:
        others = {key: value for key, value in item.items() if key not in ("from", "value")}
        item = {"role": item["from"], "content": item["value"], **others}
    if isinstance(item.get("role"), Mapping | list):
        raise DataError("a name is expected", field=f"messages[{number}].role")
    meta = {**(item.get("meta") or {}), **{k: v for k, v in item.items() if k not in _OURS | _LIFTED}}
    if "content" not in item:
        meta.pop("parts", None)  # they are the content
    if item.get("role") is None:
        meta["note"] = "no role"
    speaker = role(item.get("role") or "unknown")
    held = _Parts(item.get("content", item.get("parts")), meta, number, tool=speaker == "tool")
    fields = _fields(item, meta) | ({"evidence": tuple(held.evidence)} if held.evidence else {})
    calls = (
        *held.calls,
        *(call for key in _CALLS for call in tool_calls(item.get(key) or meta.pop(key, None))),
    )
    if speaker == "tool":
        return [*held.results, *_tool_turn(held, item, meta, fields)]
    refusal = item.get("refusal")
    text = held.text
    if not text and isinstance(refusal, str) and refusal:
        text, fields["finish_reason"] = refusal, fields.get("finish_reason") or "refusal"
    if held.results and not (text or calls or held.evidence or meta.get("parts")):
        return held.results
    if held.results and held.calls:  # calls and their results in one message: steps, then what is said
        step = Turn(speaker, "", tool_calls=tuple(held.calls))
        said = _replaced(clean_turn(speaker, text or "", meta), **fields)
        return [step, *held.results, *([said] if text or meta.get("parts") else [])]
    if text is None and (calls or (isinstance(item.get("content"), str) and "note" in meta)):
        text = ""
    return [*held.results, _replaced(clean_turn(speaker, text, meta), **fields, tool_calls=calls)]


def _replaced(turn: Turn, **fields: Any) -> Turn:
    return msgspec.structs.replace(turn, **{key: value for key, value in fields.items() if value})


class _Parts:
    """What the content of a message holds: text, tool calls, results, passages; the rest goes to `meta`."""

    def __init__(self, content: object, meta: dict[str, Any], number: int, *, tool: bool) -> None:
        self.texts: list[str] = []
        self.calls: list[ToolCall] = []
        self.results: list[Turn] = []
        self.evidence: list[Passage] = []
        others, thoughts = list[Any](), list[str]()
        if isinstance(content, Mapping) and not tool:  # one part, or ChatGPT's {"parts": […]}
            content = content.get("parts") if isinstance(content.get("parts"), list) else [content]
        if content is not None and not isinstance(content, str | list) and not tool:
            kind = type(content).__name__
            raise DataError(f"text expected, not {kind}", field=f"messages[{number}].content")
        if isinstance(content, str):
            self.texts.append(content)
        for part in content if isinstance(content, list) else ():
            if not self._take(part, thoughts):
                others.append(part)
        if isinstance(content, Mapping) or (tool and content and not (self.texts or self.results)):
            self.texts, others = [_as_text(content)], []
        if others:
            meta["parts"] = others
        if thoughts:
            meta["reasoning"] = "\n".join(thoughts)

    @property
    def text(self) -> str | None:
        return "\n".join(self.texts) if self.texts else None

    def _take(self, part: object, thoughts: list[str]) -> bool:
        if not isinstance(part, Mapping):
            self.texts += [part] if isinstance(part, str) else []
            return isinstance(part, str)
        kind = str(part.get("type", ""))
        if "thinking" in kind or "reasoning" in kind or part.get("thought") is True:
            thoughts.append(str(part.get("thinking") or part.get("text") or part.get("content") or ""))
        elif kind in (
            "tool_use",
            "server_tool_use",
            "mcp_tool_use",
            "tool_call",
            "tool-call",
            "function_call",
        ):
            self.calls += tool_calls(part)
        elif (
            kind.startswith("tool-") and "toolCallId" in part
        ):  # Vercel's AI SDK: call and result in one part
            self.calls += tool_calls({**part, "name": kind.removeprefix("tool-")})
            if part.get("output") is not None or part.get("errorText"):
                failed = {"is_error": True, "output": part["errorText"]} if part.get("errorText") else {}
                self.results.append(_result_turn({**part, **failed, "name": kind.removeprefix("tool-")}))
        elif called := part.get("functionCall") or part.get("function_call"):
            self.calls += tool_calls(called)
        elif kind.endswith(("tool_result", "tool_call_response", "tool-result")) or _responded(part):
            self.results.append(_result_turn(part))
        elif kind in ("document", "search_result") and (found := passages([_document(part)])):
            self.evidence += found
        elif isinstance(text := _text_of(part), str):
            self.texts.append(text)
        else:
            return False
        return True


def _text_of(part: Mapping[str, Any]) -> Any:
    if isinstance(part.get("text"), str):
        return part["text"]
    if isinstance(part.get("text"), Mapping):  # Assistants API: {"text": {"value": …}}
        return part["text"].get("value")
    return (
        part.get(str(part["type"])) or part.get("content")
        if part.get("type") in ("text", "refusal")
        else None
    )


def _responded(part: Mapping[str, Any]) -> Any:
    return part.get("functionResponse") or part.get("function_response")


def _result_turn(part: Mapping[str, Any]) -> Turn:
    found = _responded(part) or part
    keys = ("content", "response", "result", "output")
    value = next((found[key] for key in keys if found.get(key) is not None), "")
    name = found.get("name") or found.get("toolName")
    key = next(
        (found[key] for key in ("tool_use_id", "toolCallId", "tool_call_id", "id") if found.get(key)), None
    )
    meta = {"is_error": True} if found.get("is_error") else {}
    made = clean_turn("tool", _as_text(value), meta)
    return _replaced(made, tool_call_id=key and str(key), name=name and str(name))


def _tool_turn(
    held: _Parts, item: Mapping[str, Any], meta: dict[str, Any], fields: dict[str, Any]
) -> list[Turn]:
    """Return the turn of a tool's message; one that holds results as parts has none beside theirs."""
    if held.results and not held.texts:
        return []
    text = _as_text(meta.pop("content")) if not held.text and "content" in meta else held.text
    key = meta.pop("tool_call_id", None) or item.get("tool_call_id") or item.get("call_id") or ""
    if (item.get("status") == "error" or item.get("error")) and "is_error" not in meta:
        meta["is_error"] = True
    return [_replaced(clean_turn("tool", text or "", meta), **fields, tool_call_id=str(key) or None)]


def _as_text(value: object) -> str:
    """Return a tool's result as text: parts of text joined, anything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(one, Mapping) and _text_of(one) for one in value):
        return "\n".join(str(_text_of(one)) for one in value)
    return json.dumps(value, ensure_ascii=False, default=str)


def _fields(item: Mapping[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": item["name"] if isinstance(item.get("name"), str) else None,
        "model": item["model"] if isinstance(item.get("model"), str) else None,
        "language": language_code(item.get("language")),
        "finish_reason": next((str(item[key]) for key in _FINISHES if item.get(key)), None),
        "time": next((when for key in _TIMES if (when := moment(item.get(key)))), None),
        "evidence": tuple(one for key in _EVIDENCE for one in passages(item.get(key))),
        "feedback": {k: v for key in _FEEDBACK for k, v in feedback(item.get(key), key, meta).items()},
    }
    for key in ("name", "model", "language"):
        if item.get(key) is not None and found[key] is None:
            meta[key] = item[key]
    return found


def tool_calls(found: object) -> tuple[ToolCall, ...]:
    """Return the tool calls of a message, in whatever way they are written.

    >>> tool_calls([{"id": "c1", "type": "function", "function": {"name": "stock", "arguments": '{"n": 1}'}}])
    (ToolCall(name='stock', arguments={'n': 1}, id='c1'),)
    """
    if isinstance(found, Mapping | str):
        found = [found]
    return tuple(_tool_call(one) for one in found or () if one) if isinstance(found, list | tuple) else ()


def _tool_call(one: object) -> ToolCall:
    if not isinstance(one, Mapping):
        return ToolCall(clean_text(str(one))[0])
    inner = one["function"] if isinstance(one.get("function"), Mapping) else one
    name = inner.get("name") or inner.get("toolName") or one.get("function") or inner.get("action") or ""
    keys = ("arguments", "args", "input", "input_parameters", "parameters", "kwargs")
    given: object = next((inner[key] for key in keys if inner.get(key) is not None), {})
    key = one.get("id") or one.get("call_id") or one.get("toolCallId") or one.get("tool_call_id")
    return ToolCall(clean_text(str(name))[0], _arguments(given), str(key) if key else None)


def _arguments(given: object) -> dict[str, Any] | str:
    if isinstance(given, str):
        try:
            parsed = json.loads(given)
        except (ValueError, RecursionError):
            return given
        given = parsed if isinstance(parsed, dict) else given
    return dict(given) if isinstance(given, Mapping) else str(given)


def passages(found: object) -> tuple[Passage, ...]:
    """Return the passages in a list of texts or documents.

    >>> passages(["Refunds take 5 days.", {"page_content": "Fees", "metadata": {"source": "fees.md"}}])
    (Passage(text='Refunds take 5 days.', source=None), Passage(text='Fees', source='fees.md'))
    """
    if isinstance(found, str | Mapping | Passage):
        found = [found]
    if not isinstance(found, Iterable):
        return ()
    return tuple(passage for one in found if (passage := _passage(one)).text.strip())


def _passage(one: Any) -> Passage:
    if isinstance(one, Passage):
        return one
    if not isinstance(one, Mapping):
        return Passage(clean_text(one if isinstance(one, str) else _as_text(one))[0])
    if isinstance(one.get("document"), Mapping):  # a hit: {"document": {…}, "score": …}
        one = one["document"]
    about = one.get("metadata") if isinstance(one.get("metadata"), Mapping) else {}
    keys = (
        "text",
        "page_content",
        "pageContent",
        "content",
        "document.content",
        "passage",
        "snippet",
        "chunk",
    )
    text = next((one[key] for key in keys if one.get(key)), None)
    named = ("source", "title", "document.id", "url", "id")
    source = next((where[key] for where in (one, about or {}) for key in named if where.get(key)), None)
    made = clean_text(_as_text(text if text is not None else dict(one)))[0]
    return Passage(made, None if source is None else clean_text(str(source))[0])


def _document(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the text and title of a `document` or `search_result` block; one without text is empty."""
    source = part.get("source")
    text = source.get("data") or source.get("content") if isinstance(source, Mapping) else part.get("content")
    if isinstance(source, Mapping) and source.get("type") not in ("text", "content"):
        text = None  # a PDF in base64
    return {
        "text": _as_text(text) if text else " ",
        "source": part.get("title") or (not isinstance(source, Mapping) and source) or None,
    }


def feedback(found: object, name: str = "feedback", meta: dict[str, Any] | None = None) -> dict[str, float]:
    """Return what a user said of a reply, as numbers: thumbs are 0 or 1, ratings stay as they are.

    Args:
        found: A number, a word, or an object of them.
        name: What a bare number is called.
        meta: Takes a comment in words (`feedback_comment`), and what could not be understood.

    >>> feedback("thumbs_down"), feedback({"rating": 4, "comment": "ok"}), feedback(True, "resolved")
    ({'thumbs': 0.0}, {'rating': 4.0}, {'resolved': 1.0})
    """
    if isinstance(found, Mapping):
        every = [
            feedback(value, str(key), meta) for key, value in found.items() if key not in ("reaction", "name")
        ]
        if isinstance(found.get("reaction"), str):
            every.append(feedback(found["reaction"], "thumbs", meta))
        return {key: value for some in every for key, value in some.items()}
    if isinstance(found, bool):
        return {name if name not in ("feedback", "value", "score") else "thumbs": float(found)}
    if isinstance(found, int | float):
        if math.isfinite(found):
            thumbs = name in ("feedback", "thumbs") and found in (-1, 0, 1)
            return {"thumbs": float(found > 0)} if thumbs else {name: float(found)}
        return {}
    if isinstance(found, str) and found.strip():
        word = (
            found.strip()
            .lower()
            .replace("-", "_")
            .replace(" ", "_")
            .replace("👍", "up")
            .replace("👎", "down")
        )
        if word in _GOOD | _BAD:
            return {name if name in ("resolved", "helpful") else "thumbs": float(word in _GOOD)}
        try:
            return feedback(float(word), name, meta)
        except ValueError:
            if meta is not None:
                meta[
                    "feedback_comment"
                    if name in ("comment", "text", "feedback", "reason")
                    else f"feedback_{name}"
                ] = found
    return {}


def moment(found: object) -> str | None:
    """Return a time as ISO 8601; numbers count seconds, or milliseconds or less, since 1970.

    >>> moment(1767225600), moment(1767225600000), moment("2026-01-01 00:00")
    ('2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z', '2026-01-01 00:00')
    """
    if isinstance(found, str) and found.isdigit() and len(found) >= 10:
        found = int(found)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return found if isinstance(found, str) and found.strip() else None
    seconds = float(found)
    while seconds > 1e11:
        seconds /= 1000
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


# Lists of messages, in the ways that libraries write them

_LANGCHAIN = {
    **dict.fromkeys(("human", "humanmessage", "humanmessagechunk"), "user"),
    **dict.fromkeys(("ai", "aimessage", "aimessagechunk"), "assistant"),
    **dict.fromkeys(("tool", "toolmessage", "toolmessagechunk", "function", "functionmessage"), "tool"),
    **dict.fromkeys(("system", "systemmessage", "systemmessagechunk"), "system"),
    **dict.fromkeys(("chat", "chatmessage", "chatmessagechunk"), "chat"),
}
_ITEMS = ("function_call", "function_call_output", "reasoning", "custom_tool_call", "custom_tool_call_output")
_LISTS = (
    "messages",
    "input_messages",
    "output_messages",
    "chat_history",
    "history",
    "contents",
    "input",
    "output",
)


def plain_message(item: object) -> dict[str, Any] | None:
    """Return a message of any library with `role` and `content`; None if it is no message.

    Understood are messages with a role, LangChain's (`type` human or ai, `data`, and the constructor form),
    items of OpenAI's Responses API, and those with `sender`, `author` or `from` and `value`.

    >>> plain_message({"type": "ai", "content": "Hello!"})
    {'role': 'assistant', 'content': 'Hello!'}
    """
    if not isinstance(item, Mapping):
        return None
    if item.get("lc") and isinstance(item.get("kwargs"), Mapping) and isinstance(item.get("id"), list):
        return plain_message({**item["kwargs"], "type": str(item["id"][-1]) if item["id"] else ""})
    kind = str(item.get("type") or "").lower()
    if kind in _LANGCHAIN and isinstance(item.get("data"), Mapping):
        return plain_message({**item["data"], "type": kind})
    if kind in _LANGCHAIN and "content" in item and not ("role" in item and kind != "chat"):
        return _langchain(item, _LANGCHAIN[kind])
    if kind in _ITEMS or (kind.endswith("_call") and "role" not in item):
        return _item(item, kind)
    if isinstance(item.get("message"), Mapping) and "role" not in item:
        return plain_message(item["message"])
    author = item.get("author")
    if isinstance(author, Mapping) and author.get("role") and "content" in item:
        return {**{k: v for k, v in item.items() if k != "author"}, "role": author["role"]}
    if "role" in item and ("content" in item or "parts" in item or "tool_calls" in item or "text" in item):
        return dict(item) if "content" in item or "parts" in item else {"content": item.get("text"), **item}
    if "from" in item and "value" in item and not isinstance(item["from"], Mapping):
        return dict(item)
    for key in ("sender", "speaker"):
        text = next(
            (item[name] for name in ("content", "text", "utterance", "message") if item.get(name)), None
        )
        if isinstance(item.get(key), str) and text is not None:
            used = (key, "content", "text", "utterance", "message")
            return {"role": item[key], "content": text, **{k: v for k, v in item.items() if k not in used}}
    return None


def _langchain(item: Mapping[str, Any], speaker: str) -> dict[str, Any]:
    about = item.get("response_metadata") if isinstance(item.get("response_metadata"), Mapping) else {}
    extra = item.get("additional_kwargs") if isinstance(item.get("additional_kwargs"), Mapping) else {}
    dropped = ("type", "response_metadata", "additional_kwargs", "example", "usage_metadata", "role", "id")
    made = {k: v for k, v in item.items() if k not in dropped and v not in (None, [], {})}
    made["role"], made["content"] = str(item.get("role")) if speaker == "chat" else speaker, item["content"]
    if isinstance(made["content"], list) and made.get("tool_calls"):  # Anthropic's blocks repeat the calls
        made["content"] = [one for one in made["content"] if not _is_call(one)]
    for key in ("tool_calls", "function_call", "refusal"):
        if extra and extra.get(key) and not made.get(key):
            made[key] = extra[key]
    for name, keys in (
        ("finish_reason", ("finish_reason", "stop_reason")),
        ("model", ("model_name", "model")),
    ):
        found = next((about[key] for key in keys if about and about.get(key)), None)
        if found:
            made[name] = found
    return {"role": made.pop("role"), "content": made.pop("content"), **made}


def _is_call(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") in ("tool_use", "tool_call", "function_call")


def _item(item: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
    if kind.endswith("_output"):
        key = item.get("call_id") or item.get("id")
        return {"role": "tool", "content": item.get("output"), "tool_call_id": key}
    if kind == "reasoning":
        return None
    name = item.get("name") or kind.removesuffix("_call")
    given = item.get("arguments") or item.get("input") or item.get("queries") or item.get("action") or {}
    call = {"name": name, "arguments": given, "id": item.get("call_id") or item.get("id")}
    made: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call]}
    return made | ({"evidence": item["results"]} if item.get("results") else {})


def is_messages(found: object) -> bool:
    """Whether a value is a list of messages."""
    return (
        isinstance(found, list)
        and bool(found)
        and all(
            plain_message(one) is not None or (isinstance(one, Mapping) and one.get("type") == "reasoning")
            for one in found
        )
    )


def messages_in(found: object, speaker: str = "user") -> list[dict[str, Any]]:
    """Return the messages that an input or output of a model holds, however deep; text is one message.

    >>> messages_in({"messages": [[{"type": "human", "content": "Hi!"}]]})
    [{'role': 'user', 'content': 'Hi!'}]
    >>> messages_in({"choices": [{"message": {"role": "assistant", "content": "Hello!"}}]})
    [{'role': 'assistant', 'content': 'Hello!'}]
    """
    found = decoded(found)
    if isinstance(found, str):
        return [{"role": speaker, "content": found}] if found.strip() else []
    if isinstance(found, list):
        if found and isinstance(found[0], list):  # LangChain writes one list for each prompt of a batch
            return messages_in(found[0], speaker)
        if is_messages(found):
            return [plain for one in found if (plain := plain_message(one)) is not None]
        if found and all(isinstance(one, Mapping) and isinstance(one.get("type"), str) for one in found):
            return [{"role": speaker, "content": found}]  # content blocks
        return [message for one in found if isinstance(one, Mapping) for message in messages_in(one, speaker)]
    return _in_object(found, speaker) if isinstance(found, Mapping) else []


def _in_object(found: Mapping[str, Any], speaker: str) -> list[dict[str, Any]]:
    if (plain := plain_message(found)) is not None:
        return [plain]
    for key in ("choices", "candidates", "generations"):
        if isinstance(found.get(key), list) and found[key]:
            return _of_choice(found[key][0], speaker, found)
    head = [
        {
            "role": "system",
            "content": prompt["parts"] if isinstance(prompt, Mapping) and "parts" in prompt else prompt,
        }
        for key in ("system", "systemInstruction", "system_instruction", "instructions")
        if (prompt := found.get(key))
    ]
    for key in _LISTS:
        inner = decoded(found.get(key))
        if isinstance(inner, list | Mapping) and inner and (held := messages_in(inner, speaker)):
            more = found.get("input") if key in ("chat_history", "history") else None
            return head + held + (messages_in(more, speaker) if isinstance(more, str) else [])
    asked = ("input", "question", "query", "prompt", "user_input", "text", "message", "inputs")
    answered = (
        "output",
        "answer",
        "response",
        "result",
        "completion",
        "text",
        "content",
        "message",
        "outputs",
    )
    for key in asked if speaker == "user" else answered:
        if isinstance(found.get(key), str | Mapping) and (held := messages_in(found[key], speaker)):
            return head + held
    values = [value for value in found.values() if isinstance(value, str) and value.strip()]
    return head + ([{"role": speaker, "content": values[0]}] if len(found) == 1 and values else [])


def _of_choice(choice: object, speaker: str, whole: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the message of a completion, with why it ended and which model wrote it."""
    if isinstance(choice, list):
        return _of_choice(choice[0], speaker, whole) if choice else []
    if not isinstance(choice, Mapping):
        return []
    inner = next((choice[key] for key in ("message", "content", "text") if choice.get(key)), None)
    held = messages_in(inner, speaker)
    about = choice.get("generation_info") if isinstance(choice.get("generation_info"), Mapping) else choice
    finish = next((about[key] for key in _FINISHES if about and about.get(key)), None)
    model = whole.get("model") or whole.get("modelVersion")
    known = {"finish_reason": finish, "model": model if isinstance(model, str) else None}
    known = {key: value for key, value in known.items() if value}
    return [{**known, **held[0]}, *held[1:]] if held else []


def decoded(found: object) -> Any:
    """Return what a text of JSON holds (exports put objects into strings); anything else as it is."""
    if isinstance(found, str) and found.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(found)
        except (ValueError, RecursionError):
            return found
    return found
