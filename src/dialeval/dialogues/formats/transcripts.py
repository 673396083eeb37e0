"""Conversations as support desks and messengers export them: a table says where each keeps what.

What a customer never saw (internal notes) is left out and noted, entries that are no messages (joins, calls,
assignments) are counted in the note, bodies in HTML become text, and messages are put in the order of their
times, since interfaces often list the newest first.

`formats.toml` is the table; what was looked up and what was written from memory is said in `docs/logs.md`.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from dialeval.dialogues.dialogue import Dialogue
from dialeval.dialogues.formats.records import (
    Record,
    RecordShape,
    assemble,
    at,
    described,
    first_of,
    found,
    kept_of,
    parse_messages,
    plain_text,
)
from dialeval.dialogues.formats.rows import in_order
from dialeval.dialogues.formats.values import decoded, feedback, feedback_name, moment

Accounts = tuple[dict[str, str], str | None]
"""The role of each account of a conversation, and what had to be guessed."""
_TIMES = (
    *("created_at", "createdAt", "created_time", "timestamp", "AbsoluteTime", "date_unixtime", "date_sent"),
    *("date_created", "createdDateTime", "transcriptedTimestamp", "clientTimestamp", "date", "startTimeMs"),
    *("createdOn", "created", "time", "attributes.sentAt"),
)
_NAMES = (
    *("author.name", "author.nickname", "name", "DisplayName", "from.user.displayName", "senderDisplayName"),
    "from.application.displayName",
)
_MEDIA = ("attachments", "embeds", "media", "photo", "file")
_KEPT = ("title", "state", "subject", "status", "tags", "priority", "channel", "ai_agent_participated")


def _nobody(record: Record) -> Accounts:
    return {}, None


@dataclass(frozen=True, slots=True)
class Transcript:
    """Where a platform's export of a conversation keeps what; the first path that leads somewhere counts.

    Attributes:
        name: The format.
        what: One line for `dialeval list formats`.
        items: Paths to messages; all of them are read.
        inside: Paths of which one of the first messages has each.
        who: Who spoke: a role, a kind of account, or an account.
        users: A pattern of those who ask.
        bots: A pattern of those who answer; who is neither keeps the name.
        said: The text.
        kinds: What an entry is, and a pattern of those that are messages.
        hidden: The same, of what the customer never saw.
        session: What in a message names its conversation, where a file may hold several.
        ids: The conversation's id.
        rated: What the customer said of it, and what that is called.
        accounts: Roles by account, where messages name accounts only.
    """

    name: str
    what: str
    items: tuple[str, ...]
    inside: tuple[str, ...]
    who: tuple[str, ...]
    users: str
    bots: str
    said: tuple[str, ...] = ("text",)
    kinds: tuple[str, str] = ("", "")
    hidden: tuple[str, str] = ("", "(?!)")
    session: tuple[str, ...] = ()
    ids: tuple[str, ...] = ("id",)
    rated: tuple[tuple[str, str], ...] = ()
    accounts: Callable[[Record], Accounts] = _nobody

    def fits(self, record: Record) -> bool:
        """Whether a record is such a conversation, or a page of messages of some."""
        first = list(islice((one for some in _tickets(record) for one in self._entries(some)), 8))
        said = any(found(one, *self.who) is not None and found(one, *self.said) for one in first)
        return said and all(any(at(one, path) is not None for one in first) for path in self.inside)

    def _entries(self, record: Record) -> Iterator[Record]:
        for path in self.items:
            held = found(record, path)
            if isinstance(held, Mapping) and found(held, *self.said):  # the first message
                yield {**kept_of(record, "created_at"), **held}
            yield from (one for one in held if isinstance(one, dict)) if isinstance(held, list) else ()

    def parse(self, record: Record) -> list[Dialogue]:
        """Return the conversations of a record; entries that are no messages are counted in their note."""
        return [made for one in _tickets(record) for made in self._parsed(one)]

    def _parsed(self, record: Record) -> list[Dialogue]:
        roles, guess = self.accounts(record)
        chats: dict[str, list[Record]] = defaultdict(list)
        hidden = dropped = 0
        for entry in self._entries(record):
            if self._is(entry, self.hidden, missing=False):
                hidden += 1
            elif not self._is(entry, self.kinds, missing=True) or not found(entry, *self.said, *_MEDIA):
                dropped += 1
            else:
                named = sorted(str(value) for path in self.session if (value := at(entry, path)))
                chats[" ".join(named)].append(self._message(entry, roles))
        notes = ["internal notes left out"] if hidden else []
        notes += [f"{dropped} entries that are no messages left out"] if dropped else []
        note = {"note": "; ".join(notes + ([guess] if guess else []))} if notes or guess else {}
        return [self._dialogue(record, name, said, note) for name, said in chats.items()]

    def _is(self, entry: Record, which: tuple[str, str], *, missing: bool) -> bool:
        value = at(entry, which[0]) if which[0] else None
        return missing if value is None else bool(re.fullmatch(which[1], str(value)))

    def _message(self, entry: Record, roles: dict[str, str]) -> Record:
        who = found(entry, *self.who)
        speaker = roles.get(str(who), who)
        if speaker is not None and re.search(self.users, str(speaker)):
            side: object = "user"
        else:
            side = "assistant" if speaker is not None and re.search(self.bots, str(speaker)) else speaker
        text = plain_text(flat_text(found(entry, *self.said))) or card_text(entry)
        known = {"time": moment(found(entry, *_TIMES)), "name": found(entry, *_NAMES)}
        known |= {"by": speaker if isinstance(speaker, str) else None, "index": entry.get("index")}
        kept = kept_of(entry, "reactions", *_MEDIA)
        made = {"role": side, "content": text}
        return made | {key: value for key, value in known.items() if value is not None} | kept

    def _dialogue(self, record: Record, name: str, said: list[Record], note: Record) -> Dialogue:
        given: dict[str, Any] = {key: value for key, value in record.items() if feedback_name(key)}
        given.pop("satisfaction_rating", None)
        for path, called in self.rated:
            value = at(record, path)
            score = first_of(value, "rating", "score") if isinstance(value, Mapping) else value
            if score not in (None, "offered", "unoffered"):
                words = first_of(value, "comment", "remark") if isinstance(value, Mapping) else None
                given = {"feedback": {**feedback(score, called), "comment": words}, **given}
        state = str(at(record, "ai_agent.resolution_state") or "")
        if "resolution" in state or state == "routed_to_team":
            given["resolved"] = "resolution" in state
        about = record["ticket"] if isinstance(record.get("ticket"), Mapping) else record
        key = name or str(found(record, *self.ids) or "")
        turns = parse_messages(in_order(said))
        return assemble({"id": key, **given, **kept_of(about, *_KEPT), **note}, "", turns)


def flat_text(held: object) -> str | None:
    """Return the text of a body: a text, pieces of one, or an object that holds it.

    >>> flat_text(["Where is ", {"type": "bold", "text": "7"}, "?"])
    'Where is 7?'
    """
    if isinstance(held, Mapping):
        return flat_text(first_of(held, "text", "content", "body", "data", "title"))
    if isinstance(held, list):
        pieces = [text for one in held if (text := flat_text(one))]
        return ("" if any(isinstance(one, str) for one in held) else "\n").join(pieces) or None
    return None if held is None else str(held)


def card_text(message: Mapping[str, Any]) -> str | None:
    """Return the text of cards (attachments, Discord's embeds), which a bot may send in place of a text."""
    held = message.get("attachments"), message.get("embeds")
    files, cards = ([one for one in some or () if isinstance(one, Mapping)] for some in held)
    cards += [card for one in files if isinstance(card := decoded(one.get("content")), Mapping)]
    keys = ("title", "name", "subtitle", "text", "description", "value")
    texts = (str(one[key]) for one in _boxes(cards) for key in keys if isinstance(one.get(key), str | int))
    return "\n".join(filter(None, texts)) or None


def _boxes(held: object) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of cards, each before those inside it."""
    for one in held if isinstance(held, list) else ():
        if isinstance(one, Mapping):
            yield one
            for key in ("body", "fields", "items", "columns", "facts"):
                yield from _boxes(one.get(key))


def _listed(record: Record, people: str, key: str, role: str) -> Accounts:
    return {str(one.get(key)): str(one[role]) for one in record.get(people) or () if one.get(role)}, None


def _zendesk_accounts(record: Record) -> Accounts:
    """Return who is a customer: by role, or who asked; where nobody is known, who wrote first."""
    ticket = record["ticket"] if isinstance(record.get("ticket"), Mapping) else record
    roles = {str(one.get("id")): str(one.get("role")) for one in record.get("users") or ()}
    if asker := first_of(ticket, "requester_id", "submitter_id"):
        roles.setdefault(str(asker), "end-user")
    comments = found(record, "comments", "ticket.comments") or ()
    authors = [one["author_id"] for one in comments if one.get("author_id") is not None]
    guessed = not roles and bool(authors) and not any(found(one, *_ROLES) for one in comments)
    if guessed:
        roles[str(authors[0])] = "end-user"
    roles |= {str(one): "agent" for one in authors if str(one) not in roles}
    return roles, "roles guessed: who wrote first is the customer" if guessed else None


def _tickets(record: Record) -> list[Record]:
    """Return a record, or where Zendesk's comments stand among events, tickets with them as a list.

    A ticket has audits with events; an incremental export has events of many tickets, each with its children.
    """
    groups = record.get("audits") or record.get("ticket_events")
    if written := [(key, record[key]) for key in _JOURNALS if isinstance(record.get(key), str)]:
        return [{**record, "journal": _journal(record, written)}]
    if not isinstance(groups, list):
        return [record]
    tickets: dict[Any, Record] = {}
    for group in groups:
        ticket = tickets.setdefault(group.get("ticket_id"), {"id": group.get("ticket_id"), "comments": []})
        for event in group.get("events") or group.get("child_events") or ():
            if isinstance(event, Mapping) and event.get("type", event.get("event_type")) == "Comment":
                ticket["comments"].append({**kept_of(group, "author_id", "created_at"), **event})
            elif isinstance(event, Mapping):
                ticket |= kept_of(event, "requester_id", "subject", "status")
    if "audits" in record:
        return [{**record, "comments": [said for one in tickets.values() for said in one["comments"]]}]
    return list(tickets.values())


def _telegram_accounts(record: Record) -> Accounts:
    """Return the two sides of a chat with a bot, which has the number of the chat."""
    people = {str(one.get("from_id")) for one in record.get("messages") or () if one.get("from_id")}
    names = {str(one.get("from_id")): str(one.get("from")) for one in record.get("messages") or ()}
    bot = f"user{record.get('id')}"
    if record.get("type") != "bot_chat":
        return names, None
    return {one: "bot" if one == bot else "user" for one in people}, None


_JOURNALS = ("comments", "work_notes", "comments_and_work_notes")
_ENTRY = re.compile(r"^(\d\d\S+ \d\d:\d\d:\d\d) - (.+?) \((.+?)\)\n", re.MULTILINE)


def _journal(record: Record, written: list[tuple[str, str]]) -> list[Record]:
    """Return the entries of ServiceNow's journals: when, who and what kind stands above each."""
    asker = str(at(record, "caller_id.display_value") or first_of(record, "caller_id", "opened_by") or "")
    first = first_of(record, "description", "short_description")
    opened = {"by": "customer", "text": first, "time": first_of(record, "opened_at", "sys_created_on")}
    made = [opened] if first and any(_ENTRY.search(text) for _, text in written) else []
    for key, text in written:
        pieces = _ENTRY.split(text)[1:]
        for when, who, kind, said in zip(*(pieces[place::4] for place in range(4)), strict=True):
            known = {"by": "customer" if who == asker else "agent", "name": who, "time": when}
            made.append({**known, "text": said.strip(), "internal": "notes" in f"{key} {kind}".lower()})
    return sorted(made, key=lambda one: str(one["time"] or ""))  # the newest stands first


def _jira_accounts(record: Record) -> Accounts:
    """Return who asked; all others answer."""
    people = [at(record, "fields.reporter"), *(found(record, "fields.comment.comments") or ())]
    keys = [found(one, "accountId", "name", "author.accountId", "author.name") for one in people if one]
    return {str(key): "customer" if key == keys[0] else "agent" for key in keys}, None


_ROLES = ("author.role", "author_role")
_ACCOUNTS: dict[str, Callable[[Record], Accounts]] = {
    "zendesk": _zendesk_accounts,
    "telegram": _telegram_accounts,
    "jira": _jira_accounts,
    "connect": lambda record: _listed(record, "Participants", "ParticipantId", "ParticipantRole"),
    "livechat": lambda record: _listed(record, "users", "id", "type"),
}
TRANSCRIPTS = tuple(
    Transcript(**one, accounts=_ACCOUNTS.get(one["name"], _nobody)) for one in described("transcripts")
)
SHAPES = tuple(
    RecordShape(
        one.name,
        one.what,
        (*(path.partition(".")[0] for path in one.items), *one.inside, *one.who, "audits", "ticket_events"),
        one.fits,
        one.parse,
    )
    for one in TRANSCRIPTS
)
