"""What a task-oriented system predicts for a test set.

The common evaluation format of MultiWOZ: `{dialogue id: [{response, state?, active_domains?}]}`. Only the
system's replies are in it, so a dialogue is a sequence of assistant turns. People's files are not clean, and
one bad reply is no reason to refuse a thousand dialogues: what is not of the expected type becomes an empty
turn with a note.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from dialeval.dialogues.datasets.multiwoz import canonical_id
from dialeval.dialogues.dialogue import Dialogue, Turn, clean_text, clean_turn, storable
from dialeval.dialogues.formats.records import SHAPES
from dialeval.errors import DataError

_MULTIWOZ = re.compile(r"(?:p?mul|s?sng|woz)\d+(?:\.json)?", re.IGNORECASE)
_SHAPE = '{"id": [{"response": "…", "state": {…}}]}'


def looks_like(start: bytes) -> bool:
    """Say whether a file is one JSON object with lists of turns in it, by its first line.

    >>> looks_like(b'{"sng0073": [{"response": "[name] ?"}]}'), looks_like(b'{"messages": []}')
    (True, False)
    >>> looks_like(b"{")
    True
    """
    if start.lstrip()[:1] != b"{":
        return False
    try:
        record = json.loads(start)
    except (ValueError, RecursionError):  # an object over several lines: no record of the other formats
        return len(start.strip()) == 1 or _opens_a_list(start)
    if not isinstance(record, dict) or any(shape.matches(record) for shape in SHAPES):
        return False
    return any(isinstance(turns, list) for turns in record.values())


def _opens_a_list(start: bytes) -> bool:
    """Look at a line that breaks off: is its first key one that no record of another format begins with?"""
    found = re.match(rb'\s*\{\s*"([^"\\]*)"\s*:\s*\[', start)
    return found is not None and found[1] not in (b"messages", b"conversations", b"turns", b"dialog")


def read_predictions(path: str | Path, file: BinaryIO, start: bytes) -> Iterator[tuple[int, Dialogue]]:
    """Yield the dialogues of a file of predictions, numbered as they come."""
    with file:
        data = start + file.read()
    try:
        record = json.loads(data, object_pairs_hook=_unique)
    except DataError as error:
        raise DataError(str(error), file=path) from None
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error.reason}", file=path, fix="save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error.msg}", file=path, line=error.lineno, fix=_SHAPE) from None
    except RecursionError:
        raise DataError("nested too deeply", file=path) from None
    except ValueError as error:  # a number of 5,000 digits
        raise DataError(f"not JSON: {error}", file=path, fix=_SHAPE) from None
    if not isinstance(record, dict):
        raise DataError("an object of dialogues is expected", file=path, fix=_SHAPE)
    for number, (name, turns) in enumerate(record.items(), 1):
        try:
            yield number, storable(_dialogue(name, turns))
        except RecursionError:
            raise DataError("nested too deeply", file=path, field=name[:80]) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that stands twice: of two dialogues with one id, one would be lost without a word."""
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(key for key, _ in pairs if sum(key == other for other, _ in pairs) > 1)
        raise DataError(f"the key {twice!r} stands there twice", fix="ids must be unique")
    return made


def _dialogue(name: str, turns: object) -> Dialogue:
    clean = clean_text(name)[0]
    meta: dict[str, Any] = {}
    if _MULTIWOZ.fullmatch(clean) and canonical_id(clean) != clean:
        meta |= {"written_id": clean, "note": "id written in another way"}
        clean = canonical_id(clean)
    if not isinstance(turns, list):
        return Dialogue(clean, (), meta={**meta, "note": "not a list of turns"})
    return Dialogue(clean, tuple(map(_turn, turns)), meta=meta)


def _turn(item: object) -> Turn:
    if isinstance(item, str):
        return clean_turn("assistant", item)
    if not isinstance(item, Mapping):
        return Turn("assistant", "", {"note": "not an object with a response"})
    text = item.get("response")
    meta = {key: value for key, value in item.items() if key != "response"}
    if text is not None and not isinstance(text, str):
        return Turn("assistant", "", {**meta, "note": "the response is not text"})
    return clean_turn("assistant", text, meta)
