"""Topical-Chat: two people talk about things they have read, and rate each other's messages.

A dialogue's id is the original one with the set's name, `topicalchat-t_a2b7…`; `agent_1`, who opens, is
`speaker1`. A turn's `meta` holds `sentiment` and `knowledge` (which readings it drew on), both as its
writer ticked them; the dialogue's holds `config` and `article`.

**Who rated.** The publishers say that a message's rating was given by the partner, and that each side's
rating of the conversation stands under its own name. The data contradict one of the two: the mean rating of
agent_1's messages goes with the conversation rating under `agent_1` (Spearman .84) and not with the one
under `agent_2` (.03), so both were given by the same person. That a rating is about the message it stands
at is plain (messages rated `Poor` or `Not Good` are 61 characters long in the middle, their
neighbours about 110). We follow the publishers on messages, so the partner is the source of both: what
stands at or under `agent_1` is `human:speaker2`.

Words become numbers, `Poor` 1 to `Excellent` 5, in the dimension `overall`; an empty word is unscored.
Over nine in ten are 4 or 5, so little can be learned from a correlation with these.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from dialeval.dialogues.datasets.publicset import Download, Gold, MissingPartError, Part, PublicSet
from dialeval.dialogues.datasets.rawfiles import load, original, rated
from dialeval.dialogues.dialogue import Dialogue, clean_turn, dialogue
from dialeval.scores import Score, Scores

PARTS = ("valid_freq", "valid_rare", "test_freq", "test_rare")
_SPEAKERS = {"agent_1": "speaker1", "agent_2": "speaker2"}
_PARTNERS = {"agent_1": "human:speaker2", "agent_2": "human:speaker1"}
_VALUES = {"Poor": 1.0, "Not Good": 2.0, "Passable": 3.0, "Good": 4.0, "Excellent": 5.0}
_Word = Literal["Poor", "Not Good", "Passable", "Good", "Excellent", ""]
_Agent = Literal["agent_1", "agent_2"]


class _Message(msgspec.Struct):
    """One message as published."""

    message: str
    agent: _Agent
    sentiment: str
    knowledge_source: list[str]
    turn_rating: _Word


class _Conversation(msgspec.Struct):
    """One dialogue as published."""

    content: list[_Message]
    conversation_rating: dict[_Agent, _Word]
    config: str = ""
    article_url: str = ""


def _conversations(folder: Path, part: Part) -> Iterator[tuple[str, _Conversation]]:
    path = original(folder, f"conversations/{part}.json", MissingPartError)
    for name, conversation in load(path, dict[str, _Conversation]).items():
        yield f"topicalchat-{name}", conversation


def _read(folder: Path, part: Part) -> Iterator[Dialogue]:
    for name, conversation in _conversations(folder, part):
        turns = [
            clean_turn(
                _SPEAKERS[item.agent],
                item.message,
                {"sentiment": item.sentiment, "knowledge": item.knowledge_source},
            )
            for item in conversation.content
        ]
        meta = {"config": conversation.config, "article": conversation.article_url}
        yield dialogue(turns, name, meta=meta)


def _rate(folder: Path) -> Scores:
    rows: list[Score] = []
    missing = []
    for part in PARTS:
        try:
            rows.extend(_rows(folder, part))
        except MissingPartError as error:
            missing.append(error)
    if len(missing) == len(PARTS):
        raise missing[0]
    return rated("topicalchat", rows)


def _rows(folder: Path, part: Part) -> Iterator[Score]:
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

SETS = {
    "topicalchat": PublicSet(
        name="topicalchat",
        title="Topical-Chat, validation and test parts (Gopalakrishnan et al., Interspeech 2019)",
        folder="topical_chat",
        licence="CDLA-Sharing 1.0",
        home="https://github.com/alexa/Topical-Chat",
        read=_read,
        parts=PARTS,
        rate=_rate,
        golds=(Gold("overall", "turn"), Gold("overall", "dialogue")),
        downloads=tuple(
            Download(f"{_RAW}/conversations/{part}.json", digest, f"conversations/{part}.json")
            for part, digest in _HASHES.items()
        ),
    )
}
