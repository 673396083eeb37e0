"""Conversations that people hold with a system: what was said, how it was rated, and where it is kept.

A folder holds one small file for each conversation, replaced as a whole after every turn, so that nothing
that was said is lost, and beside them what everybody else reads: `dialogues.jsonl`, and `ratings.csv` with
the ratings of those who took part (`human:user`).
"""

import hashlib
import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from dialeval import files
from dialeval.annotation.export import values_of
from dialeval.annotation.kind import schema_of
from dialeval.annotation.scheme import Scheme, parse_scheme, scheme_text
from dialeval.annotation.study import checked
from dialeval.dialogues import Dialogue, Turn, formats
from dialeval.errors import DataError, UsageError
from dialeval.scores import Score, Scores
from dialeval.scores.signature import CONVERSATION
from dialeval.scores.taxonomy import PARTICIPANT

MOST_TURNS = 400
PEOPLE, TALKS, DIALOGUES, RATINGS = "people.json", "talks", "dialogues.jsonl", "ratings.csv"
_DEFAULT = Path(__file__).with_name("conversation.toml")


class Talk(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One conversation of one person; `failures` are the places where the system gave no answer, and why."""

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
        """Return what was said, for everybody else to read."""
        meta: dict[str, Any] = {"setting": "dynamic", "by": self.by}
        if self.failures:
            meta["failures"] = [{"turn": turn, "why": why} for turn, why in self.failures]
        return Dialogue(self.name, self.turns, self.system, {}, meta)


class Talks:
    """All conversations of a folder."""

    def __init__(self, folder: str | Path, people: Iterable[str], scheme: str | None = None) -> None:
        self.folder = Path(folder)
        self.scheme = _scheme(scheme)
        self._writing = threading.RLock()
        self._locks: dict[str, threading.Lock] = {}
        self._keys = self._people([checked(name) for name in people])
        self._talks: dict[str, Talk] = {}
        for path in sorted((self.folder / TALKS).glob("*.json")):
            one = _read(path)
            self._talks[one.name] = one

    def people(self) -> dict[str, tuple[str, str]]:
        """Return everybody who has a link: name to role and token."""
        return {name: ("person", token) for name, token in self._keys["people"].items()}

    @property
    def secret(self) -> bytes:
        """What codes of forms are made with."""
        return bytes.fromhex(self._keys["secret"])

    @property
    def name(self) -> str:
        """What tells this folder's cookie from others."""
        return hashlib.sha256(self.secret).hexdigest()[:12]

    def lock(self, person: str) -> threading.Lock:
        """Return what keeps one person from saying two things at once."""
        with self._writing:
            return self._locks.setdefault(person, threading.Lock())

    def current(self, person: str) -> Talk | None:
        """Return the conversation that a person has begun and not rated yet."""
        return next(
            (one for one in self._talks.values() if one.person == person and one.answers is None), None
        )

    def rated(self, person: str | None = None) -> list[Talk]:
        """Return the conversations that were rated, of all or of one person."""
        found = [one for one in self._talks.values() if one.answers is not None]
        return [one for one in found if person in (None, one.person)]

    def begin(self, person: str, system: str, by: str) -> Talk:
        """Make a conversation in which nothing has been said; it is not kept yet."""
        number = 1 + sum(one.person == person for one in self._talks.values())
        return Talk(f"{person}-{number}", person, system, by, time.time())

    def keep(self, one: Talk) -> None:
        """Put a conversation on the disk, whole; when it was rated, also what everybody else reads."""
        with self._writing:
            key = hashlib.sha256(one.name.encode()).hexdigest()[:16]
            files.write_text(
                self.folder / TALKS / f"{one.begun:.0f}-{key}.json", msgspec.json.encode(one).decode()
            )
            self._talks[one.name] = one
            if one.answers is not None:
                self.export()

    def export(self) -> None:
        """Write all conversations that were rated as dialogues and ratings."""
        with self._writing:
            over = sorted(self.rated(), key=lambda one: (one.begun, one.name))
            formats.write((one.dialogue() for one in over), self.folder / DIALOGUES)
            self.scores().write(self.folder / RATINGS)

    def scores(self) -> Scores:
        """Return what those who took part said of their conversations."""
        rows = [
            Score(one.name, None, one.system, PARTICIPANT, dimension, value, note)
            for one in sorted(self.rated(), key=lambda one: (one.begun, one.name))
            for question in self.scheme.questions
            if question.name in (one.answers or {})
            for dimension, value, note in values_of(question, (one.answers or {})[question.name])
        ]
        kind = schema_of(self.scheme, took_part=True)
        return Scores.of(rows, {PARTICIPANT: kind.sign(CONVERSATION, self.scheme.name)})

    def _people(self, names: list[str]) -> Mapping[str, Any]:
        """Read the keys of those who have a link, and make some for those who are new."""
        path, is_new = self.folder / PEOPLE, not self.folder.exists()
        keys: dict[str, Any] = {"secret": secrets.token_hex(32), "people": {}}
        if path.is_file():
            try:
                keys = msgspec.json.decode(path.read_bytes())
                bytes.fromhex(keys["secret"])
                keys["people"] = {str(name): str(token) for name, token in keys["people"].items()}
            except (msgspec.DecodeError, KeyError, TypeError, ValueError, AttributeError):
                raise DataError("not a file of people", file=path, fix="choose another folder") from None
        elif not is_new and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise UsageError(f"{self.folder} holds something else: choose another folder")
        (self.folder / TALKS).mkdir(parents=True, exist_ok=True)
        if is_new:
            self.folder.chmod(0o700)  # keys, and what people said in confidence
        fresh = {name: secrets.token_urlsafe(16) for name in names if name not in keys["people"]}
        keys["people"] |= fresh
        if fresh or not path.is_file():
            files.write_text(path, msgspec.json.encode(keys).decode())
            path.chmod(0o600)
        return keys


def _scheme(source: str | None) -> Scheme:
    """Read what people are asked at the end: a scheme about whole dialogues."""
    if source is None:
        return parse_scheme(_DEFAULT.read_text(encoding="utf-8"), _DEFAULT.name)
    scheme = parse_scheme(*scheme_text(source))
    if scheme.unit != "dialogue" or scheme.marks is not None:
        raise UsageError(
            f"--scheme {source}: a conversation is rated as a whole; this is about a {scheme.unit}"
        )
    return scheme


def _read(path: Path) -> Talk:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Talk)
    except (msgspec.DecodeError, OSError) as error:
        raise DataError(f"not a conversation: {error}", file=path) from None
