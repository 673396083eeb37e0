"""Chats as support desks and bot platforms export them.

Rasa tracker (3.x), Bot Framework transcripts, Intercom conversations (API 2.11), Zendesk tickets with
comments and Sunshine conversations, as JSON or as rows of a CSV file, and Slack's export of channels. Bodies
in HTML become text; notes that the customer never saw are left out, and that is noted.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dialeval.dialogues.dialogue import Dialogue, ToolCall, Turn, clean_turn
from dialeval.dialogues.formats.messages import decoded, feedback, moment
from dialeval.dialogues.formats.records import (
    Joined,
    Lost,
    Record,
    RecordShape,
    assemble,
    first_of,
    has_items,
    has_list,
    kept_of,
    plain_text,
)


def _said(speaker: str, text: object, when: object = None, name: object = None, **meta: Any) -> Turn:
    made = clean_turn(speaker, plain_text(text) if text is not None else None, meta)
    return msgspec.structs.replace(made, time=moment(when), name=name if isinstance(name, str) else None)


# Rasa


def _from_rasa(record: Record) -> Dialogue:
    turns: list[Turn] = []
    for event in record["events"] or ():
        kind, when = event.get("event"), event.get("timestamp")
        if kind in ("restart", "session_started"):
            continue
        if kind == "user" and event.get("text") is not None:
            data = event.get("parse_data") if isinstance(event.get("parse_data"), Mapping) else {}
            intent = (data or {}).get("intent")
            named = {"intent": intent["name"]} if isinstance(intent, Mapping) and intent.get("name") else {}
            turns.append(_said("user", event["text"], when, **named))
        elif kind == "bot":
            data = event.get("data") if isinstance(event.get("data"), Mapping) else {}
            kept = {key: value for key, value in (data or {}).items() if value}
            turns.append(
                _said(
                    "assistant",
                    event.get("text") or ("" if kept else None),
                    when,
                    **({"data": kept} if kept else {}),
                )
            )
        elif kind == "action" and _is_custom(str(event.get("name"))):
            call = ToolCall(str(event["name"]))
            turns.append(msgspec.structs.replace(_said("assistant", "", when), tool_calls=(call,)))
    kept = kept_of(record, "slots", "latest_input_channel", "active_loop")
    return assemble({"id": record.get("sender_id"), **kept}, "events", turns)


def _is_custom(name: str) -> bool:
    """Whether an action is code of its own; the others say a text or only wait."""
    return name.startswith("action_") and name not in (
        "action_listen", "action_session_start", "action_restart", "action_default_fallback",
        "action_extract_slots", "action_back", "action_unlikely_intent", "action_deactivate_loop",
    )  # fmt: skip


# Bot Framework


def _is_activity(record: Record) -> bool:
    return (
        isinstance(record.get("type"), str)
        and isinstance(record.get("from"), Mapping)
        and (isinstance(record.get("conversation"), Mapping) or "channelId" in record)
    )


def _join_activities(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    """Put the messages of a conversation together; a bot is who says so, or who is written to first."""
    chats: dict[str, list[tuple[int, Record]]] = defaultdict(list)
    for number, record in records:
        about = record.get("conversation")
        chats[str(about.get("id") if isinstance(about, Mapping) else "")].append((number, record))
    for name, activities in chats.items():
        said = [(number, one) for number, one in activities if one.get("type") == "message"]
        skipped = len(activities) - len(said)
        if skipped:
            lost(activities[0][0], f"{skipped} activities that are no messages (typing, events, updates)")
        roles, guessed = _sides([one for _, one in said])
        turns = [
            _said(
                roles[_account(one)],
                first_of(one, "text", "speak", "summary"),
                first_of(one, "timestamp", "localTimestamp"),
                one["from"].get("name"),
                **({"attachments": one["attachments"]} if one.get("attachments") else {}),
            )
            for _, one in said
        ]
        given = next(
            (one.get("value") for _, one in activities if one.get("name") == "message/submitAction"), None
        )
        made = assemble({"id": name, "feedback": _reaction(given), **guessed}, "", turns)
        if turns:
            yield activities[0][0], made


def _reaction(value: Any) -> Any:
    action = value.get("actionValue") if isinstance(value, Mapping) else None
    return {"reaction": action["reaction"]} if isinstance(action, Mapping) and "reaction" in action else None


def _account(activity: Record) -> str:
    found = activity["from"]
    return str(found.get("id") or found.get("name") or "")


def _sides(said: list[Record]) -> tuple[dict[str, str], dict[str, Any]]:
    known = {
        _account(one): "assistant" if one["from"]["role"] in ("bot", "skill") else "user"
        for one in said
        if isinstance(one["from"].get("role"), str)
    }
    accounts = list(dict.fromkeys(map(_account, said)))
    missing = [account for account in accounts if account not in known]
    if not missing:
        return known, {}
    for account in missing:
        bots = "bot" in account.lower() or "assistant" in known.values()
        known[account] = (
            "assistant"
            if "bot" in account.lower()
            else ("user" if bots or account == accounts[0] else "assistant")
        )
    return known, {"note": "roles guessed: no account says that it is a bot"}


# Intercom


def _is_intercom(record: Record) -> bool:
    return "conversation_parts" in record or (
        record.get("type") == "conversation" and isinstance(record.get("source"), Mapping)
    )


def _from_intercom(record: Record) -> Dialogue:
    turns = []
    source = record.get("source")
    if isinstance(source, Mapping) and source.get("body"):
        turns.append(_part({"created_at": record.get("created_at"), **source}))
    parts = record.get("conversation_parts")
    parts = parts.get("conversation_parts") if isinstance(parts, Mapping) else parts
    hidden = 0
    for part in parts or ():
        if str(part.get("part_type")) in ("note", "note_and_reopen") or not part.get("body"):
            hidden += str(part.get("part_type")).startswith("note")
            continue
        turns.append(_part(part))
    rating = record.get("conversation_rating")
    given: dict[str, Any] = {}
    if isinstance(rating, Mapping) and rating.get("rating") is not None:
        given = {"rating": rating["rating"], "comment": rating.get("remark")}
    if isinstance(record.get("ai_agent"), Mapping) and record["ai_agent"].get("rating") is not None:
        given.setdefault("rating", record["ai_agent"]["rating"])
    kept = {
        key: record[key] for key in ("title", "state", "tags", "ai_agent_participated") if record.get(key)
    }
    if hidden:
        kept["note"] = "internal notes left out"
    return assemble({"id": record.get("id"), "feedback": given or None, **kept}, "", turns)


def _part(part: Mapping[str, Any]) -> Turn:
    author = part.get("author") if isinstance(part.get("author"), Mapping) else {}
    kind = str((author or {}).get("type") or "")
    speaker = "user" if kind in ("user", "lead", "contact", "customer") else "assistant"
    who = {"by": kind} if kind else {}
    return _said(speaker, part.get("body"), part.get("created_at"), (author or {}).get("name"), **who)


# Zendesk


def _is_zendesk(record: Record) -> bool:
    ticket = record.get("ticket") if isinstance(record.get("ticket"), Mapping) else record
    comments = first_of(record, "comments") or (ticket or {}).get("comments")
    return _is_comments(decoded(comments)) or has_list(record, "audits", "events")


def _is_comments(found: object) -> bool:
    return (
        isinstance(found, list)
        and bool(found)
        and isinstance(found[0], Mapping)
        and any(key in found[0] for key in ("author_id", "author", "public"))
        and any(key in found[0] for key in ("body", "plain_body", "html_body"))
    )


def _from_zendesk(record: Record) -> Dialogue:
    ticket = record["ticket"] if isinstance(record.get("ticket"), Mapping) else record
    comments = decoded(first_of(record, "comments") or ticket.get("comments")) or [
        {"author_id": audit.get("author_id"), "created_at": audit.get("created_at"), **event}
        for audit in record.get("audits") or ()
        for event in audit.get("events") or ()
        if isinstance(event, Mapping) and event.get("type") == "Comment"
    ]
    asker = first_of(ticket, "requester_id", "submitter_id")
    users = {one.get("id"): one for one in record.get("users") or () if isinstance(one, Mapping)}
    guessed = asker is None and not users and not any(_role_of(one) for one in comments)
    first = comments[0].get("author_id") if comments and guessed else None
    turns, hidden = [], 0
    for comment in comments:
        if comment.get("public") is False:
            hidden += 1
            continue
        author = comment.get("author_id")
        known = _role_of(comment) or str(users.get(author, {}).get("role") or "")
        asks = known == "end-user" or (not known and author in ((asker,) if not guessed else (first,)))
        text = first_of(comment, "plain_body", "body", "html_body")
        name = users.get(author, {}).get("name")
        turns.append(_said("user" if asks else "assistant", text, comment.get("created_at"), name))
    rating = ticket.get("satisfaction_rating")
    score = rating.get("score") if isinstance(rating, Mapping) else rating
    given = {"thumbs": score, "comment": (isinstance(rating, Mapping) and rating.get("comment")) or None}
    kept = {
        key: ticket[key] for key in ("subject", "status", "tags", "priority", "channel") if ticket.get(key)
    }
    if score in (None, "offered", "unoffered"):
        given = {}
    notes = ["internal notes left out"] * bool(hidden) + [
        "roles guessed: who wrote first is the customer"
    ] * guessed
    if notes:
        kept["note"] = "; ".join(notes)
    return assemble({"id": ticket.get("id"), "feedback": given or None, **kept}, "", turns)


def _role_of(comment: Mapping[str, Any]) -> str:
    author = comment.get("author")
    return str(
        (author.get("role") if isinstance(author, Mapping) else None) or comment.get("author_role") or ""
    )


def _is_sunshine(record: Record) -> bool:
    return (
        isinstance(record.get("author"), Mapping)
        and record["author"].get("type") in ("user", "business")
        and (isinstance(record.get("content"), Mapping))
    )


def _join_sunshine(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    chats: dict[str, list[tuple[int, Turn]]] = defaultdict(list)
    for number, record in records:
        content, author = record.get("content"), record.get("author")
        if not isinstance(content, Mapping) or not isinstance(author, Mapping):
            lost(number, "a message without author or content")
            continue
        speaker = "user" if author.get("type") == "user" else "assistant"
        text = first_of(content, "text", "altText")
        turn = _said(speaker, text, first_of(record, "received", "created_at"), author.get("displayName"))
        chats[str(first_of(record, "conversationId", "conversation_id") or "")].append((number, turn))
    for name, turns in chats.items():
        yield turns[0][0], assemble({"id": name}, "", [turn for _, turn in turns])


# Slack


def _is_slack(record: Record) -> bool:
    return has_items(record, "messages", "ts", "text") or (
        "ts" in record
        and "text" in record
        and ("user" in record or "bot_id" in record or "username" in record)
    )


def _join_slack(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    """Read a channel's export: each thread is a dialogue; messages without a thread are one together."""
    threads: dict[str, list[tuple[int, Record]]] = defaultdict(list)
    held = ((number, one) for number, record in records for one in record.get("messages") or (record,))
    for number, record in held:
        if record.get("subtype") in ("channel_join", "channel_leave", "channel_topic", "channel_purpose"):
            lost(number, f"{record['subtype']}: no message")
            continue
        threads[str(record.get("thread_ts") or "")].append((number, record))
    for name, said in threads.items():
        said.sort(key=lambda one: float(one[1].get("ts") or 0))
        bots = any(_is_bot(one) for _, one in said)
        turns = [
            _said(
                "assistant" if _is_bot(one) else ("user" if bots else _person(one)),
                one.get("text"),
                float(one["ts"]),
                _person(one),
            )
            for _, one in said
        ]
        rest: dict[str, Any] = {"id": f"thread-{name}" if name else ""}
        for place, (_, one) in enumerate(said):
            given = [feedback(str(reaction.get("name")), "thumbs") for reaction in one.get("reactions") or ()]
            thumbs = {key: value for some in given for key, value in some.items()}
            if thumbs and _is_bot(one):
                turns[place] = msgspec.structs.replace(turns[place], feedback=thumbs)
        if not name:
            rest["note"] = "messages outside of threads are read as one dialogue"
        yield said[0][0], assemble(rest, "", turns)


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
        lambda record: has_list(record, "events", "event"),
        _from_rasa,
    ),
    RecordShape(
        "botframework",
        "Bot Framework transcript: activities of a conversation",
        ("channelId", "conversation", "recipient", "replyToId"),
        _is_activity,
        join=_join_activities,
    ),
    RecordShape(
        "intercom",
        "Intercom conversations with their parts",
        ("conversation_parts", "source", "conversation_rating"),
        _is_intercom,
        _from_intercom,
    ),
    RecordShape(
        "zendesk",
        "Zendesk tickets with comments",
        ("ticket", "comments", "requester_id", "audits"),
        _is_zendesk,
        _from_zendesk,
    ),
    RecordShape(
        "sunshine",
        "Zendesk's Sunshine conversations: messages with author and content",
        ("author", "content", "received", "source"),
        _is_sunshine,
        join=_join_sunshine,
    ),
    RecordShape(
        "slack",
        "Slack's export of a channel: messages with ts, by thread",
        ("ts", "thread_ts", "client_msg_id", "user"),
        _is_slack,
        join=_join_slack,
    ),
)
