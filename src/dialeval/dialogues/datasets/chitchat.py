"""Chit-chat between two people: PersonaChat, Blended Skill Talk and EmpatheticDialogues.

All three are read in the form of one collection, a JSON list of `{"dialogue": [utterance, …]}`. There
are no speaker labels: speakers alternate, and `speaker1` is whoever opens. A dialogue's id is its set,
its part and its place in the list, from 0: `personachat-test-17`.

Known by looking at the files: the persona called "speaker" belongs to the one who opens (in PersonaChat
its words are found in that side's turns 949 times against 3). The parts are those of the collection,
which has no training parts. PersonaChat is lower-cased and tokenised; all text stays as it is.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from dialeval.dialogues.datasets.publicset import MissingPartError, Part, PublicSet
from dialeval.dialogues.datasets.rawfiles import load, original
from dialeval.dialogues.dialogue import Dialogue, clean_turn, dialogue

SPEAKERS = ("speaker1", "speaker2")
_HOME = "https://github.com/Patrick-Ni/KnowEE"
_LICENCE = "repository MIT; the original data licence is not restated there"


class _Chat(msgspec.Struct):
    """One dialogue of the collection."""

    dialogue: list[str]
    first_persona: list[str] = msgspec.field(name="speaker persona", default_factory=list)
    second_persona: list[str] = msgspec.field(name="listener persona", default_factory=list)
    emotion: str | None = None
    intent: str | None = None


def _read(folder: Path, part: Part, *, name: str, files: dict[Part, str]) -> Iterator[Dialogue]:
    path = original(folder, files[part], MissingPartError)
    for number, chat in enumerate(load(path, list[_Chat])):
        turns = [clean_turn(SPEAKERS[place % 2], text) for place, text in enumerate(chat.dialogue)]
        yield dialogue(turns, f"{name}-{part}-{number}", meta=_meta(chat))


def _meta(chat: _Chat) -> dict[str, Any]:
    """What is known of the whole dialogue: personas, or the feeling that `speaker1` was asked to tell of."""
    meta: dict[str, Any] = {}
    if chat.first_persona or chat.second_persona:
        meta["personas"] = dict(zip(SPEAKERS, (chat.first_persona, chat.second_persona), strict=True))
    if chat.emotion is not None:
        meta["emotion"] = chat.emotion
    if chat.intent is not None:
        meta["intent"] = chat.intent
    return meta


def _set(name: str, title: str, folder: str, files: dict[Part, str]) -> PublicSet:
    reader = partial(_read, name=name, files=files)
    return PublicSet(name, title, f"chitchat/{folder}", _LICENCE, _HOME, reader, tuple(files))


SETS = {
    item.name: item
    for item in (
        _set(
            "personachat",
            "PersonaChat, test part (Zhang et al., ACL 2018)",
            "persona_chat",
            {"test": "test_original.json"},
        ),
        _set(
            "blended-skill-talk",
            "Blended Skill Talk (Smith et al., ACL 2020)",
            "blended_skill_talk",
            {"val": "val.json", "test": "test.json"},
        ),
        _set(
            "empathetic",
            "EmpatheticDialogues, validation part (Rashkin et al., ACL 2019)",
            "empathetic_dialogues",
            {"val": "val.json"},
        ),
    )
}
