"""Requests and answers of the service: structs, the OpenAPI document made from them, and what is refused.

Two kinds of wrong are told apart. A body that is not of the shape the OpenAPI document shows is 400. One that
is, but cannot be scored (two dialogues with one id, a reference to a turn that is not there), is 422.
"""

import json
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NoReturn

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from dialeval import __version__
from dialeval.annotation.web import Refusal
from dialeval.dialogues import Dialogue
from dialeval.dialogues.formats.reading import named
from dialeval.dialogues.formats.shapes import parse_record, shape_named
from dialeval.errors import DataError

_MESSAGES = shape_named("messages")
_TURN_KEY = "[0-9]{1,9}"
_PLACE = re.compile(r" - at `(key in )?\$\.?(?P<place>[^`]*)`$")
_TurnKey = Annotated[str, Meta(extra_json_schema={"pattern": f"^{_TURN_KEY}$"})]
_Metadata = Annotated[dict[str, Any], Meta(description="Whatever else is known; kept out of the scores.")]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one service takes on; beyond that it refuses, so that no request can starve the others.

    Args:
        body: The most bytes of one request.
        turns: The most turns of one request.
        waiting: The most requests that wait to be scored; the next one is told to come again.
        seconds: The longest a request may take, to be read and to be scored.
        together: How many turns, of requests that wait at the same time, are scored in one pass.
    """

    body: int = 8 << 20
    turns: int = 5_000
    waiting: int = 256
    seconds: float = 60.0
    together: int = 2_000


class RequestMessage(Struct):
    """One turn; other fields are kept as metadata."""

    role: Annotated[str, Meta(description="`user`, `assistant`, `system`, `tool`, or a name.")]
    content: Annotated[
        str | list[Any] | None,
        Meta(description="Text; or parts, of which those with `text` are joined; or nothing."),
    ]
    meta: _Metadata = {}


class RequestDialogue(Struct, forbid_unknown_fields=True):
    """One dialogue to score."""

    messages: list[RequestMessage]
    id: Annotated[str, Meta(description="Made from the content if it is missing or empty.")] = ""
    system: str | None = None
    references: Annotated[
        dict[_TurnKey, list[str]], Meta(description="Good replies by turn number, from 0.")
    ] = {}
    meta: _Metadata = {}


class ScoreRequest(Struct, forbid_unknown_fields=True):
    """Dialogues to score, and the sources to score them by; without `sources`, all of them."""

    dialogues: list[RequestDialogue]
    sources: Annotated[list[str], Meta(min_length=1)] | UnsetType = UNSET


class ScoreRow(Struct, forbid_unknown_fields=True):
    """One score."""

    dialogue_id: str
    turn: Annotated[int | None, Meta(description="null is the whole dialogue.")]
    system: str | None
    source: str
    dimension: str
    value: Annotated[float | None, Meta(description="null is unscored; the note says why.")]
    note: str | None


class ScoredDialogue(Struct, forbid_unknown_fields=True):
    """The scores of one dialogue."""

    id: str
    scores: list[ScoreRow]


class ScoreAnswer(Struct, forbid_unknown_fields=True):
    """One item for each dialogue, in the order asked, and the signature of each source."""

    dialogues: list[ScoredDialogue]
    signatures: dict[str, str]


class SourceDescription(Struct, forbid_unknown_fields=True):
    """One source that can be asked for."""

    source: str
    metric: str
    what: str
    dimensions: list[str]
    better: Annotated[
        str | dict[str, str], Meta(description="higher, lower or neither; or that for some dimensions.")
    ]
    fields: dict[str, Any]
    signature: str


class SourceList(Struct, forbid_unknown_fields=True):
    """All sources."""

    sources: list[SourceDescription]


class ErrorAnswer(Struct, forbid_unknown_fields=True):
    """The problem, its place, and its fix."""

    error: str
    field: str | None
    fix: str | None


class HealthAnswer(Struct, forbid_unknown_fields=True):
    """A score can be made."""

    status: Literal["ok"]
    dialeval: str


_EXAMPLE = {
    "dialogues": [
        {
            "id": "d1",
            "messages": [
                {"role": "user", "content": "Do you like jazz?"},
                {"role": "assistant", "content": "Yes, I love jazz, do you play?"},
            ],
        }
    ]
}
_ERRORS = {
    400: "Not JSON, or not of the shape shown here; `field` names the place.",
    401: "The token is missing or wrong.",
    408: "The request took too long to arrive.",
    413: "More bytes, or more turns, than one request may hold.",
    415: "Only `application/json` is read.",
    421: "The service does not go by the name in the `Host` header.",
    422: "Of the right shape, yet it cannot be scored: an id used twice, a reference to a turn not there.",
    500: "Something went wrong here.",
    503: "Too many wait already, or no score can be made now; come again after `Retry-After` seconds.",
    504: "Not scored in time; a smaller request may be.",
}
_STRUCTS = (ScoreRequest, ScoreAnswer, SourceList, ErrorAnswer, HealthAnswer)


def openapi_document(sources: Collection[str], limits: Limits, *, token: bool) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of a service; its schemas are those of the structs above.

    Args:
        sources: The names that may be asked for.
        token: Whether everything but `/health` needs the token.
    """
    _, schemas = msgspec.json.schema_components(_STRUCTS, ref_template="#/components/schemas/{name}")
    schemas["ScoreRequest"]["properties"]["sources"]["items"]["enum"] = list(sources)
    schemas["ScoreRow"]["properties"]["source"]["enum"] = list(sources)
    common = (408, 413, 421, 500)
    locked = (401, *common) if token else common
    score = {
        **_operation("score", "", _json("ScoreAnswer"), 400, *locked, 415, 422, 503, 504),
        "summary": f"Score dialogues: at most {limits.turns} turns and {limits.body} bytes.",
        "requestBody": {"required": True, "content": _json("ScoreRequest", example=_EXAMPLE)},
    }
    text, schema = {"text/plain": {"schema": {"type": "string"}}}, {"schema": {"type": "object"}}
    health = _operation("health", "Whether a score can be made.", _json("HealthAnswer"), *common, 503)
    reading = {
        "/sources": _operation("sources", "What can be asked for.", _json("SourceList"), *locked),
        "/metrics": _operation("metrics", "Figures for Prometheus.", text, *locked),
        "/openapi.json": _operation("openapi", "This document.", {"application/json": schema}, *locked),
    }
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "dialeval",
            "version": __version__,
            "description": "Scores for dialogues, turn by turn.",
        },
        "paths": {
            "/health": {"get": {**health, "security": []}},
            "/score": {"post": score},
            **{path: {"get": operation} for path, operation in reading.items()},
        },
        "components": {"schemas": schemas},
    }
    if token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return document


def _json(name: str, **more: Any) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}, **more}}


def _operation(name: str, summary: str, good: dict[str, Any], *statuses: int) -> dict[str, Any]:
    """Describe a route: the answer with status 200, and an `ErrorAnswer` for each other status."""
    answers: dict[str, Any] = {"200": {"description": "Fine.", "content": good}}
    for status in statuses:
        answers[str(status)] = {"description": _ERRORS[status], "content": _json("ErrorAnswer")}
    if 503 in statuses:
        answers["503"]["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
    return {"operationId": name, "summary": summary, "responses": answers}


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A checked request: dialogues with ids, the sources to ask, and how many turns that is."""

    dialogues: list[Dialogue]
    sources: tuple[str, ...]
    turns: int


def parse(body: bytes, sources: Collection[str], most_turns: int) -> ParsedRequest:
    r"""Read the body of a request.

    Args:
        body: JSON as the OpenAPI document shows it.
        sources: The names that may be asked for; all of them where the body names none.
        most_turns: More than these are refused (413).

    >>> parse(b'{"dialogues": [{"messages": [{"role": "user", "content": "Hi"}]}]}', ["length"], 9).turns
    1
    """
    record = _decoded(body)
    shape = _shape(record, sources)
    turns = sum(len(dialogue.messages) for dialogue in shape.dialogues)
    if turns > most_turns:
        raise Refusal(413, f"{turns} turns in one request; at most {most_turns}", fix="send several requests")
    dialogues = [_dialogue(dialogue, number) for number, dialogue in enumerate(record["dialogues"])]
    return ParsedRequest(_named(dialogues), tuple(dict.fromkeys(shape.sources or sources)), turns)


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body.decode(), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise Refusal(400, f"not UTF-8: {error.reason}", field=f"byte {error.start}") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise Refusal(400, f"not JSON: {error.msg}", field=place) from None
    except RecursionError:
        raise Refusal(400, "nested too deeply") from None
    except ValueError as error:  # a number of 5,000 digits
        raise Refusal(400, f"not JSON: {error}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise Refusal(400, f"not JSON: {name} is no number", fix="null where there is none")


def _shape(record: Any, sources: Collection[str]) -> ScoreRequest:
    """Check the shape of a body, and of nothing inside `meta`."""
    try:
        shape = msgspec.convert(record, ScoreRequest)
    except msgspec.ValidationError as error:
        match = _PLACE.search(str(error))
        place, message = match["place"] if match else None, _PLACE.sub("", str(error))
        raise Refusal(400, message, field=place, fix="see /openapi.json") from None
    except RecursionError:
        raise Refusal(400, "nested too deeply") from None
    except UnicodeEncodeError:  # a field whose name is half a character
        raise Refusal(400, "the name of a field is not text", fix="see /openapi.json") from None
    for number, name in enumerate(shape.sources or ()):
        if name not in sources:
            raise Refusal(
                400,
                f"no source {name[:80]!r} here",
                field=f"sources[{number}]",
                fix=f"there are: {', '.join(sources)}",
            )
    for number, dialogue in enumerate(shape.dialogues):
        for key in dialogue.references:
            if not re.fullmatch(_TURN_KEY, key):
                raise Refusal(
                    400,
                    f"{key[:20]!r} is no turn",
                    field=f"dialogues[{number}].references",
                    fix="keys are turn numbers, from 0",
                )
    return shape


def _dialogue(record: dict[str, Any], number: int) -> Dialogue:
    try:
        return parse_record(record, _MESSAGES, None, number)[0][0]
    except DataError as error:
        message = str(error).removeprefix(f"{error.field}: ").removesuffix(f" ({error.fix})")
        place = f"dialogues[{number}]" + (f".{error.field}" if error.field else "")
        raise Refusal(422, message, field=place, fix=error.fix) from None


def _named(dialogues: list[Dialogue]) -> list[Dialogue]:
    """Give dialogues without an id the hash of their content, and refuse one id for two dialogues."""
    first: dict[str, int] = {}
    for number, dialogue in enumerate(dialogues):
        if dialogue.id and first.setdefault(dialogue.id, number) != number:
            raise Refusal(
                422,
                f"the id of this dialogue is that of dialogues[{first[dialogue.id]}]",
                field=f"dialogues[{number}].id",
                fix="ids must be unique; leave them out to have them made",
            )
    counts = Counter(first.keys())
    return [dialogue if dialogue.id else named(dialogue, counts) for dialogue in dialogues]
