"""What a system said in place of the logged replies: the usual file of predictions, put into the dialogues.

A file is a JSON object, `{"mul0003": [{"response": "…"}, …], …}`, with a response (or just its text) for
each reply of the dialogue, in order; ids may be written as any file of MultiWOZ writes them. Users say what
they said in the log, so a system's dialogue is its replies between the logged user turns, and `references`
hold the logged replies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dialeval.dialogues import formats
from dialeval.dialogues.datasets.multiwoz import canonical_id
from dialeval.dialogues.dialogue import Dialogue, Turn, scored_turns


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
