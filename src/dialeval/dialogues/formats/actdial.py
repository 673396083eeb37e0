"""ActDial: ConvAI2 and DailyDialog cut into segments, each with the act that three people agreed on.

Its authors publish lists of segments: `index` is `<corpus>_<split>_<dialogue>_<utterance>_<segment>`,
`fs_text` the text, `annotation` the act, `annotation_raw` the three raters' acts. Put the unpacked JSON
files, whatever they are called, into the folder `actdial`. Two people speak in turn: `speaker1`, `speaker2`.

A turn's acts are in its meta: `segments`, a list of `{"text", "act"}`, with `votes` where the raw acts are
published. Its text is the segments joined: blanks at a seam are kept as they are; where a seam has none,
one is put in, except before closing punctuation. A segment whose text is null adds nothing and keeps its act.

`write_segments` writes the same format, and `read_dialogues` reads it from anywhere, whatever the dialogues
are called. The format knows two speakers by even and odd utterance numbers, and nothing of systems,
references or other meta: those are not kept, and neither are system prompts and tools' answers.
"""

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dialeval import files
from dialeval.dialogues.acts import Annotation, annotations
from dialeval.dialogues.datasets.publicset import MissingPartError, Part
from dialeval.dialogues.datasets.rawfiles import load
from dialeval.dialogues.dialogue import Dialogue, Turn, clean_text, clean_turn, dialogue, takes_part
from dialeval.errors import DataError

_PARTS = {"train": "train", "valid": "dev", "validation": "dev", "val": "dev", "dev": "dev", "test": "test"}
_INDEX = re.compile(r"(?s)(.+)_([0-9]{1,9})_([0-9]{1,9})")
_CLOSING = tuple("?!.,;:)]}…")


class PublishedSegment(msgspec.Struct, frozen=True):
    """A stretch of an utterance with its act, as published."""

    index: str
    fs_text: str | None
    annotation: str | None
    annotation_raw: list[str | None] | None = None


Utterances = dict[int, list[PublishedSegment]]  # utterance number -> its segments


def read_segments(path: Path) -> dict[str, Utterances]:
    """Read a file of segments: dialogue -> utterance number -> segments, all in order."""
    found: dict[str, dict[tuple[int, int], PublishedSegment]] = {}
    for segment in load(path, list[PublishedSegment]):
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

    >>> hello = [PublishedSegment("d_0_0", "Hey.", "greeting"), PublishedSegment("d_0_1", "You?", "question")]
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


def _act(segment: PublishedSegment, text: str) -> dict[str, Any]:
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


def holds_segments(path: str | Path) -> bool:
    """Whether a file begins like a list of segments; one that cannot be read does not.

    An empty list holds no dialogue in any format, and is taken for one of segments.
    """
    if not Path(path).is_file():
        return False
    try:
        with files.open_binary(path) as file:
            start = file.read(1 << 16).removeprefix(b"\xef\xbb\xbf").lstrip()
    except (DataError, EOFError, OSError, zlib.error):
        return False
    record = start[1:].lstrip()
    first = record[: record.find(b"}") + 1]
    return start[:1] == b"[" and (record[:1] == b"]" or (b'"fs_text"' in first and b'"index"' in first))


def read_dialogues(path: Path) -> Iterator[Dialogue]:
    """Yield the dialogues of a file of segments, or of all `.json` files in a folder and its folders.

    Raises:
        DataError: If a file is no list of segments, a folder has none, or two have a dialogue of one name.
    """
    if path.is_dir() and not any(path.rglob("*.json")):
        raise DataError("no .json file of segments in this folder", file=path)
    for name, utterances, _ in _chats(path):
        yield _dialogue(name, utterances)


def _chats(path: Path) -> Iterator[tuple[str, Utterances, Path]]:
    inside = [one for one in sorted(path.rglob("*.json")) if not one.name.startswith(".")]
    homes: dict[str, Path] = {}
    for one in inside if path.is_dir() else [path]:
        for name, utterances in read_segments(one).items():
            if homes.setdefault(name, one) != one:
                raise DataError(f"the dialogue {name} is also in {homes[name]}", file=one, fix="keep one")
            yield name, utterances, one


def part_of(name: str) -> Part | None:
    """Return the part of ActDial that a dialogue is named for, if it is.

    >>> part_of("dailydialog_valid_12"), part_of("baseline_model_0")
    ('dev', None)
    """
    split = name.split("_")[-2:-1]
    return _PARTS.get(split[0]) if split else None


def read_part(folder: Path, part: Part) -> Iterator[Dialogue]:
    """Yield the dialogues of a folder that are named for a part of ActDial."""
    empty = True
    for name, utterances, path in _chats(folder):
        found = part_of(name)
        if found is None:
            raise DataError(f"no <corpus>_<split>_ before the dialogue in {name!r}", file=path, field="index")
        if found == part:
            empty = False
            yield _dialogue(name, utterances)
    if empty:
        raise MissingPartError(f"no dialogue of the part {part!r}", file=folder, fix="unpack ActDial here")


def _dialogue(name: str, utterances: Utterances) -> Dialogue:
    corpus = {"corpus": name.split("_", maxsplit=1)[0]} if part_of(name) else {}
    return dialogue(segment_turns(utterances, ("speaker1", "speaker2")), name, meta=corpus)


@dataclass(frozen=True, slots=True)
class Written:
    """The counts of a written file; `skipping` are dialogues in which a number is left out."""

    dialogues: int = 0
    segments: int = 0
    skipping: int = 0
    left_out: int = 0


def write_segments(path: str | Path, dialogues: Iterable[Dialogue]) -> Written:
    """Write dialogues whose turns carry segments as one list of segments, as a stream.

    Utterances are numbered so that the parity says who speaks: where a speaker has two turns in a row, a
    number is skipped, and the two stay two when read again. A turn without text is a segment without text.
    A dialogue without turns is not in the file; what else is not kept is said at the top of this one.

    Raises:
        DataError: If a dialogue has more than two speakers, a turn that nobody has cut into segments, or the
            name of an earlier one; nothing is written then.
    """
    seen: set[str] = set()
    written = segments = skipping = left_out = 0
    with files.replacing(path) as file:
        for made in dialogues:
            if made.id in seen:
                raise DataError(f"two dialogues are called {made.id!r}", file=path, fix="ids must be unique")
            seen.add(made.id)
            placed = _two_speakers(utterance_numbers(made), made.id)
            skipping += bool(placed) and max(placed) >= len(placed)
            written += bool(placed)
            left_out += len(made.turns) - len(placed)
            for number, turn in placed.items():
                for segment in _segments(made.id, number, turn):
                    file.write(b",\n" if segments else b"[\n")
                    file.write(msgspec.json.encode(segment))
                    segments += 1
        file.write(b"\n]\n" if segments else b"[]\n")
    return Written(written, segments, skipping, left_out)


def utterance_numbers(dialogue: Dialogue) -> dict[int, Turn]:
    """Number the turns that take part so that the first speaker's are even and the second's odd.

    Where more than two speak, nobody can be told by a number, and turns are just counted.

    >>> chat = dialogue([("user", "Hi"), ("user", "Still there?"), ("assistant", "Yes.")], "d1")
    >>> list(utterance_numbers(chat))
    [0, 2, 3]
    """
    turns = [turn for turn in dialogue.turns if takes_part(turn)]
    speakers = list(dict.fromkeys(turn.speaker for turn in turns))
    if len(speakers) > 2:
        return dict(enumerate(turns))
    placed: dict[int, Turn] = {}
    number = -1
    for turn in turns:
        number += 1 if (number + 1) % 2 == speakers.index(turn.speaker) else 2
        placed[number] = turn
    return placed


def indexed(dialogue: Dialogue) -> Iterator[tuple[str, Annotation]]:
    """Yield the annotated segments of a dialogue, each with the index it has in a written file."""
    for number, turn in utterance_numbers(dialogue).items():
        for place, one in enumerate(annotations(turn) or ()):
            yield f"{dialogue.id}_{number}_{place}", one


def _two_speakers(placed: dict[int, Turn], name: str) -> dict[int, Turn]:
    speakers = dict.fromkeys(turn.speaker for turn in placed.values())
    if len(speakers) > 2:
        raise DataError(
            f"dialogue {name!r} has {len(speakers)} speakers: {', '.join(speakers)[:80]}",
            fix="segments in the ActDial format have two; write .jsonl instead",
        )
    return placed


def _segments(name: str, number: int, turn: Turn) -> Iterator[dict[str, Any]]:
    found = annotations(turn)
    if found is None and turn.text.strip():
        raise DataError(f"dialogue {name!r}: nobody has cut this turn into segments: {turn.text[:60]!r}")
    for place, one in enumerate(found or [Annotation(turn.text, None)]):
        votes = {} if one.votes is None else {"annotation_raw": one.votes}
        text = clean_text(one.text)[0] or None
        yield {"index": f"{name}_{number}_{place}", "fs_text": text, "annotation": one.act, **votes}
