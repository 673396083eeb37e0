"""What was said: a dialogue is a sequence of turns, and a turn's number is its place among all of them."""

import hashlib
import unicodedata
from collections.abc import Mapping
from typing import Any

import msgspec

Meta = Mapping[str, Any]


class Turn(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """One message of a dialogue.

    A `msgspec.Struct` rather than a dataclass: as frozen and slotted, and a log of a gigabyte is decoded
    straight into it. On disk the fields are called as in every chat log: `role` and `content`.

    >>> Turn("user", "Hi!").text
    'Hi!'
    """

    speaker: str = msgspec.field(name="role")
    text: str = msgspec.field(name="content")
    meta: dict[str, Any] = {}


class Dialogue(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A dialogue: who spoke in which order, which system it was, and human references for some turns.

    >>> chat = Dialogue("d1", (Turn("user", "Hi!"), Turn("assistant", "Hello, how are you?")), system="bot")
    >>> scored_turns(chat)
    [1]
    """

    id: str
    turns: tuple[Turn, ...] = msgspec.field(name="messages")
    system: str | None = None
    references: dict[int, list[str]] = {}
    meta: dict[str, Any] = {}


def dialogue(
    turns: list[tuple[str, str | None]] | list[Turn],
    id: str | None = None,  # the word of the file format
    *,
    system: str | None = None,
    references: Mapping[int, list[str]] | None = None,
    meta: Meta | None = None,
) -> Dialogue:
    """Build a dialogue from (speaker, text) pairs, with clean text and an id made from the content.

    >>> dialogue([("user", "Hi!"), ("assistant", "Hello!")]).id
    '720f8fca939b132a'
    """
    clean = tuple(turn if isinstance(turn, Turn) else clean_turn(*turn) for turn in turns)
    kept = {number: [clean_text(text)[0] for text in texts] for number, texts in (references or {}).items()}
    made = Dialogue(id or "", clean, system, kept, dict(meta or {}))
    return made if id else msgspec.structs.replace(made, id=content_id(made))


def clean_turn(speaker: str, text: str | None, meta: Meta | None = None) -> Turn:
    """Build a turn whose text is NFC and valid; what had to be changed is noted in `meta["note"]`."""
    if text is None:
        return Turn(speaker, "", {**(meta or {}), "note": "no text"})
    clean, note = clean_text(text)
    return Turn(speaker, clean, {**(meta or {}), **({"note": note} if note else {})})


def clean_text(text: str) -> tuple[str, str | None]:
    r"""Compose to NFC and replace lone surrogates; never strip or lower-case.

    >>> clean_text("cafe\u0301")
    ('café', None)
    >>> clean_text("a\ud800b")
    ('a�b', 'lone surrogate replaced')
    """
    if text.isascii():
        return text, None
    note = None
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        note = "lone surrogate replaced"
    return unicodedata.normalize("NFC", text), note


def storable(made: Dialogue) -> Dialogue:
    r"""Replace lone surrogates in meta, which no file could hold; a dialogue without any stays as it is.

    >>> storable(Dialogue("d", (), meta={"seen\ud800": ["\ud800"]})).meta
    {'seen�': ['�']}
    """
    try:
        msgspec.json.encode(made)
    except UnicodeEncodeError:
        turns = [msgspec.structs.replace(turn, meta=_sound(turn.meta)) for turn in made.turns]
        return msgspec.structs.replace(made, turns=tuple(turns), meta=_sound(made.meta))
    return made


def _sound(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)[0]
    if isinstance(value, Mapping):
        return {_sound(key): _sound(inner) for key, inner in value.items()}
    return [_sound(inner) for inner in value] if isinstance(value, list | tuple) else value


def content_id(made: Dialogue) -> str:
    """Return the id of a dialogue that came without one: 16 hex digits over its canonical JSON."""
    plain = msgspec.to_builtins(msgspec.structs.replace(made, id=""), str_keys=True)
    plain.pop("id")
    return hashlib.sha256(msgspec.json.encode(plain, order="deterministic")).hexdigest()[:16]


def scored_turns(dialogue: Dialogue, speaker: str | None = None) -> list[int]:
    """Return the numbers of the turns that metrics score.

    By default the assistant's turns that follow something; where nobody is called `assistant` (two
    people), every turn but the first. A dialogue whose meta has `scored` (a reply to a fixed context has)
    says itself which turns are meant. A `speaker` overrides all: that speaker's turns that follow something.

    >>> scored_turns(dialogue([("A", "Hi"), ("B", "Hi"), ("A", "So?")]))
    [1, 2]
    >>> scored_turns(dialogue([("A", "Hi"), ("B", "Hi"), ("A", "So?")]), speaker="A")
    [2]
    >>> scored_turns(dialogue([("A", "Hi"), ("B", "Hi"), ("A", "So?")], meta={"scored": [2]}))
    [2]
    """
    if speaker is None and isinstance(named := dialogue.meta.get("scored"), list):
        return [number for number in range(len(dialogue.turns)) if number in named]
    wanted = speaker or "assistant"
    numbers = [number for number, turn in enumerate(dialogue.turns) if number and turn.speaker == wanted]
    if numbers or speaker or any(turn.speaker == wanted for turn in dialogue.turns):
        return numbers
    return list(range(1, len(dialogue.turns)))


def takes_part(turn: Turn) -> bool:
    """Say whether a turn is part of the conversation; a system prompt or a tool's answer is not."""
    return turn.speaker not in ("system", "tool")


def context_of(dialogue: Dialogue, turn: int) -> tuple[Turn, ...]:
    """Return what was said before a turn, system prompts and tools' answers left out."""
    return tuple(filter(takes_part, dialogue.turns[:turn]))
