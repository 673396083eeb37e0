"""Contexts of logged dialogues, and systems' replies put in the place of the logged ones.

In *static context* a system answers every turn of its speaker, and the context is always the logged one,
never the system's own earlier replies. Each reply becomes a dialogue: the context and the reply, named after
the dialogue and the turn (`d1@turn-3`), so that replies of several systems can be compared and grouped by
conversation. Only the reply is scored.

A file of predictions is a JSON object, `{"mul0003": [{"response": "…"}, …], …}`, with a response (or just its
text) for each reply of the dialogue, in order; ids may be spelt as in any file of MultiWOZ. A system's
dialogue is its replies between the logged user turns, and `references` hold the logged replies.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dialeval.dialogues import formats
from dialeval.dialogues.datasets.task_oriented import canonical_id
from dialeval.dialogues.dialogue import Dialogue, Turn, clean_turn, context_of, says_something, scored_turns

FAILED = "failed"
_NAME = re.compile(r"(?P<dialogue>.*)@turn-(?P<turn>\d{1,9})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Context:
    """The turns that a system replies to.

    Attributes:
        turns: All turns so far, including system prompts and tool results.
        speaker: The speaker that the system plays.
        dialogue_id: The dialogue it comes from; None for a live conversation.
        turn: The number of the turn to write.
    """

    turns: tuple[Turn, ...]
    speaker: str = "assistant"
    dialogue_id: str | None = None
    turn: int | None = None

    @property
    def said(self) -> tuple[Turn, ...]:
        """The turns of those who take part, without blank ones."""
        return tuple(turn for turn in self.turns if says_something(turn))

    @property
    def name(self) -> str:
        """The id of the dialogue that holds a reply to this context."""
        return f"{self.dialogue_id}@turn-{self.turn}"


def contexts(dialogues: Iterable[Dialogue], speaker: str | None = None) -> Iterator[Context]:
    """Yield the context of every scored turn.

    >>> from dialeval.dialogues import dialogue
    >>> turns = [("user", "Hi"), ("assistant", "Hello"), ("user", "So?"), ("assistant", "Well.")]
    >>> [(context.name, len(context.turns)) for context in contexts([dialogue(turns, "d1")])]
    [('d1@turn-1', 1), ('d1@turn-3', 3)]
    """
    for dialogue in dialogues:
        for number in scored_turns(dialogue, speaker):
            if context_of(dialogue, number):
                place = place_of(dialogue, number)
                yield Context(dialogue.turns[:number], dialogue.turns[number].speaker, *place)


def answered(
    context: Context, text: str | None, system: str, meta: dict[str, Any], failed: str | None = None
) -> Dialogue:
    """Return the dialogue of a context and its reply; `failed` is why there is none, and the turn is empty.

    >>> chat = answered(Context((Turn("user", "Hi"),), "assistant", "d1", 1), "Hello!", "bot", {})
    >>> chat.id, chat.turns[-1].text, chat.meta
    ('d1@turn-1', 'Hello!', {'scored': [1], 'context': {'dialogue': 'd1', 'turn': 1}})
    """
    if failed is None:
        reply = clean_turn(context.speaker, text)
    else:
        reply = Turn(context.speaker, "", {"note": f"{FAILED}: {failed}"})
    turns = (*context.turns, reply)
    place = {"dialogue": context.dialogue_id, "turn": context.turn}
    return Dialogue(context.name, turns, system, {}, {"scored": [len(turns) - 1], "context": place, **meta})


def failure_of(dialogue: Dialogue) -> str | None:
    """Return why a system gave no reply, or None where it gave one."""
    note, prefix = dialogue.turns[-1].meta.get("note") if dialogue.turns else None, f"{FAILED}: "
    return note.removeprefix(prefix) if isinstance(note, str) and note.startswith(prefix) else None


def place_of(dialogue: Dialogue, turn: int) -> tuple[str, int]:
    """Return the dialogue and turn that votes on a turn refer to: its own, or those of its context."""
    place = dialogue.meta.get("context")
    if isinstance(place, dict) and isinstance(place.get("dialogue"), str) and type(place.get("turn")) is int:
        return place["dialogue"], place["turn"]
    return dialogue.id, turn


def conversation_of(name: str) -> str:
    """Return the conversation that an id belongs to: replies at several turns of one are not independent.

    >>> conversation_of("d1@turn-3"), conversation_of("d1")
    ('d1', 'd1')
    """
    match = _NAME.fullmatch(name) if "@turn-" in name else None
    return match["dialogue"] if match else name


@dataclass(frozen=True)
class SystemReplies:
    """A system's dialogues, and how its file differs from the logged ones."""

    system: str
    dialogues: list[Dialogue]
    missing: int
    """Logged dialogues that are not in the file."""
    unknown: int
    """Dialogues of the file that are not among the logged ones."""
    short: int
    """Replies that are not in the file; their turns are empty."""
    extra: int
    """Replies without a logged turn."""


def system_replies(path: str | Path, logged: Sequence[Dialogue]) -> SystemReplies:
    """Read a file of predictions and put its replies into logged dialogues; the file names the system."""
    path = Path(path)
    predicted = formats.read(path, format="predictions")
    by_id = {
        canonical_id(prediction.id): [turn.text for turn in prediction.turns] for prediction in predicted
    }
    name = path.name.removesuffix(".gz").removesuffix(".json")
    dialogues, short, extra = list[Dialogue](), 0, 0
    for dialogue in logged:
        texts = by_id.get(canonical_id(dialogue.id))
        if texts is None:
            continue
        turns = scored_turns(dialogue)
        short += max(0, len(turns) - len(texts))
        extra += max(0, len(texts) - len(turns))
        dialogues.append(_with(dialogue, name, dict(zip(turns, texts, strict=False)), turns))
    logged_ids = {canonical_id(dialogue.id) for dialogue in logged}
    return SystemReplies(
        name, dialogues, len(logged) - len(dialogues), len(by_id.keys() - logged_ids), short, extra
    )


def _with(dialogue: Dialogue, system: str, texts: dict[int, str], turns: Sequence[int]) -> Dialogue:
    replaced = tuple(
        Turn(turn.speaker, texts.get(number, "")) if number in turns else turn
        for number, turn in enumerate(dialogue.turns)
    )
    references = {number: [dialogue.turns[number].text] for number in turns}
    return msgspec.structs.replace(dialogue, turns=replaced, system=system, references=references)
