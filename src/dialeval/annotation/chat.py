"""Chat: people talk to a system in their browsers and rate it.

Plain forms, so that it works without script; the response to a form is the page with the reply. The page
never names the system. With a scheme about replies, each message includes a rating of the previous reply.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from msgspec.structs import replace
from starlette.responses import RedirectResponse, Response

from dialeval.annotation import pages
from dialeval.annotation.answers import fields_of, parse
from dialeval.annotation.chat_folder import ChatFolder, ChatRecord
from dialeval.annotation.items import DisplayedDialogue, DisplayedTurn
from dialeval.annotation.web import Page, PersonalLinks, Refusal, RequestGuard, Visit
from dialeval.dialogues.contexts import FAILED
from dialeval.dialogues.dialogue import clean_turn
from dialeval.errors import DataError, UsageError
from dialeval.systems import System
from dialeval.systems.system import answer

MOST_TURNS = 400
LONGEST = 5_000
_PERSON = ("person",)
_ENOUGH = "This conversation is long enough: please end it and rate it."


def make_chat(
    chats: ChatFolder,
    system: System,
    hosts: Collection[str] = (),
    *,
    is_secure: bool = False,
    say: Callable[[str], None] | None = None,
) -> RequestGuard:
    """Return the application in which people talk to a system; `say` is called where that did not answer."""
    if system.fixed_only:
        raise UsageError(f"cannot chat with {system.name}: it answers fixed contexts only")
    links = PersonalLinks(chats.people, chats.secret, pages.refusal, {"person": "/chat"}, hosts, is_secure)
    chat = ChatPages(chats, system, say)
    return links.app(
        [
            Page("/", lambda _: RedirectResponse("/chat", 303), _PERSON),
            Page("/chat", chat.show, _PERSON),
            Page("/chat", chat.take, _PERSON, "POST"),
            Page("/judge", chat.ask, _PERSON),
            Page("/judge", chat.rate, _PERSON, "POST"),
        ],
        pages.public(),
    )


class ChatPages:
    """The pages of a person, and their forms."""

    def __init__(self, chats: ChatFolder, system: System, say: Callable[[str], None] | None = None) -> None:
        self.chats, self.system, self._say = chats, system, say

    def show(self, visit: Visit) -> Response:
        """Show the conversation so far, or the instructions before it begins."""
        record = self.chats.current(visit.person.name)
        if record is not None and record.is_over:
            return RedirectResponse("/judge", 303)
        return self._page(visit, record)

    def take(self, visit: Visit) -> Response:
        """Process a form: a message, a retry, or the end; and the rating of a reply."""
        person = visit.person.name
        with self.chats.lock(person):
            record = self.chats.current(person)
            count = len(record.turns) if record else 0
            if visit.first("turns") != str(count) or (record is not None and record.is_over):
                return RedirectResponse("/chat", 303)  # sent twice, or from an old page
            if record is not None and self.chats.reply_scheme is not None and record.can_rate:
                answers, missing = parse(self.chats.reply_scheme, visit.fields)
                if missing:
                    return self._page(visit, record, missing=missing, status=422)
                record = replace(record, ratings={**record.ratings, count - 1: answers})
            return self._acted(visit, record)

    def _acted(self, visit: Visit, record: ChatRecord | None) -> Response:
        """Perform the action of the button; an empty message saves the rating only."""
        action, text = visit.first("action"), _said(visit)
        if action == "say" and text.strip():
            if record is not None and len(record.turns) >= MOST_TURNS:
                return self._page(visit, record, _ENOUGH, status=422)
            person = visit.person.name
            record = record or self.chats.begin(person, self.system.name, str(self.system.signature))
            turns = (*record.turns, clean_turn("user", text))
            return self._answered(self._keep(replace(record, turns=turns)))
        if record is None:
            return RedirectResponse("/chat", 303)
        if action == "end" and record.has_reply:
            self._keep(replace(record, is_over=True))
            return RedirectResponse("/judge", 303)
        if action == "again" and record.waits:
            return self._answered(record)
        self._keep(record)
        return RedirectResponse("/chat", 303)

    def _answered(self, record: ChatRecord) -> Response:
        reply = answer(self.system, record.turns)
        note = reply.meta.get("note", "")
        if str(note).startswith(FAILED):
            why = str(note).removeprefix(f"{FAILED}: ")
            self._keep(replace(record, failures=(*record.failures, (len(record.turns), why))))
            if self._say:
                self._say(f"{self.system.name} did not answer: {why}")
        else:
            self._keep(replace(record, turns=(*record.turns, reply)))
        return RedirectResponse("/chat", 303)

    def ask(self, visit: Visit) -> Response:
        """Show the questions at the end."""
        record = self.chats.current(visit.person.name)
        if record is None or not record.is_over:
            return RedirectResponse("/chat", 303)
        return self._questions(visit, record, {}, {})

    def rate(self, visit: Visit) -> Response:
        """Save the ratings, which end the conversation."""
        person = visit.person.name
        with self.chats.lock(person):
            record = self.chats.current(person)
            if record is None or not record.is_over:
                return RedirectResponse("/chat", 303)
            answers, missing = parse(self.chats.scheme, visit.fields)
            if missing:
                return self._questions(visit, record, visit.fields, missing, 422)
            self._keep(replace(record, answers=answers, rated=time.time()))
        return RedirectResponse("/chat", 303)

    def _keep(self, record: ChatRecord) -> ChatRecord:
        try:
            self.chats.keep(record)
        except DataError:
            raise Refusal(
                507, "Not saved", "The server's disk is full. Tell the person who sent you the link."
            ) from None
        return record

    def _page(
        self,
        visit: Visit,
        record: ChatRecord | None,
        alert: str = "",
        missing: Mapping[int, str] | None = None,
        status: int = 200,
    ) -> Response:
        asked, scheme = list[dict[str, Any]](), self.chats.reply_scheme
        if record is not None and scheme is not None and record.can_rate:
            fields = visit.fields or fields_of(scheme, record.ratings.get(len(record.turns) - 1, {}))
            asked = pages.questions_of(scheme, fields, missing or {}, ())
        return pages.form_page(
            "chat",
            visit,
            self.chats.scheme,
            status,
            dialogue=_shown(record, is_marked=bool(asked)),
            questions=asked,
            text=_said(visit),
            turns=len(record.turns) if record else 0,
            waits=record is not None and record.waits,
            can_end=record is not None and record.has_reply,
            rated=len(self.chats.rated(visit.person.name)),
            longest=LONGEST,
            alert=alert,
        )

    def _questions(
        self,
        visit: Visit,
        record: ChatRecord,
        fields: Mapping[str, Sequence[str]],
        missing: Mapping[int, str],
        status: int = 200,
    ) -> Response:
        return pages.form_page(
            "judge",
            visit,
            self.chats.scheme,
            status,
            dialogue=_shown(record),
            questions=pages.questions_of(self.chats.scheme, fields, missing, ()),
        )


def _said(visit: Visit) -> str:
    return visit.first("text").replace("\r\n", "\n")[:LONGEST]


def _shown(record: ChatRecord | None, *, is_marked: bool = False) -> DisplayedDialogue:
    turns = record.turns if record else ()
    sides = {"user": ("You", 1), "assistant": ("Partner", 0)}
    shown = [DisplayedTurn(*sides[turn.speaker], turn.text) for turn in turns]
    if is_marked:  # the last reply is being rated
        shown[-1] = DisplayedTurn(*sides["assistant"], "", turns[-1].text, is_meant=True)
    return DisplayedDialogue(shown)
