"""Recipes of another package, as it would register them, and dialogues that they can learn from.

`toy` tells good dialogues from bad ones by the lengths of turns, or, given an encoder, by their words;
`toy-acts` tells questions from the rest by the annotated segments of turns.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from dialeval.dialogues import Dialogue, dialogue, formats, scored_turns
from dialeval.training import Head, PairExample, TrainingSettings, VectorExample, pair_recipe, vector_recipe

HEADS = (Head("good", "binary"),)
QUESTION = (Head("question", "binary"),)
QUICK = TrainingSettings(batch=8, epochs=8, learning_rate=1e-2, threads=1, save_every=2)
GOOD = ("the train to rome leaves at nine", "you can change in milan", "glad that i could help you")
BAD = ("banana", "no", "what what")
ASKED = ("when is the next train to rome", "is there a seat by the window", "thank you very much")


def accuracy(predictions, targets) -> float:
    """The share that is right, after a pause in which a test can pull the plug."""
    time.sleep(float(os.environ.get("TOY_PAUSE", "0")))
    (name,) = predictions
    return float(np.mean((predictions[name] > 0.5) == targets[name]))


def lengths(dialogues: Iterable[Dialogue]) -> Iterator[VectorExample]:
    for chat in dialogues:
        sizes = [len(chat.turns[turn].text) for turn in scored_turns(chat)]
        yield VectorExample(np.array([np.mean(sizes), np.max(sizes)]), {"good": chat.meta["good"]})


def pairs(dialogues: Iterable[Dialogue]) -> Iterator[PairExample]:
    for chat in dialogues:
        for turn in scored_turns(chat):
            yield PairExample(
                (chat.turns[turn - 1].text,), chat.turns[turn].text, {"good": chat.meta["good"]}
            )


def segments(dialogues: Iterable[Dialogue]) -> Iterator[VectorExample]:
    for chat in dialogues:
        for turn in chat.turns:
            for segment in turn.meta.get("segments", ()):
                features = np.array([float(segment["text"].endswith("?")), float(len(segment["text"]))])
                yield VectorExample(features, {"question": float(segment["act"] == "question")})


def toy(encoder: str | None):
    """Tell good from bad by lengths, or by words with an encoder.

    Only the first line is shown.
    """
    if encoder:
        return pair_recipe("toy-pairs", HEADS, pairs, "accuracy", QUICK, encoder)
    return vector_recipe("toy", HEADS, lengths, accuracy, QUICK, hidden=(8,), about="A toy.")


def acts(encoder: str | None):
    """Tell questions from the rest."""
    return vector_recipe("toy-acts", QUESTION, segments, accuracy, QUICK, hidden=(4,))


def install(folder: Path) -> Path:
    """Write what pip would about a package with these recipes; the folder must be on the path."""
    info = folder / "toy_recipes-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-recipes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[dialeval.recipes]\n"
        "toy = toy_recipes:toy\n"
        "toy-acts = toy_recipes:acts\n"
        "broken = no_such_package:recipe\n"
        "number = toy_recipes:HEADS\n"
        "segment-act = toy_recipes:toy\n"
    )
    return folder


def chats(count: int, name: str = "chat") -> list[Dialogue]:
    made = []
    for number in range(count):
        replies = GOOD if number % 2 else BAD
        said = [
            ASKED[number % 3],
            replies[number % 3],
            f"{ASKED[number // 3 % 3]} {name} {number}",
            replies[0],
        ]
        turns = [("user" if place % 2 == 0 else "assistant", text) for place, text in enumerate(said)]
        made.append(dialogue(turns, f"{name}-{number}", meta={"good": number % 2}))
    return made


def write_chats(path: Path, count: int, name: str = "chat") -> Path:
    formats.write(chats(count, name), path)
    return path


def write_actdial(folder: Path, splits: Iterable[str], dialogues: int = 12) -> Path:
    """Write invented segments in ActDial's format, one file for each split."""
    folder.mkdir(parents=True)
    for split in splits:
        rows = []
        for number in range(dialogues):
            for place, (text, act) in enumerate(
                [
                    (f"Which of the {number} {split or 'plain'} boats goes to the old harbour?", "question"),
                    (f"Boat {number} of {split or 'plain'} leaves from the second pier at noon.", "inform"),
                    (f"And when does {split or 'plain'} boat {number} come back to this side?", "question"),
                ]
            ):
                index = "_".join(["boats", *([split] if split else []), str(number), str(place), "0"])
                rows.append({"index": index, "fs_text": text, "annotation": act})
        (folder / f"{split or 'all'}.json").write_text(json.dumps(rows))
    return folder
