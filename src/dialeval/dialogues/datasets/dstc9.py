"""DSTC9 (interactive evaluation track) and ConTurE, which rates turns of some of the same dialogues.

`dstc9` has one file per chatbot and one row per rater; rows with the same context are one dialogue.
A line without `User:` or `System:` continues the utterance before it, empty utterances are turns, and
`N/A` is an unscored rating. Dimensions are called as in the file, except `human (overall)`: `overall`.

`conture` has the majority of its raters for each reply (0, 1 or 2; source `human:majority`) and the
ratings of the whole dialogue one by one. It does not say which chatbot spoke. The same dialogues are in
`dstc9`, but some differ by an utterance, so the system stays unknown here rather than nearly certain.

`human:2` is the second rater of an item, not a person: neither set says who rated.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from dialeval.dialogues.datasets.publicset import Gold, Part, PublicSet
from dialeval.dialogues.datasets.ratings import Cell, by_position, rating
from dialeval.dialogues.datasets.rawfiles import load, original, rated
from dialeval.dialogues.datasets.transcripts import digest, spoken, unused
from dialeval.dialogues.dialogue import Dialogue, dialogue
from dialeval.errors import DataError
from dialeval.scores import Score, Scores

_SPEAKERS = {"User": "user", "System": "assistant"}
_OVERALL = "human (overall)"
_Row = dict[str, Cell]


def _read_dstc9(folder: Path, part: Part) -> Iterator[Dialogue]:
    for id, system, context, _ in _grouped(folder):
        try:
            turns = spoken(context.removesuffix("\n"), _SPEAKERS)
        except DataError as error:
            raise DataError(str(error), file=folder / f"{system}.json", field=id) from None
        yield dialogue(turns, id, system=system)


def _rate_dstc9(folder: Path) -> Scores:
    scores = (
        score
        for id, system, _, rows in _grouped(folder)
        for score in by_position(id, None, system, _by_dimension(rows))
    )
    return rated("dstc9", scores)


def _grouped(folder: Path) -> Iterator[tuple[str, str, str, list[_Row]]]:
    """Yield id, system, context and rows of each dialogue."""
    names = ((re.fullmatch(r"chatbot([0-9]+)\.json", path.name), path) for path in folder.glob("*.json"))
    paths = sorted((int(name[1]), path) for name, path in names if name)
    if not paths:
        raise DataError("no such file", file=folder / "chatbot1.json", fix="the set has one file per chatbot")
    taken: set[str] = set()
    for _, path in paths:
        groups: dict[str, list[_Row]] = {}
        for number, row in enumerate(load(path, list[_Row]), 1):
            context = row.get("context")
            if not isinstance(context, str):
                raise DataError(f"row {number} has no dialogue", file=path, field="context")
            groups.setdefault(context, []).append(row)
        for context, rows in groups.items():
            yield unused(f"dstc9-{digest(context)}", taken), path.stem, context, rows


def _by_dimension(rows: list[_Row]) -> dict[str, list[Cell]]:
    names = {name: None for row in rows for name in row if name != "context"}
    return {"overall" if name == _OVERALL else name: [row.get(name) for row in rows] for name in names}


class _Exchange(msgspec.Struct):
    user: str | None = None
    chatbot: str | None = None
    impression: Cell = msgspec.field(name="overall impression", default=None)


class _Chat(msgspec.Struct):
    dialog_id: int | str
    turns: list[_Exchange]
    dialog_ratings: list[_Row] = []


def _read_conture(folder: Path, part: Part) -> Iterator[Dialogue]:
    for chat in load(original(folder, "data.json"), list[_Chat]):
        turns: list[tuple[str, str | None]] = []
        for exchange in chat.turns:
            turns.append(("user", _unprefixed(exchange.user, "User:")))
            turns.append(("assistant", _unprefixed(exchange.chatbot, "Chatbot:")))
        yield dialogue(turns, f"conture-{chat.dialog_id}")


def _unprefixed(text: str | None, prefix: str) -> str | None:
    if text is None or not text.startswith(prefix):
        return text
    return text.removeprefix(prefix).removeprefix(" ")


def _rate_conture(folder: Path) -> Scores:
    return rated("conture", _conture_rows(folder))


def _conture_rows(folder: Path) -> Iterator[Score]:
    for chat in load(original(folder, "data.json"), list[_Chat]):
        id = f"conture-{chat.dialog_id}"
        for number, exchange in enumerate(chat.turns):
            value = rating(exchange.impression)
            yield Score(id, 2 * number + 1, None, "human:majority", "overall", *value)
        ratings: Mapping[str, list[Cell]] = _by_dimension(chat.dialog_ratings)
        yield from by_position(id, None, None, ratings)


SETS = {
    "dstc9": PublicSet(
        name="dstc9",
        title="DSTC9 track 3: people talking to eleven chatbots, dialogue ratings",
        folder="dstc9",
        licence="none stated for the data (repository: MIT)",
        home="github.com/ictnlp/DialoFlow (FlowScore/data)",
        read=_read_dstc9,
        rate=_rate_dstc9,
        golds=(Gold("overall", "dialogue"),),
    ),
    "conture": PublicSet(
        name="conture",
        title="ConTurE: turn ratings of DSTC9 dialogues",
        folder="conture",
        licence="CC BY 4.0",
        home="github.com/alexa/conture",
        read=_read_conture,
        rate=_rate_conture,
        golds=(Gold("overall", "turn"), Gold("overall", "dialogue")),
    ),
}
