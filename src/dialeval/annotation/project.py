"""An annotation project on disk: a folder with the scheme and one SQLite file with everything else.

study/
  scheme.toml   the questions, for people to read
  study.db      dialogues, items, raters with their links, answers, and a log of all actions

A project is created once (`create`) and opened afterwards (`AnnotationProject`). Raters can be added at any
time. A `Snapshot` is the state at one moment, read in one transaction while raters go on; the coordinator's
pages and all exports are made from one, so that they agree.
"""

import hashlib
import json
import random
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dialeval import __version__, files
from dialeval.annotation.assignment import assign_missing
from dialeval.annotation.items import Item, Place, make_items
from dialeval.annotation.scheme import Scheme, Value, schema_of
from dialeval.annotation.store import Store
from dialeval.dialogues import Dialogue, scored_turns
from dialeval.dialogues.contexts import place_of
from dialeval.dialogues.dialogue import clean_text
from dialeval.errors import DataError, UsageError

if TYPE_CHECKING:
    from dialeval.scores.signature import EvaluationSchema

SCHEME, STORE = "scheme.toml", "study.db"
COORDINATOR = "coordinator"
ROLES = ("rater", "expert", COORDINATOR)
_SECRET = 16  # bytes
_LONGEST_NAME = 60


class AnnotationProject:
    """An existing annotation project; the parts that never change are read once."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.store = Store(self.folder / STORE)
        with self.store.reading() as db:
            self.settings: dict[str, str] = {
                row["name"]: row["value"] for row in db.execute("SELECT name, value FROM settings")
            }
        try:
            self.scheme = msgspec.json.decode(self.settings["scheme"], type=Scheme)
            self.seed = int(self.settings["seed"])
            self._check()
        except (LookupError, ValueError, TypeError, msgspec.DecodeError) as error:
            self.close()
            problem = f"no {error}" if isinstance(error, KeyError) else error
            raise DataError(
                f"damaged: {problem}", file=self.folder / STORE, fix="restore a copy of the file"
            ) from None

    def _check(self) -> None:
        """Read everything once, so that damage is found here and not by a page or export later."""
        if len(self.secret) < _SECRET or "source" not in self.settings:
            raise KeyError("secret or source")
        _ = self.schema
        with self.store.reading() as db:
            bodies = db.execute("SELECT number, body FROM dialogues ORDER BY number")
            turns = [
                len(msgspec.json.decode(row["body"], type=Dialogue).turns)
                for row in _numbered(bodies, "dialogues")
            ]
            list(_numbered(db.execute("SELECT number FROM items ORDER BY number"), "items"))
            for (role,) in db.execute("SELECT DISTINCT role FROM people"):
                if role not in ROLES:
                    raise ValueError(f"unknown role {role!r}")
            for table in ("answers", "drafts", "verdicts"):
                for (body,) in db.execute(f"SELECT body FROM {table}"):  # noqa: S608  # our own names
                    self._check_answers(msgspec.json.decode(body, type=dict[str, Value | list[Value]]))
        for item in self.items:
            for number, turn, _ in [*item.sides, *item.twins]:
                if not 0 <= number < len(turns) or not 0 <= (turn or 0) < max(turns[number], 1):
                    raise ValueError(
                        f"an item is about turn {turn} of dialogue {number}, which does not exist"
                    )

    def _check_answers(self, answers: dict[str, Any]) -> None:
        for question in self.scheme.questions:
            if question.name in answers and question.type not in ("text", "mark", "several"):
                question.score(answers[question.name])

    @property
    def secret(self) -> bytes:
        """The key for the codes of forms."""
        return bytes.fromhex(self.settings["secret"])

    @cached_property
    def candidates(self) -> list[str]:
        """The utterances that wizards choose from."""
        with self.store.reading() as db:
            return [row["text"] for row in db.execute("SELECT text FROM candidates ORDER BY number")]

    @cached_property
    def items(self) -> list[Item]:
        """All items; their numbers begin with 0."""
        with self.store.reading() as db:
            return [_item(row) for row in db.execute("SELECT places, other, gold FROM items ORDER BY number")]

    @cached_property
    def names(self) -> list[tuple[str, str | None]]:
        """Id and system of every dialogue, as in exported scores.

        The id is unchanged, so that scores join with those of metrics; several systems may have answered the
        same context. Only if another dialogue has the same id and system, the number is appended.
        """
        with self.store.reading() as db:
            ids = [(row[0], row[1]) for row in db.execute("SELECT id, system FROM dialogues ORDER BY number")]
        counts = Counter(ids)
        return [
            (f"{name}@{number}" if counts[name, system] > 1 else name, system)
            for number, (name, system) in enumerate(ids)
        ]

    @property
    def numbered(self) -> int:
        """The number of dialogues whose id and system are not unique, and so numbered in `names`."""
        with self.store.reading() as db:
            query = "SELECT count(*) AS n FROM dialogues GROUP BY id, system HAVING n > 1"
            return sum(row["n"] for row in db.execute(query))

    @cached_property
    def contexts(self) -> list[tuple[str, int | None]]:
        """The id of every dialogue; for a reply to a fixed context, dialogue and turn of that context."""
        contexts = []
        for number in range(len(self.names)):
            name, turn = place_of(self.dialogue(number), -1)
            contexts.append((name, turn if turn >= 0 else None))
        return contexts

    @cached_property
    def schema(self) -> "EvaluationSchema":
        """The evaluation schema."""
        from dialeval.scores.signature import EvaluationSchema

        if "schema" in self.settings:
            return msgspec.json.decode(self.settings["schema"], type=EvaluationSchema)
        return schema_of(self.scheme, map(self.dialogue, range(len(self.names))))  # of an older version

    def dialogue(self, number: int) -> Dialogue:
        """Return one dialogue."""
        with self.store.reading() as db:
            row = db.execute("SELECT body FROM dialogues WHERE number = ?", (number,)).fetchone()
        return msgspec.json.decode(row["body"], type=Dialogue)

    def people(self) -> dict[str, tuple[str, str]]:
        """Return role and token of everybody who has a link, by name."""
        with self.store.reading() as db:
            rows = db.execute(
                "SELECT name, role, token FROM people ORDER BY role = 'coordinator', role DESC, name"
            )
            return {row["name"]: (row["role"], row["token"]) for row in rows}

    def add(self, raters: Iterable[str] = (), experts: Iterable[str] = ()) -> list[str]:
        """Add people who are not there yet, assign items that lack raters, and return who is new."""
        roles = {checked(name): "rater" for name in raters} | {checked(name): "expert" for name in experts}
        people = self.people()
        for name, role in roles.items():
            if name in people and people[name][0] != role:
                raise UsageError(f"{name!r} is {people[name][0]} in this project already")
        new = [name for name in roles if name not in people]
        if new:
            with self.store.writing() as db:
                add_people(db, {name: roles[name] for name in new})
                assign_missing(db, self.scheme, self.seed)
        return new

    def close(self) -> None:
        """Close the file."""
        self.store.close()


def _item(row: Any) -> Item:
    places = msgspec.json.decode(row["places"], type=list[Place])
    opponent = msgspec.json.decode(row["other"], type=Place) if row["other"] else None
    gold = msgspec.json.decode(row["gold"], type=dict[str, tuple[Value, ...]]) if row["gold"] else None
    return Item(places[0], opponent, tuple(places[1:]), gold)


def _numbered(rows: Iterable[Any], table: str) -> Iterator[Any]:
    """Yield rows, and refuse a gap in their numbers, which start with 0."""
    for place, row in enumerate(rows):
        if row["number"] != place:
            raise ValueError(f"number {place} of {table} is missing")
        yield row


def checked(name: str) -> str:
    """Return a rater's name in normal form (NFC), or refuse it."""
    name = clean_text(name)[0].strip()
    if not name or len(name) > _LONGEST_NAME or "," in name or name == COORDINATOR:
        raise UsageError(
            f"not a name for a rater: {name[:80]!r} "
            f"(1 to {_LONGEST_NAME} characters, no comma, not {COORDINATOR})"
        )
    return name


def is_project(path: str | Path) -> bool:
    """Return whether a path is the folder of an annotation project."""
    return (Path(path) / STORE).is_file()


def create(
    folder: str | Path,
    scheme: Scheme,
    dialogues: Sequence[Dialogue],
    raters: Sequence[str],
    *,
    experts: Sequence[str] = (),
    candidates: Sequence[str] | None = None,
    source: str = "",
    text: str = "",
    seed: int = 0,
) -> AnnotationProject:
    """Create a project; the folder appears when it is complete.

    Args:
        experts: Names of experts, whose daily samples the raters are compared with.
        candidates: The utterances that wizards choose from; by default all distinct replies.
        source: The fingerprint of the input, to detect a different one later.
        text: The scheme as TOML.
    """
    if not raters:
        raise UsageError("name the raters: --raters ann,bob")
    if len({checked(name) for name in [*raters, *experts]}) < len([*raters, *experts]):
        raise UsageError("two people have the same name")
    if Path(folder).exists():
        raise UsageError(f"{folder} exists already and is not an annotation project: choose another name")
    items = make_items(scheme, dialogues, seed)
    chosen = _candidates(scheme, dialogues, candidates, seed)
    with files.replacing_folder(folder, replace=False) as fresh:
        files.write_text(fresh / SCHEME, text or f"# the scheme {scheme.name!r}, given in Python\n")
        store = Store(fresh / STORE, create=True)
        settings = {
            "scheme": msgspec.json.encode(scheme).decode(),
            "schema": msgspec.json.encode(schema_of(scheme, dialogues)).decode(),
            "seed": str(seed),
            "secret": secrets.token_hex(16),
            "source": source,
            "made": json.dumps({"at": time.time(), "dialeval": __version__}),
        }
        people = dict.fromkeys(map(checked, raters), "rater") | dict.fromkeys(map(checked, experts), "expert")
        with store.writing() as db:
            db.executemany("INSERT INTO settings VALUES (?, ?)", settings.items())
            rows = [(n, d.id, d.system, msgspec.json.encode(d)) for n, d in enumerate(dialogues)]
            db.executemany("INSERT INTO dialogues VALUES (?, ?, ?, ?)", rows)
            db.executemany("INSERT INTO candidates VALUES (?, ?)", enumerate(chosen))
            _add_items(db, items, scheme)
            add_people(db, people | {COORDINATOR: COORDINATOR})
            assign_missing(db, scheme, seed)
        store.close()
    return AnnotationProject(folder)


def replies(dialogues: Iterable[Dialogue], speaker: str | None = None) -> list[str]:
    """Return all distinct replies in dialogues: the default candidates of wizards."""
    texts = (d.turns[turn].text for d in dialogues for turn in scored_turns(d, speaker))
    return list(dict.fromkeys(text for text in texts if text.strip()))


def fingerprint(digests: Iterable[str], *more: object) -> str:
    """Return a hash of a project's input, to detect that it is resumed with a different one.

    It is stored in projects on disk, so it must not change with the names of classes.
    """
    text = repr(more).replace("GoldItem(", "Gold(").replace("SchemeQuestion(", "Question(")
    digest = hashlib.sha256(text.encode())
    for part in digests:
        digest.update(part.encode())
    return digest.hexdigest()


def _candidates(
    scheme: Scheme, dialogues: Sequence[Dialogue], chosen: Sequence[str] | None, seed: int
) -> list[str]:
    """Return what wizards choose from: the scheme's acts, or utterances in random order."""
    if scheme.marks is None:
        return []
    if scheme.marks.choices:
        if chosen is not None:
            raise UsageError(f"the scheme {scheme.name!r} lists what wizards choose from: no --candidates")
        return [str(choice.value) for choice in scheme.marks.choices]
    order = list(dict.fromkeys(chosen if chosen is not None else replies(dialogues, scheme.speaker)))
    if not order:
        raise DataError("no candidates to choose from", fix="--candidates FILE")
    random.Random(f"candidates {seed}").shuffle(order)  # noqa: S311
    return order


def _add_items(db: Any, items: Sequence[Item], scheme: Scheme) -> None:
    rows = [
        (
            number,
            json.dumps(item.places),
            json.dumps(item.other) if item.other else None,
            json.dumps(item.gold) if item.gold else None,
            scheme.raters_per_item,
        )
        for number, item in enumerate(items)
    ]
    db.executemany("INSERT INTO items (number, places, other, gold, wanted) VALUES (?, ?, ?, ?, ?)", rows)


def add_people(db: Any, people: dict[str, str]) -> None:
    """Add people, each with a token of 128 random bits."""
    rows = [(name, role, secrets.token_urlsafe(16), time.time()) for name, role in people.items()]
    db.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", rows)


@dataclass(frozen=True, slots=True)
class RaterAnswer:
    """One rater's assignment to one item, with the answers if there are any."""

    item: int
    rater: str
    role: str
    state: str
    round: int
    answers: dict[str, Any]
    at: float | None
    seconds: float | None
    day: str | None

    @property
    def key(self) -> str:
        """The rater's key in forms, since a name may hold characters that forms change."""
        return hashlib.sha256(self.rater.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All answers at one moment; `wanted` is the number of raters that each item should have by now."""

    project: AnnotationProject
    people: dict[str, str]
    rater_answers: list[RaterAnswer]
    wanted: list[int]
    verdicts: dict[int, dict[str, Any]]

    @property
    def items(self) -> list[Item]:
        """All items, by their numbers."""
        return self.project.items

    def raters(self) -> list[str]:
        """Names of the raters, experts not among them."""
        return [name for name, role in self.people.items() if role == "rater"]

    def answered(self, role: str = "rater") -> Iterator[RaterAnswer]:
        """Yield the valid answers of raters or of experts, by item in order of time."""
        return (answer for answer in self.rater_answers if answer.role == role and answer.state == "done")

    def by_item(self, role: str = "rater") -> dict[int, list[RaterAnswer]]:
        """Return the valid answers by item."""
        by_item: dict[int, list[RaterAnswer]] = {}
        for answer in self.answered(role):
            by_item.setdefault(answer.item, []).append(answer)
        return by_item


def snapshot(project: AnnotationProject) -> Snapshot:
    """Return the state of a project, read in one transaction."""
    query = """SELECT s.item, s.rater, p.role, s.state, s.round, s.day, a.body AS answers, a.at, a.seconds
               FROM seats AS s JOIN people AS p ON p.name = s.rater
               LEFT JOIN answers AS a ON a.item = s.item AND a.rater = s.rater
               ORDER BY s.item, s.round, a.at, s.rater"""
    with project.store.reading() as db:
        people = {
            row["name"]: row["role"] for row in db.execute("SELECT name, role FROM people ORDER BY name")
        }
        answers = [
            RaterAnswer(**{**row, "answers": json.loads(row["answers"] or "{}")}) for row in db.execute(query)
        ]
        needed = [row[0] for row in db.execute("SELECT wanted FROM items ORDER BY number")]
        verdicts = {row["item"]: json.loads(row["body"]) for row in db.execute("SELECT * FROM verdicts")}
    return Snapshot(project, people, answers, needed, verdicts)
