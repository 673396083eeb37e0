"""Chats as support desks and bot platforms export them.

Rasa tracker (3.x), Bot Framework transcripts, Intercom conversations (API 2.11), Zendesk tickets with
comments and Sunshine conversations, as JSON or as rows of a CSV file, Slack's export of channels, and
transcripts of Discord, Amazon Connect and Zendesk Chat, which a table describes (`TRANSCRIPTS`). Bodies
in HTML become text; notes that the customer never saw are left out, and that is noted.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from dialeval.dialogues.dialogue import Dialogue, ToolCall, Turn, clean_turn
from dialeval.dialogues.formats.chats import plain_message
from dialeval.dialogues.formats.records import (
    Joined,
    Lost,
    Record,
    RecordShape,
    assemble,
    at,
    first_of,
    has_items,
    has_list,
    kept_of,
    parse_messages,
    plain_text,
)
from dialeval.dialogues.formats.rows import in_order, join_rows
from dialeval.dialogues.formats.values import decoded, feedback, feedback_name, moment, reactions


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


def _join_events(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    """Put the events of an event broker, one a record, back into the trackers they came from."""
    trackers: dict[str, list[tuple[int, Record]]] = defaultdict(list)
    for number, record in records:
        if record.get("sender_id") in (None, ""):
            lost(number, "an event without sender_id")
        else:
            trackers[str(record["sender_id"])].append((number, record))
    for name, some in trackers.items():
        yield some[0][0], _from_rasa({"sender_id": name, "events": [event for _, event in some]})


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
    return record.get("type") in _ACTIVITIES and isinstance(record.get("from"), Mapping)


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
                first_of(one, "text", "speak", "summary") or _card_text(one),
                first_of(one, "timestamp", "localTimestamp"),
                one["from"].get("name"),
                **({"attachments": one["attachments"]} if one.get("attachments") else {}),
            )
            for _, one in said
        ]
        places = {one.get("id"): place for place, (_, one) in enumerate(said) if one.get("id")}
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


def _card_text(activity: Record) -> str | None:
    """Return the text of cards, which a bot may send in place of a text."""
    cards = [one.get("content") for one in activity.get("attachments") or () if isinstance(one, Mapping)]
    held = [one for card in cards if isinstance(card, Mapping) for one in (card, *(card.get("body") or ()))]
    texts = [str(one[key]) for one in held for key in ("title", "subtitle", "text") if one.get(key)]
    return "\n".join(texts) or None


def _account(activity: Record) -> str:
    found = activity["from"]
    return str(found.get("id") or found.get("name") or "")


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
    state = str(at(record, "ai_agent.resolution_state") or "")
    if at(record, "ai_agent.rating") is not None:
        given.setdefault("rating", at(record, "ai_agent.rating"))
    if "resolution" in state or state == "routed_to_team":
        given["resolved"] = "resolution" in state
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
                one.get("text") or _block_text(one.get("blocks")),
                float(one["ts"]),
                _person(one),
            )
            for _, one in said
        ]
        rest: dict[str, Any] = {"id": f"thread-{name}" if name else ""}
        for place, (_, one) in enumerate(said):
            if _is_bot(one) and (thumbs := reactions(one.get("reactions"))):
                turns[place] = msgspec.structs.replace(turns[place], feedback=thumbs)
        if not name:
            rest["note"] = "messages outside of threads are read as one dialogue"
        yield said[0][0], assemble(rest, "", turns)


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


# Transcripts of platforms whose messages say who spoke: only names differ


@dataclass(frozen=True, slots=True)
class Transcript:
    """Where a platform's export of one conversation keeps what.

    Attributes:
        name: The format.
        what: One line for `dialeval list formats`.
        items: The key of the list of messages.
        inside: Names that its first entry has.
        kinds: The key of an entry that says what it is, and the kinds that are messages.
        ids: Paths to the conversation's id.
    """

    name: str
    what: str
    items: str
    inside: tuple[str, ...]
    kinds: tuple[str, frozenset[str]]
    ids: tuple[str, ...]

    def fits(self, record: Record) -> bool:
        """Whether a record is such a conversation."""
        return (
            has_items(record, self.items, *self.inside) and plain_message(self._said(record)[0]) is not None
        )

    def _said(self, record: Record) -> list[Record]:
        key, kinds = self.kinds
        accounts = {one.get("ParticipantId"): one for one in record.get("Participants") or ()}
        entries = (one for one in decoded(record[self.items]) if isinstance(one, dict))
        return [
            {**accounts.get(one.get("ParticipantId"), {}), **one}
            for one in entries
            if one.get(key) in (None, *kinds)
        ]

    def parse(self, record: Record) -> Dialogue:
        """Return the conversation; entries that are no messages are counted in its note."""
        said = in_order(self._said(record))
        turns = [_as_bot(turn) for turn in parse_messages(said)]
        skipped = len(decoded(record[self.items])) - len(said)
        note = {"note": f"{skipped} entries that are no messages left out"} if skipped else {}
        name = next((found for path in self.ids if (found := at(record, path))), None)
        rated = {key: value for key, value in record.items() if feedback_name(key)}
        return assemble({"id": name, **rated, **note}, "", turns)


def _as_bot(turn: Turn) -> Turn:
    """Take what a platform says in the name of its flows (`SYSTEM`) for the bot."""
    return msgspec.structs.replace(turn, speaker="assistant") if turn.speaker == "system" else turn


TRANSCRIPTS = (
    Transcript(
        "discord",
        "Discord channels as DiscordChatExporter writes them",
        "messages",
        ("author", "content", "timestamp"),
        ("type", frozenset(("Default", "Reply", "ThreadStarterMessage"))),
        ("channel.id",),
    ),
    Transcript(
        "connect",
        "Amazon Connect chat transcripts, Contact Lens too",
        "Transcript",
        ("Id",),
        ("Type", frozenset(("MESSAGE",))),
        ("ContactId", "CustomerMetadata.ContactId", "InitialContactId"),
    ),
    Transcript(
        "zendesk-chat",
        "Zendesk Chat: history with msg and sender_type",
        "history",
        ("type",),
        ("type", frozenset(("chat.msg",))),
        ("id",),
    ),
)
SHAPES = (
    *(RecordShape(one.name, one.what, (one.items, *one.inside), one.fits, one.parse) for one in TRANSCRIPTS),
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
        lambda record: "sender_id" in record and isinstance(record.get("event"), str),
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
