"""Contexts: what was said before a turn, and a reply put in the place of what was said there.

In *static context* a system answers every turn that it is to play, and each time the context is what people
said, never what the system said before. One reply is then one dialogue: the context and the reply, under the
name of the dialogue and the turn (`d1@turn-3`), so that the answers of several systems stand side by side and
everything that belongs to one conversation can be told from its name. Only the reply is scored.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dialeval.dialogues.dialogue import Dialogue, Turn, clean_turn, context_of, scored_turns, takes_part

FAILED = "failed"
_NAME = re.compile(r"(?P<dialogue>.*)@turn-(?P<turn>\d{1,9})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Context:
    """What a system is to answer.

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
        """What was said by those who take part, but for blank turns."""
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
