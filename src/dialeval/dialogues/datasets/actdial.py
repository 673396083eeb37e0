"""ActDial: ConvAI2 and DailyDialog cut into segments, each with the act that three people agreed on.

Its authors publish lists of segments: `index` is `<corpus>_<split>_<dialogue>_<utterance>_<segment>`,
`fs_text` the text, `annotation` the act, `annotation_raw` the three raters' acts. Put the unpacked JSON
files, whatever they are called, into the folder `actdial`. Two people speak in turn: `speaker1`, `speaker2`.

A turn's acts are in its meta: `segments`, a list of `{"text", "act"}`, with `votes` where the raw acts are
published. Its text is the segments joined: blanks at a seam are kept as they are; where a seam has none,
one is put in, except before closing punctuation. A segment whose text is null adds nothing and keeps its act.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from dialeval.dialogues.datasets.publicset import MissingPartError, Part, PublicSet
from dialeval.dialogues.datasets.rawfiles import load
from dialeval.dialogues.dialogue import Dialogue, Turn, clean_text, clean_turn, dialogue
from dialeval.errors import DataError

_PARTS = {"train": "train", "valid": "dev", "validation": "dev", "val": "dev", "dev": "dev", "test": "test"}
_INDEX = re.compile(r"(.+)_([0-9]{1,9})_([0-9]{1,9})")
_CLOSING = tuple("?!.,;:)]}…")


class Segment(msgspec.Struct, frozen=True):
    """A stretch of an utterance with its act, as published."""

    index: str
    fs_text: str | None
    annotation: str | None
    annotation_raw: list[str] | None = None


Utterances = dict[int, list[Segment]]  # utterance number -> its segments


def read_segments(path: Path) -> dict[str, Utterances]:
    """Read a file of segments: dialogue -> utterance number -> segments, all in order."""
    found: dict[str, dict[tuple[int, int], Segment]] = {}
    for segment in load(path, list[Segment]):
        match = _INDEX.fullmatch(segment.index)
        if not match:
            raise DataError(
                f"not <dialogue>_<utterance>_<segment>: {segment.index[:60]!r}", file=path, field="index"
            )
        place = (int(match[2]), int(match[3]))
        if found.setdefault(match[1], {}).setdefault(place, segment) is not segment:
            raise DataError(f"{segment.index} is there twice", file=path, field="index")
    chats: dict[str, Utterances] = {}
    for name, segments in found.items():
        utterances = chats.setdefault(name, {})
        for (number, _), segment in sorted(segments.items(), key=lambda item: item[0]):
            utterances.setdefault(number, []).append(segment)
    return chats


def segment_turns(utterances: Utterances, speakers: tuple[str, str]) -> list[Turn]:
    """Make turns of segmented utterances; who speaks follows from an utterance's number.

    >>> hello = [Segment("d_0_0", "Hey.", "greeting"), Segment("d_0_1", "You?", "question")]
    >>> turn = segment_turns({0: hello}, ("user", "assistant"))[0]
    >>> turn.text, turn.meta["segments"][1]
    ('Hey. You?', {'text': 'You?', 'act': 'question'})
    """
    turns = []
    for number, segments in utterances.items():
        said = [clean_text(segment.fs_text or "")[0] for segment in segments]
        acts = [_act(segment, text) for segment, text in zip(segments, said, strict=True)]
        silent = all(segment.fs_text is None for segment in segments)
        turns.append(clean_turn(speakers[number % 2], None if silent else join(said), {"segments": acts}))
    return turns


def _act(segment: Segment, text: str) -> dict[str, Any]:
    votes = {} if segment.annotation_raw is None else {"votes": segment.annotation_raw}
    return {"text": text, "act": segment.annotation, **votes}


def join(texts: list[str]) -> str:
    """Put the segments of an utterance together again.

    >>> join(["Hi", " there.", "How are you?", "?"])
    'Hi there. How are you??'
    """
    whole = ""
    for text in texts:
        open_seam = whole and text and not whole[-1].isspace() and not text[0].isspace()
        whole += f" {text}" if open_seam and not text.startswith(_CLOSING) else text
    return whole


def _read(folder: Path, part: Part) -> Iterator[Dialogue]:
    paths = [path for path in sorted(folder.rglob("*.json")) if not path.name.startswith(".")]
    homes: dict[str, Path] = {}
    empty = True
    for path in paths:
        for name, utterances in read_segments(path).items():
            if homes.setdefault(name, path) != path:
                raise DataError(f"the dialogue {name} is also in {homes[name]}", file=path, fix="keep one")
            if _part(name, path) == part:
                empty = False
                turns = segment_turns(utterances, ("speaker1", "speaker2"))
                yield dialogue(turns, name, meta={"corpus": name.split("_")[0]})
    if empty:
        raise MissingPartError(f"no dialogue of the part {part!r}", file=folder, fix="unpack ActDial here")


def _part(name: str, path: Path) -> Part:
    split = name.split("_")[-2:-1]
    if not split or split[0] not in _PARTS:
        raise DataError(f"no <corpus>_<split>_ before the dialogue in {name!r}", file=path, field="index")
    return _PARTS[split[0]]


SETS = {
    "actdial": PublicSet(
        name="actdial",
        title="ActDial: segment acts on ConvAI2 and DailyDialog",
        folder="actdial",
        licence="none stated",
        home="github.com/Jianqiao-Zhao/FlowEval (ActDial)",
        read=_read,
        parts=("train", "dev", "test"),
    )
}
