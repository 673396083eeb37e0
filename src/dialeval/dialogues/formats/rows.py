"""Records that are one message each: rows of a conversation, or a conversation without a name.

Rows are joined by what names their conversation and put in the order of their numbers or times: interfaces
often list the newest message first.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from dialeval.dialogues.dialogue import Turn
from dialeval.dialogues.formats.chats import plain_message
from dialeval.dialogues.formats.exchanges import SESSIONS, TIMES
from dialeval.dialogues.formats.records import (
    Joined,
    Lost,
    Record,
    RecordShape,
    assemble,
    checked_calls,
    first_of,
    parse_messages,
)
from dialeval.dialogues.formats.values import instant, moment

_ORDER = ("turn", "turn_id", "turn_index", "index", "position", "seq", "sequence", "message_index")
_TIMES = (*TIMES, "create_time", "created", "received", "ts")


def is_row(record: Record) -> bool:
    """Whether a record is one message that names its conversation."""
    return chat_key(record) is not None and _as_message(record) is not None


def chat_key(record: Record) -> str | None:
    """Return the key under which a record names its conversation."""
    return next((key for key in SESSIONS if isinstance(record.get(key), str | int)), None)


def _as_message(record: Record) -> dict[str, Any] | None:
    made = plain_message({key: value for key, value in record.items() if key not in SESSIONS})
    known = made and (made.get("content") is not None or made.get("tool_calls") or "blocks" in made)
    return made if known or (made and "parts" in made) else None


def join_rows(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    """Yield the conversations that rows make up, each with the line of its first row."""
    chats: dict[str, list[tuple[int, Record]]] = defaultdict(list)
    key = None
    for number, record in records:
        key = key or chat_key(record)
        name, message = record.get(str(key)), _as_message(record)
        if name in (None, "") or not message:
            lost(number, f"no {key}" if message else "no speaker or no text")
            continue
        times = {name: record[name] for name in (*_ORDER, *_TIMES) if name in record}
        chats[str(name)].append((number, {**times, **message}))
    for name, said in chats.items():
        first, messages = said[0][0], in_order([message for _, message in said])
        model = next((m["model"] for m in messages if isinstance(m.get("model"), str)), None)
        turns = parse_messages(messages)
        yield first, assemble({"id": name, "model": model, **_as_bots(turns)}, "", checked_calls(turns))


def in_order(messages: list[Record]) -> list[Record]:
    """Return messages in the order of their numbers, which are taken out, or else of their times.

    >>> in_order([{"content": "Bye", "ts": 1767225700}, {"content": "Hi", "ts": 1767225600}])[0]["content"]
    'Hi'
    """
    order = next((one for one in _ORDER if all(isinstance(m.get(one), int) for m in messages)), None)
    if order:
        ordered = sorted(messages, key=lambda one: int(one[order]))
        return [{key: value for key, value in one.items() if key != order} for one in ordered]
    times = [moment(first_of(one, *_TIMES)) for one in messages]
    if not all(times):
        return messages
    pairs = [(instant(time), message) for time, message in zip(times, messages, strict=True)]
    if pairs and pairs[0][0] > pairs[-1][0]:
        pairs.reverse()  # newest first; those of the same second stand the other way round too
    return [message for _, message in sorted(pairs, key=lambda pair: pair[0])]


def _as_bots(turns: list[Turn]) -> dict[str, str]:
    """Take `system` for the bot where nobody else answers, and say so."""
    speakers = {turn.speaker for turn in turns}
    if "assistant" in speakers or not {"system", "user"} <= speakers or turns[0].speaker == "system":
        return {}
    turns[:] = [
        msgspec.structs.replace(one, speaker="assistant") if one.speaker == "system" else one for one in turns
    ]
    return {"note": "roles guessed: system is the bot"}


def _is_bare(record: Record) -> bool:
    beside = ("messages", "conversations")
    return plain_message(record) is not None and not any(key in record for key in beside)


def _join_bare(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    """Read a file of messages that name no conversation as one."""
    messages, first = list[Record](), 0
    for number, record in records:
        first = first or number
        messages.append(record)
    if messages:
        turns = parse_messages(in_order(messages))
        alone = turns and all(turn.speaker == "assistant" for turn in turns)
        note = {"note": "only the reply is in the log, not what it answers"} if alone else {}
        yield first, assemble(note, "", turns)


SHAPES = (
    RecordShape(
        "rows",
        "one turn a record, with conversation_id, role and content",
        ("conversation_id", "session_id", "role", "content"),
        is_row,
        join=join_rows,
        general=True,
    ),
    RecordShape(
        "bare",
        "messages with role and content, one conversation a file (or one a list)",
        ("role", "content"),
        _is_bare,
        join=_join_bare,
        general=True,
    ),
)
