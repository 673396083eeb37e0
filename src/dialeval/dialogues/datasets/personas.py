"""People and bots with a persona, and other chit-chat.

**PersonaChat, Blended Skill Talk, EmpatheticDialogues**: chit-chat between two people.

All three are read in the form of one collection, a JSON list of `{"dialogue": [utterance, …]}`. There
are no speaker labels: speakers alternate, and `speaker1` opens. A dialogue's id is its set, its part and its
place in the list, from 0: `personachat-test-17`.

Seen in the files: the persona called "speaker" belongs to the one who opens (in PersonaChat its words occur
in that speaker's turns 949 times, in the other's 3 times). The parts are those of the collection, which has
no training parts. PersonaChat is lower-cased and tokenised; all text is left as it is.

**ConvAI2**: people playing personas (`convai2`), and volunteers rating the bots (`convai2-wild`).

`convai2` is the text format of the competition: numbered lines that start again at 1 with each dialogue,
persona lines first, then `utterance<tab>reply` and perhaps candidates, which are left out. Two people
speak: the replies, and the lines `your persona`, are `speaker2`. The published files `self`, `other`,
`both` and `none` have the same dialogues with one, the other, both or no personas, and differ in
contractions, so only one of them is read: the first that exists in the order both, self, none, other, with
original before revised personas. Ids are a hash of a dialogue's lines. `__SILENCE__` means no message.

`convai2-wild` has one score per dialogue from the volunteer in it, `human:user`. `participant1` is the
volunteer. The bot is not published. `profile match` is 1 if the volunteer recognised the bot's persona.

**Controllable Dialogue**: people talking to three persona models, with segment acts and one rating each.

The dialogues are published as segments, as in ActDial (`formats.actdial` joins them), without speakers.
`first_speaker.json`, which is not part of the original, names who opens; speakers alternate. Where it has no
entry, or is missing, the speakers are `speaker1` and `speaker2` and the dialogue's meta has a note.
`meta["personas"]` are the sentences of both sides together.

One crowd worker rated each dialogue as a whole, without knowing which side was the model: `human:1`.
The file codes `contradict` and `repeat` so that 1 is good; the dimensions here are named for that:
`no contradiction`, `no repetition`, `relevancy`, `consistency` (0 or 1) and `overall` (1 to 5).
The official validation list is the part `dev`, everything else `test`.
"""

import re
from collections.abc import Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import msgspec

from dialeval.dialogues.datasets.publicset import GoldDimension, MissingPartError, Part, PublicSet
from dialeval.dialogues.datasets.rawfiles import (
    Cell,
    by_position,
    digest,
    load,
    original,
    rating,
    text_lines,
    unused,
)
from dialeval.dialogues.dialogue import Dialogue, dialogue
from dialeval.dialogues.formats.actdial import read_segments, segment_turns
from dialeval.errors import DataError
from dialeval.scores import Score

# PersonaChat, Blended Skill Talk, EmpatheticDialogues


SPEAKERS = ("speaker1", "speaker2")
_HOME = "https://github.com/Patrick-Ni/KnowEE"
_LICENCE = "repository MIT; the original data licence is not restated there"


class _ChitchatChat(msgspec.Struct):
    """One dialogue of the collection."""

    dialogue: list[str]
    first_persona: list[str] = msgspec.field(name="speaker persona", default_factory=list)
    second_persona: list[str] = msgspec.field(name="listener persona", default_factory=list)
    emotion: str | None = None
    intent: str | None = None


def _read_chitchat(folder: Path, part: Part, *, name: str, files: dict[Part, str]) -> Iterator[Dialogue]:
    path = original(folder, files[part], MissingPartError)
    for number, chat in enumerate(load(path, list[_ChitchatChat])):
        turns = zip(cycle(SPEAKERS), chat.dialogue, strict=False)
        yield dialogue(turns, f"{name}-{part}-{number}", meta=_meta(chat))


def _meta(chat: _ChitchatChat) -> dict[str, Any]:
    """Return the personas, or the emotion of the story of `speaker1`, where they are published."""
    meta: dict[str, Any] = {}
    if chat.first_persona or chat.second_persona:
        meta["personas"] = dict(zip(SPEAKERS, (chat.first_persona, chat.second_persona), strict=True))
    if chat.emotion is not None:
        meta["emotion"] = chat.emotion
    if chat.intent is not None:
        meta["intent"] = chat.intent
    return meta


def _set(name: str, title: str, folder: str, files: dict[Part, str], licence: str = _LICENCE) -> PublicSet:
    reader = partial(_read_chitchat, name=name, files=files)
    return PublicSet(name, title, f"chitchat/{folder}", licence, _HOME, reader, tuple(files))


# ConvAI2


_PREFIX = {"train": "train", "dev": "valid"}
_VIEWS = ("both", "self", "none", "other")
_LINE = re.compile(r"([0-9]+) (.*)", re.DOTALL)
_PERSONAS = {"your persona:": "speaker2", "partner's persona:": "speaker1"}
_SILENCE = "__SILENCE__"


def _read_convai2(folder: Path, part: Part) -> Iterator[Dialogue]:
    names = [
        f"{_PREFIX[part]}_{view}_{kind}{ending}.txt"
        for kind in ("original", "revised")
        for view in _VIEWS
        for ending in ("_no_cands", "")
    ]
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        raise MissingPartError(
            f"no file of the part {part!r}", file=folder, fix=f"expected {names[0]} or the like"
        )
    taken: set[str] = set()
    block: list[str] = []
    for number, line in enumerate(text_lines(path), 1):
        if not line:
            continue
        match = _LINE.fullmatch(line)
        if not match:
            raise DataError(
                "expected a line number and a blank at the start of the line", file=path, line=number
            )
        if match[1] == "1" and block:
            yield _dialogue(block, taken)
            block = []
        block.append(match[2])
    if block:
        yield _dialogue(block, taken)


def _dialogue(block: list[str], taken: set[str]) -> Dialogue:
    turns: list[tuple[str, str | None]] = []
    personas: dict[str, list[str]] = {}
    for line in block:
        owner = next((prefix for prefix in _PERSONAS if line.startswith(prefix)), None)
        if owner:
            sentence = line.removeprefix(owner).removeprefix(" ")
            personas.setdefault(_PERSONAS[owner], []).append(sentence)
        else:
            pair = zip(SPEAKERS, line.split("\t"), strict=False)
            turns.extend((speaker, text) for speaker, text in pair if text != _SILENCE)
    text = "\n".join(block)
    return dialogue(turns, unused(f"convai2-{digest(text)}", taken), meta={"personas": personas})


class _Convai2Message(msgspec.Struct):
    sender: str
    text: str | None


class _Convai2Chat(msgspec.Struct):
    dialog_id: str
    dialog: list[_Convai2Message]
    bot_profile: list[str] = []
    user_profile: list[str] = []
    eval_score: Cell = None
    profile_match: Cell = None


_SENDERS = {"participant1": "user", "participant2": "assistant"}


def _chats_convai2(folder: Path) -> list[_Convai2Chat]:
    return load(original(folder, "convai2_data.json"), list[_Convai2Chat])


def _read_wild(folder: Path, part: Part) -> Iterator[Dialogue]:
    for chat in _chats_convai2(folder):
        unknown = [message.sender for message in chat.dialog if message.sender not in _SENDERS]
        if unknown:
            raise DataError(
                f"{unknown[0]!r} in {chat.dialog_id} is neither participant1 nor participant2",
                file=folder / "convai2_data.json",
                field="sender",
            )
        turns = [(_SENDERS[message.sender], message.text) for message in chat.dialog]
        personas = {"assistant": chat.bot_profile, "user": chat.user_profile}
        yield dialogue(turns, chat.dialog_id, meta={"personas": personas})


def _rows_convai2(folder: Path) -> Iterator[Score]:
    for chat in _chats_convai2(folder):
        for dimension, cell in (("overall", chat.eval_score), ("profile match", chat.profile_match)):
            yield Score(chat.dialog_id, None, None, "human:user", dimension, *rating(cell))


# Controllable Dialogue


_SPEAKERS = {"human": ("user", "assistant"), "model": ("assistant", "user")}
_DIMENSIONS = {
    "relevant": "relevancy",
    "contradict": "no contradiction",
    "consistent": "consistency",
    "repeat": "no repetition",
}


class _Split(msgspec.Struct):
    valid: list[str]


def _read_controllable(folder: Path, part: Part) -> Iterator[Dialogue]:
    chats = read_segments(folder / "controllable_dialogue.json")
    personas = load(original(folder, "dialog_id_to_persona.json"), dict[str, list[str]])
    held_out = set(load(original(folder, "controllable_dialogue_split.json"), _Split).valid)
    openers: dict[str, str | None] = {}
    if (folder / "first_speaker.json").is_file():
        openers = load(original(folder, "first_speaker.json"), dict[str, str | None])
    for name, utterances in chats.items():
        if (name in held_out) != (part == "dev"):
            continue
        speakers = _SPEAKERS.get(openers.get(name) or "")
        note = {} if speakers else {"note": "unknown which speaker is the system"}
        turns = segment_turns(utterances, speakers or SPEAKERS)
        yield dialogue(turns, name, system=_system(name), meta={"personas": personas.get(name, []), **note})


def _system(name: str) -> str:
    """Return the model of a dialogue: `baseline_model` of `baseline_model_12`."""
    return name.rpartition("_")[0]


def _rows_controllable(folder: Path) -> Iterator[Score]:
    shape = dict[str, dict[str, list[Cell] | Cell]]
    for name, ratings in load(original(folder, "dialog_id_to_score.json"), shape).items():
        lists = {
            _DIMENSIONS.get(dimension, dimension): cell if isinstance(cell, list) else [cell]
            for dimension, cell in ratings.items()
        }
        yield from by_position(name, None, _system(name), lists)


SETS = {
    "personachat": _set(
        "personachat",
        "PersonaChat, test part (Zhang et al., ACL 2018)",
        "persona_chat",
        {"test": "test_original.json"},
    ),
    "blended-skill-talk": _set(
        "blended-skill-talk",
        "Blended Skill Talk (Smith et al., ACL 2020)",
        "blended_skill_talk",
        {"val": "val.json", "test": "test.json"},
    ),
    "empathetic": _set(
        "empathetic",
        "EmpatheticDialogues, validation part (Rashkin et al., ACL 2019)",
        "empathetic_dialogues",
        {"val": "val.json"},
        "repository MIT; the data card of the original says CC BY-NC 4.0",
    ),
    "convai2": PublicSet(
        name="convai2",
        title="ConvAI2 (PersonaChat): two people with personas",
        folder="convai2",
        licence="none stated",
        home="github.com/hongbozhang0808/Convai2 (a copy)",
        read=_read_convai2,
        parts=("train", "dev"),
    ),
    "convai2-wild": PublicSet(
        name="convai2-wild",
        title="ConvAI2 wild evaluation: volunteers rate competition bots",
        folder="convai2_wild",
        licence="none stated for the data (repository: GPL-3)",
        home="github.com/raffaele-aurucci/AutomaticDialogueEvaluation (_datasets/convai2_data.json)",
        read=_read_wild,
        rate=_rows_convai2,
        golds=(GoldDimension("overall", "dialogue"),),
    ),
    "controllable": PublicSet(
        name="controllable",
        title="Controllable Dialogue: persona models, segment acts and dialogue ratings",
        folder="controllable_dialogue",
        licence="none stated",
        home="github.com/Jianqiao-Zhao/FlowEval (Controllable_Dialogue)",
        read=_read_controllable,
        parts=("dev", "test"),
        rate=_rows_controllable,
        golds=(GoldDimension("overall", "dialogue"),),
    ),
}
