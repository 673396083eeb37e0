"""Places in files: what a survey names is where reading goes on."""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from dialeval.dialogues.formats import read
from dialeval.dialogues.formats.positions import Layout, Scan, reread
from dialeval.errors import DataError


def sharegpt(number: int, **more: Any) -> dict[str, Any]:
    said = [{"from": "human", "value": f"Grüße {number}"}, {"from": "gpt", "value": "hi"}]
    return {"id": f"d{number}", "conversations": said, **more}


def write(path: Path, records: list[dict[str, Any]], packed: bool = False) -> Path:
    text = "\ufeff" + "\n".join(json.dumps(record, ensure_ascii=False) + "\r" for record in records)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_every_place_is_a_place_to_begin(packed: bool, tmp_path: Path) -> None:
    path = write(tmp_path / "chats.jsonl", [sharegpt(number) for number in range(7)], packed)
    survey = Scan(str(path))
    found = list(survey)
    assert [one for _, _, one in found] == list(read(path))
    assert (survey.layout.kind, survey.layout.shape) == ("lines", "sharegpt")
    assert survey.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert survey.size == path.stat().st_size
    for place, (start, number, _) in enumerate(found):
        assert list(reread(survey.layout, start, number)) == [one for _, _, one in found[place:]]


def test_the_shape_of_the_file_is_that_of_every_stretch(tmp_path: Path) -> None:
    """A later record that looks like another shape is read as the first ones were."""
    both = sharegpt(1, messages=[{"role": "user", "content": "not this"}])
    path = write(tmp_path / "chats.jsonl", [sharegpt(0), both])
    survey = Scan(str(path))
    (_, _, _), (start, number, whole) = survey
    assert whole.turns[0].text == "Grüße 1"
    assert list(reread(survey.layout, start, number)) == [whole]
    assert next(reread(Layout(str(path), "lines"), start, number)) != whole  # by its own looks


def test_a_line_that_is_wrong_has_its_number(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_text('{"messages": []}\n\n{"messages": [}\n')
    with pytest.raises(DataError, match=r"chats.jsonl:3: column"):
        list(Scan(str(path)))
    packed = tmp_path / "chats.jsonl.gz"
    packed.write_bytes(gzip.compress(b'{"messages": []}\n' * 1000)[:-10])
    with pytest.raises(DataError, match="the compressed file is broken"):
        list(Scan(str(packed)))
