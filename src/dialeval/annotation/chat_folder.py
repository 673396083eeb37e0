"""The folder of people's conversations with a system, and their ratings.

One small file for each conversation, replaced as a whole after every turn and before the system is called, so
that no message is lost; and for other commands `dialogues.jsonl`, and `ratings.csv` with the participants'
ratings (`human:user`) of whole conversations and, if asked for, of replies.
"""

import contextlib
import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import msgspec

from dialeval import files
from dialeval.annotation.export import values_of
from dialeval.annotation.project import checked
from dialeval.annotation.scheme import Scheme, parse_scheme, schema_of, scheme_text
from dialeval.dialogues import Dialogue, Turn, formats
from dialeval.errors import DataError, UsageError
from dialeval.scores import Score, Scores
from dialeval.scores.signature import CONVERSATION, PARTICIPANT

PEOPLE, RECORDS, DIALOGUES, RATINGS = "people.json", "talks", "dialogues.jsonl", "ratings.csv"
QUESTIONS = "questions.json"
LOCK = ".lock"
_DEFAULT = Path(__file__).with_name("conversation.toml")


class ChatKeys(TypedDict):
    """The file of people: the key for the codes of forms, and everybody's token."""

    secret: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{2}){16,}$")]
    people: dict[str, Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{16,}$")]]


class ChatRecord(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One conversation of one person.

    `failures` are turns at which the system failed, and why; `ratings` are answers about replies, by turn,
    and `answers` those about the whole conversation.
    """

    name: str
    person: str
    system: str
    by: str
    begun: float
    turns: tuple[Turn, ...] = ()
    failures: tuple[tuple[int, str], ...] = ()
    ratings: dict[int, dict[str, Any]] = {}
    is_over: bool = False
    answers: dict[str, Any] | None = None
    rated: float | None = None

    @property
    def waits(self) -> bool:
        """Return whether the last message has no reply."""
        return bool(self.turns) and self.turns[-1].speaker == "user"

    @property
    def can_rate(self) -> bool:
        """Return whether the last turn is a reply of the system."""
        return bool(self.turns) and self.turns[-1].speaker == "assistant"

    @property
    def has_reply(self) -> bool:
        """Return whether there is any reply of the system."""
        return any(turn.speaker == "assistant" for turn in self.turns)

    def dialogue(self) -> Dialogue:
        """Return the conversation as a dialogue."""
        meta: dict[str, Any] = {"setting": "dynamic", "by": self.by}
        if self.failures:
            meta["failures"] = [{"turn": turn, "why": why} for turn, why in self.failures]
        return Dialogue(self.name, self.turns, self.system, {}, meta)


class ChatFolder:
    """All conversations of a folder, which is locked for other processes until `close`.

    Args:
        folder: The folder; it is created if it does not exist.
        people: Who may talk, in addition to those of earlier times.
        scheme: The scheme about dialogues for the end, by name or file.
        reply_scheme: The scheme about turns for every reply, if any.

    A folder that is opened again without schemes has its original ones.
    """

    def __init__(
        self,
        folder: str | Path,
        people: Iterable[str],
        scheme: str | None = None,
        reply_scheme: str | None = None,
    ) -> None:
        self.folder = Path(folder)
        asked, asked_of_replies = _scheme(scheme, "dialogue"), _scheme(reply_scheme, "turn")
        self._writing = threading.RLock()
        self._locks: dict[str, threading.Lock] = {}
        names = [checked(name) for name in people]
        self._records: dict[str, ChatRecord] = {}
        self._claim()
        with contextlib.ExitStack() as stack:
            stack.enter_context(files.locked(self.folder / LOCK, "another `dialeval chat` runs here"))
            self._keys = self._people(names)
            self.scheme, self.reply_scheme = self._questions(asked, asked_of_replies)
            for path in sorted((self.folder / RECORDS).glob("*.json")):
                record = _read(path)
                self._records[record.name] = record
            self._held = stack.pop_all()

    def close(self) -> None:
        """Release the lock of the folder."""
        self._held.close()

    def people(self) -> dict[str, tuple[str, str]]:
        """Return role and token of everybody who has a link, by name."""
        return {name: ("person", token) for name, token in self._keys["people"].items()}

    @property
    def secret(self) -> bytes:
        """The key for the codes of forms."""
        return bytes.fromhex(self._keys["secret"])

    def lock(self, person: str) -> threading.Lock:
        """Return the lock that serialises the requests of one person."""
        with self._writing:
            return self._locks.setdefault(person, threading.Lock())

    def current(self, person: str) -> ChatRecord | None:
        """Return the unrated conversation of a person, if there is one."""
        return next(
            (
                record
                for record in self._records.values()
                if record.person == person and record.answers is None
            ),
            None,
        )

    def rated(self, person: str | None = None) -> list[ChatRecord]:
        """Return the conversations that were rated, of all or of one person, in the order they began."""
        rated = [record for record in self._records.values() if record.answers is not None]
        rated.sort(key=lambda record: (record.begun, record.name))
        return [record for record in rated if person in (None, record.person)]

    def begin(self, person: str, system: str, by: str) -> ChatRecord:
        """Return a new, empty conversation, which is not saved yet."""
        number = 1 + sum(record.person == person for record in self._records.values())
        return ChatRecord(f"{person}-{number}", person, system, by, time.time())

    def keep(self, record: ChatRecord) -> None:
        """Save a conversation; once it is rated, also the dialogues and ratings of the folder."""
        with self._writing:
            key = hashlib.sha256(record.name.encode()).hexdigest()[:16]
            files.write_text(
                self.folder / RECORDS / f"{record.begun:.0f}-{key}.json", msgspec.json.encode(record).decode()
            )
            self._records[record.name] = record
            if record.answers is not None:
                self.export()

    def export(self) -> None:
        """Write all rated conversations as dialogues and ratings."""
        with self._writing:
            formats.write((record.dialogue() for record in self.rated()), self.folder / DIALOGUES)
            self.scores().write(self.folder / RATINGS)

    def scores(self) -> Scores:
        """Return the participants' ratings: of whole conversations, then of replies."""
        tables = [self._table(self.scheme, lambda record: [(None, record.answers or {})])]
        if self.reply_scheme is not None:
            tables.append(self._table(self.reply_scheme, lambda record: record.ratings.items()))
        return Scores.concat(tables)

    def _table(
        self, scheme: Scheme, answers_of: Callable[[ChatRecord], Iterable[tuple[int | None, dict[str, Any]]]]
    ) -> Scores:
        rows = [
            Score(record.name, turn, record.system, PARTICIPANT, dimension, value, note)
            for record in self.rated()
            for turn, answers in answers_of(record)
            for question in scheme.questions
            if question.name in answers
            for dimension, value, note in values_of(question, answers[question.name])
        ]
        kind = schema_of(scheme, took_part=True)
        return Scores.of(rows, {PARTICIPANT: kind.sign(CONVERSATION, scheme.name)})

    def _claim(self) -> None:
        """Create the folder, or check that it is one of conversations."""
        is_new = not self.folder.exists()
        if not is_new and not (self.folder / PEOPLE).is_file() and not self._is_empty():
            raise UsageError(f"{self.folder} is not a folder of conversations: choose another folder")
        (self.folder / RECORDS).mkdir(parents=True, exist_ok=True)
        if is_new:
            self.folder.chmod(0o700)  # keys, and what people said in confidence

    def _is_empty(self) -> bool:
        return self.folder.is_dir() and {path.name for path in self.folder.iterdir()} <= {LOCK, RECORDS}

    def _questions(self, scheme: Scheme | None, replies: Scheme | None) -> tuple[Scheme, Scheme | None]:
        """Return the schemes for conversations and replies, which cannot change later."""
        path, stored = self.folder / QUESTIONS, (scheme, replies)
        if path.is_file():
            try:
                stored = msgspec.json.decode(path.read_bytes(), type=tuple[Scheme, Scheme | None])
            except msgspec.DecodeError as error:
                raise DataError(f"not schemes: {error}", file=path, fix="choose another folder") from None
        for new, before in zip((scheme, replies), stored, strict=True):
            if None not in (new, before) and new != before:
                raise UsageError(f"{self.folder} was created with other questions: choose another folder")
        usual = parse_scheme(_DEFAULT.read_text(encoding="utf-8"), _DEFAULT.name)
        schemes = scheme or stored[0] or usual, replies or stored[1]
        if schemes != stored or not path.is_file():
            files.write_text(path, msgspec.json.encode(schemes).decode())
        return schemes

    def _people(self, names: list[str]) -> ChatKeys:
        """Read the tokens of people, and create tokens for new ones."""
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


def _scheme(source: str | None, unit: Literal["dialogue", "turn"]) -> Scheme | None:
    """Read a scheme for whole dialogues, or for replies without the turns that follow."""
    if source is None:
        return None
    scheme = parse_scheme(*scheme_text(source))
    follows = unit == "turn" and scheme.following > 0
    if scheme.unit == unit and scheme.marks is None and not follows:
        return scheme
    subject = "what follows a reply" if follows else f"a {scheme.unit}"
    if unit == "dialogue":
        raise UsageError(f"--scheme {source}: a conversation is rated as a whole; this is about {subject}")
    raise UsageError(f"--reply-scheme {source}: replies are rated as they come; this is about {subject}")


def _read(path: Path) -> ChatRecord:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ChatRecord)
    except (msgspec.DecodeError, OSError) as error:
        raise DataError(f"not a conversation: {error}", file=path) from None
