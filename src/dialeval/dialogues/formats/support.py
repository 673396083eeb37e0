"""Chats as bot platforms export them, where the pieces of a conversation must be put together.

Rasa tracker (3.x) and events, Bot Framework transcripts, Zendesk's Sunshine conversations, Slack's export of
a channel or a workspace. Platforms whose exports only name things differently are in `transcripts`.
"""

import html
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from dialeval import files
from dialeval.dialogues.dialogue import Dialogue, ToolCall, Turn, clean_turn, takes_part
from dialeval.dialogues.formats.records import (
    Joined,
    Lost,
    Record,
    RecordShape,
    assemble,
    at,
    first_of,
    found,
    has_items,
    kept_of,
    plain_text,
)
from dialeval.dialogues.formats.rows import in_order, join_rows
from dialeval.dialogues.formats.transcripts import card_text
from dialeval.dialogues.formats.values import decoded, feedback, moment, reactions
from dialeval.errors import DataError


def _said(speaker: str, text: str | None, when: object = None, name: object = None, **meta: Any) -> Turn:
    made = clean_turn(speaker, text, meta)
    return msgspec.structs.replace(made, time=moment(when), name=name if isinstance(name, str) else None)


# Rasa


def _from_rasa(record: Record) -> list[Dialogue]:
    """Return the sessions of a tracker, each a dialogue; those without any message are left out."""
    sessions: list[list[Turn]] = [[]]
    for event in record["events"] or ():
        kind, when, turns = event.get("event"), event.get("timestamp"), sessions[-1]
        if kind in ("restart", "session_started"):
            sessions.append([])
        elif kind == "user" and event.get("text") is not None:
            data = event.get("parse_data") if isinstance(event.get("parse_data"), Mapping) else {}
            intent = (data or {}).get("intent")
            named = {"intent": intent["name"]} if isinstance(intent, Mapping) and intent.get("name") else {}
            turns.append(_said("user", plain_text(event["text"]), when, **named))
        elif kind == "bot":
            data = event.get("data") if isinstance(event.get("data"), Mapping) else {}
            kept = {key: value for key, value in (data or {}).items() if value}
            turns.append(
                _said(
                    "assistant",
                    plain_text(event.get("text")) or ("" if kept else None),
                    when,
                    **({"data": kept} if kept else {}),
                )
            )
        elif kind == "action" and _is_custom(str(event.get("name"))):
            call = ToolCall(str(event["name"]))
            turns.append(msgspec.structs.replace(_said("assistant", "", when), tool_calls=(call,)))
    kept = kept_of(record, "slots", "latest_input_channel", "active_loop")
    name, said = (
        str(record.get("sender_id") or ""),
        [turns for turns in sessions if any(map(takes_part, turns))],
    )
    ids = [f"{name}-{number}" if name and number > 1 else name for number in range(1, len(said) + 1)]
    return [assemble({"id": key, **kept}, "", turns) for key, turns in zip(ids, said, strict=True)]


def _join_events(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    """Put the events of an event broker, one a record, back into the trackers they came from."""
    trackers: dict[str, list[tuple[int, Record]]] = defaultdict(list)
    for number, record in records:
        if record.get("sender_id") in (None, ""):
            lost(number, "an event without sender_id")
        else:
            held = decoded(record.get("data"))  # a row of its SQL store
            event = held if "event" not in record and isinstance(held, dict) else record
            trackers[str(record["sender_id"])].append((number, event))
    for name, some in trackers.items():
        for made in _from_rasa({"sender_id": name, "events": [event for _, event in some]}):
            yield some[0][0], made


def _is_custom(name: str) -> bool:
    """Whether an action is code of its own; the others say a text or only wait."""
    return name.startswith("action_") and name not in (
        "action_listen", "action_session_start", "action_restart", "action_default_fallback",
        "action_extract_slots", "action_back", "action_unlikely_intent", "action_deactivate_loop",
    )  # fmt: skip


# Bot Framework


_ACTIVITIES = frozenset(
    (
        *("message", "trace", "event", "typing", "invoke", "conversationUpdate", "endOfConversation"),
        *("messageReaction", "messageUpdate", "handoff", "installationUpdate"),
    )
)


def _is_activity(record: Record) -> bool:
    first = next(_activities(record), record)
    return first.get("type") in _ACTIVITIES and isinstance(first.get("from"), Mapping)


def _activities(record: Record) -> Iterator[Record]:
    """Yield the activities of a record: itself, or those of a row of Copilot Studio's transcripts."""
    held = found(record, "activities", "content.activities")
    if not isinstance(held, list):
        yield record
        return
    names = ("conversationtranscriptid", "ConversationTranscriptId", "id", "name")
    name = str(found(record, *names) or "")
    yield from ({"conversation": {"id": name}, **one} for one in held if isinstance(one, Mapping))


def _join_activities(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    """Put the messages of a conversation together; a bot is who says so, or who is written to first."""
    chats: dict[str, list[tuple[int, Record]]] = defaultdict(list)
    for number, record in records:
        for one in _activities(record):
            chats[str(at(one, "conversation.id") or "")].append((number, one))
    for name, activities in chats.items():
        said = in_order([one for _, one in activities if one.get("type") == "message"])
        skipped = len(activities) - len(said)
        if skipped:
            lost(activities[0][0], f"{skipped} activities that are no messages (typing, events, updates)")
        roles, guessed = _sides(said)
        turns = [
            _said(
                roles[_account(one)],
                plain_text(first_of(one, "text", "speak", "summary") or card_text(one)),
                first_of(one, "timestamp", "localTimestamp"),
                one["from"].get("name"),
                **({"attachments": one["attachments"]} if one.get("attachments") else {}),
            )
            for one in said
        ]
        places = {one.get("id"): place for place, one in enumerate(said) if one.get("id")}
        given: dict[str, float] = {}
        for _, one in activities:
            place = places.get(one.get("replyToId"))
            if place is not None and (rated := _rated(one)):
                turns[place] = msgspec.structs.replace(turns[place], feedback=rated)
            else:
                given |= _rated(one)
        made = assemble({"id": name, **guessed}, "", turns, feedback=given)
        if turns:
            yield activities[0][0], made


def _rated(activity: Record) -> dict[str, float]:
    """Return what a user said: a thumb in Teams, a reaction, or the survey of Copilot Studio."""
    if activity.get("valueType") == "CSATSurveyResponse":
        return feedback(at(activity, "value.score"), "rating")
    return feedback(at(activity, "value.actionValue.reaction"), "thumbs") | reactions(
        activity.get("reactionsAdded")
    )


def _account(activity: Record) -> str:
    return str(first_of(activity["from"], "id", "name") or "")


def _sides(said: list[Record]) -> tuple[dict[str, str], dict[str, Any]]:
    bots = ("bot", "skill", 0)  # Copilot Studio writes 0 for the bot and 1 for the user
    known = {
        _account(one): "assistant" if one["from"]["role"] in bots else "user"
        for one in said
        if isinstance(one["from"].get("role"), str | int)
    }
    accounts = list(dict.fromkeys(map(_account, said)))
    missing = [account for account in accounts if account not in known]
    if not missing:
        return known, {}
    for account in missing:
        asks = "assistant" in known.values() or account == accounts[0]
        known[account] = "assistant" if "bot" in account.lower() or not asks else "user"
    return known, {"note": "roles guessed: no account says that it is a bot"}


# Sunshine


def _is_sunshine(record: Record) -> bool:
    return (
        isinstance(record.get("author"), Mapping)
        and record["author"].get("type") in ("user", "business")
        and (isinstance(record.get("content"), Mapping))
    )


# Slack


_SENDERS = {"user", "bot_id", "username"}


def _is_slack(record: Record) -> bool:
    said = record.get("messages") if has_items(record, "messages", "ts", "text") else ()
    return any(isinstance(one, Mapping) and _SENDERS & {*one} for one in said or ()) or (
        "ts" in record and "text" in record and bool(_SENDERS & {*record})
    )


def _join_slack(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    """Read a channel's export: each thread is a dialogue; messages without a thread are one together."""
    threads: dict[tuple[str, str], list[tuple[int, Record]]] = defaultdict(list)
    held = ((number, one) for number, record in records for one in record.get("messages") or (record,))
    for number, record in held:
        if record.get("subtype") in ("channel_join", "channel_leave", "channel_topic", "channel_purpose"):
            lost(number, f"{record['subtype']}: no message")
            continue
        threads[record.get("channel_name", ""), str(record.get("thread_ts") or "")].append((number, record))
    for (channel, name), said in threads.items():
        said.sort(key=lambda one: float(one[1].get("ts") or 0))
        bots = any(_is_bot(one) for _, one in said)
        turns = [
            _said(
                "assistant" if _is_bot(one) else ("user" if bots else _person(one)),
                _slack_text(str(one.get("text") or _block_text(one.get("blocks")))),
                float(one["ts"]),
                _person(one),
            )
            for _, one in said
        ]
        rest: dict[str, Any] = {"id": "-".join(filter(None, (channel, name and f"thread-{name}")))}
        for place, (_, one) in enumerate(said):
            if _is_bot(one) and (thumbs := reactions(one.get("reactions"))):
                turns[place] = msgspec.structs.replace(turns[place], feedback=thumbs)
        if not name:
            rest["note"] = "messages outside of threads are read as one dialogue"
        yield said[0][0], assemble(rest, "", turns)


def is_slack_export(path: str | Path) -> bool:
    """Whether a folder is the export of a workspace: a folder a channel, a file a day."""
    return Path(path).is_dir() and all(
        (Path(path) / f"{one}.json").is_file() for one in ("users", "channels")
    )


def slack_messages(path: str | Path) -> Iterator[tuple[int, Record]]:
    """Yield the messages of a workspace with their channel and who wrote them, each channel by its days."""
    folder = Path(path)
    people = {one.get("id"): one for one in _slack_list(folder / "users.json")}
    days = sorted(folder.glob("*/*.json"))
    said = ((day.parent.name, one) for day in days for one in _slack_list(day))
    for number, (channel, one) in enumerate(said, 1):
        account = people.get(one.get("user"), {})
        known = {"user_profile": account.get("profile"), "bot_id": account.get("id")}
        kept = {key: value for key, value in known.items() if key != "bot_id" or account.get("is_bot")}
        yield number, {"channel_name": channel, **kept, **one}


def _slack_list(path: Path) -> list[Record]:
    """Read one file of an export, a list of objects."""
    if path.stat().st_size > files.max_record():
        raise files.too_large(path)
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[dict[str, Any]])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"no list of objects: {error}", file=path) from None


_LINK = re.compile(r"<([@#!]?)([^<>|]+)(?:\|([^<>]*))?>")


def _slack_text(text: str) -> str:
    """Return a text without Slack's markup: a link is what it shows, a mention its name.

    >>> _slack_text("Ask <@U1|ann> or see <https://example.org|the page>, 1 &lt; 2")
    'Ask @ann or see the page, 1 < 2'
    """
    plain = _LINK.sub(lambda one: one[1].replace("!", "@") + (one[3] or one[2]), text)
    return html.unescape(plain)


def _block_text(blocks: Any) -> str:
    """Return the texts of Slack's blocks, in their order."""
    if isinstance(blocks, list):
        return "".join(map(_block_text, blocks))
    if not isinstance(blocks, Mapping):
        return ""
    text = blocks.get("text")
    return text if isinstance(text, str) else _block_text(text) + _block_text(blocks.get("elements"))


def _is_bot(message: Record) -> bool:
    return bool(message.get("bot_id")) or message.get("subtype") == "bot_message"


def _person(message: Record) -> str:
    profile = message.get("user_profile")
    real = first_of(profile, "real_name", "display_name") if isinstance(profile, Mapping) else None
    return str(real or first_of(message, "username", "user", "bot_id") or "unknown")


SHAPES = (
    RecordShape(
        "rasa",
        "Rasa tracker: events of user and bot",
        ("sender_id", "events", "slots", "latest_message"),
        lambda record: has_items(record, "events", "event"),
        _from_rasa,
    ),
    RecordShape(
        "rasa-events",
        "Rasa's events, one a record, joined by sender",
        ("sender_id", "event", "timestamp"),
        lambda record: "sender_id" in record and isinstance(found(record, "event", "data.event"), str),
        join=_join_events,
    ),
    RecordShape(
        "botframework",
        "Bot Framework transcript: activities of a conversation",
        ("channelId", "conversation", "recipient", "replyToId"),
        _is_activity,
        join=_join_activities,
    ),
    RecordShape(
        "sunshine",
        "Zendesk's Sunshine conversations: messages with author and content",
        ("author", "content", "received", "source"),
        _is_sunshine,
        join=join_rows,
    ),
    RecordShape(
        "slack",
        "Slack's export of a channel: messages with ts, by thread",
        ("ts", "thread_ts", "client_msg_id", "user"),
        _is_slack,
        join=_join_slack,
    ),
)
