"""A file of predictions in logged dialogues: what is missing or too much is counted, not lost."""

import json
from pathlib import Path

import pytest

from dialeval.dialogues import dialogue
from dialeval.dialogues.contexts import system_replies
from dialeval.errors import DataError

LOGGED = [
    dialogue([("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")], name)
    for name in ("mul0001", "sng0002", "sng0003")
]


def test_replies_take_the_place_of_the_logged_ones(tmp_path: Path) -> None:
    path = tmp_path / "bot.json"
    said = {
        "MUL0001.json": [{"response": "x", "state": {}}, {"response": "y"}, {"response": "z"}],
        "SNG0002": ["only"],
        "other": ["?"],
    }
    path.write_text(json.dumps(said))
    found = system_replies(path, LOGGED)
    assert (found.system, found.missing, found.unknown, found.short, found.extra) == ("bot", 1, 1, 1, 1)
    first, second = found.dialogues
    assert [turn.text for turn in first.turns] == ["a", "x", "c", "y"]
    assert [turn.text for turn in second.turns] == ["a", "only", "c", ""]
    assert (first.id, first.system, first.references) == ("mul0001", "bot", {1: ["b"], 3: ["d"]})


def test_another_shape_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bot.json"
    path.write_text('["x"]')
    with pytest.raises(DataError, match=r"bot\.json"):
        system_replies(path, LOGGED)
