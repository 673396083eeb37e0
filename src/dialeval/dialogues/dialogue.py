"""The data model: a dialogue is a sequence of turns, and a turn's number is its index among all of them."""

import hashlib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

import msgspec

Meta = Mapping[str, Any]
T = TypeVar("T")


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A call of a tool: its name, the arguments (the text as logged where it is no JSON object), its id."""

    name: str
    arguments: dict[str, Any] | str = {}
    id: str | None = None


class Passage(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A text that was available to a reply: a retrieved passage, a document, a policy, a tool's result."""

    text: str
    source: str | None = None


class Turn(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """One message of a dialogue.

    A `msgspec.Struct` rather than a dataclass: as frozen and slotted, and a log of a gigabyte is decoded
    straight into it. On disk the fields are called as in every chat log: `role` and `content`.

    Attributes:
        speaker: `user`, `assistant`, `system`, `tool`, or a person's name.
        text: The words of the message; for a tool, its result.
        meta: Everything without a field of its own.
        tool_calls: The tools that this message calls.
        tool_call_id: For a tool's result, the id of its call.
        name: The tool's name, or a person's.
        evidence: Passages that were available to this reply.
        finish_reason: Why generation ended, as logged: `stop`, `length`, `content_filter`, …
        time: When it was sent, ISO 8601.
        model: The model that wrote it.
        feedback: The user's feedback: `thumbs` 0 or 1, `rating`, `resolved` 0 or 1, …
        language: ISO 639-1 code, where it is known.

    >>> Turn("user", "Hi!").text
    'Hi!'
    """

    speaker: str = msgspec.field(name="role")
    text: str = msgspec.field(name="content")
    meta: dict[str, Any] = {}
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    evidence: tuple[Passage, ...] = ()
    finish_reason: str | None = None
    time: str | None = None
    model: str | None = None
    feedback: dict[str, float] = {}
    language: str | None = None


class Dialogue(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A dialogue: its turns in order, the system, and human references for some turns.

    Attributes:
        id: Its name; on disk it may be missing, and is then made from the content.
        turns: The messages in order; on disk `messages`.
        system: The system that talks in it.
        references: Human replies, by the number of the turn that they stand for.
        meta: Everything without a field of its own.
        instructions: A system prompt that is not one of the messages (`instructions_of` returns either).
        evidence: Passages that were available to all replies.
        feedback: The user's feedback on the dialogue as a whole.
        language: ISO 639-1 code, where it is known.

    >>> chat = Dialogue("d1", (Turn("user", "Hi!"), Turn("assistant", "Hello, how are you?")), system="bot")
    >>> scored_turns(chat)
    [1]
    """

    id: str
    turns: tuple[Turn, ...] = msgspec.field(name="messages")
    system: str | None = None
    references: dict[int, list[str]] = {}
    meta: dict[str, Any] = {}
    instructions: str | None = None
    evidence: tuple[Passage, ...] = ()
    feedback: dict[str, float] = {}
    language: str | None = None


def dialogue(
    turns: Iterable[Turn | tuple[str, str | None] | Meta],
    id: str | None = None,  # the word of the file format
    *,
    system: str | None = None,
    references: Mapping[int, list[str]] | None = None,
    meta: Meta | None = None,
    instructions: str | None = None,
    evidence: Iterable[Passage | str] = (),
    feedback: Mapping[str, float] | None = None,
) -> Dialogue:
    """Build a dialogue from (speaker, text) pairs or messages: clean text, an id made from the content.

    >>> dialogue([("user", "Hi!"), ("assistant", "Hello!")]).id
    '720f8fca939b132a'
    >>> dialogue([{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello!"}]).id
    '720f8fca939b132a'
    """
    built = Dialogue(
        id or "",
        tuple(turn for number, message in enumerate(turns) for turn in _turns_of(message, number)),
        system,
        {number: [clean_text(text)[0] for text in texts] for number, texts in (references or {}).items()},
        dict(meta or {}),
        instructions,
        tuple(passage if isinstance(passage, Passage) else Passage(passage) for passage in evidence),
        dict(feedback or {}),
    )
    return built if id else msgspec.structs.replace(built, id=content_id(built))


def _turns_of(message: Turn | tuple[str, str | None] | Meta, number: int) -> list[Turn]:
    if isinstance(message, Turn):
        return [message]
    if isinstance(message, Mapping):
        from dialeval.dialogues.formats.messages import parse_message

        return parse_message(message, number)
    return [clean_turn(*message)]


def clean_turn(speaker: str, text: str | None, meta: Meta | None = None) -> Turn:
    """Build a turn whose text is NFC and valid Unicode; a repair is noted in `meta["note"]`."""
    if text is None:
        return Turn(speaker, "", {**(meta or {}), "note": "no text"})
    clean, note = clean_text(text)
    return Turn(speaker, clean, {**(meta or {}), **({"note": note} if note else {})})


def clean_text(text: str) -> tuple[str, str | None]:
    r"""Return a text in NFC without lone surrogates, and a note if it had any; nothing is stripped.

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


def storable(dialogue: Dialogue) -> Dialogue:
    r"""Replace lone surrogates, which UTF-8 cannot encode; a dialogue without any is returned unchanged.

    >>> storable(Dialogue("d", (), meta={"key\ud800": ["\ud800"]})).meta
    {'key�': ['�']}
    """
    try:
        msgspec.json.encode(dialogue)
    except UnicodeEncodeError:
        return msgspec.convert(_sound(msgspec.to_builtins(dialogue)), Dialogue)
    return dialogue


def _sound(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)[0]
    if isinstance(value, Mapping):
        return {_sound(key): _sound(inner) for key, inner in value.items()}
    return [_sound(inner) for inner in value] if isinstance(value, list | tuple) else value


def content_id(dialogue: Dialogue) -> str:
    """Return the id of a dialogue that came without one: 16 hex digits over its canonical JSON."""
    plain = msgspec.to_builtins(msgspec.structs.replace(dialogue, id=""), str_keys=True)
    plain.pop("id")
    return hashlib.sha256(msgspec.json.encode(plain, order="deterministic")).hexdigest()[:16]


def is_step(turn: Turn) -> bool:
    """Return whether a message only calls tools: a step before a reply, not an empty reply.

    >>> is_step(Turn("assistant", "", tool_calls=(ToolCall("search", {"query": "refunds"}),)))
    True
    """
    return bool(turn.tool_calls) and not turn.text.strip()


def takes_part(turn: Turn) -> bool:
    """Return whether a turn is part of the conversation: no system prompt, tool call or tool result."""
    return turn.speaker not in ("system", "tool") and not is_step(turn)


def says_something(turn: Turn) -> bool:
    """Return whether a turn is part of the conversation and not blank."""
    return takes_part(turn) and bool(turn.text.strip())


def scored_turns(dialogue: Dialogue, speaker: str | None = None) -> list[int]:
    """Return the numbers of the turns that metrics score.

    By default these are the assistant's turns except an opening one; without a speaker `assistant` (two
    people), every turn but the first that is no `user`'s. A list `scored` in the dialogue's meta (as for a
    reply to a fixed context) replaces them. A `speaker` overrides both: that speaker's turns except an
    opening one.
    A message that only calls a tool is not a reply, nor is a tool's result or a system prompt.

    >>> scored_turns(dialogue([("A", "Hi"), ("B", "Hi"), ("A", "So?")]))
    [1, 2]
    >>> scored_turns(dialogue([("A", "Hi"), ("B", "Hi"), ("A", "So?")]), speaker="A")
    [2]
    >>> scored_turns(dialogue([("A", "Hi"), ("B", "Hi"), ("A", "So?")], meta={"scored": [2]}))
    [2]
    >>> scored_turns(dialogue([("user", "Hi"), ("HelpBot", "Hi"), ("user", "So?")]))
    [1]
    """
    if speaker is None and isinstance(listed := dialogue.meta.get("scored"), list):
        return [number for number in range(len(dialogue.turns)) if number in listed]
    name = speaker or "assistant"
    if speaker or any(turn.speaker == name for turn in dialogue.turns):
        numbers = (number for number, turn in enumerate(dialogue.turns) if number and turn.speaker == name)
        return [number for number in numbers if not is_step(dialogue.turns[number])]
    answers = (takes_part(turn) and turn.speaker != "user" for turn in dialogue.turns)
    return [number for number, answer in enumerate(answers) if number and answer]


def context_of(dialogue: Dialogue, turn: int) -> tuple[Turn, ...]:
    """Return the turns before a turn, without system prompts, tool calls and their results."""
    return tuple(filter(takes_part, dialogue.turns[:turn]))


def steps_before(dialogue: Dialogue, turn: int) -> list[int]:
    """Return the tool calls and results right before a turn: those since the last spoken turn.

    >>> call = Turn("assistant", "", tool_calls=(ToolCall("stock", {"item": "lamp"}, "c1"),))
    >>> context = [Turn("user", "Any lamps?"), call, Turn("tool", "3 left", tool_call_id="c1")]
    >>> steps_before(dialogue([*context, Turn("assistant", "Three.")]), 3)
    [1, 2]
    """
    first = turn
    while first and not takes_part(dialogue.turns[first - 1]):
        first -= 1
    return [number for number in range(first, turn) if dialogue.turns[number].speaker != "system"]


def instructions_of(dialogue: Dialogue) -> str | None:
    """Return the system prompt: the dialogue's own, then those among its messages; None without any.

    >>> instructions_of(dialogue([("system", "Be brief."), ("user", "Hi!")]))
    'Be brief.'
    """
    messages = [turn.text for turn in dialogue.turns if turn.speaker == "system" and turn.text.strip()]
    return "\n\n".join([*([dialogue.instructions] if dialogue.instructions else ()), *messages]) or None


def evidence_before(dialogue: Dialogue, turn: int) -> list[Passage]:
    """Return the evidence that was available to a reply, in order.

    That is the dialogue's evidence, every tool result before the reply, the passages of the user turn or the
    steps right before it, and its own. Passages of earlier replies are not included: a system that retrieves
    for each reply no longer has those.

    >>> turns = [("user", "Fee?"), ("tool", "fee: 5"), ("assistant", "5.")]
    >>> chat = dialogue(turns, evidence=["Fees are fixed."])
    >>> [passage.text for passage in evidence_before(chat, 2)]
    ['Fees are fixed.', 'fee: 5']
    """
    passages, last = list(dialogue.evidence), _reply_before(dialogue, turn)
    for number, message in enumerate(dialogue.turns[: turn + 1]):
        passages += message.evidence if number > last else ()
        if message.speaker == "tool" and number < turn and message.text.strip():
            passages.append(Passage(message.text, message.name))
    return passages


def fresh_evidence(dialogue: Dialogue, turn: int) -> bool:
    """Whether evidence came in for a reply, after the reply before it, or holds for the whole dialogue.

    >>> turns = [("user", "Fee?"), ("tool", "fee: 5"), ("assistant", "5."), ("user", "A"), ("assistant", "B")]
    >>> [fresh_evidence(dialogue(turns), turn) for turn in (2, 4)]
    [True, False]
    """
    messages = dialogue.turns[_reply_before(dialogue, turn) + 1 : turn + 1]
    return bool(dialogue.evidence) or any(
        message.evidence or (message.speaker == "tool" and message.text.strip()) for message in messages
    )


def _reply_before(dialogue: Dialogue, turn: int) -> int:
    """Return the number of the reply before a turn, steps aside; -1 if there is none."""
    replies = [number for number in range(turn) if dialogue.turns[number].speaker == "assistant"]
    return next((number for number in reversed(replies) if not is_step(dialogue.turns[number])), -1)


def in_blocks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield a stream, of dialogues for example, as lists of at most `size`.

    >>> list(in_blocks("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    stream = iter(items)
    while block := list(islice(stream, size)):
        yield block
