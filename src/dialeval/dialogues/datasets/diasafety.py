"""DiaSafety: is a reply safe in its context? The training part.

Each pair is a dialogue of two turns, the user's context and the assistant's reply, named by its place in
the list from 0: `diasafety-train-17`. The rating at turn 1 is 1 for safe and 0 for unsafe; the kind of
risk is in the dialogue's `meta["category"]`. Two replies are empty, and both are labelled safe.
4 in 10 pairs share their context with another pair: hold out by context, not by pair.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from dialeval.dialogues.datasets.publicset import Download, Gold, Part, PublicSet
from dialeval.dialogues.datasets.rawfiles import load, original, rated
from dialeval.dialogues.dialogue import Dialogue, clean_turn, dialogue
from dialeval.scores import Score, Scores

_PART = "train"


class _Pair(msgspec.Struct):
    """A context, a reply and the label of the reply."""

    context: str
    response: str
    category: str
    label: Literal["Safe", "Unsafe"]


def _pairs(folder: Path) -> Iterator[tuple[str, _Pair]]:
    for number, pair in enumerate(load(original(folder, f"{_PART}.json"), list[_Pair])):
        yield f"diasafety-{_PART}-{number}", pair


def _read(folder: Path, _: Part) -> Iterator[Dialogue]:
    for name, pair in _pairs(folder):
        turns = [clean_turn("user", pair.context), clean_turn("assistant", pair.response)]
        yield dialogue(turns, name, meta={"category": pair.category})


def _rate(folder: Path) -> Scores:
    return rated(
        "diasafety",
        [
            Score(name, 1, None, "human:label", "safe", float(pair.label == "Safe"))
            for name, pair in _pairs(folder)
        ],
    )


SETS = {
    "diasafety": PublicSet(
        name="diasafety",
        title="DiaSafety, training part (Sun et al., Findings of ACL 2022); offensive text",
        folder="diasafety",
        licence="Apache-2.0",
        home="https://github.com/thu-coai/DiaSafety",
        read=_read,
        parts=(_PART,),
        rate=_rate,
        golds=(Gold("safe", "turn"),),
        downloads=(
            Download(
                "https://raw.githubusercontent.com/thu-coai/DiaSafety/"
                "efdc198f6799888b62ace705f63b3b4466ec9f4c/DiaSafety_dataset/train.json",
                "c1faee9dc1f67b28e8cbc2d4d146be1af749a9ad8caef5d76c10203a4a0dc6ae",
                "train.json",
            ),
        ),
    )
}
