"""MultiWOZ: a visitor to Cambridge and a clerk who finds and books hotels, trains and the like.

Two copies are read, because no single one here has everything:

- `dev` and `test` are MultiWOZ 2.1 as annotated in ConvLab-2, with goals, acts and states. Ids are
  written differently from file to file (`SNG0073.json`, `MUL0003`, `sng0073`); here an id is always
  lower-case and without an ending, `sng0073`: see `canonical_id`.
- `train` is the text of MultiWOZ 2.2. It carries no ids and no annotation; an id is the place in the
  list from 0, `multiwoz-train-17`.

ConvLab-2's text is tokenised (`does n't`, `help ?`) and the text of 2.2 is not: a scorer trained on the
one meets another spelling in the other.

The user opens and both alternate. A turn's `meta`: `domain`, the domains its acts name; `acts`,
`{"Hotel-Inform": [["Area", "east"]]}`; and, at the clerk's turns, `state`, what the user asked for so far,
`{"hotel": {"area": "east", "book people": "3"}}` without slots that are empty or not mentioned, and
`booked`, what was booked. The dialogue's `meta["goal"]` holds the domains the user was sent out with, and
the instruction as it was shown, under `message`. There are no references: a logged reply is a turn.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from dialeval.dialogues.datasets.publicset import MissingPartError, Part, PublicSet
from dialeval.dialogues.datasets.rawfiles import load, original
from dialeval.dialogues.dialogue import Dialogue, clean_turn, dialogue

_ROLES = ("user", "assistant")
_TRAIN = "text22/mwz22_text_train.json"
_ANNOTATED = {"dev": "convlab2_multiwoz21/val.json", "test": "convlab2_multiwoz21/test.json"}
_UNFILLED = ("", "none", "not mentioned")
_NO_DOMAIN = ("general", "booking")


class _Form(msgspec.Struct):
    """What is filled in for one domain: search slots, and booking slots with what was booked."""

    semi: dict[str, str]
    book: dict[str, Any]


class _Message(msgspec.Struct):
    """One message as ConvLab-2 annotates it."""

    text: str
    metadata: dict[str, _Form]
    dialog_act: dict[str, list[tuple[str, str]]]


class _Session(msgspec.Struct):
    """One dialogue as ConvLab-2 annotates it."""

    goal: dict[str, Any]
    log: list[_Message]


def canonical_id(name: str) -> str:
    """Write the id of a MultiWOZ dialogue in one way, whichever file it is from.

    >>> [canonical_id(name) for name in ("SNG0073.json", "MUL0003", "sng0073")]
    ['sng0073', 'mul0003', 'sng0073']
    """
    return name.lower().removesuffix(".json")


def _read(folder: Path, part: Part) -> Iterator[Dialogue]:
    if part == "train":
        path = original(folder, _TRAIN, MissingPartError)
        for number, texts in enumerate(load(path, list[list[str]])):
            turns = [clean_turn(_ROLES[place % 2], text) for place, text in enumerate(texts)]
            yield dialogue(turns, f"multiwoz-train-{number}")
        return
    path = original(folder, _ANNOTATED[part], MissingPartError)
    for name, session in load(path, dict[str, _Session]).items():
        turns = [
            clean_turn(_ROLES[place % 2], message.text, _annotation(message))
            for place, message in enumerate(session.log)
        ]
        yield dialogue(turns, canonical_id(name), meta={"goal": _goal(session.goal)})


def _annotation(message: _Message) -> dict[str, Any]:
    domains = dict.fromkeys(act.partition("-")[0].lower() for act in message.dialog_act)
    meta: dict[str, Any] = {
        "domain": [domain for domain in domains if domain not in _NO_DOMAIN],
        "acts": {act: [list(pair) for pair in pairs] for act, pairs in message.dialog_act.items()},
    }
    if message.metadata:
        filled = {domain: _filled(form) for domain, form in message.metadata.items()}
        meta["state"] = {domain: slots for domain, slots in filled.items() if slots}
        booked = {domain: form.book.get("booked") for domain, form in message.metadata.items()}
        meta["booked"] = {domain: items for domain, items in booked.items() if items}
    return meta


def _filled(form: _Form) -> dict[str, str]:
    booking = {f"book {slot}": value for slot, value in form.book.items() if slot != "booked"}
    return {slot: value for slot, value in (form.semi | booking).items() if value not in _UNFILLED}


def _goal(goal: dict[str, Any]) -> dict[str, Any]:
    return {domain: wish for domain, wish in goal.items() if wish and domain != "topic"}


SETS = {
    "multiwoz": PublicSet(
        name="multiwoz",
        title="MultiWOZ: 2.2 text for training, 2.1 annotation beyond (Budzianowski et al., EMNLP 2018)",
        folder="multiwoz",
        licence="ConvLab-2 annotation Apache-2.0; 2.2 text MIT; the original corpus MIT",
        home="https://github.com/budzianowski/multiwoz",
        read=_read,
        parts=("train", "dev", "test"),
    )
}
