"""Messages as single applications write them: Letta, Gemini CLI, voice agents, Chainlit, templates of models.

`chats.plain_message` calls these; each returns messages with `role` and `content`.
"""

import re
from collections.abc import Mapping
from typing import Any

from dialeval.dialogues.formats.messages import role
from dialeval.dialogues.formats.values import decoded

LETTA = {"tool_call_message", "tool_return_message", "reasoning_message"}
LETTA |= {f"{who}_message" for who in ("user", "assistant", "system")}


def letta(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message of Letta, whose type says who speaks; a thought stands alone."""
    kind, call = str(item["message_type"]), item.get("tool_call")
    known = {key: item[key] for key in ("date", "name") if item.get(key)}
    if isinstance(call, Mapping):
        return {"role": "assistant", "content": None, "tool_calls": [call], **known}
    if kind == "tool_return_message":
        return {"role": "tool", "content": item.get("tool_return"), "tool_call_id": item.get("tool_call_id")}
    if kind == "reasoning_message":
        return {"role": "assistant", "channel": "analysis", "content": item.get("reasoning")}
    return {"role": kind.removesuffix("_message"), "content": item.get("content"), **known}


def call_and_result(call: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a call that holds its result as two parts; Gemini wraps what a tool gave back twice."""
    held = call.get("result")
    first = held[0] if isinstance(held, list) and len(held) == 1 else held
    inner = first.get("functionResponse") if isinstance(first, Mapping) else None
    given = inner.get("response") if isinstance(inner, Mapping) else None
    said = given.get("output", given) if isinstance(given, Mapping) else held
    back = {"type": "tool_result", "tool_call_id": call.get("id"), "name": call.get("name"), "content": said}
    return {**call, "type": "tool_call"}, back


def voiced(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call of a voice agent, or its result, which are messages of their own."""
    key = item.get("tool_call_id") or item.get("toolCallId")
    if item["role"] == "tool_call_result":
        said = item.get("content") if item.get("content") is not None else item.get("result")
        return {"role": "tool", "content": said, "tool_call_id": key, "name": item.get("name")}
    call = {"name": item.get("name"), "arguments": item.get("arguments"), "id": key}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def chainlit(item: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return a step of Chainlit: what a side said, or a call with its result."""
    known = {key: item[key] for key in ("createdAt", "feedback") if item.get(key)}
    if kind != "tool":
        return {"role": kind.removesuffix("_message"), "content": item["output"], **known}
    call = {"name": item.get("name"), "arguments": decoded(item.get("input")) or {}, "id": item.get("id")}
    result = {"type": "tool_result", "tool_call_id": item.get("id"), "content": item["output"]}
    return {"role": "assistant", "content": [{"type": "tool_call", **call}, result], **known}


_MARK = re.compile(
    r"<\|im_start\|>\s*(\w+)\s*\n|<\|start_header_id\|>(\w+)<\|end_header_id\|>|<start_of_turn>(\w+)\n"
    r"|(?:^|(?<=\n)|(?<=[.?!]))###\s*(Human|User|Assistant|System):|(\[INST\](?:\s*<<SYS>>)?|\[/INST\]|<</SYS>>)"
)
_ENDS = re.compile(
    r"<\|(?:im_end|eot_id|endoftext|begin_of_text|end_of_text)\|>|<end_of_turn>|</s>|<s>|<bos>|<eos>"
)
_INST = {"[INST]": "user", "[/INST]": "assistant", "<</SYS>>": "user"}


def template_messages(text: str) -> list[dict[str, Any]]:
    """Return the messages of a text in the template of a model; none if it is in none.

    >>> template_messages("<s>[INST] Name a fruit. [/INST] Apple. </s>")
    [{'role': 'user', 'content': 'Name a fruit.'}, {'role': 'assistant', 'content': 'Apple.'}]
    """
    marks = list(_MARK.finditer(text)) if "<" in text or "###" in text or "[INST]" in text else []
    if not marks or _ENDS.sub("", text[: marks[0].start()]).strip():
        return []
    ends = [*(one.start() for one in marks[1:]), len(text)]
    said = [_ENDS.sub("", text[one.end() : end]).strip() for one, end in zip(marks, ends, strict=True)]
    sides = [next(filter(None, one.groups())) for one in marks]
    named = [role(_INST.get(one, "system" if "SYS" in one else one)) for one in sides]
    return [{"role": who, "content": one} for who, one in zip(named, said, strict=True) if one]
