"""Task-oriented dialogues: MultiWOZ, replies of systems to its test part, and Schema-Guided Dialogue.

**MultiWOZ**: a visitor to Cambridge and a clerk who finds and books hotels, trains and the like.

Two copies are read, because neither is complete:

- `dev` and `test` are MultiWOZ 2.1 as annotated in ConvLab-2, with goals, acts and states. Ids are
  written differently from file to file (`SNG0073.json`, `MUL0003`, `sng0073`); here an id is always
  lower-case and without an ending, `sng0073`: see `canonical_id`.
- `train` is the text of MultiWOZ 2.2. It carries no ids and no annotation; an id is the place in the
  list from 0, `multiwoz-train-17`.

ConvLab-2's text is tokenised (`does n't`, `help ?`) and the text of 2.2 is not: a scorer trained on one sees
another spelling in the other.

The user opens and both alternate. A turn's `meta`: `domain`, the domains of its acts; `acts`,
`{"Hotel-Inform": [["Area", "east"]]}`; and, at the clerk's turns, `state`, the user's wishes so far,
`{"hotel": {"area": "east", "book people": "3"}}` without slots that are empty or not mentioned, and
`booked`, the bookings. The dialogue's `meta["goal"]` has the user's goal by domain, and the instruction as
shown, under `message`. There are no references: a logged reply is a turn.

**Systems**: the replies of ten systems to the test part of MultiWOZ, and their published figures.

**Schema-Guided Dialogue**: a user and an assistant over some twenty kinds of service.

A dialogue's id is its part and the original number, `sgd-train-10_00000`: the numbers start again in
every part. `USER` is `user` and `SYSTEM` is `assistant`. Each turn has one frame per service, stored in
`meta` by service:

- `domain`: the services, `["Events_2"]`;
- `acts`: `{"Events_2": [["INFORM", "event_type", ["Sports"]], …]}`, act, slot, values;
- `state` (user turns): `{"Events_2": {"intent": "FindEvents", "requested": [], "slots": {"city": ["X"]}}}`;
- `slots`, where values are found in the text: `{"Events_2": [["city", 22, 34]]}`, slot, start, end;
- `call` (assistant turns that ask the service): `{"Events_2": {"method": …, "parameters": {…}}}`;
- `results` (the same turns): what the service returned, `{"Events_2": [{"city": "X", …}, …]}`.

All files that exist are read, in the order of their names: some of them are enough to work with, but figures
on them are not the official ones.
"""

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

import msgspec

from dialeval.dialogues.datasets.publicset import MissingPartError, Part, PublicSet, data_folder, part_files
from dialeval.dialogues.datasets.rawfiles import load, original
from dialeval.dialogues.dialogue import Dialogue, clean_turn, dialogue
from dialeval.errors import DataError

# MultiWOZ


_MULTIWOZ_ROLES = ("user", "assistant")
_TRAIN = "text22/mwz22_text_train.json"
_ANNOTATED = {"dev": "convlab2_multiwoz21/val.json", "test": "convlab2_multiwoz21/test.json"}
_UNFILLED = ("", "none", "not mentioned")
_NO_DOMAIN = ("general", "booking")


class _Form(msgspec.Struct):
    """The slots of one domain: search slots, and booking slots with what was booked."""

    semi: dict[str, str]
    book: dict[str, Any]


class _MultiwozMessage(msgspec.Struct):
    """One message as ConvLab-2 annotates it."""

    text: str
    metadata: dict[str, _Form]
    dialog_act: dict[str, list[tuple[str, str]]]


class _MultiwozSession(msgspec.Struct):
    """One dialogue as ConvLab-2 annotates it."""

    goal: dict[str, Any]
    log: list[_MultiwozMessage]


def canonical_id(name: str) -> str:
    """Return the id of a MultiWOZ dialogue in the same spelling for all files.

    >>> [canonical_id(name) for name in ("SNG0073.json", "MUL0003", "sng0073")]
    ['sng0073', 'mul0003', 'sng0073']
    """
    return name.lower().removesuffix(".json")


def _read_multiwoz(folder: Path, part: Part) -> Iterator[Dialogue]:
    if part == "train":
        path = original(folder, _TRAIN, MissingPartError)
        for number, texts in enumerate(load(path, list[list[str]])):
            yield dialogue(zip(cycle(_MULTIWOZ_ROLES), texts, strict=False), f"multiwoz-train-{number}")
        return
    path = original(folder, _ANNOTATED[part], MissingPartError)
    for name, session in load(path, dict[str, _MultiwozSession]).items():
        turns = [
            clean_turn(_MULTIWOZ_ROLES[place % 2], message.text, _annotation_multiwoz(message))
            for place, message in enumerate(session.log)
        ]
        yield dialogue(turns, canonical_id(name), meta={"goal": _goal(session.goal)})


def _annotation_multiwoz(message: _MultiwozMessage) -> dict[str, Any]:
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


# Systems on MultiWOZ


FIGURES = ("inform", "success", "bleu", "combined")


def system_files() -> dict[str, Path]:
    """Return the files of predictions, by the name of the system."""
    folder = data_folder() / "multiwoz" / "predictions"
    paths = {path.name.partition(".json")[0]: path for path in sorted(folder.glob("*.json*"))}
    if not paths:
        raise DataError("no predictions of systems were found", file=folder, fix="set DIALEVAL_DATA")
    return paths


def published_figures() -> dict[str, dict[str, Any]]:
    """Return each system's figures on the benchmark's home page, and their table; {} if missing."""
    try:
        path = original(data_folder() / "multiwoz", "leaderboard.json")
    except DataError:
        return {}
    systems = load(path, dict[str, Any]).get("systems", {})
    return {
        name: {key: row[key] for key in ("table", *FIGURES) if key in row} for name, row in systems.items()
    }


# Schema-Guided Dialogue


_SGD_ROLES = {"USER": "user", "SYSTEM": "assistant"}


class _Action(msgspec.Struct):
    """One act with its slot and values."""

    act: str
    slot: str
    values: list[str]


class _Span(msgspec.Struct):
    """The place of a slot's value in the text."""

    slot: str
    start: int
    exclusive_end: int


class _SgdState(msgspec.Struct):
    """The user's wishes so far."""

    active_intent: str
    requested_slots: list[str]
    slot_values: dict[str, list[str]]


class _Frame(msgspec.Struct):
    """The annotation of a turn for one service."""

    service: str
    actions: list[_Action]
    slots: list[_Span]
    state: _SgdState | None = None
    service_call: dict[str, Any] | None = None
    service_results: list[dict[str, Any]] | None = None


class _Utterance(msgspec.Struct):
    """One turn as published."""

    speaker: Literal["USER", "SYSTEM"]
    utterance: str
    frames: list[_Frame]


class _SgdSession(msgspec.Struct):
    """One dialogue as published."""

    dialogue_id: str
    services: list[str]
    turns: list[_Utterance]


def _read_sgd(folder: Path, part: Part) -> Iterator[Dialogue]:
    for path in part_files(folder / part, "dialogues_*.json*", "dialogues_001.json and so on"):
        for session in load(path, list[_SgdSession]):
            turns = [
                clean_turn(_SGD_ROLES[item.speaker], item.utterance, _annotation_sgd(item))
                for item in session.turns
            ]
            meta = {"services": session.services}
            yield dialogue(turns, f"sgd-{part}-{session.dialogue_id}", meta=meta)


def _annotation_sgd(item: _Utterance) -> dict[str, Any]:
    frames = {frame.service: frame for frame in item.frames}
    columns: dict[str, dict[str, Any]] = {
        "acts": {
            name: [[action.act, action.slot, action.values] for action in frame.actions]
            for name, frame in frames.items()
        },
        "state": {name: _compact(frame.state) for name, frame in frames.items() if frame.state},
        "slots": {
            name: [[span.slot, span.start, span.exclusive_end] for span in frame.slots]
            for name, frame in frames.items()
            if frame.slots
        },
        "call": {name: frame.service_call for name, frame in frames.items() if frame.service_call},
        "results": {name: frame.service_results for name, frame in frames.items() if frame.service_results},
    }
    return {"domain": list(frames)} | {key: column for key, column in columns.items() if column}


def _compact(state: _SgdState) -> dict[str, Any]:
    return {"intent": state.active_intent, "requested": state.requested_slots, "slots": state.slot_values}


SETS = {
    "multiwoz": PublicSet(
        name="multiwoz",
        title="MultiWOZ: 2.2 text for training, 2.1 annotation beyond (Budzianowski et al., EMNLP 2018)",
        folder="multiwoz",
        licence="ConvLab-2 annotation Apache-2.0; 2.2 text MIT; the original corpus MIT",
        home="https://github.com/budzianowski/multiwoz",
        read=_read_multiwoz,
        parts=("train", "dev", "test"),
    ),
    "sgd": PublicSet(
        name="sgd",
        title="Schema-Guided Dialogue (Rastogi et al., AAAI 2020)",
        folder="sgd",
        licence="CC BY-SA 4.0",
        home="https://github.com/google-research-datasets/dstc8-schema-guided-dialogue",
        read=_read_sgd,
        parts=("train", "dev", "test"),
    ),
}
