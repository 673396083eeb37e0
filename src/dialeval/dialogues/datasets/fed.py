"""FED: people, Meena and Mitsuku in conversation, rated by five people per item, by turn and by dialogue.

The file mixes two kinds of record. One with a `response` is about that reply: its dialogue here is the
context with the reply as the last turn, and its ratings are stored at that turn. One without is about
the whole dialogue. Ids are `fed-t-` and `fed-d-` with a hash of the text as published. A dialogue-level
context ends before the last rated reply, so the one is not simply a prefix of the other.

The side that is rated is `assistant` everywhere, also where it was a person (system `Human`), because
that is how the file and its raters saw it. `human:3` is the third number of an item, not a person: the
file does not say who rated. Overall goes from 0 to 4, the other dimensions from 0 to 2 or to 1.
`N/A (no errors)` and the like are unscored, with the words as their note.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from dialeval.dialogues.datasets.publicset import Gold, Part, PublicSet
from dialeval.dialogues.datasets.ratings import Cell, by_position
from dialeval.dialogues.datasets.rawfiles import load, original, rated
from dialeval.dialogues.datasets.transcripts import digest, spoken, unused
from dialeval.dialogues.dialogue import Dialogue, dialogue
from dialeval.errors import DataError
from dialeval.scores import Score, Scores

_SPEAKERS = {"User": "user", "System": "assistant"}


class _Record(msgspec.Struct):
    context: str
    annotations: dict[str, list[Cell]]
    system: str | None = None
    response: str | None = None


def _read(folder: Path, part: Part) -> Iterator[Dialogue]:
    for id, record in _records(folder):
        try:
            turns = spoken(_text(record), _SPEAKERS)
        except DataError as error:
            raise DataError(str(error), file=folder / "fed_data.json", field=id) from None
        yield dialogue(turns, id, system=record.system)


def _records(folder: Path) -> Iterator[tuple[str, _Record]]:
    taken: set[str] = set()
    for record in load(original(folder, "fed_data.json"), list[_Record]):
        kind = "d" if record.response is None else "t"
        yield unused(f"fed-{kind}-{digest(_text(record))}", taken), record


def _text(record: _Record) -> str:
    return record.context if record.response is None else f"{record.context}\n{record.response}"


def _rate(folder: Path) -> Scores:
    return rated("fed", _rows(folder))


def _rows(folder: Path) -> Iterator[Score]:
    records = _records(folder)
    for made, (id, record) in zip(_read(folder, "test"), records, strict=True):
        turn = None if record.response is None else len(made.turns) - 1
        ratings = {dimension.lower(): cells for dimension, cells in record.annotations.items()}
        yield from by_position(id, turn, record.system, ratings)


SETS = {
    "fed": PublicSet(
        name="fed",
        title="FED: turn and dialogue ratings of Meena, Mitsuku and people",
        folder="fed",
        licence="none stated",
        home="github.com/Shikib/fed",
        read=_read,
        rate=_rate,
        golds=(Gold("overall", "dialogue"), Gold("overall", "turn")),
    )
}
