"""Chat: people talk to a system in their browsers, its replies become the context, and they rate it.

Plain forms, so that it works without script; the answer to a form is the page with the reply. The page never
names the system.

A folder holds one small file for each conversation, replaced as a whole after every turn and before the
system is asked, so that nothing that was said is lost, and beside them what other commands read:
`dialogues.jsonl`, and `ratings.csv` with the ratings of those who took part (`human:user`).
"""

import contextlib
import hashlib
import secrets
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

import msgspec
from msgspec.structs import replace
from starlette.responses import RedirectResponse, Response

from dialeval import files
from dialeval.annotation import pages
from dialeval.annotation.answers import parse
from dialeval.annotation.export import values_of
from dialeval.annotation.items import DisplayedDialogue, DisplayedTurn
from dialeval.annotation.project import checked
from dialeval.annotation.scheme import Scheme, parse_scheme, schema_of, scheme_text
from dialeval.annotation.web import Page, PersonalLinks, Refusal, RequestGuard, Visit
from dialeval.dialogues import Dialogue, Turn, formats
from dialeval.dialogues.contexts import FAILED
from dialeval.dialogues.dialogue import clean_turn
from dialeval.errors import DataError, UsageError
from dialeval.scores import Score, Scores
from dialeval.scores.signature import CONVERSATION, PARTICIPANT
from dialeval.systems import System
from dialeval.systems.system import answer

MOST_TURNS = 400
PEOPLE, RECORDS, DIALOGUES, RATINGS = "people.json", "talks", "dialogues.jsonl", "ratings.csv"
LOCK = ".lock"
_DEFAULT = Path(__file__).with_name("conversation.toml")
LONGEST = 5_000
_PERSON = ("person",)


class ChatKeys(TypedDict):
    """The file of people: the key that codes of forms are made with, and everybody's token."""

    secret: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{2}){16,}$")]
    people: dict[str, Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{16,}$")]]


class ChatRecord(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One conversation of one person; `failures` are turns at which the system gave no answer, and why."""

    name: str
    person: str
    system: str
    by: str
    begun: float
    turns: tuple[Turn, ...] = ()
    failures: tuple[tuple[int, str], ...] = ()
    is_over: bool = False
    answers: dict[str, Any] | None = None
    rated: float | None = None

    @property
    def waits(self) -> bool:
        """Whether the person has said something that was not answered."""
        return bool(self.turns) and self.turns[-1].speaker == "user"

    @property
    def has_reply(self) -> bool:
        """Whether the system has said anything."""
        return any(turn.speaker == "assistant" for turn in self.turns)

    def dialogue(self) -> Dialogue:
        """Return the conversation as a dialogue."""
        meta: dict[str, Any] = {"setting": "dynamic", "by": self.by}
        if self.failures:
            meta["failures"] = [{"turn": turn, "why": why} for turn, why in self.failures]
        return Dialogue(self.name, self.turns, self.system, {}, meta)


class ChatFolder:
    """All conversations of a folder, which no other process has open meanwhile; `close` lets it go."""

    def __init__(self, folder: str | Path, people: Iterable[str], scheme: str | None = None) -> None:
        self.folder = Path(folder)
        self.scheme = _scheme(scheme)
        self._writing = threading.RLock()
        self._locks: dict[str, threading.Lock] = {}
        names = [checked(name) for name in people]
        self._records: dict[str, ChatRecord] = {}
        self._claim()
        with contextlib.ExitStack() as held:
            held.enter_context(files.locked(self.folder / LOCK, "another `dialeval chat` runs here"))
            self._keys = self._people(names)
            for path in sorted((self.folder / RECORDS).glob("*.json")):
                one = _read(path)
                self._records[one.name] = one
            self._held = held.pop_all()

    def close(self) -> None:
        """Let others open the folder."""
        self._held.close()

    def people(self) -> dict[str, tuple[str, str]]:
        """Return everybody who has a link: name to role and token."""
        return {name: ("person", token) for name, token in self._keys["people"].items()}

    @property
    def secret(self) -> bytes:
        """The key that codes of forms are made with."""
        return bytes.fromhex(self._keys["secret"])

    def lock(self, person: str) -> threading.Lock:
        """Return the lock that lets one person send one thing at a time."""
        with self._writing:
            return self._locks.setdefault(person, threading.Lock())

    def current(self, person: str) -> ChatRecord | None:
        """Return the conversation that a person has begun and not rated yet."""
        return next(
            (one for one in self._records.values() if one.person == person and one.answers is None), None
        )

    def rated(self, person: str | None = None) -> list[ChatRecord]:
        """Return the conversations that were rated, of all or of one person."""
        found = [one for one in self._records.values() if one.answers is not None]
        return [one for one in found if person in (None, one.person)]

    def begin(self, person: str, system: str, by: str) -> ChatRecord:
        """Return a new, empty conversation; it is not on the disk yet."""
        number = 1 + sum(one.person == person for one in self._records.values())
        return ChatRecord(f"{person}-{number}", person, system, by, time.time())

    def keep(self, one: ChatRecord) -> None:
        """Save a conversation; once it is rated, also the dialogues and ratings of the folder."""
        with self._writing:
            key = hashlib.sha256(one.name.encode()).hexdigest()[:16]
            files.write_text(
                self.folder / RECORDS / f"{one.begun:.0f}-{key}.json", msgspec.json.encode(one).decode()
            )
            self._records[one.name] = one
            if one.answers is not None:
                self.export()

    def export(self) -> None:
        """Write all conversations that were rated as dialogues and ratings."""
        with self._writing:
            over = sorted(self.rated(), key=lambda one: (one.begun, one.name))
            formats.write((one.dialogue() for one in over), self.folder / DIALOGUES)
            self.scores().write(self.folder / RATINGS)

    def scores(self) -> Scores:
        """Return the ratings of those who took part."""
        rows = [
            Score(one.name, None, one.system, PARTICIPANT, dimension, value, note)
            for one in sorted(self.rated(), key=lambda one: (one.begun, one.name))
            for question in self.scheme.questions
            if question.name in (one.answers or {})
            for dimension, value, note in values_of(question, (one.answers or {})[question.name])
        ]
        kind = schema_of(self.scheme, took_part=True)
        return Scores.of(rows, {PARTICIPANT: kind.sign(CONVERSATION, self.scheme.name)})

    def _claim(self) -> None:
        """Make the folder, or see that it is one of conversations."""
        is_new = not self.folder.exists()
        if not is_new and not (self.folder / PEOPLE).is_file() and not self._is_empty():
            raise UsageError(f"{self.folder} holds something else: choose another folder")
        (self.folder / RECORDS).mkdir(parents=True, exist_ok=True)
        if is_new:
            self.folder.chmod(0o700)  # keys, and what people said in confidence

    def _is_empty(self) -> bool:
        return self.folder.is_dir() and {one.name for one in self.folder.iterdir()} <= {LOCK, RECORDS}

    def _people(self, names: list[str]) -> ChatKeys:
        """Read the tokens of people, and make tokens for those who are new."""
        path = self.folder / PEOPLE
        keys: ChatKeys = {"secret": secrets.token_hex(32), "people": {}}
        if path.is_file():
            try:
                keys = msgspec.json.decode(path.read_bytes(), type=ChatKeys)
            except msgspec.DecodeError:
                raise DataError(
                    "not a file of people and their tokens", file=path, fix="choose another folder"
                ) from None
        fresh = {name: secrets.token_urlsafe(16) for name in names if name not in keys["people"]}
        keys["people"] |= fresh
        if fresh or not path.is_file():
            files.write_text(path, msgspec.json.encode(keys).decode())
            path.chmod(0o600)
        return keys


def _scheme(source: str | None) -> Scheme:
    """Read the questions at the end: a scheme about whole dialogues."""
    if source is None:
        return parse_scheme(_DEFAULT.read_text(encoding="utf-8"), _DEFAULT.name)
    scheme = parse_scheme(*scheme_text(source))
    if scheme.unit != "dialogue" or scheme.marks is not None:
        raise UsageError(
            f"--scheme {source}: a conversation is rated as a whole; this is about a {scheme.unit}"
        )
    return scheme


def _read(path: Path) -> ChatRecord:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ChatRecord)
    except (msgspec.DecodeError, OSError) as error:
        raise DataError(f"not a conversation: {error}", file=path) from None


def make_chat(
    chats: ChatFolder, system: System, hosts: Collection[str] = (), *, is_secure: bool = False
) -> RequestGuard:
    """Return the application in which people talk to a system."""
    if system.fixed_only:
        raise UsageError(f"nobody can talk to {system.name}: it answers fixed contexts only")
    links = PersonalLinks(chats.people, chats.secret, pages.refusal, {"person": "/chat"}, hosts, is_secure)
    chat = ChatPages(chats, system)
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
    """The pages that a person sees, and the forms that come back."""

    def __init__(self, chats: ChatFolder, system: System) -> None:
        self.chats, self.system = chats, system

    def show(self, visit: Visit) -> Response:
        """Show the conversation so far, or the instructions before it begins."""
        record = self.chats.current(visit.person.name)
        if record is not None and record.is_over:
            return RedirectResponse("/judge", 303)
        return self._page(visit, record)

    def take(self, visit: Visit) -> Response:
        """Take a form: what the person says, a request to ask again, or the end of the conversation."""
        person = visit.person.name
        with self.chats.lock(person):
            record = self.chats.current(person)
            count = len(record.turns) if record else 0
            if visit.first("turns") != str(count) or (record is not None and record.is_over):
                return RedirectResponse("/chat", 303)  # sent twice, or from an old page
            action = visit.first("action")
            if action == "end" and record is not None and record.has_reply:
                self._keep(replace(record, is_over=True))
                return RedirectResponse("/judge", 303)
            if action == "again" and record is not None and record.waits:
                return self._answered(record)
            text = visit.first("text").replace("\r\n", "\n")[:LONGEST]
            if action != "say" or not text.strip():
                return RedirectResponse("/chat", 303)
            if count >= MOST_TURNS:
                return self._page(
                    visit, record, "This conversation is long enough: please end it and rate it.", 422
                )
            record = record or self.chats.begin(person, self.system.name, str(self.system.signature))
            return self._answered(
                self._keep(replace(record, turns=(*record.turns, clean_turn("user", text))))
            )

    def _answered(self, record: ChatRecord) -> Response:
        reply = answer(self.system, record.turns)
        note = reply.meta.get("note", "")
        if str(note).startswith(FAILED):
            why = str(note).removeprefix(f"{FAILED}: ")
            self._keep(replace(record, failures=(*record.failures, (len(record.turns), why))))
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
                507, "Not saved", "The disk of the server takes no more. Tell whoever sent you here."
            ) from None
        return record

    def _page(self, visit: Visit, record: ChatRecord | None, alert: str = "", status: int = 200) -> Response:
        return pages.form_page(
            "chat",
            visit,
            self.chats.scheme,
            status,
            dialogue=_shown(record),
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


def _shown(record: ChatRecord | None) -> DisplayedDialogue:
    turns = record.turns if record else ()
    sides = {"user": ("You", 1), "assistant": ("Partner", 0)}
    return DisplayedDialogue([DisplayedTurn(*sides[turn.speaker], turn.text) for turn in turns])
