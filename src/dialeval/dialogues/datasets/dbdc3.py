"""DBDC3: the English development data of the third Dialogue Breakdown Detection Challenge.

Thirty people say of each system turn whether the dialogue can go on. Here higher is better, so the
dimension is `no-breakdown`: 1 for O (fine), 0.5 for T (possibly), 0 for X (breakdown). The dialogues of CIC
and YI were annotated again under a stricter rule after the challenge; what is in `dev_revised` replaces the
same dialogue in `dev`. A rater is `human:<annotator id>`; where the file has no ids (CIC and YI before
revision) it is the position within the turn. Opening system turns without labels have no ratings.

Ids are `dbdc3-` and the file's own. Whose turn it is to speak varies: either side opens. The paragraphs
beside the CIC dialogues (`*.context`) are not read.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from dialeval.dialogues.datasets.publicset import Gold, Part, PublicSet
from dialeval.dialogues.datasets.rawfiles import load, rated
from dialeval.dialogues.dialogue import Dialogue, dialogue
from dialeval.errors import DataError
from dialeval.scores import Score, Scores

_LABELS = {"O": 1.0, "T": 0.5, "X": 0.0}
_SPEAKERS = {"U": "user", "S": "assistant"}
_SYSTEMS = {"cic": "CIC", "yi": "YI", "iris": "IRIS", "ticktock": "TickTock"}


class _Label(msgspec.Struct):
    breakdown: str | None = None
    rater: str | int | None = msgspec.field(name="annotator-id", default=None)


class _Message(msgspec.Struct):
    speaker: str
    utterance: str | None = None
    annotations: list[_Label] = []


class _Log(msgspec.Struct):
    id: str = msgspec.field(name="dialogue-id")
    turns: list[_Message]


def _logs(folder: Path) -> Iterator[tuple[Path, _Log]]:
    """Yield each dialogue once, the revised annotation where there is one."""
    chosen = {
        path.name: path
        for part in ("dev", "dev_revised")  # the later replaces the earlier
        for path in sorted((folder / part).rglob("*.log.json"))
        if not path.name.startswith(".")
    }
    if not chosen:
        raise DataError("no *.log.json", file=folder / "dev", fix="the challenge's English dev data go here")
    for path in chosen.values():
        yield path, load(path, _Log)


def _read(folder: Path, part: Part) -> Iterator[Dialogue]:
    for path, log in _logs(folder):
        unknown = [message.speaker for message in log.turns if message.speaker not in _SPEAKERS]
        if unknown:
            raise DataError(f"{unknown[0]!r} is neither S nor U", file=path, field="speaker")
        turns = [(_SPEAKERS[message.speaker], message.utterance) for message in log.turns]
        yield dialogue(turns, f"dbdc3-{log.id}", system=_system(log.id))


def _system(id: str) -> str | None:
    letters = re.match("[A-Za-z]*", id)
    return _SYSTEMS.get(letters[0].lower()) if letters else None


def _rate(folder: Path) -> Scores:
    return rated("dbdc3", _rows(folder))


def _rows(folder: Path) -> Iterator[Score]:
    for _, log in _logs(folder):
        system = _system(log.id)
        for turn, message in enumerate(log.turns):
            for position, label in enumerate(message.annotations, 1):
                value = _LABELS.get(label.breakdown or "")
                note = None if value is not None else label.breakdown or "no label"
                source = f"human:{label.rater or position}"
                yield Score(f"dbdc3-{log.id}", turn, system, source, "no-breakdown", value, note)


SETS = {
    "dbdc3": PublicSet(
        name="dbdc3",
        title="DBDC3: dialogue breakdown labels for four chatbots",
        folder="dbdc3",
        licence="MIT (the CIC paragraphs: CC BY-SA 4.0)",
        home="github.com/dbd-challenge/dbdc3",
        read=_read,
        rate=_rate,
        golds=(Gold("no-breakdown", "turn"),),
    )
}
