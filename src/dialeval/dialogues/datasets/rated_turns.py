"""Dialogues with human ratings of every turn.

**DBDC3**: the English development data of the third Dialogue Breakdown Detection Challenge.

Thirty people labelled each system turn for dialogue breakdown. Here higher is better, so the dimension is
`no-breakdown`: 1 for O (no breakdown), 0.5 for T (possible), 0 for X (breakdown). The dialogues of CIC
and YI were annotated again under a stricter rule after the challenge; a dialogue in `dev_revised` replaces
the same dialogue in `dev`. A rater is `human:<annotator id>`; where the file has no ids (CIC and YI before
revision) it is the position within the turn. Opening system turns without labels have no ratings.

Ids are `dbdc3-` and the file's own. Either side opens. The paragraphs beside the CIC dialogues (`*.context`)
are not read.

**Topical-Chat**: two people talk about texts they have read, and rate each other's messages.

A dialogue's id is the original one with the set's name, `topicalchat-t_a2b7…`; `agent_1`, who opens, is
`speaker1`. A turn's `meta` has `sentiment` and `knowledge` (the texts it is based on), both as marked by its
writer; the dialogue's has `config` and `article`.

**Who rated.** According to the publishers a message's rating was given by the partner, and each side's rating
of the conversation is under its own name. The data contradict one of the two: the mean rating of agent_1's
messages correlates with the conversation rating under `agent_1` (Spearman .84) and not with the one under
`agent_2` (.03), so both were given by the same person. A rating belongs to the message it is published with
(messages rated `Poor` or `Not Good` have a median of 61 characters, their neighbours about 110). We follow
the publishers on messages, so the partner is the source of both: ratings under `agent_1` are
`human:speaker2`.

Words become numbers, `Poor` 1 to `Excellent` 5, in the dimension `overall`; an empty word is unscored.
Over nine in ten are 4 or 5, so little can be learned from a correlation with these.

**USS** (User Satisfaction Simulation): satisfaction, 1 to 5, on dialogues of SGD, MultiWOZ, ReDial, CCPE.

Tab-separated lines `role, text, action, ratings`, a blank line between dialogues. The last line of a
dialogue, `USER<tab>OVERALL`, is not an utterance but the rating of the whole dialogue.

Raters judged how satisfied the user is at each user turn, which is a judgement of the reply before it, so
it is stored at that reply. For several user turns in a row a rater's mean is stored, with a note. Ratings
before the first system turn are left out; the numbers as published stay in the user turn's meta (`ratings`),
like the `action`.

`human:2` is the second rater of a dialogue, not a person: the file has no rater ids. The ids are a hash of
the dialogue's lines, `uss-sgd-…`; the corpus is in the dialogue's meta.
"""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal

import msgspec

from dialeval.dialogues.datasets.publicset import (
    Download,
    GoldDimension,
    MissingPartError,
    Part,
    PublicSet,
    from_parts,
)
from dialeval.dialogues.datasets.rawfiles import (
    by_position,
    digest,
    load,
    original,
    rating,
    text_lines,
    unused,
)
from dialeval.dialogues.dialogue import Dialogue, clean_turn, dialogue
from dialeval.errors import DataError
from dialeval.scores import Score

# DBDC3


_LABELS = {"O": 1.0, "T": 0.5, "X": 0.0}
_DBDC3_SPEAKERS = {"U": "user", "S": "assistant"}
_SYSTEMS = {"cic": "CIC", "yi": "YI", "iris": "IRIS", "ticktock": "TickTock"}


class _Dbdc3Label(msgspec.Struct):
    breakdown: str | None = None
    rater: str | int | None = msgspec.field(name="annotator-id", default=None)


class _Dbdc3Message(msgspec.Struct):
    speaker: str
    utterance: str | None = None
    annotations: list[_Dbdc3Label] = []


class _Dbdc3Log(msgspec.Struct):
    id: str = msgspec.field(name="dialogue-id")
    turns: list[_Dbdc3Message]


def _logs(folder: Path) -> Iterator[tuple[Path, _Dbdc3Log]]:
    """Yield each dialogue once, the revised annotation where there is one."""
    chosen = {
        path.name: path
        for part in ("dev", "dev_revised")  # the later replaces the earlier
        for path in sorted((folder / part).rglob("*.log.json"))
        if not path.name.startswith(".")
    }
    if not chosen:
        raise DataError("no *.log.json", file=folder / "dev", fix="put the challenge's English dev data here")
    for path in chosen.values():
        yield path, load(path, _Dbdc3Log)


def _read_dbdc3(folder: Path, part: Part) -> Iterator[Dialogue]:
    for path, log in _logs(folder):
        unknown = [message.speaker for message in log.turns if message.speaker not in _DBDC3_SPEAKERS]
        if unknown:
            raise DataError(f"{unknown[0]!r} is neither S nor U", file=path, field="speaker")
        turns = [(_DBDC3_SPEAKERS[message.speaker], message.utterance) for message in log.turns]
        yield dialogue(turns, f"dbdc3-{log.id}", system=_system(log.id))


def _system(id: str) -> str | None:
    letters = re.match("[A-Za-z]*", id)
    return _SYSTEMS.get(letters[0].lower()) if letters else None


def _rows_dbdc3(folder: Path) -> Iterator[Score]:
    for _, log in _logs(folder):
        system = _system(log.id)
        for turn, message in enumerate(log.turns):
            for position, label in enumerate(message.annotations, 1):
                value = _LABELS.get(label.breakdown or "")
                note = None if value is not None else label.breakdown or "no label"
                source = f"human:{label.rater or position}"
                yield Score(f"dbdc3-{log.id}", turn, system, source, "no-breakdown", value, note)


# Topical-Chat


PARTS = ("valid_freq", "valid_rare", "test_freq", "test_rare")
_TOPICALCHAT_SPEAKERS = {"agent_1": "speaker1", "agent_2": "speaker2"}
_PARTNERS = {"agent_1": "human:speaker2", "agent_2": "human:speaker1"}
_VALUES = {"Poor": 1.0, "Not Good": 2.0, "Passable": 3.0, "Good": 4.0, "Excellent": 5.0}
_Word = Literal["Poor", "Not Good", "Passable", "Good", "Excellent", ""]
_Agent = Literal["agent_1", "agent_2"]


class _TopicalchatMessage(msgspec.Struct):
    """One message as published."""

    message: str
    agent: _Agent
    sentiment: str
    knowledge_source: list[str]
    turn_rating: _Word


class _Conversation(msgspec.Struct):
    """One dialogue as published."""

    content: list[_TopicalchatMessage]
    conversation_rating: dict[_Agent, _Word]
    config: str = ""
    article_url: str = ""


def _conversations(folder: Path, part: Part) -> Iterator[tuple[str, _Conversation]]:
    path = original(folder, f"conversations/{part}.json", MissingPartError)
    for name, conversation in load(path, dict[str, _Conversation]).items():
        yield f"topicalchat-{name}", conversation


def _read_topicalchat(folder: Path, part: Part) -> Iterator[Dialogue]:
    for name, conversation in _conversations(folder, part):
        turns = [
            clean_turn(
                _TOPICALCHAT_SPEAKERS[item.agent],
                item.message,
                {"sentiment": item.sentiment, "knowledge": item.knowledge_source},
            )
            for item in conversation.content
        ]
        meta = {"config": conversation.config, "article": conversation.article_url}
        yield dialogue(turns, name, meta=meta)


def _rate_topicalchat(folder: Path) -> Iterator[Score]:
    return from_parts(PARTS, functools.partial(_rows_topicalchat, folder))


def _rows_topicalchat(folder: Path, part: Part) -> Iterator[Score]:
    for name, conversation in _conversations(folder, part):
        for turn, item in enumerate(conversation.content):
            yield _score(name, turn, item.agent, item.turn_rating)
        for agent, word in conversation.conversation_rating.items():
            yield _score(name, None, agent, word)


def _score(name: str, turn: int | None, agent: str, word: str) -> Score:
    note = None if word else "not rated"
    return Score(name, turn, None, _PARTNERS[agent], "overall", _VALUES.get(word), note)


_RAW = "https://raw.githubusercontent.com/alexa/Topical-Chat/8a485f76337a40dfab842426caeaa94fd8212db4"
_HASHES = {
    "valid_freq": "d14e8bde94fa5556d4aad8fd3fb666df674e4fef8b4193c8c3c06c72822a366b",
    "valid_rare": "b0f3c59584ea4ed61e368dc94feade6ba499a207a6437573b028d1f3ff918714",
    "test_freq": "3c65693d59e40a1fb58ead35dcfe85fbcc88ea93a4d74557df620996f72c8f08",
    "test_rare": "4f21a18be16e310840280678e7bb4646852573b239b69183ddf8898f40119567",
}


# USS


_CORPORA = ("SGD", "MWOZ", "ReDial", "CCPE")
_USS_SPEAKERS = {"USER": "user", "SYSTEM": "assistant"}
_DIMENSION = "satisfaction"


@dataclass(frozen=True, slots=True)
class _UssLine:
    speaker: str
    text: str
    action: str
    ratings: list[str]


@dataclass(frozen=True, slots=True)
class _UssChat:
    id: str
    corpus: str
    lines: list[_UssLine]
    overall: list[str]


def _chats_uss(folder: Path) -> Iterator[_UssChat]:
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
            yield _UssChat(id, corpus, lines[:-1] if is_rating else lines, last.ratings if is_rating else [])


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


def _parsed(line: str, path: Path, number: int) -> _UssLine:
    role, tab, rest = line.partition("\t")
    cells = rest.rsplit("\t", 2)  # the text may have tabs
    if role not in _USS_SPEAKERS or not tab or len(cells) != 3:
        raise DataError(
            "expected USER or SYSTEM, text, action and ratings, separated by tabs", file=path, line=number
        )
    return _UssLine(_USS_SPEAKERS[role], cells[0], cells[1], cells[2].split(",") if cells[2] else [])


def _read_uss(folder: Path, part: Part) -> Iterator[Dialogue]:
    for chat in _chats_uss(folder):
        turns = []
        for line in chat.lines:
            action = {"action": line.action} if line.action else {}
            ratings = {"ratings": [rating(cell)[0] for cell in line.ratings]} if line.ratings else {}
            turns.append(clean_turn(line.speaker, line.text, {**action, **ratings}))
        yield dialogue(turns, chat.id, meta={"corpus": chat.corpus})


def _rows_uss(folder: Path) -> Iterator[Score]:
    for chat in _chats_uss(folder):
        for reply, lists in _by_reply(chat.lines).items():
            for rater in range(max(map(len, lists))):
                cells = [cells[rater] for cells in lists if rater < len(cells)]
                yield Score(chat.id, reply, None, f"human:{rater + 1}", _DIMENSION, *_mean(cells))
        yield from by_position(chat.id, None, None, {_DIMENSION: chat.overall})


def _by_reply(lines: list[_UssLine]) -> dict[int, list[list[str]]]:
    """Return, for each reply that was rated, the ratings given at the user turns that follow it."""
    by_reply: dict[int, list[list[str]]] = {}
    reply: int | None = None
    for turn, line in enumerate(lines):
        if line.speaker == "assistant":
            reply = turn
        elif reply is not None and line.ratings:
            by_reply.setdefault(reply, []).append(line.ratings)
    return by_reply


def _mean(cells: list[str]) -> tuple[float | None, str | None]:
    values = [value for value, _ in map(rating, cells) if value is not None]
    if len(cells) == 1 or not values:
        return rating(cells[0])
    return fmean(values), f"mean over {len(values)} user turns"


SETS = {
    "dbdc3": PublicSet(
        name="dbdc3",
        title="DBDC3: dialogue breakdown labels for four chatbots",
        folder="dbdc3",
        licence="MIT (the CIC paragraphs: CC BY-SA 4.0)",
        home="github.com/dbd-challenge/dbdc3",
        read=_read_dbdc3,
        rate=_rows_dbdc3,
        golds=(GoldDimension("no-breakdown", "turn"),),
    ),
    "topicalchat": PublicSet(
        name="topicalchat",
        title="Topical-Chat, validation and test parts (Gopalakrishnan et al., Interspeech 2019)",
        folder="topical_chat",
        licence="CDLA-Sharing 1.0",
        home="https://github.com/alexa/Topical-Chat",
        read=_read_topicalchat,
        parts=PARTS,
        rate=_rate_topicalchat,
        golds=(GoldDimension("overall", "turn"), GoldDimension("overall", "dialogue")),
        downloads=tuple(
            Download(f"{_RAW}/conversations/{part}.json", digest, f"conversations/{part}.json")
            for part, digest in _HASHES.items()
        ),
    ),
    "uss": PublicSet(
        name="uss",
        title="USS: user satisfaction on SGD, MultiWOZ, ReDial and CCPE",
        folder="uss",
        licence="none stated",
        home="github.com/sunnweiwei/user-satisfaction-simulation",
        read=_read_uss,
        rate=_rows_uss,
        golds=(GoldDimension(_DIMENSION, "turn"), GoldDimension(_DIMENSION, "dialogue")),
    ),
}
