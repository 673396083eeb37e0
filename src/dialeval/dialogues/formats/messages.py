"""One message of any chat API → turns, with its tool calls, results, evidence and feedback.

Messages differ in where things stand, not in what they say. Text is a string or a list of parts; a tool call
is a part (Anthropic `tool_use`, Gemini `functionCall`, OpenTelemetry `tool_call`) or stands beside the text
(OpenAI `tool_calls`); a tool's result is a message of its own or a part of the user's. A message with results
in it becomes a turn for each result, then one for the rest. What has no field of `Turn` stays in `meta`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dialeval.dialogues.dialogue import Passage, ToolCall, Turn, clean_text, clean_turn
from dialeval.dialogues.formats.values import (
    as_text,
    decoded,
    evidence_in,
    feedback_in,
    feedback_name,
    is_evidence,
    moment,
    passages,
    reactions,
    text_of,
    tool_calls,
)
from dialeval.dialogues.languages import language_code
from dialeval.errors import DataError

_ROLES = {
    **dict.fromkeys(
        (
            *("user", "human", "customer", "client", "usr", "prompter", "you", "u", "incoming", "inbound"),
            *("visitor", "end-user", "end_user", "enduser", "requester", "lead", "contact", "guest"),
            *("end user", "humanmessage", "usermessage", "user_message", "consumer", "kunde", "kundin"),
            *("nutzer", "benutzer", "cliente", "usuario", "utilisateur", "caller", "patient", "in"),
        ),
        "user",
    ),
    **dict.fromkeys(
        (
            *("assistant", "bot", "chatbot", "gpt", "chatgpt", "agent", "ai", "model", "bing", "bard", "sys"),
            *("admin", "operator", "business", "virtual agent", "virtual assistant", "outgoing", "outbound"),
            *("ai_agent", "virtual_agent", "automated_agent", "human_agent", "custom_bot", "lyro"),
            *("aimessage", "apimessage", "assistantmessage", "assistant_message", "bot_message"),
            *("tool_calls", "representative", "rep", "advisor", "csr", "out"),
            *("mitarbeiter", "mitarbeiterin", "berater", "beraterin", "assistent", "conseiller"),
            *("conseillère", "agente", "asistente", "assistente", "operador", "operatore"),
        ),
        "assistant",
    ),
    **dict.fromkeys(
        (
            *("tool", "function", "observation", "function_call", "tool_call", "tool_response"),
            *("tool_result", "tool_call_result", "function response", "function_response"),
        ),
        "tool",
    ),
    **dict.fromkeys(("system", "developer"), "system"),
}
TIMES = (
    *("time", "timestamp", "created_at", "createdAt", "create_time", "created", "createTime", "received"),
    *("timestamp_ms", "sent_at", "date"),
)
FINISHES = ("finish_reason", "stop_reason", "finishReason", "stopReason", "done_reason")
_CALLS = ("tool_calls", "toolCalls", "function_call", "functionCall", "tools_called", "toolsCalled")
_LIFTED = frozenset((*TIMES, *FINISHES, *_CALLS, "reactions"))
_OURS = frozenset(("role", "content", "meta", "tool_call_id", "name", "model", "language", "refusal"))
CONTENTS = ("parts", "blocks", "items", "contents")
"""In place of `content`: Gemini and Vercel, LlamaIndex, Semantic Kernel, Microsoft's Agent Framework."""


def role(name: object) -> str:
    """Map the many names of the two sides onto `user` and `assistant`; other names stay.

    >>> role("Human"), role("gpt"), role("Alice")
    ('user', 'assistant', 'Alice')
    """
    text = clean_text(str(name))[0]
    return _ROLES.get(text.strip().lower(), text)


PROGRAMS = frozenset(
    ("claude", "gemini", "copilot", "github copilot", "cursor", "deepseek", "grok", "le chat")
)


def with_known_bot(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Call a chat program the assistant where it alone talks with a user; two that talk keep their names.

    >>> [turn.speaker for turn in with_known_bot([Turn("user", "Hi"), Turn("Claude", "Hello")])]
    ['user', 'assistant']
    """
    sides = {turn.speaker for turn in turns} - {"tool", "system"}
    if len(sides) != 2 or "user" not in sides or (sides - {"user"}).pop().lower() not in PROGRAMS:
        return tuple(turns)
    kept = ("user", "tool", "system")
    return tuple(
        turn if turn.speaker in kept else msgspec.structs.replace(turn, speaker="assistant") for turn in turns
    )


def parse_message(item: object, number: int) -> list[Turn]:
    """Return the turns that a message holds: `role` and `content`, or `from` and `value` as in ShareGPT.

    >>> result = {"type": "tool_result", "tool_use_id": "c1", "content": "3 left"}
    >>> said = {"role": "user", "content": [result]}
    >>> [(turn.speaker, turn.text, turn.tool_call_id) for turn in parse_message(said, 0)]
    [('tool', '3 left', 'c1')]
    """
    if not isinstance(item, Mapping):
        raise DataError("not an object", field=f"messages[{number}]", fix='{"role": …, "content": …}')
    said = next((key for key in ("value", "content") if key in item), None)
    if "role" not in item and "from" in item and said:
        others = {key: value for key, value in item.items() if key not in ("from", said)}
        item = {"role": item["from"], "content": item[said], **others}
    if isinstance(item.get("role"), Mapping | list | bytes):
        raise DataError("a name is expected", field=f"messages[{number}].role")
    item = _tagged(_with_invocations(item))
    prompts, spoken = _prompts(item.get("content"))
    if prompts:
        told = "\n".join(str(text_of({"type": "system-prompt", **part})) for part in prompts)
        system = parse_message({"role": "system", "content": told}, number)
        return [*system, *(parse_message({**item, "content": spoken}, number) if spoken else ())]
    steps = _steps(item.get("content"))
    if len(steps) > 1:  # what was said, the calls and their results, then what was said to that
        known = {key: item[key] for key in ("role", "model", *TIMES) if key in item}
        parts = [{**known, "content": step} for step in steps[:-1]] + [{**item, "content": steps[-1]}]
        return [turn for part in parts for turn in parse_message(part, number)]
    meta = {
        **(item.get("meta") or {}),
        **{k: v for k, v in item.items() if k not in _OURS and not is_lifted(k)},
    }
    if item.get("role") is None:
        meta["note"] = "no role"
    speaker = role(item.get("role") or "unknown")
    held = _Parts(item.get("content"), meta, number, speaker)
    fields = _fields(item, meta) | ({"evidence": tuple(held.evidence)} if held.evidence else {})
    beside = (call for key in _CALLS for call in tool_calls(item.get(key) or meta.pop(key, None)))
    calls = (*held.calls, *beside)
    if speaker == "tool":
        return [*held.results, *_tool_turn(held, item, meta, fields)]
    refusal, text = item.get("refusal") or held.refusal, held.text
    if text is None and isinstance(item.get("audio"), Mapping):  # OpenAI's spoken reply
        text = text_of(item["audio"])
    if not text and isinstance(refusal, str) and refusal:
        text, fields["finish_reason"] = refusal, fields.get("finish_reason") or "refusal"
    if held.results and not (text or calls or held.evidence or meta.get("parts")):
        return held.results
    if text is None and (calls or (isinstance(item.get("content"), str) and "note" in meta)):
        text = ""
    made = _replaced(clean_turn(speaker, text, meta), **fields, tool_calls=calls)
    return [made, *held.results] if held.calls else [*held.results, made]


THOUGHT_IN_TEXT = "thought_in_text"
"""In the meta of a turn whose text held the model's thoughts, which were taken out of it."""
_THOUGHT = re.compile(
    r"\s*(?:<think>|<details type=\"reasoning\".*?</summary>)(.*?)</(?:think|details)>\s*", re.DOTALL
)
_TAGGED = re.compile(r"\s*<tool_call>\s*(\{.*?\})\s*</tool_call>\s*", re.DOTALL)
_RETURNED = re.compile(r"\s*<tool_response>\s*(.*?)\s*</tool_response>\s*", re.DOTALL)


def _tagged(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message whose text held thoughts, calls or results in tags, as many open models write them."""
    text, kind = item.get("content"), str(item.get("role")).lower()
    if kind in ("function_call", "tool_call"):  # ShareGPT's call of a tool, as a message of its own
        return {**item, "role": "assistant", "content": None, "tool_calls": text}
    if not isinstance(text, str) or "</" not in text:
        return item
    if role(kind) == "tool" or (role(kind) == "user" and _RETURNED.fullmatch(text)):
        return {**item, "role": "tool", "content": _RETURNED.sub(r"\1", text)}
    thought, calls = _THOUGHT.match(text), [decoded(one) for one in _TAGGED.findall(text)]
    if not all(isinstance(one, Mapping) and {"name", "arguments"} <= one.keys() for one in calls):
        return item  # no call, but something that slipped into a reply
    if role(kind) != "assistant" or not (thought or calls):
        return item
    rest = _TAGGED.sub("", text[thought.end() :] if thought else text)
    known = {"reasoning": thought[1].strip(), THOUGHT_IN_TEXT: True} if thought and thought[1].strip() else {}
    called = {"tool_calls": calls} if calls else {}
    return {**item, **known, **called, "content": rest or (None if calls else "")}


def _steps(content: object) -> list[list[Any]]:
    """Return the parts of a message, cut where something follows the result of a call that it holds."""
    steps: list[list[Any]] = [[]]
    called = answered = False
    for part in content if isinstance(content, list) else ():
        kind, invoked = _kind(part), _is_invocation(part)
        if called and answered and not invoked and not kind.endswith(_RESULT) and kind not in _SIGNS:
            steps.append([])
            called = answered = False
        steps[-1].append(part)
        called = called or invoked or kind in _CALL
        answered = answered or invoked or kind.endswith(_RESULT)
    return steps


def _prompts(content: object) -> tuple[list[Any], list[Any]]:
    """Return the system prompts among the parts of a message (Pydantic AI), and the others."""
    parts: list[Any] = content if isinstance(content, list) else []
    prompts = [part for part in parts if _kind(part) == "system-prompt"]
    return prompts, [part for part in parts if part not in prompts] if prompts else parts


def _is_invocation(part: object) -> bool:
    """Whether a part is a call of Vercel's AI SDK, which holds its result too."""
    kind = _kind(part)
    return kind == "dynamic-tool" or (
        isinstance(part, Mapping) and kind.startswith("tool-") and "toolCallId" in part and kind not in _CALL
    )


def is_lifted(key: str) -> bool:
    """Whether what stands under a key of a message has a field of its own, whatever it is called."""
    return key in _LIFTED or is_evidence(key) or feedback_name(key) is not None


def _with_invocations(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message whose content holds all it says.

    LlamaIndex keeps calls under `additional_kwargs`; Vercel's AI SDK 4 writes the text of a message beside
    its parts, and its tool calls with their results beside both.
    """
    extra = item.get("additional_kwargs")
    if isinstance(extra, Mapping) and extra:
        item = {**{key: value for key, value in extra.items() if value and key not in item}, **item}
        item.pop("additional_kwargs")
    key = next((one for one in CONTENTS if isinstance(item.get(one), list)), None)
    parts: list[Any] = item[key] if key else []
    called = item.get("toolInvocations") or decoded(item.get("usedTools"))  # Flowise
    if isinstance(called, list) and not any("tool" in str(_kind(part)) for part in parts):
        parts = [{"type": "tool-invocation", "toolInvocation": one} for one in called]
        parts += [{"type": "text", "text": item["content"]}] if item.get("content") else []
    told = "content" in item and not any("tool" in str(_kind(part)) for part in parts)
    if not parts or told:
        if key is None or "content" in item:
            return item
        return {**{k: v for k, v in item.items() if k != key}, "content": item[key]}
    return {
        **{k: v for k, v in item.items() if k not in (*CONTENTS, "toolInvocations", "usedTools")},
        "content": parts,
    }


def _replaced(turn: Turn, **fields: Any) -> Turn:
    return msgspec.structs.replace(turn, **{key: value for key, value in fields.items() if value})


_WRAPPED = {
    **dict.fromkeys(("functionCall", "function_call", "toolUse"), "tool_use"),
    **dict.fromkeys(("functionResponse", "function_response", "toolResult"), "tool_result"),
    "tool_call_result": "tool_result",  # Haystack
    **dict.fromkeys(("toolInvocation", "tool_call"), "dynamic-tool"),  # Vercel's AI SDK 4, LibreChat
    "reasoningContent": "reasoning",
}
_CALL = frozenset(
    [
        "tool_use",
        "server_tool_use",
        "mcp_tool_use",
        "tool_call",
        "tool-call",
        "function_call",
        "function",  # PostHog
        "server_tool_call",
        "builtin-tool-call",  # Pydantic AI
    ]
)
_RESULT = ("tool_result", "tool_call_response", "tool-result", "tool-return", "function_result")
_THOUGHTS = ("thinking", "text", "content", "reasoning", "reasoningText")
_SIGNS = ("step-start",)
_DOCUMENT = frozenset(("document", "search_result", "source-document"))


def _kind(part: object) -> str:
    if not isinstance(part, Mapping):
        return ""
    wrapped = (kind for key, kind in _WRAPPED.items() if isinstance(part.get(key), Mapping))
    return next(wrapped, "") or str(
        next((part[k] for k in ("type", "block_type", "part_kind", "content_type") if k in part), "")
    )


def _is_cut(content: list[Any]) -> bool:
    """Whether the parts are one text that was cut: where it cites (Anthropic), as it came (Gemini)."""
    parts = [part for part in content if isinstance(part, Mapping) and isinstance(part.get("text"), str)]
    return any(part.get("citations") or set(part) <= {"text", "thoughtSignature"} for part in parts)


class _Parts:
    """What the content of a message holds: text, tool calls, results, passages; the rest goes to `meta`."""

    def __init__(self, content: object, meta: dict[str, Any], number: int, speaker: str) -> None:
        tool = speaker == "tool"
        self.texts: list[str] = []
        self.calls: list[ToolCall] = []
        self.results: list[Turn] = []
        self.evidence: list[Passage] = []
        self.refusal: Any = None
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
            self.texts, others = [as_text(content)], []
        if others:
            meta["parts"] = others
        if any(thoughts):
            meta["reasoning"] = "\n".join(filter(None, thoughts))
        self.apart = "" if speaker == "assistant" and isinstance(content, list) and _is_cut(content) else "\n"

    @property
    def text(self) -> str | None:
        return self.apart.join(self.texts) if self.texts else None

    def _take(self, part: object, thoughts: list[str]) -> bool:
        if not isinstance(part, Mapping):
            self.texts += [part] if isinstance(part, str) else []
            return isinstance(part, str)
        kind, invoked = _kind(part), _is_invocation(part)
        part = next((part[key] for key in _WRAPPED if isinstance(part.get(key), Mapping)), part)
        if "thinking" in kind or "reasoning" in kind or part.get("thought") is True:
            held = next((part[key] for key in _THOUGHTS if part.get(key)), "")
            thoughts.append(str(text_of(held)) if isinstance(held, Mapping) else as_text(held))
        elif kind in _CALL:
            self.calls += tool_calls(part)
        elif invoked:
            self._take_invocation(part, kind)
        elif kind == "refusal":
            self.refusal = part.get("refusal") or text_of(part)
        elif kind.endswith(_RESULT):
            self.results.append(_result_turn(part))
        elif kind in _DOCUMENT and (found := passages([_document(part)])):
            self.evidence += found
        elif isinstance(text := text_of({**part, "type": kind} if kind else part), str):
            self.texts.append(text)
        else:
            return kind in _SIGNS
        return True

    def _take_invocation(self, part: Mapping[str, Any], kind: str) -> None:
        """Take the call of Vercel's AI SDK, which holds its result too."""
        names = (part.get(key) for key in ("toolName", "tool_name", "name", "tool"))
        name = next(filter(None, names), kind.removeprefix("tool-"))
        self.calls += tool_calls({**part, "name": name})
        failed = {"is_error": True, "output": part["errorText"]} if part.get("errorText") else {}
        if failed or any(part.get(key) is not None for key in ("output", "result", "toolOutput")):
            self.results.append(_result_turn({**part, **failed, "name": name}))


def _result_turn(part: Mapping[str, Any]) -> Turn:
    if isinstance(part.get("origin"), Mapping):  # Haystack: the call that it answers
        part = {**part["origin"], **part}
    keys: tuple[str, ...] = ("content", "response", "result", "output", "tool_result", "result_value")
    keys = (*keys, "toolOutput", "server_tool_call_response")
    value = next((part[key] for key in keys if part.get(key) is not None), "")
    name = part.get("name") or part.get("toolName") or part.get("tool_name")
    ids = ("tool_use_id", "toolCallId", "tool_call_id", "toolUseId", "call_id", "request_id", "id")
    key = next((part[key] for key in ids if part.get(key)), None)
    failed = any(part.get(key) for key in ("is_error", "isError", "error")) or part.get("status") == "error"
    if isinstance(value, Mapping) and set(value) == {"type", "value"}:  # Vercel: {"type": "error-text", …}
        failed, value = failed or str(value["type"]).startswith("error"), value["value"]
    made = clean_turn("tool", as_text(value), {"is_error": True} if failed else {})
    return _replaced(made, tool_call_id=key and str(key), name=name and str(name))


def _tool_turn(
    held: _Parts, item: Mapping[str, Any], meta: dict[str, Any], fields: dict[str, Any]
) -> list[Turn]:
    """Return the turn of a tool's message; one that holds results as parts has none beside theirs."""
    if held.results and not held.texts:
        return []
    text = as_text(meta.pop("content")) if not held.text and "content" in meta else held.text
    key = meta.pop("tool_call_id", None) or item.get("tool_call_id") or item.get("call_id") or ""
    failed = item.get("error")
    if (item.get("status") == "error" or failed) and "is_error" not in meta:
        meta["is_error"] = True
    text = text or (str(failed.get("message") or "") if isinstance(failed, Mapping) else "")
    return [_replaced(clean_turn("tool", text, meta), **fields, tool_call_id=str(key) or None)]


def _fields(item: Mapping[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    asks = role(item.get("role")) == "user"  # a reaction to a question says nothing of a reply
    found: dict[str, Any] = {
        "name": item["name"] if isinstance(item.get("name"), str) else None,
        "model": item["model"] if isinstance(item.get("model"), str) else None,
        "language": language_code(item.get("language")),
        "finish_reason": next((str(item[key]) for key in FINISHES if item.get(key)), _incomplete(item)),
        "time": next((when for key in TIMES if (when := moment(item.get(key)))), None),
        "evidence": evidence_in(item),
        "feedback": ({} if asks else reactions(item.get("reactions"))) | feedback_in(item, meta),
    }
    for key in ("name", "model", "language"):
        if item.get(key) is not None and found[key] is None:
            meta[key] = item[key]
    return found


def _incomplete(item: Mapping[str, Any]) -> str | None:
    """Return why a message of the Assistants API broke off."""
    found = item.get("incomplete_details")
    return str(found["reason"]) if isinstance(found, Mapping) and found.get("reason") else None


def _document(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the text and title of a `document` or `search_result` block; one without text is empty."""
    source = part.get("source")
    text = source.get("data") or source.get("content") if isinstance(source, Mapping) else part.get("content")
    if isinstance(source, Mapping) and source.get("type") not in ("text", "content"):
        text = None  # a PDF in base64
    return {
        "text": as_text(text) if text else " ",
        "source": part.get("title") or (not isinstance(source, Mapping) and source) or None,
    }
