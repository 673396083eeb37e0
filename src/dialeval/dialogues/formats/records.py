"""One JSON record → one dialogue, for every shape of record people keep chats in.

A shape is a pair of functions: does this record look like it, and what dialogue does it hold. Whatever
is not text (tool calls, images, annotation) stays in `meta`, and every message keeps its place.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dialeval.dialogues.dialogue import Dialogue, Turn, clean_text, clean_turn, storable
from dialeval.errors import DataError

Record = dict[str, Any]

_ROLES = {
    **dict.fromkeys(("user", "human", "customer", "client", "usr", "prompter", "you", "u"), "user"),
    **dict.fromkeys(
        ("assistant", "bot", "chatbot", "gpt", "chatgpt", "agent", "ai", "model", "bing", "bard", "sys"),
        "assistant",
    ),
    **dict.fromkeys(
        ("tool", "function", "observation", "function_call", "tool_call", "tool_response"), "tool"
    ),
    **dict.fromkeys(("system", "developer"), "system"),
}
_IDS = ("id", "dialogue_id", "dialog_id", "conversation_id", "conversation_hash", "session_id", "uuid", "idx")


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape of record: its name, what it looks like, how it is read."""

    name: str
    matches: Callable[[Record], bool]
    parse: Callable[[Record], Dialogue]


def role(name: object) -> str:
    """Map the many names of the two sides onto `user` and `assistant`; other names stay.

    >>> role("Human"), role("gpt"), role("Alice")
    ('user', 'assistant', 'Alice')
    """
    text = clean_text(str(name))[0]
    return _ROLES.get(text.strip().lower(), text)


def _from_messages(record: Record) -> Dialogue:
    return _assemble(
        record, "messages", [_message(item, n) for n, item in enumerate(_list(record, "messages"))]
    )


def _message(item: object, number: int) -> Turn:
    if not isinstance(item, Mapping):
        raise DataError("not an object", field=f"messages[{number}]", fix='{"role": …, "content": …}')
    meta = {
        **(item.get("meta") or {}),
        **{k: v for k, v in item.items() if k not in ("role", "content", "meta")},
    }
    if item.get("role") is None:
        meta["note"] = "no role"
    speaker = role(item.get("role") or "unknown")
    content = item.get("content")
    if isinstance(content, list):
        parts = [part if isinstance(part, Mapping) else {"type": "text", "text": part} for part in content]
        texts = [text for part in parts if isinstance(text := part.get("text"), str)]
        rest = [part for part in parts if not isinstance(part.get("text"), str)]
        content, meta = "\n".join(texts) if texts else None, {**meta, **({"parts": rest} if rest else {})}
    if speaker == "tool" and content:
        return Turn("tool", "", {**meta, "content": content})
    if content is not None and not isinstance(content, str):
        raise DataError(f"text expected, not {type(content).__name__}", field=f"messages[{number}].content")
    if not content and "note" in meta and content is not None:
        return Turn(speaker, "", meta)  # written by us: the note says why there is no text
    return clean_turn(speaker, content, meta)


def _from_sharegpt(record: Record) -> Dialogue:
    key = "conversations" if "conversations" in record else "conversation"
    turns = []
    for number, item in enumerate(_list(record, key)):
        if isinstance(item, Mapping) and "from" in item and "value" in item:
            rest = {k: v for k, v in item.items() if k not in ("from", "value")}
            item = {"role": item["from"], "content": item["value"], **rest}  # noqa: PLW2901
        turns.append(_message(item, number))
    record = {("system_prompt" if name == "system" else name): value for name, value in record.items()}
    return _assemble(record, key, turns)


def _from_convlab(record: Record) -> Dialogue:
    turns = []
    for item in _list(record, "turns"):
        meta = {k: v for k, v in item.items() if k not in ("speaker", "utterance", "utt_idx")}
        speaker = "assistant" if str(item.get("speaker")).lower() == "system" else role(item.get("speaker"))
        turns.append(clean_turn(speaker, item.get("utterance"), meta))
    return _assemble(record, "turns", turns)


def _from_parlai(record: Record) -> Dialogue:
    acts = [act for exchange in _list(record, "dialog") for act in exchange]
    names = [str(act.get("id", "unknown")) for act in acts]
    people = {
        name for name in names if any(word in name.lower() for word in ("human", "user", "worker", "turker"))
    }
    roles = {name: name for name in names}
    if people and len(set(names)) == 2:
        roles = {name: "user" if name in people else "assistant" for name in names}
    turns = []
    for name, act in zip(names, acts, strict=True):
        meta = {k: v for k, v in act.items() if k not in ("id", "text", "episode_done")}
        turns.append(clean_turn(role(roles[name]), act.get("text"), meta))
    return _assemble(record, "dialog", turns)


def _list(record: Record, key: str) -> list[Any]:
    items = record[key]
    if items is None:
        return []
    if not isinstance(items, list | tuple):
        raise DataError("a list is expected", field=key)
    return list(items)


def _assemble(record: Record, turns_key: str, turns: list[Turn]) -> Dialogue:
    """Put id (empty if there is none), system, references and the rest of a record around its turns."""
    id_key = next((key for key in _IDS if record.get(key) not in (None, "")), None)
    named = str(record[id_key]) if id_key else ""
    system = record.get("system", record.get("model"))
    meta = {
        k: v
        for k, v in record.items()
        if k not in (id_key, turns_key, "system", "model", "references", "meta")
    }
    extra = record.get("meta") or {}
    if not isinstance(extra, Mapping):
        raise DataError("an object is expected", field="meta")
    return Dialogue(
        clean_text(named)[0],
        tuple(turns),
        None if system is None else clean_text(str(system))[0],
        _references(record.get("references"), len(turns)),
        {**extra, **meta},
    )


def _references(found: object, n_turns: int) -> dict[int, list[str]]:
    if not found:
        return {}
    if not isinstance(found, Mapping):
        raise DataError("an object is expected", field="references", fix='{"<turn>": ["…"]}')
    references = {}
    for key, texts in found.items():
        if not str(key).isdigit() or int(key) >= n_turns:
            raise DataError(
                f"there is no turn {str(key)[:20]!r}", field="references", fix="keys are turn numbers, from 0"
            )
        texts = [texts] if isinstance(texts, str) else texts  # noqa: PLW2901
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise DataError("a list of texts is expected", field=f"references.{key}")
        references[int(key)] = [clean_text(text)[0] for text in texts]
    return references


def _has_list(record: Record, key: str, *inside: str) -> bool:
    items = record.get(key)
    if not isinstance(items, list):
        return False
    return not items or (isinstance(items[0], Mapping) and all(name in items[0] for name in inside))


SHAPES = (
    Shape("messages", lambda r: "messages" in r, _from_messages),
    Shape(
        "sharegpt", lambda r: _has_list(r, "conversations") or _has_list(r, "conversation"), _from_sharegpt
    ),
    Shape("convlab", lambda r: _has_list(r, "turns", "speaker", "utterance"), _from_convlab),
    Shape("parlai", lambda r: isinstance(r.get("dialog"), list), _from_parlai),
)


def parse_record(record: object, shape: Shape | None, path: object, line: int) -> tuple[Dialogue, Shape]:
    """Read one record, in the given shape or the one it has, adding file and line to any complaint."""
    try:
        if shape is None or not isinstance(record, dict):
            shape = shape_of(record)
        return storable(shape.parse(record)), shape  # type: ignore[arg-type]  # shape_of takes objects only
    except DataError as error:
        message = str(error).removeprefix(f"{error.field}: ").removesuffix(f" ({error.fix})")
        raise DataError(message, file=path, line=line, field=error.field, fix=error.fix) from None
    except KeyError as error:
        raise DataError("missing", file=path, line=line, field=str(error.args[0])) from None
    except (TypeError, AttributeError, ValueError) as error:
        raise DataError(f"not of the expected shape: {error}", file=path, line=line) from None
    except RecursionError:
        raise DataError("nested too deeply", file=path, line=line) from None


def shape_of(record: object) -> Shape:
    """Find the shape of a record, or say which ones are known."""
    if isinstance(record, dict):
        for shape in SHAPES:
            if shape.matches(record):
                return shape
        keys = ", ".join(list(map(str, record))[:8])
        raise DataError(
            f"no known kind of dialogue: keys are {keys or 'none'}",
            fix="messages (ours, OpenAI), conversations (ShareGPT), turns (ConvLab) or dialog (ParlAI)",
        )
    raise DataError(f"a JSON object is expected, not {type(record).__name__}")
