"""Lists of messages, in the ways that libraries, platforms and people write them.

What differs is where the speaker and the text stand: `plain_message` finds both and returns `role` and
`content`, so that all readers share `parse_message`.
"""

from collections.abc import Mapping
from typing import Any

from dialeval.dialogues.formats.applications import (
    LETTA,
    call_and_result,
    chainlit,
    letta,
    template_messages,
    voiced,
)
from dialeval.dialogues.formats.messages import CONTENTS, FINISHES, TIMES, is_lifted, role
from dialeval.dialogues.formats.values import decoded, instant, moment, plain_name

_LANGCHAIN = {
    **dict.fromkeys(("human", "humanmessage", "humanmessagechunk"), "user"),
    **dict.fromkeys(("ai", "aimessage", "aimessagechunk"), "assistant"),
    **dict.fromkeys(("tool", "toolmessage", "toolmessagechunk", "function", "functionmessage"), "tool"),
    **dict.fromkeys(("system", "systemmessage", "systemmessagechunk"), "system"),
    **dict.fromkeys(("chat", "chatmessage", "chatmessagechunk"), "chat"),
}
_AUTOGEN = {
    **dict.fromkeys(("usermessage", "textmessage", "multimodalmessage", "stopmessage"), "user"),
    **dict.fromkeys(("assistantmessage", "toolcallrequestevent", "toolcallsummarymessage"), "assistant"),
    **dict.fromkeys(("structuredmessage", "handoffmessage"), "assistant"),
    **dict.fromkeys(("functionexecutionresultmessage", "toolcallexecutionevent"), "tool"),
    "systemmessage": "system",
}
_PYDANTIC = {"request": "user", "response": "assistant"}
_GIVEN = ("arguments", "input", "queries", "action", "code")
_ITEMS = (
    *("function_call", "function_call_output", "function_result", "reasoning"),
    *("custom_tool_call", "custom_tool_call_output"),
)
_LISTS = (
    *("messages", "input_messages", "output_messages", "chat_history", "history", "contents", "content"),
    *("input", "output", "data"),
)
_STEPS = ("user_message", "assistant_message", "tool")
_TYPES = ("user", "gemini", "assistant", "bot", "agent")
_KNOWN = ("user", "assistant", "system", "tool")
_WHO = (
    *("role", "sender_type", "author_type", "author_role", "participant_role", "sender", "speaker", "author"),
    *("from", "direction", "participant", "who", "sender_name", "initiator", "creator", "actor"),
)
_SIDES = ("user", "human", "customer", "assistant", "bot", "chatbot", "ai", "system")
_ASKS = ("incoming", "inbound", "is_inbound", "is_user", "is_customer", "is_from_user")
_BOT = ("is_bot", "from_bot", "from_agent", "is_agent", *_ASKS)
_SAID = (
    *("content", "text", "message", "utterance", "body_text", "plain_body", "body", "msg", "value"),
    *("payload", "mes", "transcript"),
)
_BLOCKS = {"toolUse", "toolResult", "reasoningContent", "image", "document"}
_DISCORD = ("discriminator", "global_name")  # of an account, which says that it is a bot if it is one
_NAMES = ("display_name", "nickname", "name", "username")


def plain_message(item: object) -> dict[str, Any] | None:
    """Return a message of any library with `role` and `content`; None if it is no message.

    Understood are messages with a role, LangChain's (`type` human or ai, `data`, and the constructor form),
    items of OpenAI's Responses API, and those of platforms, where `sender`, `author`, `direction`, … say who
    spoke and `text`, `body`, `payload`, … what was said.

    >>> plain_message({"type": "ai", "content": "Hello!"})
    {'role': 'assistant', 'content': 'Hello!'}
    >>> plain_message({"author": {"name": "helper", "isBot": True}, "content": "Hello!"})
    {'role': 'assistant', 'content': 'Hello!', 'name': 'helper'}
    """
    if not isinstance(item, Mapping):
        return _of_pair(item)
    if item.get("lc") and isinstance(item.get("kwargs"), Mapping) and isinstance(item.get("id"), list):
        return plain_message({**item["kwargs"], "type": str(item["id"][-1]) if item["id"] else ""})
    kind = str(item.get("type") or "").lower().replace(".", "_")  # function.call: Mistral's conversations
    if kind in _LANGCHAIN and isinstance(item.get("data"), Mapping):
        return plain_message({**item["data"], "type": kind})
    if kind in _LANGCHAIN and "content" in item and not ("role" in item and kind != "chat"):
        return _langchain(item, _LANGCHAIN[kind])
    if kind in _AUTOGEN and "content" in item and ("source" in item or _AUTOGEN[kind] == "tool"):
        return _autogen(item, _AUTOGEN[kind])
    if isinstance(item.get("Role"), Mapping) and isinstance(item.get("Items"), list):
        return _dotnet(item)
    if kind in _ITEMS or (kind.endswith("_call") and "role" not in item):
        return _item(item, kind)
    if item.get("kind") in _PYDANTIC and isinstance(item.get("parts"), list):
        return _pydantic(item)
    inner = item.get("message") or (item.get("response") if len(item) == 1 else None)  # the latter of Grok
    if isinstance(inner, Mapping) and "role" not in item:
        known = {key: value for key, value in item.items() if is_lifted(key) and value is not None}
        if (made := plain_message({**known, **inner})) is not None:
            return made
    if "role" in item and any(key in item for key in ("content", "tool_calls", "toolCalls", *CONTENTS)):
        return _spoken(item) if {"tool_calls", "toolCalls", "message_type"} & item.keys() else dict(item)
    if len(item) == 1 and plain_name(str(next(iter(item)))) in _SIDES:  # {"user": "Hi!"}
        ((who, said),) = item.items()
        return {"role": who, "content": said} if isinstance(said, str) else None
    return _of_application(item, kind) or _of_platform(item)


def _of_pair(item: object) -> dict[str, Any] | None:
    """Return a message that is a list of a role and a text (FastChat)."""
    if not (isinstance(item, list | tuple) and len(item) == 2 and all(isinstance(one, str) for one in item)):
        return None
    return {"role": item[0], "content": item[1]} if role(item[0]) in _KNOWN else None


def _of_application(item: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
    """Return a message of Chainlit, LM Studio or a voice agent (Retell, Vapi)."""
    if kind in _STEPS and "output" in item and "role" not in item:
        return chainlit(item, kind)
    if isinstance(item.get("versions"), list) and item["versions"]:
        return _version(item["versions"], item.get("currentlySelected"))
    if str(item.get("message_type")) in LETTA:
        return letta(item)
    if kind in _TYPES and "content" in item and "role" not in item:  # Gemini CLI
        return _spoken({**item, "role": kind})
    return voiced(item) if item.get("role") in ("tool_call_invocation", "tool_call_result") else None


def _spoken(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message whose text may stand under another name, with the results of calls as parts of it."""
    held = item.get("tool_results")  # ElevenLabs
    made = {"content": item.get("text") or item.get("message"), **item}
    if item.get("message_type") == "observation":  # SWE-agent
        made["role"] = "tool"
    calls = item.get("toolCalls")
    if isinstance(calls, list) and any(isinstance(one, Mapping) and "result" in one for one in calls):
        parts = [part for one in calls for part in call_and_result(one)]
        text = [{"type": "text", "text": item["content"]}] if item.get("content") else []
        made |= {"content": [*parts, *text], "toolCalls": None}
    elif isinstance(held, list) and held:
        said = [{"type": "text", "text": made["content"]}] if isinstance(made["content"], str) else []
        made |= {"content": [*({**one, "type": "tool_result"} for one in held), *said]}
    return {key: value for key, value in made.items() if key not in ("message", "tool_results")}


def _version(versions: list[Any], chosen: object) -> dict[str, Any] | None:
    """Return the version of a message that was shown last; a reply has steps, each with content."""
    number = chosen if isinstance(chosen, int) and chosen < len(versions) else -1
    item = versions[number]
    steps = item.get("steps") if isinstance(item, Mapping) else None
    parts = [one for step in steps or () for one in step.get("content") or ()]
    return plain_message({**item, "content": parts} if steps else item)


def _of_platform(item: Mapping[str, Any]) -> dict[str, Any] | None:
    names = {plain_name(str(key)): key for key in item if item[key] not in (None, "")}
    who = next((names[key] for key in _WHO if key in names), None)
    said = next((names[key] for key in _SAID if names.get(key, who) != who), None)
    bots = next((names[key] for key in _BOT if key in names), None)
    if said is None or (who is None and bots is None):
        return None
    text, speaker, name = item[said], item.get(str(who)), None
    if isinstance(speaker, Mapping):
        speaker, name = _account(speaker)
    elif isinstance(speaker, int) and who == "speaker":
        speaker = f"Speaker {speaker}"
    if isinstance(text, Mapping):
        if isinstance(text.get("role"), str):  # Google's ADK: the author is an agent, its content has a role
            speaker, name = text["role"], speaker
        text = next(
            (text[key] for key in ("parts", "text", "altText", "body", "content") if text.get(key)), None
        )
    if bots is not None and who not in ("role", "direction"):
        speaker, name = side(bots, item[bots]), name or speaker
    if not isinstance(speaker, str) or not isinstance(text, str | list | None):
        return None
    rest = {key: value for key, value in item.items() if key not in (who, said, bots)}
    named = {"name": name} if isinstance(name, str) and "name" not in rest else {}
    return {"role": speaker, "content": text, **named, **rest}


def _account(found: Mapping[str, Any]) -> tuple[object, object]:
    """Return the role and the name of an account."""
    plain = {plain_name(str(key)): value for key, value in found.items()}
    name = next((plain[key] for key in _NAMES if plain.get(key)), None)
    speaker = plain.get("role") or plain.get("type") or plain.get("user_type")
    bots = [plain[key] for key in (*_BOT, "bot", *_DISCORD) if key in plain]
    if bots and not speaker:
        speaker = "assistant" if _is_true(bots[0]) else "user"
    return speaker or name, name


def side(name: str, value: Any) -> Any:
    """Return who spoke, where a column or key only says whether it was one side; any other value stays.

    >>> side("is_bot", "true"), side("Incoming", True), side("sender", "Ann")
    ('assistant', 'user', 'Ann')
    """
    if plain_name(name) not in _BOT:
        return value
    return "assistant" if _is_true(value) != (plain_name(name) in _ASKS) else "user"


def _is_true(found: object) -> bool:
    return found is True or str(found).strip().lower() in ("1", "true", "yes", "bot")


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


def _autogen(item: Mapping[str, Any], speaker: str) -> dict[str, Any]:
    """Return a message of AutoGen 0.4 and later: its class says what it is, its source which agent spoke."""
    said, name = item["content"], item.get("source")
    made = {key: value for key, value in item.items() if key not in ("type", "source", "content") and value}
    if speaker == "user" and name != "user" and str(item["type"]) != "UserMessage":
        speaker = "assistant"
    if speaker == "tool":
        said = [{**one, "type": "tool_result"} for one in said]
    elif isinstance(said, list) and any(isinstance(one, Mapping) and "arguments" in one for one in said):
        said, made["tool_calls"] = None, said
    named = {} if speaker in ("tool", name) else {"name": name}
    return {"role": speaker, "content": said, **named, **made}


def _pydantic(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message of Pydantic AI: a request holds prompts and results, a response text and calls."""
    parts = [
        {**one, "part_kind": "tool-return", "is_error": True}
        if one.get("part_kind") == "retry-prompt" and one.get("tool_name")
        else one
        for one in item["parts"]
    ]
    made = {"role": _PYDANTIC[item["kind"]], "content": parts, "model": item.get("model_name")}
    kept = {key: item.get(key) for key in ("instructions", "timestamp", "finish_reason")}
    return {key: value for key, value in (made | kept).items() if value}


def _dotnet(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message of Semantic Kernel as .NET writes it: names in capitals, classes under `$type`."""
    parts = [{plain_name(str(key)): value for key, value in one.items()} for one in item["Items"]]
    kinds = [plain_name(str(part.get("type"))).removesuffix("_content") for part in parts]
    said = [{**part, "type": kind} for part, kind in zip(parts, kinds, strict=True)]
    made = {"role": item["Role"].get("Label"), "content": said, "model": item.get("ModelId")}
    return {key: value for key, value in made.items() if value is not None}


def _is_call(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") in ("tool_use", "tool_call", "function_call")


def _item(item: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
    """Return an item of the Responses API: a call, its result, or both (tools that run at OpenAI)."""
    key = item.get("call_id") or item.get("tool_call_id") or item.get("id")
    if kind.endswith(("_output", "_result")):
        said = item.get("output") if item.get("output") is not None else item.get("result")
        return {"role": "tool", "content": said, "tool_call_id": key}
    if kind == "reasoning":
        return None
    name = item.get("name") or kind.removesuffix("_call")
    given: Any = next((item[one] for one in _GIVEN if item.get(one)), {})
    given = {"queries": given} if isinstance(given, list) else {"code": given} if "code" in item else given
    call = {"name": name, "arguments": given, "id": key}
    held = item.get("output") or item.get("error") or item.get("outputs")
    if held and kind not in _ITEMS:
        failed = not item.get("output") and bool(item.get("error"))
        result = {"type": "tool_result", "tool_call_id": key, "content": held, "is_error": failed}
        return {"role": "assistant", "content": [{"type": "tool_call", **call}, result]}
    made: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call]}
    return made | ({"evidence": item["results"]} if item.get("results") else {})


def oldest_first(items: list[Any]) -> list[Any]:
    """Turn a page of items round where it lists the newest first: a result before its call, a prompt last.

    >>> oldest_first([{"content": "Bye", "date": 1767225700}, {"content": "Hi", "date": 1767225600}])[0]
    {'content': 'Hi', 'date': 1767225600}
    """
    times = [instant(moment(one.get(_time_key(one)))) for one in items if isinstance(one, Mapping)]
    if all(seconds for seconds, _ in times) and times[:1] > times[-1:]:
        return items[::-1] if times == sorted(times, reverse=True) else items
    places = {
        (one.get("type"), one.get("call_id")): n for n, one in enumerate(items) if isinstance(one, Mapping)
    }
    late = any(
        places.get((f"{kind}_output", key), n) < n for (kind, key), n in places.items() if key is not None
    )
    last = items[-1] if len(items) > 1 else None
    prompted = isinstance(last, Mapping) and last.get("role") in ("system", "developer")
    return items[::-1] if late or prompted else items


_HIDDEN = frozenset(("internal", "private", "agents", "agent", "agents_and_managers", "staff"))


def is_internal(row: Mapping[str, Any]) -> bool:
    """Whether a message is a note that the customer never saw.

    >>> is_internal({"text": "VIP", "is_public": "false"}), is_internal({"text": "Hi", "visibility": "all"})
    (True, False)
    """
    plain = {plain_name(str(key)).removeprefix("is_"): value for key, value in row.items()}
    inner = plain.get("content")
    kind = inner.get("type") if isinstance(inner, Mapping) else plain.get("type")  # the former of Gladly
    noted = ("private", "internal", "internal_comment", "internal_note", "private_note")
    return (
        str(plain.get("public", "")).strip().lower() in ("false", "0", "no")
        or any(str(plain.get(key, "")).strip().lower() in ("true", "1", "yes") for key in noted)
        or str(plain.get("visibility", "")).strip().lower() in _HIDDEN
        or str(kind).lower().endswith("note")
        or any(str(plain.get(key)).lower().endswith("note") for key in ("part_type", "message_type"))
    )


def _time_key(item: Mapping[str, Any]) -> str:
    return next((key for key in TIMES if item.get(key)), "")


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
    if isinstance(found, str) and speaker == "user" and (marked := template_messages(found)):
        return marked
    if isinstance(found, str):
        return [{"role": speaker, "content": found}] if found.strip() else []
    if isinstance(found, list):
        if found and all(map(_is_exchange, found)):
            sides = zip(
                ("user", "assistant") * len(found), (text for pair in found for text in pair), strict=True
            )
            return [{"role": side, "content": text} for side, text in sides if text]
        if found and isinstance(found[0], Mapping) and is_chunk(found[0]):
            return _streamed(found)
        if found and all(isinstance(one, str) for one in found):
            return [{"role": speaker, "content": "\n".join(found)}]
        if found and isinstance(found[0], list):  # LangChain writes one list for each prompt of a batch
            return messages_in(found[0], speaker)
        if found and all(isinstance(one, Mapping) and one.get("type") == "function" for one in found):
            return [{"role": "assistant", "content": None, "tool_calls": found}]
        if is_messages(found):
            return [plain for one in found if (plain := plain_message(one)) is not None]
        if found and all(map(_is_block, found)):
            return [{"role": speaker, "content": found}]
        return [message for one in found if isinstance(one, Mapping) for message in messages_in(one, speaker)]
    return _in_object(found, speaker) if isinstance(found, Mapping) else []


def _is_block(part: object) -> bool:
    """Whether something is a part of a message: it says its type, or is named by its only key (Bedrock)."""
    if not isinstance(part, Mapping):
        return False
    return isinstance(part.get("type"), str) or (
        len(part) == 1 and (isinstance(part.get("text"), str) or bool(set(part) & _BLOCKS))
    )


def is_chunk(first: Mapping[str, Any]) -> bool:
    """Whether an object is the first piece of a message that was streamed."""
    choice: Any = next(
        iter(first.get("candidates") or ()), None
    )  # of Gemini: a whole answer says why it ended
    cut = isinstance(choice, Mapping) and isinstance(choice.get("content"), Mapping)
    kind = first.get("type") == "message_start" or first.get("object") == "chat.completion.chunk"
    done = first.get("done") is False and isinstance(first.get("message"), Mapping)
    return kind or done or (cut and not choice.get("finishReason"))


def _streamed(chunks: list[Any]) -> list[dict[str, Any]]:
    """Put a message together that was streamed in pieces (by OpenAI, Anthropic, Gemini or Ollama)."""
    text, calls, known = "", dict[Any, dict[str, Any]](), dict[str, Any]()
    for one in chunks:
        choice: Any = next(iter(one.get("choices") or one.get("candidates") or ()), {})
        delta = choice.get("delta") or one.get("delta") or one.get("message") or {}
        block = one.get("content_block") or {}
        said = delta.get("content") or delta.get("text") or _gemini_text(choice.get("content"))
        text += said if isinstance(said, str) else ""
        known |= {key: about[key] for about in (choice, delta, one) for key in FINISHES if about.get(key)}
        if block.get("type") == "tool_use":
            calls[one.get("index")] = {"name": block.get("name"), "id": block.get("id"), "arguments": ""}
        for piece in delta.get("tool_calls") or ():
            call = calls.setdefault(piece.get("index"), {"name": "", "id": piece.get("id"), "arguments": ""})
            call["name"] += (piece.get("function") or {}).get("name") or ""
            call["arguments"] += (piece.get("function") or {}).get("arguments") or ""
        if one.get("index") in calls:
            calls[one["index"]]["arguments"] += delta.get("partial_json") or ""
    called = {"tool_calls": list(calls.values())} if calls else {}
    return [{"role": "assistant", "content": text or None, **called, **known}]


def _gemini_text(content: object) -> str | None:
    parts = content.get("parts") if isinstance(content, Mapping) else None
    return "".join(str(one.get("text") or "") for one in parts or () if not one.get("thought"))


def _is_exchange(found: object) -> bool:
    """Whether something is a pair of texts: what was asked, and the answer."""
    return (
        isinstance(found, list | tuple) and len(found) == 2 and all(isinstance(x, str | None) for x in found)
    )


def _in_object(found: Mapping[str, Any], speaker: str) -> list[dict[str, Any]]:
    if (plain := plain_message(found)) is not None:
        return [plain]
    for key in ("choices", "candidates", "generations"):
        if isinstance(found.get(key), list) and found[key]:
            return _of_choice(found[key][0], speaker, found)
    blocked = found.get("promptFeedback")
    if isinstance(blocked, Mapping) and blocked.get("blockReason"):  # Gemini refused to answer
        return [{"role": "assistant", "content": "", "finish_reason": blocked["blockReason"]}]
    if isinstance(found.get("parts"), list):  # Gemini leaves the role out where there is one side only
        return [{"role": speaker, "content": found["parts"]}]
    prompts = (
        found.get(key)
        for key in ("system", "systemInstruction", "system_instruction", "instructions", "preamble")
    )
    head = [{"role": "system", "content": _unparted(prompt)} for prompt in prompts if prompt]
    asked = ("input", "question", "query", "prompt", "user_input", "message", "text", "inputs", "inputText")
    for key in _LISTS:
        inner = decoded(found.get(key))
        if isinstance(inner, list | Mapping) and inner and (held := messages_in(inner, speaker)):
            held = _ended(held, found)
            more = (found[name] for name in asked if isinstance(found.get(name), str))
            return head + held + (messages_in(next(more, ""), speaker) if "history" in key else [])
    answered = (
        *("output", "answer", "response", "result", "completion", "text", "content", "message", "outputs"),
        *("generation", "outputText", "results"),
    )
    for key in asked if speaker == "user" else answered:
        if isinstance(found.get(key), str | Mapping | list) and (held := messages_in(found[key], speaker)):
            return head + _ended(held, found)
    if "role" in found:  # a message that says nothing
        return head
    values = [value for value in found.values() if isinstance(value, str) and value.strip()]
    if len(found) == 1 and not values:  # {"kwargs": {"query": …}}
        return head + [
            one
            for value in found.values()
            if isinstance(value, Mapping)
            for one in _in_object(value, speaker)
        ]
    return head + ([{"role": speaker, "content": values[0]}] if len(found) == 1 else [])


def _ended(held: list[dict[str, Any]], found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Add why a reply ended where that stands beside it."""
    finish = next((found[name] for name in FINISHES if found.get(name)), None)
    if finish and held[-1]["role"] == "assistant":
        held[-1].setdefault("finish_reason", finish)
    return held


def _unparted(prompt: object) -> object:
    if isinstance(prompt, Mapping):
        return prompt.get("parts") or prompt.get("text") or prompt
    return prompt


def _of_choice(choice: object, speaker: str, whole: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the message of a completion, with why it ended and which model wrote it."""
    if isinstance(choice, list):
        return _of_choice(choice[0], speaker, whole) if choice else []
    if not isinstance(choice, Mapping):
        return []
    inner = next((choice[key] for key in ("message", "content", "text") if choice.get(key)), None)
    about = choice.get("generation_info") if isinstance(choice.get("generation_info"), Mapping) else choice
    finish = next((about[key] for key in FINISHES if about and about.get(key)), None)
    model = whole.get("model") or whole.get("modelVersion")
    grounding = choice.get("groundingMetadata")
    chunks = (grounding.get("groundingChunks") if isinstance(grounding, Mapping) else None) or ()
    known = {"finish_reason": finish, "model": model if isinstance(model, str) else None}
    known["evidence"] = [one for one in chunks if isinstance(one, Mapping) and "retrievedContext" in one]
    known = {key: value for key, value in known.items() if value}
    empty = [{"role": "assistant", "content": ""}] if finish else []  # stopped by a filter before any text
    held = messages_in(inner, speaker) or empty
    return [{**known, **held[0]}, *held[1:]] if held else []
