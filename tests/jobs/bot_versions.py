"""Two versions of a help desk's bot, and four ways in which a release may go wrong, on forty written chats.

Each chat is a problem of a customer: the bot asks back, the customer says a detail, the bot answers at
length with Markdown, the customer asks on, the bot answers with the detail in mind.
"""

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from dialeval.dialogues import Dialogue, dialogue

_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_CASES = _TEXTS["cases"]
_SAID = ("problem", "asked", "detail", "long", "more", "answer")


def chats(change: Callable[[int, int, str], str] | None = None, name: str = "") -> Iterator[Dialogue]:
    """Make the forty chats; `change` gets the number of the chat, of its case, and both late replies."""
    for number in range(40):
        case, turn = number % 4, number // 4
        facts = {"x": 7 * number + 301, "d": _CASES[case]["details"][turn]}
        filled = [_CASES[case][what].format(**facts) for what in _SAID]
        if change is not None:
            filled[3], filled[5] = (change(number, case, reply) for reply in (filled[3], filled[5]))
        roles = ["user", "assistant"] * 3
        yield dialogue(list(zip(roles, filled, strict=True)), f"{name}{number:02}", system=name or None)


def forgetful(number: int, case: int, reply: str) -> str:
    """In every third chat, ask again for what the customer has said."""
    return str(_CASES[case]["forgets"]) if number % 3 == 0 else reply


def emptied(number: int, case: int, reply: str) -> str:
    """Say nothing in every second chat."""
    return "" if number % 2 == 0 else reply


def cut_off(number: int, case: int, reply: str) -> str:
    """Stop after sixty words."""
    return " ".join(reply.split(" ")[:60])


def concise(number: int, case: int, reply: str) -> str:
    """Answer correctly in a sentence."""
    if len(reply.split()) < 40:
        return reply
    short: str = _CASES[case]["short"].format(d=_CASES[case]["details"][number // 4])
    return short


def marketing(number: int, case: int, reply: str) -> str:
    """Praise the house in place of an answer."""
    return str(_TEXTS["praise"])
