"""Controllable Dialogue: people talking to three persona models, with segment acts and one rating each.

The dialogues come cut into segments, as in ActDial (see `actdial` for how they are put together again),
without saying who speaks. `first_speaker.json`, which is no part of the original, says who opens; speakers
alternate. Where it does not know, or is not there, the speakers are `speaker1` and `speaker2` and the
dialogue's meta has a note. `meta["personas"]` are the sentences both sides were given, not told apart.

One crowd worker rated each dialogue as a whole, without knowing which side was the model: `human:1`.
The file codes `contradict` and `repeat` so that 1 is good; the dimensions here are named for that:
`no contradiction`, `no repetition`, `relevancy`, `consistency` (0 or 1) and `overall` (1 to 5).
The official validation list is the part `dev`, everything else `test`.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from dialeval.dialogues.datasets.actdial import read_segments, segment_turns
from dialeval.dialogues.datasets.publicset import Gold, Part, PublicSet
from dialeval.dialogues.datasets.ratings import Cell, by_position
from dialeval.dialogues.datasets.rawfiles import load, original, rated
from dialeval.dialogues.dialogue import Dialogue, dialogue
from dialeval.scores import Score, Scores

_SPEAKERS = {"human": ("user", "assistant"), "model": ("assistant", "user")}
_DIMENSIONS = {
    "relevant": "relevancy",
    "contradict": "no contradiction",
    "consistent": "consistency",
    "repeat": "no repetition",
}


class _Split(msgspec.Struct):
    valid: list[str]


def _read(folder: Path, part: Part) -> Iterator[Dialogue]:
    chats = read_segments(folder / "controllable_dialogue.json")
    personas = load(original(folder, "dialog_id_to_persona.json"), dict[str, list[str]])
    held_out = set(load(original(folder, "controllable_dialogue_split.json"), _Split).valid)
    openers: dict[str, str | None] = {}
    if (folder / "first_speaker.json").is_file():
        openers = load(original(folder, "first_speaker.json"), dict[str, str | None])
    for name, utterances in chats.items():
        if (name in held_out) != (part == "dev"):
            continue
        known = _SPEAKERS.get(openers.get(name) or "")
        note = {} if known else {"note": "not known who of the two is the system"}
        turns = segment_turns(utterances, known or ("speaker1", "speaker2"))
        yield dialogue(turns, name, system=_system(name), meta={"personas": personas.get(name, []), **note})


def _system(name: str) -> str:
    """Return the model of a dialogue: `baseline_model` of `baseline_model_12`."""
    return name.rpartition("_")[0]


def _rate(folder: Path) -> Scores:
    return rated("controllable", _rows(folder))


def _rows(folder: Path) -> Iterator[Score]:
    shape = dict[str, dict[str, list[Cell] | Cell]]
    for name, ratings in load(original(folder, "dialog_id_to_score.json"), shape).items():
        lists = {
            _DIMENSIONS.get(dimension, dimension): cell if isinstance(cell, list) else [cell]
            for dimension, cell in ratings.items()
        }
        yield from by_position(name, None, _system(name), lists)


SETS = {
    "controllable": PublicSet(
        name="controllable",
        title="Controllable Dialogue: persona models, segment acts and dialogue ratings",
        folder="controllable_dialogue",
        licence="none stated",
        home="github.com/Jianqiao-Zhao/FlowEval (Controllable_Dialogue)",
        read=_read,
        parts=("dev", "test"),
        rate=_rate,
        golds=(Gold("overall", "dialogue"),),
    )
}
