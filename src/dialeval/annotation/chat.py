"""The chat page: a person talks to a system, its replies become the context, and the person rates at the end.

Plain forms, so that it works without script; the answer to a form is the page with the reply. What a person
says is on the disk before the system is asked. The page never names the system.
"""

import time
from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace
from starlette.responses import RedirectResponse, Response

from dialeval.annotation import pages
from dialeval.annotation.answers import parse
from dialeval.annotation.talks import MOST_TURNS, Talk, Talks
from dialeval.annotation.transcript import Line
from dialeval.annotation.transcript import Talk as Shown
from dialeval.annotation.web import Door, Guard, Page, Refusal, Visit
from dialeval.dialogues.contexts import FAILED
from dialeval.dialogues.dialogue import clean_turn
from dialeval.errors import DataError, UsageError
from dialeval.systems import System
from dialeval.systems.conversation import answer

LONGEST = 5_000
_PERSON = ("person",)


def make_chat(talks: Talks, system: System, hosts: Collection[str] = (), *, is_secure: bool = False) -> Guard:
    """Return the application in which people talk to a system."""
    if system.fixed_only:
        raise UsageError(f"nobody can talk to {system.name}: it answers fixed contexts only")
    door = Door(talks.people, talks.secret, talks.name, pages.refusal, {"person": "/chat"}, hosts, is_secure)
    chat = Chat(talks, system)
    return door.app(
        [
            Page("/", lambda _: RedirectResponse("/chat", 303), _PERSON),
            Page("/chat", chat.show, _PERSON),
            Page("/chat", chat.take, _PERSON, "POST"),
            Page("/judge", chat.ask, _PERSON),
            Page("/judge", chat.rate, _PERSON, "POST"),
        ],
        pages.public(),
    )


class Chat:
    """What a person sees and sends."""

    def __init__(self, talks: Talks, system: System) -> None:
        self.talks, self.system = talks, system

    def show(self, visit: Visit) -> Response:
        """Show the conversation as it stands, or what comes before the first word."""
        talk = self.talks.current(visit.person.name)
        if talk is not None and talk.is_over:
            return RedirectResponse("/judge", 303)
        return self._page(visit, talk)

    def take(self, visit: Visit) -> Response:
        """Take what a person says, asks again, or that this is the end."""
        person = visit.person.name
        with self.talks.lock(person):
            talk = self.talks.current(person)
            count = len(talk.turns) if talk else 0
            if visit.first("turns") != str(count) or (talk is not None and talk.is_over):
                return RedirectResponse("/chat", 303)  # sent twice, or from an old page
            action = visit.first("action")
            if action == "end" and talk is not None and talk.has_reply:
                self._keep(replace(talk, is_over=True))
                return RedirectResponse("/judge", 303)
            if action == "again" and talk is not None and talk.waits:
                return self._answered(talk)
            text = visit.first("text").replace("\r\n", "\n")[:LONGEST]
            if action != "say" or not text.strip():
                return RedirectResponse("/chat", 303)
            if count >= MOST_TURNS:
                return self._page(
                    visit, talk, "This conversation is long enough: please end it and rate it.", 422
                )
            talk = talk or self.talks.begin(person, self.system.name, str(self.system.signature))
            return self._answered(self._keep(replace(talk, turns=(*talk.turns, clean_turn("user", text)))))

    def _answered(self, talk: Talk) -> Response:
        reply = answer(self.system, talk.turns)
        note = reply.meta.get("note", "")
        if str(note).startswith(FAILED):
            why = str(note).removeprefix(f"{FAILED}: ")
            self._keep(replace(talk, failures=(*talk.failures, (len(talk.turns), why))))
        else:
            self._keep(replace(talk, turns=(*talk.turns, reply)))
        return RedirectResponse("/chat", 303)

    def ask(self, visit: Visit) -> Response:
        """Ask how it was."""
        talk = self.talks.current(visit.person.name)
        if talk is None or not talk.is_over:
            return RedirectResponse("/chat", 303)
        return self._questions(visit, talk, {}, {})

    def rate(self, visit: Visit) -> Response:
        """Take the ratings; with them the conversation is over for good."""
        person = visit.person.name
        with self.talks.lock(person):
            talk = self.talks.current(person)
            if talk is None or not talk.is_over:
                return RedirectResponse("/chat", 303)
            answers, missing = parse(self.talks.scheme, visit.fields)
            if missing:
                return self._questions(visit, talk, visit.fields, missing, 422)
            self._keep(replace(talk, answers=answers, rated=time.time()))
        return RedirectResponse("/chat", 303)

    def _keep(self, talk: Talk) -> Talk:
        try:
            self.talks.keep(talk)
        except DataError:
            raise Refusal(
                507, "Not saved", "The disk of the server takes no more. Tell whoever sent you here."
            ) from None
        return talk

    def _page(self, visit: Visit, talk: Talk | None, alert: str = "", status: int = 200) -> Response:
        return pages.page(
            "chat",
            status,
            scheme=self.talks.scheme,
            person=visit.person,
            code=visit.code,
            talk=_shown(talk),
            turns=len(talk.turns) if talk else 0,
            waits=talk is not None and talk.waits,
            can_end=talk is not None and talk.has_reply,
            rated=len(self.talks.rated(visit.person.name)),
            longest=LONGEST,
            alert=alert,
        )

    def _questions(
        self,
        visit: Visit,
        talk: Talk,
        fields: Mapping[str, Sequence[str]],
        missing: Mapping[int, str],
        status: int = 200,
    ) -> Response:
        return pages.page(
            "judge",
            status,
            scheme=self.talks.scheme,
            person=visit.person,
            code=visit.code,
            talk=_shown(talk),
            questions=pages.questions_of(self.talks.scheme, fields, missing, ()),
        )


def _shown(talk: Talk | None) -> Shown:
    turns = talk.turns if talk else ()
    sides = {"user": ("You", 1), "assistant": ("Partner", 0)}
    return Shown([Line(*sides[turn.speaker], turn.text) for turn in turns])
