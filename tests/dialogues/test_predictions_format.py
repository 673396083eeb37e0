"""Files of predictions: found by their shape, read with oddities noted, refused where one would be lost."""

import json
from pathlib import Path
from typing import Any

import pytest

from dialeval.dialogues import Dialogue, formats
from dialeval.errors import DataError


def read(folder: Path, record: Any, indent: int | None = None, name: str = "p.json") -> list[Dialogue]:
    path = folder / name
    path.write_text(record if isinstance(record, str) else json.dumps(record, indent=indent))
    return list(formats.read(path))


@pytest.mark.parametrize("indent", [None, 1])
def test_a_file_of_predictions_is_found_by_its_shape(tmp_path: Path, indent: int | None) -> None:
    turn = {"response": "[name] ?", "state": {"hotel": {"area": "east"}}, "active_domains": ["hotel"]}
    [one] = read(tmp_path, {"sng0073": [turn, {"response": "bye"}]}, indent)
    assert [(turn.speaker, turn.text) for turn in one.turns] == [
        ("assistant", "[name] ?"),
        ("assistant", "bye"),
    ]
    assert one.turns[0].meta == {"state": turn["state"], "active_domains": ["hotel"]}
    assert (one.id, one.meta) == ("sng0073", {})


def test_ids_of_multiwoz_are_written_in_one_way_and_others_are_left(tmp_path: Path) -> None:
    found = read(
        tmp_path, {"SNG0073.json": [], "MUL0003": [], "pmul4648": [], "Case-1.JSON": [], "MULE7": []}
    )
    assert [one.id for one in found] == ["sng0073", "mul0003", "pmul4648", "Case-1.JSON", "MULE7"]
    assert found[0].meta == {"written_id": "SNG0073.json", "note": "id written in another way"}
    assert found[3].meta == {}


def test_wrong_types_become_empty_turns_with_a_note(tmp_path: Path) -> None:
    turns = [{"response": None}, {"response": 7, "state": {}}, 3, "plain text", {"state": {}}]
    one, other = read(tmp_path, {"a": turns, "b": {"response": "not in a list"}})
    assert [(turn.text, turn.meta.get("note")) for turn in one.turns] == [
        ("", "no text"),
        ("", "the response is not text"),
        ("", "not an object with a response"),
        ("plain text", None),
        ("", "no text"),
    ]
    assert (other.turns, other.meta["note"]) == ((), "not a list of turns")


def test_two_ways_to_write_one_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="already used in line 1"):
        read(tmp_path, {"SNG0073.json": [], "sng0073": []})
    with pytest.raises(DataError, match=r"p\.json: the key 'a' stands there twice"):
        read(tmp_path, '{"a": [], "b": [], "a": []}')


def test_a_broken_file_names_its_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"p\.json:2: not JSON"):
        read(tmp_path, '{"a": [\n {"response": }]}')


@pytest.mark.parametrize(
    "record",
    [
        {"id": "d1", "messages": [{"role": "user", "content": "Hi"}]},
        {"conversations": [{"from": "human", "value": "Hi"}]},
        {"messages": [], "response": []},
    ],
)
def test_other_formats_are_not_taken_for_predictions(tmp_path: Path, record: dict[str, Any]) -> None:
    [one] = read(tmp_path, record)
    assert all(turn.speaker == "user" for turn in one.turns)


def test_a_name_says_it_where_the_shape_cannot(tmp_path: Path) -> None:
    path = tmp_path / "predictions"
    path.write_text(json.dumps({"a": None, "b": None}))
    assert [one.id for one in formats.read(path, "predictions")] == ["a", "b"]
