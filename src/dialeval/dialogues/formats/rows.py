"""Records that are one message each: rows of a conversation, or a conversation without a name.

Rows are joined by what names their conversation and put in the order of their numbers or times: interfaces
often list the newest message first.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dialeval.dialogues.dialogue import Dialogue, Turn
from dialeval.dialogues.formats.applications import template_messages
from dialeval.dialogues.formats.chats import (
    is_chunk,
    is_internal,
    is_messages,
    messages_in,
    plain_message,
)
from dialeval.dialogues.formats.exchanges import NO_INPUT, SESSIONS, TIMES, session_key
from dialeval.dialogues.formats.records import (
    Joined,
    Lost,
    Record,
    RecordShape,
    assemble,
    checked_calls,
    first_of,
    kept_of,
    parse_messages,
    plain_text,
)
from dialeval.dialogues.formats.texts import spoken
from dialeval.dialogues.formats.values import as_text, instant, moment, named_column, plain_name

_TIMES = (*TIMES, "create_time", "created", "received", "ts")


def is_row(record: Record) -> bool:
    """Whether a record is one message that names its conversation."""
    return session_key(record) is not None and _as_message(record) is not None


def _as_message(record: Record) -> dict[str, Any] | None:
    named = (*SESSIONS, session_key(record))
    made = plain_message({key: value for key, value in record.items() if key not in named})
    known = made and (made.get("content") is not None or made.get("tool_calls") or "blocks" in made)
    return made if known or (made and "parts" in made) else None


def join_rows(records: Iterable[tuple[int, Record]], lost: Lost, key: str | None = None) -> Joined:
    """Yield the conversations that rows make up, each with the line of its first row."""
    chats: dict[str, list[tuple[int, Record]]] = defaultdict(list)
    for number, record in records:
        key = key or session_key(record)
        name, message = record.get(str(key)) if key else "", _as_message(record)
        if is_internal(record):
            lost(number, "an internal note")
        elif (key and name in (None, "")) or not message:
            lost(number, f"no {key}" if message else "no speaker or no text")
        else:
            order, time = (named_column(record, what) for what in ("turn", "time"))
            known = {one: record[one] for one in (order, time) if one}
            chats[str(name)].append((number, {**known, **message}))
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
    order = named_column(messages[0] if messages else (), "turn")
    if order and all(str(one.get(order)).isdigit() for one in messages):
        ordered = sorted(messages, key=lambda one: int(one[order]))
        return [{key: value for key, value in one.items() if key != order} for one in ordered]
    named = named_column(messages[0] if messages else (), "time")
    times = [moment(first_of(one, *_TIMES) or one.get(str(named))) for one in messages]
    pairs = [(instant(time), message) for time, message in zip(times, messages, strict=True)]
    if not all(seconds for (seconds, _), _ in pairs):  # times in words say nothing of the order
        return messages
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
    return is_chunk(record) or (
        plain_message(record) is not None and not any(key in record for key in beside)
    )


def _join_bare(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    """Read a file of messages that name no conversation as one; of answers of an API alone, each is one."""
    messages = [(number, record) for number, record in records]
    if messages and is_chunk(messages[0][1]):
        yield from _join_streams(messages, lost)
        return
    person = named_column(messages[0][1], "person") if messages else None
    if person and len({str(record.get(person)) for _, record in messages}) > 1:
        for chat in join_rows(messages, lost, person):
            chat[1].meta["note"] = f"no message names its conversation: joined by {person}"
            yield chat
        return
    made = [parse_messages([record]) for _, record in messages]
    if all(turn.speaker == "assistant" for turns in made for turn in turns) and all(
        "id" in record or "model" in record for _, record in messages
    ):
        for (number, record), turns in zip(messages, made, strict=True):
            yield number, assemble({**kept_of(record, "id", "model"), "note": NO_INPUT}, "", turns)
    else:
        yield messages[0][0], assemble({}, "", parse_messages(in_order([record for _, record in messages])))


def _join_streams(pieces: list[tuple[int, Record]], lost: Lost) -> Joined:
    """Put replies together that were streamed; each ends where its last piece says so, or the id changes."""
    streams: list[list[tuple[int, Record]]] = []
    ended = True
    for number, piece in pieces:
        if ended or piece.get("id") != streams[-1][0][1].get("id"):
            streams.append([])
        streams[-1].append((number, piece))
        choice: Any = next(iter(piece.get("candidates") or ()), {})
        ended = piece.get("done") is True or piece.get("type") == "message_stop" or "finishReason" in choice
    for stream in streams:
        about = {**kept_of(stream[0][1], "id", "model"), "note": NO_INPUT}
        if turns := parse_messages(messages_in([piece for _, piece in stream], "assistant")):
            yield stream[0][0], assemble(about, "", turns)
        else:
            lost(stream[0][0], "a piece of a stream that is no message")


# Sessions of coding agents, as they lie on a developer's disk


def _join_claude_code(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    """Put the lines of sessions together; the blocks of one reply stand in a line each, with one id."""
    chats: dict[str, list[Record]] = defaultdict(list)
    first: dict[str, int] = {}
    for number, record in records:
        message, said = record.get("message"), chats[str(record.get("sessionId"))]
        if not isinstance(message, Mapping) or "role" not in message:
            lost(number, "a line that is no message")
        elif record.get("isMeta") or record.get("isSidechain"):
            lost(number, "a line of a subagent, or written by the program in the user's name")
        elif said and message.get("id") and message["id"] == said[-1].get("id"):
            said[-1] = {**said[-1], **message, "content": [*said[-1]["content"], *message["content"]]}
        else:
            first.setdefault(str(record.get("sessionId")), number)
            said.append({**kept_of(record, "timestamp"), **message})
    for name, number in first.items():
        turns = parse_messages(chats[name])
        model = next((turn.model for turn in reversed(turns) if turn.model), None)
        yield number, assemble({"id": name, "model": model}, "", turns)


def _join_codex(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    """Put the items of one session together; events repeat what they say."""
    said: list[Record] = []
    about: Record = {}
    first = 1
    for number, record in records:
        kind, held = record.get("type"), record.get("payload")
        first = number if not (said or about) else first
        if kind == "session_meta" and isinstance(held, Mapping):
            about["id"] = held.get("id")
        elif kind == "turn_context" and isinstance(held, Mapping):
            about["model"] = held.get("model")
        elif kind != "response_item" or not isinstance(held, dict):
            lost(number, "an event, no item of the conversation")
        elif held.get("role") == "user" and _CONTEXT.match(str(as_text(held.get("content") or ""))):
            said.append({**held, "role": "developer"})
        else:
            said.append({**kept_of(record, "timestamp"), **held})
    yield first, assemble(about, "", parse_messages(said))


_CONTEXT = re.compile(r"\s*(<(environment_context|user_instructions)>|# AGENTS\.md instructions)")
_LINES = ("session_meta", "turn_context", "response_item", "event_msg", "compacted")


# A whole conversation in one text


def _spoken_in(record: Record) -> tuple[str, list[Turn]] | None:
    """Return the key of a transcript with both sides in it, and its turns; beside messages it is none."""
    beside = plain_message(record) is not None or any(map(is_messages, record.values()))
    for key, value in () if beside else record.items():
        if isinstance(value, str) and _TRANSCRIPT.fullmatch(plain_name(str(key))):
            marked = template_messages(value)
            told = spoken(_SAYS.sub(r"\n\1:", _live_agent(value)).strip(" ;\n").splitlines())
            turns = parse_messages(marked) if marked else told
            if {turn.speaker for turn in turns} >= {"user", "assistant"}:
                return key, turns
    return None


def _from_transcript(record: Record) -> Dialogue:
    key, turns = _spoken_in(record) or ("transcript", [])
    return assemble(record, key, turns)


_TRANSCRIPT = re.compile(
    r"((full|chat|call|conversation)_)?(transcript|conversation|dialogue|dialog|chat|text)(_text)?|body"
)
_AFTER = re.compile(r"^\( (?:\d+[hms] ?)+\) ([^:\n]+): ", re.MULTILINE)


_SAYS = re.compile(r"(?:^|;)\s*(User|Bot|Agent) says:")  # Copilot Studio's table of sessions


def _live_agent(text: str) -> str:
    """Return a transcript of Salesforce's Live Agent (`( 11s ) Ann: …`) with roles in place of names."""
    plain = plain_text(text) or ""
    if (first := _AFTER.search(plain)) is None:
        return text
    agents, said = re.findall(r"^Agent (.+)$", plain, re.MULTILINE), plain[first.start() :]
    return _AFTER.sub(lambda one: f"{'Agent' if one[1] in agents else 'Customer'}: ", said)


SHAPES = (
    RecordShape(
        "claude-code",
        "Claude Code's sessions: one line of a message, joined by sessionId",
        ("parentUuid", "sessionId", "message"),
        lambda record: "parentUuid" in record or record.get("type") in ("summary", "file-history-snapshot"),
        join=_join_claude_code,
    ),
    RecordShape(
        "codex",
        "Codex' sessions: one item a line, a session a file",
        ("timestamp", "type", "payload"),
        lambda record: record.get("type") in _LINES and isinstance(record.get("payload"), Mapping),
        join=_join_codex,
    ),
    RecordShape(
        "transcript",
        "a conversation in one text a record: User: and Bot: lines under transcript, conversation, …",
        ("transcript", "conversation"),
        _spoken_in,
        _from_transcript,
    ),
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
