"""Train, dev and test portions of every public set, which sets overlap, and how to keep test data out.

The manifest is `splits.toml`, beside this file. A list there names parts of a set as its reader does; a
part that has no published split is cut by the dialogues' ids: `test#8-9` are those of the part `test`
whose bucket, from 0 to 9 by a hash of the id, is 8 or 9.

Sets overlap in ways their ids do not show: ConTurE rates dialogues of DSTC9, USS those of MultiWOZ. So
`leave_out` goes by the text. Two dialogues match, after lower-casing and without punctuation, if

- all they say is equal, or
- they share three turns in a row with 45 letters or digits in all (about 12 words), or two with 100, or
- the shorter one, of one or two turns and 45 letters, is part of the longer one.

A shared "hi / hello, how are you?" is thus no match, and neither is one changed utterance a way out. The
price is seen in dialogues made to a pattern: in Schema-Guided Dialogue, one training dialogue in fifty
closes word for word like one of the test part and is dropped as well, which harms less than keeping a leak.
"""

import hashlib
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from dialeval.dialogues.datasets import public_set, set_names
from dialeval.dialogues.dialogue import Dialogue
from dialeval.errors import UsageError

Role = Literal["train", "dev", "test"]
ROLES: tuple[Role, ...] = ("train", "dev", "test")
BUCKETS = 10
DEV_BUCKET = 0  # held out of training where a source names no dev set of its own
_MANIFEST = Path(__file__).with_name("splits.toml")
_RUNS = ((3, 45), (2, 100))  # turns in a row, letters and digits in all: what two dialogues must share
_SHORT = 45  # letters and digits of a dialogue of one or two turns that is looked for inside others
_PUNCTUATION = re.compile(r"[^\w\s]|_")
_SELECTOR = re.compile(r"(?P<part>[^#]+)(?:#(?P<low>\d)(?:-(?P<high>\d))?)?")


@dataclass(frozen=True, slots=True)
class Split:
    """How a public set is to be used.

    `train`, `dev` and `test` name parts (`"train"`) or some buckets of one (`"test#8-9"`); `overlaps` names
    the sets that share text with it, itself included where its own parts do.
    """

    train: tuple[str, ...] = ()
    dev: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    overlaps: tuple[str, ...] = ()
    note: str = ""


def split_of(name: str) -> Split:
    """Return what is train, dev and test in a public set.

    >>> split_of("multiwoz").dev, split_of("conture").overlaps
    (('dev',), ('dstc9',))
    """
    return _manifest().get(name) or _split_by_parts(public_set(name).parts)


def test_sets() -> tuple[str, ...]:
    """Return the names of all sets that something is measured on.

    >>> "fed" in test_sets(), "diasafety" in test_sets()
    (True, False)
    """
    return tuple(name for name in set_names() if split_of(name).test)


test_sets.__test__ = False  # type: ignore[attr-defined]  # pytest: this is no test, whatever its name


def overlap_group(name: str) -> tuple[str, ...]:
    """Return a set and those it shares dialogues with: seen one of them, seen them all.

    Overlap is not passed on: USS has dialogues of MultiWOZ and of SGD, which have none in common.

    >>> overlap_group("uss"), overlap_group("sgd")
    (('multiwoz', 'sgd', 'uss'), ('sgd', 'uss'))
    """
    return tuple(sorted({name, *split_of(name).overlaps}))


def portion(name: str, role: Role) -> Iterator[Dialogue]:
    """Yield the dialogues of a public set that the manifest gives to train, dev or test."""
    if role not in ROLES:
        raise UsageError(f"no portion {role!r}; known: {', '.join(ROLES)}")
    yield from selected(name, getattr(split_of(name), role))


def selected(name: str, selectors: Iterable[str]) -> Iterator[Dialogue]:
    """Yield the dialogues of a public set that selectors name, such as `test#8-9`."""
    for selector in selectors:
        part, buckets = parse_selector(selector)
        for dialogue in public_set(name).dialogues(part):
            if len(buckets) == BUCKETS or bucket(dialogue.id) in buckets:
                yield dialogue


def parse_selector(selector: str) -> tuple[str, range]:
    """Return the part that a selector names, and its buckets.

    >>> parse_selector("test#8-9"), parse_selector("train")
    (('test', range(8, 10)), ('train', range(0, 10)))
    """
    found = _SELECTOR.fullmatch(selector)
    if not found:
        raise UsageError(f"not a part of a set: {selector!r}; say part or part#LOW-HIGH")
    if found["low"] is None:
        return found["part"], range(BUCKETS)
    return found["part"], range(int(found["low"]), int(found["high"] or found["low"]) + 1)


def bucket(name: str) -> int:
    """Return a dialogue's bucket, 0 to 9, which depends on nothing but its id.

    >>> bucket("uss-sgd-000000000000")
    1
    """
    return int(hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8], 16) % BUCKETS


def _split_by_parts(parts: tuple[str, ...]) -> Split:
    """Split a set of another package: its parts train and dev are those, and all others are test."""
    train, dev = (tuple(part for part in parts if part == role) for role in ("train", "dev"))
    return Split(train, dev, tuple(part for part in parts if part not in (*train, *dev)))


@cache
def _manifest() -> dict[str, Split]:
    with _MANIFEST.open("rb") as file:
        manifest: dict[str, Any] = tomllib.load(file)
    overlaps: dict[str, set[str]] = {name: set() for name in manifest["sets"]}
    for item in manifest["overlaps"]:
        for other in item["with"]:
            overlaps[item["set"]].add(other)
            overlaps[other].add(item["set"])
    return {
        name: Split(
            **{role: tuple(entry.get(role, ())) for role in ROLES},
            overlaps=tuple(sorted(overlaps[name])),
            note=entry["note"],
        )
        for name, entry in manifest["sets"].items()
    }


def normalise(text: str) -> str:
    """Lower-case, drop punctuation and fold white space, so that copies of a text compare as equal.

    >>> normalise("  Well,  that's FINE!")
    'well thats fine'
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(_PUNCTUATION.sub("", text.lower()).split())


def fingerprint(dialogue: Dialogue) -> str:
    """Return a hash of all that is said in a dialogue, whoever says it and however it is tokenised.

    Turns without a letter or digit are passed over, unless there are no others.

    >>> from dialeval import dialogues
    >>> one = dialogues.dialogue([("user", "It does n't work !"), ("assistant", "Sorry.")])
    >>> other = dialogues.dialogue([("A", "it doesn't work"), ("A", "..."), ("B", "sorry")])
    >>> fingerprint(one) == fingerprint(other), fingerprint(one)[:12]
    (True, 'e62077cf0ef0')
    """
    said = _said(dialogue) or [turn.text for turn in dialogue.turns]
    return hashlib.sha256("\n".join(said).encode("utf-8", "surrogatepass")).hexdigest()


def leave_out(dialogues: Iterable[Dialogue], against: Iterable[Dialogue]) -> tuple[list[Dialogue], int]:
    """Drop the dialogues whose text is found among others, and say how many were dropped.

    Args:
        dialogues: What is to be trained or tuned on.
        against: What is to stay unseen, usually `portion(name, "test")`.

    >>> from dialeval.dialogues import dialogue
    >>> opening = [("A", "hi"), ("B", "Hello, who is there?")]
    >>> test = dialogue([*opening, ("A", "It is me, your sister Ann, back from Rome.")])
    >>> longer = dialogue([*test.turns, *dialogue([("B", "Ann! Come in.")]).turns])
    >>> stranger = dialogue([*opening, ("A", "The plumber.")])
    >>> kept, dropped = leave_out([longer, stranger], [test])
    >>> kept == [stranger], dropped
    (True, 1)
    """
    known, kept, dropped = Fingerprints.of(against), [], 0
    for dialogue in dialogues:
        if known.match(dialogue):
            dropped += 1
        else:
            kept.append(dialogue)
    return kept, dropped


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """Hashes of a collection by which a dialogue is found to be among it; no text is kept.

    For a stream too long for `leave_out`: `(d for d in logs if not known.match(d))`.
    """

    wholes: set[str] = field(default_factory=set)
    runs: set[bytes] = field(default_factory=set)
    pieces: set[bytes] = field(default_factory=set)  # one or two turns of a longer dialogue
    shorts: set[bytes] = field(default_factory=set)  # dialogues of one or two turns

    @classmethod
    def of(cls, dialogues: Iterable[Dialogue]) -> "Fingerprints":
        """Take the fingerprints of a collection."""
        made = cls()
        for dialogue in dialogues:
            made.add(dialogue)
        return made

    def add(self, dialogue: Dialogue) -> None:
        """Add one dialogue to the collection."""
        said = _said(dialogue)
        if _has_text(dialogue):
            self.wholes.add(fingerprint(dialogue))
        self.runs.update(_runs(said))
        self.pieces.update(_pieces(said))
        self.shorts.update(_short(said))

    def copy(self) -> "Fingerprints":
        """Return a collection of its own with the same fingerprints."""
        return Fingerprints(set(self.wholes), set(self.runs), set(self.pieces), set(self.shorts))

    def overlaps(self, other: "Fingerprints") -> bool:
        """Whether a dialogue of another collection would `match`."""
        return not (
            self.runs.isdisjoint(other.runs)
            and self.pieces.isdisjoint(other.shorts)
            and self.shorts.isdisjoint(other.pieces)
            and self.wholes.isdisjoint(other.wholes)
        )

    def match(self, dialogue: Dialogue) -> bool:
        """Whether the text of a dialogue, or a telling run of its turns, is in the collection."""
        said = _said(dialogue)
        return (
            any(run in self.runs for run in _runs(said))
            or any(short in self.pieces for short in _short(said))
            or (bool(self.shorts) and any(piece in self.shorts for piece in _pieces(said)))
            or (_has_text(dialogue) and fingerprint(dialogue) in self.wholes)
        )


def _has_text(dialogue: Dialogue) -> bool:
    """Silence equals silence, but says nothing about where it is from."""
    return any(turn.text.strip() for turn in dialogue.turns)


def _said(dialogue: Dialogue) -> list[str]:
    """Letters and digits of each turn that has any; blanks are dropped because tokenisers add them."""
    texts = (normalise(turn.text).replace(" ", "") for turn in dialogue.turns)
    return [text for text in texts if text]


def _runs(said: list[str]) -> Iterator[bytes]:
    """Hash, from each turn on, the shortest run that is long enough to tell.

    Where it ends depends only on what is in it, so that any two dialogues that share a long enough
    stretch have the run in common that begins where the stretch begins.
    """
    for turns, letters in _RUNS:
        for start in range(len(said) - turns + 1):
            total = 0
            for end in range(start, len(said)):
                total += len(said[end])
                if end - start + 1 >= turns and total >= letters:
                    yield _hash(said[start : end + 1])
                    break


def _pieces(said: list[str]) -> Iterator[bytes]:
    for size in (1, 2):
        for start in range(len(said) - size + 1):
            yield from _short(said[start : start + size])


def _short(said: list[str]) -> Iterator[bytes]:
    if len(said) <= 2 and sum(map(len, said)) >= _SHORT:
        yield _hash(said)


def _hash(said: list[str]) -> bytes:
    return hashlib.blake2b("\n".join(said).encode("utf-8", "surrogatepass"), digest_size=8).digest()
