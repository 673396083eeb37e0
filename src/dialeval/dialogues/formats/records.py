"""What shapes of records share: how they are described, and how a dialogue is put around its turns.

A shape says whether a record looks like it, and what it holds: one dialogue, several (two answers of an
arena, a tree, a run of many samples), or a piece of one: then all records of a file are joined (spans, rows).
"""

import html
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dialeval.dialogues.dialogue import Dialogue, Turn, clean_text
from dialeval.dialogues.formats.chats import messages_in, plain_message
from dialeval.dialogues.formats.messages import parse_message, with_known_bot
from dialeval.dialogues.formats.values import (
    decoded,
    evidence_in,
    feedback_in,
    feedback_name,
    is_evidence,
    plain_name,
)
from dialeval.dialogues.languages import language_code
from dialeval.errors import DataError

Record = dict[str, Any]
Lost = Callable[[int, str], None]
"""Told the record (its line or number) and why it, or a part of it, is not in the dialogues."""
Joined = Iterator[tuple[int, Dialogue]]
_IDS = (
    *("id", "dialogue_id", "dialog_id", "conversation_id", "conversation_hash", "session_id", "uuid", "idx"),
    *("prompt_id", "conversationId", "sessionId", "thread_id", "threadId", "chat_id", "call_id", "_id"),
)
_NAMED = ("ticket", "case", "call", "chat", "session", "conversation", "conv")
_NUMBERS = frozenset(f"{what}_{name}" for what in _NAMED for name in ("id", "number"))


@dataclass(frozen=True, slots=True)
class RecordShape:
    """A shape of record that people keep chats in.

    Attributes:
        name: How it is asked for (`--format`).
        what: One line for `dialeval list formats`.
        keys: Names that mark it; the nearest format of a record that fits none is found by them.
        matches: Whether a record has this shape.
        parse: Reads it; what is wrong is a `DataError` with the field, to which file and line are added.
        join: In place of `parse`, for records that are pieces: reads all of them, with their numbers.
        column: A column of a table that has this name holds dialogues of this shape.
        general: Whether other shapes are special cases of this one, so that both fitting says nothing.
    """

    name: str
    what: str
    keys: tuple[str, ...]
    matches: Callable[[Record], Any]
    parse: Callable[[Record], Dialogue | list[Dialogue]] | None = None
    join: Callable[[Iterable[tuple[int, Record]], Lost], Joined] | None = None
    column: bool = False
    general: bool = False


@cache
def _tables() -> dict[str, list[dict[str, Any]]]:
    return tomllib.loads(Path(__file__).with_name("formats.toml").read_text())


def described(kind: str) -> list[dict[str, Any]]:
    """Return the formats of one kind as `formats.toml` describes them, lists as tuples."""
    return [{key: _frozen(value) for key, value in one.items()} for one in _tables()[kind]]


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def parse_messages(items: Iterable[Any]) -> list[Turn]:
    """Return the turns of the messages of one conversation; a result without its call is noted there."""
    made = ((item, plain_message(item)) for item in items if not _is_thought(item))
    plain = [item if one is None else one for item, one in made if not _is_thought(one)]
    if any(_of_proxy(one) and one.get("role") == "assistant" for one in plain):
        plain = [{**one, "role": "user" if _of_proxy(one) else "assistant"} for one in plain]
    return checked_calls([turn for number, item in enumerate(plain) for turn in parse_message(item, number)])


def _is_thought(item: object) -> bool:
    kinds = ("reasoning", "ThoughtEvent", "ModelClientStreamingChunkEvent")
    if isinstance(item, Mapping) and item.get("role") == "assistant" and item.get("channel") == "analysis":
        return True  # gpt-oss
    return isinstance(item, Mapping) and item.get("type") in kinds and "role" not in item


def _of_proxy(message: Any) -> bool:
    """Whether AutoGen's proxy of the user spoke, which a chat kept on its side calls the assistant."""
    return isinstance(message, Mapping) and message.get("name") in ("user_proxy", "User_proxy", "UserProxy")


def checked_calls(turns: list[Turn]) -> list[Turn]:
    """Note results whose call is not among the turns before them, where calls have ids."""
    import msgspec

    seen: set[str] = set()
    made = []
    for turn in turns:
        seen.update(call.id for call in turn.tool_calls if call.id)
        orphan = turn.speaker == "tool" and turn.tool_call_id and turn.tool_call_id not in seen
        noted = {**turn.meta, "note": "a tool's result without its call"}
        made.append(msgspec.structs.replace(turn, meta=noted) if orphan and "note" not in turn.meta else turn)
    return made


def turns_in(found: object, speaker: str = "user") -> list[Turn]:
    """Return the turns that the input or output of a model holds."""
    return [
        turn for number, one in enumerate(messages_in(found, speaker)) for turn in parse_message(one, number)
    ]


def items_of(record: Record, key: str) -> list[Any]:
    """Return the list under a key, which may be JSON in a text; None counts as empty."""
    items = decoded(record[key])
    if isinstance(items, Mapping) and isinstance(items.get("data"), list):  # a page of OpenAI's API
        items = items["data"]
    if items is None:
        return []
    if not isinstance(items, list | tuple):
        raise DataError("a list is expected", field=key)
    return list(items)


def has_list(record: Mapping[str, Any], key: str, *inside: str) -> bool:
    """Whether a list stands under a key, whose first item, if any, has these names."""
    items = decoded(record.get(key))
    if not isinstance(items, list):
        return False
    return not items or (isinstance(items[0], Mapping) and all(name in items[0] for name in inside))


def has_items(record: Mapping[str, Any], key: str, *inside: str) -> bool:
    """Whether a list that is not empty stands under a key, and its first item has these names."""
    return bool(decoded(record.get(key))) and has_list(record, key, *inside)


def first_of(record: Mapping[str, Any], *keys: str) -> Any:
    """Return the first value under one of the names that is neither missing nor empty."""
    return next((record[key] for key in keys if record.get(key) not in (None, "")), None)


def at(record: object, path: str) -> Any:
    """Return what stands under a path of names and places in lists, None if nothing does.

    >>> at({"info": {"tags": ["a"]}}, "info.tags"), at({"info": {"tags": ["a"]}}, "info.tags.0")
    (['a'], 'a')
    """
    if isinstance(record, Mapping) and path in record:
        return decoded(record[path])
    name, _, rest = path.partition(".")
    if isinstance(record, list) and name.isdigit():
        inner = record[int(name)] if int(name) < len(record) else None
        return at(decoded(inner), rest) if rest else decoded(inner)
    return at(decoded(record.get(name)), rest) if rest and isinstance(record, Mapping) else None


def found(record: Mapping[str, Any], *paths: str) -> Any:
    """Return what stands under the first of some paths that leads to something."""
    held = (record if path == "." else at(record, path) for path in paths)
    return next((value for value in held if value not in (None, "", {}, [])), None)


def branch(nodes: Mapping[Any, Any], parent: str, last: Any) -> list[Any]:
    """Return the nodes of a tree from its root to one of them; a cycle is cut where it closes."""
    path: dict[Any, Any] = {}
    while last in nodes and last not in path:
        path[last] = nodes[last]
        last = nodes[last].get(parent)
    return list(path.values())[::-1]


def kept_of(record: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return what stands under some of the names, those that are missing or empty left out."""
    return {key: record[key] for key in keys if record.get(key) not in (None, "", [], {})}


_BREAK = re.compile(r"<(br|/p|/div|/li|/h\d)\b[^>]*>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][a-zA-Z0-9]*(\s[^>]*|/)?>")


def plain_text(found: object) -> str | None:
    r"""Return the text of a body in HTML, line breaks kept; what has no tags stays as it is.

    >>> plain_text("<p>Hello &amp; welcome</p><p>Bye</p>"), plain_text("a < b")
    ('Hello & welcome\nBye', 'a < b')
    >>> plain_text("See <https://example.org>")
    'See <https://example.org>'
    """
    if not isinstance(found, str):
        return None
    if not _TAG.search(found):
        return found
    return html.unescape(_TAG.sub("", _BREAK.sub("\n", found))).strip()


def assemble(record: Record, turns_key: str, turns: list[Turn], **fields: Any) -> Dialogue:
    """Put id (empty if there is none), system, references and the rest of a record around its turns.

    Args:
        record: Where they stand; what has no field becomes `meta`.
        turns_key: The key whose value the turns were.
        turns: The turns.
        fields: Fields of the dialogue that are known better.
    """
    id_key = next((key for key in _IDS if record.get(key) not in (None, "")), None)
    if id_key is None:
        names = (key for key, one in record.items() if isinstance(one, str | int) and one != "")
        id_key = next((key for key in names if plain_name(str(key)) in _NUMBERS), None)
    if id_key and isinstance(record[id_key], Mapping | list | bool | bytes):
        raise DataError("text or a number is expected", field=id_key)
    named = str(record[id_key]) if id_key else ""
    system, prompt = system_of(record)
    if isinstance(system, bytes):
        raise DataError("text expected, not bytes", field="system")
    known = ("id", id_key, turns_key, "system", "model", "references", "meta", *_FIELDS)
    meta = {k: v for k, v in record.items() if k not in known and not _is_lifted(k, v)}
    extra = record.get("meta") or {}
    if not isinstance(extra, Mapping):
        raise DataError("an object is expected", field="meta")
    meta, about = {**extra, **meta}, decoded(record.get("metadata"))
    found: dict[str, Any] = {
        "id": clean_text(named)[0],
        "turns": with_known_bot(turns),
        "system": None if system is None else clean_text(str(system))[0],
        "references": _references(record.get("references"), len(turns)),
        "meta": meta,
        "instructions": prompt,
        "evidence": evidence_in(record),
        "feedback": (feedback_in(about) if isinstance(about, Mapping) else {}) | feedback_in(record, meta),
        "language": language_code(record.get("language")),
    }
    return Dialogue(**(found | fields))


_FIELDS = ("instructions", "system_prompt", "systemPrompt", "preamble", "evidence", "feedback", "language")


def _is_lifted(key: str, value: object) -> bool:
    """Whether what stands under a key of a record is evidence or feedback, by its name."""
    passages = is_evidence(key) and isinstance(decoded(value), str | list | tuple)
    return passages or (feedback_name(str(key)) is not None and bool(feedback_in({key: value})))


def system_of(record: Mapping[str, Any]) -> tuple[object, str | None]:
    """Return the name of the system under test, and its instructions.

    `system` is a name in our own files and a prompt in requests of Anthropic's API; a prompt is a list of
    blocks, or reads as one.
    """
    system, prompt = record.get("system", record.get("model")), None
    for key in ("system", "instructions", "system_prompt", "systemPrompt", "preamble"):
        given = record.get(key)
        if given and (key != "system" or is_prompt(given)):
            prompt = "\n".join(turn.text for turn in parse_message({"role": "system", "content": given}, 0))
    return (record.get("model") if is_prompt(system) else system), prompt


def is_prompt(system: object) -> bool:
    """Whether what stands under `system` is a prompt, rather than a name.

    >>> is_prompt("You are a clerk."), is_prompt("Answer in French, without prices."), is_prompt("gpt-4 (v2)")
    (True, True, False)
    """
    if not isinstance(system, str):
        return isinstance(system, list)
    if len(system) < 12:
        return False
    words = system.split()
    return (
        len(words) >= 12
        or system.lower().startswith(("you are ", "you're ", "act as ", "your task", "your name is"))
        or (len(words) >= 5 and system.rstrip()[-1] in ".!:")
    )


def _references(found: object, n_turns: int) -> dict[int, list[str]]:
    if not found:
        return {}
    if not isinstance(found, Mapping):
        raise DataError("an object is expected", field="references", fix='{"<turn>": ["…"]}')
    references: dict[int, list[str]] = {}
    for key, texts in found.items():
        if not (str(key).isascii() and str(key).isdigit() and len(str(key)) < 20 and int(key) < n_turns):
            raise DataError(
                f"there is no turn {str(key)[:20]!r}", field="references", fix="keys are turn numbers, from 0"
            )
        if int(key) in references:
            raise DataError(f"the turn {int(key)} stands there twice", field="references")
        texts = [texts] if isinstance(texts, str) else texts  # noqa: PLW2901
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise DataError("a list of texts is expected", field=f"references.{key}")
        references[int(key)] = [clean_text(text)[0] for text in texts]
    return references
