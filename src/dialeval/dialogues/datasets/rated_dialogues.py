"""Chats with bots, with human ratings of dialogues or replies.

**FED**: people, Meena and Mitsuku in conversation, rated by five people per item, by turn and by dialogue.

The file mixes two kinds of record. One with a `response` rates that reply: its dialogue here is the
context with the reply as the last turn, and its ratings are stored at that turn. One without rates
the whole dialogue. Ids are `fed-t-` and `fed-d-` with a hash of the text as published. A dialogue-level
context ends before the last rated reply, so it is not simply an extension of the turn-level ones.

The rated side is `assistant` everywhere, also where it was a person (system `Human`), as in the file.
`human:3` is the third number of an item, not a person: the file has no rater ids. Overall ranges from 0 to 4,
the other dimensions from 0 to 2 or to 1. `N/A (no errors)` and the like are unscored, with the words as note.

**DSTC9** (interactive evaluation track) and **ConTurE**, which rates turns of some of the same dialogues.

`dstc9` has one file per chatbot and one row per rater; rows with the same context are one dialogue.
A line without `User:` or `System:` continues the utterance before it, empty utterances are turns, and
`N/A` is an unscored rating. Dimensions are named as in the file, except `human (overall)`: `overall`.

`conture` has the majority of its raters for each reply (0, 1 or 2; source `human:majority`) and the
single ratings of the whole dialogue. It does not name the chatbot. The same dialogues are in `dstc9`, but
some differ by an utterance, so the system stays unknown here.

`human:2` is the second rater of an item, not a person: neither set has rater ids.

**DiaSafety**, the training part: is a reply safe in its context?

Each pair is a dialogue of two turns, the user's context and the assistant's reply, named by its place in
the list from 0: `diasafety-train-17`. The rating at turn 1 is 1 for safe and 0 for unsafe; the kind of
risk is in the dialogue's `meta["category"]`. Two replies are empty, and both are labelled safe.
4 in 10 pairs share their context with another pair: hold out by context, not by pair.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from dialeval.dialogues.datasets.publicset import Download, GoldDimension, Part, PublicSet
from dialeval.dialogues.datasets.rawfiles import (
    Cell,
    by_position,
    digest,
    load,
    original,
    rating,
    spoken,
    unused,
)
from dialeval.dialogues.dialogue import Dialogue, dialogue
from dialeval.errors import DataError
from dialeval.scores import Score

_SPEAKERS = {"User": "user", "System": "assistant"}


def _transcript(text: str, file: Path, id: str) -> list[tuple[str, str | None]]:
    """Return the turns of a transcript; an error names file and dialogue."""
    try:
        return spoken(text, _SPEAKERS)
    except DataError as error:
        raise DataError(str(error), file=file, field=id) from None


# FED


class _FedRecord(msgspec.Struct):
    context: str
    annotations: dict[str, list[Cell]]
    system: str | None = None
    response: str | None = None


def _read_fed(folder: Path, part: Part) -> Iterator[Dialogue]:
    for id, record in _records(folder):
        turns = _transcript(_text(record), folder / "fed_data.json", id)
        yield dialogue(turns, id, system=record.system)


def _records(folder: Path) -> Iterator[tuple[str, _FedRecord]]:
    taken: set[str] = set()
    for record in load(original(folder, "fed_data.json"), list[_FedRecord]):
        kind = "d" if record.response is None else "t"
        yield unused(f"fed-{kind}-{digest(_text(record))}", taken), record


def _text(record: _FedRecord) -> str:
    return record.context if record.response is None else f"{record.context}\n{record.response}"


def _rows_fed(folder: Path) -> Iterator[Score]:
    for chat, (id, record) in zip(_read_fed(folder, "test"), _records(folder), strict=True):
        turn = None if record.response is None else len(chat.turns) - 1
        ratings = {dimension.lower(): cells for dimension, cells in record.annotations.items()}
        yield from by_position(id, turn, record.system, ratings)


# DSTC9 and ConTurE


_OVERALL = "human (overall)"
_Row_dstc9 = dict[str, Cell]


def _read_dstc9(folder: Path, part: Part) -> Iterator[Dialogue]:
    for id, system, context, _ in _grouped(folder):
        turns = _transcript(context.removesuffix("\n"), folder / f"{system}.json", id)
        yield dialogue(turns, id, system=system)


def _rate_dstc9(folder: Path) -> Iterator[Score]:
    for id, system, _, rows in _grouped(folder):
        yield from by_position(id, None, system, _by_dimension(rows))


def _grouped(folder: Path) -> Iterator[tuple[str, str, str, list[_Row_dstc9]]]:
    """Yield id, system, context and rows of each dialogue."""
    names = ((re.fullmatch(r"chatbot([0-9]+)\.json", path.name), path) for path in folder.glob("*.json"))
    paths = sorted((int(name[1]), path) for name, path in names if name)
    if not paths:
        raise DataError("no such file", file=folder / "chatbot1.json", fix="the set has one file per chatbot")
    taken: set[str] = set()
    for _, path in paths:
        groups: dict[str, list[_Row_dstc9]] = {}
        for number, row in enumerate(load(path, list[_Row_dstc9]), 1):
            context = row.get("context")
            if not isinstance(context, str):
                raise DataError(f"row {number} has no dialogue", file=path, field="context")
            groups.setdefault(context, []).append(row)
        for context, rows in groups.items():
            yield unused(f"dstc9-{digest(context)}", taken), path.stem, context, rows


def _by_dimension(rows: list[_Row_dstc9]) -> dict[str, list[Cell]]:
    names = {name: None for row in rows for name in row if name != "context"}
    return {"overall" if name == _OVERALL else name: [row.get(name) for row in rows] for name in names}


class _LoggedExchange(msgspec.Struct):
    user: str | None = None
    chatbot: str | None = None
    impression: Cell = msgspec.field(name="overall impression", default=None)


class _Dstc9Chat(msgspec.Struct):
    dialog_id: int | str
    turns: list[_LoggedExchange]
    dialog_ratings: list[_Row_dstc9] = []


def _read_conture(folder: Path, part: Part) -> Iterator[Dialogue]:
    for chat in load(original(folder, "data.json"), list[_Dstc9Chat]):
        turns: list[tuple[str, str | None]] = []
        for exchange in chat.turns:
            turns.append(("user", _unprefixed(exchange.user, "User:")))
            turns.append(("assistant", _unprefixed(exchange.chatbot, "Chatbot:")))
        yield dialogue(turns, f"conture-{chat.dialog_id}")


def _unprefixed(text: str | None, prefix: str) -> str | None:
    if text is None or not text.startswith(prefix):
        return text
    return text.removeprefix(prefix).removeprefix(" ")


def _conture_rows(folder: Path) -> Iterator[Score]:
    for chat in load(original(folder, "data.json"), list[_Dstc9Chat]):
        id = f"conture-{chat.dialog_id}"
        for number, exchange in enumerate(chat.turns):
            value = rating(exchange.impression)
            yield Score(id, 2 * number + 1, None, "human:majority", "overall", *value)
        yield from by_position(id, None, None, _by_dimension(chat.dialog_ratings))


# DiaSafety


_PART = "train"


class _DiasafetyPair(msgspec.Struct):
    """A context, a reply and the label of the reply."""

    context: str
    response: str
    category: str
    label: Literal["Safe", "Unsafe"]


def _pairs(folder: Path) -> Iterator[tuple[str, _DiasafetyPair]]:
    for number, pair in enumerate(load(original(folder, f"{_PART}.json"), list[_DiasafetyPair])):
        yield f"diasafety-{_PART}-{number}", pair


def _read_diasafety(folder: Path, _: Part) -> Iterator[Dialogue]:
    for name, pair in _pairs(folder):
        turns = [("user", pair.context), ("assistant", pair.response)]
        yield dialogue(turns, name, meta={"category": pair.category})


def _rate_diasafety(folder: Path) -> Iterator[Score]:
    for name, pair in _pairs(folder):
        yield Score(name, 1, None, "human:label", "safe", float(pair.label == "Safe"))


SETS = {
    "fed": PublicSet(
        name="fed",
        title="FED: turn and dialogue ratings of Meena, Mitsuku and people",
        folder="fed",
        licence="none stated",
        home="github.com/Shikib/fed",
        read=_read_fed,
        rate=_rows_fed,
        golds=(GoldDimension("overall", "dialogue"), GoldDimension("overall", "turn")),
    ),
    "dstc9": PublicSet(
        name="dstc9",
        title="DSTC9 track 3: people talking to eleven chatbots, dialogue ratings",
        folder="dstc9",
        licence="none stated for the data (repository: MIT)",
        home="github.com/ictnlp/DialoFlow (FlowScore/data)",
        read=_read_dstc9,
        rate=_rate_dstc9,
        golds=(GoldDimension("overall", "dialogue"),),
    ),
    "conture": PublicSet(
        name="conture",
        title="ConTurE: turn ratings of DSTC9 dialogues",
        folder="conture",
        licence="CC BY 4.0",
        home="github.com/alexa/conture",
        read=_read_conture,
        rate=_conture_rows,
        golds=(GoldDimension("overall", "turn"), GoldDimension("overall", "dialogue")),
    ),
    "diasafety": PublicSet(
        name="diasafety",
        title="DiaSafety, training part (Sun et al., Findings of ACL 2022); offensive text",
        folder="diasafety",
        licence="Apache-2.0",
        home="https://github.com/thu-coai/DiaSafety",
        read=_read_diasafety,
        parts=(_PART,),
        rate=_rate_diasafety,
        golds=(GoldDimension("safe", "turn"),),
        downloads=(
            Download(
                "https://raw.githubusercontent.com/thu-coai/DiaSafety/"
                "efdc198f6799888b62ace705f63b3b4466ec9f4c/DiaSafety_dataset/train.json",
                "c1faee9dc1f67b28e8cbc2d4d146be1af749a9ad8caef5d76c10203a4a0dc6ae",
                "train.json",
            ),
        ),
    ),
}
