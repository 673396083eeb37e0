"""Train, dev and test portions of every public set, overlaps between sets, and the filter against test data.

The manifest is `splits.toml`, beside this file. A list there names parts of a set as its reader does; a
part without a published split is divided by the dialogues' ids: `test#8-9` are the dialogues of the part
`test` whose bucket, from 0 to 9 by a hash of the id, is 8 or 9.

Sets overlap although their ids differ: ConTurE rates dialogues of DSTC9, USS those of MultiWOZ. So
`leave_out` compares the text. Two dialogues match, after lower-casing and without punctuation, if

- their texts are equal, or
- they share three turns in a row with 45 letters or digits in all (about 12 words), or two with 100, or
- the shorter one, of one or two turns and 45 letters, is part of the longer one.

A shared "hi / hello, how are you?" is thus not a match, and one changed utterance does not hide a copy. The
cost shows in dialogues written from templates: in Schema-Guided Dialogue, one training dialogue in fifty
ends word for word like one of the test part and is dropped too, which harms less than a leak.
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
_RUNS = ((3, 45), (2, 100))  # turns in a row, and their letters and digits, that make a match
_SHORT = 45  # letters and digits of a dialogue of one or two turns that is searched for in others
_PUNCTUATION = re.compile(r"[^\w\s]|_")
_SELECTOR = re.compile(r"(?P<part>[^#]+)(?:#(?P<low>\d)(?:-(?P<high>\d))?)?")


@dataclass(frozen=True, slots=True)
class Split:
    """The portions of a public set.

    `train`, `dev` and `test` name parts (`"train"`) or some buckets of one (`"test#8-9"`); `overlaps` names
    the sets that share text with it, itself included where its own parts do.
    """

    train: tuple[str, ...] = ()
    dev: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    overlaps: tuple[str, ...] = ()
    note: str = ""


def split_of(name: str) -> Split:
    """Return the train, dev and test portions of a public set.

    >>> split_of("multiwoz").dev, split_of("conture").overlaps
    (('dev',), ('dstc9',))
    """
    return _manifest().get(name) or _split_by_parts(public_set(name).parts)


def test_sets() -> tuple[str, ...]:
    """Return the names of all sets with a test portion.

    >>> "fed" in test_sets(), "diasafety" in test_sets()
    (True, False)
    """
    return tuple(name for name in set_names() if split_of(name).test)


test_sets.__test__ = False  # type: ignore[attr-defined]  # not a test, despite its name


def overlap_group(name: str) -> tuple[str, ...]:
    """Return a set and those it shares dialogues with: a model trained on one has seen the others.

    Overlap is not transitive: USS has dialogues of MultiWOZ and of SGD, which have none in common.

    >>> overlap_group("uss"), overlap_group("sgd")
    (('multiwoz', 'sgd', 'uss'), ('sgd', 'uss'))
    """
    return tuple(sorted({name, *split_of(name).overlaps}))


def portion(name: str, role: Role) -> Iterator[Dialogue]:
    """Yield the dialogues of a public set's train, dev or test portion."""
    if role not in ROLES:
        raise UsageError(f"unknown portion {role!r}; known: {', '.join(ROLES)}")
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
    match = _SELECTOR.fullmatch(selector)
    if not match:
        raise UsageError(f"not a part of a set: {selector!r}; expected part or part#LOW-HIGH")
    if match["low"] is None:
        return match["part"], range(BUCKETS)
    return match["part"], range(int(match["low"]), int(match["high"] or match["low"]) + 1)


def bucket(name: str) -> int:
    """Return a dialogue's bucket, 0 to 9, which depends on its id alone.

    >>> bucket("uss-sgd-000000000000")
    1
    """
    return int(hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8], 16) % BUCKETS


def _split_by_parts(parts: tuple[str, ...]) -> Split:
    """Return the portions of a plugin's set: its parts train and dev are those, all others are test."""
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
    """Return a hash of a dialogue's text that does not depend on speakers or tokenisation.

    Turns without a letter or digit are left out, unless there are no others.

    >>> from dialeval.dialogues import dialogue
    >>> tokenised = dialogue([("user", "It does n't work !"), ("assistant", "Sorry.")])
    >>> plain = dialogue([("A", "it doesn't work"), ("A", "..."), ("B", "sorry")])
    >>> fingerprint(tokenised) == fingerprint(plain), fingerprint(plain)[:12]
    (True, 'e62077cf0ef0')
    """
    texts = _normal_texts(dialogue) or [turn.text for turn in dialogue.turns]
    return hashlib.sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


def leave_out(dialogues: Iterable[Dialogue], against: Iterable[Dialogue]) -> tuple[list[Dialogue], int]:
    """Return the dialogues whose text does not match any of `against`, and how many were dropped.

    Args:
        dialogues: The data to train or tune on.
        against: The data that must stay unseen, usually `portion(name, "test")`.

    >>> from dialeval.dialogues import dialogue
    >>> opening = [("A", "hi"), ("B", "Hello, who is there?")]
    >>> test = dialogue([*opening, ("A", "It is me, your sister Ann, back from Rome.")])
    >>> longer = dialogue([*test.turns, *dialogue([("B", "Ann! Come in.")]).turns])
    >>> stranger = dialogue([*opening, ("A", "The plumber.")])
    >>> kept, dropped = leave_out([longer, stranger], [test])
    >>> kept == [stranger], dropped
    (True, 1)
    """
    unseen, disjoint, dropped = Fingerprints.of(against), [], 0
    for dialogue in dialogues:
        if unseen.match(dialogue):
            dropped += 1
        else:
            disjoint.append(dialogue)
    return disjoint, dropped


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """Hashes of a collection of dialogues, to find dialogues that match one of them; no text is stored.

    For a stream too long for `leave_out`: `(d for d in logs if not fingerprints.match(d))`.
    """

    wholes: set[str] = field(default_factory=set)
    runs: set[bytes] = field(default_factory=set)
    pieces: set[bytes] = field(default_factory=set)  # one or two turns of a longer dialogue
    shorts: set[bytes] = field(default_factory=set)  # dialogues of one or two turns

    @classmethod
    def of(cls, dialogues: Iterable[Dialogue]) -> "Fingerprints":
        """Return the fingerprints of a collection."""
        fingerprints = cls()
        for dialogue in dialogues:
            fingerprints.add(dialogue)
        return fingerprints

    def add(self, dialogue: Dialogue) -> None:
        """Add one dialogue to the collection."""
        texts = _normal_texts(dialogue)
        if _has_text(dialogue):
            self.wholes.add(fingerprint(dialogue))
        self.runs.update(_runs(texts))
        self.pieces.update(_pieces(texts))
        self.shorts.update(_short(texts))

    def copy(self) -> "Fingerprints":
        """Return an independent copy."""
        return Fingerprints(set(self.wholes), set(self.runs), set(self.pieces), set(self.shorts))

    def overlaps(self, other: "Fingerprints") -> bool:
        """Return whether a dialogue of another collection would `match`."""
        return not (
            self.runs.isdisjoint(other.runs)
            and self.pieces.isdisjoint(other.shorts)
            and self.shorts.isdisjoint(other.pieces)
            and self.wholes.isdisjoint(other.wholes)
        )

    def match(self, dialogue: Dialogue) -> bool:
        """Return whether the text of a dialogue, or a long enough run of its turns, is in the collection."""
        texts = _normal_texts(dialogue)
        return (
            any(run in self.runs for run in _runs(texts))
            or any(short in self.pieces for short in _short(texts))
            or (bool(self.shorts) and any(piece in self.shorts for piece in _pieces(texts)))
            or (_has_text(dialogue) and fingerprint(dialogue) in self.wholes)
        )


def _has_text(dialogue: Dialogue) -> bool:
    """Return whether any turn has text: all empty dialogues are equal, which is not evidence of a copy."""
    return any(turn.text.strip() for turn in dialogue.turns)


def _normal_texts(dialogue: Dialogue) -> list[str]:
    """Return letters and digits of each turn that has any; blanks are dropped because tokenisers add them."""
    texts = (normalise(turn.text).replace(" ", "") for turn in dialogue.turns)
    return [text for text in texts if text]


def _runs(texts: list[str]) -> Iterator[bytes]:
    """Yield a hash of the shortest run from each turn on that is long enough to count as a match.

    Its end depends on its content alone, so any two dialogues that share a long enough passage have in
    common the run that begins where the passage begins.
    """
    for turns, letters in _RUNS:
        for start in range(len(texts) - turns + 1):
            total = 0
            for end in range(start, len(texts)):
                total += len(texts[end])
                if end - start + 1 >= turns and total >= letters:
                    yield _hash(texts[start : end + 1])
                    break


def _pieces(texts: list[str]) -> Iterator[bytes]:
    for size in (1, 2):
        for start in range(len(texts) - size + 1):
            yield from _short(texts[start : start + size])


def _short(texts: list[str]) -> Iterator[bytes]:
    if len(texts) <= 2 and sum(map(len, texts)) >= _SHORT:
        yield _hash(texts)


def _hash(texts: list[str]) -> bytes:
    return hashlib.blake2b("\n".join(texts).encode("utf-8", "surrogatepass"), digest_size=8).digest()
