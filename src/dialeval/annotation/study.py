"""A study of people on disk: a folder with the scheme as it was given and one file that holds all the rest.

study/
  scheme.toml   what was asked, for people to read
  study.db      dialogues, items, raters with their links, answers, and a log of everything that happened

A study is made once (`create`) and opened ever after (`Study`). Raters can be added at any time.
"""

import hashlib
import json
import random
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dialeval import __version__, files
from dialeval.annotation import seats
from dialeval.annotation.items import Item, Place, make_items
from dialeval.annotation.scheme import Scheme
from dialeval.annotation.store import Store
from dialeval.dialogues import Dialogue, scored_turns
from dialeval.dialogues.dialogue import clean_text
from dialeval.errors import DataError, UsageError

if TYPE_CHECKING:
    from dialeval.scores.taxonomy import Schema

SCHEME, STORE = "scheme.toml", "study.db"
COORDINATOR = "coordinator"
_LONGEST_NAME = 60


class Study:
    """A study that exists; what never changes in it is read once."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.store = Store(self.folder / STORE)
        with self.store.reading() as db:
            self.settings: dict[str, str] = {
                row["name"]: row["value"] for row in db.execute("SELECT name, value FROM settings")
            }
        self.scheme = msgspec.json.decode(self.settings["scheme"], type=Scheme)
        self.seed = int(self.settings["seed"])

    @property
    def name(self) -> str:
        """Eight characters that tell this study from others."""
        return self.settings["secret"][:8]

    @property
    def secret(self) -> bytes:
        """What its pages are signed with."""
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
        """Id and system of every dialogue; what two of them have in common gets their number as well."""
        with self.store.reading() as db:
            found = [
                (row[0], row[1]) for row in db.execute("SELECT id, system FROM dialogues ORDER BY number")
            ]
        counts = Counter(found)  # several systems may have answered the same context: that is no clash
        return [
            (f"{name}@{number}" if counts[name, system] > 1 else name, system)
            for number, (name, system) in enumerate(found)
        ]

    @cached_property
    def schema(self) -> "Schema":
        """What kind of evaluation it is."""
        from dialeval.annotation.kind import schema_of
        from dialeval.scores.taxonomy import Schema

        if "schema" in self.settings:
            return msgspec.json.decode(self.settings["schema"], type=Schema)
        return schema_of(self.scheme, map(self.dialogue, range(len(self.names))))  # of an older version

    def dialogue(self, number: int) -> Dialogue:
        """Return one dialogue."""
        with self.store.reading() as db:
            row = db.execute("SELECT body FROM dialogues WHERE number = ?", (number,)).fetchone()
        return msgspec.json.decode(row["body"], type=Dialogue)

    def people(self) -> dict[str, tuple[str, str]]:
        """Return everybody who has a link: name to role and token."""
        with self.store.reading() as db:
            rows = db.execute(
                "SELECT name, role, token FROM people ORDER BY role = 'coordinator', role DESC, name"
            )
            return {row["name"]: (row["role"], row["token"]) for row in rows}

    def add(self, raters: Iterable[str] = (), experts: Iterable[str] = ()) -> list[str]:
        """Add people who are not there yet, and give raters what still lacks somebody; return who is new."""
        wanted = {checked(name): "rater" for name in raters} | {checked(name): "expert" for name in experts}
        there = self.people()
        for name, role in wanted.items():
            if name in there and there[name][0] != role:
                raise UsageError(f"{name!r} is {there[name][0]} in this study already")
        new = [name for name in wanted if name not in there]
        if new:
            with self.store.writing() as db:
                add_people(db, {name: wanted[name] for name in new})
                seats.fill(db, self.scheme, self.seed)
        return new

    def close(self) -> None:
        """Close the file."""
        self.store.close()


def _item(row: Any) -> Item:
    places = [tuple(place) for place in json.loads(row["places"])]
    other: Place | None = tuple(json.loads(row["other"])) if row["other"] else None
    gold = json.loads(row["gold"]) if row["gold"] else None
    return Item(places[0], other, tuple(places[1:]), gold)


def checked(name: str) -> str:
    """Return a rater's name if it can be one; composed like all text, so that it looks like no other."""
    name = clean_text(name)[0].strip()
    if not name or len(name) > _LONGEST_NAME or "," in name or name == COORDINATOR:
        raise UsageError(
            f"not a name for a rater: {name[:80]!r} "
            f"(1 to {_LONGEST_NAME} characters, no comma, not {COORDINATOR})"
        )
    return name


def is_study(path: str | Path) -> bool:
    """Say whether a path is the folder of a study."""
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
) -> Study:
    """Make a study; the folder appears when all is in it.

    Args:
        folder: Where; must not exist.
        scheme: What is asked.
        dialogues: What it is asked about.
        raters: Who is asked.
        experts: Whose daily samples the raters are compared with.
        candidates: What wizards choose from; by default all replies in the dialogues, each once.
        source: What the study remembers of where the dialogues came from.
        text: The scheme as it was written.
        seed: Of everything that is random: sample, assignment, order.
    """
    from dialeval.annotation.kind import schema_of

    if not raters:
        raise UsageError("name the raters: --raters ann,bob")
    if len({checked(name) for name in [*raters, *experts]}) < len([*raters, *experts]):
        raise UsageError("two people of the same name")
    if Path(folder).exists():
        raise UsageError(f"{folder} is there already and is no study: choose another name")
    items = make_items(scheme, dialogues, seed)
    chosen = list(dict.fromkeys(candidates if candidates is not None else replies(dialogues, scheme.speaker)))
    if scheme.marks is not None and not chosen:
        raise DataError("no candidates to choose from", fix="--candidates FILE")
    with files.replacing_folder(folder) as fresh:
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
            if scheme.marks is not None:
                db.executemany("INSERT INTO candidates VALUES (?, ?)", enumerate(_shuffled(chosen, seed)))
            _add_items(db, items, scheme)
            add_people(db, people | {COORDINATOR: COORDINATOR})
            seats.fill(db, scheme, seed)
        store.close()
    return Study(folder)


def replies(dialogues: Iterable[Dialogue], speaker: str | None = None) -> list[str]:
    """Return all replies in dialogues, each once: what wizards choose from if nothing else is given."""
    texts = (d.turns[turn].text for d in dialogues for turn in scored_turns(d, speaker))
    return list(dict.fromkeys(text for text in texts if text.strip()))


def fingerprint(paths: Iterable[str | Path], *more: object) -> str:
    """Return what a study remembers of its input, to notice when it is resumed with another one."""
    digest = hashlib.sha256(repr(more).encode())
    for path in paths:
        digest.update(files.sha256(path).encode())
    return digest.hexdigest()


def _shuffled(candidates: list[str], seed: int) -> list[str]:
    """In no order that tells where an utterance comes from."""
    order = list(candidates)
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
    """Give people a link each: 128 random bits."""
    rows = [(name, role, secrets.token_urlsafe(16), time.time()) for name, role in people.items()]
    db.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", rows)
