"""The OpenAPI 3.1 document of the service: exactly what is taken and what is answered."""

from collections.abc import Collection
from typing import Any

from dialeval import __version__
from dialeval.jobs.serving.limits import Limits
from dialeval.jobs.serving.requests import TURN_KEY

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
_META: Schema = {"type": "object", "description": "Whatever else is known; kept out of the scores."}


def _object(properties: dict[str, Schema], *required: str, **more: Any) -> Schema:
    names = list(required or properties)
    return {
        "type": "object",
        "properties": properties,
        "required": names,
        "additionalProperties": False,
        **more,
    }


def _schemas(sources: Collection[str]) -> dict[str, Schema]:
    message = {
        "role": {**_TEXT, "description": "`user`, `assistant`, `system`, `tool`, or a name."},
        "content": {
            "type": ["string", "array", "null"],
            "description": "Text; or parts, of which those with `text` are joined; or nothing.",
        },
        "meta": _META,
    }
    references = {
        "type": "object",
        "description": "Good replies by turn number, from 0.",
        "propertyNames": {"pattern": f"^{TURN_KEY}$"},
        "additionalProperties": {"type": "array", "items": _TEXT},
    }
    dialogue: dict[str, Schema] = {
        "id": {**_TEXT, "description": "Made from the content if it is missing or empty."},
        "messages": {"type": "array", "items": _ref("Message")},
        "system": _TEXT_OR_NULL,
        "references": references,
        "meta": _META,
    }
    asked: dict[str, Schema] = {
        "dialogues": {"type": "array", "items": _ref("Dialogue")},
        "sources": {
            "type": "array",
            "items": {"type": "string", "enum": list(sources)},
            "minItems": 1,
            "description": "Which of the service's sources to ask; all of them without this.",
        },
    }
    row = {
        "dialogue_id": _TEXT,
        "turn": {"type": ["integer", "null"], "description": "null is the whole dialogue."},
        "system": _TEXT_OR_NULL,
        "source": {"type": "string", "enum": list(sources)},
        "dimension": _TEXT,
        "value": {"type": ["number", "null"], "description": "null is unscored; the note says why."},
        "note": _TEXT_OR_NULL,
    }
    scored = _object({"id": _TEXT, "scores": {"type": "array", "items": _ref("Score")}})
    signatures = {"type": "object", "additionalProperties": _TEXT}
    return {
        "Message": _object(message, "role", "content", additionalProperties=True),
        "Dialogue": _object(dialogue, "messages"),
        "Request": _object(asked, "dialogues", example=_EXAMPLE),
        "Score": _object(row),
        "Answer": _object(
            {"dialogues": {"type": "array", "items": scored}, "signatures": signatures},
            description="One item for each dialogue, in the order asked.",
        ),
        "Source": _object(
            {
                "source": _TEXT,
                "metric": _TEXT,
                "what": _TEXT,
                "dimensions": {"type": "array", "items": _TEXT},
                "better": {
                    "type": ["string", "object"],
                    "description": "higher, lower or neither; or that for some dimensions.",
                },
                "fields": {"type": "object"},
                "signature": _TEXT,
            }
        ),
        "Error": _object({"error": _TEXT, "field": _TEXT_OR_NULL, "fix": _TEXT_OR_NULL}),
        "Health": _object({"status": {"const": "ok"}, "dialeval": _TEXT}),
    }


_EXAMPLE: Schema = {
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
    503: "Too many requests wait already; come again after `Retry-After` seconds.",
    504: "Not scored in time; a smaller request may be.",
}
_RETRY = {"Retry-After": {"schema": {"type": "integer"}}}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _answers(good: Schema, *statuses: int) -> dict[str, Any]:
    found = {"200": {"description": "Fine.", "content": good}}
    for status in statuses:
        found[str(status)] = {
            "description": _ERRORS[status],
            "content": {"application/json": {"schema": _ref("Error")}},
            **({"headers": _RETRY} if status == 503 else {}),
        }
    return found


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def document(sources: Collection[str], limits: Limits, *, token: bool) -> dict[str, Any]:
    """Describe a service that has these sources.

    Args:
        sources: Their names.
        limits: What is refused.
        token: Whether everything but `/health` needs the token.
    """
    locked = (401,) if token else ()
    common = (*locked, 408, 413, 421, 500)
    listed = _object({"sources": {"type": "array", "items": _ref("Source")}})

    def read(name: str, about: str, good: Schema, *statuses: int) -> Schema:
        return {"get": {"operationId": name, "summary": about, "responses": _answers(good, *statuses)}}

    score = {
        "operationId": "score",
        "summary": f"Score dialogues: at most {limits.turns} turns and {limits.body} bytes.",
        "requestBody": {"required": True, "content": _json(_ref("Request"))},
        "responses": _answers(_json(_ref("Answer")), 400, *common, 415, 422, 503, 504),
    }
    health = read("health", "Whether the service answers.", _json(_ref("Health")), 408, 413, 421, 500)
    health["get"]["security"] = []
    made: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "dialeval",
            "version": __version__,
            "description": "Scores for dialogues, turn by turn.",
        },
        "paths": {
            "/health": health,
            "/score": {"post": score},
            "/sources": read("sources", "What can be asked for.", _json(listed), *common),
            "/metrics": read(
                "metrics", "Figures for Prometheus.", {"text/plain": {"schema": _TEXT}}, *common
            ),
            "/openapi.json": read("openapi", "This document.", _json({"type": "object"}), *common),
        },
        "components": {"schemas": _schemas(sources)},
    }
    if token:
        made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{"token": []}]
    return made
