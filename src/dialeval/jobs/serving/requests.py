"""A body → dialogues and sources, or a refusal that names the place and the fix.

Two kinds of wrong are told apart. A body that is not of the shape the OpenAPI document shows is 400. One that
is, but cannot be scored (two dialogues with one id, a reference to a turn that is not there), is 422.
"""

import json
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec

from dialeval.dialogues import Dialogue
from dialeval.dialogues.dialogue import content_id
from dialeval.dialogues.formats.records import SHAPES, parse_record
from dialeval.errors import DataError

_MESSAGES = next(shape for shape in SHAPES if shape.name == "messages")
TURN_KEY = "[0-9]{1,9}"
_PLACE = re.compile(r" - at `(key in )?\$\.?(?P<place>[^`]*)`$")


class Refusal(Exception):  # noqa: N818  # not an error of ours: an answer to somebody
    """A request that is turned down, with words for whoever sent it."""

    def __init__(self, status: int, error: str, field: str | None = None, fix: str | None = None) -> None:
        super().__init__(error)
        self.status, self.error, self.field, self.fix = status, error, field, fix


class _Message(msgspec.Struct):
    role: str
    content: str | list[Any] | None
    meta: dict[str, Any] = {}


class _Dialogue(msgspec.Struct, forbid_unknown_fields=True):
    messages: list[_Message]
    id: str = ""
    system: str | None = None
    references: dict[str, list[str]] = {}
    meta: dict[str, Any] = {}


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    dialogues: list[_Dialogue]
    sources: list[str] = []


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks for."""

    dialogues: list[Dialogue]
    sources: tuple[str, ...]
    turns: int


def parse(body: bytes, sources: Collection[str], most_turns: int) -> Asked:
    r"""Read the body of a request.

    Args:
        body: JSON as the OpenAPI document shows it.
        sources: The names that may be asked for; all of them where the body names none.
        most_turns: More than these are refused (413).

    >>> parse(b'{"dialogues": [{"messages": [{"role": "user", "content": "Hi"}]}]}', ["length"], 9).turns
    1
    """
    record = _json(body)
    shape = _shape(record, sources)
    turns = sum(len(one.messages) for one in shape.dialogues)
    if turns > most_turns:
        raise Refusal(413, f"{turns} turns in one request; at most {most_turns}", fix="send several requests")
    found = [_dialogue(one, number) for number, one in enumerate(record["dialogues"])]
    return Asked(_named(found), tuple(dict.fromkeys(shape.sources or sources)), turns)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body.decode(), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise Refusal(400, f"not UTF-8: {error.reason}", f"byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise Refusal(400, f"not JSON: {error.msg}", f"line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise Refusal(400, "nested too deeply") from None
    except ValueError as error:  # a number of 5,000 digits
        raise Refusal(400, f"not JSON: {error}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise Refusal(400, f"not JSON: {name} is no number", fix="null where there is none")


def _shape(record: Any, sources: Collection[str]) -> _Body:
    """Check the shape of a body, and of nothing inside `meta`."""
    try:
        shape = msgspec.convert(record, _Body)
    except msgspec.ValidationError as error:
        place = _PLACE.search(str(error))
        message = _PLACE.sub("", str(error))
        raise Refusal(400, message, place["place"] if place else None, "see /openapi.json") from None
    except RecursionError:
        raise Refusal(400, "nested too deeply") from None
    except UnicodeEncodeError:  # a field whose name is half a character
        raise Refusal(400, "the name of a field is not text", fix="see /openapi.json") from None
    if "sources" in record and not shape.sources:
        raise Refusal(400, "names no source", "sources", "leave it out to have all of them")
    for number, name in enumerate(shape.sources):
        if name not in sources:
            known = ", ".join(sources)
            raise Refusal(400, f"no source {name[:80]!r} here", f"sources[{number}]", f"there are: {known}")
    for number, one in enumerate(shape.dialogues):
        for key in one.references:
            if not re.fullmatch(TURN_KEY, key):
                raise Refusal(
                    400,
                    f"{key[:20]!r} is no turn",
                    f"dialogues[{number}].references",
                    "keys are turn numbers, from 0",
                )
    return shape


def _dialogue(record: dict[str, Any], number: int) -> Dialogue:
    try:
        return parse_record(record, _MESSAGES, None, number)[0]
    except DataError as error:
        what = str(error).removeprefix(f"{error.field}: ").removesuffix(f" ({error.fix})")
        place = f"dialogues[{number}]" + (f".{error.field}" if error.field else "")
        raise Refusal(422, what, place, error.fix) from None


def _named(dialogues: list[Dialogue]) -> list[Dialogue]:
    """Name the nameless by their content, as files are read, and refuse one id for two dialogues."""
    first: dict[str, int] = {}
    for number, one in enumerate(dialogues):
        if one.id and first.setdefault(one.id, number) != number:
            raise Refusal(
                422,
                f"the id of this dialogue is that of dialogues[{first[one.id]}]",
                f"dialogues[{number}].id",
                "ids must be unique; leave them out to have them made",
            )
    made, counts = [], Counter[str](first.keys())
    for one in dialogues:
        name = one.id
        if not name:
            name = content_id(one)
            counts[name] += 1
            name = name if counts[name] == 1 else f"{name}-{counts[name]}"
        made.append(one if one.id else msgspec.structs.replace(one, id=name))
    return made
