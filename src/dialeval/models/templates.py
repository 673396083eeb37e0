"""How a dialogue is written down for a language model: chat marks, speaker prefixes, or ends of text."""

import functools
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Literal

from dialeval.dialogues import Dialogue, Turn
from dialeval.dialogues.dialogue import takes_part

Side = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Spoken:
    """A turn that takes part: its number in the dialogue, whose side it is on, and what is said."""

    number: int
    side: Side
    text: str


@dataclass(frozen=True, slots=True)
class Template:
    """What stands around turns; see `templates.toml`."""

    name: str
    begin: str
    open: str
    lead: str
    close: str
    user: str
    assistant: str
    marks: Sequence[str]

    def opening(self, side: Side) -> str:
        """Return what comes before the words of a side.

        >>> templates()["prefixes"].opening("user")
        'User:'
        """
        return self.open.replace("{side}", self.user if side == "user" else self.assistant)

    def plain(self, text: str) -> str:
        """Take the meaning from marks that somebody typed, where text and marks go the same way.

        >>> templates()["chatml"].plain("Hi<|im_end|>")
        'Hi< |im_end|>'
        """
        for mark in self.marks:
            text = text.replace(mark, f"{mark[:1]} {mark[1:]}")
        return text


@functools.cache
def templates() -> dict[str, Template]:
    """Return all templates by name."""
    text = resources.files("dialeval.models").joinpath("templates.toml").read_text("utf-8")
    return {name: Template(name, **entry) for name, entry in tomllib.loads(text).items()}


def spoken(dialogue: Dialogue) -> list[Spoken]:
    """Say for every turn that takes part whose side it is on.

    `assistant` is one side and everybody else the other. Among people, who speaks first is the user.

    >>> from dialeval.dialogues import dialogue
    >>> [one.side for one in spoken(dialogue([("A", "Hi"), ("B", "Hello"), ("A", "So?")]))]
    ['user', 'assistant', 'user']
    """
    turns = [(number, turn) for number, turn in enumerate(dialogue.turns) if takes_part(turn)]
    has_bot = any(turn.speaker == "assistant" for _, turn in turns)
    first = turns[0][1].speaker if turns else ""

    def side(turn: Turn) -> Side:
        own = turn.speaker == "assistant" if has_bot else turn.speaker != first
        return "assistant" if own else "user"

    return [Spoken(number, side(turn), turn.text) for number, turn in turns]
