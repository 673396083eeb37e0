"""Implicit feedback on a reply: the next turn of the user, and whether the user went on after it.

These signals need neither labels nor a model; `models.reactions` classifies the user's reaction.
"""

import functools
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from dialeval.dialogues.dialogue import Dialogue, Turn, says_something

ENDED = ("ended", "end", "stop", "stopped", "hung_up")
"""Fields of a user turn's meta by which a log marks the end of the dialogue."""
_ENDS = " .,;:!?-\"'()"
_STOP = re.compile(
    r"(please |just |okay |ok |now )*"
    r"(stop( it| that| talking| (the |this )?(chat|conversation|talk|game))?|quit|exit|cancel|shut up|"
    r"be quiet|turn off|end( (the |this )?(chat|conversation|call))?|hang up|i('m| am) (done|leaving|out)|"
    r"i (have|need|got|want) to (go|leave|stop)( now)?|leave me alone|"
    r"(i )?(don't|do not) want to (talk|chat)( to you)?( anymore| any more)?|"
    r"(good ?)?bye( bye)?|good ?night|talk to you later|see (you|ya)( later)?)"
    r"( now| please| then)*"
)


class Next(NamedTuple):
    """The user's next turn after a reply, if there is one, and whether the user went on after it."""

    turn: int | None
    goes_on: bool


def next_turns(dialogue: Dialogue) -> list[Next]:
    """Return for every turn the next one of another speaker, and whether that speaker went on after it.

    The user ends a dialogue with a last turn, with an explicit "stop", or where the log says so.

    >>> from dialeval.dialogues.dialogue import dialogue
    >>> chat = dialogue([("user", "Hi"), ("assistant", "Hi. Cats?"), ("user", "no"), ("assistant", "Dogs?"),
    ...     ("user", "Stop it!"), ("assistant", "Bye.")])
    >>> [tuple(next_turns(chat)[turn]) for turn in (1, 3, 5)]
    [(2, True), (4, False), (None, False)]
    """
    nexts: list[Next] = []
    following: int | None = None  # the next spoken turn, and the next one by another speaker than its own
    following_other: int | None = None
    speaks_again: dict[str, bool] = {}
    goes_on: dict[int, bool] = {}
    for number in range(len(dialogue.turns) - 1, -1, -1):
        turn = dialogue.turns[number]
        same = following is not None and dialogue.turns[following].speaker == turn.speaker
        answer = following_other if same else following
        nexts.append(Next(answer, answer is not None and goes_on[answer]))
        if says_something(turn):
            goes_on[number] = speaks_again.get(turn.speaker, False) and not ends_here(turn)
            speaks_again[turn.speaker] = True
            following, following_other = number, answer
    return nexts[::-1]


def ends_here(turn: Turn) -> bool:
    """Return whether a user turn ends the dialogue, by its words or by its meta.

    >>> ends_here(Turn("user", "please stop talking")), ends_here(Turn("user", "the bus stop was empty"))
    (True, False)
    """
    if turn.meta and any(turn.meta.get(name) is True for name in ENDED):
        return True
    return _says_stop(turn.text)


@functools.lru_cache(maxsize=1 << 14)
def _says_stop(text: str) -> bool:
    return _STOP.fullmatch(text.lower().replace("\u2019", "'").strip(_ENDS)) is not None


def logged_sentiment(meta: Mapping[str, Any], field: str, low: float, high: float) -> float | None:
    """Return a logged sentiment of a user turn (a speech model's, thumbs, a rating), scaled to -3 to 3.

    Args:
        meta: The meta of the user's turn.
        field: The field of the sentiment.
        low: The lowest value of the field; becomes -3.
        high: The highest value; becomes 3.

    >>> logged_sentiment({"csat": 4}, "csat", 1, 5), logged_sentiment({"thumbs": False}, "thumbs", 0, 1)
    (1.5, -3.0)
    """
    value = meta.get(field)
    if isinstance(value, bool):
        return 3.0 if value else -3.0
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    share = (min(max(float(value), low), high) - low) / (high - low)
    return 6.0 * share - 3.0
