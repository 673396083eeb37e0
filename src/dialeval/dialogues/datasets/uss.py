"""USS (User Satisfaction Simulation): satisfaction from 1 to 5 on dialogues of SGD, MultiWOZ, ReDial, CCPE.

Tab-separated lines `role, text, action, ratings`, a blank line between dialogues. The last line of a
dialogue, `USER<tab>OVERALL`, is no utterance but the rating of the whole.

Raters judged how satisfied the user is at each user turn, which is a judgement of the reply before it, so
it is stored at that reply. Where the user says several things in a row, a rater's mean over them is
stored, with a note. What is rated before the system has said anything is about no reply and is left out of
the ratings; the numbers as published stay in the user turn's meta (`ratings`), like the `action`.

`human:2` is the second rater of a dialogue, not a person: the file does not say who rated. The ids are a
hash of the dialogue's lines, `uss-sgd-…`; the corpus is in the dialogue's meta.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from dialeval.dialogues.datasets.publicset import Gold, Part, PublicSet
from dialeval.dialogues.datasets.ratings import by_position, rating
from dialeval.dialogues.datasets.rawfiles import rated, text_lines
from dialeval.dialogues.datasets.transcripts import digest, unused
from dialeval.dialogues.dialogue import Dialogue, clean_turn, dialogue
from dialeval.errors import DataError
from dialeval.scores import Score, Scores

_CORPORA = ("SGD", "MWOZ", "ReDial", "CCPE")
_SPEAKERS = {"USER": "user", "SYSTEM": "assistant"}
_DIMENSION = "satisfaction"


@dataclass(frozen=True, slots=True)
class _Line:
    speaker: str
    text: str
    action: str
    ratings: list[str]


@dataclass(frozen=True, slots=True)
class _Chat:
    id: str
    corpus: str
    lines: list[_Line]
    overall: list[str]


def _chats(folder: Path) -> Iterator[_Chat]:
    paths = [(corpus, folder / f"{corpus}.txt") for corpus in _CORPORA]
    paths = [(corpus, path) for corpus, path in paths if path.is_file()]
    if not paths:
        raise DataError("no such file", file=folder / "SGD.txt", fix=f"one of {', '.join(_CORPORA)}")
    for corpus, path in paths:
        taken: set[str] = set()
        for block in _blocks(path):
            text = "\n".join(line for _, line in block)
            lines = [_parsed(line, path, number) for number, line in block]
            last = lines[-1]
            is_rating = last.speaker == "user" and last.text == "OVERALL"
            id = unused(f"uss-{corpus.lower()}-{digest(text)}", taken)
            yield _Chat(id, corpus, lines[:-1] if is_rating else lines, last.ratings if is_rating else [])


def _blocks(path: Path) -> Iterator[list[tuple[int, str]]]:
    block: list[tuple[int, str]] = []
    for number, line in enumerate(text_lines(path), 1):
        if line:
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _parsed(line: str, path: Path, number: int) -> _Line:
    role, tab, rest = line.partition("\t")
    cells = rest.rsplit("\t", 2)  # a tab in the text would be the text's own
    if role not in _SPEAKERS or not tab or len(cells) != 3:
        raise DataError(
            "expected USER or SYSTEM, text, action and ratings", file=path, line=number, fix="tabs between"
        )
    return _Line(_SPEAKERS[role], cells[0], cells[1], cells[2].split(",") if cells[2] else [])


def _read(folder: Path, part: Part) -> Iterator[Dialogue]:
    for chat in _chats(folder):
        turns = []
        for line in chat.lines:
            action = {"action": line.action} if line.action else {}
            ratings = {"ratings": [rating(cell)[0] for cell in line.ratings]} if line.ratings else {}
            turns.append(clean_turn(line.speaker, line.text, {**action, **ratings}))
        yield dialogue(turns, chat.id, meta={"corpus": chat.corpus})


def _rate(folder: Path) -> Scores:
    return rated("uss", _rows(folder))


def _rows(folder: Path) -> Iterator[Score]:
    for chat in _chats(folder):
        for reply, lists in _by_reply(chat.lines).items():
            for rater in range(max(map(len, lists))):
                cells = [cells[rater] for cells in lists if rater < len(cells)]
                yield Score(chat.id, reply, None, f"human:{rater + 1}", _DIMENSION, *_mean(cells))
        yield from by_position(chat.id, None, None, {_DIMENSION: chat.overall})


def _by_reply(lines: list[_Line]) -> dict[int, list[list[str]]]:
    """Return, for each reply that was rated, the ratings given at the user turns that follow it."""
    found: dict[int, list[list[str]]] = {}
    reply: int | None = None
    for turn, line in enumerate(lines):
        if line.speaker == "assistant":
            reply = turn
        elif reply is not None and line.ratings:
            found.setdefault(reply, []).append(line.ratings)
    return found


def _mean(cells: list[str]) -> tuple[float | None, str | None]:
    values = [value for value, _ in map(rating, cells) if value is not None]
    if len(cells) == 1 or not values:
        return rating(cells[0])
    return fmean(values), f"mean over {len(values)} user turns"


SETS = {
    "uss": PublicSet(
        name="uss",
        title="USS: user satisfaction on SGD, MultiWOZ, ReDial and CCPE",
        folder="uss",
        licence="none stated",
        home="github.com/sunnweiwei/user-satisfaction-simulation",
        read=_read,
        rate=_rate,
        golds=(Gold(_DIMENSION, "turn"), Gold(_DIMENSION, "dialogue")),
    )
}
