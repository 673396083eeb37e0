"""ConvAI2: people playing personas (`convai2`), and volunteers rating the bots (`convai2-wild`).

`convai2` is the text format of the competition: numbered lines that start again at 1 with each dialogue,
persona lines first, then `utterance<tab>reply` and perhaps candidates, which are left out. Two people
speak: the replies, and the lines `your persona`, are `speaker2`. The published files `self`, `other`,
`both` and `none` hold the same dialogues with one, the other, both or no personas, and differ in
contractions, so only one of them is read: the first there is in the order both, self, none, other, with
original before revised personas. Ids are a hash of a dialogue's lines. `__SILENCE__` stands for no message.

`convai2-wild` has one score per dialogue from the volunteer who had it, `human:user`. `participant1` is
the volunteer. Which bot it was is not published. `profile match` is 1 if the volunteer could tell the
bot's persona from another one.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from dialeval.dialogues.datasets.publicset import Gold, MissingPartError, Part, PublicSet
from dialeval.dialogues.datasets.ratings import Cell, rating
from dialeval.dialogues.datasets.rawfiles import load, original, rated, text_lines
from dialeval.dialogues.datasets.transcripts import digest, unused
from dialeval.dialogues.dialogue import Dialogue, dialogue
from dialeval.errors import DataError
from dialeval.scores import Score, Scores

_PREFIX = {"train": "train", "dev": "valid"}
_VIEWS = ("both", "self", "none", "other")
_LINE = re.compile(r"([0-9]+) (.*)", re.DOTALL)
_PERSONAS = {"your persona:": "speaker2", "partner's persona:": "speaker1"}
_SILENCE = "__SILENCE__"


def _read(folder: Path, part: Part) -> Iterator[Dialogue]:
    names = [
        f"{_PREFIX[part]}_{view}_{kind}{ending}.txt"
        for kind in ("original", "revised")
        for view in _VIEWS
        for ending in ("_no_cands", "")
    ]
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        raise MissingPartError(f"no file of the part {part!r}", file=folder, fix=f"expected, say, {names[0]}")
    taken: set[str] = set()
    block: list[str] = []
    for number, line in enumerate(text_lines(path), 1):
        if not line:
            continue
        found = _LINE.fullmatch(line)
        if not found:
            raise DataError("a line begins with its number and a blank", file=path, line=number)
        if found[1] == "1" and block:
            yield _dialogue(block, taken)
            block = []
        block.append(found[2])
    if block:
        yield _dialogue(block, taken)


def _dialogue(block: list[str], taken: set[str]) -> Dialogue:
    turns: list[tuple[str, str | None]] = []
    personas: dict[str, list[str]] = {}
    for line in block:
        owner = next((prefix for prefix in _PERSONAS if line.startswith(prefix)), None)
        if owner:
            said = line.removeprefix(owner).removeprefix(" ")
            personas.setdefault(_PERSONAS[owner], []).append(said)
        else:
            pair = zip(("speaker1", "speaker2"), line.split("\t"), strict=False)
            turns.extend((speaker, text) for speaker, text in pair if text != _SILENCE)
    text = "\n".join(block)
    return dialogue(turns, unused(f"convai2-{digest(text)}", taken), meta={"personas": personas})


class _Message(msgspec.Struct):
    sender: str
    text: str | None


class _Chat(msgspec.Struct):
    dialog_id: str
    dialog: list[_Message]
    bot_profile: list[str] = []
    user_profile: list[str] = []
    eval_score: Cell = None
    profile_match: Cell = None


_SENDERS = {"participant1": "user", "participant2": "assistant"}


def _chats(folder: Path) -> list[_Chat]:
    return load(original(folder, "convai2_data.json"), list[_Chat])


def _read_wild(folder: Path, part: Part) -> Iterator[Dialogue]:
    for chat in _chats(folder):
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


def _rate_wild(folder: Path) -> Scores:
    return rated("convai2-wild", _rows(folder))


def _rows(folder: Path) -> Iterator[Score]:
    for chat in _chats(folder):
        for dimension, cell in (("overall", chat.eval_score), ("profile match", chat.profile_match)):
            yield Score(chat.dialog_id, None, None, "human:user", dimension, *rating(cell))


SETS = {
    "convai2": PublicSet(
        name="convai2",
        title="ConvAI2 (PersonaChat): two people with personas",
        folder="convai2",
        licence="none stated",
        home="github.com/hongbozhang0808/Convai2 (a copy)",
        read=_read,
        parts=("train", "dev"),
    ),
    "convai2-wild": PublicSet(
        name="convai2-wild",
        title="ConvAI2 wild evaluation: volunteers rate competition bots",
        folder="convai2_wild",
        licence="none stated for the data (repository: GPL-3)",
        home="github.com/raffaele-aurucci/AutomaticDialogueEvaluation (_datasets/convai2_data.json)",
        read=_read_wild,
        rate=_rate_wild,
        golds=(Gold("overall", "dialogue"),),
    ),
}
