"""Schema-Guided Dialogue: a user and an assistant over some twenty kinds of service.

A dialogue's id is its part and the original number, `sgd-train-10_00000`: the numbers start again in
every part. `USER` is `user` and `SYSTEM` is `assistant`. Each turn has one frame per service it is about,
written compactly into `meta`, always by service:

- `domain`: the services, `["Events_2"]`;
- `acts`: `{"Events_2": [["INFORM", "event_type", ["Sports"]], …]}`, act, slot, values;
- `state` (user turns): `{"Events_2": {"intent": "FindEvents", "requested": [], "slots": {"city": ["X"]}}}`;
- `slots`, where values are found in the text: `{"Events_2": [["city", 22, 34]]}`, slot, start, end;
- `call` (assistant turns that ask the service): `{"Events_2": {"method": …, "parameters": {…}}}`.

What the service answered is left out. Files are read in the order of their names, those that are there:
a part of the corpus is enough to work with, but its figures are not the official ones.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from dialeval.dialogues.datasets.publicset import MissingPartError, Part, PublicSet
from dialeval.dialogues.datasets.rawfiles import load
from dialeval.dialogues.dialogue import Dialogue, clean_turn, dialogue

_ROLES = {"USER": "user", "SYSTEM": "assistant"}


class _Action(msgspec.Struct):
    """One act: what is done with which slot."""

    act: str
    slot: str
    values: list[str]


class _Span(msgspec.Struct):
    """Where a slot's value stands in the text."""

    slot: str
    start: int
    exclusive_end: int


class _State(msgspec.Struct):
    """What the user wants so far."""

    active_intent: str
    requested_slots: list[str]
    slot_values: dict[str, list[str]]


class _Frame(msgspec.Struct):
    """What a turn does about one service."""

    service: str
    actions: list[_Action]
    slots: list[_Span]
    state: _State | None = None
    service_call: dict[str, Any] | None = None


class _Utterance(msgspec.Struct):
    """One turn as published."""

    speaker: Literal["USER", "SYSTEM"]
    utterance: str
    frames: list[_Frame]


class _Session(msgspec.Struct):
    """One dialogue as published."""

    dialogue_id: str
    services: list[str]
    turns: list[_Utterance]


def _read(folder: Path, part: Part) -> Iterator[Dialogue]:
    paths = sorted((folder / part).glob("dialogues_*.json*"))
    if not paths:
        raise MissingPartError(
            "no file of this part", file=folder / part, fix="expected dialogues_001.json and on"
        )
    for path in paths:
        for session in load(path, list[_Session]):
            turns = [
                clean_turn(_ROLES[item.speaker], item.utterance, _annotation(item)) for item in session.turns
            ]
            meta = {"services": session.services}
            yield dialogue(turns, f"sgd-{part}-{session.dialogue_id}", meta=meta)


def _annotation(item: _Utterance) -> dict[str, Any]:
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
    }
    return {"domain": list(frames)} | {key: column for key, column in columns.items() if column}


def _compact(state: _State) -> dict[str, Any]:
    return {"intent": state.active_intent, "requested": state.requested_slots, "slots": state.slot_values}


SETS = {
    "sgd": PublicSet(
        name="sgd",
        title="Schema-Guided Dialogue (Rastogi et al., AAAI 2020)",
        folder="sgd",
        licence="CC BY-SA 4.0",
        home="https://github.com/google-research-datasets/dstc8-schema-guided-dialogue",
        read=_read,
        parts=("train", "dev", "test"),
    )
}
