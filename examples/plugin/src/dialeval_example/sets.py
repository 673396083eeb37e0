"""A public set: invented dialogues with ratings, which come with the package.

Sets that do not come with a package name a folder of `DIALEVAL_DATA` (`folder="toychat"`).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dialeval import Dialogue, dialogue
from dialeval.dialogues.datasets import GoldDimension, PublicSet
from dialeval.scores import Score


def _chats(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "toychat.json").read_text(encoding="utf-8"))
    return found


def _read(folder: Path, part: str) -> Iterator[Dialogue]:
    for chat in _chats(folder):
        turns = [("assistant" if place % 2 else "user", text) for place, text in enumerate(chat["said"])]
        yield dialogue(turns, f"toychat-{chat['id']}")


def _rate(folder: Path) -> Iterator[Score]:
    for chat in _chats(folder):
        yield Score(f"toychat-{chat['id']}", None, None, "human:1", "liked", float(chat["liked"]))


TOYCHAT = PublicSet(
    name="toychat",
    title="Toychat: invented, to show how a set is added",
    folder=str(Path(__file__).parent),
    licence="CC0",
    home="https://example.org/toychat",
    read=_read,
    rate=_rate,
    golds=(GoldDimension("liked", "dialogue"),),
)
