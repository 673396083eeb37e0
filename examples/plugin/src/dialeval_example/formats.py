"""A format: a call centre that writes {"call": "c7", "lines": [["agent", "Hello!"], ["customer", "Hi!"]]}."""

from typing import Any

from dialeval import Dialogue, dialogue
from dialeval.dialogues.formats import RecordShape

_ROLES = {"agent": "assistant", "customer": "user"}


def _dialogue_of(record: dict[str, Any]) -> Dialogue:
    return dialogue([(_ROLES.get(who, who), text) for who, text in record["lines"]], record["call"])


CALLS = RecordShape(
    name="calls",
    what="call centre: lines of speaker and text",
    keys=("call", "lines"),
    matches=lambda record: "call" in record and isinstance(record.get("lines"), list),
    parse=_dialogue_of,
)
