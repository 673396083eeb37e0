"""Contexts: what was said before a turn, and a reply put in the place of what was said there.

In *static context* a system answers every turn that it is to play, and each time the context is what people
said, never what the system said before. One reply is then one dialogue: the context and the reply, under the
name of the dialogue and the turn (`d1@turn-3`), so that the answers of several systems stand side by side and
everything that belongs to one conversation can be told from its name. Only the reply is scored.

What a system said in place of the logged replies: the usual file of predictions, put into the dialogues.

A file is a JSON object, `{"mul0003": [{"response": "…"}, …], …}`, with a response (or just its text) for
each reply of the dialogue, in order; ids may be written as any file of MultiWOZ writes them. Users say what
they said in the log, so a system's dialogue is its replies between the logged user turns, and `references`
hold the logged replies.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dialeval.dialogues import formats
from dialeval.dialogues.datasets.task_oriented import canonical_id
from dialeval.dialogues.dialogue import Dialogue, Turn, clean_turn, context_of, scored_turns, takes_part

FAILED = "failed"
_NAME = re.compile(r"(?P<dialogue>.*)@turn-(?P<turn>\d{1,9})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Context:
    """The turns that a system is to answer.

    Attributes:
        turns: All turns so far, in their places, system prompts and tools' answers among them.
        speaker: Whose part the system plays.
        dialogue_id: The dialogue it comes from; None for a conversation that is being held.
        turn: The number of the turn that is to be answered.
    """

    turns: tuple[Turn, ...]
    speaker: str = "assistant"
    dialogue_id: str | None = None
    turn: int | None = None

    @property
    def said(self) -> tuple[Turn, ...]:
        """The turns of those who take part, without blank ones."""
        return tuple(turn for turn in self.turns if takes_part(turn) and turn.text.strip())

    @property
    def name(self) -> str:
        """The id of a dialogue that holds a reply to this."""
        return f"{self.dialogue_id}@turn-{self.turn}"


def contexts(dialogues: Iterable[Dialogue], speaker: str | None = None) -> Iterator[Context]:
    """Yield what is to be answered: the context of every turn that would be scored.

    >>> from dialeval.dialogues import dialogue
    >>> turns = [("user", "Hi"), ("assistant", "Hello"), ("user", "So?"), ("assistant", "Well.")]
    >>> [(one.name, len(one.turns)) for one in contexts([dialogue(turns, "d1")])]
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
    """Put a reply behind its context; without one, `failed` says why, and the turn is empty.

    >>> made = answered(Context((Turn("user", "Hi"),), "assistant", "d1", 1), "Hello!", "bot", {})
    >>> made.id, made.turns[-1].text, made.meta
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
    note = dialogue.turns[-1].meta.get("note") if dialogue.turns else None
    return (
        note.removeprefix(f"{FAILED}: ") if isinstance(note, str) and note.startswith(f"{FAILED}: ") else None
    )


def place_of(dialogue: Dialogue, turn: int) -> tuple[str, int]:
    """Return the dialogue and turn that votes were cast at for a turn: its own, or those of its context."""
    place = dialogue.meta.get("context")
    if isinstance(place, dict) and isinstance(place.get("dialogue"), str) and type(place.get("turn")) is int:
        return place["dialogue"], place["turn"]
    return dialogue.id, turn


def conversation_of(name: str) -> str:
    """Return the conversation that an id belongs to: replies at several turns of one are not independent.

    >>> conversation_of("d1@turn-3"), conversation_of("d1")
    ('d1', 'd1')
    """
    found = _NAME.fullmatch(name) if "@turn-" in name else None
    return found["dialogue"] if found else name


@dataclass(frozen=True)
class SystemReplies:
    """A system's dialogues, and what of its file did not fit the logged ones."""

    system: str
    dialogues: list[Dialogue]
    missing: int
    """Logged dialogues that the file does not hold."""
    unknown: int
    """Dialogues of the file that are not among the logged ones."""
    short: int
    """Replies that the file does not have; their turns are empty."""
    extra: int
    """Replies that no logged turn is there for."""


def system_replies(path: str | Path, logged: Sequence[Dialogue], system: str | None = None) -> SystemReplies:
    """Read what a system said and put it into logged dialogues; it is called as the file, unless named."""
    path = Path(path)
    found = formats.read(path, format="predictions")
    by_id = {canonical_id(one.id): [turn.text for turn in one.turns] for one in found}
    name = system or path.name.removesuffix(".gz").removesuffix(".json")
    made, short, extra = list[Dialogue](), 0, 0
    for dialogue in logged:
        texts = by_id.get(canonical_id(dialogue.id))
        if texts is None:
            continue
        turns = scored_turns(dialogue)
        short += max(0, len(turns) - len(texts))
        extra += max(0, len(texts) - len(turns))
        made.append(_with(dialogue, name, dict(zip(turns, texts, strict=False)), turns))
    known = {canonical_id(dialogue.id) for dialogue in logged}
    return SystemReplies(name, made, len(logged) - len(made), len(by_id.keys() - known), short, extra)


def _with(dialogue: Dialogue, system: str, texts: dict[int, str], turns: Sequence[int]) -> Dialogue:
    said = tuple(
        Turn(turn.speaker, texts.get(number, "")) if number in turns else turn
        for number, turn in enumerate(dialogue.turns)
    )
    references = {number: [dialogue.turns[number].text] for number in turns}
    return msgspec.structs.replace(dialogue, turns=said, system=system, references=references)
